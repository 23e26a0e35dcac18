"""Times of many configs of a C kernel beside one another: all of a space once, the best of it in several processes."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from triton_kernels.tune.measure import Failed
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.space import Config
from triton_kernels.tune.worker import Here, Worker, worker_for

_LIMIT_S = 120.0


def right_ones(problem: Problem, worker: Worker | Here, configs: Sequence[Config]) -> list[Config]:
    """Return those of the configs that compile and give the right answer."""
    right = []
    for config in configs:
        try:
            worker.call("build", config, limit_s=_LIMIT_S)
            worker.call("check", config, 0, False, limit_s=_LIMIT_S)
            right.append(config)
        except Failed:
            continue
    return right


def exhaustive(problem: Problem, rounds: int) -> tuple[list[Config], np.ndarray]:
    """Return all configs that are right, and the median time of each in ms, taken in turn with all others."""
    worker = worker_for(problem.measure, threading.Event())
    try:
        right = right_ones(problem, worker, list(problem.space.configs()))
        times = [worker.call("rounds", right, 1, k, limit_s=_LIMIT_S) for k in range(rounds)]
    finally:
        worker.close()
    return right, np.median(np.array(times)[:, :, 0], axis=0)


def beside_best(problem: Problem, configs: Sequence[Config], processes: int, rounds: int) -> np.ndarray:
    """Return for each config how much longer it takes than the best of them: 0 for that one.

    The times are taken in turn and divided by the first config's in the same round; the median over a process's rounds,
    and of these over the processes: where arrays lie in memory differs from one to the next.
    """
    worker = worker_for(problem.measure, threading.Event())
    try:
        each = []
        for k in range(processes):
            times = np.array(worker.call("rounds", list(configs), rounds, k, limit_s=_LIMIT_S))
            each.append(np.median(times / times[0], axis=1))
            worker.renew()
    finally:
        worker.close()
    found = np.median(each, axis=0)
    return found / found.min() - 1.0
