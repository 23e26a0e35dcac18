"""What several processes did beside one another in a cell: plain data in; HTML and text out.

The HTML is one static piece: a style sheet of its own class, no script, no network. Where styles are stripped (an
untrusted notebook) the findings, the tables and the timeline's sentence remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .assets import bundle
from .figures import count_text, plain, share, shorten, size_text, time_text
from .record import Finding
from .still import WORDS, escape, sentence

LONGEST = 2000  # characters of a sentence
BINS = 300  # of a timeline, across
ROWS = 12  # of the table, shown at most
KINDS = ("computing", "communicating", "waiting")


@dataclass
class Lane:
    """One rank: its spans (begin, end, kind) in seconds of the cell; what is none of them it was not in the cell."""

    number: int
    spans: list[tuple[float, float, str]] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    """When an optimizer made its steps."""
    note: str = ""
    """How it ended, where that was not well."""

    def total(self, kind: str) -> float:
        """Return how long it did something, in seconds.

        >>> Lane(0, [(0.0, 1.0, "computing"), (1.0, 1.5, "waiting"), (1.5, 2.0, "computing")]).total("computing")
        1.5
        """
        return sum(b - a for a, b, k in self.spans if k == kind)


@dataclass
class Sent:
    """What one line sent: operations of one kind and size."""

    line: str
    source: str
    op: str
    count: int = 0
    """On one rank."""
    size_bytes: int = 0
    """Of all of them."""
    communicating_s: float = 0.0
    """All of them, on average over the ranks."""
    waiting_s: float = 0.0
    last: str = ""
    """Who came last, and by how much."""


@dataclass
class Ranked:
    """A cell on ranks."""

    title: str
    size: int
    seconds: float = 0.0
    lanes: list[Lane] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    zoom: tuple[float, float] | None = None
    """A stretch of the timeline that is shown once more, larger."""
    zoom_said: str = ""
    state: str = "done"
    """"done", "failed" or "stopped"."""
    foot: Sequence[str] = ()

    @property
    def word(self) -> str:
        """The state in words, with its sign."""
        return {"failed": "✕ Failed", "stopped": "■ Stopped"}.get(self.state, "✓ Done")

    @property
    def waited(self) -> float:
        """The share of all ranks' time in which they waited for others."""
        whole = sum(b - a for lane in self.lanes for a, b, _ in lane.spans)
        return sum(lane.total("waiting") for lane in self.lanes) / whole if whole else 0.0

    @property
    def says(self) -> bool:
        """Whether there is anything to see: what was sent, steps of an optimizer, a finding."""
        return bool(self.sent or self.findings or any(lane.steps for lane in self.lanes))

    @property
    def place(self) -> str:
        """Size, time and share of waiting, in words."""
        found = [f"{self.size} rank{'s' * (self.size != 1)}", time_text(1e3 * self.seconds)]
        return " · ".join([*found, *([f"{share(self.waited)} waiting for others"] if self.sent else [])])


def summary(lane: Lane) -> str:
    """Return what a rank did with its time, in words.

    >>> summary(Lane(1, [(0.0, 3.0, "computing"), (3.0, 4.0, "waiting")]))
    'rank 1: computing 3.00 s (75 %), waiting 1.00 s (25 %)'
    """
    whole = sum(b - a for a, b, _ in lane.spans) or 1.0
    parts = [f"{kind} {time_text(1e3 * s)} ({share(s / whole)})" for kind in KINDS if (s := lane.total(kind)) > 0]
    return f"rank {lane.number}: {', '.join(parts) or 'nothing'}" + (f"; {lane.note}" if lane.note else "")


# -- text --------------------------------------------------------------------------------------------------------------


def text(view: Ranked) -> str:
    """Return it as plain text.

    >>> lanes = [Lane(0, [(0.0, 2.0, "computing"), (2.0, 4.0, "waiting")]), Lane(1, [(0.0, 4.0, "computing")])]
    >>> sent = [Sent("line 3", "dist.all_reduce(g)", "all_reduce", 4, 4096, 0.01, 1.0, "rank 1, by 500 ms")]
    >>> late = Finding("late", "warning", 2, message="Rank 1 is late.", remedy="Give it less.")
    >>> print(text(Ranked("In [4]", 2, 4.0, lanes, sent, [late])))
    ✓ Done · In [4] · 2 ranks · 4.00 s · 25 % waiting for others
    ▲ Warning line 2: Rank 1 is late. Give it less.
      rank 0: computing 2.00 s (50 %), waiting 2.00 s (50 %)
      rank 1: computing 4.00 s (100 %)
      line 3 · all_reduce · 4 times · 4.1 kB · communicating 10.0 ms · waiting 1.00 s · last: rank 1, by 500 ms
    """
    lines = [" · ".join([view.word, view.title, view.place])]
    lines += [f"{WORDS[f.severity]} {sentence(f)} {f.remedy}" for f in view.findings]
    lines += [f"  {summary(lane)}" for lane in view.lanes]
    for s in view.sent[:ROWS]:
        last = f" · last: {s.last}" if s.last else ""
        took = f"communicating {time_text(1e3 * s.communicating_s)} · waiting {time_text(1e3 * s.waiting_s)}"
        lines.append(f"  {s.line} · {s.op} · {count_text(s.count, 'time')} · {size_text(s.size_bytes)} · {took}{last}")
    return "\n".join(plain(line, LONGEST).rstrip() for line in [*lines, *view.foot])


# -- HTML --------------------------------------------------------------------------------------------------------------


def html(view: Ranked) -> str:
    """One self-contained piece of HTML, without a script.

    >>> drawn = html(Ranked("<b>", 1, 1.0, [Lane(0, [(0.0, 1.0, "computing")], note="<i>")]))
    >>> "&lt;b&gt;" in drawn, "<i>" in drawn, "<script" in drawn, "http" in drawn
    (True, False, False, False)
    """
    parts = [f'<div class="head"><b>{escape(view.word)}</b> {_prose(view.title)} '
             f'<span class="end">{_prose(view.place)}</span></div>']  # fmt: skip
    parts += [_finding(f) for f in view.findings]
    if any(lane.spans for lane in view.lanes):
        parts.append(_timeline(view, (0.0, view.seconds), "Timeline"))
        if view.zoom is not None:
            parts.append(_timeline(view, view.zoom, view.zoom_said))
    if view.sent:
        parts.append(_table(view))
    if view.foot:
        parts.append(f'<div class="foot">{"<br>".join(map(_prose, view.foot))}</div>')
    style = f"<style>{bundle('ranked.css')}</style>"
    return f'<div class="gradlab-box gradlab-ranked {view.state}">{style}{"".join(parts)}</div>'


def _prose(said: str) -> str:
    return escape(plain(said, LONGEST))


def _code(said: str) -> str:
    """Escaped text in which what stands between backticks is code."""
    return "".join(f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(_prose(said).split("`")))


def _finding(f: Finding) -> str:
    remedy = f'<div class="remedy">{_code(f.remedy)}</div>' if f.remedy else ""
    word = escape(WORDS[f.severity])
    return f'<div class="message {f.severity}"><b>{word}</b> {_code(sentence(f))}{remedy}</div>'


def shares(lane: Lane, begin: float, end: float, bins: int = BINS) -> list[list[float]]:
    """Return for each kind which share of each bin of a stretch it takes.

    >>> shares(Lane(0, [(0.0, 1.0, "computing"), (1.0, 4.0, "waiting")]), 0.0, 4.0, 2)
    [[0.5, 0.0], [0.0, 0.0], [0.5, 1.0]]
    """
    found = [[0.0] * bins for _ in KINDS]
    width = (end - begin) / bins
    if width <= 0:
        return found
    for a, b, kind in lane.spans:
        row, a, b = found[KINDS.index(kind)], max(a, begin), min(b, end)
        if b <= a:
            continue
        first, last = int((a - begin) / width), min(int((b - begin) / width), bins - 1)
        for k in range(first, last + 1):
            low = begin + k * width
            row[k] += max(0.0, min(b, low + width) - max(a, low)) / width
    return found


def _path(low: list[float], high: list[float]) -> str:
    """Return the area between two rows of bins as a path; y downwards, from 0 to 20."""
    out, k, n = [], 0, len(low)
    while k < n:
        j = k
        while j < n and (low[j], high[j]) == (low[k], high[k]):
            j += 1
        if high[k] > low[k]:
            top, bottom = 20 - 20 * high[k], 20 - 20 * low[k]
            out.append(f"M{k} {top:.3g}H{j}V{bottom:.3g}H{k}z")
        k = j
    return "".join(out)


def _timeline(view: Ranked, stretch: tuple[float, float], title: str) -> str:
    """Rows of ranks: of each moment which share was spent computing (below), communicating and waiting (above)."""
    begin, end = stretch
    rows = []
    for lane in view.lanes:
        levels = [[round(x, 2) for x in row] for row in shares(lane, begin, end)]
        low, drawn = [0.0] * BINS, []
        for kind, level in zip(KINDS, levels, strict=True):
            high = [min(1.0, round(a + b, 2)) for a, b in zip(low, level, strict=True)]
            if path := _path(low, high):
                drawn.append(f'<path class="{kind}" d="{path}"/>')
            low = high
        width = (end - begin) or 1.0
        ticks = [f"M{BINS * (t - begin) / width:.1f} 20v3" for t in lane.steps if begin <= t <= end]
        marks = f'<path class="step" d="{"".join(ticks)}"/>' if 0 < len(ticks) <= 80 else ""
        note = f"<small>{_prose(lane.note)}</small>" if lane.note else ""
        label = f"rank {lane.number}"
        rows.append(f'<div class="lane"><span class="who">{label}{note}</span><svg viewBox="0 0 {BINS} 23" '
                    f'preserveAspectRatio="none" aria-hidden="true">{"".join(drawn)}{marks}</svg></div>')  # fmt: skip
    said = "; ".join(summary(lane) for lane in view.lanes)
    ticks_ = "".join(f"<span>{escape(time_text(1e3 * (begin + (end - begin) * k / 4)) if begin or k else '0')}</span>"
                     for k in range(5))  # fmt: skip
    steps = '<span class="key"><i class="step"></i>optimizer step</span>' if 'class="step"' in "".join(rows) else ""
    legend = "".join(f'<span class="key"><i class="{kind}"></i>{kind}{" for others" * (kind == "waiting")}</span>'
                     for kind in KINDS) + steps  # fmt: skip
    first = stretch == (0.0, view.seconds)
    whole = f'<div class="shares">{_shares(view)}</div>' if first else ""
    return (f'<div class="time"><div class="title">{_prose(title)} {legend if first else ""}</div>'
            f'<div class="lanes" role="img" aria-label="{_prose(title)}: {_prose(said)}">{"".join(rows)}'
            f'<div class="axis" aria-hidden="true">{ticks_}</div></div>{whole}</div>')  # fmt: skip


def _shares(view: Ranked) -> str:
    """A table of what each rank did with its time."""
    head = "".join(f'<th scope="col"{_NUMBER * (k > 0)}>{name}</th>' for k, name in enumerate(("rank", *KINDS)))
    body = []
    for lane in view.lanes:
        whole = sum(b - a for a, b, _ in lane.spans) or 1.0
        cells = "".join(f"<td{_NUMBER}>{time_text(1e3 * lane.total(kind))} <small>{share(lane.total(kind) / whole)}"
                        "</small></td>" for kind in KINDS)  # fmt: skip
        body.append(f'<tr><td class="name">{lane.number}</td>{cells}</tr>')
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f"<details><summary>time by rank</summary>{_scroll(table, f'time by rank of {view.title}')}</details>"


_NUMBER = ' class="n"'


def _scroll(table: str, label: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{_prose(label)}">{table}</div>'


def _table(view: Ranked) -> str:
    heads = ("line", "operation", "times", "bytes", "communicating", "waiting", "last to come")
    numbers = (2, 3, 4, 5)
    head = "".join(f'<th scope="col"{_NUMBER * (k in numbers)}>{name}</th>' for k, name in enumerate(heads))
    body = []
    for s in view.sent[:ROWS]:
        times = (time_text(1e3 * seconds) for seconds in (s.communicating_s, s.waiting_s))
        figures = (f"{s.count:,}", size_text(s.size_bytes), *times)
        cells = "".join(f"<td{_NUMBER}>{escape(x)}</td>" for x in figures)
        source = escape(shorten(plain(s.source, LONGEST), 64))
        body.append(f'<tr><td class="where"><code>{source}</code><small>{escape(s.line)}</small></td>'
                    f'<td>{escape(s.op)}</td>{cells}<td class="said">{escape(s.last)}</td></tr>')  # fmt: skip
    left = len(view.sent) - ROWS
    more = f'<div class="foot">{left} more, with less waiting</div>' if left > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return _scroll(table, f"operations between the ranks of {view.title}") + more
