"""The device `cuda`, as PyTorch's `torch.cuda` asks after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..backends import cuda as _rows
from ..base.device import device as Device
from ..base.lazy_import import lazy_attributes as _late
from ..ops.creation import empty
from ..rng.generator import default_of
from ..tensors.tensor import Tensor


def is_available() -> bool:
    """Return whether tensors can live on `cuda`: a GPU with CuPy, or Triton's interpreter (TRITON_INTERPRET=1)."""
    return _rows.availability()[0]


def reason() -> str:
    """Why the device is there, or why it is not, in a sentence."""
    return _rows.availability()[1]


def device_count() -> int:
    """Return how many devices there are."""
    return _rows.device_count()


def manual_seed(seed: int) -> None:
    """Begin the default generator of the device anew; without a device, nothing, as in PyTorch.

    `core.manual_seed` does so too, with that of the CPU.

    >>> import core
    >>> core.cuda.manual_seed(0)
    """
    if is_available():
        default_of(empty(0, device="cuda").device).manual_seed(seed)


manual_seed_all = manual_seed


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether bfloat16 works there: the kernels compute in float32 and take it everywhere."""
    return is_available()


def is_initialized() -> bool:
    """Return whether the device was asked for yet and is there."""
    return bool(_rows.availability.cache_info().currsize) and is_available()


def init() -> None:
    """Look for the device now. It is done by itself when it is first asked for."""
    _rows.availability()


def _lazy_call(callable: Any, **kwargs: Any) -> None:
    """Run a function that sets something of the device; where the device is not there, nothing is to be set."""
    if is_available():
        callable()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """Return the state of a device's generator. *Raises*: RuntimeError where the device is not there."""
    return default_of(empty(0, device=_with_number(device)).device).get_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state of a device's generator. *Raises*: RuntimeError where the device is not there."""
    default_of(empty(0, device=_with_number(device)).device).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return the state of every device's generator: an empty list where there is none."""
    return [get_rng_state(k) for k in range(device_count())] if is_available() else []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the state of every device's generator."""
    for k, state in enumerate(new_states):
        set_rng_state(state, k)


def initial_seed() -> int:
    """Return the number with which the current device's generator began."""
    return int(default_of(empty(0, device="cuda").device).initial_seed())


def seed() -> None:
    """Begin the current device's random numbers anew, with a number at random. Nothing where there is no GPU."""
    if is_available():
        default_of(empty(0, device="cuda").device).seed()


def seed_all() -> None:
    """Begin every device's random numbers anew, with a number at random. Nothing where there is no GPU."""
    for k in range(device_count()) if is_available() else ():
        default_of(empty(0, device=_with_number(k)).device).seed()


def _generators() -> tuple[Any, ...]:
    """Return every device's generator."""
    return tuple(default_of(empty(0, device=_with_number(k)).device) for k in range(device_count()))


def _with_number(device: Any) -> Any:
    return Device("cuda", device) if isinstance(device, int) else device


def ipc_collect() -> None:
    """Nothing: memory of a GPU is not shared with other processes here."""


# loaded when asked for: they stand on what imports this
_LATE = {
    "amp": "",
    "graphs": "",
    "memory": "",
    "streams": "",
    **dict.fromkeys(["nccl", "nvtx", "profiler"], ""),
    **dict.fromkeys(["BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
                     "HalfTensor", "IntTensor", "LongTensor", "ShortTensor"], "legacy_types"),
    **dict.fromkeys(["AcceleratorError", "OutOfMemoryError"], ".base.gpu_errors"),
    **dict.fromkeys(["can_device_access_peer", "current_device", "device", "device_of", "get_arch_list",
                     "get_device_capability", "get_device_name", "get_device_properties", "set_device"], "devices"),
    **dict.fromkeys(["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream",
                     "synchronize"], "streams"),
    **dict.fromkeys(["empty_cache", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
                     "memory_reserved", "memory_stats", "memory_summary", "reset_accumulated_memory_stats",
                     "reset_peak_memory_stats", "set_per_process_memory_fraction",
                     "max_memory_cached", "memory_cached", "reset_max_memory_allocated",
                     "reset_max_memory_cached"], "memory"),
    **dict.fromkeys(["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing",
                     "make_graphed_callables"], "graphs"),
}  # fmt: skip
_find, __dir__ = _late(__name__, _LATE)


def __getattr__(name: str) -> Any:
    if name == "default_generators":  # asking for them starts a GPU
        return _generators() if is_available() else ()
    return _find(name)


if TYPE_CHECKING:
    from ..base.gpu_errors import AcceleratorError, OutOfMemoryError
    from . import amp, graphs, memory, streams
    from .devices import (
        can_device_access_peer,
        current_device,
        device,
        device_of,
        get_arch_list,
        get_device_capability,
        get_device_name,
        get_device_properties,
        set_device,
    )
    from .graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables
    from .memory import (
        empty_cache,
        max_memory_allocated,
        max_memory_reserved,
        mem_get_info,
        memory_allocated,
        memory_reserved,
        memory_stats,
        memory_summary,
        reset_accumulated_memory_stats,
        reset_peak_memory_stats,
        set_per_process_memory_fraction,
    )
    from .streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream, synchronize
