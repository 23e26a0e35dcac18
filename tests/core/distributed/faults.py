"""Programs in which ranks go different ways: ``python -m tests.core.distributed.faults NAME`` is one rank."""

from __future__ import annotations

import sys
import time
from datetime import timedelta

import core
from core import distributed as dist


def other_collective(rank):
    if rank == 1:
        dist.broadcast(core.ones(3), 0)
    else:
        dist.all_reduce(core.ones(3))


def other_shape(rank):
    dist.all_reduce(core.ones(3 + rank))


def other_dtype(rank):
    dist.all_reduce(core.ones(4, dtype=core.float64 if rank else core.int64))


def other_op(rank):
    dist.all_reduce(core.ones(4), op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)


def other_root(rank):
    dist.broadcast(core.ones(4), rank)


def other_last_shape(rank):
    dist.all_reduce_coalesced([core.ones(10_000 + k) for k in range(99)] + [core.ones(3 + rank)])


def other_group(rank):
    dist.new_group([0, 1] if rank else [1, 2])


def late(rank):
    if rank == 1:
        time.sleep(8)
    dist.all_reduce(core.ones(3))


def late_at_the_barrier(rank):
    if rank == 1:
        time.sleep(8)
    dist.monitored_barrier(timeout=timedelta(seconds=1))


def nobody_sends(rank):
    if rank == 0:
        dist.recv(core.ones(3), 1)
    else:
        time.sleep(8)


def short_message(rank):
    if rank == 0:
        dist.send(core.ones(3), 1)
    elif rank == 1:
        dist.recv(core.ones(5), 0)


def long_message(rank):
    if rank == 0:
        dist.send(core.ones(5), 1)
    elif rank == 1:
        dist.recv(core.ones(3), 0)


def raises(rank):
    if rank == 1:
        raise ArithmeticError("planted")
    dist.all_reduce(core.ones(3))


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=2))
    globals()[sys.argv[1]](dist.get_rank())
    print(f"rank {dist.get_rank()} has ended well")


if __name__ == "__main__":
    main()
