"""Remedies as rows of a table: by what words a finding is known, what code stands there, and what belongs there.

    rewrite("loss", "Write 2 \\\\* inter", "(_i + _e) / _u", "(2 * _i + _e) / _u", "Take the 2 in")

Groups of the words may be used in the code as \\1. The patterns of code are those of `rewriting`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from core.base import syntax
from widgets.record import Finding

from .cell import Cell, Patch
from .remedies import remedy
from .rewriting import Bound, filled, in_its_place, match, pattern

Where = Literal["line", "quoted", "all", "loops"]
Beside = Literal["before", "after", "loop", "loop end", "epoch", "function", "function end"]
Kinds = str | tuple[str, ...]
MOST = 4  # places of one row


def rewrite(
    kinds: Kinds, words: str, old: str | Sequence[str], new: str | Sequence[str], said: str, where: Where = "line"
) -> None:
    """Let code that a finding of these words speaks of be other code.

    Of several pairs each must be there, the first where the finding says and the others anywhere, and what a name
    stands for is the same in all of them.

    where : "line": on the lines that the finding names; "quoted": what it quotes, on those lines; "all": anywhere;
        "loops": what the loops around its line go over
    """
    olds, news = ([old], [new]) if isinstance(old, str) and isinstance(new, str) else (list(old), list(new))

    @remedy(*((kinds,) if isinstance(kinds, str) else kinds))
    def propose(cell: Cell, finding: Finding) -> Iterator[Patch]:
        found = re.search(words, f"{finding.message}\n{finding.remedy}", re.S)
        if found is None:
            return
        codes, templates = ([_expanded(found, code) for code in part] for part in (olds, news))
        for node, bound in list(_alike(cell, finding, codes[0], where))[:MOST]:
            places = [node]
            for code in codes[1:]:
                more = next(((n, b) for n, b in _alike(cell, finding, code, "all", bound) if n not in places), None)
                if more is None:
                    break
                places.append(more[0])
                bound = more[1]
            if len(places) == len(codes):
                pieces = [_changed(cell, n, t, bound) for n, t in zip(places, templates, strict=True)]
                yield Patch(said, cell.splice(pieces))


def _expanded(found: re.Match[str], code: str) -> str:
    return re.sub(r"\\(\d)", lambda m: found[int(m[1])] or "", code)


def _alike(
    cell: Cell, finding: Finding, code: str, where: Where, known: Bound | None = None
) -> Iterator[tuple[ast.AST, Bound]]:
    """Go through the nodes that are like a pattern, those that the finding quotes first."""
    try:
        wanted = pattern(code)
    except (SyntaxError, ValueError):
        return
    quotes = [ast.dump(node) for node in quoted(finding.message)]
    nodes = list(_places(cell, finding, where))
    nodes = [n for n in nodes if isinstance(n, ast.stmt) == isinstance(wanted, ast.stmt)]
    told = [ast.dump(n) in quotes for n in nodes]
    ordered = [n for n, t in zip(nodes, told, strict=True) if t]
    if where != "quoted":
        ordered += [n for n, t in zip(nodes, told, strict=True) if not t]
    for node in ordered:
        bound = match(wanted, node, known)
        if bound is not None:
            yield node, bound


def lines_of(finding: Finding) -> list[int]:
    """Return the lines that a finding names, its own first."""
    said = f"{finding.message} {finding.remedy}"
    named = [int(n) for n in re.findall(r"\b[Ll]ines? (\d+)", said)]
    return list(dict.fromkeys([*([finding.line] if finding.line else []), *named]))


def quoted(message: str) -> list[ast.AST]:
    """Return the trees of the code that a message quotes; of a statement that binds a name also of its value."""
    trees: list[ast.AST] = []
    for code in re.findall(r"`([^`]+)`", message):
        try:
            (statement,) = syntax.parse(code.strip()).body
        except (SyntaxError, ValueError):
            continue
        trees.append(statement.value if isinstance(statement, ast.Expr) else statement)
        if isinstance(statement, ast.Assign | ast.Return) and statement.value is not None:
            trees.append(statement.value)
    return trees


def on_line(cell: Cell, line: int) -> list[ast.AST]:
    """Return the expressions and simple statements on a line, in the order of the text."""

    def there(node: ast.AST) -> bool:
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
        return first <= line <= last

    top = [n for n in cell.all(ast.stmt) if there(n)]
    found: list[ast.AST] = []
    for statement in top:
        if hasattr(statement, "body"):  # its head alone
            found += [n for field in ("test", "iter", "items", "args") if (part := getattr(statement, field, None))
                      for each in (part if isinstance(part, list) else [part]) for n in ast.walk(each)
                      if hasattr(n, "lineno") and there(n)]  # fmt: skip
        else:
            found += [n for n in ast.walk(statement) if isinstance(n, ast.expr | ast.stmt)]
    return list(dict.fromkeys(found))


def _places(cell: Cell, finding: Finding, where: Where) -> Iterator[ast.AST]:
    if where == "all":
        yield from cell.all(ast.expr, ast.stmt)
    elif where == "loops":
        statement = cell.statement(finding.line)
        loop = statement if isinstance(statement, ast.For) else cell.loop(statement) if statement is not None else None
        while loop is not None:
            if isinstance(loop, ast.For):
                yield from (n for n in ast.walk(loop.iter) if isinstance(n, ast.expr))
            loop = cell.loop(loop)
    else:
        seen: set[ast.AST] = set()
        for line in lines_of(finding):
            for node in on_line(cell, line):
                if node not in seen:
                    seen.add(node)
                    yield node


def _changed(cell: Cell, node: ast.AST, template: str, bound: Bound) -> tuple[int, int, str]:
    if not template:
        return cell.without(node)
    if isinstance(node, ast.stmt):
        indent = " " * node.col_offset
        return *cell.span(node), filled(cell, template, bound).replace("\n", f"\n{indent}")
    return *cell.span(node), in_its_place(cell, node, filled(cell, template, bound))


def insert(kinds: Kinds, words: str, code: str, said: str, where: Beside) -> None:
    """Let a line be put in for findings of these words.

    where : "before" or "after" the statement of the finding; at the top of the innermost "loop" around it, at its
        end, or at the top of the outermost one ("epoch"); at the top of its "function", or at the end of `__init__`
    """

    @remedy(*((kinds,) if isinstance(kinds, str) else kinds))
    def propose(cell: Cell, finding: Finding) -> Iterator[Patch]:
        found = re.search(words, f"{finding.message}\n{finding.remedy}", re.S)
        lines = _expanded(found, code).split("\n") if found else []
        for line in lines_of(finding)[:2] if lines else ():
            for statement in cell.statements(line) or [s for s in [cell.statement(line)] if s is not None]:
                place = beside(cell, statement, where, lines)
                if place is not None:
                    yield Patch(said, with_imports(lines[0], cell, place))


def beside(cell: Cell, statement: ast.stmt, where: Beside, lines: Sequence[str]) -> tuple[int, int, str] | None:
    """Return the piece that puts lines beside a statement; None where there is no such place."""
    if where == "before":
        return cell.before(statement, *lines)
    if where == "after":
        return cell.after(statement, *lines)
    if where in ("function", "function end"):
        function = enclosing(cell, statement)
        if where == "function end" and function is not None and function.name != "__init__":
            home = cell.parents.get(function)
            function = next((f for f in getattr(home, "body", ()) if getattr(f, "name", "") == "__init__"), None)
        if function is None:
            return None
        return cell.before(function.body[0], *lines) if where == "function" else cell.after(function.body[-1], *lines)
    loop = statement if isinstance(statement, ast.For | ast.While) else cell.loop(statement)
    if loop is None:
        return None
    if where == "loop end":
        return cell.after(loop.body[-1], *lines)
    while where == "epoch" and (up := cell.loop(loop)) is not None:
        loop = up
    return cell.before(loop.body[0], *lines)


def enclosing(cell: Cell, node: ast.AST) -> ast.FunctionDef | None:
    """Return the function around a node."""
    up: ast.AST | None = node
    while up is not None and not isinstance(up, ast.FunctionDef):
        up = cell.parents.get(up)
    return up


def with_imports(code: str, cell: Cell, *pieces: tuple[int, int, str]) -> str:
    """Return the text with pieces changed and the modules imported that the new code asks for by name."""
    text = cell.splice(pieces)
    for module in ("copy", "itertools", "functools", "math"):
        asks = re.search(rf"\b{module}\.", code) is not None
        if asks and not re.search(rf"^\s*(import|from) .*\b{module}\b", cell.text, re.M):
            lines = text.split("\n")
            heads = (k for k, line in enumerate(lines) if line.strip() and not re.match(r"[%#]|from __future__", line))
            at = next(heads, 0)
            text = "\n".join([*lines[:at], f"import {module}", *lines[at:]])
    return text
