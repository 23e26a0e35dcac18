"""The best way to divide a training step over each number of GPUs, as a table, a plot or JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .costs import ModelCosts
from .estimate import ASSUMED, BFLOAT16, Division, Estimate, Numbers, estimate
from .machine import Machine

__all__ = ["Plan", "divisions", "plan", "sizes"]

FEW = 64  # micro-batches that are tried, at most


@dataclass(frozen=True)
class Plan:
    """The best divisions of a training step."""

    costs: ModelCosts
    machine: Machine
    best: dict[int, Estimate | str]
    """The best estimate for each number of GPUs, or why there is none."""

    def __str__(self) -> str:
        """The table, with what it assumes."""
        head = ("GPUs", "divided as", "samples", "step", "computes", "sums, messages", "waits for stages",
                "GB a GPU", "samples/s", "efficiency", "checkpoint every")  # fmt: skip
        rows: list[tuple[str, ...]] = [head]
        one = self._one()
        for n, e in self.best.items():
            if isinstance(e, str):
                rows.append((f"{n:,}", e, *[""] * (len(head) - 2)))
                continue
            share = e.samples_per_s / n / one if one else math.nan
            computing = e.compute_s + e.update_s + e.fixed_s
            rows.append((f"{n:,}", str(e.division), f"{e.samples:,}", _seconds(e.step_s),
                         f"{computing / e.step_s:.0%}", f"{(e.tensor_s + e.data_s) / e.step_s:.0%}",
                         f"{e.pipeline_s / e.step_s:.0%}", f"{e.memory / 1e9:.3g}", f"{e.samples_per_s:,.4g}",
                         f"{share:.0%}", _seconds(e.checkpoint_s) if n > 1 else ""))  # fmt: skip
        wide = [max(len(row[k]) for row in rows) for k in range(len(head))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, wide, strict=True)).rstrip() for row in rows]
        c = self.costs
        title = f"{c.title}: " * bool(c.title)
        about = (f"{title}{c.parameters:,} parameters in {len(c.parts)} parts, {3 * c.flops:.3g} operations and "
                 f"{c.saved / 1e6:.3g} MB kept for backward a sample. {self.machine.name}.")  # fmt: skip
        return "\n".join([about, "", *lines, "", "Assumed: " + ";\n  ".join(ASSUMED) + ".",
                          "Efficiency is samples a second and GPU, beside the fewest GPUs of the table. No row was "
                          "measured."])  # fmt: skip

    def _one(self) -> float:
        first = next((e for e in self.best.values() if not isinstance(e, str)), None)
        return 0.0 if first is None else first.samples_per_s / first.division.ranks

    def plain(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        rows = {n: e if isinstance(e, str) else {**asdict(e), "step_s": e.step_s, "samples_per_s": e.samples_per_s}
                for n, e in self.best.items()}  # fmt: skip
        return {"machine": self.machine.plain(), "parameters": self.costs.parameters, "assumed": ASSUMED, "rows": rows}

    def plot(self, path: str) -> None:
        """Draw samples a second and what a step is made of over the number of GPUs; the file's name says the format."""
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        found = [(n, e) for n, e in self.best.items() if not isinstance(e, str)]
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        counts = [n for n, _ in found]
        one = self._one()
        left.loglog(counts, [e.samples_per_s for _, e in found], "o-", label="planned")
        left.loglog(counts, [n * one for n in counts], ":", color="0.5", label="in proportion")
        left.set(xlabel="GPUs", ylabel="samples a second")
        left.legend()
        kinds = {
            "computes": [e.compute_s + e.update_s + e.fixed_s for _, e in found],
            "sums of layers": [e.tensor_s for _, e in found],
            "sums of gradients": [e.data_s for _, e in found],
            "waits for stages": [e.pipeline_s for _, e in found],
        }
        places, bottom = range(len(found)), [0.0] * len(found)
        for name, seconds in kinds.items():
            share = [s / e.step_s for s, (_, e) in zip(seconds, found, strict=True)]
            right.bar(places, share, bottom=bottom, label=name)
            bottom = [a + b for a, b in zip(bottom, share, strict=True)]
        right.set(xlabel="GPUs", ylabel="share of a step", ylim=(0, 1))
        right.set_xticks(list(places), [f"{n:,}" for n in counts], rotation=45)
        right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=8, frameon=False)
        figure.savefig(path, dpi=110)
        plt.close(figure)


def _seconds(s: float) -> str:
    """Return a time as people say it.

    >>> _seconds(0.0123), _seconds(75), _seconds(7300)
    ('12.3 ms', '75 s', '2 h')
    """
    if s < 1:
        return f"{s * 1e3:.3g} ms"
    if s < 120:
        return f"{s:.3g} s"
    return f"{s / 60:.3g} min" if s < 7200 else f"{s / 3600:.2g} h"


def sizes(said: str) -> list[int]:
    """Return numbers of GPUs: ``8,64`` are these, ``8..100000`` eight times as many each time, and the last one.

    >>> sizes("8..100000"), sizes("1,2,4")
    ([8, 64, 512, 4096, 32768, 100000], [1, 2, 4])
    """
    found: list[int] = []
    for word in said.split(","):
        low, dots, high = word.partition("..")
        try:
            n, last = int(low), int(high) if dots else int(low)
        except ValueError:
            raise ValueError(f"plan: --gpus {said}: needed numbers, as 8,64 or 8..100000") from None
        if n < 1 or last < n:
            raise ValueError(f"plan: --gpus {said}: {word} is no range of numbers from 1 on")
        while n < last:
            found.append(n)
            n *= 8
        found.append(last)
    return sorted(set(found))


def divisions(ranks: int, parts: int, node: int, most_micro: int) -> Iterator[Division]:
    """Yield the ways to divide a step over so many ranks: layers within a node, stages, replicas; powers of two."""
    for tensor in _powers(min(node, ranks)):
        for pipeline in _powers(min(parts, ranks // tensor)):
            data = ranks // (tensor * pipeline)
            if data * tensor * pipeline != ranks:
                continue
            for micro in _powers(min(most_micro, FEW * pipeline)):
                for sharded in (0, 1, 3) if data > 1 else (0,):
                    if sharded == 3 and pipeline > 1:  # weights would be gathered for each micro-batch
                        continue
                    for recompute in (False, True):
                        yield Division(data, tensor, pipeline, sharded, micro, recompute)


def _powers(most: int) -> list[int]:
    return [2**k for k in range(most.bit_length())]


def plan(costs: ModelCosts, machine: Machine, gpus: Sequence[int], batch: int | None = None,
         numbers: Numbers = BFLOAT16) -> Plan:  # fmt: skip
    """Return the best division for each number of GPUs.

    batch : samples a step over all GPUs; None: as many for each GPU as the inputs have, so that a step grows with them.
    """
    node = machine.levels[0].ranks or 1
    divides = any(p.sums for p in costs.parts)
    best: dict[int, Estimate | str] = {}
    for n in gpus:
        samples = batch or costs.samples * n
        found: list[Estimate] = []
        least = math.inf
        for d in divisions(n, len(costs.parts), node if divides else 1, max(samples // n, 1) * 64):
            if samples >= d.data * d.micro:
                e = estimate(costs, machine, d, samples, numbers)
                least = min(least, e.memory)
                if e.memory <= 0.9 * machine.memory or not machine.memory:
                    found.append(e)
        # of equal ones the simplest: a plan that is faster by a hundredth is not worth another way to divide
        top = max((e.samples_per_s for e in found), default=0.0)
        near = [e for e in found if e.samples_per_s >= 0.99 * top]
        if near:
            best[n] = min(near, key=lambda e: _ways(e.division))
        elif least < math.inf:
            best[n] = f"needs {least / 1e9:.3g} GB a GPU at least, of {machine.memory / 1e9:.3g}"
        else:
            best[n] = f"{samples:,} samples are too few to divide"
    return Plan(costs, machine, best)


def _ways(d: Division) -> tuple[int, int, int, int]:
    return (d.tensor > 1) + (d.pipeline > 1) + (d.sharded > 0) + d.recompute, d.sharded, d.tensor * d.pipeline, d.micro
