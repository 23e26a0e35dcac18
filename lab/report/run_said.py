"""What is to be said of a run while it goes on: that it diverges, that it overfits, that its loss is lost."""

from __future__ import annotations

from statistics import median
from typing import Any

from widgets.figures import number
from widgets.run_curves import Curve, RunCurves

ENOUGH = 20  # losses, before it is said that they grow
CHECKS = 4  # losses of the validation
WORSE = 1.05  # times the best that the validation's last loss is
RISEN = 10.0  # times its best that a loss has grown, if it has not passed where it began


def watched(course: Any) -> RunCurves:
    """Return the course of a run so far, with what is to be said of it."""
    run: RunCurves = course.plain()
    run.said = said(run)
    return run


def said(run: RunCurves) -> list[str]:
    """Return sentences on a run that goes wrong; none on one that does not.

    >>> falls = Curve("loss", at=list(range(1, 41)), values=[2.0 / k for k in range(1, 41)], count=40)
    >>> check = Curve("val_loss", "validation", at=[8, 16, 24, 32, 40], values=[0.9, 0.5, 0.6, 0.7, 0.8], count=5)
    >>> said(RunCurves(40, curves=[falls, check]))[0][:53]
    'It overfits since about step 16: val_loss has risen f'
    >>> said(RunCurves(40, curves=[falls]))
    []
    """
    found = []
    main, check = run.main(), run.check()
    if main is not None:
        if main.lost is not None:
            found.append(f"{_name(main)} is not finite since step {main.lost:,}: what follows trains nothing.")
        elif (sentence := _diverges(main)) is not None or (
            check is not None and (sentence := _overfits(main, check)) is not None
        ):
            found.append(sentence)
    return found


def _name(curve: Curve) -> str:
    return "The loss" if curve.name == "loss" else f"The loss {curve.name}"


def _diverges(curve: Curve) -> str | None:
    at, values = curve.finite()
    if len(values) < ENOUGH or min(values) < 0:
        return None
    few = max(5, len(values) // 20)
    first, last = median(values[:few]), median(values[-few:])
    runs = [median(values[k : k + few]) for k in range(0, len(values) - few + 1, few)]
    best = min(runs)
    if last < max(runs[:-1], default=last):  # it has been there before and has come down again: noise
        return None
    if not (last > 2 * first or (last > RISEN * best and last > 0.5 * first)):
        return None
    since = at[runs.index(best) * few]
    return (
        f"It diverges: {curve.name} has grown from {number(best)} to {number(last)} since about step {since:,} "
        f"(it began at {number(first)}). A lower learning rate, or clipped gradients, may keep it."
    )


def _overfits(main: Curve, check: Curve) -> str | None:
    at, values = check.finite()
    if len(values) < CHECKS:
        return None
    best = values.index(min(values))
    after = values[best + 1 :]
    if (
        len(after) < 3
        or values[best] <= 0
        or values[-1] < WORSE * values[best]
        or min(after[-3:]) < 1.01 * values[best]
    ):
        return None
    steps, losses = main.finite()
    few = max(3, len(losses) // 20)
    near = min(range(len(steps)), key=lambda k: abs(steps[k] - at[best])) if steps else 0
    then, now = losses[max(0, near - few) : near + few], losses[-few:]
    if not then or not median(now) < median(then):
        return None
    return (
        f"It overfits since about step {at[best]:,}: {check.name} has risen from {number(values[best])} to "
        f"{number(values[-1])}, while {main.name} fell from {number(median(then))} to {number(median(now))}. "
        "The weights of then were the best; stop there, or give it more data or weight decay."
    )
