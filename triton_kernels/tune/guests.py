"""Our strategies inside other tuners: as a strategy of Kernel Tuner's, and as a sampler of Optuna's.

``kernel_tuner.tune_kernel(..., strategy=tune.kernel_tuner_strategy())``, and ``optuna.create_study(sampler=
tune.optuna_sampler())``. Both packages are optional, and nothing of theirs is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import strategy as strategies
from .space import Space, Tunable
from .table import Table

_FAILED = 1e20  # Kernel Tuner gives what failed the largest float
_LARGEST = 100_000  # configs of a space that Optuna has told of: more are not enumerated


def _package(name: str, pip: str = "") -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = pip or name.partition(".")[0]
        raise ImportError(f"{package} is not installed. Remedy: pip install {package}") from error


def kernel_tuner_strategy(name: str = "portfolio", seed: int = 0) -> Any:
    """Return a strategy of ours for the argument `strategy` of ``kernel_tuner.tune_kernel``.

    name : one of `strategy.names()`. *Raises*: ImportError without Kernel Tuner 1.3 or later; ValueError for a name
    that there is not.
    """
    if name not in strategies.names():
        raise ValueError(f"no strategy is named {name!r}; there are {', '.join(strategies.names())}")
    wrapper = _package("kernel_tuner.strategies.wrapper", "kernel-tuner")

    class Ours(wrapper.OptAlg):  # type: ignore[misc, name-defined]
        """It is given every legal config, so it never proposes another."""

        def __call__(self, func: Any, searchspace: Any) -> tuple[tuple[Any, ...], float]:
            names = tuple(searchspace.param_names)
            table = Table(Space.of([dict(zip(names, config, strict=True)) for config in searchspace.list]))
            chosen = strategies.make(name, table, seed)
            best: tuple[tuple[Any, ...], float] = ((), math.inf)
            while (row := chosen.ask()) is not None:  # Kernel Tuner ends it by an exception when its budget is spent
                config = tuple(table.config(row)[n] for n in names)
                value = float(func(config))
                failed = not value < _FAILED
                chosen.tell(row, None if failed else value)
                if not failed and value < best[1]:
                    best = config, value
            return best

    return wrapper.OptAlgWrapper(Ours())


def optuna_sampler(space: Space | None = None, name: str = "portfolio", seed: int = 0) -> Any:
    """Return a sampler for ``optuna.create_study`` that asks a strategy of ours.

    space : the tunables, under the names that the objective suggests, and the constraints between them, which are never
    violated then. Without it they are those that all trials so far have suggested, each with all of its values; trials
    that suggest others, or floats without a step, are drawn at random. *Raises*: ImportError without Optuna.
    """
    optuna = _package("optuna")
    distributions = optuna.distributions

    class Sampler(optuna.samplers.BaseSampler):  # type: ignore[misc, name-defined]
        """The strategy is made at the first trial whose space is known, and told of all that were before it."""

        def __init__(self) -> None:
            self.table: Table | None = Table(space) if space is not None else None
            self.strategy: strategies.Strategy | None = None
            self.others = optuna.samplers.RandomSampler(seed=seed)
            self.common = optuna.search_space.IntersectionSearchSpace()

        def reseed_rng(self) -> None:
            self.others.reseed_rng()

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            found = {n: d for n, d in self.common.calculate(study).items() if not d.single()}
            if not found:
                return {}
            if self.table is None or set(self.table.space.names) - set(found):
                made = None if space is not None else _space_of(found, distributions)
                if made is not None and (self.table is None or made.names != self.table.space.names):
                    self.table, self.strategy = Table(made), None
            return found if self.table is not None else {}

        def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
            if not search_space or self.table is None:
                return {}
            if self.strategy is None:
                self.strategy = strategies.make(name, self.table, seed)
                for known in study.get_trials(deepcopy=False):
                    self._tell(study, known.params, known.values if known.state.is_finished() else None, known)
            row = self.strategy.ask()
            if row is None:  # every config has been tried
                study.stop()
                return dict(study.best_params)
            return {n: v for n, v in self.table.config(row).items() if n in search_space}

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            if space is not None and param_name in space.default:
                return space.default[param_name]
            return self.others.sample_independent(study, trial, param_name, param_distribution)

        def after_trial(self, study: Any, trial: Any, state: Any, values: Sequence[float] | None) -> None:
            if self.strategy is not None:
                self._tell(study, trial.params, values, trial)

        def _tell(self, study: Any, params: Mapping[str, Any], values: Sequence[float] | None, trial: Any) -> None:
            assert self.table is not None
            assert self.strategy is not None
            config = {n: params[n] for n in self.table.space.names if n in params}
            row = self.table.find(config) if len(config) == len(self.table.space.names) else None
            if row is None or (trial.state == optuna.trial.TrialState.RUNNING and values is None):
                return
            sign = -1.0 if study.direction == optuna.study.StudyDirection.MAXIMIZE else 1.0
            value = None if not values or not math.isfinite(values[0]) else sign * values[0]
            self.strategy.tell(row, value)

    return Sampler()


def _space_of(found: Mapping[str, Any], distributions: Any) -> Space | None:
    """Return the space of Optuna's distributions; None where one is not enumerable, or they are too many together."""
    tunables = []
    for name, d in found.items():
        if isinstance(d, distributions.CategoricalDistribution):
            values = tuple(d.choices)
        elif isinstance(d, distributions.IntDistribution):
            values = tuple(range(d.low, d.high + 1, d.step))
        else:
            return None
        tunables.append(Tunable(name, values, values[0]))
    return Space(tunables) if math.prod(len(t.values) for t in tunables) <= _LARGEST else None
