"""The card: self-contained, small, quick, and closed to whatever a record holds."""

import base64
import gzip
import json
import re
import time
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

import widgets
from widgets import card
from widgets.assets import bundle
from widgets.graph import build
from widgets.payload import payload
from widgets.record import GradientRow, KernelRow, LineRow, Record, Stats

from . import samples

STILL_TAGS = {"div", "p", "b", "br", "small", "img", "details", "summary", "code"}
STILL_TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}


class Page(HTMLParser):
    """Tags, text and scripts as a browser's parser tells them apart."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.words, self.scripts = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem:
            self.scripts[-1] += data
        else:
            self.words.append(data)


@pytest.mark.parametrize("name", list(samples.ALL))
def test_a_card_is_one_element_with_two_scripts(name):
    page = Page(widgets.html(samples.ALL[name]()))
    assert page.tags[0] == ("div", {"class": "gradlab-card"})
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert json.loads(unpacked(page.scripts[0]))["head"]


def unpacked(data):
    """A script's data as JSON; a large one comes deflated."""
    return data if data.startswith("{") else zlib.decompress(base64.b64decode(data)).decode("ascii")


@pytest.mark.parametrize("name", list(samples.ALL))
def test_nothing_is_fetched(name):
    page = Page(widgets.html(samples.ALL[name]()))
    assert {tag for tag, _ in page.tags} <= STILL_TAGS | {"script"}
    for tag, attributes in page.tags:
        assert not {key for key in attributes if key.startswith("on") or key in ("href", "srcdoc")}
        assert attributes.get("src", "data:image/png;base64,").startswith("data:image/png;base64,"), tag
    script = page.scripts[1].replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\bfetch\(|XMLHttpRequest|import\(|\.innerHTML|insertAdjacentHTML|\beval\(", script)
    assert "url(" not in bundle("card.css")
    assert "@import" not in bundle("card.css")


def test_hostile_strings_stay_text():
    text = widgets.html(samples.hostile())
    text.encode("utf-8")  # a lone surrogate would keep the notebook from being saved
    page = Page(text)
    assert not [tag for tag, attributes in page.tags if "onerror" in attributes]
    assert "window.hacked=1" in "".join(page.words)
    assert "\u2028" not in page.scripts[0]
    assert not set("<>&") & set(page.scripts[0])
    data = json.loads(page.scripts[0])
    assert data["head"]["title"] == samples.HOSTILE
    assert samples.HOSTILE in data["strings"]


def test_the_script_is_small_and_keeps_its_strings():
    script = bundle("card.js")
    assert len(gzip.compress(script.encode())) < 25 * 1024  # every saved card holds a copy
    assert "//" not in script.replace("http://www.w3.org/2000/svg", "")
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (Path(card.__file__).parent / "live/src").rglob("*.js")
    )
    for words in (
        "'No operation ran in this cell.'",
        "`Elements by power of two of |gradient|. ",
        "` · mean ",
        "` ×",
    ):
        assert words.strip("'`") in sources
        assert words.strip("'`") in script


@pytest.mark.parametrize(
    ("name", "limit_kb"), [("mlp", 150), ("cut", 150), ("vanishing", 150), ("gpt", 300), ("flat", 200)]
)
def test_size(name, limit_kb):
    assert len(widgets.html(samples.ALL[name]()).encode()) < limit_kb * 1024


def test_ten_thousand_rows_are_built_quickly():
    record = Record(source="x\n" * 1000)
    record.lines = [LineRow(k + 1, 1.0, 2.0, 3) for k in range(1000)]
    record.gradients = [GradientRow(f"layer.{k}.weight", norm=1.0, rms=1e-3, histogram=[0] * 64) for k in range(8000)]
    record.kernels = [KernelRow(f"kernel_{k}", "C", "add", 1, 1.0, 1.0, 1.0) for k in range(1000)]
    widgets.html(samples.cut())  # matplotlib's import is not the card's time
    best = min(timed(record) for _ in range(3))
    assert best < 0.6  # measured 0.15 s; the promise is 0.3 s, and a busy machine may take twice as long


def timed(record):
    start = time.process_time()
    widgets.html(record)
    return time.process_time() - start


def test_findings_and_remedies_are_in_the_part_that_needs_no_script():
    words = "".join(Page(widgets.html(samples.cut())).words)
    assert "line 2: h.numpy() cut the graph, so 4 parameters get no gradient: encoder.0.weight" in words
    assert "Stay in tensors" in words
    assert words.index("cut the graph") < words.index("Gradients (6)")


def test_every_parameter_has_a_row_and_an_absent_gradient_is_said_in_words():
    record = samples.cut()
    words = " ".join(Page(widgets.html(record)).words)
    assert all(row.name in words for row in record.gradients)
    assert "no gradient: backward did not reach it" in words


def test_a_cell_that_raised_has_a_partial_card():
    words = " ".join(Page(widgets.html(samples.failed())).words)
    assert "line 3: IndexError: Dimension out of range" in words
    assert "this card is partial" in words


@pytest.mark.parametrize(("record", "sentence"), [(Record(), "No operation ran"), (samples.mlp(), "No problems found")])
def test_a_quiet_card_says_so(record, sentence):
    assert sentence in " ".join(Page(widgets.html(record)).words)


def test_rows_carry_their_keys():
    record = samples.mlp()
    data = payload(record, build(record))
    for table, rows in data.items():
        if table in data["keys"] and table != "ops":
            assert all(len(row) == len(data["keys"][table]) for row in rows), table
    count, columns = json.loads(data["ops"].text)  # by column: one value where all rows have the same
    assert {len(column) for column in columns} <= {1, count}
    first = {key: column[0] for key, column in zip(data["keys"]["ops"], columns, strict=True)}
    assert data["strings"][first["$op"]] == "linear"
    assert first["reads"] == [-1, -3, -4]  # leaf tensors count from -1 downwards
    assert count == len(record.ops)
    assert len(data["gradients"]) == len(record.gradients)


def test_all_data_of_a_card_is_json():
    record = samples.mlp()
    record.source = "if a:\n    y = 1\nelse:\n    y = 2"
    record.ops[0].line, record.ops[0].col, record.ops[0].end_line, record.ops[0].end_col = 2, 4, 2, 9
    record.ops[0].stats = Stats(float("-inf"), float("inf"), float("nan"), None, 0.0, 3)
    record.ops[1].forward_ms = float("nan")
    record.ops[2].stats = Stats(None, None, None, None, 0.0, 7)
    record.ops[2].backward_ms = 1.5e-9
    data = json.loads(card.embed(payload(record, build(record))))
    _, columns = data["ops"]
    column = dict(zip(data["keys"]["ops"], columns, strict=True))
    assert data["branches"] == {"1": "branch taken: 30 ops ran in it", "3": "not taken: no op ran in this branch"}
    assert column["stats"][0] == ["-∞", "∞", "NaN", None, 0, 3]
    assert column["stats"][2] == [None, None, None, None, 0, 7]
    assert (column["forward"][1], column["backward"][2]) == ("NaN", 1.5e-9)


def test_two_cards_of_one_record_are_the_same():
    assert widgets.html(samples.vanishing()) == widgets.html(samples.vanishing())
