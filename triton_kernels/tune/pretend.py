"""A GPU that is not here, as far as the wrappers of PyTorch programs ask for one while their launches are captured.

Wrappers assert that tensors are on a GPU, ask how many multiprocessors it has, and choose their configs by its
capability. Within `pretended` PyTorch and Triton's driver answer as they would beside an H100, and what is asked for on
the GPU is made on the CPU. Where PyTorch is not loaded, or a GPU is here, nothing is changed.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

_PROPERTIES = types.SimpleNamespace(
    name="NVIDIA H100 80GB HBM3", major=9, minor=0, total_memory=80 << 30, multi_processor_count=132, warp_size=32,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, shared_memory_per_multiprocessor=233472,
    shared_memory_per_block_optin=232448, shared_memory_per_block=49152, gcnArchName="sm_90", L2_cache_size=50 << 20,
)  # fmt: skip
_OF_DRIVER = {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "warpSize": 32,
              "sm_clock_rate": 1755000, "mem_clock_rate": 2619000, "mem_bus_width": 5120}  # fmt: skip
_MAKERS = ("empty", "zeros", "ones", "full", "tensor", "as_tensor", "arange", "linspace", "rand", "randn", "randint",
           "randperm", "eye", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
           "empty_strided")  # fmt: skip
_METHODS = ("to", "cuda", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor")


class _Guard:
    """What `with torch.cuda.device(x.device)` and the like enter."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> _Guard:
        return self

    def __exit__(self, *_: Any) -> None: ...


class _Driver:
    """What wrappers ask Triton's driver."""

    def __init__(self, torch: Any, target: Any) -> None:
        self._torch, self._target = torch, target
        self.utils = types.SimpleNamespace(get_device_properties=lambda _: dict(_OF_DRIVER))

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, *_: Any) -> int:
        return 0

    def set_current_device(self, *_: Any) -> None: ...

    def get_active_torch_device(self) -> Any:
        return self._torch.device("cpu")

    def get_device_interface(self) -> Any:
        return self._torch.cuda

    def get_benchmarker(self) -> Callable[..., Any]:
        return _timed


def _timed(kernel_call: Callable[[], Any], *_: Any, quantiles: Any = None, **__: Any) -> Any:
    """Stand for `triton.testing.do_bench`: nothing runs, and of equal times a library's own tuner takes the first."""
    return [1.0] * len(quantiles) if quantiles is not None else 1.0


def _is_gpu(device: Any) -> bool:
    """Return whether a device, or its name or number, is a GPU's."""
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    name = device if isinstance(device, str) else getattr(device, "type", "")
    return isinstance(name, str) and name.partition(":")[0] in ("cuda", "hip", "xpu")


@contextlib.contextmanager
def pretended(target: Any = None) -> Iterator[None]:
    """Within, there is a GPU for who asks, if PyTorch is loaded and sees none. target : as Triton names it."""
    torch: Any = sys.modules.get("torch")  # which may be core, by `core.as_torch`
    if getattr(torch, "__name__", "") != "torch" or not hasattr(torch, "_C") or torch.cuda.is_available():
        yield
        return
    with contextlib.ExitStack() as undo:
        for owner, name, value in [*_answers(torch), *_redirections(torch)]:
            _put(undo, owner, name, value)
        _put(undo, _active(), "_active", _Driver(torch, target or _h100()))
        for name in ("do_bench", "do_bench_cudagraph"):
            _put(undo, _testing(), name, _timed)
        yield


def _put(undo: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    """Give an attribute a value until `undo` is left."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)


def _answers(torch: Any) -> Iterator[tuple[Any, str, Any]]:
    stream = types.SimpleNamespace(cuda_stream=0, wait_stream=lambda *_: None, synchronize=lambda: None)
    answers = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "get_device_capability": lambda *_: (9, 0), "get_device_name": lambda *_: _PROPERTIES.name,
        "get_device_properties": lambda *_: _PROPERTIES, "current_stream": lambda *_: stream, "stream": _Guard,
        "device": _Guard, "device_of": _Guard, "synchronize": lambda *_: None, "set_device": lambda *_: None,
        "_lazy_init": lambda: None, "_DeviceGuard": _Guard, "_exchange_device": lambda *_: 0,
        "_maybe_exchange_device": lambda *_: 0, "empty_cache": lambda: None, "manual_seed": lambda *_: None,
        "max_memory_allocated": lambda *_: 0, "reset_peak_memory_stats": lambda *_: None,
    }  # fmt: skip
    for name, value in answers.items():
        if hasattr(torch.cuda, name):
            yield torch.cuda, name, value
    yield torch.Tensor, "is_cuda", property(lambda self: True)
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        yield torch._C, "_cuda_getCurrentRawStream", lambda *_: 0


def _redirections(torch: Any) -> Iterator[tuple[Any, str, Any]]:
    """What makes or moves tensors, so that it does on the CPU what was asked for on a GPU."""

    def on_cpu(make: Any) -> Any:
        def made(*args: Any, **named: Any) -> Any:
            if _is_gpu(named.get("device")):
                named["device"] = "cpu"
            args = tuple("cpu" if not isinstance(a, int) and _is_gpu(a) else a for a in args)
            return make(*args, **named)

        return made

    for name in _MAKERS:
        yield torch, name, on_cpu(getattr(torch, name))
    for name in _METHODS:
        if name != "cuda":
            yield torch.Tensor, name, on_cpu(getattr(torch.Tensor, name))
    yield torch.Tensor, "cuda", lambda self, *_, **__: self
    yield torch.nn.Module, "cuda", lambda self, *_, **__: self
    yield torch.nn.Module, "to", on_cpu(torch.nn.Module.to)


def _active() -> Any:
    """Return what holds Triton's active driver."""
    from triton.runtime import driver

    return getattr(driver, "driver", driver)


def _testing() -> Any:
    from triton import testing

    return testing


def _h100() -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", 90, 32)
