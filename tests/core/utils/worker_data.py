"""What the tests of workers send to them: in a module of its own, which a worker imports without pytest."""

from __future__ import annotations

import dataclasses
import os
import random
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import core
from core.utils.data import IterableDataset, get_worker_info

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Box:
    """A batch of one's own."""

    x: core.Tensor
    names: list[str]
    pinned: bool = False

    def pin_memory(self) -> Box:
        return dataclasses.replace(self, pinned=True)


class Numbers:
    """A data set that does at sample `at` what `act` says."""

    def __init__(self, n: int = 40, at: int = -1, act: Callable[[], Any] | None = None, size: int = 1) -> None:
        self.n, self.at, self.act, self.size = n, at, act, size

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> core.Tensor:
        if i == self.at and self.act is not None:
            self.act()
        return core.full((self.size,), float(i))


class Shares(IterableDataset[int]):
    """A stream of which each worker gives its share."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        return iter(range(self.n)) if info is None else iter(range(info.id, self.n, info.num_workers))

    def __len__(self) -> int:
        return self.n


def structure(samples: list[Any]) -> Any:
    """Batches of every shape that a collate_fn may give."""
    i = len(samples)
    big = core.arange(50_000.0)
    return {
        "tensor": big, "half": big.to(core.bfloat16), "strided": big.reshape(100, 500).T, "empty": core.zeros(0, 3),
        "scalar": core.tensor(7), "bools": core.tensor([True, False]), "complex": core.tensor([1 + 2j]),
        "array": np.arange(9000, dtype=np.int16), "objects": ["text", b"bytes", None, 3.5, {1, 2}, slice(1, 2)],
        "pair": Pair(big * i, [core.ones(3)]), "same": [big, big], "parameter": core.nn.Parameter(core.ones(2)),
        "box": Box(core.ones(i), ["a"]), "loaded": big[:10], "dtype": core.float16,
    }  # fmt: skip


def draws(_: int) -> tuple[float, float, float, int, int]:
    info = get_worker_info()
    assert info is not None
    threads = core.get_num_threads() * int(os.environ["OPENBLAS_NUM_THREADS"])
    return random.random(), float(np.random.rand()), core.rand(1).item(), info.seed, threads  # noqa: NPY002


class Written:
    """A data set that its workers write into."""

    def __init__(self) -> None:
        self.array = np.zeros(100_000)
        self.tensor = core.zeros(50_000, dtype=core.bfloat16)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> tuple[float, float, bool]:
        self.array[i] += 1
        self.tensor[i] += 1
        with open("/proc/self/maps") as file:
            return float(self.array.sum()), self.tensor.sum().item(), "memfd:gradlab-dataset" in file.read()


class Draws:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        return draws(i)


class Copies(Shares):
    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))


def fails() -> None:
    raise KeyError("no such file")


def wants_two() -> None:
    raise TwoArguments("a", "b")


class TwoArguments(Exception):
    def __init__(self, a: str, b: str) -> None:
        super().__init__(a, b)


def small_files(worker: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))


def full_memory(worker: int) -> None:
    import errno

    from core.utils.data import segments

    def refuse(*ignored: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    segments.create = refuse


def boxed(samples: list[Any]) -> Box:
    return Box(core.tensor(samples), ["a"])
