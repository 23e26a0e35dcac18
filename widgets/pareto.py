"""A plot of costs and worth: points with their names, and the front of those that no other one beats. SVG out.

The box has a size of its own, in which names are kept apart; the page may show it narrower. Better is always to the
left and up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .still import escape

WIDE, TALL = 450, 256
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 18, 42
LETTER, LINE = 6.5, 13.0  # of a name, in units of the box
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass
class Point:
    """One thing that costs `x` and is worth `y`; `said` tells both."""

    name: str
    x: float
    y: float
    said: str = ""


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return which of the points (cost, worth) no other one beats: as cheap and worth as much, and better in one.

    >>> front([(4.0, 0.98), (1.0, 0.97), (2.0, 0.96), (0.5, 0.6), (1.0, 0.97)])
    [0, 1, 3, 4]
    """
    return [k for k, (x, y) in enumerate(points)
            if not any(a <= x and b >= y and (a < x or b > y) for a, b in points)]  # fmt: skip


@dataclass
class Axis:
    """How worth is drawn: `height` rises with it, `ticks` gives values to be marked, `written` says one."""

    name: str
    height: Callable[[float], float]
    written: Callable[[float], str]
    ticks: Callable[[float, float], Sequence[float]]
    """From the heights of the ends."""


STEPS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LEAST = 0.002


def shares(name: str, written: Callable[[float], str], upward: bool) -> Axis:
    """Return an axis of shares on which what is near to perfect is spread: 99 % and 98 % are as far apart as 90 % and
    80 %.

    upward : whether 1 is perfect, else 0.

    >>> axis = shares("accuracy", "{:g}".format, True)
    >>> round(axis.height(0.99) - axis.height(0.98), 2), round(axis.height(0.9) - axis.height(0.8), 2)
    (0.26, 0.3)
    """
    ticks = [1 - v for v in STEPS if v <= 1] if upward else list(STEPS)
    return Axis(name, lambda y: -math.log10(max(1 - y if upward else y, 0.0) + LEAST), written, lambda a, b: ticks)


def numbers(name: str, written: Callable[[float], str], upward: bool) -> Axis:
    """Return an axis of plain numbers."""
    sign = 1 if upward else -1
    return Axis(name, lambda y: sign * y, written, lambda a, b: [sign * v for v in _round(a, b, 4)])


def svg(points: Sequence[Point], title: str, across: str, up: Axis, tick_x: Callable[[float], str] = str) -> str:
    """Return the plot.

    across : what a cost is, written by `tick_x`. up : the axis of worth.

    >>> axis = numbers("worth", "{:g}".format, True)
    >>> drawn = svg([Point("a", 1.0, 0.9), Point("b", 2.0, 0.8)], "worth by cost", "cost", axis)
    >>> drawn.count("<circle"), "<script" in drawn
    (2, False)
    """
    best = front([(p.x, up.height(p.y)) for p in points])
    right = max((p.x for p in points), default=1.0) * 1.06 or 1.0
    low = min((up.height(p.y) for p in points), default=0.0)
    high = max((up.height(p.y) for p in points), default=1.0)
    room = 0.1 * (high - low) or 0.01 * abs(high) or 1.0
    low, high = low - room, high + room

    def place(x: float, height: float) -> tuple[float, float]:
        return (LEFT + (WIDE - LEFT - RIGHT) * x / right,
                TALL - BOTTOM - (TALL - TOP - BOTTOM) * (height - low) / (high - low))  # fmt: skip

    parts = []
    for v in _round(0, right, 5):
        x, _ = place(v, low)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TALL - BOTTOM}"/>'
                     f'<text class="tick" x="{x:.1f}" y="{TALL - BOTTOM + 15}" text-anchor="middle">'
                     f"{escape(tick_x(v))}</text>")  # fmt: skip
    last = math.inf
    for v in up.ticks(low, high):
        _, y = place(0, up.height(v))
        if not low <= up.height(v) <= high or abs(y - last) < 1.6 * LINE:
            continue
        last = y
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text class="tick" x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">'
                     f"{escape(up.written(v))}</text>")  # fmt: skip
    parts.append(f'<text class="tick" x="{WIDE - RIGHT}" y="{TALL - 10}" text-anchor="end">{escape(across)}</text>')
    at = [place(p.x, up.height(p.y)) for p in points]
    line = sorted(at[k] for k in best)
    if len(line) > 1:
        parts.append(f'<path class="front" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in line)}"/>')
    for k, (p, (x, y), (left, above)) in enumerate(zip(points, at, _labels(points, at), strict=True)):
        kind = "best" if k in best else "beaten"
        wide = LETTER * len(p.name)
        near = min(max(x, left), left + wide), above + LINE * (0.25 if above + LINE / 2 < y else 0.75)
        if math.dist(near, (x, y)) > 22:
            parts.append(f'<line class="lead" x1="{x:.1f}" y1="{y:.1f}" x2="{near[0]:.1f}" y2="{near[1]:.1f}"/>')
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
                     f'<text class="{kind}" x="{left:.1f}" y="{above + 10:.1f}">{escape(p.name)}</text>')  # fmt: skip
    told = "; ".join(f"{p.name} {p.said}".strip() for p in points)
    beats = ", ".join(points[k].name for k in best)
    label = escape(f"{title}: {told}. No other variant beats {beats}." if points else title)
    return (f'<svg viewBox="0 0 {WIDE} {TALL}" role="img" aria-label="{label}">'
            f'<text class="axis" x="{LEFT}" y="{TOP - 4}">{escape(up.name)}</text>{"".join(parts)}</svg>')  # fmt: skip


def _labels(points: Sequence[Point], at: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return where each name begins, left and above: beside its point, where no other name and no point is."""
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in at]
    found = [(0.0, 0.0)] * len(points)
    for k in sorted(range(len(points)), key=lambda k: at[k]):
        (x, y), wide = at[k], LETTER * len(points[k].name)
        tried = [(left, y + down - LINE / 2) for down in _DOWN
                 for left in ((x + 9, x - 9 - wide, x - wide / 2) if abs(down) < LINE else
                              (x - wide / 2, x + 5, x - 5 - wide))]  # fmt: skip
        boxes = [(a, b, a + wide, b + LINE) for a, b in tried]
        inside = [b for b in boxes if b[0] >= LEFT + 2 and b[2] <= WIDE and b[1] >= TOP and b[3] <= TALL - BOTTOM]
        free = [b for b in inside if not any(_meet(b, other) for other in taken)]
        box = (free or inside or boxes)[0]
        taken.append(box)
        found[k] = box[:2]
    return found


_DOWN = [0.0, *(sign * LINE * k for k in (1.0, 1.5, 2.1, 3.2, 4.3, 5.4) for sign in (-1, 1))]


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _round(low: float, high: float, about: int) -> list[float]:
    """Return at most about so many round numbers from low to high.

    >>> _round(0.0, 0.95, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough * 0.85)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]
