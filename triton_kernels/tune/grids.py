"""The grid of another config where a wrapper has made it a tuple: ``ceil(size / BLOCK)`` programs, but of which size?

Each axis is a constant, or the number of blocks that cover a size, or a product of two such; sizes are the integers and
the arrays' axes of a launch. Rules that do not give the grid of every launch that was captured are out. Where several
are left that differ for a config, the one with the fewest programs is taken that gives the right result, and those that
do not say the same are out for the next config too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .arguments import Call

Rule = tuple[str, ...]
"""Names: a size and the block that covers it, once or twice; () for a constant."""
_MOST = 12  # grids that are tried for a config


class Rules:
    """What the axes of a kernel's grids may follow. calls : its launches, the one that is tuned first."""

    def __init__(self, calls: Sequence[Call], tunables: Iterable[str]) -> None:
        self.calls = calls
        self._sizes = [_sizes(c) for c in calls]
        self._every = range(len(calls))
        blocks = [n for n in tunables if all(_positive(c.arguments.get(n)) for c in calls)]
        self._axes = [self._fitting(axis, blocks) for axis in range(len(calls[0].grid))]

    def grids(self, config: Mapping[str, Any]) -> list[list[tuple[int, ...]]]:
        """Return the grids that a config may need, those of few programs first; each as one for every launch."""
        found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        per_axis = []
        for axis, rules in enumerate(self._axes):
            said: dict[int, Rule] = {}
            for rule in rules:
                said.setdefault(self._programs(rule, axis, 0, config), rule)
            per_axis.append(list(said.values()))
        for chosen in itertools.islice(itertools.product(*per_axis), 8 * _MOST):
            every = [tuple(self._programs(r, a, k, config) for a, r in enumerate(chosen)) for k in self._every]
            found.setdefault(every[0], every)
        return sorted(found.values(), key=lambda every: math.prod(every[0]))[:_MOST]

    def keep(self, config: Mapping[str, Any], grid: tuple[int, ...]) -> None:
        """Leave out the rules that do not give a config's grid."""
        for axis, rules in enumerate(self._axes):
            right = [r for r in rules if self._programs(r, axis, 0, config) == grid[axis]]
            self._axes[axis] = right or rules

    def _fitting(self, axis: int, blocks: Sequence[str]) -> list[Rule]:
        """Return the rules that give an axis of every launch, those of one block before those of two."""
        names = [n for n in self._sizes[0] if all(n in each for each in self._sizes)]
        sizes = {tuple(each[n] for each in self._sizes): n for n in reversed(names)}  # one name for what is the same
        pairs = list(itertools.product(sizes.values(), blocks))
        asked = [c.grid[axis] for c in self.calls]
        ones: list[Rule] = [p for p in pairs if [self._count(p, k, {}) for k in self._every] == asked]
        twos: list[Rule] = []
        counts = {p: [self._count(p, k, {}) or 0 for k in self._every] for p in pairs}
        several = [p for p in pairs if max(each[p[0]] for each in self._sizes) > 1]
        for p, q in itertools.combinations(several, 2):  # of blocks that cover all too: smaller ones may not
            if p[1] != q[1] and [m * n for m, n in zip(counts[p], counts[q], strict=True)] == asked:
                twos.append((*p, *q))
        constant: list[Rule] = [()] if len(set(asked)) == 1 or not (ones or twos) else []
        return [*constant, *ones, *twos]

    def _programs(self, rule: Rule, axis: int, k: int, config: Mapping[str, Any]) -> int:
        return (self._count(rule, k, config) if rule else None) or self.calls[k].grid[axis]

    def _count(self, rule: Rule, k: int, config: Mapping[str, Any]) -> int | None:
        """Return how many blocks cover a rule's sizes, with a config's blocks; None where a launch has no such size."""
        found = 1
        for size, block in zip(rule[::2], rule[1::2], strict=True):
            n, by = self._sizes[k].get(size), config.get(block, self.calls[k].arguments.get(block))
            if n is None or not _positive(by):
                return None
            found *= -(-n // int(by))  # type: ignore[arg-type]
        return found


def _sizes(call: Call) -> dict[str, int]:
    """Return by name what a grid may cover."""
    found = {n: int(v) for n, v in call.arguments.items() if _positive(v)}
    for name, view in call.views():
        found |= {f"{name}.shape[{axis}]": n for axis, n in enumerate(view.shape)}
        found[f"{name}.size"] = math.prod(view.shape)
        if len(view.shape) > 2:
            found[f"{name}.rows"] = math.prod(view.shape[:-1])
    return {n: v for n, v in found.items() if v > 0}


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
