"""Remedies of what an earlier cell or an imported file holds: found, shown, and tried in a copy of the process."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.base import source
from lab.prove.cell import Patch
from lab.prove.elsewhere import cells_from, further, place_of
from lab.prove.proving import Prover, shown
from lab.prove.remedies import patches
from lab.prove.snapshot import Scene, Snapshot
from widgets.record import Finding

from .cells import names, recorded

pytestmark = pytest.mark.usefixtures("trials")

MODEL = """\
class Distance(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(16, 4)
    def forward(self, a):
        squared = (self.net(a) ** 2).sum(1) * 0.0
        return squared.sqrt()

model = Distance()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
READER = """\
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 8)
        self.out = nn.Linear(8, 4)
    def forward(self, s):
        out, _ = self.lstm(s)
        return self.out(out[:, -1, :])

torch.manual_seed(0)
model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """\
for step in range(4):
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
Space = dict[str, Any]


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that runs a text as the cell In [1]."""

    def run(text: str, space: Space) -> None:
        linecache.cache["one.py"] = len(text), None, text.splitlines(True), "one.py"
        exec(compile(text, "one.py", "exec"), space)

    monkeypatch.setattr(source, "name_of_file", lambda file: "In [1]" if file == "one.py" else None)
    yield run
    linecache.cache.pop("one.py", None)


def tried(text: str, space: Space) -> list[tuple[str, str]]:
    """What is shown of each patch of the first finding, and how its trial ends."""
    snapshot = Snapshot(Scene(space))
    try:
        record = recorded(text, space)
        prover = Prover(snapshot, text, 0.1)
        found = patches(text, record.findings[0])
        return [(shown(text, patch), prover.one(record.findings[0].kind, patch).level) for patch in found]
    finally:
        snapshot.close()


def test_a_function_of_an_earlier_cell_gets_other_code(earlier: Any) -> None:
    space = names("core")
    earlier(MODEL, space)
    (lines, level), *_ = tried(LOOP.format(loss="model(x).mean()"), space)
    assert lines == (
        "In [1] line 7 -         return squared.sqrt()\nIn [1] line 7 +         return (squared + 1e-12).sqrt()"
    )
    assert level == "proved"
    assert "1e-12" not in space["Distance"].forward.__code__.co_consts  # the trial's copy alone was changed


def test_a_line_of_an_earlier_cell_that_never_runs_mends_nothing(earlier: Any) -> None:
    space = names("core")
    earlier(MODEL, space)
    made = "        squared = (self.net(a) ** 2).sum(1) * 0.0"
    hidden = MODEL.replace(made, f"        squared = self.net(a).exp().sum(1)\n        if False:\n    {made}")
    snapshot = Snapshot(Scene(space))
    try:
        prover = Prover(snapshot, LOOP.format(loss="model(x).mean()"), 0.1)
        verdict = prover.one("nan", Patch("", hidden, file="one.py", name="In [1]", was=MODEL))
    finally:
        snapshot.close()
    assert (verdict.level, verdict.said) == ("refuted", "line 6 no longer runs")


def test_what_a_finding_speaks_of_besides(earlier: Any) -> None:
    earlier("y = 1\n", {})
    waits = Finding("data-loader", "note", 3, message="Line 3 waits for its data; In [1] line 1 takes most of it.")
    assert place_of(waits) is None
    assert [(place.file, place.line) for place in further(waits)] == [("one.py", 1)]


def test_an_earlier_cell_runs_again_where_it_makes_a_model_otherwise(earlier: Any) -> None:
    space = names("core")
    space["seqs"] = space["torch"].randn(64, 12, 16)
    earlier(READER, space)
    (lines, level), *_ = tried(LOOP.format(loss="F.cross_entropy(model(seqs), labels)"), space)
    assert lines.startswith("In [1] line 4 -")
    assert lines.endswith("nn.LSTM(16, 8, batch_first=True)")
    assert level == "consistent"
    assert not space["model"].lstm.batch_first


HEAD = """\
for p in model.parameters():
    p.requires_grad = False
model.out = nn.Linear(8, 4)
for step in range(4):
    loss = F.cross_entropy(model(seqs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_an_optimizer_of_an_earlier_cell_takes_the_layer_in_or_is_made_again(earlier: Any) -> None:
    space = names("core")
    space["seqs"] = space["torch"].randn(64, 12, 16)
    earlier(READER.replace("nn.LSTM(16, 8)", "nn.LSTM(16, 8, batch_first=True)"), space)
    first, *others = tried(HEAD, space)
    assert first == ("line 4 + optimizer.add_param_group({'params': list(model.out.parameters())})", "proved")
    assert ("line 4 + optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "proved") in others


def test_a_function_of_an_imported_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "distance_net.py").write_text(
        "import core as torch\nfrom core import nn\n" + MODEL.partition("model =")[0], encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    space = names("core")
    module = importlib.import_module("distance_net")
    space["model"] = module.Distance()
    space["optimizer"] = space["torch"].optim.SGD(space["model"].parameters(), lr=0.1)
    try:
        (lines, level), *_ = tried(LOOP.format(loss="model(x).mean()"), space)
    finally:
        sys.modules.pop("distance_net")
    assert lines.startswith("distance_net.py line 9 -")
    assert level == "proved"


def test_which_place_a_finding_names(earlier: Any) -> None:
    earlier("y = 1\n", {})
    place = place_of(Finding("nan", "error", 3, message="Line 3 (In [1] line 1) makes a NaN."))
    assert place is not None
    assert (place.file, place.line, place.text) == ("one.py", 1, "y = 1\n")
    assert place_of(Finding("nan", "error", 3, message="Line 3 makes a NaN (In [1] line 1).")) is None
    assert place_of(Finding("nan", "error", 3, message="Line 3 (no_such_file.py line 1) makes a NaN.")) is None
    assert cells_from("one.py") == [("one.py", "y = 1\n")]
