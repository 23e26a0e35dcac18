"""Whether the device `cuda` is there, whose arrays it has, and what the rows of its ops have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import numpy as np

from ... import native
from ...base.shadowing import hidden

name = "Triton"
when_connected: list[Callable[[Any], None]] = []  # called with CuPy, once there is a GPU
FLOATING = ("float16", "bfloat16", "float32", "float64")


@cache
def availability() -> tuple[bool, str]:
    """Return whether the device is there, and why (not), in a sentence."""
    if said := hidden("triton_kernels"):
        return False, said
    import triton_kernels

    able = triton_kernels.availability()
    if not able.importable:
        return False, able.reason
    if able.interpreted:
        return True, able.reason
    try:
        import cupy
    except ImportError:
        return False, "CuPy, which holds the arrays of a GPU, is not installed; pip install 'gradlab[gpu]'"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as e:
        return False, f"CuPy finds no GPU ({e})"
    if not count:
        return False, "CuPy finds no GPU"
    from triton_kernels import runtime

    runtime.planner = getattr(native.module, "Plan", None)
    runtime.connect(cupy)
    for prepare in when_connected:
        prepare(cupy)
    return True, f"{count} GPU(s); {able.reason}"


@cache
def array_library() -> Any:
    """NumPy under the interpreter, CuPy on a GPU."""
    import triton_kernels

    if triton_kernels.interpreting():
        return np
    import cupy

    return cupy


def floating(*arrays: Any) -> str | None:
    """Return the reason to decline arrays that are not all of one floating type; None stands for one that was left
    out."""
    first = arrays[0].dtype
    if first.name not in FLOATING:
        return f"takes {', '.join(FLOATING)}, got {first}"
    for a in arrays[1:]:
        if a is not None and a.dtype != first:
            return f"takes one floating type, got {first} and {a.dtype}"
    return None


def explained(error: BaseException) -> Exception | None:
    """Return an error of CUDA's in this package's words; None for any other."""
    from triton_kernels import faults

    return faults.explained(error)


def retell(error: BaseException) -> NoReturn:
    """Raise an error of CUDA's in this package's words, and any other as it is."""
    found = explained(error)
    if found is None:
        raise error
    raise found from error


def kept(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """Return the shape after a reduction over `dims`."""
    return tuple(1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims)


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Device memory that is not yet written."""
    return array_library().empty(shape, dtype)
