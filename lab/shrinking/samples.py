"""The data that variants are measured on: the user's, as batches; nothing of it is changed or used up."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BATCH = 256
"""Items of a batch that is cut out of arrays."""
FORMS = "a DataLoader, a pair (x, y), or x alone; several inputs as ((a, b), y)"


@dataclass
class Samples:
    """Batches of inputs, each with its target or None."""

    batches: list[tuple[tuple[Any, ...], Any]] = field(default_factory=list)
    loaded: bool = False
    """Whether they come from a loader."""
    cut: bool = False
    """Whether there is more data than these."""

    @property
    def labelled(self) -> bool:
        """Whether there are targets."""
        return all(target is not None for _, target in self.batches)

    @property
    def count(self) -> int:
        """How many items."""
        return sum(len(inputs[0]) for inputs, _ in self.batches)

    def rows(self, n: int) -> tuple[Any, ...]:
        """Return `n` items' inputs, the first ones again where there are fewer."""
        inputs = self.batches[0][0]
        have = len(inputs[0])
        return tuple(x[[k % have for k in range(n)]] for x in inputs)


def samples_of(data: Any, library: Any, most: int) -> Samples:
    """Return at most about `most` items of the user's data.

    library : core, or PyTorch: whose tensors they are. *Raises*: TypeError and ValueError for what is no such data.

    >>> import core
    >>> found = samples_of((np.zeros((5, 2), np.float32), [0, 1, 0, 1, 1]), core, 100)
    >>> found.count, found.labelled, [tuple(x.shape) for x in found.rows(7)]
    (5, True, [(7, 2)])
    """
    found = Samples()
    if _is_array(data, library) or isinstance(data, tuple | list):
        inputs, target = _parted(data, library)
        size = len(inputs[0])
        found.cut = size > most
        for k in range(0, min(size, most), BATCH):
            end = min(k + BATCH, most)
            found.batches.append((tuple(x[k:end] for x in inputs), None if target is None else target[k:end]))
    elif hasattr(data, "__next__"):
        raise TypeError(f"shrink: {type(data).__name__} is an iterator, which measuring would use up; needed: {FORMS}. "
                        "Remedy: give the loader itself")  # fmt: skip
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        found.loaded = True
        for batch in data:
            found.batches.append(_parted(batch, library))
            if found.count >= most:
                found.cut = True
                break
    else:
        raise TypeError(f"shrink: the data are {type(data).__name__}; needed: {FORMS}")
    if not found.batches or not found.count:
        raise ValueError("shrink: the data have no item")
    return found


def _is_array(x: Any, library: Any) -> bool:
    return isinstance(x, library.Tensor | np.ndarray)


def _tensor(x: Any, library: Any) -> Any:
    if isinstance(x, library.Tensor):
        return x.detach()
    a = np.asarray(x)
    if a.dtype == object:
        raise TypeError(f"shrink: the data hold {type(x).__name__}, which is no array; needed: {FORMS}")
    return library.as_tensor(a.astype(np.float32) if a.dtype == np.float64 else a)


def _parted(batch: Any, library: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the inputs and the target of a batch: the last of several parts is the target."""
    if _is_array(batch, library):
        return (_tensor(batch, library),), None
    if not isinstance(batch, tuple | list) or not batch:
        raise TypeError(f"shrink: a batch is {type(batch).__name__}; needed: {FORMS}. Remedy: a loader that gives "
                        "pairs, as [(b['x'], b['y']) for b in loader]")  # fmt: skip
    *parts, last = batch if len(batch) > 1 else (*batch, None)
    inputs = list(itertools.chain.from_iterable(p if isinstance(p, tuple | list) and not _numbers(p) else (p,)
                                                for p in parts))  # fmt: skip
    tensors = tuple(_tensor(x, library) for x in inputs)
    target = None if last is None else _tensor(last, library)
    sizes = [len(t) if t.ndim else 0 for t in (*tensors, *(() if target is None else (target,)))]
    if len(set(sizes)) != 1:
        raise ValueError(f"shrink: inputs and targets of {', '.join(map(str, sizes))} items; needed: as many of each")
    return tensors, target


def _numbers(x: Any) -> bool:
    return all(isinstance(v, int | float | list) for v in x)
