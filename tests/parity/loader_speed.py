"""Loaders with workers beside PyTorch's, in one run: ``python -m tests.parity.loader_speed``.

3x64x64 float32 samples in batches of 64. The two packages run in turn, with workers that persist; a figure is the
median of the rounds. The start is what the first batch of a fresh loader takes: PyTorch forks by default, and can also
spawn, as here.
"""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any

import torch

import core

SAMPLES, BATCH, ROUNDS = 64 * 150, 64, 5


class Images:
    """512 images, over and over."""

    def __init__(self, images: Any) -> None:
        self.images = images

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, i: int) -> Any:
        return self.images[i % 512]


def one_pass(loader: Any) -> float:
    """Batches a second."""
    begin = time.perf_counter()
    count = sum(1 for _ in loader)
    return count / (time.perf_counter() - begin)


def start(make: Any) -> float:
    """Milliseconds to the first batch."""
    begin = time.perf_counter()
    it = iter(make())
    next(it)
    taken = (time.perf_counter() - begin) * 1e3
    del it
    return taken


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    mine, theirs = Images(core.randn(512, 3, 64, 64)), Images(torch.randn(512, 3, 64, 64))
    load_ours, load_theirs = core.utils.data.DataLoader, torch.utils.data.DataLoader
    for workers in (0, 1, 2, 4):
        more = {"num_workers": workers, "persistent_workers": workers > 0}
        pair = load_ours(mine, BATCH, **more), load_theirs(theirs, BATCH, **more)
        for loader in pair:
            one_pass(loader)
        rates = [[one_pass(loader) for loader in pair] for _ in range(ROUNDS)]
        a, b = (statistics.median(column) for column in zip(*rates, strict=True))
        ratio = statistics.median(x / y for x, y in rates)
        print(f"{workers} workers: {a:6.0f} batches/s, PyTorch {b:6.0f}; ratio {ratio:.2f}")
    for workers in (1, 2, 4):
        a = statistics.median(start(lambda n=workers: load_ours(mine, BATCH, num_workers=n)) for _ in range(3))
        b, c = (
            statistics.median(
                start(lambda n=workers, how=how: load_theirs(theirs, BATCH, num_workers=n, multiprocessing_context=how))
                for _ in range(3)
            )
            for how in ("fork", "spawn")
        )
        print(f"{workers} workers, first batch: {a:6.0f} ms, PyTorch forking {b:6.0f} ms, spawning {c:6.0f} ms")


if __name__ == "__main__":
    main()
