"""Programs for test_traced_rules.py that end in an error, or are told of one as if they had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.diagnose.errors.cell_error import failing
from lab.diagnose.errors.freed_graphs import again, changed
from lab.diagnose.finding import Found
from lab.recorder.cell_trace import Trace
from widgets.record import ErrorRow

from .traced_case import Case

CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [{shape}]]{output}, is at version 1; expected version 0 instead."
)


def told_of(text: str, line: int = 9, remedy: str | None = None) -> Callable[[Trace, set[Any]], list[Found]]:
    """A rule that explains an error of PyTorch's, which says less than core's."""

    def look(trace: Trace, explained: set[Any]) -> list[Found]:
        error = ErrorRow("RuntimeError", text, line, text)
        return [changed(trace, error, remedy) if "inplace" in text else again(trace, error)]

    return look


def of(shape: str, output: str = "") -> str:
    return CHANGED.format(shape=shape, output=output and f", which is output 0 of {output}Backward0")


def by_pytorch(trace: Trace) -> None:
    """As PyTorch calls them: ops that write into their input end with an underscore."""
    for row in trace.rows:
        if row.op in ("add", "mul", "copy") and row.phase == "forward":
            row.op += "_"


def written_by(name: str) -> Callable[[Trace], None]:
    """As if the write into a tensor was called so."""

    def facts(trace: Trace) -> None:
        for row in trace.rows:
            if row.op == "copy":
                row.op = name

    return facts


def unbroken(trace: Trace) -> None:
    """As if nobody had noted where the pass broke off."""
    trace.broke = None


TANH = "w = P(16, 8)\nh = torch.tanh(x @ w)\nh.add_(1.0)\nloss = h.sum()"
PART = "w = P(16, 8)\nh = torch.tanh(x @ w)\nh[:, 2:] = 0.0\nloss = h.sum()"
SEEN = "w = P(16, 8)\nh = torch.tanh(x @ w)\nh.view(8, 64).add_(1.0)\nloss = h.sum()"
LEAF = "w = P(16, 8)\nh = x @ w\nwith torch.no_grad():\n    w.mul_(0.5)\nloss = h.sum()"
CONSTANT = "w = torch.ones(8)\nw.add_(1.0)\nloss = w.sum()"
STEPPED = (
    "net = nn.Linear(16, 4, bias=False)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "a = net(x).sum()\nb = net(x).square().sum()\na.backward()\nopt.step()"
)
AGAIN = "Trying to backward through the graph a second time (or directly access saved tensors after they were freed)."
TWICE = "w = P(16, 8)\nloss = (x @ w).sum()\nloss.backward()\nloss.backward()"
SHARED = "w = P(16, 8)\nh = torch.tanh(x @ w)\na, b = h.sum(), h.square().sum()\na.backward()\nb.backward()"
GAN = (
    "made, judge = nn.Linear(16, 16), nn.Linear(16, 1)\nopt = torch.optim.SGD(judge.parameters(), lr=0.1)\n"
    "fake = torch.tanh(made(x))\na = judge(fake).tanh().sum()\n"
    "a.backward()\nopt.step()\nb = judge(fake).square().sum()\nb.backward()"
)
BEFORE = "w = P(16, 8)\nh = torch.tanh(x @ w)\nfor k in range(3):\n    (h * k).sum().backward()"
CARRIED = (
    "w, h = P(16, 16), torch.zeros(64, 16)\nfor k in range(3):\n    h = torch.tanh(x @ w + h)\n    h.sum().backward()"
)
SUMMED = "w, total = P(16, 4), 0.0\nfor k in range(3):\n    total {by} (x @ w).square().sum()\n    total.backward()"
STATE = (
    "cell, h = nn.GRUCell(16, 8), torch.zeros(64, 8)\nfor k in range(3):\n    h = cell(x, h)\n    h.sum().backward()"
)

ERRORS = {
    "an activation that is changed": Case(told_of(of("64, 8", "Tanh")), TANH, facts=by_pytorch),
    "an activation that is changed, of no name": Case(told_of(of("64, 8")), TANH, facts=by_pytorch),
    "an activation that is changed, of another shape": Case(told_of(of("64, 9", "Relu")), TANH, facts=by_pytorch),
    "an activation that is changed by parts": Case(told_of(of("64, 8", "Tanh")), PART, facts=by_pytorch),
    "an activation that is changed through a view": Case(told_of(of("64, 8", "Tanh")), SEEN, facts=by_pytorch),
    **{
        f"an activation that is changed by parts, by {name}": Case(
            told_of(of("64, 8", "Tanh")), PART, facts=written_by(name)
        )
        for name in ("copy_", "setitem_", "fill_", "index_put_")
    },
    **{
        f"a change of parts that core tells, by {name}": Case(
            told_of(f"modified by an inplace operation: op: tanh at In [3] line 2; {name} changed it at In [3] line 3"),
            PART,
        )
        for name in ("copy_", "fill_", "index_put_")
    },
    "an activation of two words that is changed": Case(
        told_of(of("5, 5", "LogSoftmax")),
        TANH.replace("torch.tanh(x @ w)", "torch.log_softmax(x @ w, 1)"),
        facts=by_pytorch,
    ),
    "an activation that is named by its last change": Case(told_of(of("64, 8", "Add")), TANH, facts=by_pytorch),
    "an activation that is named by another change": Case(told_of(of("64, 9", "Add")), TANH, facts=by_pytorch),
    "an activation that is changed twice": Case(
        told_of(of("64, 8", "Tanh")), TANH.replace("h.add_(1.0)", "h.add_(1.0)\nh.mul_(2.0)"), facts=by_pytorch
    ),
    "a weight that is changed": Case(told_of(of("16, 8")), LEAF, facts=by_pytorch),
    "a weight that is changed, read by a view": Case(told_of(of("8, 16", "AsStrided")), LEAF, facts=by_pytorch),
    "a weight that is changed, of another op": Case(told_of(of("8, 16", "Tanh")), LEAF, facts=by_pytorch),
    "a change whose op is another": Case(told_of(of("64, 9", "Relu")), TANH, facts=by_pytorch),
    "a change that has been read by none": Case(told_of(of("5, 5", "Relu")), LEAF, facts=by_pytorch),
    "a constant that is changed": Case(told_of(of("8")), CONSTANT, facts=by_pytorch),
    "a change of which nothing is known": Case(told_of(of("8")), "w = P(8)\nloss = w.sum()"),
    "a step between two losses": Case(told_of(of("16, 4", "AsStrided")), STEPPED),
    "a step between two losses, of no shape": Case(told_of("a leaf was modified by an inplace operation"), STEPPED),
    "a step between losses of another shape": Case(told_of(of("5, 4")), STEPPED),
    "a change that core tells": Case(
        told_of("modified by an inplace operation: op: tanh at In [3] line 2; add_ changed it at In [3] line 3"), TANH
    ),
    "a change that core tells, of a part": Case(
        told_of("modified by an inplace operation: op: tanh at In [3] line 2; setitem_ changed it at In [3] line 3"),
        PART,
    ),
    "a change in a file": Case(
        told_of("modified by an inplace operation: op: tanh at a.py line 7; add_ changed it at b.py line 3"), TANH
    ),
    "a change with a remedy of its own": Case(
        told_of("modified by an inplace operation: add_ changed it at In [3] line 3", remedy="clone it"), TANH
    ),
    "a step that core tells": Case(
        told_of("modified by an inplace operation: op: linear at In [3] line 3; sgd_step changed it at In [3] line 6"),
        STEPPED,
    ),
    "a step in a file": Case(
        told_of("modified by an inplace operation: sgd_step changed it at train.py line 6"), STEPPED
    ),
    "a graph that is gone": Case(told_of(AGAIN, 4), TWICE),
    "a graph that is gone, one knows no more": Case(told_of(AGAIN, 4), TWICE, facts=unbroken),
    "a graph that is gone, and where it ran": Case(told_of(AGAIN + " it ran at In [3] line 3", 4), TWICE),
    "a graph that is gone on the same line": Case(told_of(AGAIN + " it ran at In [3] line 4", 4), TWICE),
    "a graph of two losses": Case(told_of(AGAIN, 5), SHARED),
    "a graph of two losses, as core tells": Case(failing, SHARED),
    "a graph of two networks": Case(failing, GAN),
    "a graph from before the loop": Case(failing, BEFORE),
    "a state that is carried": Case(failing, CARRIED),
    "a state of a cell that is carried": Case(failing, STATE),
    "a sum that is carried": Case(failing, SUMMED.format(by="+=")),
    "a sum that is carried, by a plus": Case(failing, SUMMED.format(by="= total +")),
    "a sum that is carried, from the right": Case(failing, SUMMED.format(by="= (x @ w).tanh().sum() + total #")),
    # -- shapes
    "features joined along the samples": Case(
        failing, "a, b = torch.ones(64, 8), torch.ones(64, 8)\nnet = nn.Linear(16, 4)\nnet(torch.cat([a, b]))"
    ),
    "tensors that differ elsewhere": Case(failing, "a, b = torch.ones(4, 8), torch.ones(4, 9)\ntorch.cat([a, b])"),
    "tensors that differ in two": Case(failing, "a, b = torch.ones(4, 8, 2), torch.ones(4, 9, 3)\ntorch.cat([a, b])"),
    "images that are not flattened": Case(failing, "net = nn.Linear(48, 4)\nnet(torch.ones(5, 3, 4, 4))"),
    "images that are flattened to others": Case(
        failing, "net = nn.Linear(40, 4)\nnet(torch.ones(5, 3, 4, 4).flatten(1))"
    ),
    "features in the first dimension": Case(failing, "net = nn.Linear(64, 4)\nnet(x)"),
    "features of another number": Case(failing, "net = nn.Linear(17, 4)\nnet(x)"),
    "a view of another order": Case(failing, "t = torch.ones(8, 4, 10, 4).transpose(1, 2)\nt.view(8, 40, 4)"),
    "a view of another order, one open": Case(failing, "t = torch.ones(8, 4, 6).transpose(0, 1)\nt.view(8, -1)"),
    "other predictions than targets": Case(
        failing, "net = nn.Linear(8, 4)\nF.cross_entropy(net(x.view(-1, 8)), labels)"
    ),
    "other predictions by an index": Case(
        failing, "net = nn.Linear(16, 4)\nF.cross_entropy(net(x[:32].repeat(3, 1)), labels[:32])"
    ),
    "time in place of samples": Case(
        failing,
        "rnn, net = nn.GRU(16, 8), nn.Linear(8, 4)\no, _ = rnn(torch.ones(6, 5, 16))\n"
        "F.cross_entropy(net(o[:, -1]), labels[:5])",
    ),
    "time in place of samples, the last": Case(
        failing,
        "rnn, net = nn.LSTM(16, 8), nn.Linear(8, 4)\no, _ = rnn(torch.ones(6, 5, 16))\n"
        "F.cross_entropy(net(o[-1]), labels[:6])",
    ),
    "classes in the last dimension": Case(
        failing, "net = nn.Linear(16, 4)\nF.cross_entropy(net(torch.ones(3, 7, 16)), torch.zeros(3, 7).long())"
    ),
    "a row that a table does not have": Case(failing, "net = nn.Embedding(8, 4)\nnet(torch.tensor([1, 8]))"),
    "a row far beyond a table": Case(failing, "net = nn.Embedding(8, 4)\nnet(torch.tensor([1, 33]))"),
    "a row not quite so far": Case(failing, "net = nn.Embedding(8, 4)\nnet(torch.tensor([1, 32]))"),
    "a row below a table": Case(failing, "net = nn.Embedding(8, 4)\nnet(torch.tensor([1, -1]))"),
    "classes from 1": Case(failing, "net = nn.Linear(16, 4)\nF.cross_entropy(net(x), labels + 1)"),
    "more classes than outputs": Case(failing, "net = nn.Linear(16, 3)\nF.cross_entropy(net(x), labels)"),
    "more classes than outputs from 1": Case(failing, "net = nn.Linear(16, 3)\nF.cross_entropy(net(x), labels + 1)"),
    "a class below 0": Case(failing, "net = nn.Linear(16, 4)\nF.cross_entropy(net(x), labels - 1)"),
    "a class that marks what has none": Case(
        failing, "net = nn.Linear(16, 4)\nF.cross_entropy(net(x), torch.where(labels == 3, 255, labels))"
    ),
    "bytes to a layer": Case(failing, "net = nn.Conv2d(3, 4, 3)\nnet(torch.tensor(np.ones((2, 3, 8, 8), np.uint8)))"),
    "integers to a layer": Case(failing, "net = nn.Linear(16, 4)\nnet(torch.ones(64, 16).long())"),
}
