"""Triton drivers that need no PyTorch: one that compiles without a GPU, one that launches on the host's stream.

A *host* owns device memory: it knows the current device and stream and the address of an array. `CupyHost` is made
from the cupy module that the caller imported, so nothing here imports CuPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from . import faults


class Host(Protocol):
    """What a launch asks of whoever owns the device's memory."""

    def current_device(self) -> int: ...
    def set_device(self, device: int) -> None: ...
    def current_stream(self, device: int) -> int: ...
    def capability(self, device: int) -> tuple[int, int]: ...
    def name(self, device: int) -> str: ...
    def pointer(self, array: Any) -> int: ...
    def device_of(self, array: Any) -> int: ...
    def synchronize(self, device: int) -> None: ...
    def empty(self, shape: Sequence[int], dtype: Any) -> Any: ...
    def upload(self, array: np.ndarray) -> Any: ...
    def shared(self, n: int, dtype: np.dtype) -> tuple[np.ndarray, Any]: ...


class CupyHost:
    """A host whose arrays are CuPy's and whose stream is CuPy's current one."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.array_type = cupy.ndarray
        self.stream_object = cupy.cuda.get_current_stream  # has its handle in `ptr`
        self.current_device = cupy.cuda.runtime.getDevice
        self.count = int(cupy.cuda.runtime.getDeviceCount())

    def set_device(self, device: int) -> None:
        self._cupy.cuda.runtime.setDevice(device)

    def current_stream(self, device: int) -> int:
        return self.stream_object(device).ptr

    def capability(self, device: int) -> tuple[int, int]:
        text = self._cupy.cuda.Device(device).compute_capability
        return int(text[:-1]), int(text[-1])

    def name(self, device: int) -> str:
        found = self._cupy.cuda.runtime.getDeviceProperties(device)["name"]
        return found.decode() if isinstance(found, bytes) else str(found)

    def pointer(self, array: Any) -> int:
        if not isinstance(array, self.array_type):
            # The launcher does not check integer pointers: a host address would be a fault on the device.
            raise TypeError(
                f"a CUDA launch needs cupy arrays, got {type(array).__name__}. "
                "Remedy: move it to the device (cupy.asarray)."
            )
        return array.data.ptr

    def device_of(self, array: Any) -> int:
        return array.data.device_id

    def synchronize(self, device: int) -> None:
        self._cupy.cuda.runtime.streamSynchronize(self.current_stream(device))

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        return self._cupy.empty(tuple(shape), dtype)

    def upload(self, array: np.ndarray) -> Any:
        if self.stream_object().is_capturing():
            raise RuntimeError(
                "a table for a kernel would be copied to the GPU while a CUDA graph is captured, and replays would "
                "read memory that is gone. Remedy: run the same step once before the capture (PyTorch's warm-up)"
            )
        return self._cupy.asarray(array)

    def shared(self, n: int, dtype: np.dtype) -> tuple[np.ndarray, Any]:
        """Zeros in page-locked host memory, which the device reaches by the same address: NumPy's array, CuPy's."""
        cuda = self._cupy.cuda
        pinned = cuda.alloc_pinned_memory(n * dtype.itemsize)
        room = np.frombuffer(pinned, dtype, n)
        room[:] = 0
        memory = cuda.UnownedMemory(pinned.ptr, n * dtype.itemsize, pinned, self.current_device())
        return room, self._cupy.ndarray((n,), dtype, cuda.MemoryPointer(memory, 0))


class CompileOnlyDriver(DriverBase):  # type: ignore[misc]
    """Enough of a driver to compile for `target`. The target stands for the device: kernels are cached by it."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target
        if target.backend == "hip":
            _forget_torch()

    @classmethod
    def is_active(cls) -> bool:
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return ty_to_cpp(ty)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> Any:
        return self.target

    def get_current_stream(self, device: Any) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        raise RuntimeError("this driver compiles only: there is no device")

    def get_device_interface(self) -> Any:
        raise RuntimeError("this driver compiles only: there is no device")

    def get_benchmarker(self) -> Any:
        raise RuntimeError("this driver compiles only: there is nothing to time")


def _forget_torch() -> None:
    """Triton 3.6 imports PyTorch to ask whether an argument is a tensor within 2 GiB, even where it can tell itself."""
    from triton.backends.amd.compiler import HIPBackend

    def is_within_2gb(argument: Any) -> bool:
        return hasattr(argument, "ptr_range") and argument.ptr_range() < 2**31

    HIPBackend.is_within_2gb = staticmethod(is_within_2gb)


def cuda_driver(host: Host) -> Any:
    """Triton's CUDA driver, asking `host` where the stock one asks PyTorch."""
    from triton.backends.nvidia import driver as nvidia

    class Launcher(nvidia.CudaLauncher):  # type: ignore[misc]
        """Starts the kernels that a person launches as ``kernel[grid](...)``: remembered, and with errors in words."""

        def __init__(self, src: Any, metadata: Any) -> None:
            super().__init__(src, metadata)
            self.name = metadata.name

        def __call__(self, x: int, y: int, z: int, stream: int, function: Any, *args: Any) -> None:
            launch = faults.Named(self.name, (x, y, z))
            faults.note(launch)
            if function is None:
                raise faults.KernelError(f"{launch.describe()}: its code could not be loaded on the GPU when it was "
                                         "first launched. Remedy: define the kernel again")  # fmt: skip
            try:
                super().__call__(x, y, z, stream, function, *args)
                if faults.blocking:
                    host.synchronize(host.current_device())
            except Exception as error:
                found = faults.explained(error, launch.describe())
                if found is None:
                    raise
                raise found from error

    class Driver(nvidia.CudaDriver):  # type: ignore[misc]
        def __init__(self) -> None:  # does not call super(): on 3.6 that imports torch
            self.utils = nvidia.CudaUtils()
            self.launcher_cls = Launcher
            self.get_current_device = host.current_device
            self.set_current_device = host.set_device
            self.get_current_stream = host.current_stream
            self.get_device_capability = host.capability

        @staticmethod
        def is_active() -> bool:
            return True

        def get_active_torch_device(self) -> Any:
            return ("cuda", host.current_device())

        def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int) -> Any:
            return host.empty((size,), np.dtype(np.uint8))

    return Driver()


def driver_text(code: int) -> str:
    """CUDA's own words for an error's number."""
    said = ctypes.c_char_p()
    try:
        ctypes.CDLL("libcuda.so.1").cuGetErrorString(code, ctypes.byref(said))
    except (OSError, AttributeError):
        return f"error {code}"
    return said.value.decode() if said.value else f"error {code}"
