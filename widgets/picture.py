"""The still picture of the graph's top level, as a PNG, for places that keep images and strip scripts."""

import io
import itertools
from typing import TYPE_CHECKING, Any

from . import graph as graph_module
from .graph import Graph, Item, badge
from .record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCALE = 1.5
"""Pixels for a unit of the layout: legible on a display of double density, and still about 20 KB."""
MARGIN = 14
LARGEST = 2400
"""Longest side in pixels; a larger graph is drawn smaller."""
COLOURS = 48
"""The palette: a picture of lines and text needs no more, and a third of the bytes."""
FONT = "DejaVu Sans"
"""It comes with matplotlib and has every sign used here, whatever fonts the user has set."""
TEXT_LIMIT = 80
"""Boxes beyond this number bear their name alone: text is what takes the time."""

INK, QUIET, FAINT, ALARM = "#1f2328", "#5f6570", "#b4b9c0", "#c62828"
FORWARD, BACKWARD = (0.271, 0.522, 0.769), "#c1862b"


def png(record: Record, graph: Graph | None = None) -> bytes:
    """Draw the top level of the graph; empty when there is nothing to draw or matplotlib is not installed.

    Examples
    --------
    >>> from widgets.record import OpRow, Record
    >>> png(Record(ops=[OpRow(0, "tanh", shape=[2, 3])]))[1:4], png(Record())
    (b'PNG', b'')
    """
    graph = graph or graph_module.build(record)
    view = graph.views[0]
    if not view.items:
        return b""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from PIL import Image
    except ImportError:
        return b""  # the still card then has its sentences and tables
    layout = graph.layouts[view.layout]
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    scale = min(SCALE, LARGEST / max(width, height))
    figure = Figure(figsize=(width / 72, height / 72), dpi=72 * scale, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(-MARGIN, layout.width + MARGIN)
    axes.set_ylim(layout.height + MARGIN, -MARGIN)
    axes.axis("off")
    cut = {k for k, item in enumerate(view.items) if "cut" in item.flags}
    _draw_edges(axes, layout.routes, [u in cut or v in cut for u, v in view.edges])
    most = max((item.forward_ms + item.backward_ms for item in view.items), default=0) or 1
    _draw_boxes(axes, view.items, layout.boxes, most)
    for item, box in zip(view.items, layout.boxes, strict=True):
        _write(axes, item, box, brief=len(view.items) > TEXT_LIMIT)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = canvas.buffer_rgba()  # type: ignore[no-untyped-call]
    image = Image.frombuffer("RGBA", canvas.get_width_height(), pixels, "raw", "RGBA", 0, 1).convert("RGB")
    small = image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    out = io.BytesIO()
    small.save(out, "png", compress_level=7)
    return out.getvalue()


def _draw_edges(axes: "Axes", routes: list[list[float]], dashed: list[bool]) -> None:
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    for is_cut in (False, True):
        paths = []
        for route, flag in zip(routes, dashed, strict=True):
            if flag != is_cut:
                continue
            points = list(zip(route[::2], route[1::2], strict=True))
            vertices, codes = [points[0]], [Path.MOVETO]
            for (x0, y0), (x1, y1) in itertools.pairwise(points):
                vertices += [(x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2), (x1, y1)]
                codes += [Path.CURVE4] * 3
            (x, y), step = points[-1], -6 if points[-1][1] > points[-2][1] else 6
            vertices += [(x - 3.5, y + step), (x, y), (x + 3.5, y + step)]
            codes += [Path.MOVETO, Path.LINETO, Path.LINETO]
            paths.append(Path(vertices, codes))
        style = (0, (5, 4)) if is_cut else "solid"
        axes.add_collection(
            PathCollection(
                paths, facecolors="none", edgecolors=ALARM if is_cut else FAINT, linewidths=1, linestyles=[style]
            )
        )


def _draw_boxes(axes: "Axes", items: list[Item], boxes: list[tuple[float, float, float, float]], most: float) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import FancyBboxPatch, Rectangle

    patches, faces, edges, widths, styles = [], [], [], [], []
    bars, bar_colours = [], []
    for item, (x, y, w, h) in zip(items, boxes, strict=True):
        patches.append(FancyBboxPatch((x - w / 2, y - h / 2), w, h, boxstyle="round,pad=0,rounding_size=4"))
        heat = 0.24 * (item.forward_ms + item.backward_ms) / most
        plain = (0.96, 0.965, 0.97) if item.kind in ("leaf", "port") else (1.0, 1.0, 1.0)
        faces.append(tuple(p + (c - p) * heat for p, c in zip(plain, FORWARD, strict=True)))
        bad = {"cut", "nan", "error"} & set(item.flags)
        edges.append(ALARM if bad else QUIET if item.kind in ("op", "group") else FAINT)
        widths.append(2.0 if item.kind == "group" or bad else 1.0)
        styles.append((0, (4, 3)) if {"cut", "unreached"} & set(item.flags) else "solid")
        unit, left = (w - 20) / most, x - w / 2 + 10
        for ms, colour in ((item.forward_ms, FORWARD), (item.backward_ms, BACKWARD)):
            if ms * unit > 0.4:
                bars.append(Rectangle((left, y + h / 2 - 6), ms * unit, 3))
                bar_colours.append(colour)
                left += ms * unit
    axes.add_collection(
        PatchCollection(patches, facecolors=faces, edgecolors=edges, linewidths=widths, linestyles=styles, zorder=2)
    )
    axes.add_collection(PatchCollection(bars, facecolors=bar_colours, edgecolors="none", zorder=3))


def _write(axes: "Axes", item: Item, box: tuple[float, float, float, float], brief: bool) -> None:
    x, y, w, h = box
    left, right, top = x - w / 2 + 9, x + w / 2 - 9, y - h / 2

    def text(at: float, dy: float, words: str, **style: Any) -> None:
        if words:
            known = "".join(c if c.isprintable() and (ord(c) < 0x400 or c in "…–✕✂") else "?" for c in words)
            axes.text(
                at, top + dy, known, va="baseline", zorder=4, family=FONT, parse_math=False, usetex=False, **style
            )

    if item.kind == "port":
        text(x, 15, item.label, fontsize=8, color=QUIET, ha="center")
        return
    text(left, 15, item.label, fontsize=9, color=INK, weight="normal" if item.kind == "leaf" else "bold")
    if brief:
        return
    text(right, 15, item.time if item.forward_ms + item.backward_ms else "", fontsize=8, color=INK, ha="right")
    text(left, 29, item.detail, fontsize=8, color=QUIET)
    text(right, 29, item.place, fontsize=8, color=QUIET, ha="right")
    style = {"fc": "white", "ec": ALARM, "pad": 1.5, "lw": 0.8}
    text(right, 0, badge(item), fontsize=8, color=ALARM, ha="right", bbox=style)
    at = left
    for chip in item.chips:
        colour = ALARM if chip.no_gradient else QUIET
        text(at, 49, chip.label, fontsize=7.5, color=colour)
        at += 5.6 * len(chip.label) + 12
