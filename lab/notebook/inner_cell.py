"""Runs the cell below a cell magic as the cell that it is, under the number that the notebook shows beside it."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any


def run_inside(shell: Any, text: str) -> None:
    """Run what stands below a cell magic. *Raises*: what it raises.

    IPython counts a cell before it runs it or afterwards, by its version; what is run inside one is given the number
    of the next where it counted before. Errors, outputs and findings would name a cell that is not there. A comment
    stands for the magic's own line, so that lines are counted as the notebook shows them.
    """
    if not text.lstrip().startswith("%%"):
        text = f"#\n{text}"
    number, before = _number(shell), shell.execution_count
    if number is not None:
        shell.execution_count = number
    try:
        result = shell.run_cell(text, store_history=False)
    finally:
        shell.execution_count = before
    result.raise_error()


def _number(shell: Any) -> int | None:
    """Return the number of the cell that runs now; None where no cell does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        try:
            found = shell.compile.format_code_name(frame.f_code.co_filename)
        except Exception:  # another compiler than IPython's
            return None
        digits = re.search(r"\d+", found[1]) if found else None
        if digits:
            return int(digits[0])
        frame = frame.f_back
    return None
