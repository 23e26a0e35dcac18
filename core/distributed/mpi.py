"""What moves the bytes between processes: MPI, through mpi4py, which nothing else in core imports.

Importing this module begins MPI. Every method starts an operation and gives its requests, which
`core.distributed.work.Work` tests until they are done: MPI moves data only while it is called. Arrays are flat and in
one piece, and whoever starts an operation holds its arrays until it is done.
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from mpi4py import MPI

from ..base.errors import text
from . import joining
from .placements import part_of
from .reduce_ops import is_narrow, summed

__all__ = ["Mpi", "world"]

_OPS = {"SUM": MPI.SUM, "PRODUCT": MPI.PROD, "MIN": MPI.MIN, "MAX": MPI.MAX, "BAND": MPI.BAND, "BOR": MPI.BOR,
        "BXOR": MPI.BXOR}  # fmt: skip
# MPICH takes as much memory as it sums, beyond 32 MB fresh from the system each time: 100 MB took 101 ms whole and 46
# ms in pieces (two ranks, medians of five in one run)
_PIECE_BYTES = 1 << 24


def _starts(counts: list[int]) -> list[int]:
    at = [0]
    for n in counts[:-1]:
        at.append(at[-1] + n)
    return at


def _bytes_of(counts: list[int], a: Any) -> tuple[list[int], list[int]]:
    """Return how many bytes parts of an array have, and where they begin."""
    sizes = [n * a.itemsize for n in counts]
    return sizes, _starts(sizes)


class _Then:
    """Requests, and what is done once all have come: it gives further ones, or None."""

    def __init__(self, requests: list[Any], then: Callable[[], list[Any] | None]) -> None:
        self._requests, self._then = requests, [then]

    def Test(self) -> bool:
        """Return whether all is done."""
        self._requests = [r for r in self._requests if not r.Test()]
        while self._then and not self._requests:
            self._requests = [r for r in self._then.pop()() or () if not r.Test()]
        return not self._requests


class _Receipt:
    """A message that is awaited: MPI's request, and then the rank that it came from."""

    def __init__(self, request: Any, size_bytes: int, peer: int) -> None:
        self._request, self._size_bytes, self.peer, self.source = request, size_bytes, peer, -1

    def Test(self) -> bool:
        """Return whether it has come. *Raises*: ValueError for one of another size."""
        status = MPI.Status()
        if not self._request.Test(status):
            return False
        self.source, came = status.Get_source(), status.Get_count(MPI.BYTE)
        if came != self._size_bytes:
            raise ValueError(f"rank {self.source} of the group sent {came} bytes where {self._size_bytes} are expected")
        return True

    def cancel(self) -> None:
        """Await it no more."""
        self._request.Cancel()
        self._request.Wait()


class Mpi:
    """A communicator of MPI: see `core.distributed.alone.Alone` for what its methods mean."""

    def __init__(self, comm: Any) -> None:
        self._comm, self.rank, self.size = comm, comm.rank, comm.size
        self._tags = itertools.count()  # of the messages by which sums of narrow floats are sent, the same on all ranks

    def all_reduce(self, a: Any, op: str) -> list[Any]:
        """Sum (multiply, ...) an array over all ranks, in place. The same bits on every rank."""
        if is_narrow(a):
            return [self._narrow_all_reduce(a, op)]
        step = _PIECE_BYTES // a.itemsize
        pieces = [a] if a.nbytes <= 2 * _PIECE_BYTES else [a[at : at + step] for at in range(0, a.size, step)]
        return [self._comm.Iallreduce(MPI.IN_PLACE, piece, _OPS[op]) for piece in pieces]

    def reduce(self, a: Any, op: str, root: int) -> list[Any]:
        """Sum an array over all ranks, in place on one of them."""
        if is_narrow(a):
            parts = np.empty((self.size if self.rank == root else 0, a.size), a.dtype)
            came = self.gather(parts.reshape(-1).view(np.uint8), [a.nbytes] * self.size, a.view(np.uint8), root)
            return [_Then(came, lambda: summed(parts, op, a) if self.rank == root else None)]
        if self.rank == root:
            return [self._comm.Ireduce(MPI.IN_PLACE, a, _OPS[op], root)]
        return [self._comm.Ireduce(a, None, _OPS[op], root)]

    def broadcast(self, a: Any, root: int) -> list[Any]:
        """Send an array from one rank to all."""
        return [self._comm.Ibcast(a, root)]

    def all_gather(self, out: Any, counts: list[int], a: Any) -> list[Any]:
        """Put the arrays of all ranks, one after the other, into one array on each."""
        return [self._comm.Iallgatherv(a, [out, (counts, _starts(counts))])]

    def gather(self, out: Any, counts: list[int], a: Any, root: int) -> list[Any]:
        """Put the arrays of all ranks into one array on one of them."""
        return [self._comm.Igatherv(a, [out, (counts, _starts(counts))] if self.rank == root else None, root)]

    def scatter(self, out: Any, a: Any, counts: list[int], root: int) -> list[Any]:
        """Send each rank its part of one rank's array."""
        return [self._comm.Iscatterv([a, (counts, _starts(counts))] if self.rank == root else None, out, root)]

    def reduce_scatter(self, out: Any, a: Any, counts: list[int], op: str) -> list[Any]:
        """Sum an array over all ranks, and leave each its part."""
        if is_narrow(a):
            return [self._narrow_reduce_scatter(out, a, counts, op)]
        return [self._comm.Ireduce_scatter(a, out, counts, _OPS[op])]

    def _narrow_reduce_scatter(self, out: Any, a: Any, counts: list[int], op: str) -> _Then:
        """Sum floats narrower than float32: they are sent as they are, summed in float32 and rounded once."""
        parts = np.empty((self.size, out.size), a.dtype)
        into = _bytes_of([out.size] * self.size, a)
        came = self._comm.Ialltoallv([a.view(np.uint8), _bytes_of(counts, a), MPI.BYTE],
                                     [parts.reshape(-1).view(np.uint8), into, MPI.BYTE])  # fmt: skip
        return _Then([came], lambda: summed(parts, op, out))

    def _narrow_all_reduce(self, a: Any, op: str) -> _Then:
        """Sum floats narrower than float32: each rank its part, which it then sends to the others.

        By messages, for collectives would have to be begun in the same order on all ranks, and parts come in any.
        """
        tag = int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 32767) - next(self._tags) % 4096
        ranges = [part_of(a.size, self.size, k) for k in range(self.size)]
        parts = [a[begin : begin + n] for begin, n in ranges]
        own, sums = np.empty(ranges[self.rank][1], a.dtype), [np.empty(n, a.dtype) for _, n in ranges]

        def send() -> list[Any]:
            others = [k for k in range(self.size) if k != self.rank]
            came = [self._comm.Irecv(sums[k].view(np.uint8), k, tag) for k in others]
            sent = [self._comm.Isend(own.view(np.uint8), k, tag) for k in others]
            return [_Then(came + sent, take)]

        def take() -> None:
            sums[self.rank] = own
            for part, found in zip(parts, sums, strict=True):
                part[:] = found

        return _Then([self._narrow_reduce_scatter(own, a, [n for _, n in ranges], op)], send)

    def all_to_all(self, out: Any, out_counts: list[int], a: Any, counts: list[int]) -> list[Any]:
        """Send each rank its part of this rank's array."""
        return [self._comm.Ialltoallv([a, (counts, _starts(counts))], [out, (out_counts, _starts(out_counts))])]

    def barrier(self) -> list[Any]:
        """Wait until all ranks have called it."""
        return [self._comm.Ibarrier()]

    def send(self, a: Any, to: int, tag: int) -> list[Any]:
        """Send an array to a rank."""
        return [self._comm.Isend(a, to, tag)]

    def receive(self, a: Any, source: int | None, tag: int) -> list[Any]:
        """Receive an array from a rank, or from whichever sends first."""
        request = self._comm.Irecv(a, MPI.ANY_SOURCE if source is None else source, tag)
        return [_Receipt(request, a.nbytes, -1 if source is None else source)]

    def part(self, ranks: list[int], number: int) -> Mpi:
        """Return a communicator of some of the ranks, all of which call this with the same number."""
        chosen = self._comm.Get_group().Incl(ranks)
        return Mpi(self._comm.Create_group(chosen, number % 32768))

    def failed(self) -> None:
        """Note that a collective has failed: the end of this process then ends the others, and waits for none."""
        abandon()

    def free(self) -> None:
        """Give the communicator back."""
        if not MPI.Is_finalized() and not _End.failed:  # it waits for what has not ended
            self._comm.Free()


def world(rank: int, size: int) -> Mpi:
    """Return a communicator of all processes of MPI's world, in which this one has a number.

    *Raises*: RuntimeError where that world has another size: it is the one that began first.
    """
    if MPI.COMM_WORLD.size != size:
        raise RuntimeError(text(f"MPI has begun with {MPI.COMM_WORLD.size} processes",
                                op="distributed.init_process_group", came=f"world_size={size}, rank={rank}",
                                needed="the same size each time, and MPICH where mpiexec has started none",
                                remedy="new_group for a part of the world; pip install mpich"))  # fmt: skip
    made = Mpi(MPI.COMM_WORLD.Split(0, rank))
    MPI.COMM_WORLD.Barrier()  # all have the memory that they share
    for name in _shared_memory():
        Path(name).unlink(missing_ok=True)
    return made


def _shared_memory() -> set[str]:
    """Return the files of MPICH's memory that this machine's ranks share. Without their names they end with the ranks,
    however those end: of a job that was killed they stayed."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    return {line.split()[-1] for line in lines if "/dev/shm/mpich_shm_" in line and not line.endswith("(deleted)")}


class _End:
    """How this process ends: MPI waits for all ranks at the end, so one that fails has to end them itself."""

    failed, code = False, 1
    hook = sys.excepthook


def abandon(code: int = 1) -> None:
    """End the other processes when this one ends, instead of waiting for them."""
    _End.failed, _End.code = True, code


def abort(code: int = 1) -> None:
    """End all processes of the job at once; where no ``mpiexec`` could, this one: the others hear of it."""
    sys.stdout.flush()
    sys.stderr.flush()
    if joining.joined():
        os._exit(code)
    MPI.COMM_WORLD.Abort(code)


def _raised(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    _End.hook(kind, error, where)
    abort()


def _at_exit() -> None:
    if _End.failed and not MPI.Is_finalized():
        abort(_End.code)


_End.hook, sys.excepthook = sys.excepthook, _raised
atexit.register(_at_exit)
