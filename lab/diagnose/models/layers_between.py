"""Ops of a model that stand where they undo each other: layers without an activation between them, a dropout or a relu
after the last layer, a softmax for several labels, a rate that is taken for its logarithm, norms across the samples."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..losses.losses import EACH, LINEAR, WITH_LOGITS, _source
from ..order import rule
from ..reading.scope import calls
from ..reading.sources import sources

POSITIVE = {"exp", "softplus", "relu", "sigmoid"}
BINARY = {"binary_entropy", "binary_cross_entropy"}
ONE_HOT = 0.05  # how far the mean number of labels of a sample is from 1, at least


def _weight(row: Row) -> Leaf | None:
    """The weight of a layer: a parameter of a module."""
    of = row.refs[1] if len(row.refs) > 1 else None
    return of if isinstance(of, Leaf) and of.module and len(of.shape) > 1 else None


@rule(526)
def nothing_between(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A layer on a layer, with no activation between them: both together are one."""
    readers = trace.consumers()
    for row in trace.rows:
        if row.op not in LINEAR or not row.reached or not row.refs:
            continue
        before = _layer_before(trace, row.refs[0], readers)
        first, second = (_weight(before) if before is not None else None), _weight(row)
        if (
            before is None
            or first is None
            or second is None
            or first is second
            or not _of_one_model(trace, before, row)
        ):
            continue
        ways, outs, ins = first.shape[0], second.shape[0], _inputs(first)
        if ways < min(outs, ins) or (ways == 1) or any(1 in leaf.shape[2:] for leaf in (first, second)):
            continue  # a bottleneck is meant: both are fewer numbers than one; and a convolution of 1 x 1
        if len(first.shape) > 2 and first.shape[1] == 1 and ways > 1 and before.refs[0].shape[1:2] != (1,):
            continue  # one filter a channel
        line, col, place = where(trace, row.chain)
        there = where(trace, before.chain)[2]
        at = "" if there == place else f" ({there})"
        message = capital(
            f"{place} puts a layer on a layer with no activation between them (`{code_of(trace, row)}` on what "
            f"{first.name}{at} gives): two linear maps are one linear map, and the width between them adds nothing."
        )
        remedy = "Put an activation between them: F.relu(...), or nn.ReLU() in a Sequential."
        return [Found("layout", "note", line, col, message, remedy, [before, row], [first, second])]
    return []


def _of_one_model(trace: Trace, one: Row, other: Row) -> bool:
    """Whether two layers are parts of one module: of two networks in a row the one's output may be a result."""
    around = [trace.entered[row.path] if row.path < len(trace.entered) else () for row in (one, other)]
    return all(len(modules) > 1 for modules in around) and around[0][0] == around[1][0]


def _layer_before(trace: Trace, ref: Ref, readers: dict[Ref, list[Row]]) -> Row | None:
    """The layer whose output a layer gets, and nobody else does."""
    while isinstance(ref, Row):
        if len([r for r in readers.get(ref, ()) if r.reached or r.cut]) > 1:
            return None  # the value between is used itself, be it as a target without a graph
        if ref.op in LINEAR:
            return ref
        passes = ref.view or ref.op in ("reshape", "flatten", "batch_norm") or _drops(trace, ref)
        if not passes or not ref.refs or ref.op in ("transpose", "permute"):
            return None
        ref = ref.refs[0]
    return None


def _inputs(leaf: Leaf) -> int:
    n = 1
    for size in leaf.shape[1:]:
        n *= size
    return n


@rule(528)
def dropped_at_the_end(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A dropout between the last layer and the loss: outputs are set to 0 at random."""
    for row in trace.rows:
        if row.op not in EACH | WITH_LOGITS | {"sub"} or not row.reached or not row.refs:
            continue
        last = _source(row.refs[0])
        if row.op == "sub" and (len(row.refs) != 2 or row.refs[1].requires_grad or row.refs[1].shape != row.shape):
            continue
        if last is None or not last.refs or not _drops(trace, last):
            continue
        before = _source(last.refs[0])
        if before is None or before.op not in LINEAR or _weight(before) is None:
            continue
        line, col, place = where(trace, last.chain)
        message = capital(
            f"{place} drops outputs of the last layer (a dropout stands between it and the loss): values of the "
            "prediction itself are set to 0 at random in training, and the loss is asked to make up for it."
        )
        remedy = "Put the dropout before the last layer."
        return [Found("layout", "warning", line, col, message, remedy, [last, row])]
    return []


def _drops(trace: Trace, row: Row) -> bool:
    entered = trace.entered[row.path] if row.path < len(trace.entered) else ()
    if row.op == "mul" and len(row.refs) == 2 and sum(r.requires_grad for r in row.refs) == 1:
        return (bool(entered) and entered[-1][0] == "Dropout") or "dropout" in code_of(trace, row)
    return row.op == "dropout"


@rule(529)
def across_samples(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``F.normalize(z, dim=0)``: each feature is scaled over the batch, where each sample was to have length 1."""
    for row in trace.rows:
        if not row.reached or len(row.shape) != 2 or row.shape[0] < 2 or row.op not in ("div", "normalize"):
            continue
        if row.op == "normalize":
            if re.search(r"dim=0|, 0\)", code_of(trace, row)) and isinstance(row.refs[0], Row):
                return _across(trace, row, row.refs[0], code_of(trace, row))
            continue
        if len(row.refs) < 2:
            continue
        x, norm = row.refs
        if tuple(norm.shape) != (1, row.shape[1]) or row.shape[1] < 2 or not isinstance(x, Row):
            continue
        made = norm
        while isinstance(made, Row) and made.op in ("clamp", "clamp_min", "maximum", "expand", "add") and made.refs:
            made = made.refs[0]
        code = code_of(trace, row)
        if (
            not isinstance(made, Row)
            or not made.op.endswith("norm")
            or made.refs[0] is not x
            or "normalize" not in code
        ):
            continue
        return _across(trace, row, x, code)
    return []


def _across(trace: Trace, row: Row, x: Row, code: str) -> list[Found]:
    """What is said of features that are scaled over the batch; nothing of weights, whose columns are scaled."""
    if any(isinstance(leaf, Leaf) and not leaf.module for leaf in ancestors([x])):
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} normalises along the samples (`{code}` of shape {row.shape}): what a sample becomes depends on "
            "the others of its batch, and no sample has length 1."
        )
        return [Found("layout", "note", line, col, message, "Take the features: F.normalize(z, dim=-1).", [row])]
    return []


@rule(531)
def shares_for_labels(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A softmax before binary_cross_entropy with several labels a sample: the probabilities cannot all be large."""
    for row in trace.rows:
        if row.op not in BINARY or not row.reached or len(row.refs) < 2 or len(row.refs[0].shape) < 2:
            continue
        soft = _source(row.refs[0])
        if soft is None or soft.op != "softmax" or soft.shape[-1] < 2:
            continue
        labels = _mean(row.refs[1])
        if labels is not None and abs(labels * soft.shape[-1] - 1) < ONE_HOT:
            continue
        line, col, place = where(trace, soft.chain)
        there = where(trace, row.chain)[2]
        at = "" if there == place else f" on {there}"
        softmaxes = [(s, n) for s, n in calls(trace, "Softmax") if "softmax" not in code_of(trace, soft).lower()]
        code, does = code_of(trace, soft), "takes"
        if len(softmaxes) == 1:
            (line, col, place), code, does = (
                softmaxes[0][0].place(softmaxes[0][1]),
                ast.unparse(softmaxes[0][1]),
                "makes",
            )
        several = "" if labels is None else f", {labels * soft.shape[-1]:.2g} of them a sample"
        message = capital(
            f"{place} {does} a softmax (`{code}`) for what binary_cross_entropy{at} compares with "
            f"labels that are independent{several}: its outputs sum to 1, so no two can be sure at once."
        )
        remedy = "Leave the softmax out and take binary_cross_entropy_with_logits."
        return [Found("loss", "warning", line, col, message, remedy, [soft, row])]
    return []


def _mean(ref: Ref) -> float | None:
    stats = ref.stats if isinstance(ref, Row) else None
    if stats is not None:
        return stats.mean
    t = ref.alive() if isinstance(ref, Leaf) else None
    return float(t._a.mean()) if t is not None and t._kind.device.type == "cpu" and t._a.size else None


@rule(532)
def exponential_twice(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``nn.PoissonNLLLoss()`` of rates: it takes their logarithm, unless it is told otherwise."""
    logarithm = any("log_input=False" in source.text for source in sources(trace))
    for row in trace.rows:
        if row.op not in ("exp", "poisson_nll_loss") or not row.reached or not row.refs:
            continue
        before = _source(row.refs[0])
        entered = trace.entered[row.path] if row.path < len(trace.entered) else ()
        inside = any(kind == "PoissonNLLLoss" for kind, _ in entered) or "poisson_nll_loss" in code_of(trace, row)
        inside = inside or row.op == "poisson_nll_loss"
        if inside and logarithm:
            continue
        if before is None or before.op not in POSITIVE or not before.reached or (before.op != "exp" and not inside):
            continue
        if not inside and before.chain == row.chain:
            continue
        line, col, place = where(trace, row.chain)
        made = code_of(trace, before)
        message = f"{place} takes the exponential of an exponential (`{code_of(trace, row)}` of `{made}`): "
        message += "a small change of the output is a huge one of the result."
        remedy = "Leave one of them out."
        if inside:
            message = (
                f"{place} gives the Poisson loss rates (`{made}`, at least 0): it takes their logarithm and applies "
                "exp by itself (log_input=True), so the model is fitted to exp of its rates."
            )
            remedy = "Give it the output without the exp, or say log_input=False."
        return [Found("loss", "warning", line, col, capital(message), remedy, [before, row])]
    return []
