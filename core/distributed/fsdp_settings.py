"""Settings of divided modules: the dtypes in which they compute, and in which form their state dicts are."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from ..nn.modules.batchnorm import _BatchNorm

__all__ = ["FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig", "LocalStateDictConfig",
           "MixedPrecision", "MixedPrecisionPolicy", "OptimStateDictConfig", "ShardedOptimStateDictConfig",
           "ShardedStateDictConfig", "StateDictConfig", "StateDictSettings", "StateDictType"]  # fmt: skip


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a divided module computes; what is kept and stepped stays in the parameters' own.

    param_dtype : that of the whole parameters, which are sent in it, and so of the gradients.
    reduce_dtype : in which gradients are summed up over the processes; without it `param_dtype`.
    output_dtype : what floating-point outputs become.
    cast_forward_inputs : whether floating-point inputs become `param_dtype`.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class MixedPrecision:
    """In which dtypes a `FullyShardedDataParallel` computes; what is kept and stepped stays in the parameters' own.

    param_dtype, reduce_dtype : as of `MixedPrecisionPolicy`.
    buffer_dtype : what floating-point buffers become.
    cast_forward_inputs, cast_root_forward_inputs : whether floating-point inputs become `param_dtype`: of every divided
        module, of the outermost one.
    keep_low_precision_grads : True is refused: gradients are of the parameters' dtype.
    _module_classes_to_ignore : whose parameters and buffers stay as they are; without it norms over batches.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = (_BatchNorm,)


class StateDictType(enum.Enum):
    """In which form a state dict is: whole, or this process's parts."""

    FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT = 1, 2, 3


@dataclass
class StateDictConfig:
    """How a state dict is gathered."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """How a whole state dict is gathered."""

    rank0_only: bool = False


@dataclass
class OptimStateDictConfig:
    """How an optimizer's state is gathered."""

    offload_to_cpu: bool = True


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """How a process's own part of an optimizer's state is gathered."""

    offload_to_cpu: bool = False


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """How an optimizer's whole state is gathered."""

    offload_to_cpu: bool = True
    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """How a process's own part is gathered."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """How parts are gathered."""

    _use_dtensor: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """How parts of an optimizer's state are gathered."""

    offload_to_cpu: bool = True
    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """How state dicts are gathered."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: Any
