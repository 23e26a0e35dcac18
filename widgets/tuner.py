"""The tuner's panel: what a session has found, as plain data in; a live view, and one that stays, out.

`html` is self-contained like the card's: tables with inline styles, which a script replaces by the panel inside a
shadow root. The live panel is the same script fed by a widget (`lab.notebook.panel`). Names, reasons and errors
are data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .assets import bundle
from .card import asks, embed, packed
from .figures import plain, time_text
from .past import Session
from .still import escape
from .training import seconds_text

Trial = tuple[list[int], str, float | None, float | None, str, dict[str, Any]]
"""Places among the values of its tunables; status ("right", "same" as another's binary, or why not); the ratio to the
default; the time in ms; the reason of a rejection; what it occupies."""

SHOWN = 5
LONGEST = 400
STATES = {"running": "Tuning", "paused": "Paused", "stopping": "Stopping", "done": "Tuned", "stopped": "Stopped",
          "failed": "Failed"}  # fmt: skip


@dataclass
class Tuning:
    """One moment of a session, or its end.

    tunables : name, values as text, and which of them is the default. known : how many of the trials, the first ones,
    are of earlier runs. never : for a pair of tunables, as ``"0,2"``, the pairs of values that no config has, each with
    the limit that forbids it. places : config as text, ratio, low, high, time in ms, mark, facts. final_ms : the
    default's time in the final. between : the interval of the best so far. previous : what an earlier run chose, and
    its ratio then. vendor : a library's name, its ratio with the interval, its time. bound : a time to compare with,
    in ms, why, and its name. roof : operations and bytes a second that the device reaches, whose figures they are,
    operations and bytes of the kernel. code : the choice, to copy. change : the default and the choice as a difference
    of two lines. chosen : its config as text. command : what a place's config is appended to, to choose it instead.
    headline : at the end, the verdict in a few words. history : the problem's sessions that have ended, the last of
    them compared with the one before in words, `beside`.
    """

    title: str
    device: str = ""
    state: str = "running"
    doing: str = ""
    estimate: bool = False
    spent_s: float = 0.0
    budget_s: float | None = None
    size: int = 0
    resumed: int = 0
    known: int = 0
    default_ms: float | None = None
    final_ms: float | None = None
    tunables: list[tuple[str, list[str], int]] = field(default_factory=list)
    never: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    places: list[tuple[str, float, float, float, float, str, str]] = field(default_factory=list)
    verdict: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reasons: list[tuple[str, int]] = field(default_factory=list)
    between: tuple[float, float] | None = None
    previous: tuple[str, float] | None = None
    vendor: tuple[str, float, float, float, float] | None = None
    bound: tuple[float, str, str] | None = None
    roof: tuple[float, float, str, float, float] | None = None
    code: str = ""
    change: str = ""
    chosen: str = ""
    command: str = ""
    headline: str = ""
    history: list[Session] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)

    def best(self) -> Trial | None:
        """Return the right trial of the smallest ratio; once there is a choice, that of the choice."""
        right = [t for t in self.trials if t[2] is not None and (not self.chosen or self.words(t) == self.chosen)]
        return min(right, key=lambda t: t[2] or 0.0) if right else None

    def words(self, trial: Trial) -> str:
        """Return a trial's config on one line."""
        return " ".join(f"{n}={values[k]}" for (n, values, _), k in zip(self.tunables, trial[0], strict=True))


Standing = tuple[str, float, float | None, float | None, float | None, str]
"""A name, the ratio to the default, its interval where it was taken side by side, the time in ms, words on it."""


def standing(view: Tuning) -> list[Standing]:
    """Return what there is to compare, the fastest first: the best, the default, an earlier choice, a vendor's, the
    bound.

    >>> view = Tuning("k", default_ms=2.0, tunables=[("A", ["1", "2"], 0)], trials=[([1], "right", 0.5, 1.0, "", {})],
    ...               previous=("A=4", 0.75), bound=(0.4, "", "peak"))
    >>> [(name, ratio, ms) for name, ratio, _, _, ms, _ in standing(view)]
    [('peak', 0.2, 0.4), ('best so far', 0.5, 1.0), ('previous best', 0.75, 1.5), ('default', 1.0, 2.0)]
    """
    if view.default_ms is None:
        return []
    unit, best = view.final_ms or view.default_ms, view.best()
    low, high = view.between or (None, None)
    rows: list[Standing] = [("default", 1.0, None, None, unit, _default(view))]
    final = (
        {} if view.estimate else {config: (ratio, low, high, ms) for config, ratio, low, high, ms, *_ in view.places}
    )
    if view.places:
        config, ratio, *between, ms, _, _ = view.places[0]
        low, high = (None, None) if view.estimate else between
        if config != _default(view):
            rows.append(("best", ratio, low, high, ms, config))
    elif best is not None and best[2] != 1.0:
        rows.append(("best so far", best[2] or 0.0, low, high, best[3], view.words(best)))
    if view.previous is not None and view.previous[0] not in [row[5] for row in rows]:
        config, ratio = view.previous
        rows.append(("previous best", *final.get(config, (ratio, None, None, ratio * unit)), config))
    if view.vendor is not None:
        name, ratio, low, high, ms = view.vendor
        rows.append((name, ratio, low, high, ms, "the vendor's library"))
    if view.bound is not None:
        rows.append((view.bound[2], view.bound[0] / unit, None, None, view.bound[0], view.bound[1]))
    return sorted(rows, key=lambda row: row[1])


def _default(view: Tuning) -> str:
    return " ".join(f"{name}={values[k]}" for name, values, k in view.tunables)


def importance(view: Tuning) -> list[tuple[str, float]]:
    """Return how much of the spread of log-times each tunable explains by itself, the most first.

    The share of the variance between the groups of configs that agree in that tunable (the correlation ratio; Fisher,
    Statistical Methods for Research Workers, 1925, section 45). Shares need not add up to 1: tunables work together.

    >>> trials = [([a, b], "right", ratio, ratio, "", {}) for a, b, ratio in
    ...           [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 0.5), (1, 1, 0.5)]]
    >>> importance(Tuning("", tunables=[("A", ["1", "2"], 0), ("B", ["1", "2"], 0)], trials=trials))
    [('A', 1.0), ('B', 0.0)]
    """
    import math

    right = [(t[0], math.log(t[2])) for t in view.trials if t[2]]
    if len(right) < 4:
        return []
    mean = sum(y for _, y in right) / len(right)
    whole = sum((y - mean) ** 2 for _, y in right)
    found = []
    for k, (name, values, _) in enumerate(view.tunables):
        groups: dict[int, list[float]] = {}
        for codes, y in right:
            groups.setdefault(codes[k], []).append(y)
        between = sum(len(g) * (sum(g) / len(g) - mean) ** 2 for g in groups.values())
        if len(values) > 1:
            found.append((name, round(between / whole, 3) if whole > 1e-12 else 0.0))
    return sorted(found, key=lambda pair: -pair[1])


def payload(view: Tuning) -> dict[str, Any]:
    """Return what the script draws; every number in it is finite."""
    data = asdict(view)
    data["trials"] = [
        [c, s, _round(r), _round(t), reason[:LONGEST], facts] for c, s, r, t, reason, facts in view.trials
    ]
    data["importance"] = importance(view)
    data["word"] = STATES[view.state]
    data["figures"] = figures(view)
    data["standing"] = [[name, *map(_round, numbers), words] for name, *numbers, words in standing(view)]
    return data


def _round(x: float | None) -> float | None:
    return None if x is None else float(f"{x:.4g}")


def figures(view: Tuning) -> str:
    """Return where it stands, in a line.

    >>> view = Tuning("k", size=40, spent_s=3.0, budget_s=60, trials=[([0], "right", 1.0, 2.0, "", {}),
    ...               ([1], "compile", None, None, "no", {})], tunables=[("A", ["1", "2"], 0)])
    >>> figures(view)
    '2 of 40 configs tried · 1 rejected · 3.0 s of 1 min 00 s'
    """
    mine = view.trials[view.known :]
    tried = len(mine)
    rejected = sum(t[2] is None for t in mine)
    same = sum(t[1] == "same" for t in mine)
    parts = [f"{tried:,} of {view.size:,} configs tried"]
    parts += [f"{view.resumed:,} known from earlier runs"] if view.resumed else []
    parts += [f"{same:,} with a binary already seen"] if same else []
    parts += [f"{rejected:,} rejected"] if rejected else []
    whole = f" of {seconds_text(view.budget_s)}" if view.budget_s and view.state in ("running", "paused") else ""
    return " · ".join([*parts, seconds_text(view.spent_s) + whole])


def html(view: Tuning, kernel: str = "") -> str:
    """Return the panel as one piece that stays when the notebook is saved, reopened without a kernel or exported.

    kernel : whom its buttons ask, as of `widgets.html`.

    >>> html(Tuning("softmax <b>")).count("<b>")
    0
    """
    data = packed(embed({"css": bundle("tuner.css"), **payload(view)}))
    return f'<div class="gradlab-tuning"{asks(kernel)}>{still(view)}{data}<script>{bundle("tuner.js")}</script></div>'


def still(view: Tuning) -> str:
    """Return the part that needs neither script nor style sheet."""
    cell = "padding:2px 10px 2px 0;text-align:left"
    rows = "".join(
        f'<tr><td style="{cell}">{ratio:.3f}</td><td style="{cell}">{escape(between(view, low, high))}</td>'
        f'<td style="{cell}">{escape(time_text(time))}</td>'
        f'<td style="{cell}"><code>{escape(config)}</code> {escape(mark)}</td></tr>'
        for config, ratio, low, high, time, mark, _ in view.places[:SHOWN]
    )
    head = "".join(f'<th style="{cell}">{h}</th>' for h in ("of default", "95 % interval", "time", "config"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    said = "".join(f"<p>{escape(line)}</p>" for line in [*view.verdict, *view.notes])
    beside = [row for row in standing(view) if row[0] not in ("best", "default")]
    said += "".join(f"<p>{escape(compared(row))}</p>" for row in beside)
    said += "".join(f"<p>{escape(line)}</p>" for line in view.beside)
    why = "".join(f"<li>{n:,} × {escape(reason[:LONGEST])}</li>" for reason, n in view.reasons)
    why = f"<details><summary>Rejected</summary><ul>{why}</ul></details>" if why else ""
    heading = f"<p><strong>{STATES[view.state]} {escape(view.title)}</strong><br>{escape(figures(view))}</p>"
    return f'<div class="gradlab-still">{heading}{said}{table}{_map(view)}{why}</div>'


def _map(view: Tuning) -> str:
    """Return the two tunables that matter most as a table of the best ratio for each pair of values."""
    first = [name for name, _ in importance(view)][:2]
    if len(first) < 2:
        return ""
    names = [t[0] for t in view.tunables]
    i, j = (names.index(n) for n in first)
    best: dict[tuple[int, int], float] = {}
    for codes, _, ratio, *_ in view.trials:
        if ratio is not None:
            at = codes[i], codes[j]
            best[at] = min(ratio, best.get(at, ratio))
    cell = "padding:3px 8px;text-align:right"
    head = "".join(f'<th style="{cell}">{escape(v)}</th>' for v in view.tunables[j][1])
    lines = []
    for a, value in enumerate(view.tunables[i][1]):
        cells = "".join(
            f'<td style="{cell}">{f"{best[a, b]:.2f}" if (a, b) in best else "·"}</td>'
            for b in range(len(view.tunables[j][1]))
        )
        lines.append(f'<tr><th style="{cell}">{escape(value)}</th>{cells}</tr>')
    caption = f"Best time of the default's, {escape(first[0])} down, {escape(first[1])} across"
    body = f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f"<table><caption>{caption}</caption>{body}</table>"


def between(view: Tuning, low: float, high: float) -> str:
    """Return an interval in words."""
    return "estimate" if view.estimate else f"{low:.3f} to {high:.3f}"


def compared(row: Standing) -> str:
    """Return a row of `standing` as a line.

    >>> compared(("OpenBLAS", 0.8, 0.79, 0.82, 0.0123, "the vendor's library"))
    "OpenBLAS: 0.800 of the default's time (0.790 to 0.820), 12.3 µs, the vendor's library"
    """
    name, ratio, low, high, ms, words = row
    interval = f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else ""
    parts = [f"{name}: {ratio:.3f} of the default's time{interval}", time_text(ms), words]
    return ", ".join(part for part in parts if part)


def text(view: Tuning) -> str:
    """Return a few lines of plain text.

    >>> print(text(Tuning("softmax_f32 4x4 float32", state="done", size=3, verdict=["The default stays."])))
    Tuned softmax_f32 4x4 float32
    0 of 3 configs tried · 0 ms
    The default stays.
    """
    lines: Sequence[str] = [f"{STATES[view.state]} {view.title}", figures(view), *view.verdict, *view.notes]
    lines = [*lines, *(compared(row) for row in standing(view) if row[0] not in ("best", "default"))]
    return "\n".join(plain(line, LONGEST) for line in lines)


def listener() -> str:
    """Return the module of the widget without a view that hears a card's buttons (`lab.notebook.card_buttons`)."""
    return bundle("listener.js")


def module() -> str:
    """Return the widget's module: the same panel, fed by its model."""
    return bundle("tuner_widget.js")
