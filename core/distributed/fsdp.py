"""PyTorch's names for models whose parameters are divided among processes: one process holds them all."""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..amp.grad_scaler import GradScaler
from ..base.absent import absent_names
from ..nn.modules.module import Module
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
    LocalStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)

__all__ = ["BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FullOptimStateDictConfig",
           "FullStateDictConfig", "FullyShardedDataParallel", "LocalStateDictConfig", "MixedPrecision",
           "MixedPrecisionPolicy", "ModuleWrapPolicy", "OffloadPolicy", "OptimStateKeyType", "ShardedGradScaler",
           "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
           "StateDictSettings", "StateDictType", "UnshardHandle", "enable_wrap", "fully_shard",
           "register_fsdp_forward_method", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
           "wrap"]  # fmt: skip

api = fully_sharded_data_parallel = sharded_grad_scaler = sys.modules[__name__]  # PyTorch's files
_WHOLE = "use the module as it is: one process holds all of it, or run the program on PyTorch"


class ShardingStrategy(enum.Enum):
    """What would be divided."""

    FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, _HYBRID_SHARD_ZERO2 = range(1, 6)


class BackwardPrefetch(enum.Enum):
    """When parameters would be gathered."""

    BACKWARD_PRE, BACKWARD_POST = 1, 2


class OptimStateKeyType(enum.Enum):
    """By what an optimizer's state would be found."""

    PARAM_NAME, PARAM_ID = 1, 2


@dataclass
class MixedPrecision:
    """In which dtypes a divided module would compute."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a divided module would compute."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class CPUOffload:
    """Whether parameters would be kept on the CPU."""

    offload_params: bool = False


@dataclass
class OffloadPolicy:
    """Where parameters would be kept."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """That parameters would be kept on the CPU."""

    pin_memory: bool = True


class ShardedGradScaler(GradScaler):
    """`GradScaler`, by the name that divided modules have for it."""


class ModuleWrapPolicy:
    """Which modules would be divided by themselves: those of some classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))


def transformer_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int = 0,
                                 transformer_layer_cls: Iterable[type[Module]] = ()) -> bool:  # fmt: skip
    """Return whether a module would be divided by itself: because of its class."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                                min_num_params: int = 100_000_000, *ignored: Any) -> bool:  # fmt: skip
    """Return whether a module would be divided by itself: because of its size."""
    return nonwrapped_numel >= min_num_params


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int,
                            lambda_fn: Callable[[Module], bool]) -> bool:  # fmt: skip
    """Return whether a module would be divided by itself: as a function says."""
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
def enable_wrap(*, wrapper_cls: Any = None, **ignored: Any) -> Iterator[None]:
    """A block in which `wrap` would divide modules: it leaves them as they are."""
    yield


class _Wrap:
    """`wrap`, which is a function in PyTorch and the name of a file."""

    def __call__(self, module: Module, **ignored: Any) -> Module:
        return module

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules[__name__], name)


wrap = _Wrap()


__getattr__ = absent_names(__name__, _WHOLE)
