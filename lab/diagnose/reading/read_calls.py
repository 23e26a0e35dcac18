"""What the calls, sums and products of a function are given, each kind found once for all the rules that ask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...recorder.cell_trace import Row, Trace
from ..finding import Found, capital
from .expressions import LIBRARIES, Flow, flow_of, losses
from .sources import Function, Source, assigned, called, sources

OUTSIDE = LIBRARIES | {"nn.functional", "torch.nn.functional", "torch.special", "torch.linalg", "core.nn.functional",
                       "math", "torch.fft", "np.fft", "torch.autograd",
                       "core.autograd", "autograd", "core.fft", "np.linalg", "torch.nn", "nn", "random",
                       "np.random", "core.linalg", "fft", "optim"}  # fmt: skip
COMPARED = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
CRITERION = re.compile(r"^(criterion|loss_fn|loss_func|lossfn|mse|mse_loss|huber|loss_function)$", re.I)
KEEPS = {"detach", "float", "double", "to", "view", "reshape", "squeeze", "unsqueeze", "flatten", "contiguous", "clone",
         "item", "cuda", "cpu", "tensor", "as_tensor", "long", "type", "numpy", "t", "expand", "type_as", "half",
         "expand_as", "requires_grad_"}  # fmt: skip
"""Functions and methods that leave the values of what they are given."""
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
                self.calls.setdefault(called(node), []).append(node)
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
            inner = self.flow.inner(power.left)
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
                found.append(Pair(inner.left, inner.right, power))
        for call in self.called("pow", "square", "abs"):
            of = self.flow.inner(operands(call)[0]) if operands(call) else None
            if isinstance(of, ast.BinOp) and isinstance(of.op, ast.Sub):
                found.append(Pair(of.left, of.right, call))
        return found


_known: WeakKeyDictionary[Flow, Index] = WeakKeyDictionary()


def index_of(flow: Flow) -> Index:
    """Return the index of a function, made once."""
    found = _known.get(flow)
    if found is None:
        found = _known[flow] = Index(flow)
    return found


def indices(trace: Trace, *words: str) -> Iterator[tuple[Source, Index]]:
    """Yield each function of the user's sources, and what runs at the top; with `words` only of sources that have all
    of these in their text."""
    for source in sources(trace):
        if all(word in source.text for word in words):
            for index in index_of(flow_of(source, source.tree)).scopes:
                yield source, index


@lru_cache(2048)
def mentions(pattern: re.Pattern[str] | str, text: str) -> bool:
    """Return whether a pattern is found in a text: of a source, whose functions all ask the same."""
    return re.search(pattern, text) is not None


def told(
    source: Source, node: ast.AST, kind: str, message: str, remedy: str, severity: str = "warning",
    rows: Sequence[Row] = (),
) -> list[Found]:  # fmt: skip
    """Return the one finding of a rule: its message begins with the place."""
    line, col, place = source.place(node)
    return [Found(kind, severity, line, col, capital(f"{place} {message}"), remedy, list(rows))]


def operands(call: ast.AST) -> list[ast.expr]:
    """Return what a call works on: the tensor whose method it is, or the arguments of a function.

    >>> [[ast.unparse(o) for o in operands(ast.parse(t, mode="eval").body)] for t in ("torch.max(a, b)", "a.max(b)")]
    [['a', 'b'], ['a', 'b']]
    """
    if not isinstance(call, ast.Call):
        return []
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) not in OUTSIDE:
        return [call.func.value, *call.args]
    return list(call.args)


def option(call: ast.Call, name: str, place: int = -1) -> ast.expr | None:
    """Return an argument by its name, or by its place among the operands; None where it is not given."""
    given = next((k.value for k in call.keywords if k.arg in (name, "axis" if name == "dim" else name)), None)
    if given is not None or place < 0:
        return given
    args = operands(call)
    return args[place] if len(args) > place else None


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


def value_of(flow: Flow, node: ast.AST) -> ast.expr | None:
    """Return what a variable, or an attribute that the same function sets, was last given before it is read there."""
    if isinstance(node, ast.Name):
        return flow.value(node)
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return None
    given = index_of(flow).attributes.get(ast.unparse(node), ())
    return next((value for line, value in reversed(given) if line < node.lineno), None)


def made_as(source: Source, kind: str) -> set[str]:
    """Return the names, without what they are attributes of, that are given an object of a class."""
    if kind not in source.text:
        return set()
    found = set()
    for node in source.nodes:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            found |= {name_of(one) for one, value in pairs if called(value) == kind}
    return found - {""}


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


def words(flow: Flow, node: ast.expr) -> set[str]:
    """Return the names in an expression with its variables put in, attributes and functions among them."""
    return {name for n in spread(flow, node) if (name := str(getattr(n, "id", getattr(n, "attr", ""))))}


def name_of(node: ast.AST) -> str:
    """Return the last part of a variable's name: of ``self.gamma`` gamma; "" of anything else."""
    return str(getattr(node, "id", getattr(node, "attr", "")))


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


def function_of(found: Source, node: ast.Call) -> Function | None:
    """Return the user's function that a call runs, where its name is that of a single one."""
    name = called(node)
    if not name or (isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in OUTSIDE):
        return None
    named = [n for n in found.nodes if isinstance(n, Function) and n.name == name]
    return named[0] if len(named) == 1 else None


def rows_at(trace: Trace, source: Source, node: ast.AST) -> list[Row]:
    """Return what ran on the lines of an expression of this cell."""
    if source.name or not hasattr(node, "lineno"):
        return []
    last = getattr(node, "end_lineno", None) or node.lineno
    return [row for row in trace.rows if row.place is not None and row.place.file in trace.files
            and node.lineno <= row.place.line + trace.files[row.place.file] <= last]  # fmt: skip
