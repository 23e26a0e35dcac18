"""``python -m tests.triton_kernels.tune.store_figures``: what writing a trial and looking a config up costs.

One writer, then four at once in processes of their own, each with the store's usual timeout; how long each insert took,
the worst of all, and whether all are there afterwards. Then lookups, remembered and not.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from triton_kernels.tune import lookup
from triton_kernels.tune.store import Store

KEY = {"kernel": "k_f32", "source": "s", "device": "d", "shape": [64, 32], "dtype": "float32", "mode": "cpu"}


def write(folder: str, me: int, count: int, timeout_s: float = 30.0) -> tuple[list[float], str]:
    """Insert so many trials: how long each took in ms, and the state of the store after it."""
    took = []
    with Store(Path(folder), timeout_s) as store:
        session = store.begin(KEY, {}, "random")
        for k in range(count):
            trial = {"config": {"BLOCK": me * 100_000 + k, "num_warps": 4}, "status": "correct", "median_ms": 1.0,
                     "ratio": 1.0, "n": 16, "samples": [1.0] * 16, "binary": f"{me}-{k}"}  # fmt: skip
            began = time.perf_counter()
            store.add(KEY, session, trial)
            took.append((time.perf_counter() - began) * 1e3)
        return took, store.state


def main(count: int) -> int:
    """Print the figures; 1 where a trial is missing."""
    lost = 0
    for writers in (1, 4):
        with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(writers) as pool:
            found = pool.starmap(write, [(folder, me, count) for me in range(writers)])
            took = np.concatenate([np.array(times) for times, _ in found])
            with Store(Path(folder)) as store:
                began = time.perf_counter()
                there = len(store.trials(KEY))
                read_ms = (time.perf_counter() - began) * 1e3
        states = {state for _, state in found}
        lost += writers * count - there
        print(f"{writers} writer(s), {writers * count:,} trials: median {np.median(took):.3f} ms, 99 % "
              f"{np.quantile(took, 0.99):.2f} ms, worst {took.max():.1f} ms; {there:,} there, in the "
              f"{' and '.join(states)}; all read in {read_ms:.1f} ms")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder
        with Store() as store:
            for k in range(101):
                session = store.begin(KEY, {}, "random")
                winner = {"config": {"BLOCK": k}, "ratio": 0.5, "low": 0.4, "high": 0.6}
                store.win({**KEY, "shape": [64 + k, 32]}, session, winner)
        lookups()
    return 1 if lost else 0


def lookups() -> None:
    """Time them: remembered, and the first time for a shape with 101 results."""

    def asked(shape: tuple[int, ...]) -> object:
        return lookup.best("k_f32", shape, "float32", "d", "s")

    for name, shape in (("exact", (64, 32)), ("of the same bucket", (65, 31)), ("not there", (9, 9, 9))):
        asked(shape)
        times = []
        for _ in range(200):
            began = time.perf_counter_ns()
            for _ in range(1000):
                asked(shape)
            times.append((time.perf_counter_ns() - began) / 1000)
        print(f"a lookup, {name}, remembered: {np.median(times):.0f} ns")
    firsts = []
    for _ in range(20):
        lookup.forget()
        began = time.perf_counter_ns()
        asked((64, 32))
        firsts.append((time.perf_counter_ns() - began) / 1e6)
    print(f"the first lookup, with best.json of 101 results to be read: {np.median(firsts):.2f} ms")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
