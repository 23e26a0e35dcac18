"""What the card's script draws: compact JSON-able data, rows as arrays, their keys once, repeated strings by number."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import count
from operator import attrgetter
from typing import Any

from . import run_card
from .figures import shape_text
from .graph import Chip, Graph, Item, View, badge
from .record import OpRow, Record, kernel_names
from .source import colours, lines_of
from .still import NO_GRADIENT, PARTIAL, STOPPED, error_message, explained, shown

NOT_REACHED = "backward did not come here"
FLAGS = {"cut": 1, "nan": 2, "error": 4, "unreached": 8}

RUNS = 1000
"""Runs that the timeline draws: the longest."""

Columns = dict[str, Callable[[Any], Any]]


def payload(record: Record, graph: Graph) -> dict[str, Any]:
    """Everything the live card shows; a key that starts with "$" marks a column of string numbers.

    Examples
    --------
    >>> from widgets.graph import build
    >>> from widgets.record import KernelRow, Record
    >>> record = Record(kernels=[KernelRow("tanh_f32", "C", "tanh", 2, 0.5, 250.0)])
    >>> data = payload(record, build(record))
    >>> data["keys"]["kernels"][:3], [row[:3] for row in data["kernels"]]
    (['$kernel', '$backend', 'count'], [[1, 2, 2]])
    """
    op_index = {op.id: i for i, op in enumerate(record.ops)}
    known = [run for run in record.runs if run.op in op_index]
    read = iter(graph.reads)
    runs = sorted(sorted(known, key=lambda r: -r.ms)[:RUNS], key=lambda r: r.start_ms)
    tables: dict[str, tuple[Columns, Iterable[Any]]] = {
        "kernels": (_KERNEL, list(zip(record.kernels, kernel_names(record.kernels), strict=True))),
        "ops": (_OP | {"reads": lambda _: next(read)}, record.ops),
        "by_op": (_BY_OP, _by(record, lambda op: op.op)),
        "by_module": (_BY_OP, _by(record, lambda op: op.module or "outside modules")),
        "tensors": (_TENSOR, record.tensors),
        "lines": (_LINE, record.lines),
        "pages": (_PAGE, record.pages),
        "gradients": (_GRADIENT, record.gradients),
        "runs": (_RUN | {"op": lambda r: op_index[r.op]}, runs),
        "changes": (_CHANGE, record.comparison.changes if record.comparison else []),
        "compiled": (_COMPILED, [(f.name, piece) for f in record.compiled for piece in f.pieces]),
        "memory_rows": (_MEMORY, record.memory.rows if record.memory else []),
        "held": (_HELD | {"op": lambda h: op_index.get(h.number)}, record.memory.held if record.memory else []),
        "findings": (_FINDING | {"ops": lambda f: [op_index[i] for i in f.ops if i in op_index]}, shown(record)),
    }
    strings = _Strings()
    put = strings.put
    memory = record.memory
    error = record.error
    return {
        "head": {
            "title": record.title,
            "device": record.device,
            "forward": figure(record.forward_ms),
            "backward": figure(record.backward_ms),
            "update": figure(record.update_ms),
            "recording": figure(record.recording_ms),
            "other": figure(record.other_ms),
            "wall": figure(record.wall_ms),
        },
        "checked": record.checked,
        "machine": record.machine and vars(record.machine),
        "hint": "Point at a line for its times and its boxes in the graph.",
        "help": "Click a box for its kernel, times and values. Enter opens a group, Esc goes up, arrows move, "
        "+ and − zoom, 0 fits.",
        "beside_note": record.comparison.note if record.comparison else "",
        "beside": record.comparison and (record.comparison.before or "the last run"),
        "runs_left": len(known) - len(runs),
        "runs_later": record.runs_left,
        "memory": memory
        and {
            "peak": memory.peak_bytes,
            "at": figure(memory.peak_ms),
            "end": memory.end_bytes,
            "times": [figure(t) for t in memory.times_ms],
            "sizes": memory.bytes,
            "line": memory.peak_line,
            "by": memory.peak_op,
        },
        "compiled_said": [[f.name, f.said] for f in record.compiled],
        "run": record.course and run_card.tab(record.course),
        "partial": PARTIAL,
        "stopped": record.stopped and [record.stopped, STOPPED, _line_of(record.stopped)],
        "reached": NOT_REACHED,
        "unreached": NO_GRADIENT[0].upper() + NO_GRADIENT[1:] + ".",
        "failed": [i for i, op in enumerate(record.ops) if "error" in op.flags],
        "source": lines_of(record.source),
        "colours": colours(record.source),
        "error": error
        and {"type": error.type, "message": error_message(record), "line": error.line, "told": explained(record)},
        "keys": {name: list(columns) for name, (columns, _) in tables.items()} | {"items": list(_ITEM)},
        **{name: _rows(columns, rows, put) for name, (columns, rows) in tables.items() if name != "ops"},
        "ops": _columns(*tables["ops"], put),
        "views": [
            {
                "label": view.label,
                "up": view.parent,
                "note": _note(view),
                "first": next((k for k, item in enumerate(view.items) if item.kind in ("op", "group")), 0),
                "layout": view.layout,
                "edges": view.edges,
                "items": _items(view.items, record.ops, put),
            }
            for view in graph.views
        ],
        "layouts": [
            {
                "w": round(layout.width),
                "h": round(layout.height),
                "b": [round(c) for box in layout.boxes for c in box],
                "r": [[round(c) for c in route] for route in layout.routes],
            }
            for layout in graph.layouts
        ],
        "start": graph.start,
        "branches": graph.told,
        "strings": list(strings.number),
    }


def _line_of(sentence: str) -> int | None:
    """Return the line that a sentence names.

    Examples
    --------
    >>> _line_of("Stopped by you at line 7 after 3 steps."), _line_of("Stopped by you after 1 op.")
    (7, None)
    """
    found = re.search(r"\bline (\d+)", sentence)
    return int(found[1]) if found else None


def figure(value: float | None, digits: int = 4) -> float | str | None:
    """Return a figure that JSON can hold and that is no longer than it is precise.

    Examples
    --------
    >>> figure(0.123456789), figure(float("nan")), figure(None)
    (0.1235, 'NaN', None)
    """
    if not value:
        return value
    if value - value != 0:
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return float(format(value, ".4g" if digits == 4 else f".{digits}g"))


def mask(flags: list[str]) -> int:
    """Flags as bits; one that the card does not know has no mark.

    Examples
    --------
    >>> mask(["cut", "error", "else"])
    5
    """
    return sum({FLAGS.get(flag, 0) for flag in flags}) if flags else 0


class _Strings:
    """A table of the strings, each written once: names, kernels and shapes come back all the time."""

    def __init__(self) -> None:
        self.number: defaultdict[str, int] = defaultdict(count(1).__next__, {"": 0})
        self.put = self.number.__getitem__


def _rows(columns: Columns, rows: Iterable[Any], put: Callable[[str], int]) -> list[list[Any]]:
    rows = list(rows)  # by column, since ten thousand rows are soon a quarter of a million figures
    read = [map(column, rows) for column in columns.values()]
    written = [map(put, column) if name[0] == "$" else column for name, column in zip(columns, read, strict=True)]
    return list(map(list, zip(*written, strict=True)))


class Text:
    """A piece of JSON: ten thousand figures are written twice as fast as they are rounded and then written."""

    def __init__(self, text: str) -> None:
        self.text = text


def _columns(columns: Columns, rows: Iterable[Any], put: Callable[[str], int]) -> Text:
    """Return how many rows, and their columns; one that is the same in all rows is a list of one value."""
    rows = list(rows)
    written = []
    for name, column in columns.items() if rows else ():
        values = list(map(put, map(column, rows)) if name[0] == "$" else map(column, rows))
        if name in _AS_FIGURES:
            values = _figures(values)
        same = values.count(values[0]) == len(rows)
        values = values[:1] if same else values
        written.append(f"[{','.join(values)}]" if name in _AS_TEXT else json.dumps(values, separators=(",", ":")))
    return Text(f"[{len(rows)},[{','.join(written)}]]")


def _figures(values: list[float | None]) -> list[str]:
    """Figures as JSON, as `figure` has them.

    Examples
    --------
    >>> _figures([0.0, 0.123456789, 2.0]), _figures([None, float("nan")])
    (['0', '0.1235', '2'], ['null', '"NaN"'])
    """
    try:
        texts = [format(value, ".4g") for value in values]
    except TypeError:
        texts = ["n"]
    return [json.dumps(figure(value)) for value in values] if "n" in "".join(texts) else texts


def _items(items: list[Item], ops: list[OpRow], put: Callable[[str], int]) -> list[Any]:
    """Boxes as rows; one of which its op says all is the op's number."""
    plain = [_plain(item, ops) for item in items]
    columns = _ITEM | {"chips": lambda it: [[put(c.label), _tone(c)] for c in it.chips]}
    rows = iter(_rows(columns, [item for item, op in zip(items, plain, strict=True) if not op], put))
    return [item.index if op else next(rows) for item, op in zip(items, plain, strict=True)]


def _plain(item: Item, ops: list[OpRow]) -> bool:
    if item.kind != "op" or item.chips or item.place or item.flags:
        return False
    op = ops[item.index]
    return item.label == (f"{op.op} ×{op.count:,}" if op.count > 1 else op.op)


def _stats(op: Any) -> str:
    """Return the figures of an op's values as JSON."""
    s = op.stats
    if s is None:
        return "null"
    if s.min is None:
        return f"[null,null,null,null,0,{s.nonfinite}]"
    try:
        text = f"[{s.min:.4g},{s.max:.4g},{s.mean:.4g},{s.std:.4g},{s.zeros:.4g},{s.nonfinite}]"
    except TypeError:
        text = "none"
    return text if "n" not in text else f"[{','.join(_figures([s.min, s.max, s.mean, s.std, s.zeros]))},{s.nonfinite}]"


def _at(op: OpRow) -> str:
    """Return the lines that an op lies on, "page:line" with page 0 for the cell: its own, and those that led to it."""
    if not op.calls and not op.via:
        return "" if op.line is None or op.file else f"0:{op.line}"
    own = {f"0:{call[0]}": 0 for call in reversed(op.calls)}
    if not op.calls and op.line is not None and not op.file:
        own[f"0:{op.line}"] = 0
    return " ".join([*own, *(f"{op.via[k] + 1}:{op.via[k + 1]}" for k in range(0, len(op.via), 2))])


_OP: Columns = {
    "$op": attrgetter("op"),
    "count": attrgetter("count"),
    "line": attrgetter("line"),
    "col": attrgetter("col"),
    "$file": attrgetter("file"),
    "$code": attrgetter("code"),
    "$module": attrgetter("module"),
    "$at": _at,
    "$kernel": attrgetter("kernel"),
    "$backend": attrgetter("backend"),
    "$shape": lambda o: shape_text(o.shape),
    "$dtype": attrgetter("dtype"),
    "forward": attrgetter("forward_ms"),
    "backward": attrgetter("backward_ms"),
    "slowest": lambda o: o.forward_max_ms if o.count > 1 else 0,
    "size_bytes": attrgetter("size_bytes"),
    "requires_grad": lambda o: int(o.requires_grad),
    "stats": _stats,
    "flags": lambda o: mask(o.flags) if o.flags else 0,
}
_AS_FIGURES = {"forward", "backward", "slowest"}
_AS_TEXT = {*_AS_FIGURES, "stats"}
_PAGE: Columns = {
    "$name": attrgetter("name"),
    "$file": attrgetter("file"),
    "first": attrgetter("first"),
    "text": lambda p: lines_of(p.text),
    "colours": lambda p: colours(p.text),
    "lines": lambda p: [[r.line, figure(r.forward_ms), figure(r.backward_ms), r.count] for r in p.lines],
}
_TENSOR: Columns = {
    "$name": attrgetter("name"),
    "$kind": attrgetter("kind"),
    "$shape": lambda t: shape_text(t.shape),
    "$dtype": attrgetter("dtype"),
    "requires_grad": lambda t: int(t.requires_grad),
}
_LINE: Columns = {
    "line": attrgetter("line"),
    "forward": lambda row: figure(row.forward_ms),
    "backward": lambda row: figure(row.backward_ms),
    "other": lambda row: figure(row.other_ms),
    "count": attrgetter("count"),
}
_GRADIENT: Columns = {
    "name": attrgetter("name"),
    "$shape": lambda g: shape_text(g.shape),
    "norm": lambda g: figure(g.norm),
    "rms": lambda g: figure(g.rms),
    "mean": lambda g: figure(g.mean),
    "std": lambda g: figure(g.std),
    "max_abs": lambda g: figure(g.max_abs),
    "zeros": lambda g: figure(g.zeros),
    "weight_rms": lambda g: figure(g.weight_rms),
    "update_ratio": lambda g: figure(g.update_ratio),
    "nonfinite": attrgetter("nonfinite"),
    "histogram": attrgetter("histogram"),
    "count": attrgetter("count"),
    "flags": attrgetter("flags"),
}
_KERNEL: Columns = {
    "$kernel": lambda row: row[1],
    "$backend": lambda row: row[0].backend,
    "count": lambda row: row[0].count,
    "forward": lambda row: figure(row[0].total_ms),
    "mean_us": lambda row: figure(row[0].mean_us),
    "bytes_per_s": lambda row: figure(row[0].bytes_per_s),
    "flops_per_s": lambda row: figure(row[0].flops_per_s),
    "$op": lambda row: row[0].op,
    "$dtype": lambda row: row[0].dtype,
    "$device": lambda row: row[0].device,
    "$config": lambda row: row[0].config,
    "inputs": lambda row: row[0].inputs,
    "declined": lambda row: row[0].declined,
    "tune": lambda row: row[0].tune,
}
_RUN: Columns = {
    "start": lambda r: figure(r.start_ms, 6),
    "ms": lambda r: figure(r.ms),
    "$phase": attrgetter("phase"),
}
_CHANGE: Columns = {
    "$kind": attrgetter("kind"),
    "name": attrgetter("name"),
    "before": attrgetter("before"),
    "after": attrgetter("after"),
    "line": attrgetter("line"),
    "note": attrgetter("note"),
}
_COMPILED: Columns = {
    "$name": lambda pair: pair[0],
    "$part": lambda pair: pair[1].part,
    "what": lambda pair: pair[1].what,
    "line": lambda pair: pair[1].line,
    "place": lambda pair: pair[1].place,
}
_MEMORY: Columns = {
    "line": attrgetter("line"),
    "made": attrgetter("made_bytes"),
    "peak": attrgetter("peak_bytes"),
    "end": attrgetter("kept_bytes"),
    "held": attrgetter("held_bytes"),
    "count": attrgetter("count"),
}
_HELD: Columns = {
    "$name": attrgetter("op"),
    "line": attrgetter("line"),
    "$shape": lambda h: shape_text(h.shape) if h.shape else "",
    "keeper": attrgetter("keeper"),
    "$why": attrgetter("why"),
    "bytes": attrgetter("size_bytes"),
    "count": attrgetter("count"),
}
_FINDING: Columns = {
    "severity": attrgetter("severity"),
    "reads": attrgetter("reads"),
    "line": attrgetter("line"),
    "message": attrgetter("message"),
    "remedy": attrgetter("remedy"),
    "tried": attrgetter("tried"),
    "patch": attrgetter("patch"),
    "parameters": attrgetter("parameters"),
}


def _by(record: Record, name: Callable[[OpRow], str]) -> list[tuple[str, int, float, float]]:
    """Runs, forward and backward time of the ops that share a name."""
    found: dict[str, tuple[str, int, float, float]] = {}
    for op in record.ops:
        key = name(op)
        _, count, forward, backward = found.get(key, ("", 0, 0.0, 0.0))
        found[key] = (key, count + op.count, forward + op.forward_ms, backward + op.backward_ms)
    return list(found.values())


def _note(view: View) -> str:
    """Return what is to be said about a view before its scale: its folding, and the marks that occur in it."""
    flags = {flag for item in view.items if item.flags for flag in item.flags}
    legend = {"cut": "red dashes: cut", "unreached": "dotted: not reached"}
    words = [view.note, *(legend[flag] for flag in legend if flag in flags)]
    return "".join(word + " · " for word in words if word)


def _marks(item: Item) -> str:
    """Return the style classes of a box."""
    if not item.flags:
        return ""
    classes = {"cut": "cut", "nan": "bad", "error": "bad", "unreached": "unreached"}
    return " ".join(dict.fromkeys(classes[flag] for flag in classes if flag in item.flags))


def _tone(chip: Chip) -> int:
    """Return which kind of label a chip is: ordinary, no gradient, a slow run, a branch."""
    return 1 if chip.no_gradient else 2 if chip.outlier else 3 if chip.branch else 0


def _own(item: Item) -> bool:
    """Return whether the item's figures are not simply those of its op."""
    return item.kind == "group"


_BY_OP: Columns = {
    "$op": lambda row: row[0],
    "count": lambda row: row[1],
    "forward": lambda row: figure(row[2]),
    "backward": lambda row: figure(row[3]),
}
_ITEM: Columns = {
    "$kind": attrgetter("kind"),
    "index": attrgetter("index"),
    "$label": attrgetter("label"),
    "$detail": attrgetter("detail"),
    "$place": attrgetter("place"),
    "$badge": badge,
    "$marks": _marks,
    "chips": attrgetter("chips"),
    "forward": lambda it: figure(it.forward_ms) if _own(it) else 0,
    "backward": lambda it: figure(it.backward_ms) if _own(it) else 0,
    "flags": lambda it: mask(it.flags) if _own(it) else 0,
}
