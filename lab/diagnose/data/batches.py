"""Batches that are not what they seem: only the first of them, inputs and targets in two orders, one layer in place of
several."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, code_of, last_line, library, listed, where
from ..order import rule
from ..reading.expressions import flow_of
from ..reading.scope import Scope, scopes, spread
from ..reading.sources import Function, called, own_nodes, sources

PICKS = {"getitem", "index", "index_select"}


@rule(540, proof="backward() ran in that loop, and its text says what it takes")
def first_only(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A loop over batches that ends with its first, or that takes the first of a new pass in every step."""
    back = {line for chain in trace.backwards if (line := trace.line(chain)) is not None}
    if not back or trace.error is not None or trace.steps.count < 2:
        return []
    for node in trace.nodes():
        if isinstance(node, ast.For) and any(node.lineno < line <= last_line(node) for line in back):
            last = node.body[-1]
            if isinstance(last, ast.Return | ast.Break) and _over_data(node.iter):
                how = "returns" if isinstance(last, ast.Return) else "breaks off"
                message = (
                    f"Line {last.lineno} {how} inside the loop over `{ast.unparse(node.iter)}` (line {node.lineno}): "
                    "it ends with its first batch, and nothing trains on the others."
                )
                remedy = f"Move line {last.lineno} out of the loop: one indentation less."
                if isinstance(last, ast.Break):
                    remedy = f"Leave out line {last.lineno}, or put it under a condition."
                return [Found("loop", "warning", last.lineno, last.col_offset, message, remedy)]
    for loop in (n for n in trace.nodes() if isinstance(n, ast.For | ast.While)):
        if not any(loop.lineno < line <= last_line(loop) for line in back):
            continue
        for call in (n for n in ast.walk(loop) if isinstance(n, ast.Call)):
            inner = call.args[0] if call.args and getattr(call.func, "id", "") == "next" else None
            if not isinstance(inner, ast.Call) or getattr(inner.func, "id", "") != "iter" or not inner.args:
                continue
            around = [n for n in trace.nodes() if isinstance(n, ast.For | ast.While) and call in ast.walk(n)]
            innermost = max(around, key=lambda n: n.lineno)
            if not any(innermost.lineno < line <= last_line(innermost) for line in back):
                continue
            if any(isinstance(n, ast.For | ast.While) and n is not innermost and
                   any(n.lineno < line <= last_line(n) for line in back) for n in ast.walk(innermost)):  # fmt: skip
                continue  # an evaluation beside the loop that trains
            of = ast.unparse(inner.args[0])
            shuffled = _shuffled(trace, of)
            what = "another batch at random" if shuffled else "the same first batch"
            message = (
                f"Line {call.lineno} begins a new pass over {of} in every step and takes its first batch: "
                f"`{ast.unparse(call)}` gives {what} each time."
            )
            remedy = f"Loop over it: for batch in {of}; or make the iterator once, before the loop."
            severity = "note" if shuffled else "warning"
            return [Found("loop", severity, call.lineno, call.col_offset, message, remedy)]
    return []


def _over_data(over: ast.expr) -> bool:
    """Whether a loop goes over batches, and not over numbers."""
    name = ast.unparse(over.func) if isinstance(over, ast.Call) else ""
    if name == "enumerate" and isinstance(over, ast.Call) and over.args:
        return _over_data(over.args[0])
    return name != "range" and not isinstance(over, ast.Constant)


def _shuffled(trace: Trace, of: str) -> bool:
    """Whether the cell makes a loader of that name that shuffles, or does not make it."""
    for node in trace.nodes():
        if isinstance(node, ast.Assign) and of in map(ast.unparse, node.targets) and isinstance(node.value, ast.Call):
            text = ast.unparse(node.value)
            return "shuffle=True" in text or "sampler" in text
    return True


@rule(530)
def apart(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Inputs and targets that were shuffled by two different permutations."""
    read = next((one for scope in scopes(trace, "permutation") for one in _shuffled_apart(scope)), None)
    picks = [row for row in trace.rows if row.op in PICKS and len(row.refs) == 2 and not row.cut and _permutes(row)]
    if len(picks) < 2 or read is not None:
        return [read] if read is not None else []
    for losses in trace.roots.values():
        for loss in losses:
            compares = [r for r in ancestors([loss]) if isinstance(r, Row) and r.reached and len(r.refs) > 1]
            for row in compares:
                sides = [[p for p in picks if p in ancestors([ref])] for ref in row.refs[:2]]
                if not (row.refs[0].requires_grad and not row.refs[1].requires_grad) or not sides[0] or not sides[1]:
                    continue
                if len(sides[0]) > 1 or len(sides[1]) > 1 or sides[0][0] is sides[1][0]:
                    continue
                a, b = sides[0][0], sides[1][0]
                if _same(a.refs[1], b.refs[1]) or a.refs[0] is b.refs[0] or _named_alike(trace, a, b):
                    continue
                line, col, _ = where(trace, b.chain)
                first = where(trace, a.chain)[2]
                beside = "the inputs" if first == f"line {line}" else f"{first} the inputs"
                message = (
                    f"Line {line} brings the targets into another order than {beside}: "
                    f"`{code_of(trace, b)}` and `{code_of(trace, a)}` draw two permutations, so inputs and targets no "
                    "longer belong together."
                )
                remedy = f"Draw one and use it for both: p = {library(trace)}.randperm(n); x[p], y[p]."
                return [Found("loop", "warning", line, col, message, remedy, [a, b])]
    return []


def _shuffled_apart(scope: Scope) -> Iterator[Found]:
    """Told of two calls of a function that draws a permutation in each: of inputs, and of what was made of them."""
    source, flow = scope.source, scope.flow
    for function in (n for n in source.nodes if isinstance(n, Function)):
        draws = [n for n in own_nodes(function) if called(n) in ("permutation", "randperm")]
        ends = [n.value for n in own_nodes(function) if isinstance(n, ast.Return) and n.value is not None]
        if len(draws) != 1 or len(ends) != 1 or not isinstance(ends[0], ast.Subscript):
            continue
        if draws[0] not in set(ast.walk(flow_of(source, function).inner(ends[0].slice))):
            continue
        here = [n for n in scope.calls(function.name) if len(n.args) == 1]
        for one, other in itertools.permutations(here, 2):
            words = {n.id for n in spread(flow, other.args[0], 60) if isinstance(n, ast.Name)}
            if isinstance(one.args[0], ast.Name) and one.args[0].id in words - {ast.unparse(other.args[0])}:
                says = (
                    f"brings what was made of {one.args[0].id} into another order than that "
                    f"(`{ast.unparse(other)}` and `{ast.unparse(one)}` draw a permutation each), so "
                    "inputs and targets no longer belong together."
                )
                remedy = "Draw one and use it for both: p = rng.permutation(n); x[p], y[p]."
                yield scope.tell(other, "loop", says, remedy)


def _permutes(row: Row) -> bool:
    """Whether an op takes all rows of a tensor in an order that was drawn where it stands."""
    index = row.refs[1]
    many = tuple(row.refs[0].shape[:1])
    return index.dtype == "int64" and tuple(index.shape) == many and tuple(row.shape) == tuple(row.refs[0].shape)


def _named_alike(trace: Trace, a: Row, b: Row) -> bool:
    """Whether two ops of one line or function take their rows by one variable: ``x[perm], y[perm]``."""
    names = [code_of(trace, row).rpartition("[")[2].removesuffix("]") for row in (a, b)]
    here = bool(a.chain) and bool(b.chain) and a.chain[0][0] is b.chain[0][0]
    return here and names[0] == names[1] and names[0].isidentifier()


def _same(a: Ref, b: Ref) -> bool:
    """Whether two indices are one tensor, or may be: both named alike."""
    if a is b:
        return True
    names = [r.name if isinstance(r, Leaf) else "" for r in (a, b)]
    return names[0] == names[1] and bool(names[0]) and not names[0].startswith("unnamed")


@rule(550)
def one_for_all(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``[nn.Linear(8, 8)] * 3``: three times the same layer, with one set of weights."""
    if not trace.gradients:
        return []
    own = {n.name for s in sources(trace) for n in s.nodes if isinstance(n, ast.ClassDef) and _is_module(n)}
    for node in trace.nodes():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            parts = [p for p in (node.left, node.right) if isinstance(p, ast.List)]
            made = [
                c for p in parts for c in ast.walk(p) if isinstance(c, ast.Call) and (_of_layers(c) or called(c) in own)
            ]
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            made = _same_each_time(trace, node)
        else:
            continue
        if not made:
            continue
        shared = [leaf for leaf in trace.gradients if leaf.module and _twice(trace, leaf)]
        if not shared:
            continue
        code = ast.unparse(node)
        message = (
            f"Line {node.lineno} repeats one layer: all parts of `{code}` are the same module, with one set of weights "
            f"({listed(shared)})."
        )
        remedy = f"Make each anew: [{ast.unparse(made[0])} for _ in range(n)]."
        return [Found("layer", "warning", node.lineno, node.col_offset, message, remedy, [], shared)]
    return []


def _is_module(kind: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("Module") for base in kind.bases)


def _same_each_time(trace: Trace, node: ast.ListComp | ast.GeneratorExp) -> list[ast.Call]:
    """The call that makes the layer which a comprehension repeats: ``(block for _ in range(n))``."""
    targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    if not isinstance(node.elt, ast.Name) or node.elt.id in targets or called(node.generators[0].iter) != "range":
        return []
    made = [n.value for n in trace.nodes() if isinstance(n, ast.Assign) and node.elt.id in map(ast.unparse, n.targets)]
    return [n for n in made if isinstance(n, ast.Call)]


def _twice(trace: Trace, leaf: Leaf) -> bool:
    """Whether one pass of a model reads a parameter more than once."""
    places = [row.chain for row in trace.consumers().get(leaf, ()) if row.reached and row.phase == "forward"]
    return len(places) > len(set(places))


def _of_layers(call: ast.Call) -> bool:
    text = ast.unparse(call.func)
    return text.startswith(("nn.", "torch.nn.", "core.nn.")) and text.rpartition(".")[2][:1].isupper()
