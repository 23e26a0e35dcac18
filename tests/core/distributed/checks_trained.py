"""Training in every way of dividing a model or its batches: run by test_trained.py.

`TABLE` says for each way which models it trains, and how. Each case gives the losses of 20 steps on this rank; it runs
twice, and both runs have the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed import fsdp
from core.distributed.algorithms.ddp_comm_hooks import default_hooks
from core.distributed.fsdp import FullyShardedDataParallel as FSDP
from core.distributed.optim import ZeroRedundancyOptimizer
from core.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS
from core.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
from core.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from core.nn.parallel import DistributedDataParallel as DDP
from tests.core.distributed import stages
from tests.core.distributed.divided import channels, gpt, mesh, mlp, prefetching, sharded, whole, wrapped
from tests.core.distributed.models import twice

SMALL = {"bucket_cap_mb": 0.002}


def synced(wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A wrapper of models whose norms are over the batches of all ranks first."""
    return lambda m: wrap(nn.SyncBatchNorm.convert_sync_batchnorm(m))


def grid() -> Any:
    """The ranks as copies times parts of a model: 1 x 1, 1 x 2, 2 x 2."""
    n = dist.get_world_size()
    return init_device_mesh("cpu", (max(1, n // 2), min(n, 2)), mesh_dim_names=("data", "model"))


def rows_of(over: Any) -> Callable[[Any], Any]:
    """The rows of a batch that a copy of the model gets."""
    copies, at = over.size(0), over.get_local_rank("data")
    return lambda x: x[at * len(x) // copies : (at + 1) * len(x) // copies]


def zero(**more: Any) -> Callable[[Any], Any]:
    return lambda params: ZeroRedundancyOptimizer(params, core.optim.AdamW, lr=1e-2, **more)


def with_a_hook(m: Any) -> Any:
    m = DDP(m, **SMALL)
    m.register_comm_hook(None, default_hooks.allreduce_hook)
    return m


def divided_words(model: Any) -> Any:
    """The words' table divided by rows, and tied to the last layer; places that are whole again."""
    gpt(model, mesh())
    words = model.words.weight
    parallelize_module(model, mesh(), {"words": RowwiseParallel(input_layouts=Replicate()), "places":
                                       ColwiseParallel(output_layouts=Replicate())})  # fmt: skip
    model.head.weight = model.words.weight
    parallelize_module(model, mesh(), {"head": ColwiseParallel(output_layouts=Replicate())})
    assert words is not model.words.weight
    plain = model.places.weight
    model.places = nn.Embedding.from_pretrained(plain.full_tensor().detach(), freeze=False)
    return model


def divided_sequences(model: Any) -> Any:
    """The norms, too, each on a part of the sequence; what comes to the layers between is gathered."""
    over = mesh()
    model.blocks.register_forward_pre_hook(lambda m, x: (DTensor.from_local(x[0], over, [Replicate()]).redistribute(
        placements=[Shard(1)]),))  # fmt: skip
    model.blocks.register_forward_hook(lambda m, x, y: y.full_tensor())
    column, row = {"input_layouts": Shard(1)}, {"output_layouts": Shard(1), "use_local_output": False}
    for block in model.blocks:
        parallelize_module(block, over, {
            "norm": SequenceParallel(), "mlp_norm": SequenceParallel(), "q": ColwiseParallel(**column),
            "k": ColwiseParallel(**column), "v": ColwiseParallel(**column), "out": RowwiseParallel(**row),
            "mlp.0": ColwiseParallel(**column), "mlp.2": RowwiseParallel(**row)})  # fmt: skip
    return model


def in_two_dimensions(name: str) -> list[float]:
    """Copies of a model, each divided: gradients are averaged over one dimension of a grid, layers divided over the
    other. Norms are over the batches of all copies."""
    over = grid()

    def wrap(model: Any) -> Any:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model, over.get_group("data"))
        return DDP({"gpt": gpt, "cnn": channels}[name](model, over["model"]), process_group=over.get_group("data"))

    return twice(name, wrap, data=rows_of(over))


def divided_and_sharded(name: str) -> list[float]:
    """Layers divided over one dimension of a grid, and the parts that each has sharded over the other."""
    over = grid()
    divide = {"mlp": mlp, "gpt": gpt}[name]
    return twice(name, lambda m: sharded(divide(m, over["model"]), mesh=over["data"]), data=rows_of(over))


def in_copies_of_parts(name: str) -> list[float]:
    n = dist.get_world_size()
    over = init_device_mesh("cpu", (2, 2) if n == 4 else (n, 1) if n == 2 else (1, 1), mesh_dim_names=("a", "b"))
    return twice(name, functools.partial(sharded, mesh=over))


def trains(wrap: Any, **more: Any) -> Callable[[str], list[float]]:
    return lambda name: twice(name, wrap if name != "cnn" else synced(wrap), **more)


def pipeline(kind: Any, parts: int, **more: Any) -> Callable[[str], list[float]]:
    return lambda name: stages.twice(name, kind, parts, **more)


Case = Callable[[str], Any]
TABLE: dict[str, dict[str, Case]] = {
    "ddp": dict.fromkeys(("mlp", "cnn", "gpt"), trains(lambda m: DDP(m, **SMALL))),
    "ddp_in_one_bucket": {"mlp": trains(DDP)},
    "ddp_as_bucket_view": {"mlp": trains(lambda m: DDP(m, gradient_as_bucket_view=True, **SMALL))},
    "ddp_static": {"mlp": trains(lambda m: DDP(m, static_graph=True, **SMALL))},
    "ddp_searching_unused": {"mlp": trains(lambda m: DDP(m, find_unused_parameters=True, **SMALL))},
    "ddp_with_a_hook": {"mlp": trains(with_a_hook)},
    "zero": dict.fromkeys(("mlp", "cnn", "gpt"), trains(lambda m: DDP(m, **SMALL), optimizer=zero())),
    "zero_in_buckets": {"mlp": trains(DDP, optimizer=zero(parameters_as_bucket_view=True))},
    "sharded": dict.fromkeys(("mlp", "cnn", "gpt"), trains(sharded)),
    "sharded_kept": {"mlp": trains(functools.partial(sharded, reshard_after_forward=False))},
    "sharded_let_go": {"mlp": trains(functools.partial(sharded, reshard_after_forward=True))},
    "sharded_in_copies": {"gpt": in_copies_of_parts},
    "sharded_prefetching": {"gpt": trains(prefetching)},
    "wrapped": {"mlp": trains(FSDP), **dict.fromkeys(("cnn", "gpt"), trains(wrapped))},
    "wrapped_and_kept": {"gpt": trains(functools.partial(
        wrapped, sharding_strategy=fsdp.ShardingStrategy.SHARD_GRAD_OP))},
    "wrapped_prefetching": {"gpt": trains(functools.partial(wrapped, forward_prefetch=True))},
    "tensor_parallel": {"mlp": trains(lambda m: mlp(m, mesh()), data=whole), "cnn": in_two_dimensions,
                        "gpt": trains(lambda m: gpt(m, mesh()), data=whole)},
    "tensor_parallel_words": {"gpt": trains(divided_words, data=whole)},
    "tensor_parallel_sequences": {"gpt": trains(divided_sequences, data=whole)},
    "tensor_parallel_times_ddp": {"gpt": in_two_dimensions},
    "tensor_parallel_times_sharded": dict.fromkeys(("mlp", "gpt"), divided_and_sharded),
    "pipeline": {"mlp": pipeline(Schedule1F1B, 8), "cnn": pipeline(Schedule1F1B, 4), "gpt": pipeline(Schedule1F1B, 4)},
    "pipeline_of_few_parts": {"mlp": pipeline(Schedule1F1B, 2)},
    "pipeline_gpipe": {"mlp": pipeline(ScheduleGPipe, 4)},
    "pipeline_interleaved": dict.fromkeys(("mlp", "cnn", "gpt"), pipeline(ScheduleInterleaved1F1B, 4, loops=2)),
    "pipeline_looped": {"mlp": pipeline(ScheduleLoopedBFS, 4, loops=2)},
    "pipeline_times_ddp": dict.fromkeys(("cnn", "gpt"), pipeline(Schedule1F1B, 4, copies=2)),
}  # fmt: skip
CASES = {f"check_{way}_{model}": functools.partial(run, model) for way, models in TABLE.items()
         for model, run in models.items()}  # fmt: skip
globals().update(CASES)
