"""Memory that was read from a file, on the device where it is wanted, and the tensors that look into it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.device import device as Device
from ..base.device import kind
from ..base.dtypes import all_dtypes, stored_dtypes
from ..base.errors import LoadError, text
from ..base.modes import no_grad
from ..graph.node import Storage
from ..nn.parameter import Parameter
from ..ops.conversion import available
from ..tensors.tensor import Tensor, from_array, wrap
from .source import broken, short

KNOWN = {d.numpy: d for d in (*all_dtypes, *stored_dtypes)}
_CPU = Device("cpu")


class Placed:
    """What a function given as `map_location` gets: memory with its place, which it may send elsewhere.

    >>> lambda storage, location: storage  # stays on the CPU
    <function ...>
    """

    def __init__(self, size_bytes: int, where: Device = _CPU) -> None:
        self.device, self._size = where, size_bytes

    def nbytes(self) -> int:
        """Return how many bytes it has."""
        return self._size

    def cpu(self) -> Placed:
        """On the CPU."""
        return Placed(self._size)

    def cuda(self, device: Any = None) -> Placed:
        """On a GPU."""
        return self.to(device if isinstance(device, str | Device) else Device("cuda", device))

    def to(self, device: Any) -> Placed:
        """On that device."""
        return Placed(self._size, Device(device))


class Places:
    """Where memory goes, by `map_location`: None, a device, a dict of names, or a function."""

    def __init__(self, map_location: Any) -> None:
        self.map = map_location
        if map_location is not None and not callable(map_location) and not isinstance(map_location, dict):
            self.fixed: Device | None = available(Device(map_location))
        else:
            self.fixed = None

    def device(self, location: str, size_bytes: int) -> Device:
        """Return the device of memory that was on `location` when it was saved. *Raises*: LoadError if it is not
        there."""
        if self.fixed is not None:
            return self.fixed
        wanted: Any = location
        try:
            if callable(self.map):
                placed = self.map(Placed(size_bytes), location)
                wanted = location if placed is None else getattr(placed, "device", placed)
            elif isinstance(self.map, dict):
                wanted = self.map.get(location, location)
            return _CPU if wanted == "cpu" else available(Device(wanted))
        except Exception as error:
            why = (str(error) or type(error).__name__).splitlines()[0][:200]
            what = "a CUDA device" if str(wanted).startswith("cuda") else "a device that is not there"
            raise LoadError(
                text(
                    f"Attempting to deserialize object on {what}. If you are running on a CPU-only machine, please use "
                    "core.load with map_location=core.device('cpu') to map your storages to the CPU.",
                    op="load",
                    came=f"memory saved on {location[:40]!r}: {why}",
                    remedy='core.load(f, map_location="cpu")',
                )
            ) from (error if callable(self.map) else None)


class Memory:
    """Bytes of one dtype that tensors share."""

    def __init__(self, root: Any, dtype: np.dtype[Any], where: Device = _CPU) -> None:
        self.dtype, self.where, self.version = dtype, where, Storage()
        self.size = root.nbytes // dtype.itemsize
        self.root = root
        self.base: Tensor | None = None
        self.arranged: Memory | None = None  # the same values, where they had other strides when they were saved
        if where is not _CPU:
            if dtype not in KNOWN:
                raise LoadError(text(f"{dtype} can only be loaded on the CPU", op="load",
                                     remedy='map_location="cpu"'))  # fmt: skip
            flat = from_array(root[: self.size * dtype.itemsize].view(dtype))
            self.base = flat.to(where)  # type: ignore[attr-defined]

    def array(self, shape: Any, stride: Any, offset: Any) -> Any:
        """Return a view with sizes, strides and offset in elements. *Raises*: LoadError where it reaches out of the
        memory."""
        numbers = (*shape, *stride, offset)
        if len(shape) != len(stride) or len(shape) > 64 or not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
            raise broken(f"a tensor of shape {short(shape)}, strides {short(stride)}, offset {short(offset)}")
        count = 1
        for n in shape:
            count *= n
        last = offset + sum((n - 1) * st for n, st in zip(shape, stride, strict=True)) + 1 if count else 0
        if last > self.size or count * self.dtype.itemsize >= 2**62:
            raise broken(f"a tensor of shape {short(shape)} and strides {short(stride)} from {offset:,} needs "
                         f"{last:,} elements, and its memory has {self.size:,}")  # fmt: skip
        if not count:
            offset = 0
        if self.base is not None:
            with no_grad():
                return self.base.as_strided(shape, stride, offset)._a  # type: ignore[attr-defined]
        size = self.dtype.itemsize
        return np.ndarray(shape, self.dtype, self.root, offset * size, tuple(st * size for st in stride))

    def tensor(self, shape: Any, stride: Any, offset: Any, requires_grad: bool = False,
               parameter: bool = False) -> Any:  # fmt: skip
        """Return a tensor over it; a NumPy array where `core` lacks the dtype."""
        a = self.array(shape, stride, offset)
        d = KNOWN.get(self.dtype)
        if d is None:
            return a
        t = wrap(a, kind(d, self.where))
        t._storage = self.version
        if requires_grad and d.category < 2:
            raise broken(f"a tensor of {d.name} is said to require a gradient")
        if parameter:
            return Parameter(t, requires_grad)
        t._requires_grad = requires_grad
        return t


def contiguous(shape: Any) -> tuple[int, ...]:
    """Return the strides of row-major order."""
    step, out = 1, []
    for n in reversed(shape):
        out.append(step)
        step *= max(int(n), 1)
    return tuple(reversed(out))
