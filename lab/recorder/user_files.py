"""Whose file a frame runs in, the user's or a library's, and what the user calls it."""

from __future__ import annotations

import dis
import linecache
import os
import sys
import sysconfig
from functools import cache
from types import CodeType, FrameType

from core.base import source

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""What the paths of lab's own files begin with."""

CACHE, CALL = dis.opmap.get("CACHE", -1), dis.opmap.get("CALL", -1)
PRECALL = dis.opmap.get("PRECALL", -1)  # of Python 3.11


def users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame, outwards from `frame`, that is neither core's nor lab's; None where there is none."""
    while frame is not None and (source.is_ours(name := frame.f_code.co_filename) or name.startswith(OURS)):
        frame = frame.f_back
    return frame


def users_place() -> tuple[CodeType, int] | None:
    """Return the instruction of the user's that runs now, by its code and place in it; None where there is none."""
    frame = users_frame(sys._getframe(1))
    return None if frame is None else (frame.f_code, frame.f_lasti)


def instruction(code: CodeType, lasti: int) -> int:
    """Return where the instruction begins that a frame stands at, the same for all its runs.

    While a call runs, its frame points behind it, and elsewhere once Python has specialised it: Python 3.11 splits a
    call in two instructions and may do the second one's work in the first.

    >>> code = compile("float(x)", "", "eval")
    >>> first = code.co_code.index(CALL if PRECALL < 0 else PRECALL)
    >>> {instruction(code, at) for at in range(first, len(code.co_code) - 2, 2)} == {first}
    True
    """
    text, begin = code.co_code, lasti
    while begin > 0 and text[begin] == CACHE:
        begin -= 2
    if text[begin] != CALL:
        return begin
    before = begin - 2
    while before > 0 and text[before] == CACHE:
        before -= 2
    return before if text[before] == PRECALL else begin


@cache
def is_users(file: str) -> bool:
    """Return whether a file is the user's own, and no library's: a cell, or a path outside of what is installed.

    >>> import inspect
    >>> is_users("/home/me/model.py"), is_users(inspect.__file__), is_users("<frozen importlib._bootstrap>")
    (True, False, False)
    """
    if source.name_of_file(file):
        return True
    if file.startswith("<"):
        return file in linecache.cache  # a cell of another kind of notebook, whose text is known
    path = os.path.abspath(file)
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed |= {folder for folder in map(os.path.abspath, sys.path) if _has_packages(folder)}
    return not any(path.startswith(folder + os.sep) for folder in installed if folder) and not source.is_ours(file)


@cache
def _has_packages(folder: str) -> bool:
    """Return whether packages are installed in a folder, as ``pip install --target`` does: it has their metadata."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


def shown_name(file: str) -> str:
    """Return a file as a card names it: a notebook's cell by its number, any other by its last part.

    >>> shown_name("/home/me/model.py")
    'model.py'
    """
    return source.name_of_file(file) or os.path.basename(file)
