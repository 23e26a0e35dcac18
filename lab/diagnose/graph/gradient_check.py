"""``%%autograd --check``: every op's gradient against finite differences, as the cell runs, on its own inputs.

The op runs again on copies of its inputs in double precision. The gradient of a random sum of its outputs, along a
random direction, must be the slope that two more runs measure: one number an input, however large it is. What could
not be compared is counted with its reason, and a cell of which nothing was compared is never called right.
"""

from __future__ import annotations

import io
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

from core import autograd
from core import random as core_random
from core.base import modes
from core.declare.op import Elementwise, Operation
from core.dispatch import elementwise, structured
from core.events import observe
from core.tensors.tensor import Tensor, from_array

from ...recorder.cell_trace import Row, Trace
from ...recorder.tensor_stats import on_host
from ..finding import Found, capital, where

STEP = 1e-6  # of an element's size: in float64 the slope is then right to about nine digits
TOLERANCE = 1e-4
JITTER = 1e-3
NOISE = 16 * float(np.finfo(np.float64).eps)  # of the outputs' weighed size: what rounding may do to a difference
LARGEST = 1 << 22  # elements beyond which an op is not run again
NAMED = 8  # of the ops that were not checked, those that the sentence names
ATTEMPTS = ((False, 1.0), (False, 0.0), (True, 0.0), (True, 0.0))
"""(whether the inputs are moved a little first, the least step in units of STEP). Where values tie or stand at a kink
(max, relu at 0), and where they are tiny (log, sqrt), the first slope differs without anything being wrong."""

Weigh = Callable[[list[Any], list[bool]], list[Any]]


class Unchecked(Exception):
    """Why an op cannot be compared with finite differences, in words."""


class Rerun(Protocol):
    """An op that can run again: all values are NumPy arrays of double precision."""

    values: list[Any]
    """What a gradient is wanted of."""
    positions: list[int]
    """Their places among the op's inputs."""

    def outputs(self, values: list[Any]) -> list[Any]:
        """The floating-point outputs at other values."""

    def gradient(self, values: list[Any], k: int, weigh: Weigh) -> tuple[Any, list[Any]]:
        """The gradient of values[k], and what `weigh` said of the outputs (and of which of them have a gradient)."""


class Checker(observe.Observer):
    """Checks each op the first time it runs at its place on inputs of these shapes."""

    name = "gradients"

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.checked = 0
        self.left: Counter[tuple[str, str]] = Counter()  # (op, why it could not be checked) -> how many
        self.foreign: Counter[str] = Counter()  # library -> how many of its own ops, which it tests itself
        self.wrong: list[tuple[Row, str, int, float, float]] = []
        self.moved = False  # whether ops of another device ran again on the CPU
        self._known: set[Any] = set()
        self._rng = np.random.default_rng(0)

    def op(self, event: observe.OpEvent) -> None:
        """An op has run: check it, and leave no trace of that."""
        if event.node is None or event.phase != "forward":
            return
        if self.is_new(event.op, event.place, event.inputs):
            self.moved |= event.node.kind.device.type != "cpu"
            self.check(event.op, event.node.tag, lambda: CoreRerun(event))

    def is_new(self, op: str, place: Any, inputs: Any) -> bool:
        """Whether it is the first run of an op at a place on inputs of these shapes."""
        key = (op, place, tuple(tuple(t.shape) if hasattr(t, "shape") else None for t in inputs))
        if key in self._known:
            return False
        self._known.add(key)
        return True

    def check(self, op: str, row: Row, make: Callable[[], Rerun]) -> None:
        """Run an op again and compare; an error of that is a reason why it was not checked."""
        start = perf_counter_ns()
        enabled, modes.state.enabled = modes.state.enabled, True
        try:
            with observe.muted(), np.errstate(all="ignore"):
                off = self._compare(make())
            if off is None:
                self.checked += 1
            else:
                self.wrong.append((row, op, *off))
        except Unchecked as why:
            self.left[op, str(why)] += 1
        except Exception as error:
            said = (str(error).splitlines() or [""])[0]
            self.left[op, f"run again in float64 it raised {type(error).__name__}: {said}"] += 1
        finally:
            modes.state.enabled = enabled
            self.recorder.own_ns += perf_counter_ns() - start

    def failed(self, error: Exception) -> None:
        """The check itself failed: what came after is not checked."""
        said = (str(error).splitlines() or [""])[0]
        self.left["what came later", f"{type(error).__name__}: {said}"] += 1

    def _compare(self, rerun: Rerun) -> tuple[int, float, float] | None:
        """(input, what backward says, what finite differences say) where they differ. *Raises*: Unchecked."""
        if not rerun.values:
            raise Unchecked("no input of it has a floating-point type and wants a gradient")
        if sum(np.size(v) for v in rerun.values) > LARGEST:
            raise Unchecked("too large")
        compared = False
        for k, position in enumerate(rerun.positions):
            if not np.size(rerun.values[k]):
                continue
            off = None
            for moved, least in ATTEMPTS:
                values = [self._moved(v) for v in rerun.values] if moved else rerun.values
                slopes = self._slopes(rerun, values, k, least)
                if slopes is None:
                    continue
                said, measured, slack = slopes
                off = None if abs(said - measured) <= slack else (position, said, measured)
                compared = True
                if off is None:
                    break
            if off is not None:
                return off
        if not compared:
            raise Unchecked("its values are not finite, or there are none")
        return None

    def _slopes(self, rerun: Rerun, values: list[Any], k: int, least: float) -> tuple[float, float, float] | None:
        """What backward says along a random direction, what finite differences say, and by how much they may differ;
        None where one of them cannot be told."""
        x = values[k]
        size = np.where(np.isfinite(x), np.abs(x), 0.0)
        scale = np.maximum(size, least) if least else np.where(size > 0, size, JITTER * (_rms(size) or 1.0))
        direction = self._normal(x) * scale
        g, weights = rerun.gradient(values, k, self._weigh)
        if not any(bool(np.any(w)) for w in weights):
            return None  # no output is finite: nothing is compared
        said = 0.0 if g is None else _product(g, direction)
        totals, noise = [], 0.0
        for sign in (1, -1):
            shifted = [v + sign * STEP * direction if n == k else v for n, v in enumerate(values)]
            outs = rerun.outputs(shifted)
            totals.append(sum(_product(w, np.where(w != 0, o, 0)) for w, o in zip(weights, outs, strict=True)))
            noise += sum(float(np.sum(np.abs(w * np.where(w != 0, o, 0)))) for w, o in zip(weights, outs, strict=True))
        measured = (totals[0] - totals[1]) / (2 * STEP)
        everywhere = all(bool(np.all(w != 0)) for w in weights)
        if not np.isfinite(measured) or not (np.isfinite(said) or everywhere):
            return None
        floor = 1e-3 * float(np.linalg.norm(direction))
        return said, measured, TOLERANCE * (abs(said) + abs(measured) + floor) + NOISE * noise / STEP

    def _weigh(self, outs: list[Any], live: list[bool]) -> list[Any]:
        """Weights at random; nothing counts that is not finite, or that has no gradient."""
        if not any(live):
            raise Unchecked("in float64 its result has no gradient")
        if coarse := next((o.dtype for o in outs if o.dtype not in (np.float64, np.complex128)), None):
            raise Unchecked(f"it computes in {coarse} whatever it is given, too coarse for finite differences")
        return [
            np.where(np.isfinite(o), self._normal(o), 0) if counts else np.zeros_like(o)
            for o, counts in zip(outs, live, strict=True)
        ]

    def _normal(self, like: Any) -> Any:
        made = self._rng.standard_normal(like.shape)
        return made + 1j * self._rng.standard_normal(like.shape) if np.iscomplexobj(like) else made

    def _moved(self, value: Any) -> Any:
        """Values a little to the side, where no two tie and none stands at a kink."""
        return value + JITTER * (_rms(np.where(np.isfinite(value), np.abs(value), 0.0)) or 1.0) * self._normal(value)

    # -- what is said of it --------------------------------------------------------------------------------------------

    def findings(self, trace: Trace) -> list[Found]:
        """One finding for every op whose gradient is wrong."""
        found = []
        for row, op, k, said, measured in self.wrong:
            line, col, place = where(trace, row.chain)
            message = capital(
                f"{place}: the gradient of `{op}` is wrong: for its input {k} backward gives {said:.6g} along a random "
                f"direction, finite differences give {measured:.6g}."
            )
            library = "torch" if row.backend == "PyTorch" else "core"
            remedy = (
                f"Compare the formula in its backward with the derivative; {library}.autograd.gradcheck({op}, inputs "
                "in float64) tells every entry. Where it is meant to differ (a straight-through estimator, a gradient "
                "that is turned round), all is well."
            )
            found.append(Found("gradient", "error", line, col, message, remedy, [row]))
        return found

    def sentence(self) -> str:
        """What was checked and what was not, for the card; "✓" stands only before what was compared and found right."""
        count, left = self.checked + len(self.wrong), self._left()
        if count:
            wrong = (
                f"{len(self.wrong)} {'is' if len(self.wrong) == 1 else 'are'} wrong" if self.wrong else "none is wrong"
            )
            mark, noun = ("✕" if self.wrong else "✓"), ("op" if count == 1 else "ops")
            said = f"{mark} Checked: gradients of {count:,} {noun} against finite differences, {wrong}."
            said += (
                " They ran again on the CPU: the formulas were compared, not the GPU's kernels." if self.moved else ""
            )
            return f"{said} Not checked: {left}." if left else said
        if left:
            return f"– Nothing was checked: no gradient was compared with finite differences. Left out: {left}."
        return "– Nothing was checked: no op of this cell has a gradient."

    def _left(self) -> str:
        """What was not checked, and why."""
        left = sorted(self.left.items())
        parts = [f"{op}{f' ×{n}' if n > 1 else ''} ({why})" for (op, why), n in left[:NAMED]]
        if left[NAMED:]:
            parts.append(f"{sum(n for _, n in left[NAMED:]):,} more")
        for library, n in self.foreign.items():
            noun = "op" if n == 1 else "ops"
            parts.append(f"{n:,} {noun} of {library}'s own (their gradients are {library}'s, which tests them)")
        return "; ".join(parts)

    def summary(self) -> str:
        """What was checked, in words."""
        left = sum(self.left.values()) + sum(self.foreign.values())
        said = f"{self.checked} of {self.checked + len(self.wrong)} ops right by finite differences"
        return f"{said}; not checked: {left}" if left else said


@contextmanager
def unnoticed() -> Iterator[None]:
    """Run the user's own code once more: it draws the numbers that it will draw again, and is not heard twice."""
    states = core_random.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 - the user's
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        core_random.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])


class CoreRerun:
    """An op of core's, or a custom Function, that runs again."""

    def __init__(self, event: observe.OpEvent) -> None:
        self._call, self._inputs = again(event)
        custom = not isinstance(event.declared, Elementwise | Operation)
        self._around: Callable[[], AbstractContextManager[None]] = unnoticed if custom else nullcontext
        self.positions = [k for k, t in enumerate(self._inputs) if isinstance(t, Tensor) and t._requires_grad]
        self.values = [self._inputs[k]._a for k in self.positions]

    def _run(self, values: list[Any], wanted: int = -1) -> tuple[Any, list[Any]]:
        """The tensor at `wanted`, and the floating-point outputs."""
        inputs = list(self._inputs)
        for n, k in enumerate(self.positions):
            inputs[k] = from_array(np.array(values[n])).requires_grad_(wanted >= 0)  # type: ignore[attr-defined]
        x = inputs[self.positions[wanted]] if wanted >= 0 else None
        return x, _floating(self._call(*inputs))

    def outputs(self, values: list[Any]) -> list[Any]:
        with modes.no_grad(), self._around():
            return [o._a for o in self._run(values)[1]]

    def gradient(self, values: list[Any], k: int, weigh: Weigh) -> tuple[Any, list[Any]]:
        with self._around():
            x, outs = self._run(values, k)
            live = [o._requires_grad for o in outs]
            weights = weigh([o._a for o in outs], live)
            pairs = [(o, from_array(w)) for o, w, counts in zip(outs, weights, live, strict=True) if counts]
            (g,) = autograd.grad([o for o, _ in pairs], [x], [w for _, w in pairs], allow_unused=True)
        return None if g is None else g._a, weights


def again(event: observe.OpEvent) -> tuple[Any, list[Any]]:
    """A function that runs an op once more, and its inputs in float64, which want the gradients that the op's did."""
    custom = not isinstance(event.declared, Elementwise | Operation)
    given: Any = event.params if custom else event.inputs  # of a Function the event holds all of its arguments
    return call_of(event), [_double(t) for t in given]


def call_of(event: observe.OpEvent) -> Callable[..., Any]:
    """A function of an op's inputs that runs it once more."""
    declared, params = event.declared, event.params
    if isinstance(declared, Elementwise):
        return lambda *xs: elementwise.call_map(declared, xs, params)
    if isinstance(declared, Operation):
        return lambda *xs: structured.call_operation(declared, xs, params)
    return declared.cls.apply  # type: ignore[no-any-return]


def _double(t: Any) -> Any:
    """A copy in double precision; whole numbers stay as they are."""
    if not isinstance(t, Tensor):
        return t
    wide = {2: np.float64, 3: np.complex128}.get(t._kind.dtype.category)
    if wide is None:
        return from_array(np.array(on_host(t._a)))
    copy = from_array(np.array(on_host(t._a), wide))
    return copy.requires_grad_() if t._requires_grad else copy  # type: ignore[attr-defined]


def _floating(result: Any) -> list[Any]:
    outs = result if isinstance(result, tuple | list) else (result,)
    return [o for o in outs if isinstance(o, Tensor) and o._kind.dtype.category >= 2]


def _product(a: Any, b: Any) -> float:
    """The real part of a product summed up, the first conjugated: PyTorch's gradients of complex values are so."""
    return float(np.sum(np.conj(a) * b).real)


def _rms(a: Any) -> float:
    return float(np.sqrt(np.mean(a * a))) if a.size else 0.0
