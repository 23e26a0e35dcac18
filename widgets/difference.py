"""The difference between two records of one piece of code: what came, what went, what became slower, larger, wrong.

Where the code, its ops and their kernels are the same, two runs differ by what the machine did besides and by what the
first has trained: times and sizes of gradients are then told, and are no changes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from textwrap import wrap
from typing import Any

from .figures import count_text, number, plain, shape_text, shorten, size_text, time_text
from .record import Change, Comparison, Finding, OpRow, Record
from .source import lines_of

SLOWER = 1.15
"""A time that grew by less is the machine's noise; two runs of one cell differ by a tenth."""
SMALL_MS = 0.05
NORM = 1.5
"""A gradient norm that changed by less is another batch's."""
FEW = 8
"""Gradients whose norms changed that are listed; more of them are one change."""
GREW = 1.5
GREW_BYTES = 1_000_000
"""Memory of the same ops that grew by less is what the first run left behind."""
WIDTH = 100
NOTHING = "Nothing changed beyond the noise of two runs."
WIDTHS = (8, 30, 15, 15, 9, 13)
"""Of the columns, at most; with two spaces between them they fill `WIDTH`."""


def compare(before: Record, after: Record) -> Comparison:
    """Return what is different in `after`, in order of weight.

    Examples
    --------
    >>> a = Record(ops=[OpRow(0, "relu", shape=[4], code="x.relu()")], forward_ms=1.0)
    >>> b = Record(ops=[OpRow(0, "gelu", shape=[4], code="F.gelu(x)")], forward_ms=3.0)
    >>> [(c.kind, c.name, c.before, c.after) for c in compare(a, b).changes]
    [('time', 'forward', '1.00 ms', '3.00 ms'), ('op gone', 'relu', '4', ''), ('op added', 'gelu', '', '4')]
    """
    same = _same(before, after)
    changes = [
        *_findings(before, after, same),
        *(_grown(before, after) if same else _totals(before, after)),
        *_ops(before, after),
        *(() if same else _lines(before, after)),
        *_gradients(before, after, same),
    ]
    took = before.wall_ms and after.wall_ms
    note = f"It took {time_text(after.wall_ms)}; before, {time_text(before.wall_ms)}." if same and took else ""
    return Comparison(before.title, after.title, changes, note)


def _same(before: Record, after: Record) -> bool:
    """Return whether two records are runs of one code, with the same ops by the same kernels."""

    def identity(record: Record) -> Any:
        ops = Counter((op.op, op.module, op.line, op.file, op.kernel, op.backend, tuple(op.shape)) for op in record.ops)
        kernels = sorted({(k.kernel, k.backend, k.op, k.config) for k in record.kernels})
        machine = {k: v for k, v in record.environment.items() if k not in ("recording", "gradients")}
        pages = sorted((p.name, p.text) for p in record.pages)
        return record.source, pages, ops, kernels, machine, record.device

    return bool(after.source and after.ops) and identity(before) == identity(after)


def text(comparison: Comparison) -> str:
    """Return a comparison as aligned lines of at most 100 characters.

    Examples
    --------
    >>> print(text(Comparison("In [1]", "In [2]", [Change("time", "forward", "1.00 ms", "3.00 ms", 3, "×3.0")])))
    In [2] beside In [1]
    time  forward  1.00 ms  3.00 ms  line 3  ×3.0
    """
    head = shorten(plain(f"{comparison.after or 'this run'} beside {comparison.before or 'the last run'}"), WIDTH)
    if not comparison.changes:
        return f"{head}\n{NOTHING} {comparison.note}".rstrip()
    lines = [head]
    for c in comparison.changes:  # a finding is a sentence, which no column holds
        if c.kind == "finding":
            words = plain(f"{c.kind} {c.note}: {c.after or c.before}")
            lines += wrap(words, WIDTH, subsequent_indent="    ")
    rows = [
        [c.kind, c.name, c.before or "–", c.after or "–", f"line {c.line}" if c.line else "", c.note]
        for c in comparison.changes
        if c.kind != "finding"
    ]
    rows = [
        [shorten(plain(x), n, keep_end=row[0] == "gradient") for x, n in zip(row, WIDTHS, strict=True)] for row in rows
    ]
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(6)]
    lines += ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


_FIGURE = re.compile(r"(?<![\w.])[-+]?\d[\d,.]*(e[-+]?\d+)?")


def _ratio(a: float, b: float) -> str:
    """Return how many times `a` went into `b`."""
    return f"×{b / a:.2g}" if a else ""


def _findings(before: Record, after: Record, same: bool) -> Iterable[Change]:
    """Findings that came and went; their figures, and where the code stayed their parameters, may be others."""

    def key(f: Finding) -> tuple[Any, ...]:
        if same:
            return f.kind, f.line
        return f.kind, tuple(f.parameters), _FIGURE.sub("#", f.message) if not f.parameters else ""

    old, new = {key(f): f for f in before.findings}, {key(f): f for f in after.findings}
    for k, f in new.items():
        if k not in old:
            yield Change("finding", f.kind, "", f.message, f.line, "new")
    for k, f in old.items():
        if k not in new:
            yield Change("finding", f.kind, f.message, "", f.line, "gone")


def _totals(before: Record, after: Record) -> Iterable[Change]:
    for name in ("forward", "backward", "update", "wall"):
        a, b = getattr(before, f"{name}_ms"), getattr(after, f"{name}_ms")
        if _differs(a, b):
            yield Change("time", name, time_text(a), time_text(b), None, _ratio(a, b))
    if before.memory and after.memory:
        a, b = before.memory.peak_bytes, after.memory.peak_bytes
        if max(a, b) > 1.05 * min(a, b):
            yield Change("memory", "peak", size_text(a), size_text(b), None, _ratio(a, b))


def _grown(before: Record, after: Record) -> Iterable[Change]:
    """Memory that the same ops take more of: something keeps what an earlier run has made."""
    if before.memory and after.memory:
        a, b = before.memory.peak_bytes, after.memory.peak_bytes
        if b > GREW * a and b - a > GREW_BYTES:
            yield Change("memory", "peak", size_text(a), size_text(b), None, _ratio(a, b))


def _differs(a: float, b: float) -> bool:
    low, high = sorted((a, b))
    return high > SLOWER * low and high - low > SMALL_MS


def _ops(before: Record, after: Record) -> Iterable[Change]:
    def kinds(record: Record) -> Counter[tuple[str, str, str]]:
        return Counter((op.op, op.module, shape_text(op.shape)) for op in record.ops)

    def place(record: Record, kind: tuple[str, str, str]) -> OpRow:
        return next(op for op in record.ops if (op.op, op.module, shape_text(op.shape)) == kind)

    a, b = kinds(before), kinds(after)
    gone, added = a - b, b - a
    other: dict[tuple[str, str, str], str] = {}  # of those that came, the shape they had: the same op of another batch
    for kind, count in list(gone.items()):
        same = next((k for k, n in added.items() if k[:2] == kind[:2] and n == count and k not in other), None)
        if same is not None:
            other[same] = kind[2]
            del gone[kind]
    for sign, record, found in (("gone", before, gone), ("added", after, added)):
        for kind, count in found.items():
            op = place(record, kind)
            note = " ".join(filter(None, (f"{count} of them" if count > 1 else "", kind[1])))
            line = op.line if not op.file else None
            if kind in other and sign == "added":
                yield Change("op shape", kind[0], other[kind], kind[2], line, note)
            else:
                yield Change(f"op {sign}", kind[0], *((kind[2], "") if sign == "gone" else ("", kind[2])), line, note)


def _lines(before: Record, after: Record) -> Iterable[Change]:
    """Lines of the same text."""
    old = {_line(before, row.line): row for row in before.lines}
    for row in after.lines:
        same = old.get(_line(after, row.line))
        if same is None:
            continue
        a, b = same.forward_ms + same.backward_ms, row.forward_ms + row.backward_ms
        if _differs(a, b):
            yield Change("line", _line(after, row.line), time_text(a), time_text(b), row.line, _ratio(a, b))


def _line(record: Record, line: int) -> str:
    lines = lines_of(record.source)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _gradients(before: Record, after: Record, same: bool) -> Iterable[Change]:
    """Gradients that came, went or stopped being finite, and norms that are others though the code is no longer it."""
    old = {g.name: g for g in before.gradients}
    other: list[tuple[float, Change]] = []  # by how much a norm changed
    for g in after.gradients:
        last = old.get(g.name)
        if last is None:
            yield Change("gradient", g.name, "", _norm(g.norm), None, "new")
        elif last.norm is None or g.norm is None or not (math.isfinite(last.norm) and math.isfinite(g.norm)):
            if _norm(last.norm) != _norm(g.norm):
                yield Change("gradient", g.name, _norm(last.norm), _norm(g.norm), None, "")
        elif not same:
            low, high = sorted((last.norm, g.norm))
            if high > NORM * low:
                change = Change("gradient", g.name, _norm(last.norm), _norm(g.norm), None, _ratio(last.norm, g.norm))
                other.append((high / low if low else math.inf, change))
    if len(other) > FEW:
        most = max(other, key=lambda pair: pair[0])[1]
        note = f"most: {most.name} {most.note}".rstrip()
        yield Change("gradient", count_text(len(other), "norm"), "", "", None, note)
    else:
        yield from (change for _, change in other)
    names = {g.name for g in after.gradients}
    for name, g in old.items():
        if name not in names:
            yield Change("gradient", name, _norm(g.norm), "", None, "gone")


def _norm(value: float | None) -> str:
    return "none" if value is None else number(value)
