"""What moves the bytes of a world of one process: copies within it.

`core.distributed.mpi.Mpi` has the same methods for more. Arrays are flat and in one piece; `counts` say how many
elements each rank has of one. What a method gives is a list of requests, each with ``Test()``: none here, all is done
at once.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..base.errors import text

__all__ = ["Alone", "several"]


def several(op: str, came: str) -> NoReturn:
    """Raise RuntimeError for what needs more than one process."""
    raise RuntimeError(text("core.distributed has one process", op=f"distributed.{op}", came=came,
                            needed="world_size=1, rank=0",
                            remedy="start it with python -m core.distributed.run -n N program.py"))  # fmt: skip


class Alone:
    """The communicator of one process."""

    rank, size = 0, 1

    def all_reduce(self, a: Any, op: str) -> list[Any]:
        """Leave an array: the sum over one process."""
        return []

    def reduce(self, a: Any, op: str, root: int) -> list[Any]:
        """Leave an array."""
        return []

    def broadcast(self, a: Any, root: int) -> list[Any]:
        """Leave an array."""
        return []

    def all_gather(self, out: Any, counts: list[int], a: Any) -> list[Any]:
        """Copy an array into another one."""
        out[:] = a
        return []

    def gather(self, out: Any, counts: list[int], a: Any, root: int) -> list[Any]:
        """Copy an array into another one."""
        return self.all_gather(out, counts, a)

    def scatter(self, out: Any, a: Any, counts: list[int], root: int) -> list[Any]:
        """Copy an array into another one."""
        return self.all_gather(out, counts, a)

    def reduce_scatter(self, out: Any, a: Any, counts: list[int], op: str) -> list[Any]:
        """Copy an array into another one."""
        return self.all_gather(out, counts, a)

    def all_to_all(self, out: Any, out_counts: list[int], a: Any, counts: list[int]) -> list[Any]:
        """Copy an array into another one."""
        return self.all_gather(out, counts, a)

    def barrier(self) -> list[Any]:
        """Return at once: all processes are here."""
        return []

    def send(self, a: Any, to: int, tag: int) -> list[Any]:
        """Raise RuntimeError: there is nobody to send to."""
        several("send", f"a tensor for rank {to}")

    def receive(self, a: Any, source: int | None, tag: int) -> list[Any]:
        """Raise RuntimeError: nobody sends."""
        several("recv", f"a tensor from rank {source}")

    def part(self, ranks: list[int], number: int) -> Alone:
        """Return a communicator of some of the ranks."""
        return Alone()

    def failed(self) -> None:
        """Note that a collective has failed: there is no other process that would wait."""

    def free(self) -> None:
        """Give back what the communicator holds: nothing."""
