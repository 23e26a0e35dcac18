"""What is wrong before the first step: start values that are too large, a last activation that cannot reach the
targets, a dropout that leaves next to nothing."""

from __future__ import annotations

import ast
import math

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..losses.losses import DIFFERENCES, ORDERED, _source
from ..order import rule
from ..reading.scope import calls
from ..reading.sources import called, sources
from .gradient_scale import _layers as layers_of
from .gradient_scale import _span as span
from .step_sizes import _loss_row as loss_row
from .step_sizes import wide

GAIN = 2.5  # by which a layer makes its values larger; with Kaiming's start values 1.4, with those of nn.Linear 0.6
TIMES = 8.0  # the first loss beside that of guessing
ALL = 100.0  # how much larger several layers together make their values
WIDEST = 0.05  # share of the range by which targets must lie outside
DROPS = 0.85
RANGES = {"relu": (0.0, math.inf), "sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "softmax": (0.0, 1.0)}
CLASSES = {"cross_entropy", "nll_loss"}
BINARY = {"binary_entropy_logits", "binary_entropy_logits_pos", "binary_cross_entropy_with_logits"}


@rule(300)
def too_large(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Weights that make the values of every layer several times larger, and a first loss far above that of guessing."""
    loss = loss_row(trace)
    if loss is None or loss.course is None or not loss.course.first:
        return []
    gains: list[tuple[Leaf, Row, float, int]] = []
    for leaf, row in layers_of(trace):
        weight = trace.first.get(leaf, (0.0, 0.0))[0]
        fan = _fan_in(leaf, row)
        if fan and weight * math.sqrt(fan) > GAIN:
            gains.append((leaf, row, weight, fan))
    first = loss.course.first[0]
    if not gains or math.prod(w * math.sqrt(n) for _, _, w, n in gains) < 5 or wide(trace):
        return []
    if any(row.op in ("tanh", "sigmoid") and row.reached for row in trace.rows):
        return []  # which do not let values grow: they saturate
    guess = _guess(trace, loss)
    if guess is None:
        if len(gains) < 3 or math.prod(w * math.sqrt(n) for _, _, w, n in gains) < ALL:
            return []
    elif not (first != first or first > TIMES * guess):
        return []
    leaf, row, weight, fan = max(gains, key=lambda g: g[2] * math.sqrt(g[3]))
    line, col, place = where(trace, min(gains, key=lambda g: g[1].number)[1].chain)
    drawn = [node for source, node in calls(trace, "normal_", "uniform_", "trunc_normal_")
             if not source.name and "weight" in ast.unparse(node)]  # fmt: skip
    if len(drawn) == 1 and leaf.module:
        line, col, place = drawn[0].lineno, drawn[0].col_offset, f"line {drawn[0].lineno}"
    due = math.sqrt(2 / fan)
    leaves = [g[0] for g in gains]
    explained.update(leaves)
    many = len(leaves) > 1
    beside = f" ({guess:.3g} would be guessing)" if guess is not None else ""
    message = capital(
        f"{place} lets gradients explode: {span([(g, r) for g, r, _, _ in gains])} "
        f"{'begin' if many else 'begins'} with weights of {weight:.2g} rms where {due:.2g} is due for {fan:,} inputs, "
        f"so {'each layer' if many else 'the layer'} makes its values about {weight * math.sqrt(fan):.2g} times larger "
        f"and the first loss is {first:.3g}{beside}."
    )
    remedy = "Start with smaller weights: nn.init.kaiming_normal_(w), or those that nn.Linear has by itself."
    if not leaf.module:
        remedy = f"Start with smaller weights: torch.randn(...) * (2 / {fan}) ** 0.5, or use nn.Linear."
    return [Found("exploding", "warning", line, col, message, remedy, [g[1] for g in gains], leaves)]


def _fan_in(leaf: Leaf, row: Row) -> int:
    """How many inputs a unit of a layer has; 0 for what is no layer."""
    if row.op in ("linear", "addmm") or row.op.startswith("conv"):
        return math.prod(leaf.shape[1:])
    if row.op == "matmul" and len(leaf.shape) == 2:
        return leaf.shape[0] if row.refs and row.refs[-1] is leaf else leaf.shape[1]
    return 0


def _guess(trace: Trace, loss: Row) -> float | None:
    """The loss of a model that knows nothing."""
    for row in ancestors([loss]):
        if not isinstance(row, Row) or not row.refs:
            continue
        if row.op in CLASSES and len(row.refs[0].shape) > 1:
            return math.log(max(row.refs[0].shape[1], 2))
        if row.op in BINARY:
            return math.log(2)
    return None


# -- targets out of reach ----------------------------------------------------------------------------------------------


@rule(510)
def out_of_reach(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A loss that compares what an activation gives with values that it cannot give."""
    readers = trace.consumers()
    # a state that goes on to the next step is compared as well
    onward = {
        row.chain for row in trace.rows if row.op in RANGES and sum(r.reached > 0 for r in readers.get(row, ())) > 1
    }
    for row in trace.rows:
        if not row.reached or len(row.refs) < 2 or row.op not in DIFFERENCES - set(ORDERED) or row.op == "pow":
            continue
        for at, other in ((row.refs[0], row.refs[1]), (row.refs[1], row.refs[0])):
            last = _source(at)
            if last is None or last.op not in RANGES or not last.reached or other.requires_grad or not other.shape:
                continue
            if "log_prob" in code_of(trace, row) and _samples(trace):
                continue  # what was drawn lies around what the model gives, not at it
            held = _range(other)
            low, high = RANGES[last.op]
            if held is None or not held[1] > held[0] or last.chain in onward:
                continue
            width = min(high, max(held[1], 1.0)) - low
            if held[0] >= low - WIDEST * width and held[1] <= high + WIDEST * width:
                continue
            line, col, place = where(trace, last.chain)
            there = where(trace, row.chain)[2]
            gives = "nothing below 0" if last.op == "relu" else f"values from {low:.0f} to {high:.0f} alone"
            at_loss = "" if there == place else f" on {there}"
            message = capital(
                f"{place} ends the model with a {last.op} ({_maker(trace, last)}), which gives {gives}: the targets "
                f"of `{code_of(trace, row)}`{at_loss} go from {held[0]:.3g} to {held[1]:.3g} and cannot be reached."
            )
            remedy = f"Leave out the {last.op} after the last layer"
            remedy += "." if last.op == "relu" else f", or bring the targets to {low:.0f} to {high:.0f}."
            # that it is dead there is the same mistake
            explained.update(leaf for leaf in ancestors([last]) if isinstance(leaf, Leaf) and leaf in trace.gradients)
            return [Found("loss", "warning", line, col, message, remedy, [last, row])]
    return []


def _samples(trace: Trace) -> bool:
    """Whether something is drawn from a distribution."""
    return any(called(n) in ("sample", "rsample") for source in sources(trace) for n in source.nodes)


@rule(520)
def targets_outside(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """binary_cross_entropy_with_logits of targets that are no probabilities: the loss has no lower end."""
    for row in trace.rows:
        if row.op not in BINARY or not row.reached or len(row.refs) < 2 or row.refs[1].requires_grad:
            continue
        held = _range(row.refs[1])
        if held is None or (held[0] >= -WIDEST and held[1] <= 1 + WIDEST):
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} gives binary_cross_entropy_with_logits targets from {held[0]:.3g} to {held[1]:.3g} "
            f"(`{code_of(trace, row)}`): it takes 0 to 1, and for others the loss falls for ever."
        )
        moved = f"(target {'+' if held[0] < 0 else '-'} {abs(held[0]):g})" if held[0] else "target"
        remedy = f"Bring them to 0 to 1: {moved} / {held[1] - held[0]:g}."
        if held[0] >= 0 and held[1] > 2:
            remedy = f"Bring them to 0 to 1: target / {held[1]:g}; for class numbers use cross_entropy."
        elif held == (-1.0, 1.0):
            remedy = "Bring -1 and 1 to 0 and 1: (target + 1) / 2."
        return [Found("loss", "warning", line, col, message, remedy, [row])]
    return []


def _maker(trace: Trace, row: Row) -> str:
    """The module that made something, else the expression."""
    name = trace.paths[row.path]
    kind = trace.entered[row.path][-1][0] if trace.entered[row.path] else ""
    inner = kind.lower().startswith(row.op[:4])  # a layer of that kind, and not a module around it
    return name if name and inner else f"`{code_of(trace, row)}`"


def _range(ref: Ref) -> tuple[float, float] | None:
    """The least and the largest value, as far as they are known; None where some are NaN, which may be left out."""
    found = _known_range(ref)
    return found if found is not None and found[0] <= found[1] else None


def _known_range(ref: Ref) -> tuple[float, float] | None:
    if isinstance(ref, Row):
        s = ref.stats
        if s is None and ref.view and ref.refs:
            return _known_range(ref.refs[0])
        return None if s is None or s.min is None or s.max is None else (s.min, s.max)
    t = ref.alive()
    if t is None or t._kind.device.type != "cpu" or not t._a.size or not ref.dtype.startswith("float"):
        return ref.span
    values = t._a
    return float(values.min()), float(values.max())


# -- dropout -----------------------------------------------------------------------------------------------------------


@rule(710)
def dropped_out(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A dropout whose probability is that of keeping."""
    for row in trace.rows:
        s = row.stats
        if (
            row.op not in ("dropout", "alpha_dropout", "feature_dropout")
            or s is None
            or not row.reached
            or not row.refs
        ):
            continue
        before = row.refs[0].stats.zeros if isinstance(row.refs[0], Row) and row.refs[0].stats is not None else 0.0
        share = (s.zeros - before) / (1 - before) if before < 1 else 0.0
        if share < DROPS or math.prod(row.shape) < 64:
            continue
        line, col, place = where(trace, row.chain)
        what = "all values" if share == 1 else f"{100 * share:.0f} % of the values"
        message = capital(
            f"{place} drops {what} ({_maker(trace, row)}): the probability of a dropout is that of dropping a value, "
            "not of keeping it."
        )
        return [Found("mode", "warning", line, col, message, "Usual are 0.1 to 0.5: nn.Dropout(0.1).", [row])]
    return []
