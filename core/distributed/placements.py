"""How a tensor lies on the processes of a dimension of a mesh: divided, whole, or as summands."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard", "part_of"]


class Placement:
    """How a tensor lies on the processes of a dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it is divided (along `dim`)."""
        return False

    def is_replicate(self) -> bool:
        """Return whether each holds all of it."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each holds a summand."""
        return False


@dataclass(frozen=True)
class Shard(Placement):
    """Divided along a dimension, in parts of which all but the last ones are as long."""

    dim: int = 0

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it is divided (along `dim`)."""
        return dim in (None, self.dim)

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return how long part `rank` of `num_chunks` is, and where it begins: each but the last is as long.

        >>> from core.distributed.tensor import Shard
        >>> Shard.local_shard_size_and_offset(10, 4, 3)
        (1, 9)
        """
        begin, size = part_of(curr_local_size, num_chunks, rank)
        return size, begin


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole on each."""

    def is_replicate(self) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class Partial(Placement):
    """A summand on each."""

    reduce_op: str = "sum"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each holds a summand (of that kind)."""
        return reduce_op in (None, self.reduce_op)


def part_of(size: int, parts: int, number: int) -> tuple[int, int]:
    """Return where part `number` begins of so many elements in so many parts, and how many it has."""
    most = -(-size // parts)
    begin = min(number * most, size)
    return begin, min(most, size - begin)
