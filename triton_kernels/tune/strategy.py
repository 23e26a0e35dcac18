"""Which config to try next: the ask/tell protocol that every strategy speaks, and the two that ask nobody.

A strategy knows rows of a `Table` and the values it was told, nothing of kernels, clocks or processes. `ask` gives the
row to try next, or None when every config has been asked for; `tell` gives a row's value (the smaller the better), or
None where it failed. Several rows may be asked for before the first is told.

Another strategy joins by `register`: a class with a `name`, made as ``Strategy(table, seed=0, first=rows)``. It says
how it chooses, and may say what it learns of a value (`learn`) and what it makes of results from elsewhere (`recall`):

>>> import numpy as np
>>> from triton_kernels.tune.space import Space, powers_of_two
>>> @register
... class Last(Strategy):
...     name = "last"
...
...     def choose(self):
...         return int(np.flatnonzero(~self.asked)[-1])
>>> blocks = Table(Space([powers_of_two("BLOCK", 64, 256, default=128)]))
>>> strategy = make("last", blocks)
>>> row = strategy.ask()
>>> strategy.tell(row, 2.5)
>>> blocks.config(strategy.best), strategy.ask()
({'BLOCK': 256}, 1)
>>> forget("last")
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .table import Table


@dataclass(frozen=True)
class History:
    """What was measured of the same configs elsewhere: on another device, at another shape.

    rows, values : rows of the table and their values, inf for failures; comparable within a history alone.
    """

    rows: np.ndarray
    values: np.ndarray

    def best(self, count: int) -> list[int]:
        """Return the rows with the smallest values, the best first."""
        order = np.argsort(self.values, kind="stable")[:count]
        return [int(row) for row in self.rows[order[np.isfinite(self.values[order])]]]


class Strategy:
    """What all strategies share: the rows to begin with, what was asked, what was told."""

    name = ""

    def __init__(self, table: Table, seed: int = 0, first: Sequence[int] = ()) -> None:
        self.table = table
        self.rng = np.random.default_rng(seed)
        self.asked = np.zeros(len(table), bool)
        self.values = np.full(len(table), np.nan)  # of those told; inf for failures
        self.told: list[int] = []
        self.best: int | None = None
        self._first = [*dict.fromkeys(first)]

    def ask(self) -> int | None:
        """Return the row to try next."""
        while self._first:
            row = self._first.pop(0)
            if not self.asked[row]:
                break
        else:
            if self.asked.all():
                return None
            row = self.choose()
        self.asked[row] = True
        return row

    def tell(self, row: int, value: float | None) -> None:
        """The value of a row, whether it was asked for or is known from before."""
        self.asked[row] = True
        if np.isnan(self.values[row]):
            self.told.append(row)
        self.values[row] = math.inf if value is None else value
        if value is not None and (self.best is None or value < self.values[self.best]):
            self.best = row
        self.learn(row)

    def recall(self, histories: Sequence[History]) -> None:
        """Results from elsewhere, before anything is told: a prior, not an answer. Here the best of each, in turn, come
        first; a strategy may make more of them."""
        turns = itertools.zip_longest(*(history.best(5) for history in histories))
        rows = [row for turn in turns for row in turn if row is not None]
        self._first = list(dict.fromkeys([*self._first, *rows]))

    def choose(self) -> int:
        """Return a row that has not been asked for; there is one."""
        raise NotImplementedError(f"the strategy {type(self).__name__} does not say how it chooses")

    def learn(self, row: int) -> None:
        """`values` of this row has just changed."""

    def extend(self) -> None:
        """Know the rows that have joined the table."""
        more = len(self.table) - len(self.asked)
        self.asked = np.append(self.asked, np.zeros(more, bool))
        self.values = np.append(self.values, np.full(more, np.nan))

    def anywhere(self) -> int:
        """Return a row at random among those not asked for."""
        return int(self.rng.choice(np.flatnonzero(~self.asked)))


class Exhaustive(Strategy):
    """Every config, in the order of the space."""

    name = "exhaustive"

    def choose(self) -> int:
        return int(np.argmin(self.asked))


class Random(Strategy):
    """Every config, in a random order."""

    name = "random"

    def choose(self) -> int:
        return self.anywhere()


_CLASSES: dict[str, type[Strategy] | str] = {
    "exhaustive": Exhaustive,
    "random": Random,
    "line": "strategy_line.Line",
    "gaussian": "strategy_gaussian.Gaussian",
    "portfolio": "strategy_portfolio.Portfolio",
    "trees": "strategy_trees.Trees",
}


def register(strategy: type[Strategy]) -> type[Strategy]:
    """Let `make` know a strategy by its name; usable as a decorator."""
    if not strategy.name:
        raise ValueError(f"the strategy {strategy.__name__} needs a name")
    _CLASSES[strategy.name] = strategy
    return strategy


def forget(name: str) -> None:
    """Take a registered strategy out again."""
    del _CLASSES[name]


def names() -> tuple[str, ...]:
    """Return the strategies there are."""
    return tuple(_CLASSES)


def make(name: str, table: Table, seed: int = 0, first: Sequence[int] = ()) -> Strategy:
    """Return a strategy by its name.

    >>> from triton_kernels.tune.space import Space, powers_of_two
    >>> strategy = make("exhaustive", Table(Space([powers_of_two("BLOCK", 64, 256, default=128)])))
    >>> strategy.ask(), strategy.ask()
    (0, 1)
    """
    found = _CLASSES.get(name)
    if found is None:
        raise ValueError(f"no strategy is named {name!r}; there are {', '.join(_CLASSES)}")
    if isinstance(found, str):
        module, _, attribute = found.partition(".")
        found = getattr(importlib.import_module(f".{module}", __package__), attribute)
        assert isinstance(found, type)
    return found(table, seed, first)
