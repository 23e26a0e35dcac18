"""Samples that are mixed, and labels that are not, or the other way round; a text that goes on from its first word; a
state that begins at random."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Trace
from ..finding import Found
from ..order import text_rule
from ..reading.calls import name_of, operands
from ..reading.expressions import Flow, flow_of
from ..reading.scope import Scope, flow_around, scope_around
from ..reading.sources import Function, Source, called

DRAWN = {"randperm", "permutation"}
CHOOSE = {"argmax", "multinomial", "choice", "topk"}
SHARE = re.compile(r"^(lam\w*|lmbda|l|alpha|ratio|r|w|mix|weight|beta|share)$", re.I)


def _mixture(node: ast.AST) -> tuple[str, ast.expr, ast.expr] | None:
    """The share, what it multiplies, and what 1 minus it does: of ``l * a + (1 - l) * b``."""
    if called(node) == "lerp" and len(parts := operands(node)) == 3 and SHARE.match(name_of(parts[2])):
        return name_of(parts[2]), parts[1], parts[0]
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return None
    found: dict[bool, tuple[str, ast.expr]] = {}
    for term in (node.left, node.right):
        if not isinstance(term, ast.BinOp) or not isinstance(term.op, ast.Mult):
            return None
        for factor, rest in ((term.left, term.right), (term.right, term.left)):
            less = isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Sub)
            share = factor.right if less and getattr(factor.left, "value", None) == 1 else factor  # type: ignore[attr-defined]
            if isinstance(share, ast.Call) and called(share) == "float" and share.args:
                share = share.args[0]
            if SHARE.match(name_of(share)) and (less or share is factor or isinstance(factor, ast.Call)):
                found.setdefault(less, (name_of(share), rest))
                break
    if len(found) != 2 or found[True][0] != found[False][0]:
        return None
    return found[False][0], found[False][1], found[True][1]


def _permuted(flow: Flow, node: ast.AST, order: set[str]) -> bool:
    """Whether an expression reads something in another order: ``y[perm]``, or a variable that was given it."""
    for inner in ast.walk(node):
        value = flow.value(inner) if isinstance(inner, ast.Name) else None
        for part in (inner, value):
            if isinstance(part, ast.Subscript) and (name_of(part.slice) in order or called(part.slice) in DRAWN):
                return True
    return False


def _orders(flow: Flow) -> set[str]:
    """The variables that hold an order which was drawn."""
    return {name_of(t) for n in flow.nodes if isinstance(n, ast.Assign) and called(n.value) in DRAWN for t in n.targets}


@text_rule(534, earlier=True)
def shares_exchanged(scope: Scope) -> Iterator[Found]:
    """``x = l * x + (1 - l) * x[p]`` and ``(1 - l) * loss(out, y) + l * loss(out, y[p])``."""
    trace, source, flow = scope.trace, scope.source, scope.flow
    if not DRAWN & source.calls.keys():
        return
    order = _orders(flow)
    turned = _turned_by(trace, source, flow) or _handed_turned(trace, source, flow)
    if not order and not turned:
        return
    mixed: list[tuple[bool, ast.AST]] = []
    weighed: list[tuple[bool, ast.AST]] = []
    for node in flow.nodes:
        found = _mixture(node)
        if found is None:
            continue
        one, other = (
            _permuted(flow, part, order) or any(isinstance(n, ast.Name) and n.id in turned for n in ast.walk(part))
            for part in found[1:]
        )
        if one == other:
            continue
        losses = all(isinstance(part, ast.Call) and len(part.args) > 1 for part in found[1:])
        (weighed if losses else mixed).append((one, node))
    mixed += [(way, at) for at, way in turned.values()]
    if len({way for way, _ in mixed}) != 1 or not weighed or weighed[0][0] == mixed[0][0]:
        return
    says = (
        f"weighs the labels the other way round than the samples are mixed (`{ast.unparse(weighed[0][1])}`; "
        f"{source.place(mixed[0][1]).words}: `{ast.unparse(mixed[0][1])}`): what a sample has most of counts least."
    )
    yield scope.tell(weighed[0][1], "loss", says, "Weigh both labels by the shares of their samples.")


def _handed_turned(trace: Trace, source: Source, flow: Flow) -> dict[str, tuple[ast.AST, bool]]:
    """The arguments of a function that its one call gives labels in the other order."""
    function = flow.scope
    found = source.calls.get(function.name, []) if isinstance(function, Function) else []
    if len(found) != 1 or not isinstance(function, Function):
        return {}
    turned = _turned_by(trace, source, flow_around(source, found[0]))
    pairs = zip(function.args.args, found[0].args, strict=False)
    return {own.arg: turned[name_of(given)] for own, given in pairs if name_of(given) in turned}


def _turned_by(trace: Trace, source: Source, flow: Flow) -> dict[str, tuple[ast.AST, bool]]:
    """The variables to which a function that mixes samples gave labels in the other order: how it mixes."""
    found: dict[str, tuple[ast.AST, bool]] = {}
    drawing = {scope_around(source, n) for name in DRAWN for n in source.calls.get(name, ())}
    for node in flow.nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Call):  # type: ignore[attr-defined]
            continue
        for function in drawing:
            if not isinstance(function, Function) or function.name != called(node.value):  # type: ignore[attr-defined]
                continue
            inner = flow_of(source, function)
            order = _orders(inner)
            mixes = [(n, mixture) for n in inner.nodes if order and (mixture := _mixture(n)) is not None]
            ends = [n.value for n in inner.nodes if isinstance(n, ast.Return)]
            if len(mixes) != 1 or not ends or not isinstance(ends[-1], ast.Tuple):
                continue
            way = _permuted(inner, mixes[0][1][1], order)
            for one, given in zip(target.elts, ends[-1].elts, strict=False):
                if (
                    isinstance(one, ast.Name)
                    and _mixture(inner.inner(given)) is None
                    and _permuted(inner, given, order)
                ):
                    found[one.id] = mixes[0][0], way
    return found


@text_rule(535, earlier=True)
def labels_unmixed(scope: Scope) -> Iterator[Found]:
    """A function that mixes samples with others and gives nothing else: the labels of the others are lost."""
    source, flow = scope.source, scope.flow
    if not isinstance(flow.scope, Function) or not DRAWN & source.calls.keys():
        return
    order = _orders(flow)
    inline = any(isinstance(n, ast.Subscript) and called(n.slice) in DRAWN for n in flow.nodes)
    for node in flow.of(ast.Return):
        if not isinstance(node, ast.Return) or node.value is None or not (order or inline):
            continue
        value = flow.inner(node.value)
        found = _mixture(value)
        if found is None:
            continue
        parts = [_permuted(flow, part, order) for part in found[1:]]
        reads = [n for n in flow.nodes if isinstance(n, ast.Name) and n.id in order and isinstance(n.ctx, ast.Load)]
        if parts[0] == parts[1] or len(reads) != (not inline) or len(flow.scope.args.args) > 3:
            continue
        says = (
            f"mixes samples with others of the batch (`{ast.unparse(value)}`) and gives neither their labels "
            "nor the "
            "share: a sample that is mostly another one keeps its label."
        )
        remedy = "Give the order and the share too: share * loss(out, y) + (1 - share) * loss(out, y[order])."
        yield scope.tell(value, "data", says, remedy)


@text_rule(548, earlier=True)
def first_word_again(scope: Scope) -> Iterator[Found]:
    """A loop that draws word after word and feeds the first one each time."""
    source, flow = scope.source, scope.flow
    if not CHOOSE & source.calls.keys():
        return
    chosen = [n for name in CHOOSE for n in source.calls.get(name, ())]
    around = {above for n in chosen for above in source.around(n)}
    for loop in flow.of(ast.For, ast.While):
        if not isinstance(loop, ast.For | ast.While) or loop not in around:
            continue
        inside = [n for statement in loop.body for n in ast.walk(statement)]
        if any(called(n) == "backward" for n in inside):
            continue
        stored = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        drawn = [
            n for n in inside
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
            and any(called(m) in CHOOSE for m in ast.walk(n.value))
        ]  # fmt: skip
        for made in drawn:
            name = name_of(made.targets[0])
            kept = [n for n in inside if called(n) == "append" and name in ast.unparse(n.args[0])]  # type: ignore[attr-defined]
            reads = [n for n in inside if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
            if not kept or len(reads) != len(kept):
                continue
            fed = _fed(inside, stored)
            if fed is None:
                continue
            says = (
                f"reads {name_of(fed)} in each turn (`{ast.unparse(source.parents[fed])}`), and no turn gives it "
                f"what was chosen ({name}, {source.place(made).words}): every word follows the first one."
            )
            yield scope.tell(fed, "loop", says, f"Feed it: {name_of(fed)} = {name}.")


def _fed(inside: list[ast.AST], stored: set[str]) -> ast.Name | None:
    """The variable that an embedding reads in a loop and that no turn gives another value."""
    lists = {ast.unparse(getattr(n.func, "value", n)) for n in inside if called(n) in ("append", "extend")}  # type: ignore[attr-defined]
    for node in inside:
        if isinstance(node, ast.Call) and re.search(r"emb", ast.unparse(node.func), re.I) and len(node.args) == 1:
            word = node.args[0]
            if isinstance(word, ast.Name) and word.id not in stored and word.id not in lists:
                return word
    for node in inside:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        call = node.value
        if not isinstance(call, ast.Call) or len(call.args) != 2 or not isinstance(call.args[0], ast.Name):
            continue
        carried = {ast.unparse(t) for t in node.targets[0].elts} & {ast.unparse(call.args[1])}
        word = call.args[0]
        if carried and word.id not in stored and word.id not in lists:
            return word
    return None


def _gives_states(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether forward() takes the states from a method with which a recurrent layer begins: ``h, c =
    self.start(n)``."""
    kind = source.parents.get(function)
    forward = [n for n in getattr(kind, "body", ()) if isinstance(n, Function) and n.name == "forward"]
    for node in (n for f in forward for n in flow_of(source, f).of(ast.Assign)):
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(getattr(node.value, "func", node.value)) == f"self.{function.name}"
        ):
            names = [name_of(t) for target in node.targets for t in getattr(target, "elts", [target])]
            read = [n for n in flow_of(source, forward[0]).of(ast.Call) if isinstance(n, ast.Call)]
            fed = [n for n in read if re.search(r"rnn|lstm|gru|cell", ast.unparse(n.func), re.I)]
            given = {n.id for c in fed for a in c.args for n in ast.walk(a) if isinstance(n, ast.Name)}
            return all(names) and bool(given & set(names))
    return False


STARTS = ("forward", "init_hidden", "initHidden", "init_state")


@text_rule(553, earlier=True)
def begins_at_random(scope: Scope) -> Iterator[Found]:
    """``h0 = torch.randn(...)`` in forward: each call of the model gives another answer."""
    source, flow = scope.source, scope.flow
    function = flow.scope
    if not isinstance(function, Function) or not (function.name in STARTS or _gives_states(source, function)):
        return
    for node in flow.nodes:
        drawn = called(node) in ("randn", "rand", "randn_like", "normal", "normal_", "uniform_")
        if not drawn or not isinstance(node, ast.Call):
            continue
        above = source.parents.get(node)
        while isinstance(above, ast.Tuple | ast.Call | ast.Attribute | ast.GeneratorExp | ast.ListComp):
            above = source.parents.get(above)
        name = name_of(above.targets[0]) if isinstance(above, ast.Assign) else ""
        made = isinstance(above, ast.Return) or re.match(r"(h|c|h_?0|c_?0|hidden|state|hx|cx|h_?t|c_?t)\w{0,3}$", name)
        if not made or (isinstance(above, ast.Return) and function.name == "forward"):
            continue
        if function.name == "forward" and not any(
            re.search(r"rnn|lstm|gru|cell", ast.unparse(n.func), re.I) for n in flow.nodes if isinstance(n, ast.Call)
        ):
            continue
        says = (
            f"begins with a state that is drawn at random (`{ast.unparse(node)}`): the same input has another "
            "answer "
            "in each call, in evaluation too."
        )
        yield scope.tell(node, "layout", says, "Begin with zeros, or with a parameter that is learnt.", "note")
