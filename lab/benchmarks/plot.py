"""The benchmarks' plot: every ratio with its middle half on a logarithmic scale, as one SVG without any library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

_LEFT, _WIDTH, _ROW = 470, 620, 17
_LOW, _HIGH = 0.02, 10.0
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_COLOURS = {"eager": "#1f6feb", "compiled": "#bf5b04", "numpy": "#57606a"}
_WORDS = {"eager": "PyTorch eager", "compiled": "torch.compile", "numpy": "NumPy"}


def place(ratio: float) -> float:
    """Return where a ratio stands on the axis.

    >>> place(0.02), place(10.0), place(1000.0)
    (470.0, 1090.0, 1090.0)
    """
    share = math.log(min(max(ratio, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
    return round(_LEFT + _WIDTH * share, 1)


def svg(content: dict[str, Any]) -> str:
    """Return the plot of a results file: dots are medians, lines the middle half, the short bars what was wanted."""
    about, results = content["machine"], [r for r in content["results"] if r["ratios"]]
    rows: list[str] = []
    y, section = 64, ""
    for r in results:
        if r["section"] != section:
            section = r["section"]
            y += 14
            rows.append(f'<text x="8" y="{y}" font-weight="bold">{escape(section)}</text>')
            y += _ROW
        rows += _row(r, y)
        y += _ROW
    axis = [f'<line x1="{place(t)}" x2="{place(t)}" y1="52" y2="{y}" stroke="{"#000" if t == 1 else "#d0d7de"}"/>'
            f'<text x="{place(t)}" y="48" text-anchor="middle">{t:g}</text>' for t in _TICKS]  # fmt: skip
    legend = [f'<circle cx="{_LEFT + 150 * k}" cy="26" r="4" fill="{_COLOURS[n]}"/>'
              f'<text x="{_LEFT + 10 + 150 * k}" y="30">{_WORDS[n]}</text>'
              for k, n in enumerate(_COLOURS)]  # fmt: skip
    title = f"core's time / the other's: {about['processor']}, {about['threads']} threads, PyTorch {about['torch']}"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 30}" height="{y + 12}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="#fff"/><title>{escape(title)}</title>',
        f'<text x="8" y="14" font-size="13">{escape(title)}</text>', *legend, *axis, *rows, "</svg>\n",
    ])  # fmt: skip


def _row(r: dict[str, Any], y: int) -> list[str]:
    found = [f'<text x="8" y="{y}">{escape(r["name"])}</text>',
             f'<text x="{_LEFT - 10}" y="{y}" text-anchor="end" fill="#57606a">{escape(r["size"])}</text>']  # fmt: skip
    for name, colour in reversed(_COLOURS.items()):
        spread: Sequence[float] | None = r["ratios"].get(name)
        if spread is None:
            continue
        low, median, high = (place(v) for v in spread)
        found.append(f'<line x1="{low}" x2="{high}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}"/>'
                     f'<circle cx="{median}" cy="{y - 4}" r="3.5" fill="{colour}"><title>'
                     f"{escape(r['name'])} / {_WORDS[name]}: {spread[1]:.3f} [{spread[0]:.3f} … {spread[2]:.3f}]"
                     "</title></circle>")  # fmt: skip
    if r["target"] is not None:
        at = place(r["target"])
        found.append(f'<line x1="{at}" x2="{at}" y1="{y - 10}" y2="{y + 2}" stroke="#1a7f37" stroke-width="2"/>')
    return found
