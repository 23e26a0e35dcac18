"""What a worker process knows of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker process is: `id` of `num_workers`, its `seed`, and its copy of the `dataset`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process what it is; None in the main one.

    An iterable data set asks it for its share of the samples, because every worker goes through the whole data set.

    >>> import core
    >>> core.utils.data.get_worker_info() is None
    True
    """
    return current
