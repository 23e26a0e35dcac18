"""The count-only form: what a cell did, told in a line, without listening to its ops."""

from __future__ import annotations

import pytest

import core
from core import nn
from core.events import observe
from lab.session.op_counts import Counter, Counts, remarks


def test_ops_passes_and_steps_are_counted_with_nobody_listening() -> None:
    model = nn.Linear(3, 2)
    optimizer = core.optim.SGD(model.parameters(), lr=0.1)
    x = core.ones(4, 3)
    counter = Counter()
    for _ in range(5):
        assert observe.observers == ()
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        optimizer.step()
    counts = counter.stop({})
    assert (counts.ops, counts.passes, counts.steps) == (15, 5, 5)  # linear, pow, sum
    assert counts.wall_ms > 0


def test_a_write_in_place_is_one_op_and_hooks_are_none() -> None:
    x = core.ones(3, requires_grad=True)
    y = x * 2
    counter = Counter()
    y.add_(1.0)
    y.register_hook(lambda g: g)
    assert counter.stop({}).ops == 1


def test_a_cell_that_did_nothing_is_not_told() -> None:
    counts = Counter().stop({"x": core.tensor(float("nan"))})
    assert not counts
    assert counts.remarks == []


def test_what_is_amiss_is_named() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2))
    model[0](core.ones(1, 3)).sum().backward()
    assert remarks({"model": model}) == [
        "model.1.weight and model.1.bias got no gradient, others of the same module did"
    ]
    model[1].weight.requires_grad_(False)
    model[1].bias.requires_grad_(False)
    assert remarks({"model": model}) == []
    with core.no_grad():
        model[0].bias[0] = float("inf")
    assert remarks({"model": model, "same": model, "first": model[0]}) == ["model.0.bias holds NaN or infinity"]
    assert remarks({"loss": core.tensor(float("inf")), "_1": core.tensor(float("nan"))}) == ["loss is infinite"]


def test_what_an_earlier_cell_left_is_not_told_of_this_one() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2))
    model[0](core.ones(1, 3)).sum().backward()
    space = {"model": model, "loss": core.tensor(float("nan"))}
    counter = Counter(space)
    core.ones(2, requires_grad=True).sum().backward()
    assert counter.stop(space).remarks == []
    counter = Counter(space)
    model[0](core.ones(1, 3)).sum().backward()  # adds to the gradients in place
    space["loss"] = core.tensor(float("inf"), requires_grad=True) * 2
    assert counter.stop(space).remarks == [
        "loss is infinite",
        "model.1.weight and model.1.bias got no gradient, others of the same module did",
    ]


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        (Counts(1, 1, 0, 0.5), "autograd: 1 op recorded, 1 backward pass in 0.5 ms"),
        (Counts(2000, 0, 3, 2500.0), "autograd: 2,000 ops recorded, 3 optimizer steps in 2.50 s"),
    ],
)
def test_the_line(counts: Counts, line: str) -> None:
    assert str(counts) == line
