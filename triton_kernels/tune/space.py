"""What may be tuned: tunables that know their default, neighbours and encoding, and the constraints between them.

A config is a plain dict, ``{"BLOCK": 1024, "num_warps": 4}``. Spaces of up to 100,000 points are enumerated (see
`table`), so a strategy scores every legal config rather than walking blindly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Config = dict[str, Any]


@dataclass(frozen=True)
class Tunable:
    """A named choice among ordered `values`.

    >>> block = Tunable("BLOCK", (256, 512, 1024), default=512)
    >>> block.neighbours(512), block.encode(1024)
    ((256, 1024), 1.0)
    """

    name: str
    values: tuple[Any, ...]
    default: Any

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise ValueError(f"tunable {self.name}: values must be distinct and at least one, got {self.values}")
        if self.default not in self.values:
            raise ValueError(f"tunable {self.name}: the default {self.default!r} is none of its values {self.values}")

    def neighbours(self, value: Any) -> tuple[Any, ...]:
        """Return the values one step below and above."""
        i = self.values.index(value)
        return tuple(self.values[j] for j in (i - 1, i + 1) if 0 <= j < len(self.values))

    def encode(self, value: Any) -> float:
        """Return where the value stands between the first (0) and the last (1); positive numbers by their logarithm."""
        return float(self._places()[self.values.index(value)])

    def coordinates(self) -> np.ndarray:
        """Return a point for each value, so that values that do alike lie near each other.

        Numbers have their place, logarithms where all are positive; sizes that are not all powers of two also how often
        two divides them, since 96 and 160 are to a GPU's warps and memory what 64 is, and 100 is not. Three or more
        values that are no numbers are all equally far apart.

        >>> Tunable("BLOCK", (32, 48, 64), default=32).coordinates().round(2).tolist()
        [[0.0, 0.5], [0.58, 0.0], [1.0, 1.0]]
        """
        count = len(self.values)
        if count > 2 and not all(_is_number(v) for v in self.values):
            return np.eye(count) * math.sqrt(0.5)
        columns = [self._places()]
        if count > 2 and all(isinstance(v, int) and v > 0 for v in self.values):
            twos = np.array([min((v & -v).bit_length() - 1, 8) for v in self.values], float)
            if any(v & (v - 1) for v in self.values) and np.ptp(twos):
                columns.append((twos - twos.min()) / np.ptp(twos))
        return np.stack(columns, 1)

    def _places(self) -> np.ndarray:
        count = len(self.values)
        if count > 1 and all(_is_number(v) and v > 0 for v in self.values):
            logs = np.log2(np.array(self.values, float))
            if logs[-1] != logs[0]:
                return (logs - logs[0]) / (logs[-1] - logs[0])
        return np.arange(count) / max(count - 1, 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def powers_of_two(name: str, low: int, high: int, default: int) -> Tunable:
    """Return the tunable whose values are the powers of two from `low` to `high`.

    >>> powers_of_two("num_warps", 1, 8, default=4).values
    (1, 2, 4, 8)
    """
    if low < 1 or low & (low - 1) or high < low:
        raise ValueError(f"tunable {name}: needs powers of two with low <= high, got {low} and {high}")
    return Tunable(name, tuple(1 << k for k in range(low.bit_length() - 1, high.bit_length())), default)


@dataclass(frozen=True)
class Constraint:
    """A condition that a config must meet, in words and as a function of the config."""

    text: str
    holds: Callable[[Mapping[str, Any]], bool]


class Space:
    """The configs of a kernel: the product of its tunables, less what its constraints rule out.

    >>> space = Space([powers_of_two("BLOCK", 256, 1024, default=512), powers_of_two("num_warps", 4, 8, default=4)],
    ...               [Constraint("at least 64 elements a warp", lambda c: c["BLOCK"] >= 64 * c["num_warps"])])
    >>> len(list(space.configs())), space.default
    (5, {'BLOCK': 512, 'num_warps': 4})
    >>> space.rejected({"BLOCK": 256, "num_warps": 8})
    'at least 64 elements a warp'
    """

    def __init__(
        self,
        tunables: Sequence[Tunable],
        constraints: Sequence[Constraint] = (),
        *,
        only: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.tunables = tuple(tunables)
        self.constraints = tuple(constraints)
        self.names = tuple(t.name for t in self.tunables)
        self.only = None if only is None else [dict(c) for c in only]
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"a space names each tunable once, got {', '.join(self.names)}")
        if broken := self.rejected(self.default):
            raise ValueError(f"the default {self.default} breaks a constraint: {broken}")

    @classmethod
    def of(cls, configs: Sequence[Any], constraints: Sequence[Constraint] = ()) -> Space:
        """Return the space that holds exactly these configs: dicts, or `triton.Config` objects. The first is the
        default.

        Of a `triton.Config`, ``num_ctas`` and ``maxnreg`` are tunables too where one of the configs sets them.
        """
        if not configs:
            raise ValueError("a space needs at least one config")
        plain = [as_config(c) for c in configs]
        for name, unset in _RARE.items():
            if any(c.get(name, unset) != unset for c in plain):
                plain = [{**c, name: c.get(name, unset)} for c in plain]
            elif not all(isinstance(c, Mapping) for c in configs):
                plain = [{k: v for k, v in c.items() if k != name} for c in plain]
        if any(c.keys() != plain[0].keys() for c in plain):
            raise ValueError("the configs of a space must name the same tunables: " + "; ".join(map(str, plain)))
        tunables = []
        for name in plain[0]:
            values = {c[name]: None for c in plain}
            ordered = sorted(values) if all(isinstance(v, int | float) for v in values) else list(values)
            tunables.append(Tunable(name, tuple(ordered), plain[0][name]))
        return cls(tunables, constraints, only=plain)

    @property
    def default(self) -> Config:
        return {t.name: t.default for t in self.tunables}

    def with_default(self, config: Mapping[str, Any]) -> Space:
        """Return the same space with this config as its default: what is right for one shape need not be for
        another."""
        tunables = [Tunable(t.name, t.values, config[t.name]) for t in self.tunables]
        return Space(tunables, self.constraints, only=self.only)

    def product(self) -> Iterator[Config]:
        """Every config, legal or not."""
        if self.only is not None:
            yield from (dict(c) for c in self.only)
            return
        for values in itertools.product(*(t.values for t in self.tunables)):
            yield dict(zip(self.names, values, strict=True))

    def rejected(self, config: Mapping[str, Any]) -> str | None:
        """Return the words of the first constraint that the config breaks, or None."""
        return next((c.text for c in self.constraints if not c.holds(config)), None)

    def configs(self) -> Iterator[Config]:
        """Every config that meets the constraints."""
        return (c for c in self.product() if self.rejected(c) is None)

    def neighbours(self, config: Mapping[str, Any]) -> list[Config]:
        """Return the legal configs that differ from `config` in one tunable, by one step."""
        near = [
            {**config, t.name: value} for t in self.tunables for value in t.neighbours(config[t.name])
        ]  # fmt: skip
        return [c for c in near if self.rejected(c) is None and (self.only is None or c in self.only)]

    def around(self, config: Mapping[str, Any]) -> list[Config]:
        """Return the legal configs that differ from `config` in one tunable, by however much."""
        near = [{**config, t.name: v} for t in self.tunables for v in t.values if v != config[t.name]]
        return [c for c in near if self.rejected(c) is None and (self.only is None or c in self.only)]

    def beyond(self, config: Mapping[str, Any], rng: np.random.Generator, count: int) -> list[Config]:
        """Of `count` configs at random that differ from `config` in two or three tunables, the legal ones."""
        found = []
        for _ in range(count):
            some = rng.permutation(len(self.tunables))[: rng.integers(2, 4)]
            changed = {self.names[k]: self.tunables[k].values[rng.integers(len(self.tunables[k].values))] for k in some}
            found.append({**config, **changed})
        return [c for c in found if self.rejected(c) is None and (self.only is None or c in self.only)]

    def encode(self, config: Mapping[str, Any]) -> tuple[float, ...]:
        """Return the config as a point of the unit cube, one coordinate a tunable."""
        return tuple(t.encode(config[t.name]) for t in self.tunables)

    def complete(self, config: Mapping[str, Any] | None) -> Config:
        """`config` with the default in place of what it leaves out; ValueError for what the space does not know."""
        if config is None:
            return self.default
        if unknown := [name for name in config if name not in self.names]:
            raise ValueError(f"no tunable named {', '.join(unknown)}; the tunables are {', '.join(self.names)}")
        full = {**self.default, **config}
        if broken := self.rejected(full):
            raise ValueError(f"the config {full} breaks a constraint: {broken}")
        return full


def as_config(config: Any) -> Config:
    """Return a plain dict from a dict, or from an object like `triton.Config` with `kwargs`, `num_warps` and
    `num_stages`."""
    if isinstance(config, Mapping):
        return dict(config)
    if getattr(config, "pre_hook", None) is not None:
        raise ValueError(
            f"the config {config} has a pre_hook, which a tuner cannot store. Remedy: a config without one"
        )
    rare = {name: getattr(config, name, unset) for name, unset in _RARE.items()}
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages, **rare}


def without_hooks(configs: Sequence[Any]) -> list[Config]:
    """Return configs as dicts, their hooks left to who launches; options that none of them sets are left out."""
    found = []
    for each in configs:
        plain = dict(each) if isinstance(each, Mapping) else None
        if plain is None:
            rare = {name: getattr(each, name, unset) for name, unset in _RARE.items()}
            plain = {**each.kwargs, "num_warps": each.num_warps, "num_stages": each.num_stages, **rare}
        found.append(plain)
    unused = [n for n, unset in _RARE.items() if all(c.get(n, unset) == unset for c in found)]
    return [{n: v for n, v in c.items() if n not in unused} for c in found]


_RARE = {"num_ctas": 1, "maxnreg": None}  # what a `triton.Config` may set besides, and what stands there if it does not
