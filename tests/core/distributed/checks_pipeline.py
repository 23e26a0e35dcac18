"""What pipelines do on ranks: run by test_on_ranks.py."""

from __future__ import annotations

import functools
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    get_schedule_class,
)
from tests.core.distributed.models import raises


class Logged(nn.Module):
    """Says how many small batches are under way."""

    def __init__(self, log: list[int]) -> None:
        super().__init__()
        self.inner, self.log = nn.Linear(2, 2), log

    def forward(self, x: Any) -> Any:
        self.log.append(1)
        y = self.inner(x)
        y.register_hook(lambda g: self.log.append(-1))
        return y


def check_few_activations_are_held() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for kind, most in ((Schedule1F1B, n - rank), (ScheduleGPipe, 6)):
        log: list[int] = []
        schedule = kind(PipelineStage(Logged(log), rank, n, "cpu"), 6, nn.functional.mse_loss)
        schedule.step(*([core.ones(6, 2)] if rank == 0 else []), target=core.zeros(6, 2))
        held = [sum(log[: k + 1]) for k in range(len(log))]
        assert max(held) == most, (kind, log)
        assert held[-1] == 0


def check_uneven_parts_and_several_tensors() -> None:
    """Parts of different sizes; stages that hand on two tensors, one of them without a gradient."""
    rank, n = dist.get_rank(), dist.get_world_size()

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(core.ones(3))

        def forward(self, x: Any, places: Any = None, *, add: Any = None) -> Any:
            places = core.arange(len(x)) if places is None else places
            y = x * self.w + add
            return y.sum(-1) if rank == n - 1 else (y, places)

    stage = PipelineStage(Two(), rank, n, "cpu")
    schedule = Schedule1F1B(stage, 3, lambda out, y: ((out - y) ** 2).sum(), scale_grads=False)
    for _ in range(2):
        stage.submod.zero_grad()
        out = schedule.step(*([core.ones(7, 3)] if rank == 0 else []), target=core.zeros(7), add=core.ones(7, 3))
        want = 3.0 * (n + 1)
        assert out is None or out.tolist() == [want] * 7
        # of 7 squared sums: each of three weights sees the value that came, 1 more than the number of stages before
        assert stage.submod.w.grad.tolist() == [7 * 2 * want * (rank + 1)] * 3
    out = schedule.eval(*([core.ones(7, 3)] if rank == 0 else []), add=core.ones(7, 3))
    assert out is None or out.tolist() == [3.0 * (n + 1)] * 7


def check_wrong_stages_say_so() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    assert "stage of its number" in raises(ValueError, lambda: PipelineStage(nn.Identity(), n, n, "cpu"))
    two = [PipelineStage(nn.Identity(), k, 2 * n, "cpu") for k in (rank, rank + n)]
    assert "all of its stages" in raises(ValueError, lambda: ScheduleInterleaved1F1B(two[:1], 2 * n))
    assert "Interleaved" in raises(ValueError, lambda: ScheduleGPipe(two[0], 2))
    assert get_schedule_class("interleaved1f1b") is ScheduleInterleaved1F1B
    assert "LoopedBFS" in raises(ValueError, lambda: get_schedule_class("ZBVZeroBubble"))
    if n > 1:
        assert "rounds" in raises(ValueError, lambda: ScheduleInterleaved1F1B(two, 2 * n + 1))
    stage = PipelineStage(nn.Identity(), rank, n, "cpu")
    if rank == n - 1:
        assert "loss function" in raises(RuntimeError, lambda: ScheduleGPipe(stage, 2).step(core.ones(2, 1)))
    if rank == 0:
        schedule = ScheduleGPipe(stage, 3, nn.functional.mse_loss)
        assert "fewer rows than parts" in raises(RuntimeError, functools.partial(schedule.step, core.ones(2, 1)))
