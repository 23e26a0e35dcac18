"""The sessions of a kernel and a comparison of two of them; plain data in, HTML and text out.

As `study`: one static piece without a script. What is said of a comparison is words that were made elsewhere
(`lab.tuning.history`); the picture shows why: each config that both sessions have timed is a dot, and what is the
machine's lies on a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .figures import count_text, plain, time_text
from .still import escape
from .study import LONGEST, boxed

_WIDTH, _HEIGHT, _LEFT, _BELOW = 420, 260, 62, 34


@dataclass
class Session:
    """One session, in words and figures; `ratio` of its choice to the default, with its interval, where it has one."""

    number: int
    when: str
    verdict: str
    tried: int
    took: str
    config: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    time_ms: float | None = None
    machine: str = ""


@dataclass
class Problem:
    """A kernel at a shape on a device, and its sessions, the oldest first."""

    title: str
    sessions: list[Session] = field(default_factory=list)


@dataclass
class Compared:
    """Two sessions, the `first` and the `second` by number; what is said of them; facts that differ, as (name, then,
    now); dots as (config, ms then, ms now, whether it has changed); how many times as long all take."""

    first: int
    second: int
    said: list[str] = field(default_factory=list)
    facts: list[tuple[str, str, str]] = field(default_factory=list)
    dots: list[tuple[str, float, float, bool]] = field(default_factory=list)
    machine: float = 1.0


@dataclass
class History:
    """A kernel's sessions by problem, and two of them compared."""

    title: str
    problems: list[Problem] = field(default_factory=list)
    compared: Compared | None = None


def html(view: History) -> str:
    """Return it as one self-contained piece of HTML, without a script.

    >>> rows = [Session(1, "today", "faster", 9, "3 s", "<b>", 0.5, 0.4, 0.6, 1.0)]
    >>> made = html(History("k", [Problem("8", rows)], Compared(1, 1, ["nothing"], [], [("<b>", 1.0, 2.0, True)])))
    >>> "<b>" in made.replace("<b>Sessions", ""), "<script" in made, "http" in made
    (False, False, False)
    """
    count = sum(len(p.sessions) for p in view.problems)
    parts = [f'<div class="head"><b>Sessions</b> {_text(view.title)} <span class="quiet">{count_text(count, "session")}'
             f"</span></div>"]  # fmt: skip
    if view.compared is not None:
        parts.append(compared(view.compared))
    parts += [_problem(p) for p in view.problems]
    return boxed("".join(parts), "past")


def _text(said: str) -> str:
    return escape(plain(said, LONGEST))


def _problem(view: Problem) -> str:
    most = max((s.high or s.ratio or 0.0 for s in view.sessions), default=1.0)
    most = max(most, 1.0)
    heads = ("session", "when", "tried", "took", "of default", "95 % interval", "time", "choice")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = []
    for s in view.sessions:
        figures = ["", "", ""]
        if s.ratio is not None:
            between = f"{s.low:.3f} to {s.high:.3f}" if s.low is not None and s.high is not None else ""
            figures = [f"{s.ratio:.3f}{bar(s, most)}", between, time_text(s.time_ms)]
        cells = "".join(f"<td>{x}</td>" for x in (_text(s.when), f"{s.tried:,}", _text(s.took), *figures))
        machine = f"<small>{_text(s.machine)}</small>" if s.machine else ""
        rows.append(f'<tr><th scope="row">{s.number}</th>{cells}<td class="long">{_text(s.verdict)} '
                    f"<code>{_text(s.config)}</code>{machine}</td></tr>")  # fmt: skip
    table = (f"<table><caption>{_text(view.title)}</caption><thead><tr>{head}</tr></thead>"
             f"<tbody>{''.join(rows)}</tbody></table>")  # fmt: skip
    return f'<div class="scroll" tabindex="0" role="group" aria-label="sessions of {_text(view.title)}">{table}</div>'


def bar(s: Session, most: float) -> str:
    """Return a session's ratio as a bar with its interval."""
    width = 100.0 * (s.ratio or 0.0) / most
    mark = ""
    if s.low is not None and s.high is not None:
        mark = f'<s style="left:{100 * s.low / most:.1f}%;width:{100 * max(s.high - s.low, 0.0) / most:.1f}%"></s>'
    return f'<span class="bar" aria-hidden="true"><u style="width:{width:.1f}%"></u>{mark}</span>'


def compared(view: Compared) -> str:
    """Return the comparison."""
    said = "".join(f"<p>{_text(line)}</p>" for line in view.said)
    facts = ""
    if view.facts:
        rows = "".join(f'<tr><th scope="row">{_text(n)}</th><td class="long">{_text(a) or "–"}</td>'
                       f'<td class="long">{_text(b) or "–"}</td></tr>' for n, a, b in view.facts)  # fmt: skip
        heads = f'<td></td><th scope="col">session {view.first}</th><th scope="col">session {view.second}</th>'
        table = (f"<table><caption>What else is different</caption><thead><tr>{heads}</tr></thead>"
                 f"<tbody>{rows}</tbody></table>")  # fmt: skip
        facts = f'<div class="scroll" tabindex="0" role="group" aria-label="what else is different">{table}</div>'
    title = f'<p><b class="name">Session {view.second} beside session {view.first}</b></p>'
    return f'<div class="beside"><div>{title}{said}{facts}</div>{picture(view)}</div>'


def picture(view: Compared) -> str:
    """Return each config's times in both sessions as a dot, on logarithmic axes; nothing of fewer than two."""
    if len(view.dots) < 2:
        return ""
    times = [t for _, a, b, _ in view.dots for t in (a, b)]
    low, high = math.log(min(times)) - 0.05, math.log(max(times)) + 0.05

    def x(ms: float) -> float:
        return _LEFT + (math.log(ms) - low) / (high - low) * (_WIDTH - _LEFT - 8)

    def y(ms: float) -> float:
        return _HEIGHT - _BELOW - (math.log(ms) - low) / (high - low) * (_HEIGHT - _BELOW - 8)

    def line(factor: float, name: str) -> str:
        begin, end = max(low, low - math.log(factor)), min(high, high - math.log(factor))
        a, b = math.exp(begin), math.exp(end)
        return f'<path class="{name}" d="M{x(a):.1f} {y(a * factor):.1f}L{x(b):.1f} {y(b * factor):.1f}"/>'

    ordered = sorted(view.dots, key=lambda d: d[3])  # what has changed lies on top
    dots = "".join(
        f'<circle class="{"moved" if moved else "dot"}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="{4 if moved else 2.5}">'
        f"<title>{_text(config)}: {time_text(a)}, then {time_text(b)}</title></circle>"
        for config, a, b, moved in ordered
    )
    ends = [math.exp(low + 0.05), math.exp(high - 0.05)]
    marks = "".join(
        f'<text x="{x(t):.0f}" y="{_HEIGHT - _BELOW + 14}" text-anchor="{anchor}">{_text(time_text(t))}</text>'
        f'<text x="{_LEFT - 5}" y="{y(t) + 4:.0f}" text-anchor="end">{_text(time_text(t))}</text>'
        for t, anchor in zip(ends, ("start", "end"), strict=True)
    )
    moved = sum(d[3] for d in view.dots)
    said = (f"times of {count_text(len(view.dots), 'config')} in session {view.first} (across) and session "
            f"{view.second} (up): {moved} {'has' if moved == 1 else 'have'} changed")  # fmt: skip
    machine = line(view.machine, "machine") if abs(math.log(view.machine)) > 0.02 else ""
    return (f'<div class="picture"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
            f'aria-label="{_text(said)}">{line(1.0, "equal")}{machine}{dots}{marks}'
            f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 4}" text-anchor="middle">time in session {view.first}'
            f'</text><text transform="translate(11 {(_HEIGHT - _BELOW) / 2:.0f}) rotate(-90)" text-anchor="middle">'
            f'time in session {view.second}</text></svg>{_legend(machine, moved)}</div>')  # fmt: skip


def _legend(machine: str, moved: int) -> str:
    keys = ['<span class="key"><i class="equal"></i>as long as then</span>']
    keys += ['<span class="key"><i class="machine"></i>the machine\'s change</span>'] if machine else []
    keys += ['<span class="key"><i class="moved"></i>changed by itself</span>'] if moved else []
    return f'<div class="keys">{"".join(keys)}</div>'


def text(view: History) -> str:
    """Return it as plain text.

    >>> rows = [Session(1, "today", "faster", 9, "3 s", "B=2", 0.5, 0.4, 0.6, 1.0)]
    >>> print(text(History("k", [Problem("k 8", rows)], Compared(1, 1, ["The same."], [("device", "a", "b")]))))
    k 8
      1  today  9 tried in 3 s  faster: B=2, 0.500 of the default (0.400 to 0.600), 1.00 ms
    Session 1 beside session 1
      The same.
      device: a -> b
    """
    lines = []
    for problem in view.problems:
        lines.append(problem.title)
        for s in problem.sessions:
            row = f"  {s.number}  {s.when}  {s.tried:,} tried in {s.took}  {s.verdict}"
            if s.config:
                row += f": {s.config}"
            if s.ratio is not None:
                between = f" ({s.low:.3f} to {s.high:.3f})" if s.low is not None and s.high is not None else ""
                row += f", {s.ratio:.3f} of the default{between}, {time_text(s.time_ms)}"
            lines.append(row)
    if (two := view.compared) is not None:
        lines.append(f"Session {two.second} beside session {two.first}")
        lines += [f"  {line}" for line in two.said]
        lines += [f"  {n}: {a or '-'} -> {b or '-'}" for n, a, b in two.facts]
    return "\n".join(line[:LONGEST] for line in lines)
