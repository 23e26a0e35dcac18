"""The drawing of a training run: scales, ticks, smoothing, and the HTML around them."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from widgets import curves
from widgets.training import WORDS, Training, blocks, html, line, text


def falling(n, to=0.01):
    return (2.3 * (to / 2.3) ** np.linspace(0, 1, n)).tolist()


SCALES = [
    (falling(300), True),
    ([1.0, 0.5, 0.2], False),
    ([2.0, -1.0, 0.01], False),
    ([5.0] * 9, False),
    ([1e-8, 1.0], True),
]


@pytest.mark.parametrize(("values", "logarithmic"), SCALES)
def test_the_scale_fits_the_values(values, logarithmic):
    plot = curves.layout(values, [(0, 0), (len(values), 3)])
    assert plot.logarithmic == logarithmic
    assert len(plot.line) == min(len(values), curves.COLUMNS)
    assert all(-20 <= y <= curves.BOX + 20 for _, y in plot.line)
    assert plot.line[-1][0] == pytest.approx(curves.BOX)
    assert 2 <= len(plot.y_ticks) <= 8
    assert len({t for _, t in plot.y_ticks}) == len(plot.y_ticks)


def test_places_are_the_values():
    plot = curves.layout(falling(50), [(0, 0.0), (50, 5.0)], [(1.0, 0.5), (5.0, 0.02)])
    ticks = {float(t): y for y, t in plot.y_ticks}
    between = np.interp(np.log10(0.5), *zip(*sorted((np.log10(v), y) for v, y in ticks.items()), strict=True))
    assert plot.marks[0] == (200.0, pytest.approx(between, abs=0.5))
    assert [t for _, t in plot.x_ticks] == ["0", "1", "2", "3", "4", "5"]
    assert plot.readings[-1][1:] == ("5", pytest.approx(0.01), 0.02)


def test_values_that_are_not_finite_are_left_out():
    plot = curves.layout([1.0, float("nan"), 0.5, float("inf")], [(0, 0), (4, 1)], [(1.0, float("nan"))])
    assert len(plot.line) == 2
    assert plot.marks == []
    assert curves.layout([float("nan")], [(0, 0), (1, 1)]).line == []
    assert curves.layout([], [(0, 0), (1, 1)]).y_ticks == []


def test_one_spike_does_not_flatten_the_rest():
    values = [1.0] * 400
    values[200] = 10.0
    plot = curves.layout(values, [(0, 0), (400, 1)])
    assert max(float(t) for _, t in plot.y_ticks) < 5


def test_smoothing_keeps_the_mean_and_the_start():
    rng = np.random.default_rng(0)
    noisy = 3 + rng.normal(size=6000)
    smooth = curves.smoothed(noisy)
    assert smooth.std() < 0.15
    assert smooth[0] == noisy[0]
    np.testing.assert_allclose(curves.smoothed(np.full(500, 7.0)), 7.0)
    ramp = curves.smoothed(np.arange(600.0))
    np.testing.assert_allclose(ramp[50:500], np.arange(600.0)[50:500])


def view(**more):
    settings = {"losses": falling(500), "knots": [(0, 0), (500, 5)], "checks": [(k, 1 / k) for k in range(1, 6)],
                "figures": [("loss", "0.01")], "place": "5 epochs", "timing": "1 s", **more}  # fmt: skip
    return Training(**settings)


@pytest.mark.parametrize("state", WORDS)
@pytest.mark.parametrize("final", [False, True])
def test_html_is_whole_escaped_and_of_its_own(state, final):
    drawn = html(view(state=state, message="<script>alert(1)</script>", title='"x"', done=0.5), final)
    assert "<script" not in drawn
    assert "&lt;script&gt;alert(1)" in drawn
    assert "http" not in drawn
    assert "url(" not in drawn
    body = re.sub(r"<style>.*?</style>", "", drawn, flags=re.S)
    body = re.sub(r"(<img [^>]*)>", r"\1/>", body).replace("&nbsp;", " ")
    root = ElementTree.fromstring(body)
    assert root.get("class") == f"gradlab-box gradlab-fit {state}"
    assert root.find(".//svg").get("role") == "img"
    assert "logarithmic scale; training" in root.find(".//svg").get("aria-label")
    assert (root.find("img") is not None) == final
    style = re.search(r"<style>(.*?)</style>", drawn, re.S)[1]
    selectors = [s for rule in style.split("}")[:-1] for s in re.split(r",(?![^()]*\))", rule.split("{")[0])]
    assert all(s.startswith((".gradlab-fit", ".gradlab-box")) for s in selectors)  # nothing of the page is touched


def test_the_picture_for_where_styles_are_stripped():
    drawn = html(view(state="done"), final=True)
    code = re.search(r"data:image/svg\+xml;base64,([^\"]+)", drawn)[1]
    picture = ElementTree.fromstring(base64.b64decode(code))
    words = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"epoch", "0", "5"} <= set(words)
    assert any(w.startswith("validation 0.2") for w in words)


def test_a_run_without_plot_and_of_one_step():
    assert "<svg" not in html(Training(figures=[("a", "1")]))
    assert "<svg" not in html(Training(losses=[1.0]))
    assert 'class="dots"' in html(Training(losses=[2.0], checks=[(1.0, 1.5)], knots=[(0, 0), (1, 1)]))


def test_a_long_run_is_drawn_quickly_and_small():
    drawn = html(
        view(losses=np.abs(np.random.default_rng(0).normal(size=200_000)) + 0.1, knots=[(0, 0), (200_000, 5)]), True
    )
    assert len(drawn) < 60_000


def test_labels_of_near_curves_stand_apart():
    drawn = html(view(checks=[(5, 0.0101)]))
    places = [float(t) for t in re.findall(r'class="tip[^>]*top:([-\d.]+)%', drawn)]
    assert abs(places[0] - places[1]) >= 8.9


def test_text_and_line():
    said = text(view(state="running", done=0.25, message="continued"))
    assert said.splitlines()[0] == "Training · 5 epochs · 25 % · 1 s"
    assert said.splitlines()[1] == "continued"
    assert blocks(view())[0] == "█"
    assert blocks(view())[-1] == "▁"
    assert len(line(view(done=0.5, message="x" * 300), 80)) == 80
