"""By how much a gradient may differ from finite differences, on which values, and what the card says of all: ops that
are functions of arrays here."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lab.diagnose.graph.gradient_check import LARGEST, NAMED, Checker, Unchecked
from lab.recorder.cell_trace import Trace

Function = Callable[[Any], Any]


class Made:
    """A function and what somebody says its slope is, run on one array of values."""

    def __init__(self, values: Any, function: Function, slope: Function, live: bool = True, **more: Any) -> None:
        self.values, self.positions = [values], more.get("positions", [0])
        self.function, self.slope, self.live = function, slope, live

    def outputs(self, values: list[Any]) -> list[Any]:
        return [self.function(values[0])]

    def gradient(self, values: list[Any], k: int, weigh: Any) -> tuple[Any, list[Any]]:
        outs = self.outputs(values)
        weights = weigh(outs, [self.live] * len(outs))
        return self.slope(values[0]) * weights[0], weights


def checked(values: Any, function: Function, slope: Function, **more: Any) -> Checker:
    checker = Checker(SimpleNamespace(own_ns=0))
    row: Any = SimpleNamespace(chain=(), backend="", number=1)
    checker.check("f", row, lambda: Made(np.asarray(values), function, slope, **more))
    return checker


@pytest.mark.parametrize(("off", "right"), [(0.0, True), (1.9e-4, True), (2.3e-4, False), (-1.9e-4, True),
                                            (-2.3e-4, False)])  # fmt: skip
def test_how_far_a_gradient_may_be_off(off: float, right: bool) -> None:
    checker = checked([2.0], lambda v: 3.0 * v, lambda v: 3.0 * (1 + off))
    assert (checker.checked, len(checker.wrong), checker.left) == (int(right), int(not right), {})
    if not right:
        ((_, op, position, said, measured),) = checker.wrong
        assert (op, position) == ("f", 0)
        assert said / measured == pytest.approx(1 + off, rel=1e-6)


@pytest.mark.parametrize(("values", "function", "slope", "right"), [
    # at a kink and where values tie the slope to a side is none of the op's fault; a little aside it is told
    ([0.0], lambda v: np.maximum(v, 0), lambda v: 1.0 * (v > 0), True),
    ([0.0, 3.0], lambda v: np.maximum(v, 0), lambda v: 1.0 * (v > 0), True),
    ([0.0, 3.0], lambda v: np.maximum(v, 0), lambda v: 0.5 * (v > 0), False),
    ([1e-9], np.log, lambda v: 1 / v, True),  # a step of 1e-6 beside such a value goes below 0
    ([1e-9], np.log, lambda v: 2 / v, False),
    ([1e-12, 1.0], np.sqrt, lambda v: 0.5 / np.sqrt(v), True),
    # what is not finite does not count
    ([np.inf, 2.0], lambda v: 3.0 * v, lambda v: np.full(2, 3.0), True),
    ([np.inf, 2.0], lambda v: 3.0 * v, lambda v: np.full(2, 4.0), False),
    ([1j, 2.0], lambda v: 3.0 * v, lambda v: np.full(2, 3.0), True),
    ([1j, 2.0], lambda v: 3.0j * v, lambda v: np.full(2, -3.0j), True),
    ([1j, 2.0], lambda v: 3.0j * v, lambda v: np.full(2, 3.0j), False),
])  # fmt: skip
def test_values_at_which_slopes_are_hard_to_tell(values: Any, function: Function, slope: Function, right: bool) -> None:
    checker = checked(values, function, slope)
    assert (checker.checked, len(checker.wrong), checker.left) == (int(right), int(not right), {})


def test_rounding_is_no_mistake() -> None:
    """Beside 1e12 the eighth digit of a slope of 1 is lost; a slope that is off by all of it is still told."""
    big = 1e12
    assert checked([2.0], lambda v: v + big, lambda v: np.ones(1)).checked == 1
    assert checked([2.0], lambda v: v + big, lambda v: np.full(1, 1.0001)).checked == 1
    assert len(checked([2.0], lambda v: v + 1.0, lambda v: np.full(1, 1.001)).wrong) == 1


@pytest.mark.parametrize(("values", "why", "more"), [
    (np.broadcast_to(0.0, (LARGEST + 1,)), "too large", {}),
    (np.broadcast_to(0.0, (LARGEST,)), "its values are not finite, or there are none", {"positions": []}),
    ([], "its values are not finite, or there are none", {}),
    ([np.nan, np.inf], "its values are not finite, or there are none", {}),
    ([1.0], "in float64 its result has no gradient", {"live": False}),
])  # fmt: skip
def test_what_is_not_checked(values: Any, why: str, more: dict[str, Any]) -> None:
    checker = checked(values, lambda v: v + 0.0, lambda v: np.ones(np.shape(v)), **more)
    assert (checker.checked, checker.wrong, checker.left) == (0, [], {("f", why): 1})


def test_an_op_that_computes_in_less() -> None:
    checker = checked([1.0], lambda v: v.astype(np.float32), lambda v: np.ones(1))
    assert checker.left == {("f", "it computes in float32 whatever it is given, too coarse for finite differences"): 1}


def test_an_op_that_raises_is_left_out() -> None:
    checker = Checker(SimpleNamespace(own_ns=0))

    def raises(error: Exception) -> Callable[[], Any]:
        def make() -> Any:
            raise error

        return make

    row: Any = SimpleNamespace()
    checker.check("g", row, raises(ValueError("no more\nand more")))
    checker.check("g", row, raises(ValueError("")))
    checker.check("h", row, raises(Unchecked("it draws")))
    checker.failed(KeyError("k"))
    assert checker.left == {
        ("g", "run again in float64 it raised ValueError: no more"): 1,
        ("g", "run again in float64 it raised ValueError: "): 1,
        ("h", "it draws"): 1,
        ("what came later", "KeyError: 'k'"): 1,
    }
    assert checker.recorder.own_ns > 0


def test_an_op_is_checked_once_for_its_place_and_shapes() -> None:
    checker = Checker(SimpleNamespace(own_ns=0))
    a, b = np.ones(3), np.ones(4)
    asked = [("f", 1, [a]), ("f", 1, [a + 1]), ("f", 1, [b]), ("f", 2, [a]), ("g", 1, [a]), ("g", 1, [a, 3.0]),
             ("g", 1, [a, 4.0])]  # fmt: skip
    assert [checker.is_new(*each) for each in asked] == [True, False, True, True, True, True, False]


RERAN = " They ran again on the CPU: the formulas were compared, not the GPU's kernels."


@pytest.mark.parametrize(("right", "wrong", "left", "foreign", "moved", "said"), [
    (0, 0, 0, {}, False, "– Nothing was checked: no op of this cell has a gradient."),
    (1, 0, 0, {}, False, "✓ Checked: gradients of 1 op against finite differences, none is wrong."),
    (2, 0, 0, {}, False, "✓ Checked: gradients of 2 ops against finite differences, none is wrong."),
    (1_199, 1, 0, {}, False, "✕ Checked: gradients of 1,200 ops against finite differences, 1 is wrong."),
    (0, 2, 0, {}, False, "✕ Checked: gradients of 2 ops against finite differences, 2 are wrong."),
    (1, 0, 0, {}, True, "✓ Checked: gradients of 1 op against finite differences, none is wrong." + RERAN),
    (1, 0, 1, {}, False, "✓ Checked: gradients of 1 op against finite differences, none is wrong. Not checked: "
     "op0 (why)."),
    (0, 0, 2, {}, False, "– Nothing was checked: no gradient was compared with finite differences. Left out: "
     "op0 (why); op1 ×2 (why)."),
    (0, 0, NAMED, {}, False, "– Nothing was checked: no gradient was compared with finite differences. Left out: "
     + "; ".join(f"op{k}{f' ×{k + 1}' if k else ''} (why)" for k in range(NAMED)) + "."),
    (0, 0, NAMED + 2, {}, False, "– Nothing was checked: no gradient was compared with finite differences. Left out: "
     + "; ".join(f"op{k}{f' ×{k + 1}' if k else ''} (why)" for k in range(NAMED))
     + f"; {2 * NAMED + 3} more."),
    (0, 0, 0, {"torch": 1}, False, "– Nothing was checked: no gradient was compared with finite differences. Left out: "
     "1 op of torch's own (their gradients are torch's, which tests them)."),
    (0, 0, 0, {"torch": 1_200}, False, "– Nothing was checked: no gradient was compared with finite differences. Left "
     "out: 1,200 ops of torch's own (their gradients are torch's, which tests them)."),
])  # fmt: skip
def test_what_the_card_says(right: int, wrong: int, left: int, foreign: dict[str, int], moved: bool, said: str) -> None:
    checker = Checker(SimpleNamespace(own_ns=0))
    checker.checked, checker.moved = right, moved
    checker.wrong = [(SimpleNamespace(), "f", 0, 1.0, 2.0)] * wrong  # type: ignore[list-item]
    for k in range(left):
        checker.left[f"op{k}", "why"] = k + 1
    checker.foreign.update(foreign)
    assert checker.sentence() == said
    count = sum(checker.left.values()) + sum(foreign.values())
    ends = f"; not checked: {count}" if count else ""
    assert checker.summary() == f"{right} of {right + wrong} ops right by finite differences{ends}"


@pytest.mark.parametrize(("backend", "library"), [("PyTorch", "torch"), ("numpy", "core")])
def test_what_is_said_of_a_wrong_gradient(backend: str, library: str) -> None:
    checker = Checker(SimpleNamespace(own_ns=0))
    row: Any = SimpleNamespace(chain=(), backend=backend)
    checker.wrong = [(row, "exp", 1, 1.23456789, -2.0)]
    (found,) = checker.findings(Trace())
    assert found.message == (
        "An unknown place: the gradient of `exp` is wrong: for its input 1 backward gives 1.23457 along a random "
        "direction, finite differences give -2."
    )
    assert found.remedy == (
        f"Compare the formula in its backward with the derivative; {library}.autograd.gradcheck(exp, inputs in "
        "float64) tells every entry. Where it is meant to differ (a straight-through estimator, a gradient that is "
        "turned round), all is well."
    )
    assert (found.kind, found.severity, found.rows) == ("gradient", "error", [row])
