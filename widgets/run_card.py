"""How the course of a run is shown: while it runs as one piece of HTML, afterwards on the card as data, picture and
text. Curves are laid out by `widgets.curves` and drawn as the training plot is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from . import curves, training
from .figures import count_text, number, plain, shorten, size_text
from .run_curves import Curve, PastRun, RunCurves
from .still import escape
from .training import Training, loss_text, seconds_text

LIVE_COLUMNS = 90
LIVE_LAYERS = 8
LAYERS = 32
METRICS = 6
FIGURES = 5
TITLE = "%%autograd"


def figures(run: RunCurves) -> list[tuple[str, str]]:
    """Return the last value of each number, the losses first.

    >>> figures(RunCurves(curves=[Curve("loss", last=0.25), Curve("lr", "rate", last=0.01)], memory_bytes=10**9))
    [('loss', '0.2500'), ('lr', '0.01'), ('memory', '1 GB')]
    """
    found = [(c.name, loss_text(c.last)) for c in run.curves if c.kind in ("loss", "validation", "metric")][:FIGURES]
    found += [(c.name, f"{c.last:.4g}") for c in run.curves if c.kind == "rate"][:1]
    return found + ([("memory", size_text(run.memory_bytes))] if run.memory_bytes else [])


def view(run: RunCurves, curve: Curve | None, columns: int = curves.COLUMNS) -> Training:
    """Return one curve as a plot: the loss with the validation's, and those of the last runs beside it."""
    check = run.check() if curve is not None and curve is run.main() else None
    made = Training(axis=run.unit, columns=columns)
    if curve is not None and curve.kind == "memory":
        curve = _in_bytes_unit(curve)
    if curve is not None:
        made.losses, made.names = curve.values, (curve.name, check.name if check else "validation")
        made.knots = [(k, float(a)) for k, a in enumerate(curve.at, 1)] or [(0.0, 0.0)]
        made.edges = (curve.low, curve.high) if curve.low else None
        made.others = [
            (past.title or "before", [(float(a), v) for a, v in zip(*same.finite(), strict=True)])
            for past in run.before
            if (same := _of_name(past, curve)) is not None and same.finite()[0]
        ]
    if check is not None:
        made.checks = [(float(a), v) for a, v in zip(*check.finite(), strict=True)]
    return made


def _in_bytes_unit(curve: Curve) -> Curve:
    """Return a curve of bytes in a unit of which it has few.

    >>> in_gb = _in_bytes_unit(Curve("memory", "memory", at=[1, 2], values=[1.5e9, 3e9]))
    >>> in_gb.name, in_gb.values
    ('memory, GB', [1.5, 3.0])
    """
    most = max(curve.finite()[1], default=0.0)
    size, unit = (1e9, "GB") if most >= 1e9 else (1e6, "MB") if most >= 1e6 else (1e3, "kB")
    made = replace(curve, name=f"{curve.name}, {unit}")
    made.values, made.low, made.high = ([v / size for v in row] for row in (curve.values, curve.low, curve.high))
    return made


def _of_name(past: PastRun, curve: Curve) -> Curve | None:
    same = [c for c in past.curves if c.kind == curve.kind]
    return next((c for c in same if c.name == curve.name), None)


def place(run: RunCurves) -> str:
    """Return where a run is, in words: "step 40 of 230"."""
    of = f" of {run.expected:,}" if run.expected else ""
    return f"{run.unit} {run.steps:,}{of}"


def live(run: RunCurves, seconds: float, title: str = TITLE, doing: str = "") -> str:
    """Return a run that goes on as HTML without a script and without what can be opened: it is replaced twice a second.

    seconds : since the cell began. doing : what it does at this moment.

    >>> run = RunCurves(40, expected=100, rate=20.0, curves=[Curve("loss", at=[1, 2], values=[2.0, 1.0], last=1.0)])
    >>> html = live(run, 2.0, doing="line 7")
    >>> "step 40 of 100" in html, "3.0 s left" in html, "<script" in html, len(html) < 10_000
    (True, True, False, True)
    """
    made = view(run, run.main(), LIVE_COLUMNS)
    made.title, made.state, made.figures = f"{title} running", "running", figures(run)
    made.place = " · ".join(part for part in (place(run) if run.steps else "", doing) if part)
    left = (run.expected - run.steps) / run.rate if run.expected and run.rate else None
    speed = f"{run.rate:,.0f}" if run.rate >= 100 else f"{run.rate:.1f}" if run.rate >= 1 else f"{run.rate:.2g}"
    parts = [f"{speed} {run.unit}s/s" if run.steps and run.rate else "", seconds_text(seconds)]
    made.timing = " · ".join([*filter(None, parts), *([f"{seconds_text(left)} left"] if left is not None else [])])
    made.done = min(run.steps / run.expected, 1.0) if run.expected else None
    made.message = " ".join([*run.said, run.note]).strip()
    if run.expected:
        made.extent = float(run.expected)
    return training.html(made, below=_layers_html(run))


def _layers_html(run: RunCurves) -> str:
    """Return the layers of a run that goes on: name, gradient norm and step beside weight, each with its course."""
    if not run.layers:
        return ""
    rows = []
    for row in run.layers[:LIVE_LAYERS]:
        cells = "".join(f"<td>{_spark(v)}</td><td>{number(_last(v))}</td>" for v in (row.norms, row.ratios))
        rows.append(f"<tr><th>{escape(shorten(plain(row.name), 30, keep_end=True))}</th>{cells}</tr>")
    more = len(run.layers) - LIVE_LAYERS
    rest = f'<tr><th>and {count_text(more, "more layer")}</th><td colspan="4"></td></tr>' if more > 0 else ""
    head = '<tr><th>layer</th><td colspan="2">gradient norm</td><td colspan="2">step / weight</td></tr>'
    body = f"<thead>{head}</thead><tbody>{''.join(rows)}{rest}</tbody>"
    return f'<div class="layers"><table>{body}</table></div>'


def _spark(values: list[float | None]) -> str:
    path = curves.spark(values[-40:])
    return f'<svg viewBox="0 0 100 20" aria-hidden="true"><path class="train" d="{path}"/></svg>'


def _last(values: list[float | None]) -> float | None:
    return next((v for v in reversed(values) if v is not None), None)


def summary(run: RunCurves) -> str:
    """Return a run in a line.

    >>> loss = Curve("loss", at=[1, 2], values=[2.0, 0.5], last=0.5)
    >>> summary(RunCurves(600, seconds=12.0, curves=[loss]))
    '600 steps in 12 s (50.0 a second); loss 2.00 → 0.500'
    """
    parts = []
    took = f" in {seconds_text(run.seconds)}" if run.seconds else ""
    speed = f" ({number(run.steps / run.seconds)} a second)" if run.seconds else ""
    word = run.unit if run.steps == 1 else run.unit.replace("pass", "passe") + "s"
    parts.append(f"{run.steps:,} {word}{took}{speed}")
    for curve in run.curves:
        values = curve.finite()[1]
        if curve.kind in ("loss", "validation", "metric") and values:
            parts.append(f"{curve.name} {number(values[0])} → {number(_end(curve))}")
    if run.memory_bytes:
        parts.append(f"at most {size_text(run.memory_bytes)} of memory")
    return "; ".join(parts[: FIGURES + 2])


def _end(curve: Curve) -> float | None:
    """Return where a curve ends as the picture has it: the loss of a single batch says little."""
    values = curve.finite()[1]
    return float(curves.smoothed(np.array(values))[-1]) if values else None


def shown_curves(run: RunCurves) -> list[Curve]:
    """Return the curves that have a plot of their own: the loss, numbers, rates that change, memory that does."""
    main, check = run.main(), run.check()
    found = [main] if main is not None else []
    others = [c for c in run.curves if c is not main and (c is not check or main is None) and len(c.finite()[0]) > 1]
    found += [c for c in others if c.kind in ("loss", "validation", "metric")][:METRICS]
    for curve in others:
        values = curve.finite()[1]
        if (curve.kind == "rate" and len(set(values)) > 1) or (
            curve.kind == "memory" and max(values) > 1.2 * min(values)
        ):
            found.append(curve)
    return found


def tab(run: RunCurves) -> dict[str, Any]:
    """Return what the card's "Run" tab draws."""
    plots = []
    for curve in shown_curves(run):
        drawn = training.drawn(view(run, curve))
        plots.append({"name": curve.name, "line": curve.line, **drawn})
    rows = []
    for row in run.layers[:LAYERS]:
        rows.append([row.name, *_course(row.norms), *_course(row.ratios)])
    runs = [_past_row(p) for p in run.before]
    if runs:
        now = PastRun("this run", run.seconds, run.steps, run.memory_bytes, curves=run.curves)
        runs.insert(0, _past_row(now))
    return {
        "lead": summary(run),
        "said": [*run.said, *([run.note] if run.note else [])],
        "plots": plots,
        "layers": rows,
        "layers_left": max(len(run.layers) - LAYERS, 0),
        "measured": len(run.layers_at),
        "runs": runs,
        "changes": run.changes,
        "unit": run.unit,
    }


def _course(values: list[float | None]) -> list[Any]:
    """Return the first and the last of a course as words, and its picture between: of a single value the first alone.

    >>> _course([None, 0.5]), _course([2.0, 0.5])[2]
    (['0.500', '', ''], '0.500')
    """
    known = [v for v in values if v is not None]
    return [number(known[0]) if known else "", curves.spark(values), number(known[-1]) if len(known) > 1 else ""]


def _past_row(past: PastRun) -> list[str]:
    main = RunCurves(curves=past.curves).main()
    check = RunCurves(curves=past.curves).check()
    ends = [number(_end(c)) if c is not None and c.finite()[1] else "" for c in (main, check)]
    size = size_text(past.memory_bytes) if past.memory_bytes else ""
    speed = number(past.steps / past.seconds) if past.seconds else ""
    return [past.title, f"{past.steps:,}", seconds_text(past.seconds), speed, size, *ends]


def still(run: RunCurves) -> str:
    """Return the run where scripts are stripped: its sentences, a picture of the loss, its figures."""
    said = "".join(
        f"<p>{escape(sentence)}</p>" for sentence in [summary(run), *run.said, run.note, *run.changes] if sentence
    )
    main = run.main()
    image = training.picture(view(run, main), "") if main is not None and len(main.finite()[0]) > 1 else ""
    return f"<details><summary>Run</summary>{said}{image}</details>"


def text(run: RunCurves) -> list[str]:
    """Return a few lines of text.

    >>> loss = Curve("loss", at=[1, 2, 3], values=[4.0, 2.0, 1.0], last=1.0)
    >>> print(*text(RunCurves(3, curves=[loss])), sep="\\n")
    run: 3 steps; loss 4.00 → 1.00
        █▃▁ loss
    """
    out = [plain(f"run: {summary(run)}")]
    main = run.main()
    if main is not None and len(main.finite()[0]) > 2:
        out.append(f"    {training.blocks(view(run, main))} {plain(main.name)}")
    out += [plain(f"    {sentence}") for sentence in [*run.said, run.note, *run.changes] if sentence]
    return out


def thinned(curve: Curve, most: int = 100) -> Curve:
    """Return a curve of at most so many points, without its edges: as much as is kept of an earlier run.

    >>> thinned(Curve("loss", at=[1, 2, 3, 4], values=[1.0, 2.0, 3.0, math.nan]), 2).values
    [1.5, 3.0]
    """
    step = max(math.ceil(len(curve.at) / most), 1)
    parts = [[v for v in curve.values[k : k + step] if math.isfinite(v)] for k in range(0, len(curve.at), step)]
    values = [sum(part) / len(part) if part else math.nan for part in parts]
    return Curve(curve.name, curve.kind, curve.line, curve.at[::step], values, [], [], curve.last,
                 curve.count, curve.lost)  # fmt: skip
