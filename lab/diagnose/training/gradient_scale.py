"""Gradients that vanish or explode from layer to layer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, listed, made_to_train, verb, where
from ..order import rule
from .constant_weights import line_of
from .step_sizes import wide

# A layer that gets a ten-thousandth of what the best-served layer gets stands still beside it: float32 keeps seven
# digits and a learning rate is chosen for the largest. Healthy networks, with whatever normalisation, stay within a
# factor of a few hundred (an MLP at its end of training: 30; attention's query weights at the start: 300).
VANISHING = 1e-4
# Growth towards the input, layer by layer: a factor of a thousand between the layer at the loss and another.
EXPLODING = 1e3
# One step of size lr = 1e-3 with such a gradient moves a weight by ten times itself (a loss that is a sum, and not a
# mean, has gradients of a hundred without harm).
HUGE, HUGE_TO_WEIGHT = 1e2, 1e4
MOVED = 0.1  # of how far the best-served layer moves by its own size
LAYERS = 3  # fewer show no trend
SATURATED = 0.2  # mean slope of a tanh below which most of the gradient is lost in it; at the start it is 0.6 to 1
ACTIVATIONS = {"tanh", "sigmoid", "relu", "leaky_relu", "gelu", "silu", "elu", "softplus"}
STEPS = {"round", "floor", "ceil", "trunc", "sign"}
FLAT = {"tanh": 0.12, "sigmoid": 0.03}  # mean slope below which hardly a value is between the ends
PRODUCTS = {"matmul", "mm", "bmm", "einsum"}
SCALES = {"mul", "div", "add", "sub", "layer_norm", "group_norm", "batch_norm", "instance_norm", "rms_norm"}
"""Ops that give each unit a number of its own: those may well begin alike, and each gets its own small gradient."""
ATTENTION = "scaled_dot_product_attention"
CLIPPED = {"relu", "relu_", "relu6", "clamp", "clamp_", "clamp_min", "maximum", "threshold", "hardtanh"}
DEAD = 0.95  # share of zeros behind a relu


@rule(800)
def scale(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A finding when the gradients of the weights differ in size beyond what training can bear."""
    if any(g.nonfinite for g in trace.gradients.values()):
        return []
    layers = [(leaf, row) for leaf, row in _layers(trace) if leaf not in explained or trace.gradients[leaf].max_abs]
    if not layers:
        return []
    sizes = {leaf: _size(trace, leaf) for leaf, _ in layers}
    mixing = [(leaf, row) for leaf, row in layers if row.op not in SCALES]
    units = [(leaf, row) for leaf, row in mixing if row.op != "embedding"]  # each row of a table has its own samples
    alike = [(leaf, row) for leaf, row in units if leaf in trace.alike and made_to_train(leaf)]
    if len(units) > 1 and all(leaf in trace.constant for leaf, _ in mixing):
        alike = mixing
    if alike:
        explained.update(leaf for leaf, _ in layers)
        return [_alike(trace, alike)]
    if not any(sizes.values()):
        return _dead(trace, layers, explained)
    if stepped := _stepped(trace, [(leaf, row) for leaf, row in layers if not trace.gradients[leaf].max_abs]):
        return stepped
    parts = _trained_together(trace, layers)
    for part in _trained_together(trace, mixing):
        if (vanishing := _starved(trace, part, sizes)) is not None:
            return [vanishing]
    if faded := _faded(trace, layers):
        return [faded]
    if saturated := _saturated(trace, layers):
        return [saturated]
    exploding = (_overfed(trace, part, sizes, explained) for part in parts)
    return next(([found] for found in exploding if found is not None), [])


def _trained_together(trace: Trace, layers: list[tuple[Leaf, Row]]) -> list[list[tuple[Leaf, Row]]]:
    """Return the layers by the step that moves them: of a generator and its critic, each with a loss and an optimizer
    of its own, gradients have no common size."""
    parts: dict[Any, list[tuple[Leaf, Row]]] = {}
    for leaf, row in layers:
        parts.setdefault(trace.steps.stepped.get(leaf), []).append((leaf, row))
    if len(parts) > 1:
        parts.pop(None, None)  # no step moves these: target networks that a loss goes through as well
    return list(parts.values())


def _starved(trace: Trace, layers: list[tuple[Leaf, Row]], sizes: dict[Leaf, float]) -> Found | None:
    """A finding of layers that get next to nothing beside another one behind them."""
    if len(layers) < LAYERS:
        return None
    top = max(range(len(layers)), key=lambda i: sizes[layers[i][0]])
    best = sizes[layers[top][0]]
    weak = [(leaf, row) for leaf, row in layers[:top] if sizes[leaf] < VANISHING * best and not _weighs(trace, row)]
    weak = [pair for pair in weak if not _moved(trace, pair, layers[top])]
    weak = [pair for pair in weak if sizes[pair[0]] or not _passed_by(pair[1], layers, sizes)]
    if weak and not _first_step(trace, weak, layers[top][1]):
        return _vanishing(trace, weak, layers[: top + 1], sizes)
    never = _never(trace, layers, sizes)
    return _vanishing(trace, *never) if never is not None else None


def _passed_by(row: Row, layers: list[tuple[Leaf, Row]], sizes: dict[Leaf, float]) -> bool:
    """Whether layers before one get a gradient, where its own is exactly 0: they have another way to the loss, and what
    this one gives is not asked for."""
    before = ancestors([row])
    return any(leaf in before and sizes[leaf] for leaf, _ in layers)


def _lost(weak: list[tuple[Leaf, Row]], top: Row) -> bool:
    """Whether an activation between layers and the one behind them is flat for most values."""
    return any(_loss_of_slope(row) is not None for row in _between([row for _, row in weak], top))


def _moved(trace: Trace, weak: tuple[Leaf, Row], top: tuple[Leaf, Row]) -> bool:
    """Whether an optimizer that goes by no gradient's size moves a layer as far as the one that gets most, where no
    activation on the way is flat."""
    moved, most = trace.updates.get(weak[0]), trace.updates.get(top[0])
    return moved is not None and most is not None and moved > MOVED * most and not _lost([weak], top[1])


def _weighs(trace: Trace, row: Row) -> bool:
    """Whether what a layer gives only weighs the values of others, as queries and keys do: as long as those are alike,
    it gets next to no gradient, and that is right."""
    readers = trace.consumers()
    stack, seen, weighs = [row], {row}, False
    while stack:
        of = stack.pop()
        after = [r for r in readers.get(of, ()) if r.reached]
        if not after:
            return False
        for r in after:
            if (r.op == "softmax" and _multiplied(readers, r)) or (r.op == ATTENTION and of not in r.refs[2:3]):
                weighs = True
            elif r not in seen:
                seen.add(r)
                stack.append(r)
    return weighs


def _multiplied(readers: Mapping[Ref, Sequence[Row]], row: Row) -> bool:
    """Whether a few ops further on a matrix product takes what an op gives."""
    rows = [row]
    for _ in range(4):
        rows = [after for r in rows for after in readers.get(r, ())]
        if any(r.op in PRODUCTS for r in rows):
            return True
    return False


def _overfed(
    trace: Trace, layers: list[tuple[Leaf, Row]], sizes: dict[Leaf, float], explained: set[Leaf]
) -> Found | None:
    """A finding of layers that get more than a step can bear, or far more than the last one."""
    end = layers[-1][0]
    strong = [(leaf, row) for leaf, row in layers[:-1] if sizes[leaf] > EXPLODING * sizes[end] > 0]
    if len(layers) < LAYERS or max(sizes[leaf] for leaf, _ in layers) < 1e-3:  # beside almost nothing is still small
        strong = []
    for leaf, row in layers:
        moved = trace.updates.get(leaf)  # where an optimizer ran, it is no guess what a step does to the weight
        least = HUGE_TO_WEIGHT * trace.weights.get(leaf, 0.0) if moved is None else 0.0 if moved >= 1 else math.inf
        if sizes[leaf] > max(HUGE, least) and (leaf, row) not in strong:
            strong.append((leaf, row))
    strong = [(leaf, row) for leaf, row in strong if leaf not in explained]
    strong.sort(key=lambda pair: pair[1].number)
    return _exploding(trace, strong, layers[-1], sizes) if strong else None


def _alike(trace: Trace, alike: list[tuple[Leaf, Row]]) -> Found:
    """Weights that began with one value everywhere: all units of a layer compute and learn the same."""
    line, col, place = where(trace, alike[0][1].chain)
    used = place
    code = ""
    if (set_at := line_of(trace, [leaf for leaf, _ in alike])) is not None:
        line, col, text = set_at
        place, code = f"line {line}", f" (`{text}`)"
    zero = all(not trace.first.get(leaf, (0.0, 0.0))[0] for leaf, _ in alike)
    leaves = [leaf for leaf, _ in alike]
    none = zero and not any(trace.gradients[leaf].max_abs for leaf in leaves)
    what = f"{verb(alike, 'is', 'are')} all 0" if zero else f"{verb(alike, 'has', 'have')} the same values in every row"
    so = (
        "so nothing passes through them and they get gradients of exactly 0"
        if none
        else "so the units of a layer give the same and get the same gradient, and hardly become different"
    )
    does = "computes with" if place == used else "sets"
    at = "" if place == used else f" ({used})"
    message = capital(f"{place}{code} {does} start values that break no symmetry: {_span(alike)}{at} {what}, {so}.")
    remedy = (
        "Start weights with random values (nn.init.kaiming_uniform_, or those that nn.Linear has); 0 is for biases."
    )
    return Found("vanishing" if none else "initialisation", "warning", line, col, message, remedy, [], leaves)


def _dead(trace: Trace, layers: list[tuple[Leaf, Row]], explained: set[Leaf]) -> list[Found]:
    """Every weight's gradient is exactly zero, because a relu gives nothing but zeros, or for a step function."""
    dead = [r for r in trace.rows if r.reached and r.op in CLIPPED and r.stats is not None and r.stats.zeros == 1]
    if dead and (any(leaf in explained for leaf, _ in layers) or _margin_met(trace, dead[0])):
        return []
    if dead:
        why = f"`{dead[0].op}` gives nothing but zeros and passes nothing on"
        remedy = "Lower the learning rate, start biases at 0, or use leaky_relu or gelu."
        if data := wide(trace):
            why += f" ({data[0]} has values up to {data[1]:.3g})"
            remedy = f"Bring {data[0]} to a mean of 0 and a spread of 1 first; then lower the learning rate."
    else:
        return _stepped(trace, layers)
    return _nothing_passes(trace, layers, dead, why, remedy)


def _margin_met(trace: Trace, row: Row) -> bool:
    """Whether the zeros are those of a loss that was above 0 before: the margin of a hinge, which is reached."""
    readers, stack, behind = trace.consumers(), [row], {row}
    while stack:
        for after in readers.get(stack.pop(), ()):
            if any(isinstance(ref, Leaf) and ref.requires_grad for ref in after.refs):
                return False  # a layer follows
            if after not in behind:
                behind.add(after)
                stack.append(after)
    courses = [r.course for r in behind if r.course is not None]
    return any(value > 0 for course in courses for value in course.first)


def _stepped(trace: Trace, zero: list[tuple[Leaf, Row]]) -> list[Found]:
    """Layers whose gradients are exactly zero because a step function lies between them and the loss."""
    flat = [r for r in trace.rows if r.reached and r.op in STEPS]
    if not flat or not zero:
        return []
    before = ancestors(flat)
    layers = [(leaf, row) for leaf, row in zero if leaf in before]
    if not layers:
        return []
    why = f"`{flat[0].op}` has a slope of 0 everywhere"
    remedy = f"Pass the gradient by it: x + (x.{flat[0].op}() - x).detach() is a straight-through estimator."
    return _nothing_passes(trace, layers, flat, why, remedy)


def _nothing_passes(
    trace: Trace, layers: list[tuple[Leaf, Row]], dead: list[Row], why: str, remedy: str
) -> list[Found]:
    leaves = [leaf for leaf, _ in layers]
    line, col, place = where(trace, dead[0].chain)
    message = capital(
        f"{place} lets gradients vanish: {why}, so {_span(layers)} "
        f"{'gets a gradient' if len(leaves) == 1 else 'get gradients'} of exactly 0."
    )
    return [Found("vanishing", "warning", line, col, message, remedy, dead, leaves)]


def _saturated(trace: Trace, layers: list[tuple[Leaf, Row]]) -> Found | None:
    """Activations between layers that are flat for nearly all values, though the gradients' sizes do not show it."""
    if len(layers) < 2:
        return None
    way = [
        r
        for r in _between([row for _, row in layers], layers[-1][1])
        if r.op in FLAT and r.stats is not None and len(r.shape) > 1
    ]
    flat = [(row, slope) for row in way if (slope := _slope(row)) is not None and slope < FLAT[row.op]]
    if not flat or 2 * len(flat) < len(way) or (len(flat) < 2 and flat[0][1] > 0.5 * FLAT[flat[0][0].op]):
        return None
    row, slope = min(flat, key=lambda pair: pair[0].number)
    line, col, place = where(trace, row.chain)
    before = ancestors([row])
    lost = [(leaf, r) for leaf, r in layers if leaf in before] or layers[:1]
    message = capital(
        f"{place} lets gradients vanish: `{row.op}` is saturated, nearly all its values are at the ends of its range "
        f"(its mean slope is {slope:.2g}), so little of a gradient reaches {_span(lost)}."
    )
    remedy = (
        "Start with smaller weights (Xavier), bring the inputs to a spread of about 1, or put a LayerNorm before it."
    )
    return Found("vanishing", "warning", line, col, message, remedy, [r for r, _ in flat], [leaf for leaf, _ in lost])


def _slope(row: Row) -> float | None:
    """The mean slope of a tanh or a sigmoid, from the mean and spread of its output."""
    s = row.stats
    if s is None or s.mean is None or s.std is None:
        return None
    square = s.mean * s.mean + s.std * s.std
    return 1 - square if row.op == "tanh" else s.mean - square


def _faded(trace: Trace, layers: list[tuple[Leaf, Row]]) -> Found | None:
    """All weights starve alike: what a layer loses in forward, the gradient of the layers behind it loses too."""
    acts = [r for r in trace.rows if r.reached and r.op in ACTIVATIONS and _root_mean_square(r) is not None]
    if len(acts) < LAYERS:
        return None
    first, last = _root_mean_square(acts[0]), _root_mean_square(acts[-1])
    if not first or last is None or last >= VANISHING * first:
        return None
    between = {ref for row in acts for ref in ancestors([row])}
    leaves = [leaf for leaf, _ in layers if leaf in between and _size(trace, leaf) < VANISHING]
    if not leaves:
        return None
    line, col, place = where(trace, acts[-1].chain)
    message = capital(
        f"{place} lets the signal and its gradients vanish: the output of `{acts[0].op}` falls from {first:.2g} "
        f"rms in the first layer to {last:.2g} in the last, so {_span([(x, acts[0]) for x in leaves])} hardly learn."
    )
    remedy = "Start with larger weights (Xavier or Kaiming), or put a LayerNorm between the layers."
    return Found("vanishing", "warning", line, col, message, remedy, acts, leaves)


def _root_mean_square(row: Row) -> float | None:
    """Of an op's output, from its mean and spread."""
    s = row.stats
    return None if s is None or s.mean is None or s.std is None else math.hypot(s.mean, s.std)


def _layers(trace: Trace) -> list[tuple[Leaf, Row]]:
    """Weights (matrices and higher) that got a gradient, with the op that first reads each, from input to loss."""
    readers = trace.consumers()
    found = []
    for leaf in trace.parameters():
        if trace.optimized and leaf not in trace.optimized and not made_to_train(leaf):
            continue  # an input whose gradient is looked at
        if leaf in trace.gradients and len(leaf.shape) >= 2:
            uses = [row for row in readers.get(leaf, ()) if row.reached]
            if any(getattr(row.refs[0], "span", None) != (0.0, 0.0) for row in uses):  # of zeros it makes nothing
                found.append((leaf, min(uses, key=lambda r: r.number)))
    return sorted(found, key=lambda pair: pair[1].number)


def _size(trace: Trace, leaf: Leaf) -> float:
    """The root mean square over what is not zero: rows of an embedding that no batch touched do not count."""
    g = trace.gradients[leaf]
    return g.rms / math.sqrt(1 - g.zeros) if g.zeros < 1 else 0.0


def _never(
    trace: Trace, layers: list[tuple[Leaf, Row]], last: dict[Leaf, float]
) -> tuple[list[tuple[Leaf, Row]], list[tuple[Leaf, Row]], dict[Leaf, float]] | None:
    """Layers that were given next to nothing at the first step and at the last, beside the most that a layer got: once
    the layers at the loss have settled, all gradients are small and the last ones show no difference."""
    most = {leaf: max(last[leaf], trace.first.get(leaf, (0.0, 0.0))[1]) for leaf, _ in layers}
    top = max(range(len(layers)), key=lambda i: most[layers[i][0]])
    least = VANISHING * most[layers[top][0]]
    weak = [(leaf, row) for leaf, row in layers[:top] if 0 < most[leaf] < least and trace.first.get(leaf, (0, 0))[1]]
    weak = [p for p in weak if not _weighs(trace, p[1]) and not _moved(trace, p, layers[top])]
    return (weak, layers[: top + 1], most) if weak else None


def _first_step(trace: Trace, weak: list[tuple[Leaf, Row]], top: Row) -> bool:
    """Exact zeros after a single step, with no dead relu: a last layer that starts at zero, which is fine."""
    gradients = [trace.gradients[leaf] for leaf, _ in weak]
    if any(g.max_abs or g.count > 1 for g in gradients):
        return False
    return not any(_loss_of_slope(row) and row.op == "relu" for row in ancestors([top]) if isinstance(row, Row))


def _loss_of_slope(row: Row) -> float | None:
    """The mean slope of an activation, from the mean and spread of its output, where it is too small; else None."""
    s = row.stats
    if s is None or s.mean is None or s.std is None:
        return None
    square = s.mean * s.mean + s.std * s.std
    if row.op == "tanh" and (slope := 1 - square) < SATURATED:
        return slope
    if row.op == "sigmoid" and (slope := s.mean - square) < 0.25:
        return slope
    if row.op == "relu" and s.zeros > DEAD:
        return 1 - s.zeros
    return None


def _between(first: Sequence[Row], last: Row) -> list[Row]:
    """Ops on the way from those of some layers to another's: a mask that is made beside them is not."""
    on_the_way = set(first)
    for row in sorted((r for r in ancestors([last]) if isinstance(r, Row)), key=lambda r: r.number):
        if not on_the_way.isdisjoint(row.refs):
            on_the_way.add(row)
    return [r for r in ancestors([last]) if isinstance(r, Row) and r.reached and r in on_the_way]


def _cause(trace: Trace, weak: list[tuple[Leaf, Row]], top: Row, each: float) -> tuple[str, str, list[Row]]:
    """Why gradients shrink, as far as the values tell: the words, the remedy, the rows."""
    way = _between([row for _, row in weak], top)
    flat = [(row, slope) for row in way if (slope := _loss_of_slope(row)) is not None]
    if flat:
        op = Counter(row.op for row, _ in flat).most_common(1)[0][0]
        rows = [row for row, _ in flat if row.op == op]
        slope = sum(s for row, s in flat if row.op == op) / len(rows)
        if op == "sigmoid":
            return (f"each `sigmoid` on the way passes on {slope:.2g} of them on average",
                    "Use relu, gelu or silu between layers, or put a LayerNorm before each sigmoid.", rows)  # fmt: skip
        if op == "relu":
            return (f"`relu` gives {100 * (1 - slope):.3g} % zeros and passes nothing there",
                    "Lower the learning rate, start biases at 0, or use leaky_relu or gelu.", rows)  # fmt: skip
        return (f"`tanh` is saturated (its mean slope is {slope:.2g})",
                "Start with smaller weights (Xavier, gain 5/3), put a LayerNorm before each tanh, or use relu or gelu.",
                rows)  # fmt: skip
    acts = [r for r in way if r.op in ACTIVATIONS and _root_mean_square(r) is not None]
    weights = [w for leaf, _ in weak if (w := trace.weights.get(leaf)) is not None]
    if len(acts) >= 2:
        acts.sort(key=lambda r: r.number)
        first, last = _root_mean_square(acts[0]), _root_mean_square(acts[-1])
        if first and last is not None and last < 0.05 * first:
            words = f"the signal itself fades on the way, from {first:.2g} to {last:.2g}, because the weights are small"
            return words, "Start with larger weights (Xavier or Kaiming), or put a LayerNorm between the layers.", acts
    small = f", with weights of {max(weights):.2g} rms" if weights else ""
    return (
        f"each layer passes on about {each:.2g} of them{small}",
        "Use Xavier or Kaiming start values, LayerNorm, or skip connections.",
        acts,
    )


def _span(layers: list[tuple[Leaf, Row]]) -> str:
    """The names of layers that lie one after the other."""
    names = [leaf.name for leaf, _ in layers]
    return listed(names) if len(names) <= 4 else f"{names[0]} to {names[-1]} ({len(names)} layers)"


def _vanishing(
    trace: Trace, weak: list[tuple[Leaf, Row]], layers: list[tuple[Leaf, Row]], sizes: dict[Leaf, float]
) -> Found:
    """`layers` end with the one that gets most."""
    best, top = layers[-1]
    least = min((leaf for leaf, _ in weak), key=lambda leaf: sizes[leaf])
    steps = len(layers) - 1 - [leaf for leaf, _ in layers].index(least)
    low, high = sizes[least], sizes[best]
    why, remedy, rows = _cause(trace, weak, top, (low / high) ** (1 / steps))
    line, col, place = where(trace, (rows[0] if rows else weak[0][1]).chain)
    beside = f"1/{_times(high / low)} of the {high:.2g} of {best.name}" if low else f"{best.name} {high:.2g}"
    message = capital(
        f"{place} lets gradients vanish: {why}, so {_span(weak)} hardly {'learns' if len(weak) == 1 else 'learn'} "
        f"({least.name} gets {low:.2g} rms, {beside})."
    )
    return Found("vanishing", "warning", line, col, message, remedy, rows, [leaf for leaf, _ in weak])


def _times(ratio: float) -> str:
    """One digit of a large ratio.

    >>> _times(123456), _times(2.6e21)
    ('100,000', '3e+21')
    """
    return f"{float(f'{ratio:.1g}'):,.0f}" if ratio < 1e9 else f"{ratio:.0e}"


def _exploding(trace: Trace, strong: list[tuple[Leaf, Row]], end: tuple[Leaf, Row], sizes: dict[Leaf, float]) -> Found:
    worst = max(strong, key=lambda pair: sizes[pair[0]])
    line, col, place = where(trace, worst[1].chain)
    beside = "" if worst[0] is end[0] else f", beside {sizes[end[0]]:.2g} of {end[0].name} at the loss"
    weight = trace.weights.get(worst[0])
    all_of = f"; affected: {_span(strong)}" if len(strong) > 1 else ""
    held = f" (its weights have {weight:.2g})" if weight else ""
    message = capital(
        f"{place} lets gradients explode: {worst[0].name} gets an rms of {sizes[worst[0]]:.2g}{held}{beside}{all_of}."
    )
    remedy = "Start with smaller weights (Kaiming or Xavier), normalise inputs and layers, or use clip_grad_norm_."
    rows, leaves = [row for _, row in strong], [leaf for leaf, _ in strong]
    return Found("exploding", "warning", line, col, message, remedy, rows, leaves)
