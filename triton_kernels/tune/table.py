"""The legal configs of a space as rows of numbers, so that a strategy scores all of them at once.

Up to 100,000 configs are enumerated. Of a larger space 20,000 are drawn at random, the default among them; others join
as the search comes near them (`add`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .space import Config, Space

LIMIT = 100_000
DRAWN = 20_000
_WALK = 5 * LIMIT  # products beyond this are not walked to the end in search of the legal
_ROUNDS = 30  # of as many draws as configs are wanted; where few are legal, fewer are found


class Table:
    """Rows of configs: `codes` as places among each tunable's values, `points` as coordinates in the unit cube.

    varied : the tunables, by their places, that have more than one value. coordinates : the points of these ones'
    values. complete : whether these are all legal configs of the space.

    >>> from triton_kernels.tune.space import Space, powers_of_two
    >>> table = Table(Space([powers_of_two("BLOCK", 64, 256, default=128), powers_of_two("warps", 1, 2, default=1)]))
    >>> len(table), table.config(table.default), table.points[-1].tolist()
    (6, {'BLOCK': 128, 'warps': 1}, [1.0, 1.0])
    """

    def __init__(self, space: Space, limit: int = LIMIT, seed: int = 0) -> None:
        self.space = space
        self._value_codes = [{value: k for k, value in enumerate(t.values)} for t in space.tunables]
        codes = self._listed(limit)
        self.complete = codes is not None
        if codes is None:
            codes = self._drawn(min(limit, DRAWN), seed)
        self.codes = np.array(codes, np.int16).reshape(len(codes), len(space.names))
        self._rows = {code: row for row, code in enumerate(codes)}
        self.varied = [k for k, t in enumerate(space.tunables) if len(t.values) > 1] or [0]
        self.coordinates = [space.tunables[k].coordinates() for k in self.varied]
        self.points = self._points(self.codes)
        self.default = self.row(space.default)

    def __len__(self) -> int:
        return len(self.codes)

    def code(self, config: Mapping[str, Any]) -> tuple[int, ...]:
        """Return a config's places among the values of its tunables; KeyError for a value that the space does not
        have."""
        return tuple(
            [codes[config[name]] for name, codes in zip(self.space.names, self._value_codes, strict=True)]
        )  # fmt: skip

    def row(self, config: Mapping[str, Any]) -> int:
        """Return where a config stands; KeyError for one that is not here."""
        return self._rows[self.code(config)]

    def find(self, config: Mapping[str, Any]) -> int | None:
        """`row`, or None for a config that is not here: an older result may name values that are gone."""
        try:
            return self.row(config)
        except (KeyError, TypeError):  # TypeError: a value from elsewhere that is not hashable
            return None

    def add(self, configs: Iterable[Mapping[str, Any]]) -> np.ndarray:
        """Let legal configs of the space join, unless they are here; the new rows."""
        codes = [code for code in dict.fromkeys(self.code(c) for c in configs) if code not in self._rows]
        began = len(self.codes)
        if codes:
            self._rows.update({code: began + k for k, code in enumerate(codes)})
            new = np.array(codes, np.int16).reshape(len(codes), len(self.space.names))
            self.codes = np.concatenate([self.codes, new])
            self.points = np.concatenate([self.points, self._points(new)])
        return np.arange(began, len(self.codes))

    def config(self, row: int) -> Config:
        """Return the config of a row."""
        return {t.name: t.values[k] for t, k in zip(self.space.tunables, self.codes[row].tolist(), strict=True)}

    def differences(self, row: int) -> np.ndarray:
        """In how many tunables each config differs from that of `row`."""
        return (self.codes != self.codes[row]).sum(1)

    def _points(self, codes: np.ndarray) -> np.ndarray:
        return np.concatenate([c[codes[:, k]] for k, c in zip(self.varied, self.coordinates, strict=True)], 1)

    def _listed(self, limit: int) -> list[tuple[int, ...]] | None:
        """All legal configs, or None where they are more than the limit or too many to look for."""
        space = self.space
        if space.only is not None:
            return [self.code(c) for c in space.configs()] if len(space.only) <= limit else None
        sizes = [range(len(t.values)) for t in space.tunables]
        size = math.prod(map(len, sizes))
        if size > (_WALK if space.constraints else limit):
            return None
        codes = itertools.product(*sizes)
        if not space.constraints:
            return list(codes)
        legal = (space.rejected(config) is None for config in space.product())
        found = list(itertools.islice(itertools.compress(codes, legal), limit + 1))
        return found if len(found) <= limit else None

    def _drawn(self, limit: int, seed: int) -> list[tuple[int, ...]]:
        rng, space = np.random.default_rng(seed), self.space
        found = dict.fromkeys([self.code(space.default)])
        if space.only is not None:
            legal = [c for c in space.only if space.rejected(c) is None]
            order = rng.permutation(len(legal))[:limit]
            return list(found | dict.fromkeys(self.code(legal[k]) for k in order))[:limit]
        sizes = np.array([len(t.values) for t in space.tunables])
        for _ in range(_ROUNDS):
            draws = (rng.random((limit, len(sizes))) * sizes).astype(int)
            for code, config in zip(map(tuple, draws.tolist()), self._configs(draws), strict=True):
                if code not in found and space.rejected(config) is None:
                    found[code] = None
                    if len(found) == limit:
                        return list(found)
        return list(found)

    def _configs(self, codes: np.ndarray) -> Iterable[Config]:
        names = self.space.names
        columns = [[t.values[k] for k in codes[:, j].tolist()] for j, t in enumerate(self.space.tunables)]
        return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
