"""Names, files and error texts that try to be more than text: a record is made of them, and no text form obeys them.

The cells are also those that the browser's tests run.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import lab
import widgets
from widgets import difference
from widgets.figures import plain

from ...widgets.samples import HOSTILE, LONG

NAMES = {"hostile": HOSTILE + "\x1b[31m\x07", "long": LONG}
SETUP = """
import core as torch
from core import nn
class Made(nn.Module):
    def __init__(self, name):
        super().__init__()
        name = name.replace(".", "")
        self.add_module(name, nn.Linear(4, 4))
        self.add_module("unused" + name, nn.Linear(4, 4))
        self.register_parameter("w" + name, nn.Parameter(torch.ones(4)))
    def forward(self, x):
        return next(self.children())(x) * next(self.parameters())
def prepare(name):
    model = Made(name)
    globals()[name] = torch.ones(2, 4)
    valid = name.replace(chr(0), "").replace(chr(0xd800), "").replace("/", "|")
    function = {"forward": staticmethod(lambda ctx, x: x * 2), "backward": staticmethod(lambda ctx, g: g * 2)}
    space = {}
    exec(compile("def elsewhere(x):\\n    return x.tanh()", f"/no/{valid}.py", "exec"), space)
    return model, type(valid, (torch.autograd.Function,), function), space["elsewhere"]
""".strip()
STEP = """
model, Twice, elsewhere = prepare(name)
h = model(globals()[name])
h = elsewhere(Twice.apply(h))  # </script><script>window.hacked=1</script> "'`
loss = h.sum()
""".strip()


@pytest.fixture(scope="module", params=NAMES)
def made(request: Any) -> SimpleNamespace:
    """The step under a recording, and its graph walked backward."""
    space: dict[str, Any] = {"name": NAMES[request.param]}
    exec(SETUP, space)
    with lab.record(title=NAMES[request.param]) as recorded:
        exec(STEP, space)
        steps = lab.walk(space["loss"])
    return SimpleNamespace(name=NAMES[request.param], recorded=recorded, record=recorded.record, steps=steps)


def test_the_names_reach_the_record(made: Any) -> None:
    record, start = made.record, made.name[:12]
    assert start in record.title
    assert any(start.replace("/", "|") in op.op for op in record.ops)
    assert any(start in op.module for op in record.ops)
    assert any(start.replace("/", "|") in op.file for op in record.ops)
    assert any(start in g.name for g in record.gradients)


def test_no_text_form_obeys_them(made: Any) -> None:
    record = made.record
    tables = [made.recorded.table(what) for what in ("ops", "gradients", "tensors")]
    beside = difference.text(widgets.compare(record, widgets.Record(title=made.name)))
    for text in (str(made.recorded), widgets.text(record), str(made.steps), beside, *tables):
        assert made.name[:12].replace("/", "|")[:8] in text or made.name[:8] in text
        assert not {c for c in text if not c.isprintable()} - {"\n"}
        assert max(map(len, text.splitlines())) < 1500
        text.encode("utf-8")


def test_every_form_can_be_saved(made: Any, tmp_path: Any) -> None:
    for suffix in ("html", "json", "txt"):
        made.recorded.save(tmp_path / f"out.{suffix}")
    made.recorded.to_chrome_trace(tmp_path / "trace.json")
    assert widgets.Record.from_json((tmp_path / "out.json").read_text(encoding="utf-8")).title == made.name
    assert (tmp_path / "out.html").stat().st_size < 400_000


def test_plain_keeps_words_and_cuts_the_rest() -> None:
    assert plain("größe λ 模型 🙂") == "größe λ 模型 🙂"
    assert plain("a\r\nb\x00c\u202ed\u200be") == "a  b c d e"
    assert len(plain(LONG, 100)) == 100
