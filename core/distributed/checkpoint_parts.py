"""What processes say of a checkpoint: which block of each tensor one has, and what a folder holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..base.errors import text
from .dtensor import DTensor
from .groups import get_rank, get_world_size, is_initialized
from .objects import all_gather_object
from .placements import Partial, Replicate, Shard, part_of

__all__ = ["ChunkStorageMetadata", "Metadata", "Processes", "Region", "Stateful", "TensorStorageMetadata", "region_of",
           "summed_up"]  # fmt: skip


@runtime_checkable
class Stateful(Protocol):
    """What has a state: `save` asks for it, and `load` hands it back."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state."""


@dataclass
class ChunkStorageMetadata:
    """Where a part of a tensor begins, and its shape."""

    offsets: Any
    sizes: Any


@dataclass
class TensorStorageMetadata:
    """What a folder says of a tensor: its dtype, its shape, and its parts."""

    properties: Any
    size: Any
    chunks: list[Any] = field(default_factory=list)


@dataclass
class Metadata:
    """What a folder holds, by the names of its entries."""

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None


class Region(NamedTuple):
    """A block of a tensor: where it begins in each dimension, and its shape."""

    begin: tuple[int, ...]
    shape: tuple[int, ...]

    def within(self, other: Region) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
        """Return where the common part lies in this block and in the other, None without one."""
        here, there = [], []
        for a, n, b, m in zip(self.begin, self.shape, other.begin, other.shape, strict=True):
            low, high = max(a, b), min(a + n, b + m)
            if low >= high:
                return None
            here.append(slice(low - a, high - a))
            there.append(slice(low - b, high - b))
        return tuple(here), tuple(there)


def region_of(x: Any) -> tuple[Region, bool]:
    """Return the block of a tensor that this process has, and whether it is the one to write it."""
    begin, shape, first = [0] * x.ndim, list(x.shape), True
    if isinstance(x, DTensor):
        at = x._mesh.get_coordinate() or [0] * x._mesh.ndim
        for k, p in enumerate(x._places):
            if isinstance(p, Shard):
                more, shape[p.dim] = part_of(shape[p.dim], x._mesh.size(k), at[k])
                begin[p.dim] += more
            else:
                first = first and at[k] == 0
    return Region(tuple(begin), tuple(shape)), first


def summed_up(x: Any) -> Any:
    """Return a tensor of which no process holds a summand."""
    if isinstance(x, DTensor) and any(isinstance(p, Partial) for p in x._places):
        return x.redistribute(placements=[Replicate() if isinstance(p, Partial) else p for p in x._places])
    return x


class Processes:
    """The processes that write or read together: all of a group, or this one alone."""

    def __init__(self, group: Any, alone: bool = False) -> None:
        together = is_initialized() and not alone
        self.group = group
        self.rank, self.size = (get_rank(group), get_world_size(group)) if together else (0, 1)

    def told(self, mine: Any) -> list[Any]:
        """Return what each process tells."""
        every: list[Any] = [mine] * self.size
        if self.size > 1:
            all_gather_object(every, mine, self.group)
        return every

    def agreed(self, what: str, error: Exception | None) -> None:
        """*Raises*: RuntimeError in all processes where one of them had an error."""
        told = self.told(None if error is None else f"{type(error).__name__}: {error}")
        for rank, wrong in enumerate(told):
            if wrong is None:
                continue
            if self.size == 1 and error is not None:
                raise error
            raise RuntimeError(text(f"rank {rank} could not {what} its part of the checkpoint: {wrong}",
                                    op="distributed.checkpoint", came=f"rank {self.rank} of {self.size}",
                                    remedy="the checkpoint before is as it was")) from error  # fmt: skip
