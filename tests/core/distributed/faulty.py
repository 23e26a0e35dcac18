"""A program on ranks that trains, keeps checkpoints, and fails in a given way, on a rank, at a step, for `failures`.

    faulty.py FAULT RANK STEP FOLDER

The fault comes at the first start only; a further start goes on from the checkpoint. The line that is expected to be
named ends in the comment ``# here``, the fault's name before it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import core
from core import distributed as dist
from core.nn import functional as F

STEPS, BATCH, EVERY = 20, 12, 4  # BATCH can be divided among 1, 2, 3 and 4 ranks


def at_once(fault: str, rank: int, size: int) -> None:
    """Fail."""
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)  # kill here
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)  # stop here
    elif fault == "loop":
        while True:  # loop here
            pass
    elif fault == "sleep":
        time.sleep(1000)  # sleep here
    elif fault == "held":
        lock, mutex = ctypes.PyDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
        lock(mutex)
        lock(mutex)  # held here: C that holds Python waits for ever
    elif fault == "raise":
        raise ValueError("a batch with no labels")  # raise here
    elif fault == "exit":
        sys.exit(3)  # exit here
    elif fault == "exit0":
        os._exit(0)  # exit0 here
    elif fault == "segv":
        ctypes.string_at(0)  # segv here
    elif fault == "abort":
        os.abort()  # abort here
    elif fault == "memory":
        size_bytes = 1 << 30
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))
        core.zeros(1 << 29)  # memory here
    elif fault == "shapes":
        dist.all_reduce(core.ones(100_000))  # shapes here
    elif fault == "another":
        dist.broadcast(core.ones(7), 0)  # another here
    elif fault == "pair":
        dist.recv(core.ones(7), (rank + 1) % size)  # pair here
    elif fault == "partial":
        print("no end of line", end="", flush=True)
        raise RuntimeError("after half a line")  # partial here
    elif fault == "megabytes":
        for _ in range(40):
            print("x" * 99_999)
        raise RuntimeError("after 4 MB")  # megabytes here
    elif fault == "child":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1000"])
        raise RuntimeError("with children")  # child here
    elif fault == "thread":
        threading.Thread(target=time.sleep, args=(1000,)).start()


def full_disk(folder: str) -> str:
    """Return a path in a folder that takes 4 KB; where it cannot be mounted, forbid this process longer files."""
    small = os.path.join(folder, "small")
    os.makedirs(small, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", small], stderr=subprocess.DEVNULL).returncode:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    return os.path.join(small, "checkpoint.pt")


def main(fault: str, who: int, when: int, folder: str) -> None:
    """Train; fail."""
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    core.manual_seed(0)
    data, labels = core.randn(STEPS, BATCH, 8), core.randint(0, 3, (STEPS, BATCH))
    model = core.nn.Sequential(core.nn.Linear(8, 32), core.nn.GELU(), core.nn.Linear(32, 3))
    optimizer = core.optim.AdamW(model.parameters(), lr=1e-2)
    path, begin = os.path.join(folder, "checkpoint.pt"), 0
    if os.path.exists(path):
        kept = core.load(path)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        begin = kept["step"]
        print(f"goes on from step {begin}")
    part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    for step in range(begin, STEPS):
        mine = first and step == when and rank == who
        if mine:
            with open(os.path.join(folder, "failed"), "w", encoding="utf-8") as file:
                file.write(str(time.time()))
            if fault in ("left", "thread"):
                at_once(fault, rank, size)
                return
        elif first and step == when and fault == "pair" and rank == (who + 1) % size:
            dist.recv(core.ones(7), who)
        if mine and fault != "disk":
            at_once(fault, rank, size)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data[step, part]), labels[step, part], reduction="sum") / BATCH
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)  # waits here
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total)
        if mine and fault == "disk":
            core.save(core.randn(4096), full_disk(folder))  # disk here
        if rank == 0 and step % EVERY == EVERY - 1:
            core.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, path)
        time.sleep(0.02)
    if rank == 0:
        print(f"last loss {total.item():.8f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
