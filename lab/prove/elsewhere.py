"""Patches of what the cell runs and does not hold itself: a function of an earlier cell, or of an imported file.

In a trial's process the functions that were made of the old text get the code of the new one. Where that is not enough,
because the change is in what makes a model (`__init__`, a statement of a cell), the earlier cells run again from there.
"""

from __future__ import annotations

import ast
import builtins
import gc
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from core.base import source, syntax
from widgets.record import Finding

from ..recorder.user_files import OURS, is_users, shown_name
from .measure import marked

MARK = "__gradlab_ran_there__"  # what each statement of a changed source calls
SOURCES = 4  # other ones that are looked through
CELLS = 16  # earlier cells that run again, at most
_NAMED = re.compile(r"((?:In \[\d+\])|[\w.-]+\.py) line (\d+)")
_PLACE = re.compile(rf"^(?:The code at )?(?:[Ll]ine \d+ \()?{_NAMED.pattern}")


class Place(NamedTuple):
    """A line of another source."""

    file: str
    """As code objects name it."""
    name: str
    """As sentences name it."""
    line: int
    text: str


def place_of(finding: Finding) -> Place | None:
    """Return the line of another source that a finding names as its own; None where it is one of this cell's."""
    found = _PLACE.match(finding.message)
    return _place(found[1], int(found[2])) if found is not None else None


def further(finding: Finding) -> list[Place]:
    """Return the lines of other sources that a finding speaks of besides its own: what it waits for, what it calls."""
    own = place_of(finding)
    named = dict.fromkeys((name, int(line)) for name, line in _NAMED.findall(f"{finding.message} {finding.remedy}"))
    places = [place for name, line in named if (place := _place(name, line)) is not None]
    return [place for place in places if own is None or (place.file, place.line) != (own.file, own.line)]


def _place(name: str, line: int) -> Place | None:
    files = [*linecache.cache, *(file for m in list(sys.modules.values()) if (file := getattr(m, "__file__", None)))]
    file = next((f for f in reversed(files) if shown_name(f) == name and _of_users(f)), None)
    text = "".join(linecache.getlines(file)) if file is not None else ""
    return Place(file, name, line, text) if file is not None and text else None


def sources(text: str) -> list[Place]:
    """Return the other sources of a cell, those that were run last first: earlier cells, then what they import."""
    cells = [(file, was) for file, was in reversed(cells_from(""))]
    named = set(re.findall(r"^\s*(?:from|import) (\w+)", "\n".join([text, *(was for _, was in cells)]), re.M))
    modules = [m for name in named if (m := sys.modules.get(name)) is not None]
    files = [file for m in modules if (file := getattr(m, "__file__", None)) and _of_users(file)]
    texts = [*cells, *((file, "".join(linecache.getlines(file))) for file in sorted(files))]
    return [Place(file, shown_name(file), 0, was) for file, was in texts if was][:SOURCES]


def _of_users(file: str) -> bool:
    return is_users(file) and not file.startswith(OURS)


def seen_there(finding: Finding, place: Place) -> Finding:
    """Return a finding as a card of the other source would show it: its lines are that source's.

    >>> finding = Finding("nan", "error", 5, message="Line 5 (net.py line 9) makes a NaN; net.py line 2 too.")
    >>> seen_there(finding, Place("/net.py", "net.py", 9, "")).message
    'Line 9 makes a NaN; line 2 too.'
    """
    name = re.escape(place.name)
    message, remedy = (
        re.sub(rf"(?:\b([Ll])ine \d+ \()?{name} line (\d+)\)?", lambda m: f"{m[1] or 'l'}ine {m[2]}", said)
        for said in (finding.message, finding.remedy)
    )
    return replace(finding, line=place.line, message=message[:1].upper() + message[1:], remedy=remedy)


def cells_from(file: str) -> list[tuple[str, str]]:
    """Return the earlier cells from one of them on, in the order in which they ran, or all of them for a file."""
    cells = sorted((_number(name), f) for f in list(linecache.cache) if (name := source.name_of_file(f)))
    files = [f for _, f in cells]
    begin = files.index(file) if file in files else 0
    return [(f, "".join(linecache.getlines(f))) for f in files[begin:]]


def _number(name: str) -> int:
    return int("".join(filter(str.isdigit, name)) or 0)


def makes(text: str, new: str) -> bool:
    """Return whether a change is in what makes things, and not in what is called later.

    >>> old = "class Net:\\n    def __init__(self): self.n = 1\\n    def forward(self, x): return x"
    >>> makes(old, old.replace("n = 1", "n = 2")), makes(old, old.replace("return x", "return -x"))
    (True, False)
    """
    return _made(text) != _made(new)


def _made(text: str) -> str:
    tree = syntax.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            node.body = [ast.Pass()]
    return ast.dump(tree)


def put(
    others: Sequence[Sequence[str]], again: Sequence[Sequence[str]], space: dict[str, Any], ran: Callable[[int], None]
) -> None:
    """Let functions of the files run other texts, and run earlier cells, or files, again; `ran` is told their lines.

    What the cell itself is the first to import is loaded as the other text, and no earlier cell has to run for it.
    """
    gc.unfreeze()  # `gc.get_objects` leaves out what the sleeping process has frozen
    setattr(builtins, MARK, ran)
    files = [file for file, _ in others]
    for file, text in others:
        linecache.cache[file] = len(text), None, text.splitlines(True), file
        codes = {code.co_qualname: code for code in _codes(compile(marked(text, file, MARK), file, "exec"))}
        for function in gc.get_objects():
            if isinstance(function, FunctionType) and function.__code__.co_filename == file:
                code = codes.get(function.__code__.co_qualname)
                if code is not None and code.co_freevars == function.__code__.co_freevars:
                    function.__code__ = code
    _import_as([(file, text) for file, text in others])
    if any(_module(file) is None and not source.name_of_file(file) for file in files):
        return
    for file, text in again:
        linecache.cache[file] = len(text), None, text.splitlines(True), file
        module = _module(file)
        tree = marked(text, file, MARK) if file in files else syntax.parse(text, file)
        exec(compile(tree, file, "exec"), space if module is None else vars(module))


def _module(file: str) -> Any:
    return next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == file), None)


def _import_as(others: Sequence[tuple[str, str]]) -> None:
    """Let files that are imported from now on have other texts: this process is thrown away."""
    was, texts = SourceFileLoader.get_code, dict(others)

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        text = texts.get(self.path)
        return was(self, fullname) if text is None else compile(marked(text, self.path, MARK), self.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _codes(part)
