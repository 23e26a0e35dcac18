"""Learning rates that a scheduler takes another way than was meant: past the end of a cosine, in the wrong place of the
loop, by a figure that is better when it is the other way, or not at all."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ...recorder.cell_trace import Leaf, OptimizerFacts, Trace
from ..finding import Found, capital, last_line, where
from ..order import rule
from ..reading.expressions import flow_of
from ..reading.scope import flow_around
from ..reading.sources import Function, Place, Source, called, sources
from .training_steps import calls

GONE, EARLY = 0.02, 0.67  # share of the highest learning rate that is next to nothing, and of the steps by then
ENOUGH = 20  # steps in which a warm-up has to end
RECORDED = "the learning rates of the steps were recorded"
LOW, HIGH = 0.1, 0.5  # shares of the highest learning rate between which it has fallen and risen
RISES = re.compile(
    r"(^|_)(accs?|accuracy|accuracies|f1|auc|auroc|iou|miou|dice|recall|precision|psnr|ssim|bleu|r2|correct|rewards?)"
    r"(_|$)", re.I,
)  # fmt: skip
FALLS = re.compile(r"(^|_)(loss|losses|error|err|mse|mae|rmse|nll|perplexity|ppl|wer|cer)(_|$)", re.I)


BY_EPOCH = {"StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LambdaLR", "LinearLR", "PolynomialLR"}
FIGURE = re.compile(r"loss|acc|metric|score|error", re.I)


@rule(560)
def scheduled(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """One finding about the cell's schedulers."""
    if trace.error is not None or trace.steps.count < 2:
        return []
    made = _schedulers(trace)
    if not made:
        return []
    for made_in, name, node in made:
        last = name.rpartition(".")[2]
        steps = [
            (source, n)
            for source in sources(trace)
            for n in source.nodes
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "step"
            and ast.unparse(n.func.value).rpartition(".")[2] == last
        ]  # fmt: skip
        rates = max(trace.steps.optimizers, key=lambda o: o.steps, default=OptimizerFacts("")).rates
        kind = ast.unparse(node.func).rpartition(".")[2]
        said = Scheduler(trace, made_in, name, kind, node, steps, rates)
        for look in (
            _by_the_other_way,
            _figure_for_epoch,
            _past_the_end,
            _too_fast,
            *(() if trace.stopped else (_never, _still_rising)),
            _too_early,
        ):
            found = look(said)
            if found is not None:
                return [found]
    return []


class Scheduler(NamedTuple):
    """A scheduler of the cell's: where it is made and stepped, and the learning rates that came of it."""

    trace: Trace
    source: Source
    name: str
    kind: str
    node: ast.Call
    steps: list[tuple[Source, ast.Call]]
    rates: list[float]


def _schedulers(trace: Trace) -> list[tuple[Source, str, ast.Call]]:
    """The schedulers that the cell or what it uses makes: where, and what they are called."""
    found = []
    for source in sources(trace):
        for node in source.nodes:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            kind = ast.unparse(node.value.func)
            if "lr_scheduler." in kind or (kind.endswith("LR") and kind[:1].isupper()) or "LROnPlateau" in kind:
                found.append((source, ast.unparse(node.targets[0]), node.value))
    return found


def loops_around(trace: Trace, source: Source, node: ast.AST) -> int:
    """How many loops lie around a place, in its function and around that function's calls."""
    count = sum(isinstance(n, ast.For | ast.While) for n in source.around(node))
    function = next((n for n in source.around(node) if isinstance(n, Function)), None)
    calls_of = [
        sum(isinstance(n, ast.For | ast.While) for n in other.around(call))
        for other in sources(trace)
        for call in other.nodes
        if function is not None and called(call) == function.name
    ]
    return count + max(calls_of, default=0)


def _by_the_other_way(of: Scheduler) -> Found | None:
    """A plateau that is looked for in a figure that rises, by a scheduler that waits for it to fall; or the reverse."""
    if of.kind != "ReduceLROnPlateau":
        return None
    given = next((k.value for k in of.node.keywords if k.arg == "mode"), None)
    given = of.node.args[1] if given is None and len(of.node.args) > 1 else given
    mode = "min" if given is None else given.value if isinstance(given, ast.Constant) else None
    for source, step in of.steps:
        figure = next((k.value for k in step.keywords if k.arg == "metrics"), step.args[0] if step.args else None)
        better = None if figure is None else _better(source, figure)
        if better is None or mode not in ("min", "max") or better == mode:
            continue
        line, col, place = source.place(step)
        worse = "rises" if mode == "min" else "falls"
        made = "by default" if given is None else f"by mode={mode!r}"
        message = (
            f"{capital(place)} gives {of.name} a figure that is better the {'higher' if mode == 'min' else 'lower'} it "
            f"is (`{ast.unparse(figure)}`), and {made} ({of.source.place(of.node).words}) it waits for a "  # type: ignore[arg-type]
            f"{'lower' if mode == 'min' else 'higher'} one: while that {worse}, it lowers the learning rate"
        )
        proof = ""
        if of.rates and of.rates[-1] < of.rates[0]:
            message += f", here from {of.rates[0]:.2g} to {of.rates[-1]:.2g}"
            proof = "the rate fell"
        remedy = f"Make it with mode={better!r}."
        return Found("learning-rate", "warning", line, col, message + ".", remedy, proof=proof)
    return None


def _figure_for_epoch(of: Scheduler) -> Found | None:
    """``StepLR(...).step(val_loss)``: a loss, which is taken for the number of an epoch."""
    if of.kind not in BY_EPOCH:
        return None
    for source, step in of.steps:
        figure = step.args[0] if step.args else None
        if figure is None or (_better(source, figure) is None and not FIGURE.search(ast.unparse(figure))):
            continue
        line, col, place = source.place(step)
        text = ast.unparse(figure)
        message = capital(
            f"{place} gives {text} to the step() of {of.name}, a {of.kind} ({of.source.place(of.node).words}), which "
            "takes it for the number of the epoch: the learning rate goes by how large the figure is, and not by how "
            "long the training has run."
        )
        remedy = f"Call {of.name}.step(); a scheduler that waits for a figure to stop improving is ReduceLROnPlateau."
        proof = "what step() is given is the epoch"
        return Found("learning-rate", "warning", line, col, message, remedy, proof=proof)
    return None


def _better(source: Source, figure: ast.expr) -> str | None:
    """Which way a figure becomes better, "min" or "max", by its name or by what it was computed of; None where nobody
    can tell."""
    scope = next((n for n in source.around(figure) if isinstance(n, Function)), source.program)
    for node in (figure, flow_of(source, scope).inner(figure)):
        if any(isinstance(n, ast.USub | ast.Sub) for n in ast.walk(node)):
            return None  # turned round, most likely
        words = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        words |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
        words |= {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        rises, falls = any(map(RISES.search, words)), any(map(FALLS.search, words))
        if rises != falls:
            return "max" if rises else "min"
        if not falls and "mean" in words and any(isinstance(n, ast.Eq) for n in ast.walk(node)):
            return "max"  # a share of what is right
    return None


def _still_rising(of: Scheduler) -> Found | None:
    """A warm-up that has not come to its end when the training is over."""
    rates = of.rates
    if of.kind not in ("OneCycleLR", "LinearLR", "LambdaLR") or len(rates) < ENOUGH or not of.steps:
        return None
    if (min(rates) <= 0 < max(rates) and rates[0] > 0) or _range_test(rates):
        return None
    # made for all batches and stepped once an epoch, it hardly begins to rise
    by_epoch = any(k.arg == "steps_per_epoch" for k in of.node.keywords) and 2 * len(set(rates)) <= len(rates)
    rising = all(b >= a for a, b in pairwise(rates)) and rates[-1] > rates[len(rates) * (5 if by_epoch else 9) // 10]
    if not rising or rates[-1] < (1.01 if by_epoch else 1.5) * rates[0]:
        return None
    source, step = of.steps[0]
    line, col, place = of.source.place(of.node)
    message = (
        f"{capital(place)} makes a schedule that still warms up when the training is over: the learning rate rises "
        f"from {rates[0]:.2g} to {rates[-1]:.2g} in all {len(rates):,} steps of {of.name} ({source.place(step).words}) "
        "and has not come to its highest."
    )
    remedy = f"Make it for as many steps as there are: {len(rates):,}."
    if by_epoch:
        remedy = f"Call {of.name}.step() after every batch: steps_per_epoch counts these."
    return Found("learning-rate", "warning", line, col, message, remedy, proof=RECORDED)


def _range_test(rates: Sequence[float]) -> bool:
    """Whether rates grow by one factor a step over three orders of magnitude: what is looked for is the rate at which
    a training breaks down, and no warm-up does that."""
    factors = [b / a for a, b in pairwise(rates) if a > 0]
    return rates[-1] > 1000 * rates[0] > 0 and max(factors) < 1.05 * min(factors)


class _Turns(NamedTuple):
    """A scheduler that is stepped for every batch beside an optimizer that steps after several of them."""

    batches: int
    step: Place
    """That of the optimizer, inside the branch."""

    def found(self, of: Scheduler, course: str) -> Found:
        source, node = of.steps[0]
        line, _, place = source.place(node)
        message = (
            f"{capital(place)} steps {of.name} for every batch, and the optimizer only after every {self.batches} of "
            f"them ({self.step.words}): {course}"
        )
        remedy = f"Call {of.name}.step() there, in the same branch, after the optimizer's step on {self.step.words}."
        return Found("learning-rate", "warning", line, None, message, remedy, proof=RECORDED)


def _between_steps(of: Scheduler) -> _Turns | None:
    """Return how many batches there are to a step of the optimizer, where the scheduler goes by batches: the one steps
    in a branch on the number of the batch, ``if (i + 1) % n == 0``, and the other beside it."""
    if len(of.steps) != 1:
        return None
    source, node = of.steps[0]
    flow = flow_around(source, node)
    loop = next((n for n in source.around(node) if isinstance(n, ast.For | ast.While)), None)
    for branch in loop.body if loop is not None else ():
        if not isinstance(branch, ast.If) or node in set(ast.walk(branch)):
            continue
        every = [n.right for n in ast.walk(branch.test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]
        steps = [n for n in ast.walk(branch) if isinstance(n, ast.Call) and called(n) == "step"]
        batches = flow.number(every[0]) if len(every) == 1 else None
        if steps and batches is not None and batches > 1:
            return _Turns(int(batches), source.place(steps[0]))
    return None


def _past_the_end(of: Scheduler) -> Found | None:
    """A cosine that comes to its lowest point in the middle of the training and goes up again."""
    trace, source, name, kind, node, steps, rates = of
    if kind != "CosineAnnealingLR" or len(rates) < 4 or not steps:
        return None
    if any(called(n) == "SWALR" for s in sources(trace) for n in s.nodes):
        return None  # a second schedule takes over where the cosine ends
    high = max(rates)
    low = min(range(len(rates)), key=lambda k: rates[k])
    if rates[low] > LOW * high or max(rates[low:], default=0.0) < HIGH * high:
        return None
    first = next(k for k, r in enumerate(rates) if r <= LOW * high)
    turn = next((k for k in range(first, len(rates) - 1) if rates[k + 1] > rates[k]), low)
    again = next(k for k in range(turn, len(rates)) if rates[k] >= HIGH * high)
    end = next((ast.unparse(k.value) for k in node.keywords if k.arg == "T_max"), None)
    end = end or (ast.unparse(node.args[1]) if len(node.args) > 1 else "its T_max")
    inner = loops_around(trace, *steps[0]) > 1
    line, _, place = steps[0][0].place(steps[0][1]) if inner else source.place(node)
    word = f"T_max={end}" if end != "its T_max" else end
    course = (
        f"the learning rate is at {rates[turn]:.2g} after {turn:,} of {len(rates):,} steps and rises again, to "
        f"{rates[again]:.2g} after {again:,}."
    )
    turns = _between_steps(of)
    if turns is not None and abs(turn * turns.batches - len(rates)) <= 2 * turns.batches:  # it was made for the steps
        return turns.found(of, f"the cosine goes past its end ({word}), {course}")
    message = f"{capital(place)} takes the cosine past its end ({word}): {course}"
    remedy = f"Make T_max the number of all calls of {name}.step(): {len(rates):,}."
    if inner:
        remedy = (
            f"Call {name}.step() once an epoch, after the loop over the batches, or make T_max the number of all steps."
        )
    return Found("learning-rate", "warning", line, None, message, remedy, proof=RECORDED)


def _too_fast(of: Scheduler) -> Found | None:
    """A schedule for epochs that is stepped for every batch: the learning rate is gone in the first part."""
    trace, _, name, kind, _, steps, rates = of
    if not steps or len(rates) < 8 or loops_around(trace, *steps[0]) < 2 or kind.startswith(("OneCycle", "Cosine")):
        return None
    high = max(rates)
    gone = next((k for k, r in enumerate(rates) if r <= GONE * high), len(rates))
    if gone > EARLY * len(rates) or max(rates[gone:]) > GONE * high:
        return None
    course = f"the learning rate is at {rates[gone]:.2g} after {gone:,} of {len(rates):,} steps, from {high:.2g}"
    turns = _between_steps(of)
    if turns is not None and abs(gone * turns.batches - len(rates)) <= 2 * turns.batches:
        return turns.found(of, f"{course}, and hardly anything is learned from there on.")
    line, _, place = steps[0][0].place(steps[0][1])
    message = f"{capital(place)} steps {name} for every batch: {course}, and hardly anything is learned from there on."
    remedy = f"Call {name}.step() once an epoch, after the loop over the batches."
    return Found("learning-rate", "warning", line, None, message, remedy, proof=RECORDED)


def _never(of: Scheduler) -> Found | None:
    """A scheduler that nothing steps."""
    trace, source, name, kind, node, steps, rates = of
    if steps or len(set(rates)) > 1 or not calls(trace, "step"):
        return None
    last = name.rpartition(".")[2]
    nodes = (n for other in sources(trace) for n in other.nodes)
    handed = any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id == last for n in nodes)
    inside = source.name and any(isinstance(n, Function) for n in source.around(node))
    if handed or inside or "." in name:
        return None
    line, col, place = source.place(node)
    message = f"{capital(place)} makes {name}, a {kind}, and nothing steps it: the learning rate stays {rates[0]:g}."
    remedy = f"Call {name}.step() once an epoch, after the loop over the batches."
    return Found("learning-rate", "warning", line, col, message, remedy, proof=RECORDED)


def _too_early(of: Scheduler) -> Found | None:
    """A scheduler that is stepped before the optimizer in each pass of one loop."""
    trace, name, steps = of.trace, of.name, of.steps
    step = where(trace, trace.steps.last_step)[0]
    if step is None or len(steps) != 1 or steps[0][0].name or steps[0][1].lineno >= step:
        return None
    line = steps[0][1].lineno
    around = [n for n in trace.nodes() if isinstance(n, ast.For | ast.While) and n.lineno < line <= last_line(n)]
    inner = max(around, key=lambda n: n.lineno, default=None)
    if inner is None or not inner.lineno < step <= last_line(inner):
        return None
    message = (
        f"Line {line} calls {name}.step() before the optimizer's first step (line {step}): the first value of the "
        "schedule is never used, and all others come one step early."
    )
    remedy = f"Call {name}.step() after optimizer.step(), once an epoch."
    return Found("learning-rate", "warning", line, None, message, remedy, proof=RECORDED)
