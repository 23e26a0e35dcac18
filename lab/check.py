"""``%%autograd --check``: every op's gradient against finite differences, as the cell runs, on its own inputs.

The op runs again on copies of its inputs in float64. The gradient of a random sum of its outputs, along a random
direction, must be the slope that two more runs measure: one number an input, however large it is.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np

from core import autograd, dispatch, modes, observe
from core.op import Elementwise, Operation
from core.tensor import Tensor, from_array

from .diagnose.found import Found, capital, where
from .gathered import Row, Trace

STEP = 1e-6  # of the inputs' size: in float64 the slope is then right to about nine digits
TOLERANCE = 1e-4
TRIES = 3  # where values tie or stand at a kink (max, relu at 0) the slope is another one without anything being wrong
JITTER = 1e-3
LARGEST = 1 << 22  # elements beyond which an op is not run again


class Checker(observe.Observer):
    """Checks each op the first time it runs at its place on inputs of these shapes."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.checked = 0
        self.left: dict[str, str] = {}  # op -> why it could not be checked
        self.wrong: list[tuple[Row, str, int, float, float]] = []
        self._known: set[Any] = set()
        self._rng = np.random.default_rng(0)

    def op(self, event: observe.OpEvent) -> None:
        """An op has run: check it, and leave no trace of that."""
        if event.node is None or event.phase != "forward":
            return
        key = (event.op, event.place, tuple(getattr(t, "shape", None) for t in event.inputs))
        if key in self._known:
            return
        self._known.add(key)
        start = perf_counter_ns()
        enabled, modes.state.enabled = modes.state.enabled, True
        try:
            with observe.muted():
                self._check(event)
        except Exception as error:
            self.left[event.op] = f"{type(error).__name__}: {error}".splitlines()[0]
        finally:
            modes.state.enabled = enabled
            self.recorder.own_ns += perf_counter_ns() - start

    def failed(self, error: Exception) -> None:
        """The check itself failed: what came after is not checked."""
        self.left["what came later"] = f"{type(error).__name__}: {error}".splitlines()[0]

    def _check(self, event: observe.OpEvent) -> None:
        call, inputs = again(event)
        if sum(t.numel() for t in inputs if isinstance(t, Tensor)) > LARGEST:  # type: ignore[attr-defined]
            self.left[event.op] = "too large"
            return
        places = [k for k, t in enumerate(inputs) if isinstance(t, Tensor) and t._requires_grad]
        for k in places:
            off = None
            for attempt in range(TRIES):
                off = self._slope(call, self._moved(inputs) if attempt else inputs, k)
                if off is None:
                    break
            if off is not None:
                row = event.node.tag
                self.wrong.append((row, event.op, k, *off))
                return
        self.checked += bool(places)

    def _moved(self, inputs: list[Any]) -> list[Any]:
        """The inputs a little to the side, where no two values tie and none stands at a kink."""
        moved = []
        for t in inputs:
            if isinstance(t, Tensor) and t._requires_grad:
                size = JITTER * float(np.sqrt(np.mean(t._a * t._a))) if t._a.size else 0.0
                t = from_array(t._a + size * self._rng.standard_normal(t._a.shape)).requires_grad_()  # type: ignore[attr-defined]
            moved.append(t)
        return moved

    def _slope(self, call: Any, inputs: list[Any], k: int) -> tuple[float, float] | None:
        """(what backward says, what finite differences say) along a random direction, where they differ."""
        x = inputs[k]
        direction = self._rng.standard_normal(x._a.shape)
        outs = _floating(call(*inputs))
        weights = [from_array(self._rng.standard_normal(o._a.shape)) for o in outs]
        total = _weighed(outs, weights)
        if not total._requires_grad:
            return None
        (g,) = autograd.grad(total, [x], allow_unused=True)
        said = 0.0 if g is None else float((g._a * direction).sum())
        step = STEP * max(1.0, float(np.abs(x._a).max(initial=0.0)))
        values = []
        with modes.no_grad():
            for sign in (1, -1):
                moved = list(inputs)
                moved[k] = from_array(x._a + sign * step * direction)
                values.append(float(_weighed(_floating(call(*moved)), weights)._a))
        measured = (values[0] - values[1]) / (2 * step)
        size = abs(said) + abs(measured) + 1e-3 * float(np.sqrt(direction.size))
        return None if abs(said - measured) <= TOLERANCE * size else (said, measured)

    def findings(self, trace: Trace) -> list[Found]:
        """One finding for every op whose gradient is wrong."""
        found = []
        for row, op, k, said, measured in self.wrong:
            line, col, place = where(trace, row.chain)
            message = capital(
                f"{place}: the gradient of `{op}` is wrong: for its input {k} backward gives {said:.6g} along a random "
                f"direction, finite differences give {measured:.6g}."
            )
            remedy = (
                f"Compare the formula in its backward with the derivative; core.autograd.gradcheck({op}, inputs in "
                "float64) tells every entry."
            )
            found.append(Found("gradient", "error", line, col, message, remedy, [row]))
        return found

    def sentence(self) -> str:
        """What was checked, for the card."""
        count = self.checked + len(self.wrong)
        if not count and not self.left:
            return "✓ Checked: no op of this cell has a gradient."
        wrong = f"{len(self.wrong)} {'is' if len(self.wrong) == 1 else 'are'} wrong" if self.wrong else "none is wrong"
        mark, noun = ("✕" if self.wrong else "✓"), ("op" if count == 1 else "ops")
        left = "; ".join(f"{op} ({why})" for op, why in sorted(self.left.items()))
        said = f"{mark} Checked: gradients of {count:,} {noun} against finite differences, {wrong}."
        return f"{said} Not checked: {left}." if left else said

    def summary(self) -> str:
        """What was checked, in words."""
        left = f"; not checked: {', '.join(sorted(self.left))}" if self.left else ""
        return f"{self.checked} of {self.checked + len(self.wrong)} ops right by finite differences{left}"


def again(event: observe.OpEvent) -> tuple[Any, list[Any]]:
    """A function that runs an op once more, and its inputs in float64, which want the gradients that the op's did."""
    declared, params = event.declared, event.params
    given: Any = event.inputs
    if isinstance(declared, Elementwise):
        call = lambda *xs: dispatch.call_map(declared, xs, params)
    elif isinstance(declared, Operation):
        call = lambda *xs: dispatch.call_operation(declared, xs, params)
    else:  # a Function, whose event holds all of its arguments
        given = params
        call = declared.cls.apply
    return call, [_double(t) for t in given]


def _double(t: Any) -> Any:
    if not isinstance(t, Tensor):
        return t
    if t._kind.dtype.category != 2:
        return from_array(np.array(t._a))
    copy = from_array(np.array(t._a, np.float64))
    return copy.requires_grad_() if t._requires_grad else copy  # type: ignore[attr-defined]


def _floating(result: Any) -> list[Any]:
    outs = result if isinstance(result, tuple | list) else (result,)
    return [o for o in outs if isinstance(o, Tensor) and o._kind.dtype.category == 2]


def _weighed(outs: list[Any], weights: list[Any]) -> Any:
    total = (outs[0] * weights[0]).sum()
    for o, w in zip(outs[1:], weights[1:], strict=True):
        total = total + (o * w).sum()
    return total
