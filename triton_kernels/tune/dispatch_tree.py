"""A small decision tree over shapes: which config a call takes, in a form that a person can read.

A tree is grown from a table of times, shapes by configs. Each step takes the split that lowers the regret most: the
time beyond that of each shape's own best config, as the mean of the logarithms of the ratios, so that every shape
counts alike. A leaf takes the config that is best for its shapes together; one that fails at a shape cannot be taken
there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from .space import Config

Shape: TypeAlias = tuple[Any, ...]
LEAST_GAIN = 0.002  # of the mean regret, for which a tree grows by a leaf
_INDENT = "    "


@dataclass(frozen=True)
class Leaf:
    """A config, and the shapes that it was measured at."""

    config: Config
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Split:
    """Where ``shape[axis] <= at``, or ``== at`` for a text such as a device's name: `then`, otherwise `other`."""

    axis: int
    at: Any
    then: Tree
    other: Tree

    def holds(self, shape: Shape) -> bool:
        """Whether a shape goes to `then`."""
        value = shape[self.axis]
        return bool(value == self.at if isinstance(self.at, str) else value <= self.at)


Tree: TypeAlias = Leaf | Split


def leaf_of(tree: Tree, shape: Shape) -> Leaf:
    """Return the leaf that a shape belongs to.

    >>> small, large = Leaf({"BLOCK": 1}, ((8,),)), Leaf({"BLOCK": 2}, ((64,),))
    >>> leaf_of(Split(0, 22, small, large), (23,)).config
    {'BLOCK': 2}
    """
    while isinstance(tree, Split):
        tree = tree.then if tree.holds(shape) else tree.other
    return tree


def leaves(tree: Tree) -> Iterator[Leaf]:
    """Yield the leaves from left to right."""
    if isinstance(tree, Leaf):
        yield tree
    else:
        yield from leaves(tree.then)
        yield from leaves(tree.other)


def splits(tree: Tree) -> Iterator[Split]:
    """Yield the splits, each before those below it."""
    if isinstance(tree, Split):
        yield tree
        yield from splits(tree.then)
        yield from splits(tree.other)


def changed(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with each part replaced by what `change` makes of it, from the leaves up."""
    if isinstance(tree, Split):
        tree = replace(tree, then=changed(tree.then, change), other=changed(tree.other, change))
    return change(tree)


# -- growing -----------------------------------------------------------------------------------------------------------


class _Table:
    """Logarithms of the ratios to each shape's own best, shapes by configs; infinite where a config failed."""

    def __init__(self, shapes: Sequence[Shape], configs: Sequence[Config], times: np.ndarray) -> None:
        best = np.min(times, axis=1, keepdims=True)
        if not np.isfinite(best).all():
            k = int(np.argmin(np.isfinite(best[:, 0])))
            raise ValueError(f"no config runs at {shapes[k]}. Remedy: leave this shape out, or give more configs")
        with np.errstate(divide="ignore"):
            self.loss = np.log(times / best)
        self.shapes, self.configs = shapes, configs

    def best(self, rows: np.ndarray) -> tuple[float, int]:
        """Return the sum of losses of the config that is best for these shapes, and its column."""
        sums = self.loss[rows].sum(axis=0)
        column = int(np.argmin(sums))
        return float(sums[column]), column

    def leaf(self, rows: np.ndarray) -> Leaf:
        return Leaf(self.configs[self.best(rows)[1]], tuple(self.shapes[r] for r in rows))

    def ways(self, rows: np.ndarray) -> Iterator[tuple[int, Any, np.ndarray]]:
        """Yield every split of some shapes: the axis, the value, and which of them it holds for."""
        for axis in range(len(self.shapes[0])):
            values = [self.shapes[r][axis] for r in rows]
            known = sorted(set(values), key=str if isinstance(values[0], str) else None)
            if isinstance(values[0], str):
                for at in known if len(known) > 2 else known[:1]:
                    yield axis, at, np.array([v == at for v in values])
            else:
                for low, high in itertools.pairwise(known):
                    at = between(low, high)
                    yield axis, at, np.array([v <= at for v in values])

    def split(self, rows: np.ndarray) -> tuple[float, int, Any, np.ndarray] | None:
        """Return the split that gains most, with its gain; None where nothing is gained."""
        whole, _ = self.best(rows)
        found: tuple[float, int, Any, np.ndarray] | None = None
        for axis, at, held in self.ways(rows):
            parts = self.best(rows[held])[0] + self.best(rows[~held])[0]
            gain = math.inf if math.isinf(whole) and math.isfinite(parts) else whole - parts
            if gain > (found[0] if found else 0.0):
                found = gain, axis, at, held
        return found


def between(low: Any, high: Any) -> Any:
    """Return a value that parts two sizes: their geometric mean, as a size that is no greater.

    >>> between(64, 256), between(3, 4), between(0, 8)
    (128, 3, 4)
    """
    middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
    return max(int(middle), low) if isinstance(low, int) and isinstance(high, int) else middle


def grow(
    shapes: Sequence[Shape], configs: Sequence[Config], times: np.ndarray, most: int = 6, least: float = LEAST_GAIN
) -> Tree:
    """Return a tree of at most so many leaves for a table of times, shapes by configs; infinite where one failed.

    least : the mean regret that a further leaf has to save. *Raises*: ValueError for a shape at which none runs.

    >>> tree = grow([(8,), (64,), (512,)], [{"B": 1}, {"B": 2}], np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 1.0]]))
    >>> tree.at, tree.then.config, tree.other.shapes
    (22, {'B': 1}, ((64,), (512,)))
    """
    table = _Table(shapes, configs, times)
    parts: list[np.ndarray] = [np.arange(len(shapes))]
    made: dict[int, tuple[int, Any, int, int]] = {}  # part -> axis, value, and the two parts that it became
    while len(parts) - len(made) < most:
        open_parts = [k for k in range(len(parts)) if k not in made]
        offers = [(offer, k) for k in open_parts if (offer := table.split(parts[k])) is not None]
        if not offers:
            break
        (gain, axis, at, held), k = max(offers, key=lambda offer: offer[0][0])
        if gain < least * len(shapes):
            break
        made[k] = axis, at, len(parts), len(parts) + 1
        parts += [parts[k][held], parts[k][~held]]

    def tree_of(k: int) -> Tree:
        if k not in made:
            return table.leaf(parts[k])
        axis, at, then, other = made[k]
        return Split(axis, at, tree_of(then), tree_of(other))

    return changed(tree_of(0), _joined)


def _joined(tree: Tree) -> Tree:
    """A split between two leaves of one config is none."""
    if isinstance(tree, Split) and isinstance(tree.then, Leaf) and isinstance(tree.other, Leaf) \
            and tree.then.config == tree.other.config:  # fmt: skip
        return Leaf(tree.then.config, tree.then.shapes + tree.other.shapes)
    return tree


# -- as text -----------------------------------------------------------------------------------------------------------


def as_lines(tree: Tree, axes: Sequence[str], leaf: Callable[[Config], str], depth: int = 1) -> list[str]:
    """Return the tree as the statements of a Python function of its axes."""
    pad = _INDENT * depth
    if isinstance(tree, Leaf):
        return [pad + leaf(tree.config)]
    sign = "==" if isinstance(tree.at, str) else "<="
    return [f"{pad}if {axes[tree.axis]} {sign} {tree.at!r}:", *as_lines(tree.then, axes, leaf, depth + 1),
            *as_lines(tree.other, axes, leaf, depth)]  # fmt: skip


def to_json(tree: Tree) -> Any:
    """Return what JSON can hold of a tree."""
    if isinstance(tree, Leaf):
        return {"config": tree.config, "shapes": [list(s) for s in tree.shapes]}
    return {"axis": tree.axis, "at": tree.at, "then": to_json(tree.then), "other": to_json(tree.other)}


def from_json(found: Any) -> Tree:
    """Return the tree of what `to_json` made. *Raises*: ValueError.

    >>> tree = Split(0, 22, Leaf({"B": 1}, ((8,),)), Leaf({"B": 2}, ((64,),)))
    >>> from_json(to_json(tree)) == tree
    True
    """
    try:
        if "config" in found:
            return Leaf(dict(found["config"]), tuple(tuple(s) for s in found["shapes"]))
        return Split(int(found["axis"]), found["at"], from_json(found["then"]), from_json(found["other"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no tree of configs: {type(error).__name__}: {error}") from None
