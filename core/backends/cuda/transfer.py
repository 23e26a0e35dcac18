"""Copies between the memory of the CPU and of GPUs, and between GPUs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.device import device as Device
from .devices import on
from .faults import settled
from .memory import made
from .shared import array_library, retell

_under_way: list[tuple[Any, Any]] = []  # (event, array): memory of the CPU that a GPU still reads or writes


def copied(x: Any, to: Device, origin: Device, non_blocking: bool) -> Any:
    """Return the array on the device `to`; under Triton's interpreter all memory is NumPy's, and it is a plain copy."""
    library = array_library()
    if library is np:
        y = x.copy()
        return y if to.type == "cpu" else made(y)
    try:
        if to.type == "cpu":
            with on(origin):
                return _to_host(library, x) if non_blocking else settled(library.asnumpy(x))
        if origin.type == "cpu":
            with on(to):
                return _to_gpu(library, x, non_blocking)
        with on(origin):
            dense = library.ascontiguousarray(x)
        with on(to):
            return library.array(dense).reshape(x.shape)
    except RuntimeError as error:
        retell(error)


def _to_host(library: Any, x: Any) -> Any:
    """Return a GPU's array in pinned memory of the CPU, there once the stream is through."""
    room = pinned_room(x.shape, x.dtype)
    library.asnumpy(x, out=room, blocking=False)
    _keep(library, room, x)
    return room


def _to_gpu(library: Any, x: Any, non_blocking: bool) -> Any:
    """Return an array of the CPU on the current GPU. From pinned memory the GPU copies by itself, and nobody waits
    for it."""
    stream = library.cuda.get_current_stream()
    if not pinned_memory(x) or not x.flags.c_contiguous or not x.size:
        if stream.is_capturing():
            raise RuntimeError(
                "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
                "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.\n  remedy: copy it before "
                "the capture, and write new values into it with copy_()"
            )
        return library.array(x)
    out = library.empty(x.shape, x.dtype)
    out.data.copy_from_host_async(x.ctypes.data, x.nbytes, stream)
    if not non_blocking and not stream.is_capturing():
        stream.synchronize()
    else:
        _keep(library, x, out)
    return out


def _keep(library: Any, *arrays: Any) -> None:
    """Hold arrays until the work that the current stream has so far is done; let go of those whose time has come."""
    stream = library.cuda.get_current_stream()
    if stream.is_capturing():
        _captured.extend(arrays)  # a replay reads them again
        return
    while _under_way and _under_way[0][0].done:
        _under_way.pop(0)
    _under_way.append((stream.record(), arrays))


def keep_for(stream: Any, array: Any) -> None:
    """Hold an array until the work that a `core.cuda.Stream` has so far is done."""
    if stream._told is not None:
        with on(stream.device):
            _under_way.append((stream._told.record(), (array,)))


_captured: list[Any] = []


def pinned_room(shape: tuple[int, ...], dtype: Any) -> Any:
    import cupyx

    size = math.prod(shape) * dtype.itemsize
    room: Any = cupyx.empty_pinned((max(size, 1),), np.uint8)[:size]
    return room.view(dtype).reshape(shape)


def pinned_memory(a: Any) -> bool:
    """Return whether an array lies in page-locked memory."""
    while isinstance(a, np.ndarray):
        a = a.base
    return type(a).__name__ == "PinnedMemoryPointer"  # CuPy's; `core` allocates such memory in no other way
