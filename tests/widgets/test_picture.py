"""The still picture: a PNG of the top level, small, and deaf to what names hold."""

import io
import warnings

import pytest

from widgets import png
from widgets.record import OpRow, Record

from . import samples


@pytest.mark.parametrize("name", list(samples.ALL))
def test_every_sample_is_drawn_small(name):
    from PIL import Image

    data = png(samples.ALL[name]())
    image = Image.open(io.BytesIO(data))
    assert image.format == "PNG"
    assert max(image.size) <= 2401
    assert len(data) < 48 * 1024
    assert len(image.convert("RGB").getcolors(1000)) > 5  # something is drawn


def test_no_glyph_is_missing():
    record = Record(ops=[OpRow(0, "层归一化 $x^2$ \\frac 😀", module="ὰ", shape=[2], flags=["cut"])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert png(record)


def test_nothing_to_draw():
    assert png(Record()) == b""


def test_without_pillow_the_card_has_its_tables(monkeypatch):
    import sys

    import widgets

    monkeypatch.setitem(sys.modules, "PIL", None)
    card = widgets.html(samples.cut())
    assert "<img" not in card
    assert "<table>" in card


def test_it_shows_what_the_card_shows_first():
    from widgets.graph import build

    record = samples.mlp()
    graph = build(record)
    graph.start = 0  # the cell, where the loop is one box
    assert png(record, graph) != png(record)


def test_a_dashed_line_has_gaps():
    from widgets.picture import _dashes

    pieces = list(_dashes([(0.0, 0.0), (10.0, 0.0), (10.0, 10.0)], 4, 2))
    assert pieces == [
        [(0.0, 0.0), (4.0, 0.0)],
        [(6.0, 0.0), (10.0, 0.0), (10.0, 0.0)],
        [(10.0, 2.0), (10.0, 6.0)],
        [(10.0, 8.0), (10.0, 10.0)],
    ]


def test_a_mile_of_boxes_stays_legible_and_says_what_it_leaves_out():
    from PIL import Image

    ops = [OpRow(k, "op", line=k + 1, inputs=[f"o{k - 1}"] if k else []) for k in range(10_000)]
    image = Image.open(io.BytesIO(png(Record(ops=ops))))
    assert image.size[1] == 2400
    assert image.size[0] > 0.7 * 64  # a box and its margin at the least scale
