"""Parts of a record as plain tables, for scripts and logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from widgets import difference
from widgets.figures import number, plain, shape_text, share, size_text, time_text
from widgets.record import Comparison, Record

LONGEST = 100  # characters of a name
Column = tuple[str, Callable[[Any], str]]


def _range(op: Any) -> str:
    s = op.stats
    return "" if s is None or s.min is None else f"{number(s.min)} … {number(s.max)}"


def _place(op: Any) -> str:
    line = "" if op.line is None else f"line {op.line}"
    return f"{op.file} {line}".strip()


TABLES: dict[str, tuple[Column, ...]] = {
    "ops": (
        ("id", lambda r: f"o{r.id}"),
        ("op", lambda r: r.op),
        ("runs", lambda r: f"{r.count:,}"),
        ("place", _place),
        ("module", lambda r: r.module),
        ("reads", lambda r: " ".join(r.inputs)),
        ("shape", lambda r: shape_text(r.shape)),
        ("dtype", lambda r: r.dtype),
        ("kernel", lambda r: r.kernel),
        ("forward", lambda r: time_text(r.forward_ms)),
        ("backward", lambda r: time_text(r.backward_ms)),
        ("values", _range),
        ("flags", lambda r: ", ".join(r.flags)),
    ),
    "lines": (
        ("line", lambda r: str(r.line)),
        ("runs", lambda r: f"{r.count:,}"),
        ("forward", lambda r: time_text(r.forward_ms)),
        ("backward", lambda r: time_text(r.backward_ms)),
    ),
    "gradients": (
        ("parameter", lambda r: r.name),
        ("shape", lambda r: shape_text(r.shape)),
        ("norm", lambda r: number(r.norm)),
        ("rms", lambda r: number(r.rms)),
        ("mean", lambda r: number(r.mean)),
        ("std", lambda r: number(r.std)),
        ("max", lambda r: number(r.max_abs)),
        ("zeros", lambda r: share(r.zeros)),
        ("update/weight", lambda r: number(r.update_ratio)),
        ("flags", lambda r: ", ".join(r.flags)),
    ),
    "kernels": (
        ("kernel", lambda r: r.kernel),
        ("backend", lambda r: r.backend),
        ("op", lambda r: r.op),
        ("runs", lambda r: f"{r.count:,}"),
        ("total", lambda r: time_text(r.total_ms)),
        ("mean", lambda r: f"{number(r.mean_us)} µs"),
        ("GB/s", lambda r: number(r.bytes_per_s / 1e9) if r.bytes_per_s else ""),
        ("GFLOP/s", lambda r: number(r.flops_per_s / 1e9) if r.flops_per_s else ""),
        ("first on", lambda r: ", ".join(r.inputs)),
        ("config", lambda r: r.config),
        ("declined", lambda r: "; ".join(r.declined)),
    ),
    "memory": (
        ("made by", lambda r: r.op),
        ("line", lambda r: "" if r.line is None else str(r.line)),
        ("shape", lambda r: shape_text(r.shape) if r.shape else ""),
        ("bytes at the peak", lambda r: size_text(r.size_bytes)),
        ("arrays", lambda r: f"{r.count:,}"),
        ("kept by line", lambda r: "" if r.keeper is None else str(r.keeper)),
        ("because", lambda r: r.why),
    ),
    "tensors": (
        ("id", lambda r: f"t{r.id}"),
        ("name", lambda r: r.name),
        ("kind", lambda r: r.kind),
        ("shape", lambda r: shape_text(r.shape)),
        ("dtype", lambda r: r.dtype),
    ),
}


def compare(before: Any, after: Any) -> Comparison:
    """Return the difference between two recordings of one piece of code: findings, times, memory, ops, lines,
    gradients.

    `before` and `after` are recordings or records. Times that differ by less than 15 % count as equal; where code, ops
    and kernels are the same, times are told in the difference's `note` and are no changes.

    *Raises*: TypeError for something else.

    >>> import core, lab
    >>> x = core.ones(64)
    >>> with lab.record() as a:
    ...     y = x.exp()
    >>> with lab.record() as b:
    ...     y = x.exp().log()
    >>> [(c.kind, c.name) for c in lab.compare(a, b).changes if c.kind.startswith("op")]
    [('op added', 'log')]
    """
    pair = [getattr(r, "record", r) for r in (before, after)]
    for r in pair:
        if not isinstance(r, Record):
            raise TypeError(
                f"compare: got {type(r).__name__}, needs two recordings; remedy: lab.record() or lab.last()"
            )
    return difference.compare(*pair)


def _part(record: Record, what: str) -> list[Any]:
    if what == "memory":
        return record.memory.held if record.memory is not None else []
    return getattr(record, what)  # type: ignore[no-any-return]


def table(record: Record, what: str = "ops") -> str:
    """Return one part of a record as aligned text; "memory" is what was alive at the peak.

    *Raises*: ValueError for a part that does not exist.

    >>> from widgets.record import LineRow
    >>> print(table(Record(lines=[LineRow(2, 0.25, 0.5, 3)]), "lines"))
    line  runs  forward  backward
    2     3     250 µs   500 µs
    """
    if what not in TABLES:
        raise ValueError(f"table(): got {what!r}, needs one of {', '.join(TABLES)}")
    columns = TABLES[what]
    rows = [[head for head, _ in columns]] + [
        [plain(show(row), LONGEST) for _, show in columns] for row in _part(record, what)
    ]
    widths = [max(len(row[k]) for row in rows) for k in range(len(columns))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
