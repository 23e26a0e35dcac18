"""A program as people write it, for the tests of workers: no guard around its main part, a data set of its own.

    python worker_program.py MODE [SAMPLES]

MODE says what happens at every sample, or to this process; the last line says how it ended.
"""

import os
import resource
import signal
import sys
import time
import warnings

import core
from core.utils.data import DataLoader, Dataset

mode = sys.argv[1]
samples = int(sys.argv[2]) if len(sys.argv) > 2 else 400
warnings.filterwarnings("ignore", "This DataLoader will create")
print("main", flush=True)  # a worker that ran this file again would say so


class Images(Dataset):
    """Samples large enough for shared memory, some of them slow."""

    def __len__(self):
        return samples

    def __getitem__(self, i):
        if mode == "slow":
            time.sleep(0.05)
        if mode == "stuck" and i >= 16:
            time.sleep(600)
        if mode == "raise" and i == samples // 2:
            raise ValueError(f"sample {i} is odd")
        if mode == "kill" and i == samples // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "memory" and i == samples // 2:
            resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
            return bytearray(1 << 30)
        return core.full((3, 32, 32), float(i)), i


def limits(worker):
    """Let no file grow, and so no segment."""
    if mode == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


if mode == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
loader = DataLoader(Images(), batch_size=4, num_workers=4, worker_init_fn=limits, persistent_workers=mode == "persist")
total = 0
begin = time.perf_counter()
kept = []
batches = 0
for _ in range(2 if mode == "persist" else 1):
    for x, index in loader:
        assert x[:, 0, 0, 0].tolist() == index.tolist()
        total += int(index.sum())
        batches += 1
        if batches == (5 if mode == "slow" else 1):  # of the slow ones, once each worker has given a batch
            print("first", *[w.process.pid for w in loader._iterator.pool.workers] if mode == "persist" else "",
                  flush=True)  # fmt: skip
        while mode == "files":
            try:
                os.dup(0)
            except OSError:
                break
        if mode == "busy" and index[0] == 40:
            while True:
                pass
        kept = kept or [x]
    if mode == "break":
        break
print("done", total, flush=True)
