"""A table of a few rows with a sentence above it and one below: what a line magic answers. HTML and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .assets import bundle
from .figures import plain
from .still import escape

LONGEST = 2000  # characters of a sentence
STATES = {"done": "✓", "partial": "▲", "failed": "✕"}


@dataclass
class SmallTable:
    """What is shown: the first column is a name, the last a sentence, those between are figures."""

    title: str
    state: str = "done"
    """"done", "partial" or "failed", which its colour and its sign tell."""
    said: str = ""
    """The sentence above the table."""
    heads: Sequence[str] = ()
    rows: list[list[str]] = field(default_factory=list)
    marked: int | None = None
    """The row that is recommended."""
    foot: Sequence[str] = ()
    """Sentences below it."""


def text(view: SmallTable) -> str:
    """Return it as plain text.

    >>> print(text(SmallTable("2 workers", said="They halve the time.", heads=("workers", "time", ""),
    ...                       rows=[["0", "4 ms", ""], ["2", "2 ms", "now"]], marked=1)))
    ✓ 2 workers
    They halve the time.
      workers  time
      0        4 ms
    * 2        2 ms  now
    """
    table = [list(view.heads), *view.rows] if view.rows else []
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in table), strict=True)]
    body = [
        ("* " if k - 1 == view.marked else "  ")
        + "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for k, row in enumerate(table)
    ]
    lines = (f"{STATES[view.state]} {view.title}", *([view.said] if view.said else []), *body, *view.foot)
    return "\n".join(plain(line, LONGEST).rstrip() for line in lines)


def html(view: SmallTable) -> str:
    """One self-contained piece of HTML, without a script.

    >>> drawn = html(SmallTable("<b>", heads=("name", ""), rows=[["x", "y"]]))
    >>> "&lt;b&gt;" in drawn, "<script" in drawn, "http" in drawn
    (True, False, False)
    """
    parts = [f'<div class="head"><b>{STATES[view.state]} {escape(plain(view.title, LONGEST))}</b></div>']
    if view.said:
        parts.append(f'<div class="message">{escape(plain(view.said, LONGEST))}</div>')
    if view.rows:
        last = len(view.heads) - 1
        heads = "".join(f'<th scope="col"{_kind(k, last)}>{escape(head)}</th>' for k, head in enumerate(view.heads))
        body = "".join(_row(row, k == view.marked) for k, row in enumerate(view.rows))
        parts.append(f'<table class="targets"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>')
    if view.foot:
        parts.append(f'<div class="foot">{"<br>".join(escape(plain(line, LONGEST)) for line in view.foot)}</div>')
    style = f"<style>{bundle('exported.css')}</style>"  # the same box and the same table as an export's
    return f'<div class="gradlab-box gradlab-export {view.state}">{style}{"".join(parts)}</div>'


def _kind(k: int, last: int) -> str:
    return ' class="name"' if k == 0 else ' class="said"' if k == last else ' class="n"'


def _row(row: list[str], marked: bool) -> str:
    cells = []
    for k, cell in enumerate(row):
        said = escape(plain(cell, LONGEST))
        cells.append(f"<td{_kind(k, len(row) - 1)}>{f'<strong>{said}</strong>' if marked else said}</td>")
    return f"<tr>{''.join(cells)}</tr>"
