"""The still picture of the graph's top level, as a PNG, for places that keep images and strip scripts."""

import importlib.util
import io
import itertools
import math
import os
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from . import graph as graph_module
from .graph import Graph, Item, badge
from .record import Record

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

SCALE = 1.5
"""Pixels for a unit of the layout: legible on a display of double density, and still about 20 KB."""
MARGIN = 14
LARGEST = 2400
"""Longest side in pixels; a larger graph is drawn smaller."""
LEAST = 0.75
"""Smaller than this nothing could be read: what then goes over the edge is left out."""
FINE = 2_500_000
"""Pixels up to which lines are drawn at double size and reduced, which smooths them."""
COLOURS = 48
"""The palette: a picture of lines and text needs no more, and a third of the bytes."""
TEXT_LIMIT = 80
"""Boxes beyond this number bear their name alone."""

WHITE, INK, QUIET, FAINT, ALARM = (255, 255, 255), (31, 35, 40), (95, 101, 112), (180, 185, 192), (198, 40, 40)
FORWARD, BACKWARD = (69, 133, 196), (193, 134, 43)
Colour = tuple[int, int, int]
Points = list[tuple[float, float]]


def png(record: Record, graph: Graph | None = None) -> bytes:
    """Draw what the card shows first; empty when there is nothing to draw or Pillow is not installed.

    Examples
    --------
    >>> from widgets.record import OpRow, Record
    >>> png(Record(ops=[OpRow(0, "tanh", shape=[2, 3])]))[1:4], png(Record())
    (b'PNG', b'')
    """
    graph = graph or graph_module.build(record)
    view = graph.views[graph.start]
    if not view.items:
        return b""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        return b""  # the still card then has its sentences and tables
    layout = graph.layouts[view.layout]
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    wanted = SCALE if len(view.items) <= TEXT_LIMIT else 1.0
    scale = max(min(wanted, LARGEST / max(width, height)), LEAST)
    size = min(math.ceil(width * scale), LARGEST), min(math.ceil(height * scale), LARGEST)
    fine = 2 if size[0] * size[1] <= FINE and len(view.items) <= TEXT_LIMIT else 1
    image = Image.new("RGB", (size[0] * fine, size[1] * fine), WHITE)
    pen = _Pen(ImageDraw.Draw(image), scale * fine)
    cut = {k for k, item in enumerate(view.items) if "cut" in item.flags}
    for route, (u, v) in zip(layout.routes, view.edges, strict=True):
        _edge(pen, route, u in cut or v in cut)
    most = max((item.forward_ms + item.backward_ms for item in view.items), default=0) or 1
    for item, box in zip(view.items, layout.boxes, strict=True):
        if box[0] * scale < size[0] + box[2] and box[1] * scale < size[1] + box[3]:
            _box(pen, item, box, most)
    image = image.reduce(fine) if fine > 1 else image
    pen = _Pen(ImageDraw.Draw(image), scale)
    right, low = size[0] / scale - 2 * MARGIN, size[1] / scale - 2 * MARGIN
    left_out = 0
    for item, box in zip(view.items, layout.boxes, strict=True):
        if box[0] - box[2] / 2 > right or box[1] - box[3] / 2 > low:
            left_out += 1
        else:
            _write(pen, item, box, brief=len(view.items) > TEXT_LIMIT)
    if left_out:
        pen.draw.rectangle([0, size[1] - 20 * scale, *size], WHITE)
        pen.text(0, low + MARGIN - 6, f"and {left_out:,} boxes more", 10, QUIET)
    small = image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    out = io.BytesIO()
    small.save(out, "png", compress_level=7)
    return out.getvalue()


@cache
def _font(size: int, bold: bool) -> Any:
    """DejaVu Sans where matplotlib has brought it, which has every sign used here; else Pillow's own."""
    from PIL import ImageFont

    found = importlib.util.find_spec("matplotlib")
    if found is not None and found.origin:
        name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
        path = os.path.join(os.path.dirname(found.origin), "mpl-data", "fonts", "ttf", name)
        if os.path.exists(path):
            return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)
    return ImageFont.load_default(size)


class _Pen:
    """Draws in the layout's units."""

    def __init__(self, draw: "ImageDraw", scale: float) -> None:
        self.draw, self.scale = draw, scale

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (x + MARGIN) * self.scale, (y + MARGIN) * self.scale

    def line(self, points: Points, colour: Colour, width: float = 1.0, dash: tuple[float, float] | None = None) -> None:
        thick = max(1, round(width * self.scale))
        for piece in _dashes(points, *dash) if dash else (points,):
            self.draw.line([self.at(*point) for point in piece], colour, thick, joint="curve")

    def box(self, x: float, y: float, w: float, h: float, fill: Colour, radius: float = 0.0) -> None:
        self.draw.rounded_rectangle([self.at(x, y), self.at(x + w, y + h)], radius * self.scale, fill)

    def text(
        self, x: float, y: float, words: str, size: float, colour: Colour, anchor: str = "ls", bold: bool = False
    ) -> tuple[Any, str]:
        """Write on the line at `y`; gives the font and what was written, for `wide`."""
        known = "".join(c if c.isprintable() and (ord(c) < 0x400 or c in "…–✕✂") else "?" for c in words)
        font = _font(max(4, round(size * self.scale)), bold)
        if known:
            self.draw.text(self.at(x, y), known, colour, font, anchor)
        return font, known

    def wide(self, written: tuple[Any, str]) -> float:
        """How wide a text is that was written."""
        font, known = written
        return float(font.getlength(known)) / self.scale if known else 0.0


def _dashes(points: Points, on: float, off: float) -> Iterator[Points]:
    """Yield a line in pieces of length `on` with `off` between them."""
    left, drawn, piece = on, True, [points[0]]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        length, done = math.hypot(x1 - x0, y1 - y0), 0.0
        while length - done > left:
            done += left
            point = (x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length)
            if drawn:
                yield [*piece, point]
            drawn, piece = not drawn, [point]
            left = on if drawn else off
        left -= length - done
        piece.append((x1, y1))
    if drawn and len(piece) > 1:
        yield piece


def _edge(pen: _Pen, route: list[float], cut: bool) -> None:
    points = list(zip(route[::2], route[1::2], strict=True))
    path = points[:1]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x0 != x1:  # Bézier from straight down to straight down
            for k in range(1, 8):
                t = k / 8
                path.append((x0 + (x1 - x0) * t * t * (3 - 2 * t), y0 + (y1 - y0) * (1.5 * t * (1 - t) + t**3)))
        path.append((x1, y1))
    colour = ALARM if cut else FAINT
    pen.line(path, colour, 1, (5, 4) if cut else None)
    (x, y), step = points[-1], -6 if points[-1][1] > points[-2][1] else 6
    pen.draw.polygon([pen.at(x - 3.5, y + step), pen.at(x, y), pen.at(x + 3.5, y + step)], colour)


def _box(pen: _Pen, item: Item, box: tuple[float, float, float, float], most: float) -> None:
    x, y, w, h = box
    left, top = x - w / 2, y - h / 2
    heat = 0.24 * (item.forward_ms + item.backward_ms) / most
    plain = (245, 246, 247) if item.kind in ("leaf", "port") else WHITE
    red, green, blue = (round(p + (c - p) * heat) for p, c in zip(plain, FORWARD, strict=True))
    bad = {"cut", "nan", "error"} & set(item.flags)
    edge = ALARM if bad else QUIET if item.kind in ("op", "group") else FAINT
    wide = 2.0 if item.kind == "group" or bad else 1.0
    if item.kind == "group":  # a sheet beneath tells that it opens
        pen.box(left + 3, top + 3, w, h, FAINT, 4)
    if {"cut", "unreached"} & set(item.flags):
        pen.box(left, top, w, h, (red, green, blue), 4)
        right, low = left + w, top + h
        pen.line([(left, top), (right, top), (right, low), (left, low), (left, top)], edge, wide, (4, 3))
    else:
        pen.box(left, top, w, h, edge, 4)
        pen.box(left + wide, top + wide, w - 2 * wide, h - 2 * wide, (red, green, blue), 3)
    unit, at = (w - 20) / most, left + 10
    for ms, colour in ((item.forward_ms, FORWARD), (item.backward_ms, BACKWARD)):
        if ms * unit > 0.4:
            pen.box(at, top + h - 6, ms * unit, 3, colour)
            at += ms * unit


def _write(pen: _Pen, item: Item, box: tuple[float, float, float, float], brief: bool) -> None:
    x, y, w, h = box
    left, right, top = x - w / 2 + 9, x + w / 2 - 9, y - h / 2
    if item.kind == "port":
        pen.text(x, top + 15, item.label, 9.5, QUIET, "ms")
        return
    pen.text(left, top + 15, item.label, 11, INK, bold=item.kind != "leaf")
    word = badge(item)
    if word:
        wide = 6.2 * len(word) + 8
        pen.box(right - wide - 4, top - 9, wide + 8, 15, ALARM, 3)
        pen.box(right - wide - 3, top - 8, wide + 6, 13, WHITE, 2)
        pen.text(right - wide / 2, top + 2, word, 9.5, ALARM, "ms")
    if brief:
        return
    pen.text(right, top + 15, item.time if item.forward_ms + item.backward_ms else "", 10, INK, "rs")
    pen.text(left, top + 29, item.detail, 10, QUIET)
    pen.text(right, top + 29, item.place, 10, QUIET, "rs")
    at = left
    for chip in item.chips:
        at += pen.wide(pen.text(at, top + 49, chip.label, 9, ALARM if chip.no_gradient else QUIET)) + 10
