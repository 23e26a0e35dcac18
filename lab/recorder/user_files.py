"""Whose file a frame runs in, the user's or a library's, and what the user calls it."""

from __future__ import annotations

import linecache
import os
import sysconfig
from functools import cache
from types import FrameType

from core.base import source

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""What the paths of lab's own files begin with."""


def users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame, outwards from `frame`, that is neither core's nor lab's; None where there is none."""
    while frame is not None and (source.is_ours(name := frame.f_code.co_filename) or name.startswith(OURS)):
        frame = frame.f_back
    return frame


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
    return not any(path.startswith(folder + os.sep) for folder in installed if folder) and not source.is_ours(file)


def shown_name(file: str) -> str:
    """Return a file as a card names it: a notebook's cell by its number, any other by its last part.

    >>> shown_name("/home/me/model.py")
    'model.py'
    """
    return source.name_of_file(file) or os.path.basename(file)
