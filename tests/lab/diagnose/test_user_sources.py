"""Findings in the user's other files: named with their line, and read no further than what took part."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from core import nn
from lab.diagnose.reading.passed import argument
from lab.diagnose.reading.sources import Source
from tests.lab.conftest import run_cell

NET = """
import core
from core import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 4)

    def forward(self, t):
        h = nn.Linear(16, 8)(t)
        return self.out(h)
"""
CELL = """
net = Net()
opt = core.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    loss = nn.functional.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_finding_names_the_line_of_an_imported_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: dict[str, Any]
) -> None:
    (tmp_path / "made_here.py").write_text(NET, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from made_here import Net  # type: ignore[import-not-found]

    first = run_cell(CELL, {**space, "Net": Net}).findings[0]
    sys.modules.pop("made_here")
    assert (first.kind, first.line) == ("optimizer", None)
    assert first.message.startswith("made_here.py line 11 makes `nn.Linear(16, 8)` anew")


def test_loading_is_heard_only_while_it_is_recorded(space: dict[str, Any]) -> None:
    own = nn.Module.load_state_dict
    record = run_cell("net = nn.Linear(2, 2)\nnet.load_state_dict(nn.Linear(2, 2).state_dict())", space)
    assert record.error is None
    assert record.findings == []
    assert nn.Module.load_state_dict is own
    assert "load_state_dict" not in vars(nn.Module) or vars(nn.Module)["load_state_dict"] is own


def test_a_beta_is_drawn_in_a_recorded_cell(space: dict[str, Any]) -> None:
    record = run_cell("lam = core.distributions.Beta(0.4, 0.4).sample((8, 1))", space)
    assert record.error is None
    assert tuple(space["lam"].shape) == (8, 1)


LIBRARY = """
import core
from core import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(16, 4)

    def forward(self, t):
        return self.out(t)

class Encoder(nn.Module):
    def forward(self, x):
        mu, log_var = self.mu(x), nn.functional.softplus(self.log_var(x))
        return mu, log_var, mu + core.randn_like(mu) * log_var.mul(0.5).exp()

if __name__ == "__main__":
    Encoder()
"""


@pytest.mark.parametrize("used", [False, True])
def test_what_nothing_mentions_of_a_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: dict[str, Any], used: bool
) -> None:
    (tmp_path / "a_library.py").write_text(LIBRARY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import a_library  # type: ignore[import-not-found]

    record = run_cell(CELL + "\nmaker = a_library.Encoder" * used, {**space, **vars(a_library), "a_library": a_library})
    sys.modules.pop("a_library")
    told = [f.message for f in record.findings if "a_library.py" in f.message]
    assert len(told) == used, told


LEVELS = """
import numpy as np

def brightness(part):
    return (part.clamp(0, 1) * 255).round().numpy().astype(np.uint8)

def moved_by(before, after, border=1):
    if border:
        before = before[border:]
        after = after[border:]
    return np.mean(np.abs(before - after))
"""


def test_the_bytes_that_one_function_of_a_file_gives_another_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: dict[str, Any]
) -> None:
    (tmp_path / "levels_here.py").write_text(LEVELS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from levels_here import brightness, moved_by  # type: ignore[import-not-found]

    text = "shift = [moved_by(brightness(a), brightness(b)) for a, b in zip(x[:4], x[4:8])]"
    record = run_cell(text, {**space, "brightness": brightness, "moved_by": moved_by})
    sys.modules.pop("levels_here")
    (first,) = record.findings
    assert first.message.startswith("levels_here.py line 11 computes in uint8, which holds 0 to 255 (`before - after`)")


OWN = """
def log(x):
    return torch.log(x + 1e-8)

def halved(v):
    return doubled(v * 0.5)

def doubled(w):
    return halved(w * 2)

def scaled(u):
    return u * 3

a = scaled(4)
"""


@pytest.mark.parametrize(("function", "name", "given"), [
    ("log", "x", None), ("halved", "v", None), ("doubled", "w", None), ("scaled", "u", "4"),
])  # fmt: skip
def test_an_argument_is_never_made_of_itself(function: str, name: str, given: str | None) -> None:
    """Neither torch.log() in a function log() is its call, nor has one that calls itself a single value."""
    source = Source("", ast.parse(OWN), OWN)
    found = argument(source, source.functions[function], name)
    assert (ast.unparse(found) if found is not None else None) == given
