"""Dtypes by the array API standard: promotion, casts, kinds, limits."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..ops.conversion import tensor
from ..tensors.tensor import Tensor

KINDS: dict[str, Callable[[Dtype], bool]] = {
    "bool": lambda d: d.category == 0,
    "signed integer": lambda d: d.category == 1 and d.is_signed,
    "unsigned integer": lambda d: d.category == 1 and not d.is_signed,
    "integral": lambda d: d.category == 1,
    "real floating": lambda d: d.category == 2,
    "complex floating": lambda d: d.category == 3,
    "numeric": lambda d: d.category > 0,
}


def _dtype(x: Any) -> Dtype | None:
    return x if isinstance(x, Dtype) else x.dtype if isinstance(x, Tensor) else None


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """Return the dtype that arrays, dtypes and Python numbers give together; numbers count only by their kind.

    >>> import core.array_api as xp
    >>> xp.result_type(xp.int8, xp.uint8), xp.result_type(xp.asarray(1.0), xp.float64, 2j)
    (core.int16, core.complex128)
    """
    known = [d for d in map(_dtype, arrays_and_dtypes) if d is not None]
    numbers = [dtypes.of_number(x) for x in arrays_and_dtypes if _dtype(x) is None]
    if not known and not numbers:
        raise ValueError(text("at least one array or dtype is required", op="result_type"))
    return dtypes.result_type(known, [], numbers)


def cast(x: Any, d: Dtype, device: Any = None) -> Tensor:
    """Return an array or a Python number as an array of dtype `d`."""
    if isinstance(x, Tensor):
        return x if x.dtype is d else x.to(d)  # type: ignore[attr-defined,no-any-return]
    return tensor(x, dtype=d, device=device)


def together(*xs: Any) -> list[Tensor]:
    """Return arrays and numbers as arrays of the dtype they promote to, on the device of the arrays."""
    d = result_type(*xs)
    where = next((x.device for x in xs if isinstance(x, Tensor)), None)
    return [cast(x, d, where) for x in xs]


def can_cast(from_: Any, to: Dtype, /) -> bool:
    """Return whether promotion with `to` leaves `to`.

    >>> import core.array_api as xp
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.float64, xp.float32)
    (True, False)
    """
    return dtypes.promote_types(result_type(from_), to) is to


def astype(x: Tensor, dtype: Dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return `x` in another dtype, on `device` where one is given; a copy unless `copy` is False and none is needed.

    >>> import core.array_api as xp
    >>> xp.astype(xp.asarray([1.5, -1.5]), xp.int64)
    tensor([ 1, -1])
    """
    return x.to(x.device if device is None else device, dtype, copy=copy)  # type: ignore[attr-defined,no-any-return]


def isdtype(dtype: Dtype, kind: Any) -> bool:
    """Return whether `dtype` is of a kind: a dtype, a name of the standard ("integral" ...), or a tuple of those.

    >>> import core.array_api as xp
    >>> xp.isdtype(xp.uint8, "unsigned integer"), xp.isdtype(xp.float32, ("integral", xp.float64))
    (True, False)
    """
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, Dtype):
        return dtype is kind
    if kind not in KINDS:
        raise ValueError(text(f"unknown kind of dtype {kind!r}", op="isdtype", needed=", ".join(KINDS)))
    return KINDS[kind](dtype)


@dataclass(frozen=True)
class FloatLimits:
    """What `finfo` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype


@dataclass(frozen=True)
class IntegerLimits:
    """What `iinfo` returns."""

    bits: int
    max: int
    min: int
    dtype: Dtype


def finfo(type: Any, /) -> FloatLimits:
    """Return the limits of a floating-point dtype, of an array's, or of a complex one's parts.

    >>> import core.array_api as xp
    >>> xp.finfo(xp.complex64).eps
    1.1920928955078125e-07
    """
    d = result_type(type).to_real()
    f: Any = ml_dtypes.finfo(d.numpy)  # type: ignore[no-untyped-call]
    return FloatLimits(f.bits, float(f.eps), float(f.max), float(f.min), float(f.smallest_normal), d)


def iinfo(type: Any, /) -> IntegerLimits:
    """Return the limits of an integer dtype, or of an array's.

    >>> import core.array_api as xp
    >>> xp.iinfo(xp.int8).max
    127
    """
    d = result_type(type)
    i = np.iinfo(d.numpy)
    return IntegerLimits(i.bits, int(i.max), int(i.min), d)
