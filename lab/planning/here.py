"""This machine as a `Machine`, by measurement, and predictions for it beside what runs on it take.

What is fitted: one rank's times of each model at two batches, sums of five sizes between ranks, and what summing
gradients adds to the steps of four stacks of linear layers. What is predicted is none of that: steps of several ranks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .costs import ModelCosts, costs_of
from .estimate import FLOAT32, Division, estimate
from .machine import Level, Machine
from .models import BATCHES, MICRO, MODELS
from .on_ranks import MARK

__all__ = ["CHECKED", "Checked", "check", "machine_here", "on_ranks"]

LIMIT_S = 300.0
TIMES = 2  # how often steps and sums are measured: of each the least counts, as others may use the machine meanwhile
MEMORY_RATE = 5e9  # bytes a second, until an optimizer's step was timed

CHECKED = (("MLP", "ddp", 2, 128), ("MLP", "ddp", 4, 64), ("MLP", "zero", 2, 128), ("CNN", "ddp", 2, 32),
           ("CNN", "ddp", 4, 24), ("CNN", "zero", 2, 24), ("GPT", "ddp", 2, 8), ("GPT", "ddp", 4, 8),
           ("GPT", "zero", 2, 12), ("MLP", "tensor", 2, 192), ("MLP", "stages", 2, 256))  # fmt: skip
"""Model, way, ranks, samples of a replica."""

DIVISIONS: dict[str, Callable[[int], Division]] = {
    "ddp": lambda n: Division(data=n),
    "zero": lambda n: Division(data=n, sharded=1),
    "tensor": lambda n: Division(tensor=n),
    "stages": lambda n: Division(pipeline=n, micro=MICRO * n),
}


class Checked(NamedTuple):
    """A prediction and a measurement, in seconds."""

    model: str
    way: str
    ranks: int
    samples: int
    predicted: float
    measured: float

    @property
    def off(self) -> float:
        """By which share the prediction is off."""
        return self.predicted / self.measured - 1


def on_ranks(ranks: int, **task: Any) -> Any:
    """Have ranks of this machine do a task; return its answer. *Raises*: RuntimeError with what they said instead."""
    command = [sys.executable, "-m", "core.distributed.run", "-n", str(ranks), "-m", "lab.planning.on_ranks",
               json.dumps(task)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    for line in done.stdout.splitlines():
        if MARK in line:
            return json.loads(line.partition(MARK)[2])
    raise RuntimeError(f"plan: {ranks} ranks gave no answer to {task} (code {done.returncode}):\n"
                       f"{(done.stderr or done.stdout)[-2000:]}")  # fmt: skip


def _least(ranks: int, **task: Any) -> dict[str, Any]:
    """Return the least seconds of a task's answers, number by number."""

    def least(found: list[Any]) -> Any:
        if isinstance(found[0], dict):
            return {key: least([one[key] for one in found]) for key in found[0]}
        return min(found)

    return least([on_ranks(ranks, **task) for _ in range(TIMES)])  # type: ignore[no-any-return]


def _level(sums: dict[str, float], ranks: int) -> Level:
    """Return latency and rate of a ring that would take as long, by a fit of relative errors."""
    size, took = np.array([float(s) for s in sums]), np.maximum(list(sums.values()), 1e-6)
    fixed, each = np.linalg.lstsq(np.stack([1 / took, size / took], 1), np.ones(len(took)), rcond=None)[0]
    hops = 2 * (ranks - 1)
    return Level("this machine", 0, max(fixed, 1e-7) / hops, hops / ranks / max(each, 1e-12))


def machine_here(ranks: int, flops: float = 0.0) -> Machine:
    """Return this machine as so many ranks find it: the time of sums between them, and how they crowd its processors.

    flops : operations a second of one rank; 0: those of a product of 256 x 256 matrices.
    """
    alone = _least(1, task="network")["work"]
    rate = flops or 20 * 2 * 256**3 / alone
    if ranks == 1:
        return Machine(
            "this machine, one rank", rate, 0.0, MEMORY_RATE, (Level("none", 0, 0.0, 1e12),), overlap=0.0, op_s=0.0
        )
    found = _least(ranks, task="network")
    return Machine(f"this machine, {ranks} ranks", rate, 0.0, MEMORY_RATE, (_level(found["sums"], ranks),),
                   overlap=0.0, op_s=0.0, crowding={ranks: max(found["work"] / alone, 1.0)},
                   gradients=_level(found["gradients"], ranks))  # fmt: skip


def _timed_alone(model: str) -> tuple[ModelCosts, float, float, float]:
    """Return a model's costs, and by one rank's times at two batches its operations a second, the seconds that no
    sample adds, and the bytes a second of its update."""
    few, many = BATCHES[model]
    a, b = (_least(1, task="step", model=model, samples=n, way="alone") for n in (few, many))
    net, x, _ = MODELS[model](few)
    costs = costs_of(net, [x], model)
    update = min(a["update"], b["update"])
    first, second = a["step"] - a["update"], b["step"] - b["update"]
    each = max((second - first) / (many - few), 1e-9)
    rate = 3 * costs.flops / each
    touched = costs.parameters * (FLOAT32.weight + FLOAT32.gradient + 2 * FLOAT32.state)
    return costs, rate, max(first - few * each, 0.0), touched / update


def check() -> Iterator[Checked]:
    """Yield predictions beside measurements, for `CHECKED`."""
    machines = {n: machine_here(n) for n in sorted({ranks for _, _, ranks, _ in CHECKED})}
    models = {name: _timed_alone(name) for name in MODELS}
    for model, way, ranks, samples in CHECKED:
        costs, rate, fixed, bandwidth = models[model]
        machine = replace(machines[ranks], flops=rate, step_s=fixed, bandwidth=bandwidth)
        division = DIVISIONS[way](ranks)
        predicted = estimate(costs, machine, division, samples * division.data, FLOAT32).step_s
        measured = _least(ranks, task="step", model=model, samples=samples, way=way)["step"]
        yield Checked(model, way, ranks, samples, predicted, measured)
