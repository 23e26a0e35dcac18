"""What a profile recorded: events with their times, tables over them, and traces that Chrome and Perfetto open."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]

SORTS = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "count", "flops", "cuda_time", "cuda_time_total",
         "self_cuda_time_total", "device_time", "device_time_total", "self_device_time_total")  # fmt: skip


class Interval(NamedTuple):
    """From when to when, in µs."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return how long it is."""
        return self.end - self.start


def _text(us: float) -> str:
    """A time as text: in µs, ms or s."""
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


class _Times:
    """The names that events and their averages share. What a device did meanwhile is not measured, and is 0."""

    count = 1
    cpu_time_total = self_cpu_time_total = 0.0
    device_time_total = self_device_time_total = cuda_time_total = self_cuda_time_total = 0.0
    flops: float | None = 0
    key: str

    @property
    def cpu_time(self) -> float:
        """The mean time of a call, in µs."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """The mean time of a device: not measured, 0."""
        return 0.0

    cuda_time = device_time
    cpu_time_str = property(lambda self: _text(self.cpu_time))
    cpu_time_total_str = property(lambda self: _text(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: _text(self.self_cpu_time_total))


class FunctionEvent(_Times):
    """An op, a gradient's node or a named block: its name, its time, what ran within it.

    Times are in µs; `input_shapes` and `stack` (the user's line) are there where they were asked for.
    """

    def __init__(self, name: str, start_us: float, end_us: float, thread: int, kind: str = "op",
                 input_shapes: list[Any] | None = None, stack: list[str] | None = None, flops: float = 0,
                 args: dict[str, Any] | None = None) -> None:  # fmt: skip
        self.name = self.key = name
        self.time_range, self.thread, self.kind = Interval(start_us, end_us), thread, kind
        self.input_shapes, self.stack, self.flops, self.args = input_shapes or [], stack or [], flops, args or {}
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.is_user_annotation = kind == "user_annotation"
        self.id = 0

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Its time, in µs."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Its time without that of what ran within it, in µs."""
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name} cpu_time={_text(self.cpu_time_total)} thread={self.thread}>"


class FunctionEventAvg(_Times):
    """Events of one name together."""

    def __init__(self, key: str) -> None:
        self.key, self.count = key, 0
        self.input_shapes: list[Any] = []
        self.stack: list[str] = []
        self.flops = 0
        self.is_user_annotation = False

    def add(self, event: _Times) -> FunctionEventAvg:
        """Take an event, or other averages, in."""
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.flops = (self.flops or 0) + (event.flops or 0)
        self.is_user_annotation = getattr(event, "is_user_annotation", False)
        return self

    def __repr__(self) -> str:
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={_text(self.self_cpu_time_total)} "
                f"cpu_time={_text(self.cpu_time)} count={self.count}>")  # fmt: skip


class EventList(list[Any]):
    """Events, or averages of them."""

    def _within(self) -> EventList:
        """Find what ran within what, by the times of each thread."""
        ordered = sorted(self, key=lambda e: (e.thread, e.time_range.start, -e.time_range.end))
        open_: list[FunctionEvent] = []
        for number, e in enumerate(ordered):
            e.id = number
            while open_ and (open_[-1].thread != e.thread or open_[-1].time_range.end < e.time_range.end):
                open_.pop()
            if open_:
                e.cpu_parent = open_[-1]
                open_[-1].cpu_children.append(e)
            open_.append(e)
        self[:] = ordered
        return self

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all of them, each moment once, in µs."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     **ignored: Any) -> EventList:  # fmt: skip
        """Return averages of events of one name (of one name and shapes, or places), the longest first."""
        found: dict[Any, FunctionEventAvg] = {}
        for e in self:
            key = (e.key, str(e.input_shapes) if group_by_input_shape else "",
                   tuple(e.stack[:group_by_stack_n]) if group_by_stack_n else ())  # fmt: skip
            if key not in found:
                found[key] = FunctionEventAvg(e.key)
                found[key].input_shapes = e.input_shapes if group_by_input_shape else []
                found[key].stack = e.stack[:group_by_stack_n]
            found[key].add(e)
        return EventList(sorted(found.values(), key=lambda a: -a.self_cpu_time_total))

    def total_average(self) -> FunctionEventAvg:
        """Return the average of all of them."""
        total = FunctionEventAvg("Total")
        for e in self:
            total.add(e)
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False, **ignored: Any) -> str:  # fmt: skip
        """Return a table as text.

        *Raises*: ValueError for an order that is not one of theirs.
        """
        if sort_by is not None and sort_by not in SORTS:
            raise ValueError(f"unknown sort_by {sort_by!r}\n  needed: one of {', '.join(SORTS)}")
        many: Iterable[Any] = self
        if top_level_events_only:
            many = [e for e in self if getattr(e, "cpu_parent", None) is None]
        rows = sorted(many, key=lambda e: -(getattr(e, sort_by) or 0)) if sort_by is not None else list(many)
        total = self.self_cpu_time_total or 1.0
        shapes, places, flops = (any(getattr(e, n) for e in rows) for n in ("input_shapes", "stack", "flops"))
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        titles += ["Input Shapes"] * shapes + ["Source Location"] * places + ["Total FLOPs"] * flops
        cells = [titles]
        for e in rows[: row_limit if row_limit >= 0 else None]:
            line = [e.key[:max_name_column_width], f"{100 * e.self_cpu_time_total / total:.2f}%",
                    _text(e.self_cpu_time_total), f"{100 * e.cpu_time_total / total:.2f}%", _text(e.cpu_time_total),
                    _text(e.cpu_time), str(e.count)]  # fmt: skip
            line += [str(e.input_shapes)[:max_shapes_column_width]] * shapes
            line += ["; ".join(e.stack)[-max_src_column_width:]] * places + [
                f"{e.flops:,}" if e.flops else "--"
            ] * flops
            cells.append(line)
        widths = [max(len(row[k]) for row in cells) for k in range(len(titles))]
        rule = "  ".join("-" * w for w in widths)
        lines = ["  ".join(c.rjust(w) if k else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
                 for row in cells]  # fmt: skip
        said = [*([header] if header else []), rule, lines[0], rule, *lines[1:], rule,
                f"Self CPU time total: {_text(self.self_cpu_time_total)}", ""]  # fmt: skip
        return "\n".join(said)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: Any) -> None:
        """Write a trace that ``chrome://tracing`` and ui.perfetto.dev open; packed where the name ends in .gz."""
        pid = os.getpid()
        threads = {t: k for k, t in enumerate(dict.fromkeys(e.thread for e in self))}
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": k, "args": {"name": f"thread {k}"}}
            for k in threads.values()
        ]
        events += [{"ph": "X", "cat": e.kind, "name": e.name, "pid": pid, "tid": threads[e.thread],
                    "ts": e.time_range.start, "dur": e.cpu_time_total, "args": _told(e)} for e in self]  # fmt: skip
        opened = gzip.open if str(path).endswith(".gz") else open
        with opened(path, "wt") as file:
            json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events}, file)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write the time of each place of the program, a line each, as flame graphs read it."""
        with open(path, "w") as file:
            for e in self:
                if e.stack:
                    file.write(f"{';'.join(reversed(e.stack))};{e.key} {int(getattr(e, metric))}\n")


def _told(e: FunctionEvent) -> dict[str, Any]:
    given = {"Input Dims": e.input_shapes, "Call stack": "; ".join(e.stack), **e.args}
    return {k: v for k, v in given.items() if v}
