"""Figures that carry on what they should not: counts of all epochs, a sum that is divided in each turn, the bytes' 255
for values up to 1, a decoder that is shown the answers while it is judged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Row
from ..finding import Found
from ..order import text_rule
from ..reading.calls import name_of, rows_of
from ..reading.expressions import defaults
from ..reading.scope import Scope, spread
from ..reading.sources import Function, called, names_in
from .kept_models import _begun_again

RIGHT = re.compile(r"correct|right|hits?|acc|match|tp|good|(^|_)n_ok|==|\beq\(|argmax", re.I)
FORCED = re.compile(r"teacher_?forc|tf_?ratio|forcing", re.I)
BYTES = 255
SMALL = 2.5  # size of values up to which they are no bytes


@text_rule(393)
def counts_of_all_epochs(scope: Scope) -> Iterator[Found]:
    """``correct, total = 0, 0`` before the epochs, and ``correct / total`` in each of them."""
    trace, flow = scope.trace, scope.flow
    if not trace.steps.count or trace.error is not None:
        return
    for epochs in (n for n in flow.nodes if isinstance(n, ast.For)):
        for loop in (n for n in ast.walk(epochs) if isinstance(n, ast.For) and n is not epochs):
            adds = [n for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add)]
            counted = {n.target.id: n for n in adds if isinstance(n.target, ast.Name)}
            inside = set(ast.walk(loop))
            for share in (n for n in ast.walk(epochs) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)):
                names = [names_in(side) & counted.keys() for side in (share.left, share.right)]
                if share in inside or not all(len(n) == 1 for n in names) or names[0] == names[1]:
                    continue
                (one,), (other,) = names
                begun = [n for n in flow.nodes if isinstance(n, ast.Name) and n.id in (one, other)
                         and isinstance(n.ctx, ast.Store) and n.lineno < epochs.lineno]  # fmt: skip
                anew = any(_begun_again(epochs, name, loop) for name in (one, other))
                spoken = RIGHT.search(f"{one} {ast.unparse(counted[one].value)}")
                if len(begun) < 2 or anew or not spoken:
                    continue
                message = (
                    f"divides what all epochs have counted (`{ast.unparse(share)}`): {one} and {other} begin once "
                    f"({scope.place(begun[0]).words}) and are never set back, so the figure is a mean over all epochs "
                    "so far, the first ones too."
                )
                yield scope.tell(share, "evaluation", message, f"Begin anew in each epoch: {one} = {other} = 0.")


@text_rule(394)
def divided_in_each_turn(scope: Scope) -> Iterator[Found]:
    """``scores += x.mean()`` and ``scores = scores / (step + 1)`` in one loop: the first ones count for nothing."""
    for loop in scope.index.kinds.get(ast.For, ()):
        adds = {
            ast.unparse(n.target): n for n in loop.body if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add)
        }
        counters = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        for node in loop.body:
            name, divisor = _divides(node)
            if name not in adds or divisor is None or adds[name].lineno > node.lineno:
                continue
            if not (names_in(divisor) & (counters | adds.keys()) or called(divisor) == "len"):
                continue
            if called(loop.iter) not in ("enumerate", "range", "zip") and called(divisor) != "len":
                continue
            message = (
                f"divides a sum in each turn of the loop that adds to it (`{ast.unparse(node)}`): what was added "
                "before is divided again and again, and the last turns decide."
            )
            yield scope.tell(node, "evaluation", message, "Divide once, behind the loop.")


def _divides(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The name that a statement divides, and by what: ``x = x / n``, ``x /= n``."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return ast.unparse(node.target), node.value
    value = node.value if isinstance(node, ast.Assign) else None
    if not isinstance(node, ast.Assign) or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div):
        return "", None
    own = ast.unparse(node.targets[0])
    return (own, value.right) if ast.unparse(value.left) == own else ("", None)


@text_rule(395, "log10")
def signal_of_bytes(scope: Scope) -> Iterator[Found]:
    """A PSNR with a peak of 255, of images whose values go to 1."""
    trace, source = scope.trace, scope.source
    for call in scope.calls("log10"):
        if not call.args:
            continue
        nodes = list(spread(scope.flow, call.args[0]))
        peak = [n for n in nodes if isinstance(n, ast.Constant) and n.value == BYTES]
        errors = [
            n for n in nodes
            if called(n) in ("mse_loss", "mse") or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub))
        ]  # fmt: skip
        rows = [r for n in errors for r in rows_of(trace, source, n) if r.op in ("sub", "squared_error", "mse_loss")]
        sizes = [size for row in rows for ref in row.refs if (size := _size(ref)) is not None]
        if not peak or not sizes or max(sizes) > SMALL:
            continue
        message = (
            f"takes 255 for the largest value there is (`{ast.unparse(call)}`), and the images go to {max(sizes):.3g}: "
            f"that gives {48.13 - (6.02 if min(sizes) < 0 else 0):.0f} dB too much, whatever the model does."
        )
        yield scope.tell(call, "evaluation", message, "Divide the square of their own range by the error: 1 / mse.")


def _size(ref: Row | Leaf) -> float | None:
    """The size of the largest value of what an op was given."""
    if isinstance(ref, Leaf):
        return max(map(abs, ref.span)) if ref.span is not None else None
    while ref.stats is None and ref.view and ref.refs and isinstance(ref.refs[0], Row):
        ref = ref.refs[0]
    stats = ref.stats
    if stats is None or stats.max is None or stats.min is None:
        return None
    return max(abs(stats.min), abs(stats.max))


@text_rule(396, "no_grad")
def shown_the_answers(scope: Scope) -> Iterator[Found]:
    """``model(src, trg)`` in evaluation, where forward() forces the targets with a ratio of 0.5 by default."""
    source = scope.source
    for kind in source.classes.values():
        forward = next((n for n in kind.body if isinstance(n, Function) and n.name == "forward"), None)
        given = defaults(forward) if forward is not None else {}
        forced = [a for a, v in given.items() if FORCED.search(a) and isinstance(v, ast.Constant) and v.value]
        name = forced[0] if forced else None
        if forward is None or name is None:
            continue
        place = [a.arg for a in forward.args.args].index(name) - 1
        for call in (n for n in scope.nodes if isinstance(n, ast.Call)):
            owner = name_of(call.func)
            models = source.named.get(kind.name, set()) | {"model", "net", "seq2seq"}
            quiet = any(isinstance(a, ast.With) and "no_grad" in ast.unparse(a.items[0]) for a in source.around(call))
            if owner not in models or not quiet or len(call.args) > place or len(call.args) < 2:
                continue
            if any(k.arg in (name, None) for k in call.keywords):
                continue
            message = (
                f"judges a decoder that is shown the targets (`{ast.unparse(call)}`): {name} is "
                f"{ast.unparse(given[name])} by default, so part of what it continues from is the right answer."
            )
            yield scope.tell(call, "evaluation", message, f"Let it go on by itself: {name}=0.")
