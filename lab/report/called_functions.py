"""The functions of the user's other cells and files that a cell called: their source, with the time of each line.

A line's time is that of all ops that ran below it, so a function that calls another one bears its time too. What a
library's functions do belongs to the line that called them.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Mapping
from types import CodeType

from widgets.record import LineRow, Page

from ..recorder.cell_trace import Chain, Ref, Trace
from ..recorder.user_files import is_users, shown_name

PAGES = 40  # functions that are shown, those with most time
LINES = 300  # of one function
CHARACTERS = 60_000  # of all of them
_PARTS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")  # they stand inside a function's text


def pages(trace: Trace, numbers: Mapping[Ref, int]) -> tuple[list[Page], dict[int, list[int]]]:
    """Return the functions in the order in which they were first called, and for every op's number its places in them:
    page, line, page, line, ... innermost first."""
    codes: dict[int, CodeType] = {}  # by identity: a code object hashes by its whole content
    times: dict[int, dict[int, LineRow]] = {}
    total: dict[int, float] = {}
    ways: dict[Ref, list[tuple[int, int]]] = {}
    for row in trace.rows:
        way = []
        for code, line in _way(trace, row.chain):
            codes[id(code)] = code
            way.append((id(code), line))
        if not way:
            continue
        ways[row] = way
        if row.cut:
            continue
        forward, backward = row.forward_ns / 1e6, row.backward_ns / 1e6
        # the caller before the called; a function that calls itself bears its time once
        for key, line in reversed(dict.fromkeys(way)):
            lines = times.setdefault(key, {})
            at = lines.get(line)
            if at is None:
                at = lines[line] = LineRow(line)
            at.forward_ms += forward
            at.backward_ms += backward
            at.count += row.runs
        for key in {key for key, _ in way}:
            total[key] = total.get(key, 0.0) + forward + backward
    found: dict[int, Page] = {}
    left = CHARACTERS
    for key in sorted(total, key=lambda k: -total[k])[:PAGES]:
        code = codes[key]
        text = _text(code, max(times[key]))
        left -= len(text)
        if text and left >= 0:
            name = shown_name(code.co_filename)
            spent = [times[key][line] for line in sorted(times[key])]
            found[key] = Page(code.co_qualname.replace("<locals>.", ""), name, code.co_firstlineno, text, spent)
    order = [key for key in times if key in found]  # as they were met
    index = {key: k for k, key in enumerate(order)}
    through = {
        numbers[row]: [x for key, line in way if key in index for x in (index[key], line)]
        for row, way in ways.items()
        if row in numbers
    }
    return [found[key] for key in order], {number: way for number, way in through.items() if way}


def _way(trace: Trace, chain: Chain) -> list[tuple[CodeType, int]]:
    """Return the user's functions outside of this cell that a chain passes, with the line it passes each on."""
    found = []
    for k, (code, lasti) in enumerate(chain):
        file = code.co_filename
        if file in trace.files or not is_users(file) or code.co_name == "<module>":
            continue
        line = trace.place(code, lasti).line
        if code.co_name in _PARTS:  # its text is that of the function around it, where that one called it
            code = next((c for c, _ in chain[k + 1 :] if c.co_filename == file and c.co_name not in _PARTS), code)
            if code.co_name == "<module>":
                continue
        found.append((code, line))
    return found


def _text(code: CodeType, last: int) -> str:
    """Return the source of a function, at least to its line `last`; "" where there is none."""
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    if not lines:
        return ""
    try:
        block = inspect.getblock(lines)
    except (SyntaxError, IndexError):  # a file that was changed since
        block = []
    wanted = min(max(len(block), last - code.co_firstlineno + 1), LINES)
    return "".join(lines[:wanted]).rstrip("\n")
