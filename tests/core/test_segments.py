"""Reductions of pieces, and the default device."""

from __future__ import annotations

from typing import Any

import pytest

import core


@pytest.mark.parametrize(
    "f",
    [
        lambda x: core.segment_reduce(x, "mean", lengths=core.tensor([1, 3])),
        lambda x: core.segment_reduce(x, "max", offsets=core.tensor([0, 1, 4]), initial=0.2),
        lambda x: core.segment_reduce(x, "prod", lengths=core.tensor([4, 0])),
        lambda x: core.segment_reduce(x, "sum", lengths=core.tensor([2, 2]), initial=3.0),
    ],
)
def test_gradients(f: Any) -> None:
    x = core.rand(4, 3, dtype=core.float64, generator=core.Generator().manual_seed(1)).requires_grad_()
    assert core.autograd.gradcheck(f, x)
    assert core.autograd.gradgradcheck(f, x)


def test_an_empty_piece_gives_what_changes_nothing() -> None:
    x, lengths = core.tensor([1.0, 4.0]), core.tensor([2, 0])
    found = {r: core.segment_reduce(x, r, lengths=lengths).tolist() for r in ("sum", "prod", "max", "min")}
    assert found == {"sum": [5, 0], "prod": [4, 1], "max": [4, -float("inf")], "min": [1, float("inf")]}


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="when !unsafe"):
        core.segment_reduce(core.ones(3), "sum", lengths=core.tensor([1]))
    with pytest.raises(RuntimeError, match="lengths or offsets"):
        core.segment_reduce(core.ones(3), "sum")


def test_the_default_device() -> None:
    core.set_default_device("cuda")
    try:
        made = [core.ones(2), core.tensor([1.0]), core.rand(2), core.arange(3)]
    finally:
        core.set_default_device(None)
    assert {t.device.type for t in made} == {"cuda"}
    assert core.ones(2).device is core.get_default_device() is core.device("cpu")
