"""Steps of a wrong size: facts of a recorded training loop are set just below, at and just above each bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.diagnose.training.step_sizes import step_size, wide
from lab.recorder.cell_trace import Leaf, Trace

Space = dict[str, Any]
LOOP = """
net = nn.Linear(16, 4)
opt = torch.optim.{kind}(net.parameters(), lr=0.01)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def loop(traced: Any, space: Space, kind: str = "SGD") -> tuple[Trace, Leaf]:
    """The trace of a loop, and its weight: by the facts as they are recorded nothing is wrong."""
    trace = traced(LOOP.format(kind=kind), space)
    assert step_size(trace, set()) == []
    return trace, next(leaf for leaf in trace.largest if len(leaf.shape) == 2)


def give(trace: Trace, weight: Leaf, **facts: Any) -> None:
    """Set facts of the steps by their names, and: `ratio`, by how much a step changed the weight; `loss`, where it
    began, where it ended and how high it went; `first`, the sizes of the weight and its gradient then; `lost`."""
    if (ratio := facts.pop("ratio", None)) is not None:
        trace.largest[weight] = ratio
    if (loss := facts.pop("loss", None)) is not None:
        (row,) = (r for r in trace.rows if r.course is not None)
        row.course = SimpleNamespace(  # type: ignore[assignment]
            first=(loss[0], 0.0), count=facts.pop("losses", 4), ends=lambda: loss
        )
    if (first := facts.pop("first", None)) is not None:
        trace.first[weight] = first
    trace.gradients[weight].nonfinite = int(facts.pop("lost", False))
    for name, value in facts.items():
        assert hasattr(trace.steps, name)
        setattr(trace.steps, name, value)


LARGE = "Line 7 takes steps that are too large"
SMALL = "Line 7 takes steps too small to matter"
SHRINKS = "Line 7 makes all weights smaller by"
ASLEEP = "Line 7 stops the training"
FALLS = "Line 4 makes a loss that falls for ever"


@pytest.mark.parametrize(("facts", "said"), [
    ({"ratio": 0.5, "loss": (1.0, 2.0, 2.0)}, ""),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0)},
     f"{LARGE} (lr=0.01): one changed net.weight by 0.51 times its own size, and the loss went from 1 to 2."),
    ({"ratio": 0.51, "loss": (1.0, 1.49, 1.5)}, ""),  # small batches scatter by so much
    ({"ratio": 0.51, "loss": (1.0, 1.5, 1.5)}, LARGE),
    ({"ratio": 2.1, "loss": (1.0, 0.99, 1.0)}, ""),
    ({"ratio": 2.1, "loss": (1.0, 1.0, 1.0)}, LARGE),
    ({"ratio": 2.0, "loss": (1.0, 1.0, 1.0)}, ""),
    ({"ratio": 0.51, "loss": (1.0, 0.5, 3.0)}, ""),
    ({"ratio": 0.51, "loss": (1.0, 0.5, 3.1)}, f"{LARGE} (lr=0.01): one changed net.weight by 0.51 times its own size, "
     "and the loss rose from 1 to 3.1 on the way."),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "count": 1}, ""),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "count": 2}, LARGE),
    ({"ratio": 0.51, "loss": (1.0, 0.1, 1.0), "lost": True}, LARGE),
    ({"ratio": 0.51, "loss": (float("inf"), 2.0, 2.0)}, ""),  # before any step
    # a first gradient that large weights have made is none of the steps' fault, at a usual learning rate
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "first": (0.76, 7_601.0)}, ""),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "first": (0.76, 7_599.0)}, LARGE),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "first": (0.74, 7_601.0)}, LARGE),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "first": (0.76, 7_601.0), "lr": 0.3}, ""),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "first": (0.76, 7_601.0), "lr": 0.31}, LARGE),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "first": (0.76, 7_601.0), "lr": 0.02, "adaptive": True}, ""),
    ({"ratio": 0.51, "loss": (1.0, 2.0, 2.0), "first": (0.76, 7_601.0), "lr": 0.03, "adaptive": True}, LARGE),
    ({"shrinks": (2.0, 0.02), "lr": 0.01}, f"{SHRINKS} 2 % in every step (weight_decay=2, lr=0.01): what a step "
     "learns is gone after a few."),
    ({"shrinks": (2.0, 0.0199)}, ""),
    ({"shrinks": (2.0, 0.02), "count": 2}, SHRINKS),
    ({"shrinks": (2.0, 0.02), "count": 1}, ""),
    ({"shrinks": (1.0, 0.1), "lr": 0.1, "adaptive": True},
     "Line 7 steps by the weight decay and hardly by the loss: weight_decay=1 adds 1 times the weight to its "),
    ({"shrinks": (0.9, 0.1), "lr": 0.1, "adaptive": True}, SHRINKS),
    ({"shrinks": (1.0, 0.1), "lr": 0.2, "adaptive": True}, SHRINKS),
    ({"shrinks": (1.0, 0.1), "lr": 0.1}, SHRINKS),
    ({"shrinks": (2.0, 0.02), "ratio": 0.51, "loss": (1.0, 2.0, 2.0)}, SHRINKS),
    ({"ratio": 0.9e-7},
     f"{SMALL} (lr=0.01): they change the weights by at most 9e-08 of their size, 3.6e-07 in all 4."),
    ({"ratio": 1e-7}, ""),
    ({"ratio": 0.9e-7, "count": 1}, ""),
    ({"ratio": 0.9e-7, "count": 2}, SMALL),
    ({"ratio": 2.4e-6, "count": 8}, SMALL),  # by 2e-5 in all
    ({"ratio": 2.5e-6, "count": 8}, ""),
    ({"ratio": 2.4e-6, "count": 4, "unseen": 4}, SMALL),
    ({"ratio": 2.7e-6, "count": 7}, ""),
    ({"ratio": 0.9e-7, "lr": 0.01, "highest_lr": 0.02}, f"{SMALL} (lr from 0.02 to 0.01)"),
    ({"asleep": 2}, ""),
    ({"asleep": 3, "count": 6}, ""),
    ({"asleep": 3, "count": 5, "highest_lr": 0.1, "lr": 1e-6}, f"{ASLEEP}: it hardly moves the weights in 3 of 5 "
     "steps, since the learning rate has fallen from 0.1 to 1e-06."),
    ({"loss": (-1.0, -1_000.0, -1.0)}, ""),
    ({"loss": (-1.0, -1_001.0, -1.0)}, f"{FALLS} (`F.cross_entropy(net(x), labels)` goes from -1 to -1e+03)"),
    ({"loss": (-2.0, -1_999.0, -1.0)}, ""),
    ({"loss": (0.5, -1_001.0, 1.0)}, FALLS),
    ({"loss": (-1.0, -1_001.0, -1.0), "count": 2}, ""),
    ({"loss": (-1.0, -1_001.0, -1.0), "count": 3}, FALLS),
    ({"loss": (-1.0, -1_001.0, -1.0), "losses": 1}, ""),
])  # fmt: skip
def test_where_a_step_is_wrong(traced: Any, space: Space, facts: dict[str, Any], said: str) -> None:
    trace, weight = loop(traced, space)
    give(trace, weight, **facts)
    found = [f.message for f in step_size(trace, set())]
    assert [f.startswith(said) for f in found] == ([True] if said else []), found
    assert step_size(trace, {leaf for leaf in trace.largest if len(leaf.shape) == 2}) == []


def test_what_a_loss_that_is_lost_is_told_as(traced: Any, space: Space) -> None:
    trace, weight = loop(traced, space)
    for lost, severity in ((False, "warning"), (True, "error")):
        give(trace, weight, ratio=0.6, loss=(1.0, 2.0, 2.0), lost=lost)
        (finding,) = step_size(trace, set())
        assert (finding.severity, finding.leaves) == (severity, [weight])
    trace.steps.stale = trace.steps.last_backward
    assert step_size(trace, set()) == []  # gradients pile up: that is the cause


def test_a_weight_that_began_at_zero_changes_by_much(traced: Any, space: Space) -> None:
    trace, weight = loop(traced, space)
    trace.steps.from_zero.add(weight)
    for loss, found in (((1.0, 14.9, 29.0), False), ((1.0, 15.0, 29.0), True), ((1.0, 0.1, 31.0), True)):
        give(trace, weight, ratio=0.6, loss=loss)
        assert bool(step_size(trace, set())) == found


@pytest.mark.parametrize(("kind", "ratio", "lr", "found"), [
    ("Adam", 2.1, 0.3, True), ("Adam", 2.0, 0.3, False), ("Adam", 2.1, 0.29, False), ("SGD", 2.1, 0.3, False),
    ("AdamW", 2.1, 0.3, True), ("RMSprop", 2.1, 0.3, True), ("NAdam", 2.1, 0.3, True), ("RAdam", 2.1, 0.3, True),
    ("Adagrad", 2.1, 0.3, False),
])  # fmt: skip
def test_a_rate_that_no_loss_excuses(
    traced: Any, space: Space, kind: str, ratio: float, lr: float, found: bool
) -> None:
    trace, weight = loop(traced, space, kind)
    give(trace, weight, ratio=ratio, lr=lr, loss=(1.0, 0.5, 1.0))
    assert ["what it began with is gone" in f.message for f in step_size(trace, set())] == ([True] if found else [])
    trace.steps.from_zero.add(weight)
    assert step_size(trace, set()) == []


@pytest.mark.parametrize(("adaptive", "highest", "words"), [
    (False, 0.9e-3, "0.01 to 0.1 are usual for SGD"), (True, 0.9e-4, "1e-3 is usual for Adam"),
    (False, 1e-3, "the loss hardly depends on these weights"), (True, 1e-4, "the loss hardly depends on these"),
    (True, 0.9e-3, "the loss hardly depends on these"),
])  # fmt: skip
def test_what_is_to_be_done_about_small_steps(
    traced: Any, space: Space, adaptive: bool, highest: float, words: str
) -> None:
    trace, weight = loop(traced, space)
    give(trace, weight, ratio=1e-9, adaptive=adaptive, highest_lr=highest, lr=highest)
    (finding,) = step_size(trace, set())
    assert words in finding.remedy
    trace.gradients[weight].max_abs = 0.0  # it is not moved: its gradient is 0
    assert step_size(trace, set()) == []


@pytest.mark.parametrize(("high", "found"), [(50.0, False), (51.0, True), (float("inf"), False)])
def test_data_far_from_one(traced: Any, space: Space, high: float, found: bool) -> None:
    space["x"][0, 0] = high
    trace = traced(
        LOOP.format(kind="SGD").replace("cross_entropy(net(x), labels)", "mse_loss(x, net(x)[:, :1])"), space
    )
    assert wide(trace) == (("x", high) if found else None)
