"""Predictions that are read wrongly: logits held against 0.5, scores taken for classes, the last batch for the whole
set."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, last_line, where
from ..losses.losses import WITH_LOGITS, _source
from ..order import rule, text_rule
from ..reading.calls import bare, equalities, operands, rows_at
from ..reading.expressions import Flow
from ..reading.loaders import gone_over, over_batches
from ..reading.scope import Scope, flow_around
from ..reading.sources import Source, called, names_in, sources

LAYERS = ("linear", "addmm", "conv", "matmul", "mm")
HALF = re.compile(r"[<>]=?\s*0?\.50*\b|\b0?\.50*\s*[<>]|\b(gt|ge|lt|le)\(.*0?\.50*\)|\bround\b")
COMPARES = {"gt", "ge", "lt", "le", "round"}
SUMMED = re.compile(r"total|running|epoch|(^|_)(sum|cum)", re.I)
"""Names of what is added up over the batches."""


@rule(736)
def logits_for_probabilities(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(net(x) > 0.5)`` where the loss takes logits: a probability of 0.5 is a logit of 0."""
    layers = {leaf for row in trace.rows if row.op in WITH_LOGITS and row.reached for leaf in _layer(row.refs[:1])}
    for row in trace.rows if layers else ():
        if row.op not in COMPARES or (row.requires_grad and row.op != "round") or not row.refs:
            continue
        code = code_of(trace, row)
        if not layers & _layer(row.refs[:1]) or not (HALF.search(code) or _by_name(trace, row)):
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} holds logits against 0.5 (`{code}`): the loss with logits applies the sigmoid by itself, so a "
            "probability of 0.5 is a logit of 0, and what is between the two counts as the other class."
        )
        remedy = "Hold them against 0, or take torch.sigmoid(...) first."
        return [Found("evaluation", "warning", line, col, message, remedy, [row])]
    return []


def _by_name(trace: Trace, row: Row) -> bool:
    """Whether the number that a row compares with has a name, and is a half."""
    for source in sources(trace):
        nodes = [*source.calls.get(row.op, ()), *(n for n in source.nodes if isinstance(n, ast.Compare))]
        for node in nodes:
            other = node.comparators[0] if isinstance(node, ast.Compare) else node.args[-1] if node.args else None
            if other is not None and isinstance(other, ast.Name) and row in rows_at(trace, source, node):
                return flow_around(source, node).setting(other) == 0.5
    return False


def _layer(refs: tuple[Ref, ...]) -> set[Leaf]:
    """The parameters of the layer whose output a value is, looked at through views."""
    made = _source(refs[0]) if refs else None
    if made is None or not made.op.startswith(LAYERS):
        return set()
    return {ref for ref in made.refs if isinstance(ref, Leaf) and ref.module}


@text_rule(737)
def scores_for_classes(scope: Scope) -> Iterator[Found]:
    """``pred, _ = out.max(1)`` and ``pred == y``: the largest score, and not whose it is."""
    source, nodes = scope.source, scope.nodes
    firsts = {
        n.targets[0].elts[0].id: n
        for n in nodes
        if isinstance(n, ast.Assign)
        and isinstance(n.targets[0], ast.Tuple)
        and len(n.targets[0].elts) == 2
        and isinstance(n.targets[0].elts[0], ast.Name)
        and _largest(n.value)
    }
    for node, *sides in equalities(nodes):
        for side in sides:
            made = firsts.get(side.id) if isinstance(side, ast.Name) else None
            if made is None and not _values(side):
                continue
            at = made if made is not None else node
            message = (
                f"takes the largest scores (`{ast.unparse(at)}`) where classes are compared "
                f"({source.place(node).words}): max gives the values first and their places second, and a "
                "score is hardly ever equal to a class number."
            )
            remedy = "Take the places: _, pred = out.max(1), or out.argmax(1)."
            row = scope.row(node)
            scores = row is not None and {ref.dtype[:3] for ref in row.refs} == {"flo", "int"}
            yield scope.tell(at, "evaluation", message, remedy, rows=[row] if row is not None and scores else [])


def _largest(node: ast.AST) -> bool:
    """Whether it is ``x.max(1)`` or ``torch.max(x, 1)``, which give values and places."""
    if not isinstance(node, ast.Call) or called(node) not in ("max", "topk"):
        return False
    function = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in ("torch", "core")
    dims = node.args[1 if function else 0 :]
    return isinstance(node.func, ast.Attribute) and bool(dims or any(k.arg == "dim" for k in node.keywords))


def _values(node: ast.AST) -> bool:
    """Whether it is ``x.max(1)[0]`` or ``x.max(1).values``."""
    if isinstance(node, ast.Attribute):
        return node.attr == "values" and _largest(node.value)
    first = isinstance(node, ast.Subscript) and getattr(node.slice, "value", None) == 0
    return first and _largest(node.value)  # type: ignore[attr-defined]


@text_rule(738)
def last_batch_only(scope: Scope) -> Iterator[Found]:
    """An accuracy that is computed after the loop over the batches, of what the last one left behind."""
    source, nodes = scope.source, scope.nodes
    for loop in nodes:
        if not isinstance(loop, ast.For) or not over_batches(scope.trace, source, loop):
            continue
        if any(called(n) in ("backward", "step") for n in ast.walk(loop)):
            continue  # the figure of the last training batch is a sign of life, and meant as such
        node = _after(source, scope.flow, loop)
        if node is None:
            continue
        message = (
            f"compares after the loop over the batches ({source.place(loop).words}) what its last turn "
            f"left behind (`{ast.unparse(node)}`): all batches run, and the last one alone is counted."
        )
        remedy = "Count in the loop: right += (pred == y).sum().item(); total += len(y)."
        yield scope.tell(node, "evaluation", message, remedy)


def _after(source: Source, flow: Flow, loop: ast.For) -> ast.expr | None:
    """A comparison after a loop of two variables that each turn of it binds anew."""
    nodes = flow.nodes
    stores: dict[str, int] = {}
    outside: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            inside = loop.lineno <= node.lineno <= last_line(loop)
            stores[node.id] = stores.get(node.id, 0) + inside
            if not inside:
                outside.add(node.id)
    outer = next((a for a in source.around(loop) if isinstance(a, ast.For | ast.While)), None)
    for node, *both in equalities(nodes):
        if node.lineno <= last_line(loop):
            continue
        if outer is not None and node.lineno > last_line(outer):
            continue
        names = [n.id for side in both for n in ast.walk(_before(flow, side, loop))
                 if isinstance(n, ast.Name) and n.id not in ("torch", "core", "np")]  # fmt: skip
        sides = isinstance(both[1], ast.Name | ast.Call | ast.Attribute)
        if len(names) >= 2 and sides and all(stores.get(n) and n not in outside for n in names):
            return node
    return None


def _before(flow: Flow, node: ast.expr, loop: ast.For) -> ast.expr:
    """A variable that is set after a loop is what it was computed of."""
    value = flow.value(node)
    return value if value is not None and value.lineno > last_line(loop) else node


@text_rule(795)
def written_over(scope: Scope) -> Iterator[Found]:
    """``correct = (pred == y).sum()`` in the loop over the batches, and ``correct / len(dataset)`` after it."""
    for loop in scope.flow.of(ast.For):
        assert isinstance(loop, ast.For)
        fetched = gone_over(scope.trace, scope.source, loop)
        alone = fetched and all(f.batches <= f.passes for f in fetched)  # one batch is the whole set
        if alone or not over_batches(scope.trace, scope.source, loop):
            continue
        inside = list(ast.walk(loop))
        if any(isinstance(n, ast.Break) for n in inside):
            continue
        summed = {ast.unparse(n.target) for n in inside if isinstance(n, ast.AugAssign)}
        bound = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - summed
        values = {n.value for n in inside if isinstance(n, ast.Assign)}
        for share in scope.flow.of(ast.BinOp):
            if not isinstance(share, ast.BinOp) or not isinstance(share.op, ast.Div) or share.lineno <= last_line(loop):
                continue
            counted = _counted(share.left)
            made = scope.flow.value(counted) if counted is not None else None
            if counted is None or made not in values or not _of_a_batch(counted.id, made):
                continue
            if bound & names_in(share.right) or _batch_size(scope, loop, share.right):
                continue
            says = (
                f"sets {counted.id} anew for each batch (`{counted.id} = {ast.unparse(made)}`), and "
                f"{scope.place(share).words} divides it by what all batches have (`{ast.unparse(share)}`): it is of "
                "the last batch alone."
            )
            remedy = f"Add up: {counted.id} = 0 before the loop, and {counted.id} += {ast.unparse(made)} in it."
            proof = "the loop went over several batches" if fetched else ""
            yield scope.tell(made, "evaluation", says, remedy, proof=proof)


def _counted(node: ast.expr) -> ast.Name | None:
    """The variable that is divided: of ``correct``, ``100 * correct``, ``correct.item()``."""
    node = bare(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [bare(side) for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
        node = sides[0] if len(sides) == 1 else node
    return node if isinstance(node, ast.Name) else None


def _of_a_batch(name: str, made: ast.expr) -> bool:
    """Whether a value is how many of a batch are right, or the batch's loss under a name for sums."""
    inner = bare(made)
    if called(inner) == "sum":
        return any(True for _ in equalities(ast.walk(inner)))
    loss = isinstance(inner, ast.Name) and re.search("loss", inner.id, re.I) is not None
    return loss and inner is not made and SUMMED.search(name) is not None


def _batch_size(scope: Scope, loop: ast.For, divisor: ast.expr) -> bool:
    """Whether a divisor is, or may be, the number of samples of one batch."""
    text, number = ast.unparse(divisor), scope.flow.number(divisor)
    calls = [n for n in ast.walk(loop.iter) if isinstance(n, ast.Call)]
    sizes = [operands(n)[-1] for n in calls if called(n) in ("split", "range") and len(operands(n)) > 1]
    sizes += [k.value for n in scope.source.calls.get("DataLoader", ()) for k in n.keywords if k.arg == "batch_size"]
    named = re.search(r"batch_?size|(^|\W)bs$", text, re.I) is not None
    return named or isinstance(divisor, ast.Constant) or any(
        text == ast.unparse(size) or (number is not None and number == scope.flow.number(size)) for size in sizes
    )  # fmt: skip
