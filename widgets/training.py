"""What a training run looks like while it goes on and when it is over: plain data in; HTML, text and one line out.

The HTML is one static piece: a style sheet of its own class, no script, no network. Where styles are stripped (an
untrusted notebook) the plot hides itself and a picture of it with the figures in words remains.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import curves
from .assets import bundle
from .figures import number, plain
from .still import escape

WORDS = {
    "running": ("", "Training"),
    "done": ("✓", "Trained"),
    "stopped": ("■", "Stopped"),
    "interrupted": ("■", "Interrupted"),
    "nan": ("✕", "Loss not finite"),
    "failed": ("✕", "Failed"),
}
LONGEST = 1000  # characters of a line of text
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass
class Training:
    """One moment of a run, or its end."""

    title: str = ""
    state: str = "running"
    message: str = ""
    place: str = ""
    """Where it is, in words: "epoch 3 of 15, step 40 of 230"."""
    done: float | None = None
    """Share of the whole, or None where that is not known."""
    timing: str = ""
    figures: list[tuple[str, str]] = field(default_factory=list)
    losses: Sequence[float] = ()
    """Of every step."""
    knots: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0), (1.0, 1.0)])
    """(step, epoch) pairs: where on the x axis a step is."""
    checks: list[tuple[float, float]] = field(default_factory=list)
    """(epoch, validation loss)."""
    extent: float | None = None
    axis: str = "epoch"
    names: tuple[str, str] = ("training", "validation")
    """Of the losses and of the checks."""
    edges: tuple[Sequence[float], Sequence[float]] | None = None
    """The least and the largest of what each of `losses` is the mean of."""
    others: list[tuple[str, list[tuple[float, float]]]] = field(default_factory=list)
    """Losses of other runs, as (x, value), by what they are called."""
    columns: int = curves.COLUMNS

    @property
    def word(self) -> str:
        """The state in a word, with its sign."""
        sign, word = WORDS.get(self.state, ("", self.state))
        word = self.title or word if self.state in ("running", "done") else f"{self.title} {word.lower()}".strip()
        return f"{sign} {word[:1].upper()}{word[1:]}".strip()


def seconds_text(seconds: float) -> str:
    """Return a duration in words.

    >>> [seconds_text(s) for s in (0.02, 0.4, 12.4, 75, 4000, 200000)]
    ['20 ms', '0.4 s', '12 s', '1 min 15 s', '1 h 06 min', '2 d 7 h']
    """
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {s:02d} s"
    hours, m = divmod(minutes, 60)
    return f"{hours} h {m:02d} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def loss_text(value: float | None) -> str:
    """Return a loss in four digits.

    >>> [loss_text(v) for v in (2.30258, 0.01234, 1.5e-6, 1234.5, float("nan"))]
    ['2.303', '0.01234', '1.500e-06', '1234', 'nan']
    """
    if value is None:
        return ""
    text = f"{value:#.4g}"
    return text.removesuffix(".") if "e" not in text else f"{value:.3e}"


def text(view: Training) -> str:
    """Return a few lines of plain text: where it is, the figures, the losses as blocks.

    >>> view = Training(state="done", place="2 epochs", timing="1.0 s", figures=[("loss", "0.5")], losses=[4, 2, 1])
    >>> print(text(view))
    ✓ Trained · 2 epochs · 1.0 s
    loss 0.5
    █▃▁
    """
    lines = [" · ".join(part for part in (view.word, view.place, _share(view), view.timing) if part)]
    if view.message:
        lines.append(view.message)
    if view.figures:
        lines.append(" · ".join(f"{name} {value}" for name, value in view.figures))
    if len(view.losses) > 2:
        lines.append(blocks(view))
    return "\n".join(plain(line, LONGEST) for line in lines)


def line(view: Training, width: int = 100) -> str:
    """One line for a terminal, with a bar, cut to its width.

    >>> line(Training(place="epoch 1 of 2", done=0.25, figures=[("loss", "0.5")]), 60)
    'Training ━━━───────── 25 % · loss 0.5 · epoch 1 of 2'
    """
    n = 12
    whole = "" if view.done is None else "━" * round(n * view.done) + "─" * (n - round(n * view.done)) + " "
    head = f"{view.word} {whole}{_share(view)}".rstrip()
    figures = [f"{name} {value}" for name, value in view.figures]
    parts = [head, view.message, *figures[:1], view.place, view.timing, *figures[1:]]  # what matters most comes first
    said = plain(" · ".join(part for part in parts if part))
    return said if len(said) <= width else said[: max(width - 1, 0)] + "…"


def _share(view: Training) -> str:
    return "" if view.done is None or view.state != "running" else f"{100 * view.done:.0f} %"


def blocks(view: Training, width: int = 60) -> str:
    """Return the losses as a row of blocks, on the scale that the plot would have."""
    plot = curves.layout(view.losses, view.knots, edges=view.edges)
    if not plot.line:
        return ""
    ys = [y for _, y in plot.line]
    ys = [ys[round(k * (len(ys) - 1) / (width - 1))] for k in range(width)] if len(ys) > width else ys
    low, high = min(ys), max(ys)
    return "".join(BLOCKS[min(7, int(8 * (high - y) / ((high - low) or 1)))] for y in ys)


def html(view: Training, final: bool = False, below: str = "") -> str:
    """One self-contained piece of HTML; the final one also answers to the pointer and carries a picture.

    below : HTML of its own that stands under the plot.

    >>> drawn = html(Training(figures=[("loss", "<b>")], losses=[1.0, 0.5, 0.25]))
    >>> "<svg" in drawn, "&lt;b&gt;" in drawn, "<script" in drawn, "http" in drawn
    (True, True, False, False)
    """
    title, state = escape(view.word), view.state if view.state in WORDS else "running"
    parts = [
        f'<div class="head"><b>{title}</b> {escape(view.place)} <span class="end">{escape(view.timing)}</span></div>'
    ]
    if view.done is not None:
        parts.append(f'<div class="bar"><span style="width:{100 * min(max(view.done, 0.0), 1.0):.1f}%"></span></div>')
    if view.message:
        parts.append(f'<div class="message">{escape(view.message)}</div>')
    if view.figures:
        spans = (f"<span><small>{escape(name)}</small> <b>{escape(value)}</b></span>" for name, value in view.figures)
        parts.append(f'<div class="figures">{" &nbsp; ".join(spans)}</div>')
    if len(view.losses) > 1 or view.checks:
        parts.append(_plot(view, final))
    parts.append(below)
    return f'<div class="gradlab-box gradlab-fit {state}"><style>{bundle("training.css")}</style>{"".join(parts)}</div>'


def laid_out(view: Training) -> curves.Plot:
    """Return the view's curves laid out."""
    return curves.layout(view.losses, view.knots, view.checks, view.extent, view.edges, view.others, view.columns)


def _tips(view: Training, plot: curves.Plot) -> list[tuple[str, str, str, float]]:
    """Return what stands at the right end of each curve: (class, name, value, place), kept apart."""
    found: list[tuple[str, str, str, float]] = []
    if plot.line:
        last = next((v for v in reversed(view.losses) if v == v), None) if len(plot.line) < 3 else plot.readings[-1][2]
        found.append(("train", view.names[0], number(last), plot.line[-1][1]))
    if plot.marks:
        found.append(("check", view.names[1], number(view.checks[-1][1]), plot.marks[-1][1]))
    values = {name: points[-1][1] for name, points in view.others if points}
    found += [
        (f"other o{k}", name, number(values[name]), points[-1][1]) for k, (name, points) in enumerate(plot.others)
    ]
    order = [tip[0] for tip in found]
    found.sort(key=lambda tip: tip[3])
    apart = 90.0
    for k in range(1, len(found)):  # downwards, and from the bottom up again
        found[k] = (*found[k][:3], max(found[k][3], found[k - 1][3] + apart))
    for k in range(len(found) - 1, -1, -1):
        most = curves.BOX - 10 if k == len(found) - 1 else found[k + 1][3] - apart
        found[k] = (*found[k][:3], min(found[k][3], most))
    return sorted(found, key=lambda tip: order.index(tip[0]))


def shapes(plot: curves.Plot) -> dict[str, str]:
    """Return the paths of a plot by their classes, in the order in which they are drawn."""
    found = {"grid": curves.grid(plot)}
    found |= {f"other o{k}": curves.path(points) for k, (_, points) in enumerate(plot.others)}
    found |= {
        "band": curves.band(plot), "thread": curves.thread(plot),
        "train": curves.path(plot.line) if len(plot.line) > 1 else curves.dots(plot.line),
        "check": curves.path(plot.marks), "dots": curves.dots(plot.marks),
    }  # fmt: skip
    return {name: d for name, d in found.items() if d}


def _svg(plot: curves.Plot, style: dict[str, str]) -> str:
    return "".join(f'<path {style[name.split()[0]]} d="{d}"/>' for name, d in shapes(plot).items())


def drawn(view: Training) -> dict[str, Any]:
    """Return a plot as what draws it: shapes by class, words with their places in percent of the box.

    >>> plot = drawn(Training(losses=[2.0, 1.0], axis="step", knots=[(1.0, 1.0), (2.0, 2.0)]))
    >>> plot["shapes"]["train"], plot["tips"][0][:3], plot["axis"]
    ('M500 29.1L1000 514.6', ['train', 'training', '1.00'], 'step')
    """
    plot = laid_out(view)
    tips = _tips(view, plot)
    what = "loss" if view.names[0] == "training" else view.names[0]
    said = f"{what} by {view.axis}, {'logarithmic' if plot.logarithmic else 'linear'} scale"
    said += "".join(f"; {name} {value} at the end" for _, name, value, _ in tips)
    ends = [points[-1][0] for points in (plot.line, plot.marks, *(points for _, points in plot.others)) if points]
    return {
        "said": said,
        "axis": view.axis,
        "shapes": shapes(plot),
        "y": [[_percent(y), t] for y, t in plot.y_ticks],
        "x": [[_percent(x), t] for x, t in plot.x_ticks],
        "tips": [[kind, name, value, _percent(max(ends)), _percent(y)] for kind, name, value, y in tips],
        "strips": _strips(view, plot),
        "lone": len(tips) < 2,
    }


def _plot(view: Training, final: bool) -> str:
    plot = drawn(view)
    paths = "".join(f'<path class="{name}" d="{d}"/>' for name, d in plot["shapes"].items())
    parts = [f'<svg viewBox="0 0 {curves.BOX} {curves.BOX}" preserveAspectRatio="none" role="img" '
             f'aria-label="{escape(plot["said"])}">{paths}</svg>']  # fmt: skip
    parts += [f'<span class="y" style="top:{y}">{t}</span>' for y, t in plot["y"]]
    parts += [f'<span class="x" style="left:{x}">{t}</span>' for x, t in plot["x"]]
    parts.append(f'<span class="axis">{view.axis}</span>')
    for kind, name, value, left, top in plot["tips"]:
        where = f"left:{left};top:{top}"
        parts.append(f'<span class="tip {kind}" style="{where}">{escape(name)}<b>{value}</b></span>')
    for left, width, late, words in plot["strips"] if final else ():
        where = f"left:{left:.2f}%;width:{width:.2f}%"
        kind = ' class="late"' if late else ""
        parts.append(f'<i{kind} style="{where}"><u><s>{escape(chr(10).join(words))}</s></u></i>')
    lone = " lone" if plot["lone"] else ""
    html = f'<div class="plot{lone}" style="display:none">{"".join(parts)}</div>'
    return html + (picture(view) if final else "")


def _percent(place: float) -> str:
    return f"{place * 100 / curves.BOX:.2f}%"


def _strips(view: Training, plot: curves.Plot) -> list[list[Any]]:
    """Return a strip for every place, in percent from the left: (place, width, whether it is late, what it says when
    the pointer is on it)."""
    out: list[list[Any]] = []
    places = [place for place, *_ in plot.readings]
    for k, (place, x, train, check) in enumerate(plot.readings):
        left = (places[k - 1] + place) / 2 if k else place - (places[1] - place) / 2 if len(places) > 1 else 0.0
        right = (places[k + 1] + place) / 2 if k + 1 < len(places) else 2 * place - left
        words = [f"{view.axis} {x}", f"{view.names[0]} {number(train)}"]
        words += [f"{view.names[1]} {number(check)}"] if check is not None else []
        out.append([round(left / 10, 2), round((right - left) / 10, 2), int(place > 0.6 * curves.BOX), words])
    return out


STILL = {
    "grid": 'stroke="#888" stroke-opacity=".25"',
    "other": 'stroke="#888" stroke-width="1.2"',
    "band": 'fill="#4585c4" fill-opacity=".2"',
    "thread": 'stroke="#4585c4" stroke-opacity=".35"',
    "train": 'stroke="#4585c4" stroke-width="2"',
    "check": 'stroke="#c1862b" stroke-width="1.6"',
    "dots": 'stroke="#c1862b" stroke-width="5" stroke-linecap="round"',
}


def picture(view: Training, kind: str = ' class="still"') -> str:
    """Return the plot as an image, in colours legible on white and on black: where styles are stripped it remains."""
    plot, said = laid_out(view), escape(drawn(view)["said"])
    width, height, left, right, bottom = 760, 230, 58, 150, 28
    across, down = (width - left - right) / curves.BOX, (height - 12 - bottom) / curves.BOX
    label = 'font-family="sans-serif" font-size="11" fill="#808080"'
    words = [
        f'<text x="{left - 8}" y="{12 + y * down + 4:.1f}" text-anchor="end" {label}>{t}</text>'
        for y, t in plot.y_ticks
    ]
    words += [
        f'<text x="{left + x * across:.1f}" y="{height - 8}" text-anchor="middle" {label}>{t}</text>'
        for x, t in plot.x_ticks
    ]
    words.append(f'<text x="{width - right + 10}" y="{height - 8}" {label}>{view.axis}</text>')
    for tip, name, value, y in _tips(view, plot):
        colour = {"train": "#4585c4", "check": "#c1862b"}.get(tip, "#808080")
        words.append(f'<text x="{width - right + 10}" y="{12 + y * down + 4:.1f}" {label.replace("#808080", colour)}>'
                     f"{escape(name)} {value}</text>")  # fmt: skip
    empty = {name: "" if name == "band" else 'fill="none"' for name in STILL}
    still = {name: f'vector-effect="non-scaling-stroke" {empty[name]} {how}' for name, how in STILL.items()}
    shapes = f'<g transform="translate({left} 12) scale({across} {down})">{_svg(plot, still)}</g>'
    image = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">{shapes}{"".join(words)}</svg>'
    code = base64.b64encode(image.encode()).decode("ascii")
    return f'<img{kind} alt="{said}" src="data:image/svg+xml;base64,{code}" style="max-width:100%">'
