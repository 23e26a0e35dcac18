"""The user's own sources that took part in a cell: its text, imported files, and earlier cells."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from core.base import source, syntax

from ...recorder.cell_trace import Trace
from ...recorder.user_files import is_users, shown_name
from .spelling import respelled

Function = ast.FunctionDef | ast.AsyncFunctionDef
FILES = 8  # of them, those from which they import names
CELLS = 64  # earlier cells of which the statements are read, at most


class Earlier(NamedTuple):
    """An earlier cell that made what this one reads."""

    name: str
    """What sentences call it: "In [3]"."""
    tree: ast.Module
    """Its lines are numbered as if this cell followed it: the last one is 0, or less where others lie between."""
    shift: int
    """What has to be added to such a line for that of the cell."""
    text: str


@dataclass(frozen=True)
class Source:
    """One text of the user's, with its syntax tree."""

    name: str
    """What sentences call it: "" for this cell, else "tinygpt.py" or "In [3]"."""
    tree: ast.Module
    text: str
    earlier: tuple[Earlier, ...] = ()
    """Of this cell: those that made what it reads, in the order in which they ran."""
    session: ast.Module | None = None
    """Of an earlier cell: the statements of all that ran, where its functions find their global names."""

    @cached_property
    def words(self) -> str:
        """The text of the program: of this cell with those of earlier ones that made what it reads."""
        return "\n".join([*(cell.text for cell in self.earlier), self.text])

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """The calls of the program by the last name of what they call."""
        found: dict[str, list[ast.Call]] = {}
        for node in self.nodes if self.name else ast.walk(self.program):
            if isinstance(node, ast.Call):
                found.setdefault(called(node), []).append(node)
        return found

    @cached_property
    def flows(self) -> dict[ast.AST, Any]:
        """What `flow_of` has made of its functions."""
        return {}

    @cached_property
    def program(self) -> ast.Module:
        """The statements of the earlier cells that made what this cell reads, and then its own."""
        before = [statement for cell in self.earlier for statement in cell.tree.body]
        return ast.Module([*before, *self.tree.body], [])

    @cached_property
    def constants(self) -> dict[str, ast.Constant]:
        """The names outside of functions that are given a plain number, and once."""
        given: dict[str, list[ast.expr]] = {}
        for pair in assigned(own_nodes(self.session or self.program)):
            given.setdefault(pair.name, []).append(pair.value)
        alone = {name: values[0] for name, values in given.items() if len(values) == 1}
        return {name: value for name, value in alone.items() if isinstance(value, ast.Constant)}

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {inner: node for node in ast.walk(self.program) for inner in ast.iter_child_nodes(node)}

    @cached_property
    def given(self) -> dict[str, list[ast.expr]]:
        """What variables and attributes are given, by the names that `key` has of them."""
        found: dict[str, list[ast.expr]] = {}
        for node in ast.walk(self.program):
            for target in node.targets if isinstance(node, ast.Assign) else ():
                pairs = [(target, node.value)]  # type: ignore[attr-defined]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):  # type: ignore[attr-defined]
                    pairs = list(zip(target.elts, node.value.elts, strict=False))  # type: ignore[attr-defined]
                for one, value in pairs:
                    found.setdefault(key(one), []).append(value)
        found.pop("", None)
        return found

    @cached_property
    def made(self) -> dict[str, tuple[str, ...]]:
        """The classes and functions whose results variables and attributes are given, by the names that `key` has."""
        return {name: tuple({called(value) for value in values}) for name, values in self.given.items()}

    @cached_property
    def named(self) -> dict[str, set[str]]:
        """The last names of the variables and attributes that are given the result of a class or a function."""
        found: dict[str, set[str]] = {}
        for name, kinds in self.made.items():
            for kind in kinds:
                found.setdefault(kind, set()).add(name.lstrip("."))
        return found

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes of the program by their names."""
        return {node.name: node for node in ast.walk(self.program) if isinstance(node, ast.ClassDef)}

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions that are no methods, by their names; without those of which there are several."""
        found: dict[str, list[Function]] = {}
        for node in ast.walk(self.program):
            if isinstance(node, Function) and not isinstance(self.parents.get(node), ast.ClassDef):
                found.setdefault(node.name, []).append(node)
        return {name: nodes[0] for name, nodes in found.items() if len(nodes) == 1}

    @cached_property
    def reads(self) -> dict[str, list[ast.Name]]:
        """Where variables are read, by their names."""
        found: dict[str, list[ast.Name]] = {}
        for node in ast.walk(self.program):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, []).append(node)
        return found

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node stands in, innermost first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def scopes(self, earlier: bool = False) -> Iterator[ast.Module | Function]:
        """Yield the bodies whose statements run one after another: of an earlier cell or a file, its functions only.

        With `earlier` the statements of earlier cells stand before this cell's: not all of them, so that what is used
        nowhere in them may be used all the same.
        """
        if not self.name:
            yield self.program if earlier else self.tree
        yield from (n for n in self.nodes if isinstance(n, Function))

    def place(self, node: ast.AST) -> Place:
        """Return where a node stands, for a finding."""
        line = int(getattr(node, "lineno", 0))
        if self.name:
            return Place(None, None, f"{self.name} line {line}")
        if line <= 0:
            cell = [cell for cell in self.earlier if line + cell.shift > 0][-1]
            return Place(None, None, f"{cell.name} line {line + cell.shift}")
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
    made = _makers(trace, tree) if tree is not None else {}
    found = [Source("", respelled(tree, trace.code), trace.code, _numbered(made))] if tree is not None else []
    files = dict.fromkeys(code.co_filename for row in trace.rows for code, _ in row.chain)
    for chain in (*trace.backwards, trace.steps.last_step):
        files.update(dict.fromkeys(code.co_filename for code, _ in chain))
    files.update(dict.fromkeys(trace.authors))
    files.update(dict.fromkeys(made))
    files.update(dict.fromkeys(_imported(made)))
    session = found[0].program if found else None
    imported: list[Source] = []
    for file in files:
        if file in trace.files or not is_users(file):
            continue
        text = "".join(linecache.getlines(file))
        parsed = _parsed(text)
        if parsed is not None:
            found.append(Source(shown_name(file), parsed, text, session=session if file in made else None))
            imported += [found[-1]] if file not in made and not source.name_of_file(file) else []
    used = _used(trace, [one for one in found if one not in imported], imported)
    return [Source(one.name, used[one.name], one.text) if one in imported else one for one in found]


def _used(trace: Trace, cells: list[Source], files: list[Source]) -> dict[str, ast.Module]:
    """Return the trees of imported files without the classes and functions that nothing mentions: what a library has
    beside what the cells use of it did not run, whatever it is worth."""
    ran: dict[str, set[int]] = {}
    for code, lasti in {frame for row in trace.rows for frame in row.chain} if files else ():
        place = trace.place(code, lasti)
        ran.setdefault(shown_name(place.file), set()).add(place.line)
    names = {name for cell in cells for tree in (cell.program, cell.session) if tree for name in _mentioned(tree)}
    kept: dict[str, list[ast.stmt]] = {one.name: [] for one in files}
    waiting = [(one.name, statement) for one in files for statement in one.tree.body if not _started(statement)]
    while True:
        met = [(name, s) for name, s in waiting if _runs(s, names, ran.get(name, ()))]
        if not met:
            return {one.name: ast.Module([s for s in one.tree.body if s in kept[one.name]], []) for one in files}
        for name, statement in met:
            kept[name].append(statement)
            names |= _mentioned(statement)
        waiting = [pair for pair in waiting if pair not in met]


def _runs(statement: ast.stmt, names: set[str], lines: Iterable[int]) -> bool:
    """Whether a statement of a file may have run: all but classes and functions that nothing mentions."""
    if not isinstance(statement, Function | ast.ClassDef) or statement.decorator_list or statement.name in names:
        return True
    return any(statement.lineno <= line <= (statement.end_lineno or 0) for line in lines)


def _started(statement: ast.stmt) -> bool:
    """Whether it is ``if __name__ == "__main__":``, which an import passes by."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test).startswith("__name__ ==")


def _mentioned(tree: ast.AST) -> set[str]:
    """Return the names that a text reads, as variables, attributes or in quotes; those of imports where they get
    another one."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.alias) and node.asname:
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
            found.add(node.value)
    return found


def _imported(cells: dict[str, str]) -> list[str]:
    """Return the user's files from which earlier cells take names by ``from file import name``."""
    names = [
        node.module
        for text in cells.values()
        for node in (_parsed(text) or ast.Module([], [])).body
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    files = (getattr(sys.modules.get(name), "__file__", None) for name in dict.fromkeys(names))
    return [file for file in files if file and is_users(file)][:FILES]


def _makers(trace: Trace, tree: ast.Module) -> dict[str, str]:
    """Return the earlier cells, and their texts, that give the variables their values which the cell reads, and those
    which these read in turn: of cells that were run again with another text the last one."""
    ran = [
        (name, file)
        for file in list(linecache.cache)
        if file not in trace.files and (name := source.name_of_file(file))
    ]
    ran.sort(key=lambda cell: int("".join(filter(str.isdigit, cell[0])) or 0))
    wanted = _bound_and_read(tree)[1]
    found = {}
    for _, file in ran[: -CELLS - 1 : -1]:
        text = "".join(linecache.getlines(file))
        parsed = _parsed(text)
        bound, read = _bound_and_read(parsed) if parsed is not None else (set(), set())
        if bound & wanted:
            found[file] = text
            wanted = wanted - bound | read
    return dict(reversed(found.items()))


def _bound_and_read(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the variables that a cell's own statements set, or items of them, and those that it reads before it sets
    them itself.

    >>> bound, read = _bound_and_read(ast.parse("y = x + 1\\nz = f(y)\\ndef g(): return w"))
    >>> sorted(bound), sorted(read)
    (['g', 'y', 'z'], ['f', 'w', 'x'])
    """
    bound: set[str] = set()
    certain: set[str] = set()
    read: set[str] = set()
    written: set[str] = set()
    for statement in tree.body:
        names = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
        read |= {n.id for n in names if not isinstance(n.ctx, ast.Store)} - certain
        if isinstance(statement, Function | ast.ClassDef):
            stored = {statement.name}
        else:
            stored = {n.id for n in own_nodes(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            written |= {n.value.id for n in own_nodes(statement) if isinstance(n, ast.Subscript)
                        and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)}  # fmt: skip
        bound |= stored
        if isinstance(statement, ast.AugAssign):
            read |= stored - certain
        elif isinstance(statement, ast.Assign | Function | ast.ClassDef):
            certain |= stored
    return bound | written, read


def _numbered(cells: dict[str, str]) -> tuple[Earlier, ...]:
    """Return the earlier cells with trees of their own, whose lines are numbered so that this cell's begin with 1."""
    found, shift = [], 0
    for file, text in reversed(cells.items()):
        shift += text.count("\n") + 1
        tree = respelled(syntax.parse(text), text)
        found.append(Earlier(shown_name(file), ast.increment_lineno(tree, -shift), shift, text))  # type: ignore[type-var]
    return tuple(reversed(found))


@lru_cache(128)
def _parsed(text: str) -> ast.Module | None:
    try:
        return respelled(syntax.parse(text), text) if text else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or a module that are in no function or class inside it, in the order of the
    text. They are kept with the scope: many rules ask, and the trees of a recording stay as they are.

    >>> [type(node).__name__ for node in own_nodes(ast.parse("x = lambda: 1"))]
    ['Assign', 'Name', 'Store', 'Lambda']
    """
    found: tuple[ast.AST, ...] | None = vars(scope).get("own_nodes")
    if found is None:
        found = vars(scope)["own_nodes"] = tuple(_own_nodes(scope))
    return iter(found)


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    for inner in ast.iter_child_nodes(scope):
        yield inner
        if not isinstance(inner, Function | ast.ClassDef | ast.Lambda):
            yield from _own_nodes(inner)


def ran(trace: Trace, source: Source, node: ast.expr) -> bool:
    """Return whether an op ran on behalf of an expression, or of its lines: it is no branch that was passed by."""
    last = node.end_lineno or node.lineno
    for frame in dict.fromkeys(frame for row in trace.rows for frame in row.chain):
        place = trace.place(*frame)
        name = "" if place.file in trace.files else shown_name(place.file)
        if name == source.name and node.lineno <= place.line <= last:
            return True
    return False


def called(node: ast.AST) -> str:
    """Return the last name of what a call calls; "" of anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def key(node: ast.AST) -> str:
    """Return the name of a variable, that of an attribute behind a dot; "" of anything else.

    >>> [key(ast.parse(text, mode="eval").body) for text in ("net", "self.net", "f(x)")]
    ['net', '.net', '']
    """
    return node.id if isinstance(node, ast.Name) else f".{node.attr}" if isinstance(node, ast.Attribute) else ""


def names_in(node: ast.AST) -> set[str]:
    """Return the variables that an expression reads."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
