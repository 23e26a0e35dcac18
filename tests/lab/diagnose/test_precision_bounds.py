"""What counts as lost digits, as a sum that stands still and as gradients that fall away: just below, at and above each
bound, and the sentences of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lab.diagnose.values.precision import Companion, Loss, Precision, Sum, _apart
from lab.recorder.cell_trace import Trace


def watch() -> Precision:
    fold = SimpleNamespace(site=lambda place: place, chain=lambda site: ())
    return Precision(SimpleNamespace(fold=fold))


class Held:
    """What a companion can stand beside."""


def noted(op: str, dtype: str, off: float, before: float = 0.0) -> Precision:
    """A result whose values are off by a part of their size, of what was off by another."""
    seen = watch()
    exact = np.array([1.0, 1.0, 1.0, 1.0])
    given = [Companion(exact, before)]
    seen.note(op, ("a", 1), given, Held(), (1, 0), dtype, exact * (1 + off), exact)  # type: ignore[arg-type]
    return seen


# half the digits: a root of 2**-23 is 3.45e-4, of 2**-10 0.0313, of 2**-7 0.0884
@pytest.mark.parametrize(("op", "dtype", "off", "before", "lost"), [
    ("sub", "float32", 3.4e-4, 0.0, False),
    ("sub", "float32", 3.5e-4, 0.0, True),
    ("sub", "float16", 0.0312, 0.0, False),
    ("sub", "float16", 0.0313, 0.0, True),
    ("sub", "bfloat16", 0.0883, 0.0, False),
    ("sub", "bfloat16", 0.0885, 0.0, True),
    ("sub", "complex64", 3.5e-4, 0.0, True),
    ("sub", "float64", 0.5, 0.0, False),
    ("sub", "float32", 3.5e-4, 5.4e-6, True),  # 64 times what it was given is less
    ("sub", "float32", 3.5e-4, 5.5e-6, False),
    ("sub", "float32", 0.5, 3.4e-4, True),
    ("sub", "float32", 0.5, 3.5e-4, False),  # it came so
    *((op, "float32", 0.5, 0.0, False) for op in ("round", "floor", "ceil", "trunc", "sign", "remainder", "fmod",
                                                   "floor_divide", "frac")),
])  # fmt: skip
def test_where_an_op_loses_half_its_digits(op: str, dtype: str, off: float, before: float, lost: bool) -> None:
    seen = noted(op, dtype, off, before)
    assert bool(seen.losses) == lost
    assert seen.compared == (dtype != "float64")


def test_what_is_kept_of_a_loss() -> None:
    seen = watch()
    exact = np.array([1.0, 2.0, 3.0])
    values = np.array([1.0, 2.0, 4.0])
    seen.note("mul", ("a", 1), [], Held(), (1, 0), "float32", values, exact)  # type: ignore[arg-type]
    (loss,) = seen.losses.values()
    assert (loss.op, loss.dtype, loss.came, loss.exact, loss.before) == ("mul", "float32", 4.0, 3.0, 0.0)
    assert loss.after == pytest.approx((1 / 14) ** 0.5)
    seen.note("mul", ("a", 1), [], Held(), (1, 0), "float32", values + 9, exact)  # type: ignore[arg-type]
    assert [loss.came for loss in seen.losses.values()] == [4.0]  # the first time at its place
    seen.note("mul", ("a", 2), [], Held(), (1, 0), "float32", values, exact[:2])  # type: ignore[arg-type]
    assert (len(seen.losses), seen.compared) == (1, 2)  # of another shape


@pytest.mark.parametrize(("values", "exact", "error", "at"), [
    ([1.0, 2.0], [1.0, 2.0], 0.0, 0),
    ([1.0, 3.0], [1.0, 1.0], 2**0.5, 1),  # the root of the mean square
    ([2.0, 0.0, 9.0, 9.0], [1.0, 0.0, 9.0, 9.0], 1 / 163**0.5, 0),
    ([1.5, 1.5, 100.0], [1.0, 1.0, 100.0], 0.5, 0),  # most are off by a half, and small beside the largest
    ([np.inf, 1.0], [1.0, 1.0], 0.0, 0),  # not finite: not compared
    ([1.0, 2.0], [np.nan, 1.0], 1.0, 1),
    ([np.nan], [np.nan], 0.0, 0),
    ([1.0], [0.0], 1.0, 0),
    ([0.0], [0.0], 0.0, 0),
])  # fmt: skip
def test_how_far_values_are_apart(values: list[float], exact: list[float], error: float, at: int) -> None:
    assert _apart(np.array(values), np.array(exact)) == (pytest.approx(error), at)


def summed(
    op: str = "add", still: float = 1.0, place: Any = ("a", 1), dtype: str = "float32", **more: Any
) -> Precision:
    """Eight runs of a sum at a place, of which a share adds nothing."""
    seen = watch()
    for k in range(more.get("runs", 8)):
        before = np.full(4, 8.0)
        after = before + (0.0 if k < still * more.get("runs", 8) else 1.0)
        after[: more.get("moved", 0)] += 1.0
        seen.added(op, ("a", 1), Companion(before, 0.0, place), before, np.full(4, 1.0), after, dtype)  # type: ignore[arg-type]
    return seen


@pytest.mark.parametrize(("sum_", "found"), [
    (summed(), True),
    *((summed(op), True) for op in ("add", "add_", "sub", "sub_")),
    (summed("mul"), False),
    (summed(place=("a", 2)), False),  # of another sum
    (summed(dtype="float64"), False),
    (summed(runs=7), False),
    (summed(still=0.25), True),
    (summed(still=0.2), True),  # two of eight
    (summed(still=0.1), False),
    (summed(moved=1), True),
    (summed(moved=2), False),  # half of its elements
])  # fmt: skip
def test_where_a_sum_stands_still(sum_: Precision, found: bool) -> None:
    assert bool(sum_.findings(Trace())) == found


def test_a_sum_of_zeros_does_not_stand_still() -> None:
    seen = watch()
    for _ in range(8):
        same = np.full(4, 8.0)
        seen.added("add", ("a", 1), Companion(same, 0.0, ("a", 1)), same, np.zeros(4), same, "float32")  # type: ignore[arg-type]
    assert seen.findings(Trace()) == []


@pytest.mark.parametrize(("dtype", "sizes", "share"), [
    ("float16", [2.0**-15, 2.0**-15, 1.0], 2 / 3),
    ("float16", [2.0**-14, 2.0**-14, 1.0], None),
    ("float16", [2.0**-15, 1.0], None),  # a half
    ("float16", [2.0**-15, 0.0, 0.0, np.inf], 1.0),
    ("float16", [0.0, 0.0], None),
    ("bfloat16", [2.0**-127], 1.0),
    ("bfloat16", [2.0**-126], None),
    ("float32", [2.0**-127], 1.0),
    ("float32", [2.0**-126], None),
    ("float64", [2.0**-127], None),
])  # fmt: skip
def test_where_a_gradient_falls_away(dtype: str, sizes: list[float], share: float | None) -> None:
    seen, leaf = watch(), Held()
    seen.fell(leaf, dtype, np.array(sizes))
    assert [s for *_, s in seen.fallen.values()] == ([] if share is None else [pytest.approx(share)])
    seen.fell(leaf, dtype, np.array([2.0**-130]))
    assert len(seen.fallen) == (dtype != "float64")


CANCEL = (
    "Numbers that are nearly equal cancel: subtract in float64 before the cast, or write the difference so that none "
    "is needed (x.var() for E[x²] - E[x]², log1p, expm1, logsumexp)."
)
FORM = "Compute it in float64, or by a form that keeps the digits (log_softmax, logsumexp, log1p, expm1)."


@pytest.mark.parametrize(("op", "dtype", "remedy"), [
    *((op, "float16", CANCEL) for op in ("sub", "sub_", "add", "add_", "mean", "var", "std")),
    ("exp", "float16", "Compute it in float32: x.float() before `exp`."),
    ("exp", "bfloat16", "Compute it in float32: x.float() before `exp`."),
    ("exp", "float32", FORM),
    ("submul", "float32", FORM),
])  # fmt: skip
def test_what_is_said_of_an_op(op: str, dtype: str, remedy: str) -> None:
    seen = watch()
    seen.losses["a"] = Loss(op, (), dtype, 0.0, 0.02, 1.5, 1.25)
    (found,) = seen.findings(Trace())
    right = {"float16": "3", "bfloat16": "2", "float32": "7"}[dtype]
    assert found.message == (
        f"An unknown place loses its digits: what `{op}` is given is right to {right} digits, what it gives in {dtype} "
        "to 2 (1.50 in place of 1.25)."
    )
    assert (found.kind, found.severity, found.line, found.remedy) == ("precision", "warning", None, remedy)
    seen.losses["a"] = Loss(op, (), dtype, 1e-4, 2.0, 1.5, 1.25)
    assert "is right to 4 digits, what it gives in" in seen.findings(Trace())[0].message
    assert f"{dtype} to no (" in seen.findings(Trace())[0].message
    seen.losses |= {"b": seen.losses["a"], "c": seen.losses["a"]}
    assert len(seen.findings(Trace())) == 2


def test_what_is_said_of_sums_and_gradients() -> None:
    seen = watch()
    seen.sums["a"] = Sum((), "bfloat16", 1_200, 900, 256.0, 0.5)
    seen.fallen[1] = Held(), "float16", 0.756
    still, fallen = seen.findings(Trace())
    assert still.message == (
        "An unknown place adds to a sum that stands still: in 900 of 1,200 runs 256 and 0.500 gave 256 again, since "
        "bfloat16 holds 2 digits."
    )
    assert still.remedy == "Add up in float32 or float64, or Python's own numbers: total += loss.item()."
    assert fallen.message == (
        "Gradients fall below what float16 holds: 76 % of its nonzero numbers are smaller than 6.1e-05, and smaller "
        "ones are zero."
    )
    assert fallen.remedy == "Scale the loss (amp.GradScaler), or keep the parameters in float32 under autocast."
    assert {f.severity for f in (still, fallen)} == {"warning"}
    assert {f.kind for f in (still, fallen)} == {"precision"}


def test_what_the_card_says_of_all() -> None:
    seen = watch()
    assert seen.sentence() == "– Nothing was compared with float64."
    seen.left["too large"] = 3
    assert seen.sentence() == "– Nothing was compared with float64. Not compared: too large ×3."
    seen.compared = 1_234
    seen.left["exp in float64 raised ValueError"] = 1
    assert seen.sentence() == (
        "✓ Precision: 1,234 results beside float64, none lost half its digits. Not compared: too large ×3; exp in "
        "float64 raised ValueError."
    )
    seen.losses["a"] = Loss("exp", (), "float32", 0.0, 0.5, 1.0, 2.0)
    seen.left.clear()
    assert seen.sentence() == "✕ Precision: 1,234 results beside float64, 1 lost more than half their digits."
    assert seen.summary() == "1234 results beside float64, 1 places lost digits"
    seen.failed(ValueError("no more"))
    assert seen.sentence().endswith(" Not compared: all that came later: ValueError: no more.")


def test_what_stands_beside_a_tensor() -> None:
    seen, t = watch(), Held()
    own = seen.companion(t, (1, 0), lambda: np.array([1.0, 2.0], np.float32))
    assert own.array.dtype == np.float64
    assert seen.companion(t, (1, 0), lambda: np.array([1j], np.complex64)).array.dtype == np.complex128
    assert seen.companion(t, (1, 0), lambda: np.array([1, 2])).array.dtype == np.int64
    seen.keep(t, (1, 0), Companion(np.array([3.0]), 0.5))
    assert seen.companion(t, (1, 0), lambda: np.zeros(1)).error == 0.5
    assert seen.companion(t, (1, 1), lambda: np.zeros(1)).error == 0.0  # written since
    assert seen.companion(Held(), (1, 0), lambda: np.zeros(1)).error == 0.0
    for k in range(4200):
        seen.keep(Held(), (k, 0), own)
    assert len(seen._known) < 4200  # those that are gone are forgotten
    assert seen.companion(t, (1, 0), lambda: np.zeros(1)).error == 0.5
