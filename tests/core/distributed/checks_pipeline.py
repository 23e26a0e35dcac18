"""What pipelines do on ranks: run by test_pipeline.py."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from core.distributed.tensor import init_device_mesh
from core.nn.parallel import DistributedDataParallel as DDP
from tests.core.distributed.models import Gpt, batches, raises


class Begin(nn.Module):
    """A decoder's embeddings."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.words, self.places = model.words, model.places

    def forward(self, x: Any) -> Any:
        return self.words(x) + self.places.weight[: x.shape[1]]


def layers_of(name: str) -> list[Any]:
    core.manual_seed(0)
    if name == "mlp":
        widths = (16, 64, 64, 64)
        return [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths)] + [nn.Linear(64, 4)]
    model = Gpt(layers=3, tied=False)
    return [Begin(model), *model.blocks, nn.Sequential(model.norm, model.head)]


def loss_fn(out: Any, y: Any) -> Any:
    return nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def alone(name: str) -> list[float]:
    """The losses of one process without a pipeline."""
    model = nn.Sequential(*layers_of(name))
    opt = core.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in batches(name):
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        losses.append(float(loss.detach()))
    return losses


def stage_of(name: str, rank: int, n: int) -> Any:
    """This rank's share of a model's layers, cut by their number."""
    layers = layers_of(name)
    cuts = [round(k * len(layers) / n) for k in range(n + 1)]
    return nn.Sequential(*layers[cuts[rank] : cuts[rank + 1]])


def run(name: str, kind: Any, parts: int, group: Any = None, copies: int = 1, copy: int = 0) -> list[float]:
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    module = stage_of(name, rank, n)
    if copies > 1:
        module = DDP(module, process_group=dist_groups["data"])
    stage = PipelineStage(module, rank, n, "cpu", group=group)
    schedule = kind(stage, parts, loss_fn)
    opt = core.optim.AdamW(module.parameters(), lr=1e-2)
    found = []
    for x, y in batches(name):
        rows = len(x) // copies
        x, y = x[copy * rows : (copy + 1) * rows], y[copy * rows : (copy + 1) * rows]
        opt.zero_grad()
        losses: list[Any] = []
        out = schedule.step(*([x] if rank == 0 else []), target=y if rank == n - 1 else None, losses=losses)
        assert (out is not None) == (rank == n - 1)
        opt.step()
        told = core.tensor([sum(map(float, losses)) / parts])
        if n > 1:
            dist.broadcast(told, group=group, group_src=n - 1)
        if copies > 1:
            dist.all_reduce(told, group=dist_groups["data"])
        found.append(float(told) / copies)
    return found


dist_groups: dict[str, Any] = {}


def twice(*args: Any, **more: Any) -> list[float]:
    first, again = (run(*args, **more) for _ in range(2))
    assert first == again
    return first


def check_mlp_1f1b() -> Any:
    return twice("mlp", Schedule1F1B, 8)


def check_mlp_1f1b_with_few_parts() -> Any:
    return twice("mlp", Schedule1F1B, 2)


def check_mlp_gpipe() -> Any:
    return twice("mlp", ScheduleGPipe, 4)


def check_gpt_1f1b() -> Any:
    return twice("gpt", Schedule1F1B, 4)


def check_gpt_1f1b_times_data_parallel() -> Any:
    n = dist.get_world_size()
    if n < 2:
        return alone("gpt")
    mesh = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("data", "stages"))
    dist_groups["data"] = mesh.get_group("data")
    return twice("gpt", Schedule1F1B, 4, group=mesh.get_group("stages"), copies=2, copy=mesh.get_local_rank("data"))


# -- one thing after the other -----------------------------------------------------------------------------------------


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
    assert "stage of its number" in raises(ValueError, lambda: PipelineStage(nn.Identity(), rank, n + 1, "cpu"))
    stage = PipelineStage(nn.Identity(), rank, n, "cpu")
    if rank == n - 1:
        assert "loss function" in raises(RuntimeError, lambda: ScheduleGPipe(stage, 2).step(core.ones(2, 1)))
    if rank == 0:
        schedule = ScheduleGPipe(stage, 3, nn.functional.mse_loss)
        assert "fewer rows than parts" in raises(RuntimeError, functools.partial(schedule.step, core.ones(2, 1)))
