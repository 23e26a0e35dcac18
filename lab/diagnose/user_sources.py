"""The user's own sources that took part in a cell: its text, imported files, and earlier cells."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from ..recorder.cell_trace import Trace
from ..recorder.user_files import is_users, shown_name

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One text of the user's, with its syntax tree."""

    name: str
    """What sentences call it: "" for this cell, else "tinygpt.py" or "In [3]"."""
    tree: ast.Module
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {inner: node for node in self.nodes for inner in ast.iter_child_nodes(node)}

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node stands in, innermost first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def scopes(self) -> Iterator[ast.Module | Function]:
        """Yield the bodies whose statements run one after another: of an earlier cell or a file, its functions only."""
        if not self.name:
            yield self.tree
        yield from (n for n in self.nodes if isinstance(n, Function))

    def place(self, node: ast.AST) -> Place:
        """Return where a node stands, for a finding."""
        line = int(getattr(node, "lineno", 0))
        if self.name:
            return Place(None, None, f"{self.name} line {line}")
        return Place(line, int(getattr(node, "col_offset", 0)), f"line {line}")


class Place(NamedTuple):
    """Line and column of this cell, None where it is elsewhere, and the place in words."""

    line: int | None
    col: int | None
    words: str


class Pair(NamedTuple):
    """A value and the variable that it is given to."""

    name: str
    value: ast.expr
    node: ast.Assign


def assigned(nodes: Iterable[ast.AST]) -> Iterator[Pair]:
    """Yield what is assigned to variables: of ``a, b = x, y`` each."""
    for node in nodes:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name):
                yield Pair(target.id, node.value, node)  # type: ignore[attr-defined, arg-type]
            elif isinstance(target, ast.Tuple):
                value: ast.expr = node.value  # type: ignore[attr-defined]
                values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
                for one, part in zip(target.elts, values, strict=False):
                    if isinstance(one, ast.Name) and len(values) == len(target.elts):
                        yield Pair(one.id, part, node)  # type: ignore[arg-type]


def sources(trace: Trace) -> list[Source]:
    """Return this cell's source first, then those of the user's files and cells that it runs or reads names of."""
    known = trace.sources
    if known is None or known[0] != len(trace.rows):
        known = trace.sources = len(trace.rows), _sources(trace)
    return known[1]  # type: ignore[no-any-return]


def _sources(trace: Trace) -> list[Source]:
    tree = trace.tree()
    found = [Source("", tree, trace.code)] if tree is not None else []
    files = dict.fromkeys(code.co_filename for row in trace.rows for code, _ in row.chain)
    for chain in (*trace.backwards, trace.steps.last_step):
        files.update(dict.fromkeys(code.co_filename for code, _ in chain))
    files.update(dict.fromkeys(trace.authors))
    for file in files:
        if file in trace.files or not is_users(file):
            continue
        text = "".join(linecache.getlines(file))
        parsed = _parsed(text)
        if parsed is not None:
            found.append(Source(shown_name(file), parsed, text))
    return found


@lru_cache(32)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or a module that are in no function or class inside it, in the order of the
    text."""
    for inner in ast.iter_child_nodes(scope):
        yield inner
        if not isinstance(inner, Function | ast.ClassDef | ast.Lambda):
            yield from own_nodes(inner)


def called(node: ast.AST) -> str:
    """Return the last name of what a call calls; "" of anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def names_in(node: ast.AST) -> set[str]:
    """Return the variables that an expression reads."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
