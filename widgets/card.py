"""The card under a cell: one piece of self-contained HTML that works saved, reopened, exported and stripped of scripts.

Its first child is the still card (`widgets/still.py`: a picture and tables with inline styles only). The script that follows
replaces it by the live one inside a shadow root, so that several cards on a page share neither style nor state. Everything a
record holds is data: escaped in the still card, and JSON that the script hands to `textContent` in the live one.
"""

import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

from . import graph as graph_module
from .figures import shape_text
from .graph import Graph, Item
from .record import Record
from .source import colours
from .still import still

KINDS = {"op": 0, "group": 1, "leaf": 2, "port": 3}
FLAGS = {"cut": 1, "nan": 2, "error": 4, "unreached": 8}


def html(record: Record) -> str:
    """Draw a record as one self-contained piece of HTML.

    Examples
    --------
    >>> from widgets.record import Record
    >>> card = html(Record(title="In [1]", source="x + 1"))
    >>> card.startswith('<div class="gradlab-card">'), "http://" in card.replace("http://www.w3.org/2000/svg", "")
    (True, False)
    """
    graph = graph_module.build(record)
    data = embed(payload(record, graph))
    script = _script()
    return (
        f'<div class="gradlab-card">{still(record, graph)}'
        f'<script type="application/json">{data}</script><script>{script}</script></div>'
    )


def embed(data: Any) -> str:
    """JSON that cannot leave a script element: no `<`, `>` or `&`, and nothing but ASCII.

    Examples
    --------
    >>> embed(["</script>", "<!--", chr(0x2028)])
    '["\\\\u003c/script\\\\u003e","\\\\u003c!--","\\\\u2028"]'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """The script without indentation and comment lines: every saved card holds a copy."""
    lines = (line.strip() for line in _asset("card.js").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def _style() -> str:
    return "".join(line.strip() for line in _asset("card.css").splitlines())


def figure(value: float | None, digits: int = 4) -> float | str | None:
    """A figure that JSON can hold and that is no longer than it is precise."""
    if value is None or value == 0:
        return value
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    return float(f"{value:.{digits}g}")


class _Strings:
    """A table of the strings, each written once: names, kernels and shapes come back all the time."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.number.setdefault(text, len(self.number))


def payload(record: Record, graph: Graph) -> dict[str, Any]:
    """What the script draws: rows as arrays, strings by number (see the reading side in card.js)."""
    put = _Strings()
    op_index = {op.id: i for i, op in enumerate(record.ops)}
    tensor_index = {tensor.id: i for i, tensor in enumerate(record.tensors)}
    ops = []
    for op in record.ops:
        reads = []
        for name in op.inputs:
            number = int(name[1:]) if name[1:].isdecimal() and len(name) < 18 else -1
            if name[:1] == "o" and number in op_index:
                reads.append(op_index[number])
            elif name[:1] == "t" and number in tensor_index:
                reads.append(-1 - tensor_index[number])
        s = op.stats
        ops.append(
            [
                put(op.op), op.count, op.line or 0, -1 if op.col is None else op.col, put(op.file), put(op.code),
                put(op.module), put(op.kernel), put(op.backend), put(shape_text(op.shape)), put(op.dtype), reads,
                figure(op.forward_ms), figure(op.backward_ms), figure(op.forward_max_ms), op.size_bytes,
                int(op.requires_grad), s and [*map(figure, (s.min, s.max, s.mean, s.std, s.zeros)), s.nonfinite],
                mask(op.flags),
            ]
        )  # fmt: skip
    return {
        "css": _style(),
        "head": {
            "title": record.title, "device": record.device, "forward": figure(record.forward_ms),
            "backward": figure(record.backward_ms), "update": figure(record.update_ms), "wall": figure(record.wall_ms),
        },
        "source": record.source.splitlines(),
        "colours": colours(record.source),
        "error": record.error and {"type": record.error.type, "message": record.error.message, "line": record.error.line},
        "findings": [
            {
                "severity": f.severity, "line": f.line, "message": f.message, "remedy": f.remedy,
                "parameters": f.parameters, "ops": [op_index[i] for i in f.ops if i in op_index],
            }
            for f in record.findings
        ],
        "ops": ops,
        "tensors": [
            [put(t.name), put(t.kind), put(shape_text(t.shape)), put(t.dtype), int(t.requires_grad)]
            for t in record.tensors
        ],
        "lines": [[row.line, figure(row.forward_ms), figure(row.backward_ms), row.count] for row in record.lines],
        "gradients": [
            [
                g.name, shape_text(g.shape), *map(figure, (g.norm, g.rms, g.mean, g.std, g.max_abs, g.zeros)),
                g.nonfinite, figure(g.weight_rms), figure(g.update_ratio), g.histogram, g.count, g.flags,
            ]
            for g in record.gradients
        ],
        "kernels": [
            [k.kernel, k.backend, k.op, k.count, figure(k.total_ms), figure(k.mean_us), figure(k.bytes_per_s)]
            for k in record.kernels
        ],
        "views": [
            {
                "label": view.label, "up": view.parent, "note": view.note, "layout": view.layout,
                "edges": [list(edge) for edge in view.edges], "items": [_item(item, put) for item in view.items],
            }
            for view in graph.views
        ],
        "layouts": [
            {
                "w": round(layout.width), "h": round(layout.height),
                "b": [round(c) for box in layout.boxes for c in box],
                "r": [[round(c) for c in route] for route in layout.routes],
            }
            for layout in graph.layouts
        ],
        "home": graph.home,
        "strings": list(put.number),
    }  # fmt: skip


def mask(flags: list[str]) -> int:
    """Flags as bits; one that the card does not know has no mark."""
    return sum({FLAGS.get(flag, 0) for flag in flags})


def _item(item: Item, put: _Strings) -> list[Any]:
    row: list[Any] = [KINDS[item.kind], item.index, put(item.label), put(item.detail), put(item.place)]
    row.append([[put(chip.label), int(chip.no_gradient)] for chip in item.chips])
    if item.kind == "group":
        row += [figure(item.forward_ms), figure(item.backward_ms), mask(item.flags)]
    return row
