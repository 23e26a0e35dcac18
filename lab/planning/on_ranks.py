"""What ranks run to be measured: ``python -m core.distributed.run -n 2 -m lab.planning.on_ranks TASK``.

A task is a JSON object, its answer a line of JSON of rank 0's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed.optim import ZeroRedundancyOptimizer
from core.distributed.pipelining import PipelineStage, Schedule1F1B
from core.distributed.tensor import init_device_mesh
from core.distributed.tensor.parallel import parallelize_module
from core.nn import functional as F
from core.nn.parallel import DistributedDataParallel

from .costs import costs_of
from .estimate import stages
from .models import DIVIDED, MICRO, MODELS

MARK = "lab plan: "
SIZES = (4_000, 100_000, 1_000_000, 4_000_000, 16_000_000)
STACKS = ((64, 2), (256, 4), (512, 4), (768, 4))
"""Widths and numbers of linear layers of the models by which is measured what summing gradients adds to a step."""
STACK_SAMPLES = 64
ROUNDS = 15


def main(argv: list[str]) -> int:
    """Do a task, and print its answer."""
    core.set_num_threads(1)
    core.manual_seed(0)
    task = json.loads(argv[0])
    dist.init_process_group("mpi")
    try:
        found = TASKS[task.pop("task")](**task)
        if dist.get_rank() == 0:
            print(MARK + json.dumps(found), flush=True)
    finally:
        dist.destroy_process_group()
    return 0


def _timed(run: Callable[[], object], rounds: int = ROUNDS, warm: int = 3) -> float:
    """Return the median seconds of a call that all ranks make together."""
    times = []
    for k in range(rounds + warm):
        dist.barrier()
        begin = perf_counter()
        run()
        took = core.tensor([perf_counter() - begin], dtype=core.float64)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        if k >= warm:
            times.append(float(took))
    return median(times)


def network() -> dict[str, Any]:
    """Return the seconds of sums of some sizes, of a piece of work that every rank does at once, and what summing
    gradients adds to a training step, by their bytes."""
    sums = {}
    for size in SIZES:
        x = core.ones(size // 4)
        sums[size] = _timed(lambda x=x: dist.all_reduce(x))  # type: ignore[misc]
    a, b = core.randn(256, 256), core.randn(256, 256)
    c = core.randn(1 << 20)

    def work() -> None:
        for _ in range(20):
            a @ b
        c * 2 + 1

    return {"sums": sums, "work": _timed(work), "gradients": dict(_synced(*stack) for stack in STACKS)}


def _synced(wide: int, layers: int) -> tuple[int, float]:
    """Return the bytes of a model's gradients, and the seconds that summing them adds to forward and backward: hooks,
    copies into buckets and out of a cold cache, and the wait for the last rank are in it."""
    net = DistributedDataParallel(nn.Sequential(*[nn.Linear(wide, wide) for _ in range(layers)]))
    x = core.randn(STACK_SAMPLES, wide)

    def summed() -> None:
        net.zero_grad()
        net(x).sum().backward()

    def apart() -> None:
        with net.no_sync():
            summed()

    summed()
    pairs = [_timed(summed, 3, 1) - _timed(apart, 3, 1) for _ in range(ROUNDS)]
    return 4 * sum(p.numel() for p in net.parameters()), max(median(pairs), 0.0)


def step(model: str, samples: int, way: str = "ddp") -> dict[str, float]:
    """Return the seconds of a training step of so many samples a rank, and of its update alone."""
    net, x, y = MODELS[model](samples)
    forward: Callable[[], object] = lambda: F.cross_entropy(net(x), y).backward()
    if way in ("ddp", "zero"):
        net = DistributedDataParallel(net)
    elif way == "tensor":
        parallelize_module(net, init_device_mesh("cpu", (dist.get_world_size(),)), DIVIDED[model])
    elif way == "stages":
        net, forward = _staged(net, x, y)
    elif way != "alone":
        raise ValueError(f"plan: no way to train is called {way!r}: alone, ddp, zero, tensor, stages")
    if way == "zero":
        optimizer: Any = ZeroRedundancyOptimizer(net.parameters(), core.optim.AdamW, lr=1e-3)
    else:
        optimizer = core.optim.AdamW(net.parameters(), lr=1e-3)

    def run() -> None:
        optimizer.zero_grad()
        forward()
        optimizer.step()

    run()
    return {"step": _timed(run), "update": _timed(optimizer.step)}


def _staged(net: Any, x: Any, y: Any) -> tuple[Any, Callable[[], object]]:
    """Return this rank's stage of a model, and what runs it forward and backward: 1F1B, `MICRO` parts for each rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parts = [[net.get_submodule(p.name) for p in run] for run in stages(costs_of(net, [x]).parts, ranks)]
    stage = core.nn.Sequential(*parts[rank])
    schedule = Schedule1F1B(PipelineStage(stage, rank, ranks, "cpu"), MICRO * ranks, F.cross_entropy)
    given = [x] if rank == 0 else []
    return stage, lambda: schedule.step(*given, target=y if rank == ranks - 1 else None)


TASKS: dict[str, Callable[..., Any]] = {"network": network, "step": step}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
