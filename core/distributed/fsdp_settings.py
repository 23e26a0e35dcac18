"""In which form the state dicts of divided modules are."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

__all__ = ["FullOptimStateDictConfig", "FullStateDictConfig", "LocalStateDictConfig", "ShardedOptimStateDictConfig",
           "ShardedStateDictConfig", "StateDictConfig", "StateDictSettings", "StateDictType"]  # fmt: skip


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
class FullOptimStateDictConfig(StateDictConfig):
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
class ShardedOptimStateDictConfig(StateDictConfig):
    """How parts of an optimizer's state are gathered."""

    offload_to_cpu: bool = True
    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """How state dicts are gathered."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: Any
