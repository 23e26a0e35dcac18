"""The difference between two records of one piece of code: what came, what went, what became slower, larger, wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from textwrap import wrap
from typing import Any

from .figures import number, plain, shape_text, shorten, size_text, time_text
from .record import Change, Comparison, Finding, OpRow, Record
from .source import lines_of

SLOWER = 1.15
"""A time that grew by less is the machine's noise; two runs of one cell differ by a tenth."""
SMALL_MS = 0.05
NORM = 1.5
"""A gradient norm that changed by less is another batch's."""
WIDTH = 100
WIDTHS = (8, 30, 15, 15, 9, 13)
"""Of the columns, at most; with two spaces between them they fill `WIDTH`."""


def compare(before: Record, after: Record) -> Comparison:
    """What is different in `after`, in order of weight.

    Examples
    --------
    >>> a = Record(ops=[OpRow(0, "relu", shape=[4], code="x.relu()")], forward_ms=1.0)
    >>> b = Record(ops=[OpRow(0, "gelu", shape=[4], code="F.gelu(x)")], forward_ms=3.0)
    >>> [(c.kind, c.name, c.before, c.after) for c in compare(a, b).changes]
    [('time', 'forward', '1.00 ms', '3.00 ms'), ('op gone', 'relu', '4', ''), ('op added', 'gelu', '', '4')]
    """
    changes = [
        *_findings(before, after),
        *_totals(before, after),
        *_ops(before, after),
        *_lines(before, after),
        *_gradients(before, after),
    ]
    return Comparison(before.title, after.title, changes)


def text(comparison: Comparison) -> str:
    """A comparison as aligned lines of at most 100 characters.

    Examples
    --------
    >>> print(text(Comparison("In [1]", "In [2]", [Change("time", "forward", "1.00 ms", "3.00 ms", 3, "×3.0")])))
    In [2] beside In [1]
    time  forward  1.00 ms  3.00 ms  line 3  ×3.0
    """
    head = shorten(plain(f"{comparison.after or 'this run'} beside {comparison.before or 'the last run'}"), WIDTH)
    if not comparison.changes:
        return f"{head}\nNothing changed beyond the noise of two runs."
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


def _ratio(a: float, b: float) -> str:
    """How many times `a` went into `b`."""
    return f"×{b / a:.2g}" if a else ""


def _findings(before: Record, after: Record) -> Iterable[Change]:
    def key(f: Finding) -> tuple[Any, ...]:
        return f.kind, tuple(f.parameters), f.message if not f.parameters else ""

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


def _gradients(before: Record, after: Record) -> Iterable[Change]:
    old = {g.name: g for g in before.gradients}
    for g in after.gradients:
        same = old.get(g.name)
        if same is None:
            yield Change("gradient", g.name, "", _norm(g.norm), None, "new")
        elif (same.norm is None) != (g.norm is None):
            yield Change("gradient", g.name, _norm(same.norm), _norm(g.norm), None, "")
        elif same.norm is not None and g.norm is not None:
            low, high = sorted((same.norm, g.norm))
            if high > NORM * low:
                yield Change("gradient", g.name, _norm(same.norm), _norm(g.norm), None, _ratio(same.norm, g.norm))
    names = {g.name for g in after.gradients}
    for name, g in old.items():
        if name not in names:
            yield Change("gradient", name, _norm(g.norm), "", None, "gone")


def _norm(value: float | None) -> str:
    return "none" if value is None else number(value)
