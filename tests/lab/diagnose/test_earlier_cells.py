"""Mistakes that stand in an earlier cell or a file, which the cell reads names of."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

Space = dict[str, Any]
TRAIN = """
opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
for step in range(3):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
MADE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(16, 8), nn.Linear(8, 4)
    def forward(self, x):
        return self.head(torch.relu(self.body(x)))
net = Net()
"""


@pytest.fixture
def earlier(space: Space) -> Any:
    """Run a text as an earlier cell."""

    def run(text: str) -> Space:
        name = "<an earlier cell>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), space)
        return space

    yield run
    linecache.cache.pop("<an earlier cell>", None)


def test_a_misspelt_attribute(cell: Any, earlier: Any) -> None:
    space = earlier(MADE + "for p in net.body.parameters():\n    p.require_grad = False\n")
    first = cell(TRAIN, space).findings[0]
    assert (first.kind, first.line) == ("no-gradient", None)
    assert "earlier cell> line 10 freezes nothing" in first.message


def test_a_state_that_nobody_looked_at(cell: Any, earlier: Any) -> None:
    space = earlier(MADE + "net.load_state_dict({}, strict=False)\n")
    kinds = [(f.kind, f.severity) for f in cell(TRAIN, space).findings]
    assert kinds == [("loading", "note")]
    space = earlier(MADE + "told = net.load_state_dict({}, strict=False)\n")
    assert cell(TRAIN, space).findings == []


@pytest.mark.parametrize(("given", "told"), [
    ("strict=False", True), ("assign=True, strict=False", True), ("strict=True", False), ("assign=False", False),
    ("strict=True, assign=False", False), ("", False), ("strict=lenient", False),
])  # fmt: skip
def test_a_state_that_is_loaded_leniently(cell: Any, earlier: Any, given: str, told: bool) -> None:
    space = earlier(MADE + f"lenient = False\nnet.load_state_dict(net.state_dict(), {given})\n")
    assert [f.kind for f in cell(TRAIN, space).findings] == (["loading"] if told else [])


def test_a_class_whose_methods_run_no_op(cell: Any, earlier: Any) -> None:
    keeper = """
class Keeper:
    def __init__(self):
        self.least, self.best = 1e9, None
    def see(self, loss, net):
        if loss < self.least:
            self.least, loss = loss, None
            self.best = net.state_dict()
keeper = Keeper()
"""
    space = earlier(MADE + keeper)
    text = TRAIN + "    keeper.see(loss.item(), net)\nnet.load_state_dict(keeper.best)\n"
    first = cell(text, space).findings[0]
    assert first.kind == "alias"
    assert "earlier cell> line 16 keeps no copy" in first.message


def test_data_and_a_model_in_float64(cell: Any, earlier: Any) -> None:
    made = "import numpy as np\ndata = torch.from_numpy(np.ones((64, 16)))\nnet = nn.Linear(16, 4).double()\n"
    used = "def batch(i):\n    return (data[i::2] - 1.0).reshape(-1, 16)\n"
    train = "for i in range(3):\n    F.cross_entropy(net(batch(0)), labels[::2]).backward()\n"
    (first,) = [f for f in cell(train, earlier(made + used)).findings if f.kind == "dtype"]
    assert (first.line, first.severity) == (None, "note")
    assert "earlier cell> line 2 brings in float64: data is what NumPy makes" in first.message
    assert "`nn.Linear(16, 4).double()` (<an earlier cell> line 3) goes along" in first.message
    assert first.remedy.startswith("Convert the data once, where it is made (.float())")
    # float32 data that is made float64 on the way is meant so
    meant = earlier(made.replace("np.ones((64, 16))", "np.ones((64, 16), 'f')") + used.replace("data", "data.double()"))
    assert not [f for f in cell(train, meant).findings if f.kind == "dtype"]
