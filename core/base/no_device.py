"""What PyTorch's modules of accelerators answer where their device is not there."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from .errors import text

NO = frozenset({"is_initialized", "is_bf16_supported", "is_current_stream_capturing", "is_tf32_supported"})
ZERO = frozenset({"memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved",
                  "current_allocated_memory", "driver_allocated_memory"})  # fmt: skip
NOTHING = frozenset({"reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
                     "ipc_collect", "seed", "seed_all", "init"})  # fmt: skip
LACKING = frozenset({"current_device", "current_stream", "device", "device_of", "default_stream",
                     "get_device_capability", "get_device_name", "get_device_properties",
                     "get_rng_state", "get_rng_state_all", "initial_seed",
                     "mem_get_info", "memory_stats", "recommended_max_memory", "set_device", "set_rng_state",
                     "set_rng_state_all", "set_stream", "stream", "Stream", "Event", "StreamContext",
                     "set_per_process_memory_fraction"})  # fmt: skip


def is_available() -> bool:
    """Return whether tensors can live on such a device: never."""
    return False


def device_count() -> int:
    """Return how many such devices there are: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Begin the random numbers of the device anew: there is none, and nothing happens, as in PyTorch."""


def empty_cache() -> None:
    """Give memory back that the device keeps: there is none."""


def synchronize(device: Any = None) -> None:
    """Wait for the device: there is none."""


manual_seed_all = manual_seed


def answers(device: str, module: ModuleType) -> Callable[[str], Any]:
    """Return a module's ``__getattr__``: what tells of use gives 0 or False, what needs the device raises RuntimeError.

    >>> import core
    >>> core.xpu.memory_allocated()
    0
    """

    def made(name: str) -> Any:
        if name in NO:
            found: Any = lambda *args, **kwargs: False
        elif name in ZERO:
            found = lambda *args, **kwargs: 0
        elif name in NOTHING:
            found = lambda *args, **kwargs: None
        elif name == "Stream" or name == "Event" or name == "device":
            found = type(name, (), {"__init__": lambda self, *args, **kwargs: refuse(name),
                                    "__module__": module.__name__})  # fmt: skip
        elif name in LACKING:
            found = lambda *args, **kwargs: refuse(name)
        else:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        found.__name__, found.__doc__ = name, f"Answer for a device `{device}` that is not there."
        setattr(module, name, found)
        return found

    def refuse(name: str) -> NoReturn:
        raise RuntimeError(text(f"there is no device {device!r} here", op=f"{device}.{name}", needed="cpu or cuda",
                                remedy=f"ask core.{device}.is_available() first"))  # fmt: skip

    return made
