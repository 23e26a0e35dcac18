"""Tensors without memory in a cell: what runs on them is left out, and the rest is recorded."""

from __future__ import annotations

import core
import lab


def test_a_model_that_is_made_without_memory_and_filled() -> None:
    with lab.record() as recording:
        with core.device("meta"):
            model = core.nn.Sequential(core.nn.Linear(3, 4), core.nn.ReLU(), core.nn.Linear(4, 1))
            core.nn.init.normal_(model[0].weight)
            model(core.empty(2, 3)).sum().backward()
        model = model.to_empty(device="cpu")
        for p in model.parameters():
            core.nn.init.normal_(p)
            p.grad = None
        model(core.ones(2, 3)).sum().backward()
    assert not recording.failure()
    assert recording.record.kernels
    assert not recording.record.findings


def test_steps_without_memory() -> None:
    with lab.record() as recording:
        weight = core.ones(3, device="meta", requires_grad=True)
        optimizer = core.optim.Adam([weight])
        for _ in range(3):
            optimizer.zero_grad()
            (weight * 2).sum().backward()
            optimizer.step()
        x = core.ones(2) * 3
    assert not recording.failure()
    assert x.tolist() == [3, 3]
