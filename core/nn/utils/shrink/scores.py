"""How much what could be removed matters: magnitude, first-order Taylor, movement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....base.errors import text
from ....random import rand_like
from ....tensors.tensor import Tensor
from ...modules.module import Module

Score = Callable[[str, Tensor], Any]


class Movement:
    """Gathers over training how far each weight moves away from zero: the sum of ``-gradient * weight``.

    `update` is called after each ``backward()``. `scores` are the sums by the names of the parameters; `shrink` takes
    the whole as ``by=``. Source: arXiv 2005.07683.

    >>> import core
    >>> layer = core.nn.Linear(2, 1, bias=False)
    >>> layer.weight.data = core.tensor([[1.0, -1.0]])
    >>> movement = core.nn.utils.shrink.Movement(layer)
    >>> layer(core.ones(1, 2)).sum().backward()
    >>> movement.update()
    >>> movement.scores["weight"]
    tensor([[-1.,  1.]])
    """

    def __init__(self, model: Module) -> None:
        self.model = model
        self.scores: dict[str, Tensor] = {}

    def update(self) -> None:
        """Add what the gradients that are there now say."""
        for name, p in self.model.named_parameters():
            if p.grad is None:
                continue
            now = -(p.grad.detach() * p.detach())
            before = self.scores.get(name)
            self.scores[name] = now if before is None or before.shape != now.shape else before + now


class Way:
    """A way to score: `of` gives a number for each element of a parameter, None where it says nothing of it.

    `relative` tells whether numbers of different layers cannot be compared and are set against their layer's mean;
    `net` whether the elements of a slice may cancel each other.
    """

    def __init__(self, of: Score, relative: bool, net: bool = False, root: bool = False) -> None:
        self.of, self.relative, self.net, self.root = of, relative, net, root

    def along(self, name: str, p: Tensor, axis: int, index: Any) -> Any:
        """Return a number for each atom of a parameter's axis: `index` are the atoms' numbers, one an index."""
        elements = self.of(name, p)
        if elements is None:
            return None
        others = tuple(d for d in range(p.ndim) if d != axis)
        sums = np.asarray((elements.sum(others) if others else elements).detach().cpu().double()._a)
        found = np.bincount(index[index >= 0], sums[index >= 0])
        return np.abs(found) if self.net else np.sqrt(found) if self.root else found


def _gradient(name: str, p: Tensor) -> Any:
    if not p.requires_grad:
        return None
    if p.grad is None:
        raise RuntimeError(text(f'by="taylor" needs a gradient of every parameter; {name} has none', op="shrink",
                                remedy="loss.backward() on a few batches, without optimizer.zero_grad(), "
                                "before shrink"))  # fmt: skip
    return p.grad.detach() * p.detach()


_WAYS: dict[str, Callable[[], Way]] = {
    "magnitude": lambda: Way(lambda name, p: p.detach().float() ** 2, True, root=True),
    "l1": lambda: Way(lambda name, p: p.detach().float().abs(), True),
    "l2": lambda: Way(lambda name, p: p.detach().float() ** 2, True, root=True),
    "taylor": lambda: Way(_gradient, False, net=True),
    "random": lambda: Way(lambda name, p: rand_like(p.detach().float()), True),
}


def way_of(by: Any) -> Way:
    """Return a way to score by its name; of a `Movement`, scores by name, or a function of (name, parameter)."""
    if isinstance(by, str):
        if by not in _WAYS:
            raise ValueError(text(f"no way to score is called {by!r}", op="shrink", came=f"by={by!r}",
                                  needed=", ".join(map(repr, _WAYS))))  # fmt: skip
        return _WAYS[by]()
    if isinstance(by, Movement):
        by = by.scores
    if isinstance(by, Mapping):
        given = by
        return Way(lambda name, p: given.get(name), False)
    if callable(by):
        return Way(by, False)
    raise TypeError(text("by is no way to score", op="shrink", came=type(by).__name__,
                         needed=f"one of {', '.join(_WAYS)}, a Movement, scores by name, or a function"))  # fmt: skip
