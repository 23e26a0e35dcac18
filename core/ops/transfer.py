"""Between devices: a tensor's values in the memory of another device, on the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backends
from ..backends import cuda
from ..backends.cuda.transfer import pinned_memory, pinned_room
from ..base.device import cpu, kind
from ..base.device import device as Device
from ..dispatch.declare import operation
from ..tensors.tensor import Tensor, wrap


def _copied(xp: Any, x: Any, to: Device, origin: Device, non_blocking: bool) -> Any:
    """Return the array on the device `to`, by that of the two devices which is not the CPU."""
    other = origin if to.type == "cpu" else to
    return backends.device(other.type).copied(x, to, origin, non_blocking)


_move = operation("move", _copied, params={"to": None, "origin": None, "non_blocking": False},
                  vjp=lambda g, origin: move(g, origin),
                  samples=lambda rng: [((rng.uniform(-2, 2, (2, 3)),), {"to": cpu, "origin": cpu})])  # fmt: skip


def pinned(t: Tensor) -> Tensor:
    """Return a copy of `t` in page-locked memory, from which a GPU copies by itself; `t` where it is there already,
    and where no GPU is."""
    if t.device.type != "cpu":
        raise RuntimeError(f"cannot pin 'core.{t.device}' only dense CPU tensors can be pinned\n"
                           "  remedy: pin_memory() before .to('cuda')")  # fmt: skip
    if not cuda.availability()[0] or cuda.array_library() is np or is_pinned(t):
        return t
    out = pinned_room(t._a.shape, t._a.dtype)
    out[...] = t._a
    return wrap(out, t._kind)


def is_pinned(t: Tensor) -> bool:
    """Return whether the memory of `t` is page-locked."""
    return pinned_memory(t._a)


def move(t: Tensor, to: Device, non_blocking: bool = False) -> Tensor:
    """`t` on the device `to` (which is there, see `creation.available`), as a copy; its gradient comes back.

    `non_blocking` does not wait for a copy that the GPU can do by itself: from pinned memory, or into it.
    """
    y: Tensor = _move(t, to=to, origin=t.device, non_blocking=non_blocking)
    y._kind = kind(t.dtype, to)
    if y._node is not None:
        y._node.kind = y._kind  # dispatch gave it the kind of its input
    return y
