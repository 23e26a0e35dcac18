"""What ``tuning-replay`` measures besides search from nothing: with other devices' results, and by the clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from triton_kernels.tune import strategy as strategies
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.recall import vendor
from triton_kernels.tune.replay import Search, asking
from triton_kernels.tune.space import Constraint, Space, Tunable
from triton_kernels.tune.strategy import History
from triton_kernels.tune.table import Table

EVALUATIONS = 150  # of a history that is not complete


@dataclass(frozen=True)
class Recorded:
    """A recorded space, ready to be searched."""

    name: str
    kernel: str
    device: str
    problem: Problem
    table: Table
    values: np.ndarray


def kin(problem: Recorded, others: Sequence[Recorded]) -> list[Recorded]:
    """Up to two other devices of the same vendor on which the same kernel was recorded with the same tunables."""
    found = [
        o for o in others
        if o.device != problem.device and o.kernel == problem.kernel and vendor(o.device) == vendor(problem.device)
        and o.table.space.names == problem.table.space.names and _shared(problem, o) >= 0.5
    ]  # fmt: skip
    return found[:2]


def _shared(problem: Recorded, other: Recorded) -> float:
    """Return which part of the other's configs this space has, from a sample."""
    rows = np.random.default_rng(0).integers(len(other.table), size=100)
    return float(np.mean([problem.table.find(other.table.config(int(row))) is not None for row in rows]))


def warm_searches(problem: Recorded, others: Sequence[Recorded]) -> dict[str, Search]:
    """Return the portfolio with all that the problem's kin have recorded, and with the evaluations of a search on
    each."""
    near = kin(problem, others)
    if not near:
        return {}
    whole = [_history(problem, o, np.arange(len(o.table))) for o in near]

    def part(seed: int) -> list[History]:
        return [_history(problem, o, _searched(o, 1000 * (k + 1) + seed)) for k, o in enumerate(near)]

    return {
        "warm, complete": asking("portfolio", lambda seed: whole),
        f"warm, {EVALUATIONS}": asking("portfolio", part),
    }


def _searched(other: Recorded, seed: int) -> np.ndarray:
    """Return the rows that a search from nothing evaluates there."""
    chosen, rows = strategies.make("portfolio", other.table, seed), []
    for _ in range(min(EVALUATIONS, len(other.table))):
        row = chosen.ask()
        assert row is not None
        rows.append(row)
        value = float(other.values[row])
        chosen.tell(row, value if np.isfinite(value) else None)
    return np.array(rows)


def _history(problem: Recorded, other: Recorded, rows: np.ndarray) -> History:
    here = [problem.table.find(other.table.config(int(row))) for row in rows]
    kept = [k for k, row in enumerate(here) if row is not None]
    return History(np.array([here[k] for k in kept], int), other.values[rows[kept]])


def suggestion_times() -> list[str]:
    """Lines on how long a suggestion takes at 20,000 configs, and how long spaces take to begin with."""
    lines = []
    space = Space([Tunable(name, tuple(range(1, 13)), 1) for name in "ABCD"])
    table = Table(space)  # 20,736 configs
    rng = np.random.default_rng(0)
    slope = rng.standard_normal(4)
    values = np.exp((table.codes / 11.0 - 0.6) ** 2 @ np.abs(slope) + 0.3 * rng.random(len(table)))
    some = rng.choice(len(table), EVALUATIONS, replace=False)
    elsewhere = History(some, values[some] * np.exp(0.3 * rng.standard_normal(len(some))))
    for what, histories in (("from nothing", ()), (f"with a history of {EVALUATIONS}", (elsewhere,))):
        chosen, took, asked = strategies.make("portfolio", table, 0), [], []
        began = time.process_time()
        chosen.recall(histories)
        recalled = (time.process_time() - began) * 1e3
        for _ in range(200):
            began = time.process_time()
            row = chosen.ask()
            asked.append((time.process_time() - began) * 1e3)
            assert row is not None
            chosen.tell(row, float(values[row]))
            took.append((time.process_time() - began) * 1e3)
        lines.append(
            f"200 suggestions at {len(table):,} configs, {what}, learning and fits counted in, processor time: mean "
            f"{np.mean(took):.1f} ms, median {np.median(took):.1f} ms, 99 % under {np.quantile(took, 0.99):.1f} ms, "
            f"worst {max(took):.1f} ms; a suggestion alone at most {max(asked):.1f} ms; {recalled:.0f} ms before the "
            "first"
        )
    lines.append(_began("enumerated", [Tunable(n, tuple(range(10)), 0) for n in "ABCDE"]))
    lines.append(_began("drawn from", [Tunable(n, tuple(range(10)), 0) for n in "ABCDEFGHI"]))
    rare = [Constraint("one in a hundred", lambda c: 10 * c["A"] + c["B"] == 0)]
    lines.append(_began("drawn from, one in 100 legal", [Tunable(n, tuple(range(10)), 0) for n in "CABDEFGHI"], rare))
    return lines


def _began(what: str, tunables: Sequence[Tunable], constraints: Sequence[Constraint] = ()) -> str:
    size = 1
    for tunable in tunables:
        size *= len(tunable.values)
    began = time.process_time()
    table = Table(Space(tunables, constraints))
    return f"a space of {size:,} points, {what}: {len(table):,} configs in {time.process_time() - began:.2f} s"
