"""The time and the memory of a training step on many ranks, for one way to divide the work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .costs import ModelCosts, Part
from .machine import BUCKET, Machine

__all__ = ["ASSUMED", "Division", "Estimate", "Numbers", "estimate", "stages"]

ASSUMED = (
    "a backward pass takes twice the forward one, and a part what its operations, its bytes or its number of ops ask "
    "for, whichever is the most",
    "stages of a pipeline run by the schedule 1F1B, cut where the slowest is fastest; what passes between them waits",
    "tensor parallelism divides linear layers and attention, columns then rows, and its sums overlap with nothing",
    "gradients are copied into buckets and back, and summed while backward goes on, as far as it lasts, but for the "
    "last bucket of 25 MB",
    "what is kept for backward is every op's result; recomputed, it is the results of the parts",
    "no rank is slower than another, and data is always there",
    "failures come at random; checkpoints are taken at the interval that loses least (Young)",
)


@dataclass(frozen=True)
class Numbers:
    """Bytes a parameter: its weight, its gradient, and what the optimizer keeps."""

    weight: int = 2
    gradient: int = 2
    state: int = 12

    @property
    def sent(self) -> int:
        """Bytes a gradient has on its way."""
        return self.gradient


FLOAT32 = Numbers(4, 4, 8)  # weights, gradients, Adam's two moments
BFLOAT16 = Numbers(2, 2, 12)  # and a copy of the weights in float32


@dataclass(frozen=True)
class Division:
    """How the work is divided: replicas that each take a part of the data, ranks that share each layer, stages.

    sharded : 0, or what the replicas share instead of repeating: 1 the optimizer's state, 3 weights and gradients too.
    micro : micro-batches a step. recompute : whether parts run forward again before their backward.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    sharded: int = 0
    micro: int = 1
    recompute: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks that takes."""
        return self.data * self.tensor * self.pipeline

    def __str__(self) -> str:
        """The division as a table shows it."""
        said = [f"{self.data} data"]
        said += [f"{self.tensor} tensor"] * (self.tensor > 1) + [f"{self.pipeline} stages"] * (self.pipeline > 1)
        text = " x ".join(said)
        text += f", sharded {self.sharded}" * bool(self.sharded)
        text += f", {self.micro} micro-batches" * (self.micro > 1)
        return text + ", recomputed" * self.recompute


@dataclass(frozen=True)
class Estimate:
    """Seconds of a step, of what they are made, and bytes of the fullest rank."""

    division: Division
    samples: int
    compute_s: float
    tensor_s: float
    pipeline_s: float
    """Messages between stages, and the bubble: stages that wait for the first or the last micro-batch."""
    data_s: float
    """Sums of gradients that no backward pass hides."""
    update_s: float
    fixed_s: float
    memory: float
    useful: float
    """The share of the time that is left after checkpoints, and after work that failures undo."""
    checkpoint_s: float
    """The best time between two checkpoints; 0 for one rank."""

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.compute_s + self.tensor_s + self.pipeline_s + self.data_s + self.update_s + self.fixed_s

    @property
    def samples_per_s(self) -> float:
        """Samples a second, failures included."""
        return self.samples / self.step_s * self.useful


def stages(parts: Sequence[Part], n: int) -> list[list[Part]]:
    """Return the parts as `n` runs of neighbours, of which the one with the most operations has as few as can be.

    >>> [[p.name for p in run] for run in stages([Part("a", flops=3), Part("b", flops=1), Part("c", flops=2)], 2)]
    [['a'], ['b', 'c']]
    """
    if n > len(parts):
        raise ValueError(f"plan: {len(parts)} parts make no {n} stages")
    low, high = max(p.flops for p in parts), sum(p.flops for p in parts)
    best = _packed(parts, high, n)
    for _ in range(50):
        middle = (low + high) / 2
        found = _packed(parts, middle, n)
        if len(found) <= n:
            best, high = found, middle
        else:
            low = middle
    while len(best) < n:  # stages that are left over take the halves of the longest ones
        k = max(range(len(best)), key=lambda k: len(best[k]))
        run = best[k]
        best[k : k + 1] = [run[: len(run) // 2], run[len(run) // 2 :]]
    return best


def _packed(parts: Sequence[Part], most: float, n: int) -> list[list[Part]]:
    runs: list[list[Part]] = [[]]
    load = 0.0
    for part in parts:
        if runs[-1] and load + part.flops > most * (1 + 1e-9):
            runs.append([])
            load = 0.0
        runs[-1].append(part)
        load += part.flops
    return runs


def estimate(costs: ModelCosts, machine: Machine, division: Division, samples: int,
             numbers: Numbers = BFLOAT16) -> Estimate:  # fmt: skip
    """Return the time and the memory of a step of `samples` samples over all ranks.

    *Raises*: ValueError where the model has too few parts for so many stages.
    """
    d = division
    each = samples / d.data / d.micro  # samples of a micro-batch
    runs = stages(costs.parts, d.pipeline)
    passes = 4 if d.recompute else 3  # forward passes' worth of work
    slow = machine.crowd(d.ranks)
    forward = max(sum(_forward(p, machine, each, d.tensor, numbers) for p in run) for run in runs) * slow
    compute = forward * passes
    tensor = 0.0
    if d.tensor > 1:  # once forward, once backward
        slowest = max(runs, key=lambda run: sum(p.summed for p in run))
        tensor = 2 * sum(machine.all_reduce(p.summed * each / p.sums, d.tensor) * p.sums for p in slowest if p.sums)
    hops = 0.0
    if d.pipeline > 1:
        cut = max(run[-1].out for run in runs[:-1]) * each / d.tensor
        hops = 2 * machine.send(cut, d.tensor)
    turns = d.micro
    bubble = (d.pipeline - 1) * (compute + tensor + hops)
    held = max(sum(p.parameters for p in run) for run in runs) / d.tensor
    backward = compute * (passes - 1) / passes
    data = _summed(machine, d, held, numbers, backward, costs.tensors)
    if d.data > 1 and machine.gradients is None:  # into buckets and back, each read and written
        data += 4 * held * numbers.sent * slow / machine.bandwidth
    own = held / d.data if d.sharded else held
    touched = own * (numbers.weight + numbers.gradient + 2 * numbers.state)
    update = touched * slow / machine.bandwidth
    memory = _memory(runs, d, numbers, each)
    checkpoint, useful = _failures(machine, d, held * (numbers.weight + numbers.state) / (d.data if d.sharded else 1))
    return Estimate(d, samples, compute * turns, tensor * turns, bubble + hops * turns, data, update,
                    machine.step_s * slow * turns, memory, useful, checkpoint)  # fmt: skip


def _forward(part: Part, machine: Machine, samples: float, ranks: int, numbers: Numbers) -> float:
    """Return the seconds of a part's forward pass: of what its operations, its bytes and its calls ask for the most."""
    moved = (part.moved * samples + part.parameters * numbers.weight) / ranks
    return max(part.flops * samples / ranks / machine.flops, moved / machine.bandwidth, part.ops * machine.op_s)


def _summed(machine: Machine, d: Division, held: float, numbers: Numbers, backward: float, tensors: int) -> float:
    """Return the seconds in which gradients are summed and nothing is computed."""
    if d.data == 1:
        return 0.0
    size, apart = held * numbers.sent, d.tensor * d.pipeline
    buckets = max(min(math.ceil(size / BUCKET), tensors or 1), 1)
    last = machine.summed(size / buckets, d.data, apart)
    rest = last * (buckets - 1)
    if d.sharded == 3:  # weights are gathered before each forward and backward, gradients scattered: 3 halves of a sum
        last, rest = last * 1.5, rest * 1.5
    elif d.sharded:  # a sum, and the new weights are sent: 2 halves, and 1
        last += machine.all_reduce(held * numbers.weight, d.data, apart) / 2
    return last + max(rest - machine.overlap * backward, 0.0)


def _memory(runs: list[list[Part]], d: Division, numbers: Numbers, each: float) -> float:
    """Return the bytes of the fullest rank: a stage holds as many micro-batches as there are stages from it on."""
    fullest = 0.0
    for k, run in enumerate(runs):
        held = sum(p.parameters for p in run) / d.tensor
        shared = d.data if d.sharded else 1
        bytes_each = numbers.state / shared + (numbers.weight + numbers.gradient) / (shared if d.sharded == 3 else 1)
        flying = min(d.pipeline - k, d.micro)
        kept = sum(p.out if d.recompute else p.saved for p in run) * flying
        kept += max(p.saved for p in run) if d.recompute else 0.0
        fullest = max(fullest, held * bytes_each + kept * each / d.tensor)
    return fullest


def _failures(machine: Machine, d: Division, kept: float) -> tuple[float, float]:
    """Return the best time between checkpoints and the share of the time that is not lost."""
    if d.ranks == 1:
        return 0.0, 1.0
    between = machine.mtbf_hours * 3600 / d.ranks
    write = max(
        kept / machine.write, kept * d.tensor * d.pipeline * (d.data if d.sharded else 1) / machine.storage, 1.0
    )
    interval = math.sqrt(2 * write * between)
    lost = write / interval + (interval / 2 + machine.restart_s) / between
    return interval, max(1 - lost, 0.0)
