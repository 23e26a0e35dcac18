"""The legal configs of a space as rows of numbers, so that a strategy scores all of them at once.

Up to 100,000 configs are enumerated. Of a larger space as many are drawn by chance, the default among them: a strategy
then knows only these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .space import Config, Space

LIMIT = 100_000
_WALK = 20 * LIMIT  # products beyond this are not walked to the end in search of the legal


class Table:
    """Rows of configs: `points` in the unit cube, `codes` as places among each tunable's values.

    >>> from triton_kernels.tune.space import Space, powers_of_two
    >>> table = Table(Space([powers_of_two("BLOCK", 64, 256, default=128), powers_of_two("warps", 1, 2, default=1)]))
    >>> len(table), table.config(table.default), table.points[-1].tolist()
    (6, {'BLOCK': 128, 'warps': 1}, [1.0, 1.0])
    """

    def __init__(self, space: Space, limit: int = LIMIT, seed: int = 0) -> None:
        self.space = space
        self._value_codes = [{value: k for k, value in enumerate(t.values)} for t in space.tunables]
        size = math.prod(len(t.values) for t in space.tunables)
        self.complete = True
        if space.only is not None or size <= _WALK:
            found = list(itertools.islice(space.configs(), limit + 1))
            self.complete = len(found) <= limit
        else:
            found, self.complete = [], False
        if not self.complete:
            found = self._drawn(limit, seed)
        codes = [self.code(c) for c in found]
        self.codes = np.array(codes, np.int16).reshape(len(found), len(space.names))
        scales = [np.array([t.encode(v) for v in t.values]) for t in space.tunables]
        self.points = np.stack([scale[self.codes[:, k]] for k, scale in enumerate(scales)], 1)
        self._rows = {code: row for row, code in enumerate(codes)}
        self.default = self.row(space.default)

    def __len__(self) -> int:
        return len(self.codes)

    def code(self, config: Mapping[str, Any]) -> tuple[int, ...]:
        """A config's places among the values of its tunables; KeyError for a value that the space does not have."""
        return tuple(
            [codes[config[name]] for name, codes in zip(self.space.names, self._value_codes, strict=True)]
        )  # fmt: skip

    def row(self, config: Mapping[str, Any]) -> int:
        """Where a config stands; KeyError for one that is not here."""
        return self._rows[self.code(config)]

    def find(self, config: Mapping[str, Any]) -> int | None:
        """`row`, or None for a config that is not here: an older result may name values that are gone."""
        try:
            return self.row(config)
        except KeyError:
            return None

    def config(self, row: int) -> Config:
        """The config of a row."""
        return {t.name: t.values[k] for t, k in zip(self.space.tunables, self.codes[row].tolist(), strict=True)}

    def differences(self, row: int) -> np.ndarray:
        """In how many tunables each config differs from that of `row`."""
        return (self.codes != self.codes[row]).sum(1)

    def _drawn(self, limit: int, seed: int) -> list[Config]:
        rng = np.random.default_rng(seed)
        found = {self.code(self.space.default): self.space.default}
        sizes = np.array([len(t.values) for t in self.space.tunables])
        for _ in range(20):  # where nearly nothing is legal, fewer configs than the limit are found
            for draw in (rng.random((limit, len(sizes))) * sizes).astype(int).tolist():
                config = {t.name: t.values[k] for t, k in zip(self.space.tunables, draw, strict=True)}
                if tuple(draw) not in found and self.space.rejected(config) is None:
                    found[tuple(draw)] = config
                    if len(found) == limit:
                        return list(found.values())
        return list(found.values())
