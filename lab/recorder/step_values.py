"""How the numbers, norms and steps of a loop are read from tensors, by library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.backends.sparse_array import values_of
from core.base import modes

from . import tensor_stats


class Library:
    """How numbers, norms and steps are read from core's tensors; a subclass does it for another library's."""

    def number(self, t: Any) -> float | None:
        """Return the one element of a tensor; None where asking would wait for a GPU."""
        if t._a.size != 1 or t._kind.dtype.category > 2:
            return float("nan") if t._a.size == 1 else None
        return float(t._a.reshape(())) if t._kind.device.type == "cpu" else None

    def held(self, t: Any) -> Any:
        """Return what is kept of a tensor on a GPU until its number is read; None of one with several elements."""
        return t._a if t._a.size == 1 and t._kind.device.type != "meta" else None

    def numbers(self, held: Sequence[Any]) -> list[float]:
        """Read what was kept."""
        return [float(tensor_stats.on_host(a).reshape(())) for a in held]

    def quiet(self) -> bool:
        """Return whether no history is recorded now."""
        return not modes.state.enabled

    def weights(self, optimizer: Any) -> list[Any]:
        """Return what an optimizer changes, where its values can be read."""
        weights = [p for group in optimizer.param_groups for p in group["params"]]
        return [p for p in weights if not p.is_meta]

    def gradients(self, parameters: Sequence[Any]) -> list[Any]:
        """Return the gradient of each parameter, or None."""
        return [None if p._grad is None else values_of(p._grad._a) for p in parameters]

    def squares(self, arrays: Sequence[Any]) -> list[float | None]:
        """Return the sum of squares of each array."""
        return [None if a is None else float((a.astype(np.float32, copy=False) ** 2).sum()) for a in arrays]

    def samples(self, parameters: Sequence[Any]) -> list[Any]:
        """Return copies of some values of each parameter, the same ones each time."""
        return [tensor_stats.spread(p._a).copy() for p in parameters]

    def memory(self) -> int:
        """Return the bytes that the library holds on GPUs."""
        return 0


CORE = Library()


def resident() -> int:
    """Return the bytes of memory that this process holds; 0 where nobody tells."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError, ValueError):
        return 0
