"""Classes that no training sample had: in losses and in comparisons, and what is no such thing."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]
SORTED = "torch.manual_seed(0)\nx, y = torch.randn(200, 16), torch.arange(200) // 40\n"
MIXED = "torch.manual_seed(0)\nx, y = torch.randn(200, 16), torch.arange(200) % 5\n"
SLICES = "x_train, y_train, x_test, y_test = x[:160], y[:160], x[160:], y[160:]\n"
TRAIN = (
    "net = nn.Linear(16, 5)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor k in range(3):\n    opt.zero_grad()\n"
    "    F.cross_entropy(net(x_train), y_train).backward()\n    opt.step()\n"
)
LOSS = "with torch.no_grad():\n    val = F.cross_entropy(net(x_test), y_test)\n"
CHOSEN = "with torch.no_grad():\n    hits = (net(x_test).argmax(1) == y_test).sum()\n"
LARGEST = "with torch.no_grad():\n    hits = (y_test == net(x_test).max(1)[1]).sum()\n"
SUBSETS = (
    "data = torch.utils.data.TensorDataset(x, y)\ntrain_set = torch.utils.data.Subset(data, range(160))\n"
    "x_train, y_train = x[torch.arange(160)], y[torch.arange(160)]\n"
    "x_test, y_test = next(iter(torch.utils.data.DataLoader(torch.utils.data.Subset(data, range(160, 200)), 40)))\n"
)


def told(cell: Any, space: Space, text: str) -> list[Any]:
    return [f for f in cell(text, space).findings if "never been trained on" in f.message]


@pytest.mark.parametrize(("test", "line"), [(LOSS, 11), (CHOSEN, 11), (LARGEST, 11)])
def test_classes_that_only_the_test_part_has(cell: Any, space: Space, test: str, line: int) -> None:
    (found,) = told(cell, space, SORTED + SLICES + TRAIN + test)
    assert (found.kind, found.severity, found.line) == ("evaluation", "warning", 3)
    assert found.message == (
        f"Line 3 splits the samples by their position, and they stand in order: line {line} judges the model by "
        "classes that it has never been trained on: 100 % of the 40 targets are of class 4, and of the 480 targets of "
        "the losses none was."
    )
    assert found.remedy.startswith("Shuffle before the split")


def test_a_split_into_subsets(cell: Any, space: Space) -> None:
    (found,) = told(cell, space, SORTED + SUBSETS + TRAIN + LOSS)
    assert found.message.startswith("Line 4 splits the samples by their position")


def test_a_split_that_nobody_sees(cell: Any, space: Space) -> None:
    text = SORTED + "order = torch.randperm(200).sort()[0]\nx_train, y_train = x[order[:120]], y[order[:120]]\n" \
        "x_test, y_test = x[order[120:]], y[order[120:]]\n"  # fmt: skip
    (found,) = told(cell, space, text + TRAIN + LOSS)
    assert found.line == 13
    assert "100 % of the 80 targets are of the classes 3 and 4, and of the 360" in found.message


@pytest.mark.parametrize(
    "text",
    [
        MIXED + SLICES + TRAIN + LOSS,
        # the class is as rare in the test part as a training part of this size may lack by chance
        MIXED + SLICES + "y_test = y_test.clone()\ny_train = y_train.clamp(max=3)\ny_test = y_test.clamp(max=3)\n"
        "y_test[0] = 4\n" + TRAIN + LOSS,
        # another head
        SORTED + SLICES + TRAIN + LOSS.replace("net(x_test)", "nn.Linear(16, 6)(x_test)"),
        # what is compared is no choice of a model
        SORTED + SLICES + TRAIN + "same = (y_test == y_test.flip(0)).sum()\n",
        # padding, that the loss leaves out
        SORTED + SLICES + TRAIN + LOSS.replace("y_test)", "y_test, ignore_index=4)"),
        # one class: nothing was trained to tell classes apart
        SORTED + SLICES + TRAIN.replace("y_train)", "y_train * 0)") + LOSS,
    ],
    ids=["mixed", "rare", "another head", "no choice", "ignored", "one class"],
)
def test_what_is_no_such_thing(cell: Any, space: Space, text: str) -> None:
    assert told(cell, space, text) == []


def test_steps_that_nobody_saw_may_have_had_them(traced: Any, space: Space) -> None:
    from lab.diagnose.data.unseen_classes import never_trained

    trace = traced(SORTED + SLICES + TRAIN + LOSS, space)
    assert len(never_trained(trace, set())) == 1
    trace.steps.unseen = 1
    assert never_trained(trace, set()) == []


@pytest.mark.parametrize(("counts", "found"), [((19, 171), True), ((19, 172), False), ((18, 171), False)])
def test_from_how_many_targets_it_is_said(traced: Any, space: Space, counts: tuple[int, int], found: bool) -> None:
    """A class of a tenth of the targets, that training would have had twenty times."""
    from lab.diagnose.data.unseen_classes import never_trained

    trace = traced(SORTED + SLICES + TRAIN + LOSS, space)
    (row,) = (row for row in trace.values.targets if not row.requires_grad)
    trains = next(row for row in trace.values.targets if row.requires_grad)
    trace.values.targets[row] = {4: counts[0], 0: counts[1]}
    trace.values.targets[trains] = {0: 100, 1: 100}
    assert bool(never_trained(trace, set())) == found
