"""A cell's text with its syntax tree: what a patch looks for in the tree, it changes in the text.

All but the changed places stays byte for byte: comments, spaces and magics as they were.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.base import syntax

_MAGIC = re.compile(r"\s*[%!]")
N = TypeVar("N", bound=ast.AST)


@dataclass(frozen=True)
class Patch:
    """A changed text of the cell, or of another source, and what was changed in a few words."""

    said: str
    text: str
    file: str = ""
    """Of another source, as code objects name it; "" for the cell."""
    name: str = ""
    """As sentences name it."""
    was: str = ""
    """What the text of the other source was."""
    guess: bool = False
    """Whether it is one way of many to do what the remedy says: that it fails says nothing of the finding."""


class Cell:
    """The text of a cell. *Raises*: SyntaxError where it is not Python, apart from lines of magics."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        python = "\n".join(_without_magic(line) for line in self.lines)
        self.tree = syntax.parse(python)
        self.parents = {c: p for p in ast.walk(self.tree) for c in ast.iter_child_nodes(p)}
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    # -- looking -------------------------------------------------------------------------------------------------------

    def code(self, node: ast.AST) -> str:
        """Return a node's own text."""
        begin, end = self.span(node)
        return self.text[begin:end]

    def all(self, *kinds: type[N]) -> list[N]:
        """Return the nodes of some kinds in the order of the text."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, kinds)]
        return sorted(found, key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)))

    def statement(self, line: int | None) -> ast.stmt | None:
        """Return the innermost statement on a line, the first where there are several."""
        around = [n for n in ast.walk(self.tree) if isinstance(n, ast.stmt) and _covers(n, line)]
        return min(around, key=lambda n: ((n.end_lineno or n.lineno) - n.lineno, n.col_offset), default=None)

    def statements(self, line: int | None) -> list[ast.stmt]:
        """Return the statements that begin on a line and hold no others."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, ast.stmt) and n.lineno == line]
        return sorted((n for n in found if not hasattr(n, "body")), key=lambda n: n.col_offset)

    def calls(self, *names: str, line: int | None = None) -> list[ast.Call]:
        """Return the calls of a function or method of one of these last names, all or those on a line."""
        found = [n for n in self.all(ast.Call) if last_name(n.func) in names]
        return [n for n in found if line is None or _covers(n, line)]

    def of(self, node: ast.AST) -> ast.stmt:
        """Return the statement that a node is part of."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def loop(self, node: ast.AST) -> ast.For | ast.While | None:
        """Return the innermost loop around a node, in the same function."""
        return self.around(node, (ast.For, ast.While))  # type: ignore[return-value]

    def around(self, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
        """Return the innermost node of some kinds around a node, in the same function."""
        up = self.parents.get(node)
        while up is not None and not isinstance(up, kinds):
            if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                return None
            up = self.parents.get(up)
        return up

    # -- changing ------------------------------------------------------------------------------------------------------

    def put(self, *changes: tuple[ast.AST, str]) -> str:
        """Return the text with other code in the place of nodes."""
        return self.splice([(*self.span(node), code) for node, code in changes])

    def splice(self, changes: Sequence[tuple[int, int, str]]) -> str:
        """Return the text with pieces (begin, end, new) changed."""
        text = self.text
        for begin, end, new in sorted(changes, reverse=True):
            text = text[:begin] + new + text[end:]
        return text

    def before(self, node: ast.AST, *lines: str) -> tuple[int, int, str]:
        """Return the piece that puts lines before a statement, as deep as it is."""
        statement = self.of(node)
        begin = self.span(statement)[0]
        line = self._starts[self.row(begin)]
        indent = re.match(r"\s*", self.text[line:])[0]  # type: ignore[index]
        if self.text[line:begin].strip():  # it shares its line with another one
            return begin, begin, "".join(f"{x}; " for x in lines)
        return line, line, "".join(f"{indent}{x}\n" for x in lines)

    def after(self, node: ast.AST, *lines: str) -> tuple[int, int, str]:
        """Return the piece that puts lines after a statement, as deep as it is."""
        statement = self.of(node)
        begin, end = self.span(statement)
        row = self.row(end)
        if self.text[end : self._starts[row + 1] - 1].split("#")[0].strip(" \t"):
            return end, end, "".join(f"; {x}" for x in lines)
        line = self._starts[self.row(begin)]
        if ":" in self.text[line:begin] and not hasattr(statement, "body"):  # `for ...: step()` on one line
            return end, end, "".join(f"; {x}" for x in lines)
        indent = re.match(r"\s*", self.text[line:])[0]  # type: ignore[index]
        stop = min(self._starts[row + 1], len(self.text))
        lead = "" if self.text[:stop].endswith("\n") else "\n"
        body = "".join(f"{indent}{x}\n" for x in lines)
        return stop, stop, lead + (body if not lead else body.rstrip("\n"))

    def without(self, node: ast.AST) -> tuple[int, int, str]:
        """Return the piece that takes a statement out; where it is the only one of its block, `pass` stands for it."""
        statement = self.of(node)
        begin, end = self.span(statement)
        row, last = self.row(begin), self.row(end)
        block = next((b for f in ("body", "orelse", "finalbody")
                      if statement in (b := getattr(self.parents[statement], f, []))), [])  # fmt: skip
        if len(block) == 1:
            return begin, end, "pass"
        left = self.text[self._starts[row] : begin].strip()
        rest = self.text[end : self._starts[last + 1] - 1].strip()
        if not left and (not rest or rest.startswith("#")):
            return self._starts[row], min(self._starts[last + 1], len(self.text)), ""
        if rest.startswith(";"):
            return begin, end + len(self.text[end:]) - len(self.text[end:].lstrip(" ;")), ""
        lead = len(self.text[:begin]) - len(self.text[:begin].rstrip(" ;"))
        return begin - lead, end, ""

    def moved(self, statement: ast.stmt, target: ast.stmt, *, below: bool = False) -> str:
        """Return the text with a statement moved to before or below another one, as deep as that is."""
        lines = self.dedented(statement)
        put = self.after(target, *lines) if below else self.before(target, *lines)
        return self.splice([self.without(statement), put])

    def dedented(self, statement: ast.stmt) -> list[str]:
        """Return a statement's lines, its own depth taken off."""
        first, *rest = self.code(statement).split("\n")
        return [first, *(line[statement.col_offset :] for line in rest)]

    def pieces(self, nodes: Sequence[ast.AST], change: Callable[[str], str]) -> str:
        """Return the text with each of some nodes changed by a function of its code."""
        return self.put(*((node, change(self.code(node))) for node in nodes))

    # -- places --------------------------------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> tuple[int, int]:
        first = getattr(node, "decorator_list", None)
        lineno = first[0].lineno if first else node.lineno  # type: ignore[attr-defined]
        column = node.col_offset  # type: ignore[attr-defined]
        return self._at(lineno, column), self._at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _at(self, lineno: int, column: int) -> int:
        """The tree counts bytes of UTF-8, the text characters."""
        return self._starts[lineno - 1] + len(self.lines[lineno - 1].encode()[:column].decode())

    def row(self, at: int) -> int:
        return self.text.count("\n", 0, at)


def _without_magic(line: str) -> str:
    if not _MAGIC.match(line):
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return indent + "pass"


def _covers(node: ast.AST, line: int | None) -> bool:
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return line is not None and first is not None and last is not None and first <= line <= last


def number(node: ast.AST | None) -> float | None:
    """Return the value of a number that is written out; None for all else.

    >>> number(ast.parse("0.5", mode="eval").body), number(ast.parse("x", mode="eval").body)
    (0.5, None)
    """
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def last_name(function: ast.AST) -> str:
    """Return the last name of a dotted one.

    >>> last_name(ast.parse("torch.nn.Linear", mode="eval").body)
    'Linear'
    """
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
