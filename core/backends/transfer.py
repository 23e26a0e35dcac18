"""Between devices: a tensor's values in the memory of another device, on the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import cpu, kind
from ..device import device as Device
from ..op import operation
from ..tensor import Tensor, wrap


def _copied(xp: Any, x: Any, to: Device, origin: Device) -> Any:
    """The array on the device `to`; under Triton's interpreter all memory is NumPy's, and it is a plain copy."""
    from . import cuda

    library = cuda.array_library()
    if library is np:
        return x.copy()
    if to.type == "cpu":
        return cuda.faults.settled(library.asnumpy(x))
    with library.cuda.Device(to.index):
        return library.array(x)


_move = operation("move", _copied, params={"to": None, "origin": None}, vjp=lambda g, origin: move(g, origin),
                  samples=lambda rng: [((rng.uniform(-2, 2, (2, 3)),), {"to": cpu, "origin": cpu})])  # fmt: skip


def pinned(t: Tensor) -> Tensor:
    """A copy of `t` in page-locked memory, from which a GPU copies by itself; `t` where it is there already, and where
    no GPU is."""
    from . import cuda

    if t.device.type != "cpu":
        raise RuntimeError(f"cannot pin 'core.{t.device}' only dense CPU tensors can be pinned\n"
                           "  remedy: pin_memory() before .to('cuda')")  # fmt: skip
    if not cuda.availability()[0] or cuda.array_library() is np or is_pinned(t):
        return t
    import cupyx

    a = t._a
    room: Any = cupyx.empty_pinned((max(a.nbytes, 1),), np.uint8)[: a.nbytes]
    out = room.view(a.dtype).reshape(a.shape)
    out[...] = a
    return wrap(out, t._kind)


def is_pinned(t: Tensor) -> bool:
    """Whether the memory of `t` is page-locked."""
    a = t._a
    while isinstance(a, np.ndarray):
        a = a.base
    return type(a).__name__ == "PinnedMemoryPointer"  # CuPy's; `core` allocates such memory in no other way


def move(t: Tensor, to: Device) -> Tensor:
    """`t` on the device `to` (which is there, see `creation.available`), as a copy; its gradient comes back."""
    y: Tensor = _move(t, to=to, origin=t.device)
    y._kind = kind(t.dtype, to)
    if y._node is not None:
        y._node.kind = y._kind  # dispatch gave it the kind of its input
    return y
