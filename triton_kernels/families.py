"""The kernel families: every file of this folder that says what the compile check compiles.

A family registers itself by defining ``compile_cases``; there is no list that it could be left out of.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cases import Case

_MARK = "\ndef compile_cases("


def names() -> list[str]:
    """Return the modules of the families, by name.

    >>> from triton_kernels import families
    >>> "softmax" in families.names()
    True
    """
    # The text is read, not the module: importing the files that serve the interpreter would mend an interpreter.
    folder = Path(__file__).parent
    return sorted(f.stem for f in folder.glob("*.py") if f.stem != "families" and _MARK in f.read_text("utf-8"))


def modules() -> list[Any]:
    """Return the families, imported."""
    return [importlib.import_module(f".{name}", __package__) for name in names()]


def cases(dtypes: Sequence[str]) -> list[tuple[str, Case]]:
    """Every kernel at every signature that is checked, with its dtype."""
    return [(dtype, case) for dtype in dtypes for module in modules() for case in module.compile_cases(dtype)]
