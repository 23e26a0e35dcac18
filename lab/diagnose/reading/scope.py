"""The functions of the user's text, each with its calls, sums and products found once for all the rules that ask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...recorder.cell_trace import Row, Trace
from ..finding import Found, capital
from .calls import KEEPS, name_of, operands
from .expressions import Flow, flow_of, losses
from .passed import functional, result
from .recorded import row_of
from .sources import Function, Place, Source, assigned, called, sources

COMPARED = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
CRITERION = re.compile(r"^(criterion|loss_fn|loss_func|lossfn|mse|mse_loss|huber|loss_function)$", re.I)
MOST = 400  # nodes of an expression with its variables put in


class Pair(NamedTuple):
    """Two things that a loss compares, and where."""

    one: ast.expr
    other: ast.expr
    node: ast.expr


class Index:
    """The nodes of one function by their kinds."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.calls: dict[str, list[ast.Call]] = {}
        self.binary: dict[type[ast.operator], list[ast.BinOp]] = {}
        self.kinds: dict[type[ast.AST], list[Any]] = {}
        for node in flow.nodes:
            if isinstance(node, ast.Call):
                for name in dict.fromkeys((called(node), functional(flow.source, node))):
                    self.calls.setdefault(name, []).append(node)
            elif isinstance(node, ast.BinOp):
                self.binary.setdefault(type(node.op), []).append(node)
            elif isinstance(
                node, ast.For | ast.AugAssign | ast.If | ast.IfExp | ast.Subscript | ast.Return | ast.Assign
            ):
                self.kinds.setdefault(type(node), []).append(node)

    def called(self, *names: str) -> list[ast.Call]:
        """Return the calls of functions and methods of these names, in the order of the text."""
        if len(names) == 1:
            return self.calls.get(names[0], [])
        return [call for name in names for call in self.calls.get(name, ())]

    @cached_property
    def scopes(self) -> list[Index]:
        """Of the top of a source: this and those of its functions, as `Source.scopes` has them."""
        return [index_of(flow_of(self.flow.source, scope)) for scope in self.flow.source.scopes()]

    @cached_property
    def sums(self) -> list[ast.BinOp]:
        """Sums and differences."""
        return self.binary.get(ast.Add, []) + self.binary.get(ast.Sub, [])

    @cached_property
    def products(self) -> list[ast.BinOp]:
        """Products."""
        return self.binary.get(ast.Mult, [])

    @cached_property
    def given(self) -> list[Any]:
        """What is assigned: name, value, statement."""
        return list(assigned(self.kinds.get(ast.Assign, ())))

    @cached_property
    def attributes(self) -> dict[str, list[tuple[int, ast.expr]]]:
        """What attributes are given in this function, each with its line."""
        found: dict[str, list[tuple[int, ast.expr]]] = {}
        for node in self.kinds.get(ast.Assign, ()):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    found.setdefault(ast.unparse(target), []).append((node.end_lineno, node.value))
        return found

    @cached_property
    def pairs(self) -> list[Pair]:
        """What is compared by a loss: ``F.mse_loss(a, b)``, ``(a - b) ** 2``, ``(a - b).pow(2)``."""
        found = []
        for name, calls in self.calls.items():
            for call in calls:
                if len(call.args) >= 2 and (name in COMPARED or CRITERION.search(name_of(call.func))):
                    found.append(Pair(call.args[0], call.args[1], call))
        for power in self.binary.get(ast.Pow, ()):
            inner = self._unscaled(power.left)
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
                found.append(Pair(inner.left, inner.right, power))
        for call in self.called("pow", "square", "abs"):
            of = self._unscaled(operands(call)[0]) if operands(call) else None
            if isinstance(of, ast.BinOp) and isinstance(of.op, ast.Sub):
                found.append(Pair(of.left, of.right, call))
        return found

    def _unscaled(self, node: ast.expr) -> ast.expr:
        """What an expression is a plain number of times of."""
        inner = self.flow.operator(self.flow.inner(node))
        while isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult | ast.Div):
            if self.flow.number(inner.right) is not None:
                inner = self.flow.operator(self.flow.inner(inner.left))
            elif isinstance(inner.op, ast.Mult) and self.flow.number(inner.left) is not None:
                inner = self.flow.operator(self.flow.inner(inner.right))
            else:
                break
        return inner


_known: WeakKeyDictionary[Flow, Index] = WeakKeyDictionary()


def index_of(flow: Flow) -> Index:
    """Return the index of a function, made once."""
    found = _known.get(flow)
    if found is None:
        found = _known[flow] = Index(flow)
    return found


@dataclass(frozen=True)
class Scope:
    """One function of the user's sources, or what runs at the top of one, for the rules that read the text."""

    trace: Trace
    index: Index

    @property
    def flow(self) -> Flow:
        """What its variables hold where they are read."""
        return self.index.flow

    @property
    def source(self) -> Source:
        """The text that it stands in."""
        return self.index.flow.source

    @property
    def nodes(self) -> list[ast.AST]:
        """Its nodes in the order of the text, without those of functions inside it."""
        return self.index.flow.nodes

    def calls(self, *names: str) -> list[ast.Call]:
        """Return its calls of functions and methods of these names, and of layers that do the same."""
        return self.index.called(*names)

    def does(self, node: ast.AST) -> str:
        """Return the last name of what a call calls, of a layer that of the function that does the same."""
        return functional(self.source, node)

    def place(self, node: ast.AST) -> Place:
        """Return where a node stands, for a sentence."""
        return self.source.place(node)

    def row(self, node: ast.expr) -> Row | None:
        """Return the op that gave an expression of this cell its value; None where none was recorded."""
        return row_of(self.trace, self.source, node)

    def tell(
        self, node: ast.AST, kind: str, message: str, remedy: str, severity: str = "warning", rows: Sequence[Row] = (),
        proof: str = "",
    ) -> Found:  # fmt: skip
        """Return a finding about an expression; the message goes on after the place: "line 3 ..."."""
        line, col, place = self.source.place(node)
        return Found(kind, severity, line, col, capital(f"{place} {message}"), remedy, list(rows), proof=proof)


def scopes(trace: Trace, *words: str, earlier: bool = False) -> Iterator[Scope]:
    """Yield each function of the user's sources, and what runs at the top of this cell: with `words` only of sources
    that have all of these in their text, with `earlier` the statements of earlier cells stand before this cell's."""
    for source in sources(trace):
        if all(word in source.words for word in words):
            for scope in source.scopes(earlier):
                yield Scope(trace, index_of(flow_of(source, scope)))


def indices(trace: Trace, *words: str) -> Iterator[tuple[Source, Index]]:
    """Yield each function of the user's sources, and what runs at the top; with `words` only of sources that have all
    of these in their text."""
    for source in sources(trace):
        if all(word in source.text for word in words):
            for index in index_of(flow_of(source, source.tree)).scopes:
                yield source, index


def told(
    source: Source, node: ast.AST, kind: str, message: str, remedy: str, severity: str = "warning",
    rows: Sequence[Row] = (),
) -> list[Found]:  # fmt: skip
    """Return the one finding of a rule: its message begins with the place."""
    line, col, place = source.place(node)
    return [Found(kind, severity, line, col, capital(f"{place} {message}"), remedy, list(rows))]


def tell(source: Source, node: ast.AST, kind: str, severity: str, says: str, remedy: str) -> list[Found]:
    """Return one finding about an expression: its place, and what is wrong there."""
    line, col, place = source.place(node)
    return [Found(kind, severity, line, col, capital(f"{place} {says}"), remedy)]


def value_of(flow: Flow, node: ast.AST) -> ast.expr | None:
    """Return what a variable, or an attribute that the same function sets, was last given before it is read there."""
    if isinstance(node, ast.Name):
        return flow.value(node)
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return None
    given = index_of(flow).attributes.get(ast.unparse(node), ())
    return next((value for line, value in reversed(given) if line < node.lineno), None)


def unpacked(flow: Flow, call: ast.Call) -> dict[str, ast.expr]:
    """Return what the dictionaries give that a call unpacks, by name: ``f(**config["loss"])``, where they are written
    out in the program."""
    found: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            known = _items(flow, keyword.value)
            found.update(known or {})
    return found


def _items(flow: Flow, node: ast.expr, depth: int = 4) -> dict[str, ast.expr] | None:
    """What a dictionary holds: one written out, a variable, an item of another one."""
    inner = flow.inner(node)
    if isinstance(inner, ast.Name):
        given = [p.value for p in index_of(flow_of(flow.source, whole(flow.source))).given if p.name == inner.id]
        inner = given[0] if len(given) == 1 else inner
    if isinstance(inner, ast.Dict):
        return {k.value: v for k, v in zip(inner.keys, inner.values, strict=True) if isinstance(k, ast.Constant)}  # type: ignore[misc]
    if called(inner) == "dict" and isinstance(inner, ast.Call) and not inner.args:
        return {k.arg: k.value for k in inner.keywords if k.arg is not None}
    if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant) and depth:
        outer = _items(flow, inner.value, depth - 1) or {}
        item = outer.get(str(inner.slice.value))
        return None if item is None else _items(flow, item, depth - 1)
    return None


def taken_out(flow: Flow, name: ast.Name) -> ast.Subscript | None:
    """Return what a variable is of a call's results, as if it had been asked for by its place: ``f(x)[1]`` of
    ``a, b = f(x)``."""
    found = None
    for node in index_of(flow).kinds.get(ast.Assign, ()):
        target = node.targets[0]
        if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Call) or node.end_lineno >= name.lineno:
            continue
        for k, one in enumerate(target.elts):
            if isinstance(one, ast.Name) and one.id == name.id:
                place = ast.copy_location(ast.Constant(k), node.value)
                found = ast.copy_location(ast.Subscript(node.value, place, ast.Load()), node.value)
    return found


def stripped(flow: Flow, node: ast.expr, depth: int = 16) -> ast.expr:
    """Return what an expression is a value of: variables put in, views and changes of type left out."""
    while depth:
        depth -= 1
        value = value_of(flow, node)
        if value is None and isinstance(node, ast.Name):
            value = taken_out(flow, node)
        if value is not None:
            node = value
        elif isinstance(node, ast.Call) and called(node) in KEEPS and operands(node):
            node = operands(node)[0]
        elif isinstance(node, ast.Subscript) and _only_none(node.slice):
            node = node.value
        else:
            break
    return node


def _only_none(node: ast.AST) -> bool:
    """Whether an index only adds dimensions: ``[:, None]``."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    none = [isinstance(p, ast.Constant) and p.value is None for p in parts]
    whole = [isinstance(p, ast.Slice) and p.lower is p.upper is p.step is None for p in parts]
    return any(none) and all(a or b for a, b in zip(none, whole, strict=True))


def spread(flow: Flow, node: ast.expr, most: int = MOST) -> Iterator[ast.AST]:
    """Yield the nodes of an expression with its variables put in, and theirs."""
    stack: list[ast.AST] = [node]
    seen: set[ast.AST] = set()
    while stack and most:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        most -= 1
        yield one
        value = value_of(flow, one)
        stack.extend(ast.iter_child_nodes(one) if value is None else [value])
        if value is None and (given := result(flow.source, one)) is not None:
            stack.append(given)


def words(flow: Flow, node: ast.expr) -> set[str]:
    """Return the names in an expression with its variables put in, attributes and functions among them."""
    return {name for n in spread(flow, node) if (name := str(getattr(n, "id", getattr(n, "attr", ""))))}


def goals(source: Source, flow: Flow) -> list[ast.expr]:
    """Return what is made small: what backward() is called on, and what a function returns that is named a loss."""
    found = [of for of, _ in losses(flow)]
    scope = flow.scope
    if isinstance(scope, Function):
        kind = next((a for a in source.around(scope) if isinstance(a, ast.ClassDef)), None)
        of_class = kind is not None and re.search("loss|criterion|nll", kind.name, re.I) and scope.name == "forward"
        if of_class or re.search(r"loss|criterion|(^|_)nll|objective", scope.name, re.I):
            found += [n.value for n in index_of(flow).kinds.get(ast.Return, ()) if n.value is not None]
    parts = [part for of in found for part in (of.elts[:1] if isinstance(of, ast.Tuple) else [of])]
    return [part for part in parts if not isinstance(part, ast.Constant)]


def scope_around(source: Source, node: ast.AST) -> ast.AST:
    """Return the function that a node stands in, else the whole program."""
    inner = next((above for above in source.around(node) if isinstance(above, Function)), None)
    return inner or whole(source)


def whole(source: Source) -> ast.Module:
    """Return the statements of a source: of this cell after those of the earlier cells that made what it reads."""
    return source.program if source.earlier else source.tree


def flow_around(source: Source, node: ast.AST) -> Flow:
    """Return what the variables hold where a node stands."""
    return flow_of(source, scope_around(source, node))


def _scopes(source: Source) -> Iterator[ast.AST]:
    """Yield the program, with the earlier cells, and every function; of a file or an earlier cell its functions."""
    if not source.name:
        yield whole(source)
    yield from (n for n in source.nodes if isinstance(n, Function))


def flows(trace: Trace) -> Iterator[tuple[Source, Flow]]:
    """Yield the flow of each of the `scopes` of all sources."""
    for source in sources(trace):
        for scope in _scopes(source):
            yield source, flow_of(source, scope)


def calls(trace: Trace, *names: str) -> Iterator[tuple[Source, ast.Call]]:
    """Yield the calls of some names in all sources."""
    for source in sources(trace):
        for name in names:
            for node in source.calls.get(name, ()):
                yield source, node
