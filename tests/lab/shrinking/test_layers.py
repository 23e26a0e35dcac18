"""Where a layer is called and made, and what a variant did to it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import core
from core import nn
from lab.shrinking import layers
from lab.shrinking.variants import Made


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)
        self.body = nn.Sequential(
            nn.Linear(8, 8),
            nn.ReLU(),
            nn.Sequential(nn.Linear(8, 4)),
        )

    def forward(self, x: Any) -> Any:
        x = self.norm(self.first(x))
        return self.body(x)


def test_the_lines_of_a_class() -> None:
    model, x = Net(), core.rand(5, 6)
    names = list(layers.layers_of(model))
    assert names == ["first", "norm", "body.0", "body.2.0"]
    heard = layers.heard(model, (x,), names, core)
    assert {n: h.text for n, h in heard.items()} == {
        "first": "x = self.norm(self.first(x))", "norm": "x = self.norm(self.first(x))",
        "body.0": "return self.body(x)", "body.2.0": "return self.body(x)",
    }  # fmt: skip
    assert heard["first"].line.startswith("test_layers.py line ")
    made = layers.made_by(model, "model")
    assert [made(n)[1] for n in names] == ["nn.Linear(6, 8)", "nn.LayerNorm(8)", "nn.Linear(8, 8)", "nn.Linear(8, 4)"]
    lines = [int(made(n)[0].rpartition(" ")[2]) for n in names]
    assert [n - lines[0] for n in lines] == [0, 0, 2, 4]


CELL = "%matplotlib inline\nfrom core import nn\nnet = nn.Sequential(\n    nn.Linear(2, 3),\n    nn.ReLU(),\n).eval()"


@pytest.mark.parametrize(
    ("cell", "path", "place"),
    [
        (CELL, "0", ("In [4] line 4", "nn.Linear(2, 3)")),
        ("net = nn.Sequential(*parts)", "0", ("In [4] line 1", "nn.Sequential(*parts)")),
        ("other = 3", "0", ("", "")),
        ("net = (", "0", ("", "")),
    ],
)
def test_the_line_of_a_cell(cell: str, path: str, place: tuple[str, str]) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert layers.made_by(net, "net", [("In [4]", cell)])(path) == place


def test_its_own_error_leaves_out_what_came_before() -> None:
    model, x = Net().eval(), core.rand(50, 6)
    heard = layers.heard(model, (x,), list(layers.layers_of(model)), core)
    other = copy.deepcopy(model)
    with core.no_grad():
        other.first.weight.mul_(1.5)
    found = {e.name: e for e in layers.errors(heard, model, Made(other, lambda x: x), (x,), core, lambda n: ("", ""))}
    assert found["first"].own > 0.1
    assert found["body.0"].own == 0
    assert found["body.0"].whole > 0


def test_what_is_written_in_place_afterwards_is_not_compared() -> None:
    model, x = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True)).eval(), core.rand(50, 6)
    heard = layers.heard(model, (x,), ["0", "1"], core)
    assert float(heard["1"].output.min()) < 0
    assert [e.own for e in layers.errors(heard, model, Made(model, lambda x: x), (x,), core, lambda n: ("", ""))] == [
        0,
        0,
    ]


def test_channels_that_went_are_not_compared() -> None:
    model, x = Net().eval(), core.rand(50, 6)
    heard = layers.heard(model, (x,), list(layers.layers_of(model)), core)
    other = copy.deepcopy(model)
    plan = core.nn.utils.shrink.shrink(other, x[:2], {"body.0": 0.5})
    made = Made(other, lambda x: x, kept=plan.keep)
    found = {e.name: e for e in layers.errors(heard, model, made, (x,), core, lambda n: ("", ""))}
    assert found["body.0"].note == "now Linear 8→4"
    assert found["body.0"].own == pytest.approx(0, abs=1e-6)
    assert found["body.2.0"].own > 0.01
