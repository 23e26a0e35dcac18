"""Each layer's gradient norm and the size of its step beside its weights, at some steps of a loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import FrameType
from typing import Any

from widgets.run_curves import LayerCurve

from .user_files import OURS
from .variable_names import Names, spaces

MOST = 32  # layers; of more, those of one block are one
POINTS = 64
ASKED = 16  # parameters outside of modules whose names are looked for


class Layers:
    """Measures of the layers, kept as one table: a row a layer, a column a step."""

    def __init__(self) -> None:
        self.at: list[int] = []
        self.rows: dict[str, tuple[list[float | None], list[float | None]]] = {}
        self._groups: dict[int, tuple[int, list[str]]] = {}  # optimizer -> how many parameters, the layer of each
        self._gap, self._count = 1, 0
        self._squares: list[float | None] = []
        self._names: list[str] = []

    def begin(self, library: Any, optimizer: Any, parameters: Sequence[Any], frame: FrameType) -> list[Any]:
        """Before a step: take the gradients' norms; return the parameters whose steps are to be looked at."""
        known = self._groups.get(id(optimizer))
        if known is None or known[0] != len(parameters):
            known = self._groups[id(optimizer)] = len(parameters), grouped(named(parameters, frame))
        self._squares = library.squares(library.gradients(parameters))
        self._names = known[1]
        return list(parameters)

    def end(self, library: Any, step: int, parameters: Sequence[Any], before: Sequence[Any],
            after: Sequence[Any]) -> None:  # fmt: skip
        """After it: add a column."""
        self._count += 1
        if (self._count - 1) % self._gap:
            return
        moved = library.squares([a - b for a, b in zip(after, before, strict=True)])
        size = library.squares(before)
        sums: dict[str, list[float]] = {}
        for name, g, d, w in zip(self._names, self._squares, moved, size, strict=True):
            row = sums.setdefault(name, [0.0, 0.0, 0.0, 0.0])
            if g is not None:
                row[0] += g
                row[3] = 1.0
            row[1] += d
            row[2] += w
        self.at.append(step)
        for name, (g, d, w, has) in sums.items():
            norms, ratios = self.rows.setdefault(name, ([], []))
            for column in (norms, ratios):
                column.extend([None] * (len(self.at) - 1 - len(column)))
            norms.append(math.sqrt(g) if has and g >= 0 else None if not has else math.nan)
            ratios.append(math.sqrt(d / w) if w > 0 else None)
        if len(self.at) >= POINTS:
            self._gap *= 2
            self.at = self.at[::2]
            for name, (norms, ratios) in list(self.rows.items()):
                self.rows[name] = norms[::2], ratios[::2]

    def plain(self) -> tuple[list[int], list[LayerCurve]]:
        """Return the steps and the rows; another thread may add to them meanwhile."""
        at = list(self.at)
        rows = [LayerCurve(name, list(norms), list(ratios)) for name, (norms, ratios) in list(self.rows.items())]
        for row in rows:
            for column in (row.norms, row.ratios):
                column.extend([None] * (len(at) - len(column)))
                del column[len(at) :]
        return at, rows


def named(parameters: Sequence[Any], frame: FrameType) -> list[str]:
    """Return what the user calls each parameter."""
    names, where = Names(), spaces(frame, OURS)
    for space in where:
        for variable, root in names.roots(space):
            names.note(root, variable)
    found, asked = [], 0
    for p in parameters:
        name = names.known(p)
        if not name and asked < ASKED:
            asked += 1
            name = names.of(p, where)
        found.append(name or f"unnamed {'×'.join(map(str, p.shape))}")
    return found


def grouped(names: Sequence[str]) -> list[str]:
    """Return the layer of each parameter: its path without the last part; of too many layers, without the last two.

    >>> grouped(["net.0.weight", "net.0.bias", "net.2.weight", "scale"])
    ['net.0', 'net.0', 'net.2', 'scale']
    """
    layers = [name.rpartition(".")[0] or name for name in names]
    while len(set(layers)) > MOST and any("." in layer for layer in layers):
        deepest = max(layer.count(".") for layer in layers)
        layers = [layer.rpartition(".")[0] if layer.count(".") == deepest else layer for layer in layers]
    kept = list(dict.fromkeys(layers))[: MOST - 1]
    return [layer if len(set(layers)) <= MOST or layer in kept else "others" for layer in layers]
