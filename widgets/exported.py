"""What became of a function that was exported: plain data in; HTML and text out.

The HTML is one static piece: a style sheet of its own class, no script, no network. Where styles are stripped (an
untrusted notebook) its tables remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .assets import bundle
from .figures import plain, size_text, time_text
from .still import escape

LONGEST = 2000  # characters of a sentence
CODE = 300  # of a line
LINES = 400  # of a program, shown at most
CLOSE = 1e-3
"""A larger error, as a share of the largest result, is marked."""


@dataclass
class Target:
    """One form of the program: how it was measured, or why there is none."""

    name: str
    files: list[str] = field(default_factory=list)
    size_bytes: int | None = None
    latency_s: float | None = None
    error: float | None = None
    """Largest difference to the function itself on other data."""
    scale: float = 0.0
    """The largest result of the function on these data."""
    note: str = ""
    """Why a figure is missing, or what is amiss."""
    refusal: str = ""
    """Why there is no such form."""
    remedy: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether its results are others than the function's."""
        return self.error is not None and not self.error <= CLOSE * max(self.scale, 1e-30)


@dataclass
class Exported:
    """What one command exported."""

    title: str
    place: str = ""
    """Ops, state and sizes, in words."""
    lines: Sequence[tuple[str, str, str]] = ()
    """(line of the program, where it came from, the source there)."""
    targets: list[Target] = field(default_factory=list)
    eager_s: float | None = None
    at: str = ""
    """The sizes of the latency and of the error."""
    kept: str = ""
    """Where the files are."""
    refusal: str = ""
    """Why there is no program."""
    remedy: str = ""

    @property
    def state(self) -> str:
        """Failed where there is no program; partial where a target was refused or is wrong; else done."""
        if self.refusal:
            return "failed"
        return "partial" if any(t.refusal or t.is_wrong for t in self.targets) else "done"

    @property
    def word(self) -> str:
        """The state in a word, with its sign."""
        return {"failed": "✕ Not exported", "partial": "▲ Exported in part", "done": "✓ Exported"}[self.state]


def ratio_text(latency_s: float | None, eager_s: float | None) -> str:
    """Return how long a target takes of what the function itself does.

    >>> ratio_text(1e-3, 4e-3), ratio_text(3e-3, 1e-3), ratio_text(None, 1.0)
    ('0.25×', '3.0×', '')
    """
    if not latency_s or not eager_s:
        return ""
    ratio = latency_s / eager_s
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×" if ratio >= 1 else f"{ratio:.2g}×"


def error_text(target: Target) -> str:
    """Return the error, beside the size of the results.

    >>> error_text(Target("c", error=3e-7, scale=2.5)), error_text(Target("c", error=0.0, scale=1.0))
    ('3.0e-07 of 2.5', 'none')
    """
    if target.error is None:
        return ""
    return "none" if target.error == 0 else f"{target.error:.1e} of {target.scale:.2g}"


def rows(view: Exported) -> list[list[str]]:
    """Return the table of the targets: name, size, latency, of the eager one, error, and what is to be said."""
    out = []
    if view.eager_s is not None:
        out.append(["eager", "", time_text(1e3 * view.eager_s), "1", "", "the function itself"])
    for t in view.targets:
        size = "" if t.size_bytes is None else size_text(t.size_bytes)
        latency = "" if t.latency_s is None else time_text(1e3 * t.latency_s)
        wrong = "✕ gives other results than the function" if t.is_wrong else ""
        said = f"✕ {t.refusal}" if t.refusal else " ".join(x for x in (wrong, t.note or ", ".join(t.files)) if x)
        remedy = f" Remedy: {t.remedy}" if t.remedy else ""
        out.append([t.name, size, latency, ratio_text(t.latency_s, view.eager_s), error_text(t), said + remedy])
    return out


HEADS = ("target", "size", "latency", "of eager", "largest error", "")


def text(view: Exported) -> str:
    """Return it as plain text.

    >>> print(text(Exported("f", "1 op", targets=[Target("c", refusal="no sort in C", remedy="numpy")])))
    ▲ Exported in part · f · 1 op
    target  size  latency  of eager  largest error
    c                                               ✕ no sort in C Remedy: numpy
    """
    head = [" · ".join(x for x in (view.word, view.title, view.place) if x)]
    if view.refusal:
        head += [view.refusal, *([f"Remedy: {view.remedy}"] if view.remedy else [])]
    table = [list(HEADS), *rows(view)] if view.targets else []
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in table), strict=True)]
    body = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in table]
    tail = [x for x in (view.at, view.kept) if x]
    return "\n".join(plain(line, LONGEST) for line in (*head, *body, *tail))


def html(view: Exported) -> str:
    """One self-contained piece of HTML.

    >>> drawn = html(Exported("<b>", lines=[("y = exp(x)", "In [1]:2", "x.exp()")], targets=[Target("c")]))
    >>> "&lt;b&gt;" in drawn, "<script" in drawn, "http" in drawn
    (True, False, False)
    """
    parts = [f'<div class="head"><b>{escape(view.word)}</b> {escape(_cut(view.title, CODE))} '
             f'<span class="end">{escape(view.place)}</span></div>']  # fmt: skip
    if view.refusal:
        parts.append(f'<div class="message">{_prose(view.refusal)}{_remedy(view.remedy)}</div>')
    if view.targets:
        parts.append(_targets(view))
    foot = " · ".join(escape(_cut(x, LONGEST)) for x in (view.at, view.kept) if x)
    if foot:
        parts.append(f'<div class="foot">{foot}</div>')
    if view.lines:
        parts.append(_program(view))
    style = f"<style>{bundle('exported.css')}</style>"
    return f'<div class="gradlab-box gradlab-export {view.state}">{style}{"".join(parts)}</div>'


def _cut(said: str, limit: int) -> str:
    return said if len(said) <= limit else said[: limit - 1] + "…"


def _prose(said: str) -> str:
    return escape(_cut(said, LONGEST)).replace("\n", "<br>")


def _remedy(said: str) -> str:
    return f'<div class="remedy">Remedy: {_prose(said)}</div>' if said else ""


def _targets(view: Exported) -> str:
    heads = "".join(f'<th scope="col"{_number(k)}>{h}</th>' for k, h in enumerate(HEADS[:-1]))
    heads += '<th scope="col">what became of it</th>'
    body = []
    by_name = {t.name: t for t in view.targets}
    for name, *figures, said in rows(view):
        target = by_name.get(name)
        kind = ""
        if target is not None and (target.refusal or target.is_wrong):
            kind = ' class="bad"'
            wrong = "" if target.refusal else f"gives other results than the function. {target.note}"
            last = f"✕ {_prose(target.refusal or wrong)}{_remedy(target.remedy)}"
        else:
            last = _prose(said)
        cells = "".join(f"<td{_number(k)}>{escape(f)}</td>" for k, f in enumerate(figures, 1))
        body.append(f'<tr{kind}><td class="name">{escape(name)}</td>{cells}<td class="said">{last}</td></tr>')
    return f'<table class="targets"><thead><tr>{heads}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _number(k: int) -> str:
    return ' class="n"' if 1 <= k <= 4 else ""


def _program(view: Exported) -> str:
    """The program beside the source; a line of the source stands once for all the ops that it became."""
    body, last = [], ("", "")
    for said, where, source in view.lines[:LINES]:
        shown = ("", "") if (where, source) == last else (where, source)
        last = (where, source)
        first = ' class="first"' if shown[0] else ""
        body.append(f"<tr{first}><td><code>{escape(_cut(said, CODE))}</code></td>"
                    f'<td class="where">{escape(shown[0])}</td>'
                    f"<td><code>{escape(_cut(shown[1], CODE))}</code></td></tr>")  # fmt: skip
    left = len(view.lines) - LINES
    more = f'<div class="foot">{left:,} lines more</div>' if left > 0 else ""
    opened = " open" if len(view.lines) <= 40 else ""
    heads = '<th scope="col">program</th><th scope="col" class="where">from</th><th scope="col">source</th>'
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    label = f"program and source of {escape(_cut(view.title, CODE))}"
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'
    return f"<details{opened}><summary>Program and source</summary>{scroll}{more}</details>"
