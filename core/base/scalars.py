"""Python numbers as elements of a dtype: what the dtype does not hold is an error, not another number."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .dtypes import NO_ARITHMETIC
from .dtypes import dtype as Dtype
from .errors import text

_C_NAMES = {
    "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
    "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    **{f"uint{n}": f"uint{n}_t" for n in (16, 32, 64)}, **{d.name: d.c_type for d in NO_ARITHMETIC},
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def _highest(d: Dtype) -> float:
    return float(ml_dtypes.finfo(d.numpy).max)  # type: ignore[no-untyped-call]


HIGHEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": float(np.finfo(np.float32).max),
            "float64": float(np.finfo(np.float64).max),
            **{d.name: _highest(d) for d in NO_ARITHMETIC}}  # fmt: skip


def _real_fits(x: Any, dtype: Dtype) -> bool:
    if dtype.category == 1:
        info = np.iinfo(dtype.numpy)
        if isinstance(x, float):
            return not math.isnan(x) and info.min <= x <= info.max
        lowest = -info.max if dtype.name.startswith("uint") else info.min  # a negative int wraps around in uint8
        return bool(lowest <= x <= info.max)
    if isinstance(x, float) and not math.isfinite(x):
        return True
    highest = HIGHEST[dtype.to_real().name]
    return -highest <= x <= highest


def element(x: Any, dtype: Dtype, op: str) -> Any:
    """Return the number `x` as an element of `dtype`, cut off to an integer or made a truth where that is one.

    A negative int wraps around in uint8, as in PyTorch, and infinities and NaN are floating-point numbers.

    *Raises*: RuntimeError for a number that the dtype does not hold.

    >>> import core
    >>> element(2.5, core.int64, "fill_"), element(-1, core.uint8, "fill_"), element(3, core.bool, "fill_")
    (2, 255, True)
    >>> element(300, core.uint8, "fill_")
    Traceback (most recent call last):
    ...
    RuntimeError: value cannot be converted to type uint8_t without overflow
      op: fill_; came: 300; needed: a number that core.uint8 holds; remedy: a wider dtype
    """
    if x.__class__ is float and dtype.name == "float64":
        return x
    if isinstance(x, np.generic):
        x = x.item()
    if not isinstance(x, int | float | complex):
        raise TypeError(text(f"{op}(): argument 'value' must be Tensor or Number, not {type(x).__name__}", op=op))
    if dtype.category == 0:
        return bool(x)
    if isinstance(x, complex):
        fits = (dtype.category == 3 or not x.imag) and all(_real_fits(part, dtype) for part in (x.real, x.imag))
        x = x if dtype.category == 3 else x.real
    else:
        fits = _real_fits(x, dtype)
    if not fits:
        raise RuntimeError(text(f"value cannot be converted to type {_C_NAMES[dtype.name]} without overflow", op=op,
                                came=f"{x}", needed=f"a number that {dtype!r} holds",
                                remedy="a wider dtype"))  # fmt: skip
    if dtype.category == 1:
        whole = int(x)
        return whole + (1 << 8 * dtype.itemsize) if whole < 0 and not dtype.is_signed else whole
    return x
