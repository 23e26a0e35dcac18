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


STEPS = (
    "\nnet = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor k in range(3):\n"
    "    opt.zero_grad()\n    F.cross_entropy(net(x_train), labels[:40]).backward()\n    opt.step()\n"
)
SCALE, SPLIT = "x = (x - x.mean(0)) / x.std(0)\n", "x_train, x_test = x[:40], x[40:]\n"


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        ([SCALE, "\n" + SPLIT], "In [1] line 1 scales x"),
        (["seen = len(x)\n", SCALE + SPLIT], "In [2] line 1 scales x"),
        ([SCALE + SPLIT, "def part():\n    return x_train\n", "x_train = part()\n"], "In [1] line 1 scales x"),
        (["\nx = x * 1.0\n\n", "\n" + SCALE, SPLIT], "In [2] line 2 scales x"),
    ],
)
def test_statements_of_earlier_cells(cell: Any, notebook: Any, cells: list[str], line: str) -> None:
    found = cell(STEPS, notebook(*cells)).findings
    assert [f.message.startswith(line) for f in found if f.kind == "evaluation"] == [True]


@pytest.mark.parametrize(
    "cells",
    [
        [SCALE, "x = torch.randn(64, 16)\n", SPLIT],  # another x
        [SCALE + SPLIT, "x = torch.randn(64, 16)\n" + SPLIT],  # run again, mended
        [SPLIT, SCALE],  # scaled for another purpose
        [SPLIT, "def unused():\n    z = x\n    z = z - z.mean(0)\n    return z[:40], z[40:]\n"],
    ],
)
def test_statements_of_earlier_cells_that_are_right(cell: Any, notebook: Any, cells: list[str]) -> None:
    found = cell(STEPS, notebook(*cells)).findings
    assert [f.message for f in found if f.kind == "evaluation"] == []


def test_statements_of_earlier_cells_are_told_of_a_cell_that_trains(cell: Any, notebook: Any) -> None:
    space = notebook(SCALE, SPLIT)
    assert [f for f in cell("print(x_train.sum())", space).findings if f.kind == "evaluation"] == []


def test_a_second_name_that_an_earlier_cell_gives_a_network(cell: Any, notebook: Any) -> None:
    space = notebook("x_train = x[:40]\nnet = nn.Linear(16, 4)\n", "target_net = net\n")
    text = STEPS.replace("net = nn.Linear(16, 4)", "y = target_net(x_train)")
    (message,) = (f.message for f in cell(text, space).findings)
    assert message.startswith("In [2] line 1 gives net a second name and makes no copy")


PENALTY = """\
def penalty(net, real):
    mixed = real.clone().requires_grad_()
    slopes = torch.autograd.grad(net(mixed).sum(), mixed{})[0]
    return ((slopes.norm(dim=1) - 1) ** 2).mean()
net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
FITS = """
for k in range(3):
    loss = net(x).square().mean() + penalty(net, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_function_of_an_earlier_cell_is_read_where_a_cell_calls_it(cell: Any, notebook: Any) -> None:
    """Neither text alone has the words of the rule: the one differentiates, the other trains."""
    messages = [f.message for f in cell(FITS, notebook(PENALTY.format(""))).findings]
    assert messages[0].startswith("In [1] line 3 takes a derivative without its graph")
    assert cell(FITS, notebook(PENALTY.format(", create_graph=True"))).findings == []


SHOWN = """\
import copy
def fit(net, opt):
    for k in range(3):
        loss = F.cross_entropy(net(x), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    best = copy.deepcopy(net)
    pictures = best(x[:4]).detach().numpy()
"""


def test_values_that_leave_within_a_call_are_not_said_to_come_back_there(cell: Any, notebook: Any) -> None:
    """The call's text does not tell which of what runs in it comes first: here the training."""
    text = "net = nn.Linear(16, 4)\nfit(net, torch.optim.SGD(net.parameters(), lr=0.1))\n"
    assert [f.message for f in cell(text, notebook(SHOWN)).findings if f.kind == "cut"] == []


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
    space = earlier(MADE + f"lenient = False\nnet.load_state_dict(Net().state_dict(), {given})\n")
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


def test_the_loop_of_small_ops_is_the_one_that_runs_them(cell: Any, earlier: Any) -> None:
    space = earlier(
        "def distance(a, b):\n    d = a - b\n    return (d * d).sum()\ndef matrix(rows):\n"
        "    out = torch.zeros(len(rows), len(rows))\n    for i, a in enumerate(rows):\n"
        "        for j, b in enumerate(rows):\n            out[i, j] = distance(a, b)\n    return out\n"
    )
    found = cell("D = matrix(list(x[:30]))", space).findings[0]
    assert (found.kind, found.line) == ("overhead", 1)
    assert found.message.startswith(
        "The loop at line 1 (<an earlier cell> line 7), `for j, b in enumerate(rows)`, runs"
    )
    assert "(most of them on <an earlier cell> line 3" in found.message


def test_the_line_of_another_file_that_takes_the_time(cell: Any, earlier: Any) -> None:
    space = earlier(
        "class Memory:\n    def sample(self):\n        rows = sorted(range(200_000), key=abs)\n        return rows\n"
    )
    text = "net, memory = nn.Linear(16, 4), Memory()\nfor k in range(12):\n    rows = memory.sample()\n"
    found = cell(text + "    net(x).sum().backward()", space).findings
    (found,) = (f for f in found if f.kind == "data-loader")
    assert found.line == 3
    assert "; most of that in sample, <an earlier cell> line 3 (`sorted(range(200_000), key=abs)`)" in found.message


FROZEN = """
net = nn.Sequential(nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8)), nn.Linear(8, 4))
for p in net[0].parameters():
    p.requires_grad = False
"""


@pytest.mark.parametrize("made", [True, False])
def test_training_mode_that_an_earlier_cell_gave_to_another_model_of_the_name(
    cell: Any, notebook: Any, made: bool
) -> None:
    space = notebook("net = nn.Linear(16, 4)\nnet.train()\n" if made else FROZEN + "net.train()\n")
    found = cell((FROZEN if made else "") + TRAIN, space).findings
    (message,) = (f.message for f in found if "puts what is frozen" in f.message)
    assert message.startswith("In [1] line") is not made


def test_a_branch_with_a_checkpoint_that_was_passed_by(cell: Any, space: Space) -> None:
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.save = nn.Linear(16, 8), nn.Linear(8, 4), False
    def forward(self, x):
        if self.save:
            h = torch.utils.checkpoint.checkpoint(self.body, x)
        else:
            h = self.body(x).detach()
        return self.head(h)
net = Net()
"""
    first = cell(text + TRAIN, space).findings[0]
    assert (first.kind, first.line) == ("cut", 9)
