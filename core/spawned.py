"""What a process runs first that a program of ``python -m core run`` has started by "spawn": the program's file.

There, too, ``torch`` is core.
"""

from __future__ import annotations

import os

from .alias import SPAWNED, again, as_torch

if SPAWNED in os.environ and __name__ != f"{__package__}.spawned":
    as_torch()
    __file__ = os.environ[SPAWNED]
    again(globals(), __file__)
