"""Which GPUs there are, what they are, and which is the current one."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ..backends import cuda as _rows
from ..backends.cuda import devices as _devices
from ..base.device import device as Device


def library() -> Any:
    """CuPy; None under Triton's interpreter.

    *Raises*: RuntimeError with the reason where there is no device `cuda`.
    """
    _rows.check(Device("cuda"))
    xp = _rows.array_library()
    return None if xp is np else xp


def index_of(device: Any = None, op: str = "device") -> int:
    """Return the index that a device, a string or a number names; the current device for None."""
    if device is None:
        library()
        return _devices.current()
    where = Device(device)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}\n  op: {op}; remedy: 'cuda', 'cuda:0' or a number")
    return _rows.check(where).index or 0


def current_device() -> int:
    """Return the index of the current device, on which new tensors of "cuda" are made.

    >>> import core
    >>> core.cuda.current_device() if core.cuda.is_available() else 0
    0
    """
    return index_of()


def set_device(device: Any) -> None:
    """Make `device` the current one; a negative number changes nothing, as in PyTorch."""
    if isinstance(device, int) and device < 0:
        return
    _devices.make_current(index_of(device, "set_device"))


class device:
    """A block in which `device` is the current one; None or a negative number changes nothing.

    >>> import core
    >>> if core.cuda.is_available():
    ...     with core.cuda.device(0):
    ...         x = core.ones(2, device="cuda")
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        if self.idx >= 0:
            self.prev_idx = _devices.current()
            _devices.make_current(self.idx)
        return self

    def __exit__(self, *error: object) -> None:
        if self.idx >= 0:
            _devices.make_current(self.prev_idx)


class device_of(device):
    """A block in which the device of a tensor is the current one; nothing changes for a tensor of the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class Properties(NamedTuple):
    """What a GPU is, in PyTorch's names."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    L2_cache_size: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int

    def __repr__(self) -> str:
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}, "
                f"L2_cache_size={self.L2_cache_size >> 20}MB)")  # fmt: skip


def get_device_properties(device: Any = None) -> Properties:
    """Return what a GPU is; under Triton's interpreter what there is in its place, with capability 0.0.

    >>> import core
    >>> core.cuda.get_device_properties().warp_size > 0 if core.cuda.is_available() else True
    True
    """
    index, cupy = index_of(device, "get_device_properties"), library()
    if cupy is None:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Properties("Triton's interpreter", 0, 0, total, 1, 1, 0, 1, 0, 0, 0, 0)
    found = cupy.cuda.runtime.getDeviceProperties(index)
    name = found["name"]
    return Properties(
        name.decode() if isinstance(name, bytes) else str(name), int(found["major"]), int(found["minor"]),
        int(found["totalGlobalMem"]), int(found["multiProcessorCount"]), int(found["warpSize"]),
        int(found["l2CacheSize"]), int(found["maxThreadsPerMultiProcessor"]), int(found["regsPerMultiprocessor"]),
        int(found["sharedMemPerBlock"]), int(found["sharedMemPerBlockOptin"]),
        int(found["sharedMemPerMultiprocessor"]),
    )  # fmt: skip


def get_device_name(device: Any = None) -> str:
    """Return the name of a GPU."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the compute capability of a GPU, such as (9, 0); (0, 0) under Triton's interpreter."""
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """Return the architectures that kernels are compiled for: that of each GPU here, for which they are compiled
    when used."""
    if library() is None:
        return []
    return sorted({"sm_{}{}".format(*get_device_capability(i)) for i in range(_devices.count())})


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return whether one GPU can read another's memory."""
    a, b, cupy = index_of(device), index_of(peer_device), library()
    return cupy is not None and a != b and bool(cupy.cuda.runtime.deviceCanAccessPeer(a, b))
