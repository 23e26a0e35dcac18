"""Models whose parameters are divided among processes: `fully_shard`, `FullyShardedDataParallel` and their settings."""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ..amp.grad_scaler import GradScaler
from ..base.absent import absent_names
from ..base.device import device as Device
from ..nn.modules.module import Module
from ..ops.creation import tensor
from .collectives import all_reduce
from .fsdp_modules import (
    FSDPModule,
    FullyShardedDataParallel,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
)
from .fsdp_settings import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .reduce_ops import ReduceOp

__all__ = ["BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "CustomPolicy", "FSDPModule",
           "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel", "LocalOptimStateDictConfig",
           "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy", "ModuleWrapPolicy", "OffloadPolicy",
           "OptimStateDictConfig", "OptimStateKeyType", "ShardedGradScaler", "ShardedOptimStateDictConfig",
           "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
           "UnshardHandle", "always_wrap_policy", "enable_wrap", "fully_shard", "register_fsdp_forward_method",
           "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap"]  # fmt: skip

api = fully_sharded_data_parallel = sharded_grad_scaler = sys.modules[__name__]  # PyTorch's files
_WHOLE = "use the module as it is: one process holds all of it, or run the program on PyTorch"


class ShardingStrategy(enum.Enum):
    """What is divided, and for how long: SHARD_GRAD_OP keeps parameters between the passes, FULL_SHARD does not."""

    FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, _HYBRID_SHARD_ZERO2 = range(1, 6)


class BackwardPrefetch(enum.Enum):
    """When parameters are gathered in the backward pass: kept, and of no effect, for it is always BACKWARD_PRE: while
    the module before is computed."""

    BACKWARD_PRE, BACKWARD_POST = 1, 2


class OptimStateKeyType(enum.Enum):
    """By what an optimizer's state is found."""

    PARAM_NAME, PARAM_ID = 1, 2


@dataclass
class CPUOffload:
    """Whether parameters are kept on the CPU: kept, and of no effect."""

    offload_params: bool = False


@dataclass
class OffloadPolicy:
    """Where parameters are kept: where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """That parameters are kept on the CPU: of no effect."""

    pin_memory: bool = True


class ShardedGradScaler(GradScaler):
    """`GradScaler` for divided gradients: a step is left out by all processes where one has an infinity or NaN.

    process_group : the processes that have the parts; all without it.
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
                 growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True,
                 process_group: Any = None) -> None:  # fmt: skip
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients by the scale; learn whether those of any process are not finite."""
        super().unscale_(optimizer)
        if self._enabled:
            found = self._stages[id(optimizer)]["found"]
            bad = tensor([max((float(t.item()) for t in found.values()), default=0.0)])
            all_reduce(bad, ReduceOp.MAX, self.process_group)
            self._stages[id(optimizer)]["found"] = {Device("cpu"): bad[0]}


class ModuleWrapPolicy:
    """Which modules are divided by themselves: those of some classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))


def transformer_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int = 0,
                                 transformer_layer_cls: Iterable[type[Module]] = ()) -> bool:  # fmt: skip
    """Return whether a module is divided by itself: because of its class."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                                min_num_params: int = 100_000_000, *ignored: Any) -> bool:  # fmt: skip
    """Return whether a module is divided by itself: because of its size."""
    return nonwrapped_numel >= min_num_params


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: every module is divided by itself."""
    return True


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                            lambda_fn: Callable[[Module], bool]) -> bool:  # fmt: skip
    """Return whether a module is divided by itself: as a function says."""
    return recurse or lambda_fn(module)


def _or_policy(module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]) -> bool:
    return any(p(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for p in policies)


class CustomPolicy:
    """Which modules are divided by themselves: those of which a function says so."""

    def __init__(self, lambda_fn: Callable[[Module], Any]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or bool(self._lambda_fn(module))


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any = None, **more: Any) -> Iterator[None]:
    """A block in which `wrap` divides modules: by `wrapper_cls`, with the other arguments."""
    before, _Wrap.settings = _Wrap.settings, (wrapper_cls, more)
    try:
        yield
    finally:
        _Wrap.settings = before


class _Wrap:
    """`wrap`, which is a function in PyTorch and the name of a file."""

    settings: ClassVar[tuple[Any, dict[str, Any]]] = (None, {})

    def __call__(self, module: Module, **more: Any) -> Module:
        """Return a module, within `enable_wrap` divided."""
        wrapper, given = self.settings
        return module if wrapper is None else wrapper(module, **{**given, **more})

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules[__name__], name)


wrap = _Wrap()


__getattr__ = absent_names(__name__, _WHOLE)
