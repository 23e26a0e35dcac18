"""Models as pipelines: how they are cut into stages, and trained."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed.pipelining import PipelineStage
from core.distributed.tensor import init_device_mesh
from core.nn.parallel import DistributedDataParallel as DDP
from tests.core.distributed.models import Gpt, batches

MOST = 8  # stages; each piece of a model has parameters
PARTS = 4  # of a batch, over each of which norms are


class Begin(nn.Module):
    """A decoder's embeddings."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.words, self.places = model.words, model.places

    def forward(self, x: Any) -> Any:
        return self.words(x) + self.places.weight[: x.shape[1]]


def pieces_of(name: str) -> list[Any]:
    """A model as eight modules, one after the other."""
    core.manual_seed(0)
    if name == "mlp":
        widths = [16, *[32] * (MOST - 1)]
        return [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths)] + [nn.Linear(32, 4)]
    if name == "cnn":
        found: list[Any] = []
        for a, b, pool in ((1, 8, 2), (8, 8, 1), (8, 16, 1)):
            norm = nn.Sequential(nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(pool))
            found += [nn.Conv2d(a, b, 3, padding=1), norm]
        last = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.Flatten())
        return [*found, last, nn.Linear(16 * 16, 4)]
    model = Gpt(layers=MOST - 2, tied=False)
    return [Begin(model), *model.blocks, nn.Sequential(model.norm, model.head)]


def stage_of(name: str, number: int, many: int) -> Any:
    """One of so many stages of a model."""
    pieces = pieces_of(name)
    cuts = [k * MOST // many for k in range(many + 1)]
    return nn.Sequential(*pieces[cuts[number] : cuts[number + 1]])


def loss_fn(out: Any, y: Any) -> Any:
    return nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def alone(name: str) -> list[float]:
    """The losses of one process without a pipeline; norms are over the small batches."""
    model = nn.Sequential(*pieces_of(name))
    opt = core.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in batches(name):
        opt.zero_grad()
        many = [loss_fn(model(a), b) / PARTS for a, b in zip(x.chunk(PARTS), y.chunk(PARTS), strict=True)]
        sum(many).backward()
        opt.step()
        losses.append(float(sum(many)))
    return losses


def run(name: str, kind: Any, parts: int, loops: int = 1, copies: int = 1) -> list[float]:
    """The losses of a pipeline, in which each rank has `loops` stages, times so many copies of it.

    Of each small batch every copy has its share; norms are over those of all copies.
    """
    copies = min(copies, dist.get_world_size())
    over = init_device_mesh("cpu", (copies, dist.get_world_size() // copies), mesh_dim_names=("data", "stages"))
    data, group = (over.get_group(d) for d in over.mesh_dim_names)
    copy, rank, n = over.get_local_rank("data"), dist.get_rank(group), dist.get_world_size(group)
    numbers = range(rank, loops * n, n)
    modules = [stage_of(name, k, loops * n) for k in numbers]
    if copies > 1:
        modules = [DDP(nn.SyncBatchNorm.convert_sync_batchnorm(m, data), process_group=data) for m in modules]
    made = [PipelineStage(m, k, loops * n, "cpu", group=group) for k, m in zip(numbers, modules, strict=True)]
    schedule = kind(made if loops > 1 else made[0], parts, loss_fn)
    opt = core.optim.AdamW([p for m in modules for p in m.parameters()], lr=1e-2)
    found = []
    for batch in batches(name):
        x, y = (t.unflatten(0, (parts, copies, -1))[:, copy].flatten(0, 1) for t in batch)
        opt.zero_grad()
        losses: list[Any] = []
        out = schedule.step(*([x] if rank == 0 else []), target=y if rank == n - 1 else None, losses=losses)
        assert (out is not None) == (rank == n - 1)
        opt.step()
        told = core.tensor([sum(map(float, losses)) / parts])
        if n > 1:
            dist.broadcast(told, group=group, group_src=n - 1)
        if copies > 1:
            dist.all_reduce(told, group=data)
        found.append(float(told) / copies)
    return found


def twice(*args: Any, **more: Any) -> list[float]:
    """The losses of a run, whose repetition has the same bits."""
    first, again = (run(*args, **more) for _ in range(2))
    assert first == again
    return first
