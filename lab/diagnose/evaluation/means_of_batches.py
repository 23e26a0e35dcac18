"""Figures of batches that are put together wrongly: means of roots and of exponentials, sums divided by another count,
lists that still hold the epochs before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Trace
from ..finding import Found, last_line
from ..order import text_rule
from ..reading.calls import bare, function_of, loops_around, name_of, operands, reduction
from ..reading.expressions import Flow, flow_of
from ..reading.loaders import gone_over, loader_of, over_batches
from ..reading.scope import Scope, spread
from ..reading.sources import Function, Source, called
from .counted_wrongly import divided_by_batches, mean_of_means, whole_set_for_a_part

MSE = re.compile(r"mse|(^|_)(sq|squared)\w*|loss", re.I)
LOSS = re.compile(r"loss|nll|(^|_)(ce|xent)(_|$)|cross_entropy|criterion", re.I)
TOGETHER = {"cat", "concatenate", "stack", "mean", "sum", "tensor", "array", "hstack"}
COLLECTED = re.compile(r"pred|target|label|true|prob|logit|score|out|correct", re.I)


def _added(node: ast.AST) -> tuple[str, ast.expr] | None:
    """The variable or list to which a statement adds, and what."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return ast.unparse(node.target), node.value
    if isinstance(node, ast.Call) and called(node) == "append" and len(node.args) == 1:
        return ast.unparse(getattr(node.func, "value", node)), node.args[0]
    return None


def _object(node: ast.AST) -> ast.expr:
    """What a method is called of."""
    assert isinstance(node, ast.Call)
    return node.func.value if isinstance(node.func, ast.Attribute) else node.func


def _averaged(source: Source, flow: Flow, name: str, loop: ast.For) -> ast.AST | None:
    """The expression after a loop that divides a sum, or averages a list."""
    for node in flow.nodes:
        if getattr(node, "lineno", 0) <= last_line(loop):
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and ast.unparse(node.left) == name:
            return node
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) and ast.unparse(node.target) == name:
            return node
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and ast.unparse(node.left) == f"sum({name})":
            return node
        means = isinstance(node, ast.Call) and called(node) in ("mean", "average", "fmean") and node.args
        if means and ast.unparse(bare(node.args[0])) == name:  # type: ignore[attr-defined]
            return node
        of = bare(_object(node)) if called(node) == "mean" else None
        if isinstance(of, ast.Call) and called(of) in ("stack", "cat") and of.args:
            of = bare(of.args[0])
        if of is not None and ast.unparse(of) == name:
            return node
    return None


@text_rule(758, earlier=True)
def mean_of_roots(scope: Scope) -> Iterator[Found]:
    """``rmse += mse.sqrt()`` and ``ppl += math.exp(loss)`` for each batch, and their mean in the end."""
    source, flow = scope.source, scope.flow
    if not {"sqrt", "exp"} & source.calls.keys() and "** 0.5" not in source.text:
        return
    for node in flow.of(ast.AugAssign, ast.Call):
        added = _added(node)
        loop = next(iter(loops_around(source, node)), None) if added is not None else None
        if added is None or loop is None or not over_batches(scope.trace, source, loop):
            continue
        name, value = added
        made = _curved(flow, value)
        if made is None or _averaged(source, flow, name, loop) is None:
            continue
        if any(called(n) == "backward" for n in ast.walk(loop)):
            continue
        root = called(made) == "sqrt" or isinstance(made, ast.BinOp)
        what, right = ("root", "root of the mean") if root else ("exponential", "exponential of the mean")
        says = (
            f"takes the {what} of each batch (`{ast.unparse(made)}`), and their mean is reported: that is not the "
            f"{right}, and it changes with the size of a batch."
        )
        remedy = f"Add up the losses, divide, and take the {what} once at the end."
        yield scope.tell(made, "evaluation", says, remedy)


def _curved(flow: Flow, node: ast.expr) -> ast.expr | None:
    """The root of a mean squared error, or the exponential of a loss, that an expression is."""
    node = bare(node)
    inner = bare(flow.inner(node))
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Pow) and ast.unparse(inner.right) in ("0.5", "1 / 2"):
        of: ast.expr | None = inner.left
        words = MSE
    elif isinstance(inner, ast.Call) and called(inner) in ("sqrt", "exp"):
        words = MSE if called(inner) == "sqrt" else LOSS
        of = inner.args[0] if inner.args else getattr(inner.func, "value", None)
    else:
        return None
    of = bare(of) if of is not None else None
    if of is None:
        return None
    what = called(of) or name_of(of)
    of = bare(flow.inner(of))
    mean = isinstance(of, ast.Call) and called(of) == "mean"
    return inner if words.search(what) or (mean and "** 2" in ast.unparse(of)) else None


@text_rule(759, earlier=True)
def epochs_before(scope: Scope) -> Iterator[Found]:
    """``preds = []`` before the loop over epochs, filled in each: later figures are of the earlier epochs as well."""
    source, flow = scope.source, scope.flow
    for node in flow.of(ast.Call):
        if not isinstance(node, ast.Call) or called(node) not in ("append", "extend"):
            continue
        name = ast.unparse(getattr(node.func, "value", node))
        loops = loops_around(source, node)
        if (
            len(loops) < 2
            or not name.isidentifier()
            or not (COLLECTED.search(name) or (over_batches(scope.trace, source, loops[0]) and not _trains(loops[0])))
        ):
            continue
        outer = loops[-1]
        inside = [n for n in ast.walk(outer) if isinstance(n, ast.Name) and n.id == name]
        if any(isinstance(n.ctx, ast.Store) for n in inside) or any(
            called(n) in ("clear", "pop") and ast.unparse(getattr(n.func, "value", n)) == name  # type: ignore[attr-defined]
            for n in ast.walk(outer)
        ):
            continue
        made = [
            n
            for n in flow.nodes
            if isinstance(n, ast.Assign)
            and name in {n.id for t in n.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            and n.lineno < outer.lineno
        ]
        if not made or "[]" not in ast.unparse(made[-1].value) or not _epochs(scope.trace, source, outer):
            continue
        reads = [
            n
            for n in inside
            if n.lineno > last_line(loops[-2]) and isinstance(source.parents.get(n), ast.Call)
            and called(source.parents[n]) in TOGETHER
        ]  # fmt: skip
        if not reads:
            continue
        first = source.parents[reads[0]]
        epochs = re.search(r"ep", ast.unparse(outer.target) + ast.unparse(outer.iter), re.I) is not None
        over, turn = ("the loop over epochs", "epoch") if epochs else ("the loop", "turn")
        says = (
            f"makes {name} before {over} ({source.place(outer).words}), and each {turn} adds to it: "
            f"`{ast.unparse(first)}` ({source.place(first).words}) is of all {turn}s so far, not of the last."
        )
        yield scope.tell(made[-1], "evaluation", says, f"Make it anew in each {turn}: {name} = [].")


def _trains(loop: ast.For) -> bool:
    """Whether a loop takes steps."""
    return any(called(n) in ("backward", "step") for n in ast.walk(loop))


def _epochs(trace: Trace, source: Source, loop: ast.For) -> bool:
    """Whether a loop is one over epochs."""
    return (
        "epoch" in ast.unparse(loop.target).lower()
        or re.search(r"range\(.*ep", ast.unparse(loop.iter)) is not None
        or ("range(" in ast.unparse(loop.iter) and not over_batches(trace, source, loop))
    )


@text_rule(760, earlier=True)
def divided_by_another_count(scope: Scope) -> Iterator[Found]:
    """``total += criterion(...).item()`` of means, divided by the number of samples; of sums, by that of batches."""
    trace, source, flow = scope.trace, scope.source, scope.flow
    for node in flow.of(ast.AugAssign):
        added = _added(node)
        loop = next(iter(loops_around(source, node)), None) if added is not None else None
        if added is None or loop is None or not over_batches(trace, source, loop):
            continue
        name, value = added
        made = bare(flow.inner(bare(value)))
        if not isinstance(made, ast.Call) or not (LOSS.search(called(made)) or function_of(source, made)):
            continue
        how = _reduction(trace, source, flow, made)
        end = _averaged(source, flow, name, loop) if how else None
        if end is None:
            continue
        by = end.right if isinstance(end, ast.BinOp) else end.value if isinstance(end, ast.AugAssign) else None
        count = _count(by, loop)
        if how == "mean" and count == "samples":
            says = (
                f"divides a sum of batch means by the number of samples (`{ast.unparse(end)}`): it is too small by "
                "the size of a batch."
            )
            remedy = "Divide by the number of batches, or add up loss.item() * len(xb)."
        elif how == "sum" and count == "batches":
            says = (
                f"divides sums over samples by the number of batches (`{ast.unparse(end)}`): it is too large "
                "by the "
                "size of a batch."
            )
            remedy = "Divide by the number of samples: len(loader.dataset)."
        else:
            continue
        if any(look(trace, set()) for look in (divided_by_batches, mean_of_means, whole_set_for_a_part)):
            return  # which is told already
        yield scope.tell(end, "evaluation", says, remedy)


def _reduction(trace: Trace, source: Source, flow: Flow, node: ast.Call) -> str:
    """ "mean" or "sum" for what a loss gives of a batch; "" where nobody can tell."""
    if (function := function_of(source, node)) is not None:
        return _reduced_by(source, function)
    maker: ast.expr | None = node
    if isinstance(node.func, ast.Name):
        pairs = [
            n.value for n in source.nodes if isinstance(n, ast.Assign) and node.func.id in map(ast.unparse, n.targets)
        ]
        if not pairs:
            return ""
        maker = pairs[-1]
    elif ast.unparse(getattr(node.func, "value", node)) not in ("F", "nn.functional", "torch.nn.functional"):
        return ""
    if not isinstance(maker, ast.Call) or not re.search(r"Loss$|cross_entropy|_loss$", called(maker)):
        return ""
    how = reduction(maker)
    return how if how in ("mean", "sum") else ""


def _reduced_by(source: Source, function: Function) -> str:
    """ "sum" for a function that returns sums alone, over samples and what they consist of; "" for any other."""
    flow = flow_of(source, function)
    ends = [n.value for n in flow.of(ast.Return) if isinstance(n, ast.Return) and n.value is not None]
    inside = [n for end in ends for n in spread(flow, end) if isinstance(n, ast.Call)]
    criteria = [_reduction_of(source, n) for n in inside]
    sums = [n for n in inside if called(n) == "sum" and not n.keywords and len(operands(n)) == 1]
    means = "mean" in criteria or any(called(n) in ("mean", "len", "size") for n in inside)
    divided = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) for end in ends for n in spread(flow, end))
    return "sum" if (sums or "sum" in criteria) and not means and not divided else ""


def _reduction_of(source: Source, node: ast.Call) -> str:
    """What a criterion, made by its class, gives of a batch."""
    made = [
        n.value
        for n in source.nodes
        if isinstance(n, ast.Assign) and ast.unparse(node.func) in map(ast.unparse, n.targets)
    ]
    if not made or not isinstance(made[-1], ast.Call) or not called(made[-1]).endswith("Loss"):
        return ""
    return reduction(made[-1])


def _count(node: ast.expr | None, loop: ast.For) -> str:
    """Whether a divisor is the number of samples or of batches."""
    if node is None or called(node) != "len" or not isinstance(node, ast.Call) or len(node.args) != 1:
        return ""
    text = ast.unparse(node.args[0])
    over = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else loop.iter
    if text == ast.unparse(over):
        return "batches"
    return "samples" if text == f"{ast.unparse(over)}.dataset" else ""


@text_rule(763, earlier=True)
def batches_times_size(scope: Scope) -> Iterator[Found]:
    """``correct / (len(loader) * batch_size)``: the last batch is smaller."""
    flow = scope.flow
    for node in flow.of(ast.BinOp):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        below = flow.inner(node.right)
        if not isinstance(below, ast.BinOp) or not isinstance(below.op, ast.Mult):
            continue
        sides = [below.left, below.right]
        counted = [s for s in sides if called(s) == "len" and isinstance(s, ast.Call) and s.args]
        counted = [s for s in counted if re.search(r"loader|_dl|batches", ast.unparse(s)) or _rest_of(scope, s.args[0])]  # type: ignore[attr-defined]
        sizes = [s for s in sides if re.search(r"batch_?size|(^|\.)bs$", ast.unparse(s), re.I)]
        if not counted or not sizes or not re.search(r"correct|acc|hits|right|total|loss", ast.unparse(node.left)):
            continue
        says = (
            f"takes all batches for full ones (`{ast.unparse(node)}`): the last one is smaller, unless the "
            "set is a "
            "multiple of the batch size, so the figure is too low."
        )
        yield scope.tell(node, "evaluation", says, "Count the samples: total += len(y).", "note")


def _rest_of(scope: Scope, loader: ast.expr) -> bool:
    """Whether a loop here went over that loader, and its last batch was smaller than the others."""
    text = ast.unparse(loader)
    loops = (n for n in scope.nodes if isinstance(n, ast.For) and ast.unparse(loader_of(n)) == text)
    return any(f.rest[1] for loop in loops for f in gone_over(scope.trace, scope.source, loop))
