"""Curves of a training run: figures in, geometry and SVG out. It chooses the scale, the ticks and how much to smooth.

Values span a box of 1000×1000 that is stretched to any size (`preserveAspectRatio="none"`, strokes that do not scale);
words stand in HTML beside it, so that they keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BOX = 1000
COLUMNS = 200
LOGARITHMIC_FROM = 12.0
"""How many times its smallest value the largest must be before the scale is logarithmic."""
DECADES = 6
"""What lies further below the largest value than this is off the scale."""

Points = list[tuple[float, float]]


@dataclass
class Plot:
    """Curves laid out: all places from 0 to 1000, y downwards; ticks as (place, text)."""

    logarithmic: bool = False
    line: Points = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    """Along `line`: the edges of the band in which the single values lie."""
    high: list[float] = field(default_factory=list)
    marks: Points = field(default_factory=list)
    others: list[tuple[str, Points]] = field(default_factory=list)
    """Curves of other runs, by their names."""
    x_ticks: list[tuple[float, str]] = field(default_factory=list)
    y_ticks: list[tuple[float, str]] = field(default_factory=list)
    readings: list[tuple[float, str, float | None, float | None]] = field(default_factory=list)
    """(place, x in words, the line's value, the mark's value) for whoever points at a place."""


def smoothed(values: Any) -> Any:
    """Return a running mean over about a thirtieth of the values: narrower at the start, where losses fall fast, and at
    the end over those before.

    >>> smoothed(np.array([1.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    n = len(values)
    reach = n // 60
    if reach < 1:
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(n)
    first, last = np.maximum(at - reach, 0), np.minimum(at + np.minimum(reach, at), n - 1)
    return (sums[last + 1] - sums[first]) / (last + 1 - first)


def layout(values: Sequence[float], knots: Sequence[tuple[float, float]], marks: Sequence[tuple[float, float]] = (),
           extent: float | None = None, edges: tuple[Sequence[float], Sequence[float]] | None = None,
           others: Sequence[tuple[str, Points]] = (), columns: int = COLUMNS) -> Plot:  # fmt: skip
    """Lay out the values of single steps, and marks (x, value) such as the validation's.

    knots : (step, x) pairs, between which x is linear. extent : how far x reaches, by default as far as the values.
    edges : the least and the largest of what each value is the mean of. others : curves of other runs, as (x, value).

    >>> plot = layout([4.0, 2.0, 1.0], [(0, 0.0), (3, 3.0)])
    >>> plot.logarithmic, [round(x) for x, _ in plot.line], plot.y_ticks[0][1]
    (False, [333, 667, 1000], '0')
    """
    raw = np.array(values, np.float64)
    x = np.interp(np.arange(1, len(raw) + 1), [k for k, _ in knots], [v for _, v in knots])
    seen = np.isfinite(raw)
    below, above = (raw, raw) if edges is None else (np.array(edge, np.float64) for edge in edges)
    raw, x, below, above = raw[seen], x[seen], below[seen], above[seen]
    x, mean, low, high = _columns(x, smoothed(raw), below, above, columns)
    elsewhere = [(name, [(a, b) for a, b in points if math.isfinite(b)]) for name, points in others]
    elsewhere = [(name, points) for name, points in elsewhere if points]
    dots = [(a, b) for a, b in marks if math.isfinite(b)]
    plot = Plot()
    ends = [*x[-1:], *(a for a, _ in dots), *(points[-1][0] for _, points in elsewhere)]
    far = extent or (max(ends) if ends else 1.0)
    plot.x_ticks = [(BOX * t / far, f"{t:g}") for t in _round_ticks(0, far, 8, whole=True)]
    every = np.concatenate([mean, [b for _, b in dots], [b for _, points in elsewhere for _, b in points]])
    if not len(every):
        return plot
    plot.logarithmic = bool(every.min() > 0 and every.max() / every.min() >= LOGARITHMIC_FROM)
    place = _scale(plot, every, low, high)
    plot.line = [(BOX * a / far, b) for a, b in zip(x, place(mean), strict=True)]
    plot.low, plot.high = list(place(low)), list(place(high))
    plot.marks = [(BOX * a / far, float(place(np.array([b]))[0])) for a, b in dots]
    plot.others = [
        (
            name,
            [
                (BOX * a / far, float(b))
                for (a, _), b in zip(points, place(np.array([b for _, b in points])), strict=True)
            ],
        )
        for name, points in elsewhere
        if points
    ]
    plot.readings = _readings(x, mean, dots, far)
    return plot


def _columns(x: Any, mean: Any, below: Any, above: Any, columns: int) -> tuple[Any, Any, Any, Any]:
    """At most `columns` points: the mean's mean, and the least and the largest single value."""
    n = len(x)
    if n <= columns:
        return x, mean, below, above
    mean_ends = mean[0], mean[-1]  # where the line begins and ends is said in words too
    starts = (np.arange(columns) * n) // columns
    sizes = np.diff([*starts, n])
    x_mean, mean = np.add.reduceat(x, starts) / sizes, np.add.reduceat(mean, starts) / sizes
    x_mean[0], x_mean[-1] = x[0], x[-1]
    mean[0], mean[-1] = mean_ends
    return x_mean, mean, np.minimum.reduceat(below, starts), np.maximum.reduceat(above, starts)


def _scale(plot: Plot, every: Any, low: Any, high: Any) -> Any:
    """Sets the ticks; gives the function from values to places."""
    top, bottom = float(every.max()), float(every.min())
    if len(high) > 20:  # the band widens the scale, but no single spike does
        top, bottom = max(top, float(np.quantile(high, 0.97))), min(bottom, float(np.quantile(low, 0.03)))
    if plot.logarithmic:
        floor = max(bottom, top / 10**DECADES) if bottom > 0 else max(float(every.min()), top / 10**DECADES)
        a, b = math.log10(floor), math.log10(top)
        a, b = a - 0.05 * (b - a), b + 0.05 * (b - a)
        ticks = _decades(a, b)
        values: Any = lambda v: np.log10(np.maximum(v, 10**a * 1e-3))
        where = [math.log10(t) for t in ticks]
    else:
        spread = (top - bottom) or abs(top) or 1.0
        a = 0.0 if 0 <= bottom < 1.2 * spread else bottom - 0.06 * spread
        b = top + 0.06 * spread
        ticks = _round_ticks(a, b, 5)
        values = lambda v: v
        where = ticks
    plot.y_ticks = [(BOX * (1 - (w - a) / (b - a)), f"{t:g}") for w, t in zip(where, ticks, strict=True)]
    return lambda v: (BOX * (1 - (values(v) - a) / (b - a))).clip(-20, BOX + 20)


def _round_ticks(low: float, high: float, about: int, whole: bool = False) -> list[float]:
    """At most `about` or so round numbers from low to high.

    >>> _round_ticks(0, 15, 8, whole=True), _round_ticks(0.0, 2.6, 5)
    ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0], [0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
    """
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= rough * 0.85 and not (whole and k == 2.5))
    if whole and high >= 1:
        step = max(step, 1.0)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{k * step:.10g}") for k in range(first, last + 1)]


def _decades(a: float, b: float) -> list[float]:
    """Powers of ten within 10^a to 10^b; with their doubles and fives where these are few."""
    powers = range(math.floor(a), math.ceil(b) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        found = [float(f"{f * 10.0**p:.10g}") for p in powers for f in factors if a <= math.log10(f) + p <= b]
        if len(found) >= 3:
            return found if len(found) < 8 else found[:: math.ceil(len(found) / 7)]
    return found


def _readings(x: Any, mean: Any, dots: Points, far: float) -> list[tuple[float, str, float | None, float | None]]:
    """Return what a place says: the line's value at about sixty places, with the last mark before or at it."""
    out: list[tuple[float, str, float | None, float | None]] = []
    chosen = sorted({*np.linspace(0, len(x) - 1, min(60, len(x))).round().astype(int).tolist()}) if len(x) else []
    for k in chosen:
        before = [b for a, b in dots if a <= x[k] + 1e-9]
        out.append((BOX * x[k] / far, f"{x[k]:.3g}", float(mean[k]), before[-1] if before else None))
    return out


def path(points: Sequence[tuple[float, float]]) -> str:
    """Points as an SVG path.

    >>> path([(0, 10), (500.04, 20.55)])
    'M0 10L500 20.6'
    """
    return "".join(f"{'L' if k else 'M'}{_short(x)} {_short(y)}" for k, (x, y) in enumerate(points))


def band(plot: Plot) -> str:
    """Return the band of the single values as a closed path; nothing where it is the line."""
    if len(plot.line) < 2 or plot.low == plot.high:
        return ""
    xs = [x for x, _ in plot.line]
    return path([*zip(xs, plot.high, strict=True), *zip(xs[::-1], plot.low[::-1], strict=True)]) + "Z"


def thread(plot: Plot) -> str:
    """Return the single values as a line, where each has a point of its own and smoothing hides it; else nothing."""
    if plot.low != plot.high or all(abs(y - v) < 1 for (_, y), v in zip(plot.line, plot.low, strict=True)):
        return ""
    return path([(x, y) for (x, _), y in zip(plot.line, plot.low, strict=True)])


def dots(points: Sequence[tuple[float, float]]) -> str:
    """Points as strokes of no length, which round ends make dots of any stretch."""
    return "".join(f"M{_short(x)} {_short(y)}h0" for x, y in points)


def spark(values: Sequence[float | None], wide: int = 100, high: int = 20) -> str:
    """Return a course as a small SVG path without a scale, logarithmic where it spans more than a decade; what is not
    known is left out.

    >>> spark([1.0, None, 3.0], 10, 4)
    'M0 3.5L10 0.5'
    """
    known = [(k, v) for k, v in enumerate(values) if v is not None and math.isfinite(v)]
    if len(known) < 2:
        return ""
    ys = [v for _, v in known]
    if min(ys) > 0 and max(ys) > 10 * min(ys):
        ys = [math.log10(v) for v in ys]
    low, over = min(ys), (max(ys) - min(ys)) or 1.0
    last = max(len(values) - 1, 1)
    return path(
        [(wide * k / last, high - 0.5 - (high - 1) * (y - low) / over) for (k, _), y in zip(known, ys, strict=True)]
    )


def grid(plot: Plot) -> str:
    """Return the level lines."""
    return "".join(f"M0 {_short(y)}H{BOX}" for y, _ in plot.y_ticks)


def _short(value: float) -> str:
    return (
        f"{value:.1f}".removesuffix(".0").replace("-0", "0") if abs(value) < 0.05 else f"{value:.1f}".removesuffix(".0")
    )
