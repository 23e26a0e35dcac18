"""In which form the state dicts of divided modules would be: settings that are kept."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

__all__ = ["FullOptimStateDictConfig", "FullStateDictConfig", "LocalStateDictConfig", "ShardedOptimStateDictConfig",
           "ShardedStateDictConfig", "StateDictConfig", "StateDictSettings", "StateDictType"]  # fmt: skip


class StateDictType(enum.Enum):
    """In which form a state dict would be."""

    FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT = 1, 2, 3


@dataclass
class StateDictConfig:
    """How a state dict would be gathered."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """How a whole state dict would be gathered."""

    rank0_only: bool = False


@dataclass
class FullOptimStateDictConfig(StateDictConfig):
    """How an optimizer's whole state would be gathered."""

    offload_to_cpu: bool = True
    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """How a process's own part would be gathered."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """How parts would be gathered."""

    _use_dtensor: bool = False


@dataclass
class ShardedOptimStateDictConfig(StateDictConfig):
    """How parts of an optimizer's state would be gathered."""

    offload_to_cpu: bool = True
    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """How state dicts would be gathered."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: Any
