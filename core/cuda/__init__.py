"""The device `cuda`, as PyTorch's `torch.cuda` asks after it."""

from __future__ import annotations

from typing import Any

from ..backends import cuda as _rows


def is_available() -> bool:
    """Whether tensors can live on `cuda`: a GPU with CuPy, or Triton's interpreter (TRITON_INTERPRET=1)."""
    return _rows.availability()[0]


def reason() -> str:
    """Why the device is there, or why it is not, in a sentence."""
    return _rows.availability()[1]


def device_count() -> int:
    """How many devices there are."""
    return _rows.device_count()


def synchronize(device: object = None) -> None:
    """Wait until the device has done what it was told.

    *Raises*: IndexError for an index or a class out of range in an earlier call, which the GPU found meanwhile.
    """
    import numpy as np

    if is_available() and _rows.array_library() is not np:
        _rows.array_library().cuda.Device().synchronize()
        _rows.faults.waited()


def manual_seed(seed: int) -> None:
    """Begin the default generator of the device anew; without a device, nothing, as in PyTorch.

    `core.manual_seed` does so too, with that of the CPU.

    >>> import core
    >>> core.cuda.manual_seed(0)
    """
    if is_available():
        from ..creation import empty
        from ..generator import default_of  # here, as it stands on what imports this

        default_of(empty(0, device="cuda").device).manual_seed(seed)


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Give the memory that CuPy keeps for the next arrays back to the device."""
    import numpy as np

    if is_available() and _rows.array_library() is not np:
        _rows.array_library().get_default_memory_pool().free_all_blocks()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works there: the kernels compute in float32 and take it everywhere."""
    return is_available()


def __getattr__(name: str) -> Any:  # loaded when asked for: it stands on what imports this
    if name != "amp":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(".amp", __name__)
