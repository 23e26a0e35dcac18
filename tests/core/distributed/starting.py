"""Programs whose processes nobody has started together: what `test_starting` starts.

``python -m tests.core.distributed.starting spawn METHOD FAULT PLACE`` spawns three; ``rank`` is one that a shell has
started.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import core
import core.multiprocessing as mp
from core import distributed as dist


def summed(rank, size, place, fault=""):
    more = {} if place == "env://" else {"init_method": place}
    dist.init_process_group("gloo", rank=rank, world_size=size, timeout=timedelta(seconds=20), **more)
    if rank == 1 and fault == "raise":
        raise ArithmeticError("planted")
    if rank == 1 and fault == "kill":
        os.kill(os.getpid(), 9)
    if rank == 1 and fault == "exit":
        sys.exit(3)
    x = core.ones(1) * rank
    dist.all_reduce(x)
    dist.destroy_process_group()
    dist.init_process_group("gloo", rank=rank, world_size=size, **more)  # as programs do that train twice
    dist.all_reduce(x)
    dist.destroy_process_group()
    print(f"rank {rank} has {x.item()}", flush=True)


def main():
    if sys.argv[1] == "rank":
        summed(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), *sys.argv[2:])
        return
    try:
        mp.start_processes(summed, (3, sys.argv[4], sys.argv[3]), 3, start_method=sys.argv[2])
    except mp.ProcessException as error:
        print(type(error).__name__, error)


if __name__ == "__main__":
    main()
