"""Models that are divided among ranks: by their layers' weights, or their parameters by rows."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import core
from core import distributed as dist
from core import nn
from core.distributed import fsdp
from core.distributed.fsdp import FullyShardedDataParallel as FSDP
from core.distributed.fsdp import fully_shard
from core.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from core.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from tests.core.distributed.models import Block

LAYERS = (Block, nn.Linear, nn.Conv2d)
BLOCK = {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(), "out": RowwiseParallel(),
         "mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()}  # fmt: skip


def mesh() -> Any:
    """All ranks in a row."""
    return init_device_mesh("cpu", (dist.get_world_size(),))


def whole(x: Any) -> Any:
    """A batch as every rank gets it."""
    return x


# -- layers -----------------------------------------------------------------------------------------------------------


def gpt(model: Any, over: Any) -> Any:
    """A decoder whose blocks' layers are divided by columns and rows."""
    for block in model.blocks:
        parallelize_module(block, over, BLOCK)
    return model


def mlp(model: Any, over: Any) -> Any:
    """Layers that are divided by columns, rows and columns."""
    return parallelize_module(model, over, {"0": ColwiseParallel(), "2": RowwiseParallel(),
                                            "4": ColwiseParallel(output_layouts=Replicate())})  # fmt: skip


def channels(model: Any, over: Any) -> Any:
    """Convolutions that are divided by channels, the first by what comes out and the second by what goes in, and the
    linear layer by columns; the norms are whole."""
    for at, dim in ((0, 0), (4, 1)):
        conv = model[at]
        for name, p in list(conv.named_parameters()):
            place = Shard(dim) if p.ndim > dim else Replicate()
            conv.register_parameter(name, nn.Parameter(distribute_tensor(p, over, [place])))
        conv.register_forward_hook(lambda m, x, y: y.full_tensor())
    return parallelize_module(model, over, {"8": ColwiseParallel(output_layouts=Replicate())})


# -- rows of parameters -----------------------------------------------------------------------------------------------


def sharded(model: Any, **more: Any) -> Any:
    """A model whose layers are divided one by one, and what is left with it."""
    within = {id(m) for b in model.modules() if isinstance(b, Block) for m in b.modules() if m is not b}
    for m in model.modules():
        if isinstance(m, LAYERS) and id(m) not in within and m is not getattr(model, "head", None):
            fully_shard(m, **more)
    return fully_shard(model, **more)


def prefetching(model: Any) -> Any:
    """A decoder whose blocks' parameters are gathered while the block before is computed."""
    model = sharded(model, reshard_after_forward=True)
    for one, other in pairwise(model.blocks):
        one.set_modules_to_forward_prefetch([other])
        other.set_modules_to_backward_prefetch([one])
    return model


def wrapped(model: Any, **more: Any) -> Any:
    """A model whose blocks are wrapped one by one, and what is left with it."""
    policy = functools.partial(fsdp.transformer_auto_wrap_policy, transformer_layer_cls={Block, nn.Conv2d})
    return FSDP(model, auto_wrap_policy=policy, **more)


def seeded(make: Any) -> Any:
    """A model whose parameters are drawn from seed 0."""
    core.manual_seed(0)
    return make()
