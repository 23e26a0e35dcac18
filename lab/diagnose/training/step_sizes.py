"""Steps of a wrong size: a learning rate out of range, weight decay that undoes them, a loss that falls for ever."""

from __future__ import annotations

import ast
import math

from ...recorder.cell_trace import Chain, Leaf, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..order import rule
from ..reading.sources import Place, called, sources
from .schedule import loops_around, scheduled
from .training_steps import calls

# A step that changes a weight matrix by more than half its own size forgets what it has learned; 1e-3 is usual, and the
# first steps of Adam on small weights reach 0.3.
LARGE = 0.5
# Above these a learning rate is itself the likely cause; below them it is the size of the gradient.
USUAL, USUAL_ADAPTIVE = 0.3, 0.02
HUGE, HUGE_TO_WEIGHT = 1e2, 1e4  # as in gradient_scale.py
WIDE = 50.0  # values above which data need to be brought to a spread of about 1
WILD = 0.3  # a learning rate of Adam and its kin that no loss excuses: each weight moves by so much in a step
BY_RATE = {"Adam", "AdamW", "NAdam", "RAdam", "RMSprop"}  # whose first step is the learning rate, whatever the gradient
STEADY = 1.2  # of where it began: how high a loss goes on its way down where no step harms it
WHOLE = 2.0  # a step that changes a weight by so many times its size
NOWHERE = 2e-5  # share of its size by which a weight moves in all steps together, if it is to be called training
DECAYS = 0.02  # share of a weight that weight decay takes in a step; usual are 1e-4 and less
MOVES = {"add_", "sub_", "add", "sub", "copy", "copy_", "addcmul_", "lerp_"}
TOO_SMALL = 1e-7  # float32 rounds such a change away


@rule(310, proof="the learning rates of the steps were recorded")
def step_size(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A learning rate with which weights change by more than their size, or not at all."""
    weights = [leaf for leaf in trace.largest if len(leaf.shape) >= 2 and leaf in trace.gradients]
    if trace.steps.stale is not None or (trace.steps.curved and trace.steps.lr <= 1):
        return []
    if not weights:
        return _diverges(trace, explained)
    if explained.issuperset(weights):
        return []
    if (row := _loss_row(trace)) is not None and row.course is not None and not math.isfinite(row.course.first[0]):
        return []  # before any step
    largest = max(weights, key=lambda leaf: trace.largest[leaf])
    ratio, facts = trace.largest[largest], trace.steps
    step, lr = _step_of(trace, largest)
    line, col, place = where(trace, step)
    loss = None if _against(trace, weights) else _loss(trace)  # an adversary's rises as the other one learns
    course = f", and the loss went from {loss[0]:.3g} to {loss[1]:.3g}" if loss else ""
    lost = any(g.nonfinite for g in trace.gradients.values())
    fair = 10.0 if largest in facts.from_zero else 1.0  # beside a weight that began at 0 each change is large
    row = _loss_row(trace)
    falls = loss is not None and loss[1] < loss[0] and loss[2] <= STEADY * loss[0] and wide(trace)
    if ratio > WHOLE and loss is not None and row is not None and row.course is not None and not falls:
        loss = (min(loss[0], row.course.first[0]), *loss[1:])  # steps of that size are no noise of small batches
    noise = 1.5 if ratio <= WHOLE else 1.0
    measured = loss is not None and (loss[0] != 0 or largest not in facts.from_zero)
    worse = lost or (loss is not None and measured and not loss[1] < noise * fair * abs(loss[0]))
    if loss is not None and not worse and loss[2] > 3 * fair * loss[0] > 0:
        worse, course = True, f", and the loss rose from {loss[0]:.3g} to {loss[2]:.3g} on the way"
    usual = USUAL_ADAPTIVE if facts.adaptive else USUAL
    by_gradient = lr <= usual and (_huge_at_first(trace, largest) or _overflows_by_hand(trace))
    if ratio > LARGE and worse and not by_gradient and facts.count > 1:
        explained.update(weights)
        if (decaying := _decays(trace)) and lr <= usual:
            return decaying
        message = capital(
            f"{place} takes steps that are too large (lr={lr:g}): one changed {largest.name} by "
            f"{ratio:.2g} times its own size{course}."
        )
        remedy = "Lower the learning rate until a step changes a weight by about a thousandth of its size (1e-3)."
        if (passes := _undivided(trace)) and lr <= usual:
            line, col, at = where(trace, facts.last_backward)
            message = capital(
                f"{at} adds up the gradients of {passes:,} passes for each step and does not divide by {passes:,}: a "
                f"step ({place}, lr={lr:g}) is {passes:,} times as large as by their mean. One changed "
                f"{largest.name} by {ratio:.2g} times its own size{course}."
            )
            remedy = f"Divide each loss before backward(): (loss / {passes}).backward()."
        elif data := wide(trace):
            message = f"{message[:-1]}; {data[0]} has values up to {data[1]:.3g}."
            remedy = f"Bring {data[0]} to a mean of 0 and a spread of 1 first, and lower the learning rate."
        severity = "error" if lost else "warning"
        return [Found("learning-rate", severity, line, col, message, remedy, [], [largest])]
    whole = ratio > WHOLE and facts.count > 1 and largest not in facts.from_zero
    if whole and lr >= WILD and not falls and all(o.kind in BY_RATE for o in facts.optimizers):
        message = capital(
            f"{place} takes steps that are too large (lr={lr:g}): one changed {largest.name} by "
            f"{ratio:.2g} times its own size, so what it began with is gone{course}."
        )
        remedy = "Lower the learning rate: 1e-3 is usual for Adam, and a step changes a weight by that share of it."
        return [Found("learning-rate", "warning", line, col, message, remedy, [], [largest])]
    if decaying := _decays(trace):
        return decaying
    moving = [leaf for leaf in weights if trace.gradients[leaf].max_abs]
    least = max(TOO_SMALL, NOWHERE / facts.ran) if facts.ran >= 8 else TOO_SMALL
    too_small = moving and facts.cleared is None and all(trace.largest[leaf] < least for leaf in moving)
    if too_small and facts.count > 1:
        rate = f"lr={facts.lr:g}" if facts.lr == facts.highest_lr else f"lr from {facts.highest_lr:g} to {facts.lr:g}"
        tried = "1e-3 is usual for Adam" if facts.adaptive else "0.01 to 0.1 are usual for SGD"
        raised = f"Raise the learning rate: {tried}."
        if clips := [*calls(trace, "clip_grad_norm_"), *calls(trace, "clip_grad_value_")]:
            raised = f"Raise the learning rate, or the limit to which line {clips[0][0]} clips the gradients."
        elif facts.highest_lr >= (1e-4 if facts.adaptive else 1e-3):
            raised = "Look at the size of the gradients: the loss hardly depends on these weights."
        message = capital(
            f"{place} takes steps too small to matter ({rate}): they change the weights by at most "
            f"{ratio:.2g} of their size, {ratio * facts.ran:.2g} in all {facts.ran:,}."
        )
        return [Found("learning-rate", "warning", line, col, message, raised, [], moving)]
    if facts.asleep > 2 and 2 * facts.asleep > facts.count:
        if scheduled(trace, set()):
            return []  # which says what is wrong with the scheduler
        there, loops = _scheduler(trace) or (Place(line, col, place), 0)
        at = there.words
        line, col = (there.line, there.col) if there.line is not None else (line, col)
        it = "it" if place == at else place
        message = capital(
            f"{at} stops the training: {it} hardly moves the weights in {facts.asleep:,} of {facts.count:,} "
            f"steps, since the learning rate has fallen from {facts.highest_lr:.3g} to {facts.lr:.3g}."
        )
        remedy = "Let the scheduler lower it more slowly (a larger gamma or step_size), or step it once an epoch."
        if loops > 1:
            remedy = (
                "Step the scheduler once an epoch, after the loop over the batches. If it is meant to go by batches, "
                "let it lower the rate more slowly (a larger gamma or step_size)."
            )
        return [Found("learning-rate", "warning", line, col, message, remedy, [], moving)]
    return [] if explained else _unbounded(trace)


def _step_of(trace: Trace, leaf: Leaf) -> tuple[Chain, float]:
    """Where the optimizer that holds a parameter stepped last, and at what rate: of several each has its own."""
    for one in trace.steps.optimizers if len(trace.steps.optimizers) > 1 else ():
        if len(one.rates) > 1 and one.step_at == trace.steps.stepped.get(leaf):  # a single step is a trial
            return one.step_at, one.rates[-1]
    return trace.steps.last_step, trace.steps.lr


def _against(trace: Trace, weights: list[Leaf]) -> bool:
    """Whether two optimizers step two networks by losses of their own, one of which goes through both: what one of them
    gains the other one loses."""
    places = {trace.steps.stepped.get(leaf) for leaf in weights} - {None}
    fed = {trace.steps.fed.get(leaf) for leaf in weights} - {None}
    if len(places) < 2 or len(fed) < 2:
        return False
    roots = [root for chain in fed if chain for root in trace.roots.get(chain, ())]
    return any(len({trace.steps.stepped.get(w) for w in weights if w in ancestors([root])}) > 1 for root in roots)


def _overflows_by_hand(trace: Trace) -> bool:
    """Whether the first values that are not finite are those of an exponential that is divided by its own sum."""
    first = min((r for r in trace.rows if r.bad is not None), key=lambda r: r.bad.when if r.bad else 0, default=None)
    if first is None or first.op != "exp" or first.bad is None or not first.bad.inputs_finite:
        return False
    readers = trace.consumers()
    sums = {r for r in readers.get(first, ()) if r.op == "sum"}
    return any(r.op == "div" and sums.intersection(r.refs) for r in readers.get(first, ()))


def _undivided(trace: Trace) -> int:
    """How many passes of one backward() add up for every step, where nothing divides by their number; else 0."""
    facts = trace.steps
    if facts.adaptive or len(facts.optimizers) != 1 or facts.optimizers[0].summed < 2:
        return 0
    for root in trace.roots.get(facts.last_backward, ()):
        scaled = [r for r in ancestors([root]) if isinstance(r, Row) and not r.shape and r.op in ("div", "mul")]
        if any(sum(1 for ref in row.refs if ref.requires_grad) == 1 for row in scaled):
            return 0  # it is divided by something, or multiplied by a factor
    return facts.optimizers[0].summed


@rule(312)
def not_divided(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Means of several small batches that are added up for a step and not divided by their number."""
    passes = _undivided(trace)
    if passes < 2 or trace.steps.count < 2 or trace.error is not None:
        return []
    means = {"mean", "cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits", "l1_loss"}
    roots = trace.roots.get(trace.steps.last_backward, ())
    if not roots or not all(root.op in means for root in roots):
        return []
    remainders = (n for source in sources(trace) for n in source.nodes if isinstance(n, ast.If))
    parts = (n for test in remainders for n in ast.walk(test.test))
    if not any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in parts):
        return []
    line, col, place = where(trace, trace.steps.last_backward)
    message = capital(
        f"{place} adds up the gradients of {passes:,} small batches for each step, each of a mean, and nothing divides "
        f"by {passes:,}: a step is {passes:,} times as large as by the mean over all of them."
    )
    remedy = f"Divide each loss before backward(): (loss / {passes}).backward()."
    return [Found("learning-rate", "note", line, col, message, remedy)]


def _scheduler(trace: Trace) -> tuple[Place, int] | None:
    """Return where a schedule of the learning rate takes its steps, and how many loops lie around that."""
    made = {ast.unparse(t) for s in sources(trace) for n in s.nodes if isinstance(n, ast.Assign) and _schedules(n.value)
            for t in n.targets}  # fmt: skip
    for source in sources(trace):
        for node in source.calls.get("step", ()):
            of = ast.unparse(getattr(node.func, "value", node.func))
            if "sched" in of.lower() or of in made:
                return source.place(node), loops_around(trace, source, node)
    return None


def _schedules(node: ast.expr) -> bool:
    """Whether an expression makes a scheduler of the learning rate."""
    return isinstance(node, ast.Call) and (
        "lr_scheduler." in ast.unparse(node.func) or called(node).endswith(("LR", "LROnPlateau", "WarmRestarts"))
    )


def _decays(trace: Trace) -> list[Found]:
    """Weight decay that takes away more than a step can give."""
    decay, share = trace.steps.shrinks
    if share < DECAYS or trace.steps.count < 2:
        return []
    line, col, place = where(trace, trace.steps.last_step)
    message = capital(
        f"{place} makes all weights smaller by {100 * share:.3g} % in every step (weight_decay={decay:g}, "
        f"lr={trace.steps.lr:g}): what a step learns is gone after a few."
    )
    if trace.steps.adaptive and decay >= 1 and share == min(trace.steps.lr, 1.0):
        message = capital(
            f"{place} steps by the weight decay and hardly by the loss: weight_decay={decay:g} adds {decay:g} times "
            "the weight to its gradient."
        )
    return [
        Found(
            "weight-decay",
            "warning",
            line,
            col,
            message,
            "Lower weight_decay: usual are 1e-4 to 1e-2, and up to 0.1 for AdamW.",
        )
    ]


def _diverges(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Steps by hand under which the loss grows."""
    loss = _loss(trace)
    if trace.steps.by_hand < 2 or loss is None or (loss[1] <= 2 * abs(loss[0]) and loss[1] == loss[1]):
        return []
    made = any(r.bad is not None and r.bad.inputs_finite for r in trace.rows if not r.requires_grad)
    if loss[1] != loss[1] and (made or _overflows_by_hand(trace)):
        return []  # an exponential that no layer would overflow has a finding of its own
    moved = [r for r in trace.rows if not r.requires_grad and r.op in MOVES and _of_trained(r) and r.line is not None]
    row = max(moved, key=lambda r: r.count, default=None)
    line, col, place = where(trace, row.chain if row is not None else trace.steps.last_backward)
    course = f"the loss goes from {loss[0]:.3g} to {loss[1]:.3g}"
    if row is not None and row.op in ("add", "add_") and "-" not in code_of(trace, row):
        message = f"{place} moves along the gradient and not against it: {course}."
        remedy = "Subtract the gradient: w -= lr * w.grad."
    else:
        message = f"{place} takes steps that are too large: {course}."
        remedy = "Lower the learning rate."
    leaves = [leaf for leaf in trace.gradients if leaf.requires_grad]
    explained.update(leaves)
    return [Found("learning-rate", "error", line, col, capital(message), remedy, [row] if row else [], leaves)]


def _of_trained(row: Row) -> bool:
    """Whether an op changes a tensor that requires a gradient, or its .data."""
    first = row.refs[0] if row.refs else None
    if isinstance(first, Row) and first.cut == "data" and first.refs:
        first = first.refs[0]
    return first is not None and first.requires_grad and isinstance(first, Leaf)


def _unbounded(trace: Trace) -> list[Found]:
    """A loss below zero that falls for ever: its sign is wrong, or it has no lower end."""
    loss = _loss(trace)
    if loss is None or not loss[1] < -1e3 * max(1.0, abs(loss[0])) or trace.steps.count < 3:
        return []
    row = _loss_row(trace)
    assert row is not None
    line, col, place = where(trace, row.chain)
    message = capital(
        f"{place} makes a loss that falls for ever (`{code_of(trace, row)}` goes from {loss[0]:.3g} to {loss[1]:.3g}): "
        "a step makes it smaller, and it has no lower end."
    )
    remedy = "Mind its sign: what shall become small goes into the loss with a plus."
    return [Found("loss", "warning", line, col, message, remedy, [row])]


def _huge_at_first(trace: Trace, leaf: Leaf) -> bool:
    """Whether a parameter's very first gradient was beyond what a usual step can bear, and because of large weights:
    then it is not the steps."""
    weight, gradient = trace.first.get(leaf, (0.0, trace.gradients[leaf].rms))
    first = trace.first.values()
    grown = max((w for w, _ in first), default=0.0) * max(leaf.shape, default=1) ** 0.5
    return gradient > max(HUGE, HUGE_TO_WEIGHT * weight) and grown > 3 and not wide(trace)


def wide(trace: Trace) -> tuple[str, float] | None:
    """Data with values far from 1, by name, and the largest."""
    found = []
    for leaf in trace.leaves:
        t = leaf.alive() if not leaf.requires_grad and leaf.shape and leaf.dtype.startswith("float") else None
        named = leaf.name and not leaf.name.startswith("unnamed")
        if t is not None and named and t._kind.device.type == "cpu" and t._a.size:
            high = float(abs(t._a[: 1 << 16]).max())
            found.append((leaf.name, high))
    loss = _loss_row(trace)
    for row in ancestors([loss]) if loss is not None else ():
        s = row.stats if isinstance(row, Row) and not row.requires_grad and not row.cut and row.shape else None
        if s is not None and s.min is not None and s.max is not None and row.dtype.startswith("float"):
            assert isinstance(row, Row)
            found.append((f"what {where(trace, row.chain)[2]} makes", max(abs(s.min), abs(s.max))))
    name, high = max(found, key=lambda pair: pair[1], default=("", 0.0))
    return (name, high) if WIDE < high < math.inf else None


def _loss_row(trace: Trace) -> Row | None:
    """What backward() ran on, most often."""
    readers = trace.consumers()
    rows = [r for r in trace.rows if r.reached and r.course and not any(k.reached for k in readers.get(r, ()))]
    return max(rows, key=lambda r: r.count, default=None)


def _loss(trace: Trace) -> tuple[float, float, float] | None:
    """Where the loss began, where it ended and how high it went, of what backward() ran on."""
    row = _loss_row(trace)
    if row is None or row.course is None or math.isnan(row.course.first[0]) or row.course.count < 2:
        return None
    begin, end, high = row.course.ends()
    first = row.course.first[0]
    return (begin if row.course.count >= 8 and begin < 3 * first else first), end, high
