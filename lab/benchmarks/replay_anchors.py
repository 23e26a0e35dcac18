"""Other people's searches in the harness of ``tuning-replay``: Optuna's TPE, and Kernel Tuner's best strategy.

They see the same configs, values and budget as ours. Both packages are optional: ``pip install 'gradlab[compare]'``.
Where these tools have a rule of their own on what counts as an evaluation, it holds: Kernel Tuner takes a config that
it has evaluated from its cache, free of charge; Optuna evaluates it anew. A config outside the space costs neither of
them anything: Optuna, which cannot be told of constraints beforehand, is told of the violation afterwards.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triton_kernels.tune.replay import Search, Trail
from triton_kernels.tune.table import Table

_ILLEGAL = 100  # suggestions outside the space for each evaluation of the budget; then Optuna's run is over


def _optuna(trail: Trail, seed: int) -> None:
    """TPE as Optuna recommends it: ordered tunables as integers, violated constraints and failures told as such."""
    optuna = importlib.import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is experimental or deprecated, to its own users
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        worst = 0.0
        for _ in range(_ILLEGAL * trail.budget):
            trial = study.ask()
            config = {t.name: t.values[_suggested(trial, t.name, t.values)] for t in trail.table.space.tunables}
            row = trail.table.find(config)
            value = None if row is None else trail(row)
            trial.set_constraint("runs", 1.0 if value is None else -1.0)
            if value is not None:
                worst = max(worst, math.log(value))
            study.tell(trial, worst if value is None else math.log(value))


def _suggested(trial: Any, name: str, values: Sequence[Any]) -> int:
    """Return a place among the values: as an integer where they are numbers in order, else as one of a kind."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return int(trial.suggest_int(name, 0, len(values) - 1))
    return int(trial.suggest_categorical(name, range(len(values))))


def _kernel_tuner(trail: Trail, seed: int, name: str = "adaptive_tabu_greywolf") -> None:
    """A strategy of Kernel Tuner's on a runner of ours; by default the best of them in the study."""
    by_kernel_tuner(trail, seed, importlib.import_module("kernel_tuner.interface").strategy_map[name])


def by_kernel_tuner(trail: Trail, seed: int, strategy: Any) -> None:
    """Search a trail by a strategy of Kernel Tuner's, or one that was made for it."""
    searchspace = importlib.import_module("kernel_tuner.searchspace")
    util = importlib.import_module("kernel_tuner.util")
    options = importlib.import_module("kernel_tuner.interface").Options
    table = trail.table
    names, kept = table.space.names, _SPACES.get(id(table))
    if kept is None:
        found = [table.config(row) for row in range(len(table))]
        tunables = {t.name: list(t.values) for t in table.space.tunables}
        cache = {str(row): config for row, config in enumerate(found)}
        _SPACES.clear()
        kept = searchspace.Searchspace(None, None, None, from_cache={"tune_params": tunables, "cache": cache}), table
        _SPACES[id(table)] = kept
    random.seed(seed)  # it draws from the global generators
    np.random.seed(seed)  # noqa: NPY002
    budget = util.TuningBudget(max_fevals=trail.budget)
    settings = options(
        objective=["time"], objective_higher_is_better=[False], strategy_options=options(max_fevals=trail.budget),
        budget=budget, verbose=False,
    )  # fmt: skip
    strategy.tune(kept[0], _Runner(trail, names, budget, util.RuntimeFailedConfig()), settings)


_SPACES: dict[int, tuple[Any, Table]] = {}  # the last space that Kernel Tuner was given: building one takes seconds


class _Runner:
    """What a strategy of Kernel Tuner has configs evaluated by."""

    def __init__(self, trail: Trail, names: Sequence[str], budget: Any, failure: Any) -> None:
        self.trail, self.names, self.budget, self.failure = trail, names, budget, failure
        self.known: dict[int, dict[str, Any]] = {}

    def add_strategy_time(self, seconds: float) -> None:
        pass

    def run(self, configs: Sequence[Sequence[Any]], options: Any) -> list[dict[str, Any] | None]:
        return [None if self.budget.is_done() else self._one(config) for config in configs]

    def _one(self, config: Sequence[Any]) -> dict[str, Any]:
        result = dict(zip(self.names, config, strict=True))
        row = self.trail.table.row(result)
        if row not in self.known:
            value = self.trail(row)
            self.budget.add_evaluations(1)
            self.known[row] = {**result, "__error__": self.failure} if value is None else {**result, "time": value}
        return dict(self.known[row])


def _checked(package: str, search: Search) -> Callable[[], Search]:
    def get() -> Search:
        if importlib.util.find_spec(package) is None:
            name = {"kernel_tuner": "kernel-tuner"}.get(package, package)
            raise ImportError(f"{name} is not installed. Remedy: pip install {name}, or pip install 'gradlab[compare]'")
        return search

    return get


ANCHORS: dict[str, Callable[[], Search]] = {
    "kernel-tuner": _checked("kernel_tuner", _kernel_tuner),
    "optuna-tpe": _checked("optuna", _optuna),
}
"""By name, what gives the search. *Raises*: ImportError with the pip command where its package is absent."""


def anchor(name: str) -> Search | None:
    """Return another tool's search by its name, or ``kernel-tuner:pso`` for another strategy of Kernel Tuner's; None
    for a name that there is not. *Raises*: ImportError where its package is absent."""
    tool, _, strategy = name.partition(":")
    if tool not in ANCHORS:
        return None
    search = ANCHORS[tool]()
    if not strategy:
        return search
    known = importlib.import_module("kernel_tuner.interface").strategy_map
    return functools.partial(_kernel_tuner, name=strategy) if tool == "kernel-tuner" and strategy in known else None
