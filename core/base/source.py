"""Where the user's code is: frames kept as `(code, lasti)`, resolved to exact columns only when somebody asks.

Keeping the pair costs about 0.15 µs and pins no local variable; resolving it costs 36 µs and is remembered.
"""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType
from typing import NamedTuple

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # core
_packages: tuple[str, ...] = (_HERE,)
ours: dict[str, bool] = {}  # file name -> whether it belongs to this package, as far as known

# A notebook's cells have file names nobody has seen: an extension may set this to say "In [3]" instead.
name_of_file: Callable[[str], str | None] = lambda filename: None


class Location(NamedTuple):
    """A place in the source: lines from 1, columns from 0 and in characters, `code` the text between."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    code: str

    def __str__(self) -> str:
        name = name_of_file(self.file) or os.path.basename(self.file)
        return f"{name} line {self.line}" + (f" ({self.code})" if self.code else "")


def is_ours(filename: str) -> bool:
    """Return whether a file belongs to this package, so that its frames are not the user's."""
    known = ours.get(filename)
    if known is None:
        # what is typed or executed from a string ("<stdin>", "<string>") has no path: it is the user's, but for what
        # this package has printed ("<gradlab row of sum>")
        within = not filename.startswith("<") and os.path.abspath(filename).startswith(_packages)
        known = ours[filename] = within or filename.startswith("<gradlab ")
    return known


def add_package(folder: str) -> None:
    """Files below `folder` are a library's too, and never the user's."""
    global _packages
    prefix = os.path.abspath(folder) + os.sep
    if prefix not in _packages:
        _packages = (*_packages, prefix)
        ours.clear()


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame, outwards from `frame`, that is not this package's own."""
    while frame is not None:
        filename = frame.f_code.co_filename
        known = ours.get(filename)  # is_ours written out: this runs for every op
        if not (is_ours(filename) if known is None else known):
            return frame
        frame = frame.f_back
    return None


def here(depth: int = 1) -> tuple[CodeType, int] | None:
    """`(code, lasti)` of the user's frame."""
    frame = user_frame(sys._getframe(depth))
    return None if frame is None else (frame.f_code, frame.f_lasti)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line, however deep within this package the reason was found.

    So a warning names the line to change, and the same one whether the cell is recorded or not.
    """
    level, frame = 2, sys._getframe(1)  # 1 is this function
    while frame is not None and is_ours(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level if frame is not None else 2)


_codes: dict[int, tuple[CodeType, list[tuple[int | None, ...]], dict[int, Location]]] = {}
CODES = 128
"""Code objects whose places are remembered."""


def locate(code: CodeType, lasti: int) -> Location:
    """Return the exact place of an instruction."""
    # by identity: a code object hashes and compares by its whole content, a cell of ten thousand lines in milliseconds
    known = _codes.get(id(code))
    if known is None or known[0] is not code:
        if len(_codes) >= CODES:
            _codes.pop(next(iter(_codes)), None)
        known = _codes[id(code)] = (code, list(code.co_positions()), {})
    place = known[2].get(lasti)
    if place is None:
        place = known[2][lasti] = _located(code, known[1], lasti)
    return place


def text_of(filename: str, line: int) -> str:
    """Return a line of a file or a cell, empty where there is none.

    >>> text_of("<made up>", 1), text_of("no file's name \\ud800", 1)
    ('', '')
    """
    try:
        return linecache.getline(filename, line)
    except ValueError:  # a made-up name that no file could have: a lone surrogate
        return ""


def _located(code: CodeType, positions: list[tuple[int | None, ...]], lasti: int) -> Location:
    filename = code.co_filename
    line, end_line, col, end_col = (code.co_firstlineno, code.co_firstlineno, 0, 0)
    if 0 <= lasti // 2 < len(positions):
        first, last, start, end = positions[lasti // 2]
        if first is not None:
            line, end_line = first, last if last is not None else first
            col, end_col = start or 0, end or 0
    lines = [text_of(filename, k) for k in range(line, end_line + 1)]
    if not lines or not lines[0]:
        return Location(filename, line, col, end_line, end_col, "")
    # co_positions counts UTF-8 bytes
    col = len(lines[0].encode()[:col].decode(errors="replace"))
    end_col = len(lines[-1].encode()[:end_col].decode(errors="replace"))
    if len(lines) == 1:
        segment = lines[0][col:end_col]
    else:
        segment = lines[0][col:].strip() + " …"
    return Location(filename, line, col, end_line, end_col, segment.strip())


def describe(place: tuple[CodeType, int] | None) -> str:
    """Return the place in words, for a message."""
    return "an unknown place" if place is None else str(locate(*place))
