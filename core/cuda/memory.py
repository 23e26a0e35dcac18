"""How much memory of a GPU is in use, was at most, and is kept. CuPy's pool gives it out; a captured graph has its own.

Under Triton's interpreter the device's memory is NumPy's: counted are the arrays that ops, copies and creations made on
the device and that live.
"""

from __future__ import annotations

import os
from typing import Any

from ..backends.cuda import devices as _devices
from ..backends.cuda import memory as _memory
from ..base.device import device as Device
from . import is_available
from .devices import index_of, library


def memory_allocated(device: Any = None) -> int:
    """Return bytes of the arrays that live on a device.

    >>> import core
    >>> if core.cuda.is_available():
    ...     before = core.cuda.memory_allocated()
    ...     x = core.ones(1024, device="cuda")
    ...     assert core.cuda.memory_allocated() - before == 4096
    """
    return _memory.used(index_of(device, "memory_allocated"))


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that arrays took at once, since the start or `reset_peak_memory_stats`."""
    index = index_of(device, "max_memory_allocated")
    return max(_memory.figures(index).peak, _memory.used(index))


def memory_reserved(device: Any = None) -> int:
    """Bytes that are kept for arrays, in use or not."""
    return _memory.reserved(index_of(device, "memory_reserved"))


def max_memory_reserved(device: Any = None) -> int:
    """Return the most bytes that were kept for arrays at once."""
    index = index_of(device, "max_memory_reserved")
    return max(_memory.figures(index).reserved_peak, _memory.reserved(index))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin the peaks anew at what is in use now."""
    _memory.reset_peak(index_of(device, "reset_peak_memory_stats"))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Count allocations and running out of memory from zero."""
    now = _memory.figures(index_of(device, "reset_accumulated_memory_stats"))
    now.allocated = now.allocations = now.ooms = 0


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the figures in PyTorch's names, as far as they are known here: bytes in use, kept and asked for, their
    peaks."""
    index = index_of(device, "memory_stats")
    now, used, reserved = _memory.figures(index), _memory.used(index), _memory.reserved(index)
    return {
        "allocated_bytes.all.allocated": now.allocated,
        "allocated_bytes.all.current": used,
        "allocated_bytes.all.peak": max(now.peak, used),
        "allocation.all.allocated": now.allocations,
        "inactive_split_bytes.all.current": reserved - used,
        "num_ooms": now.ooms,
        "reserved_bytes.all.current": reserved,
        "reserved_bytes.all.peak": max(now.reserved_peak, reserved),
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the figures as a table, and who holds most.

    >>> import core
    >>> "in use" in core.cuda.memory_summary() if core.cuda.is_available() else True
    True
    """
    index, text = index_of(device, "memory_summary"), _memory.size_text
    stats = memory_stats(index)
    free, total = mem_get_info(index)
    rows = [
        ("in use", stats["allocated_bytes.all.current"], stats["allocated_bytes.all.peak"]),
        ("kept, in use or not", stats["reserved_bytes.all.current"], stats["reserved_bytes.all.peak"]),
    ]
    lines = [f"memory of cuda:{index}: {text(free)} free of {text(total)}", f"{'':22}{'now':>14}{'at most':>14}"]
    lines += [f"{name:22}{text(now):>14}{text(peak):>14}" for name, now, peak in rows]
    lines.append(f"arrays made: {stats['allocation.all.allocated']:,}; out of memory: {stats['num_ooms']:,} times")
    if not abbreviated and (held := _memory.holders()):
        lines += [
            "held by:",
            *(f"  {text(size):>12}  {what}" + (f" (x{n})" if n > 1 else "") for what, size, n in held),
        ]
    return "\n".join(lines)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return (free bytes, all bytes) of a device, as its driver counts them."""
    index, cupy = index_of(device, "mem_get_info"), library()
    if cupy is None:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
    with _devices.on(Device("cuda", index)):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def empty_cache() -> None:
    """Give the memory that is kept for the next arrays back to the device."""
    if is_available() and (cupy := library()) is not None:
        if _memory.counted is not None:
            _memory.counted.note_reserved()
        pool = _memory.counted.pool if _memory.counted is not None else cupy.get_default_memory_pool()
        pool.free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Take no more than this share of a GPU's memory; what exceeds it is out of memory.

    *Raises*: ValueError for a share that is not in 0 to 1; RuntimeError under Triton's interpreter.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index, cupy = index_of(device, "set_per_process_memory_fraction"), library()
    if cupy is None:
        raise RuntimeError("set_per_process_memory_fraction: Triton's interpreter takes NumPy's memory, which has no "
                           "limit to set")  # fmt: skip
    with _devices.on(Device("cuda", index)):
        assert _memory.counted is not None
        _memory.counted.pool.set_limit(fraction=float(fraction))


def reset_max_memory_allocated(device: Any = None) -> None:
    """Begin the peak of what is in use anew: `reset_peak_memory_stats`, by an older name."""
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Begin the peak of what is kept anew: `reset_peak_memory_stats`, by an older name."""
    reset_peak_memory_stats(device)


def memory_cached(device: Any = None) -> int:
    """Return how many bytes are kept: `memory_reserved`, by an older name."""
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Return the most bytes that were kept: `max_memory_reserved`, by an older name."""
    return max_memory_reserved(device)
