"""The lab: what a cell or a script did, op by op, and what is wrong with it.

In a notebook ``%load_ext lab``, then ``%%autograd`` as the first line of a cell. In a script ``with lab.recording() as
rec: ...`` and ``print(rec)``. On the command line ``python -m lab doctor``.
"""

from __future__ import annotations

from typing import Any

from . import prerequisites as _prerequisites
from .console.progress import progress
from .recorder.run_course import log
from .report.tables import compare
from .session.backward_walk import Step, Walk, walk
from .session.gpustat import gpustat
from .session.recording import Recording, last, record, recording
from .shrinking.shrink import shrink
from .training import History, fit
from .training.loading import dataload

__all__ = [
    "History",
    "Recording",
    "Step",
    "Walk",
    "compare",
    "dataload",
    "fit",
    "gpustat",
    "last",
    "load_ipython_extension",
    "log",
    "progress",
    "record",
    "recording",
    "shrink",
    "unload_ipython_extension",
    "walk",
]


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext lab`` calls."""
    from .notebook import tuned_display
    from .notebook.magics import load

    load(shell)
    tuned_display.register(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What ``%unload_ext lab`` calls."""
    from .notebook import tuned_display
    from .notebook.magics import unload

    tuned_display.unregister(shell)
    unload(shell)
