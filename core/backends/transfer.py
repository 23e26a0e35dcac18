"""Between devices: a tensor's values in the memory of another device, on the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import cpu, kind
from ..device import device as Device
from ..op import operation
from ..tensor import Tensor


def _copied(xp: Any, x: Any, to: Device, origin: Device) -> Any:
    """The array on the device `to`; under Triton's interpreter all memory is NumPy's, and it is a plain copy."""
    from . import cuda

    library = cuda.array_library()
    if library is np:
        return x.copy()
    if to.type == "cpu":
        return library.asnumpy(x)
    with library.cuda.Device(to.index):
        return library.array(x)


_move = operation("move", _copied, params={"to": None, "origin": None}, vjp=lambda g, origin: move(g, origin),
                  samples=lambda rng: [((rng.uniform(-2, 2, (2, 3)),), {"to": cpu, "origin": cpu})])  # fmt: skip


def move(t: Tensor, to: Device) -> Tensor:
    """`t` on the device `to` (which is there, see `creation.available`), as a copy; its gradient comes back."""
    y: Tensor = _move(t, to=to, origin=t.device)
    y._kind = kind(t.dtype, to)
    if y._node is not None:
        y._node.kind = y._kind  # dispatch gave it the kind of its input
    return y
