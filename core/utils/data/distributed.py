"""`DistributedSampler`: the share of a data set that one of several processes reads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

from ...distributed.groups import get_rank, get_world_size
from ...random import randperm
from ...rng.generator import fork
from .sampler import Sampler

T_co = TypeVar("T_co", covariant=True)


class DistributedSampler(Sampler[T_co]):
    """The indices of one of `num_replicas` processes: the one numbered `rank`.

    All processes shuffle alike, from `seed` and the epoch that `set_epoch` was told; without it every pass has the same
    order. So that all get as many, indices are repeated from the front, or left out at the end with `drop_last`.

    num_replicas, rank : those of `core.distributed` where they are left out.

    *Raises*: ValueError for a rank that is none; where they are left out before `core.distributed.init_process_group`.

    >>> import core
    >>> [list(core.utils.data.DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in range(2)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False) -> None:  # fmt: skip
        num_replicas = get_world_size() if num_replicas is None else num_replicas
        rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[T_co]:
        n = len(self.dataset)
        order: list[Any] = list(range(n))
        if self.shuffle:
            order = randperm(n, generator=fork(self.seed + self.epoch)).tolist()
        if self.total_size > n:
            order = (order * math.ceil(self.total_size / n))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Which pass is next: each has an order of its own."""
        self.epoch = epoch
