"""Mistakes of the sciences in other words than those of the planted cells: read, not run."""

from __future__ import annotations

from typing import Any

import pytest

from lab.diagnose.graph.own_gradients import not_the_slope
from lab.diagnose.order import in_order

from . import read_other_ways, read_ways_of_data
from .read_other_words import NOT_TOLD, TOLD
from .test_read_rules import found_in

SCIENCES = (
    "action_values", "policy_steps", "soft_actors", "adversaries", "input_derivatives", "sampled_noise",
    "flows_and_tokens", "priors", "pairs_compared", "graph_messages", "own_gradients", "bound_in_vain",
    "changed_inputs", "turned_qualities", "signals", "rounded_away",
)  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_it_is_told_in_other_words_too(name: str) -> None:
    rule, line, text = TOLD[name]
    look = next(look for look in in_order() if f"{look.__module__}.{look.__name__}".endswith(f".{rule}"))
    assert [found.line for found in found_in(look, text)] == [line]


WAYS = read_other_ways.WAYS | read_ways_of_data.WAYS


@pytest.mark.parametrize("name", WAYS)
def test_a_spelling_is_told_and_what_looks_like_it_is_not(name: str) -> None:
    rule, line, text = WAYS[name]
    look = next(look for look in in_order() if f"{look.__module__}.{look.__name__}".endswith(f".{rule}"))
    assert [found.line for found in found_in(look, text)] == ([] if line is None else [line])


@pytest.mark.parametrize("name", NOT_TOLD)
def test_nothing_is_told_of_what_is_mended(name: str) -> None:
    rules = [rule for rule in in_order() if rule.__module__.rpartition(".")[2] in SCIENCES]
    assert [found for rule in rules for found in found_in(rule, NOT_TOLD[name])] == []


@pytest.mark.parametrize(
    ("derivative", "right"), [("1 - out ** 2", True), ("1 - out", False), ("1 - out * out", True), ("out", False)]
)
def test_a_gradient_is_held_against_its_slope(derivative: str, right: bool, traced: Any, space: dict[str, Any]) -> None:
    text = f"""
class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        out = torch.tanh(v)
        ctx.save_for_backward(out)
        return out
    @staticmethod
    def backward(ctx, g):
        out, = ctx.saved_tensors
        return g * ({derivative})
w = nn.Linear(16, 4)
Squash.apply(w(x)).sum().backward()
"""
    found = not_the_slope(traced(text.lstrip(), space), set())
    assert bool(found) is not right


def test_a_gradient_that_is_another_on_purpose_is_left_alone(traced: Any, space: dict[str, Any]) -> None:
    text = """
class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        return (v > 0).float()
    @staticmethod
    def backward(ctx, g):
        return g
w = nn.Linear(16, 4)
Rounded.apply(w(x)).sum().backward()
"""
    assert not not_the_slope(traced(text.lstrip(), space), set())
