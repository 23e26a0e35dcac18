"""Half types on the CPU: stored in two bytes, computed in float32 by the C kernels and BLAS, rounded once.

Every row of backends/cpu.py serves bfloat16 and float16 through `row` and every elementwise kernel through `kernel`:
the operands are widened by a C loop that runs at the speed of memory, and the results narrowed; those of elementwise
kernels block by block, where they are contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..base import dtypes
from ..declare import op as declarations
from . import Kernel, Row

HALVES = {dtypes.bfloat16.numpy: True, dtypes.float16.numpy: False}  # whether it is bfloat16
FLOAT32 = np.dtype(np.float32)
_ANY = bytearray(8)  # what a stand-in's one item lies in
c: Any = native.module
if c is not None:
    c.set_bfloat16(dtypes.bfloat16.numpy)


def widened(a: Any) -> Any:
    """Return a half-precision array as float32; anything else as it is."""
    if isinstance(a, np.ndarray) and a.dtype in HALVES:
        return a.astype(FLOAT32) if c is None else c.widen(a)
    return a


def narrowed(a: Any, dtype: Any) -> Any:
    """Return a float32 array in a half-precision type, rounded to nearest; anything else as it is."""
    if isinstance(a, np.ndarray) and a.dtype == FLOAT32:
        return a.astype(dtype) if c is None else c.narrow(a, HALVES[dtype])
    return a


def _stand_in(a: Any) -> Any:
    """Return a float32 array of the shape of `a` that takes no memory, to ask a row whether it would take it."""
    if isinstance(a, np.ndarray) and a.dtype in HALVES:
        return np.ndarray(a.shape, FLOAT32, _ANY, 0, (0,) * a.ndim)
    return a


def _half_of(values: Any) -> Any:
    """Return the one half type among arrays; None where there is none, or two."""
    found = None
    for a in values:
        if isinstance(a, np.ndarray) and a.dtype in HALVES:
            if found is not None and a.dtype != found:
                return None
            found = a.dtype
    return found


def kernel(wide: Kernel, dtype: dtypes.dtype) -> Kernel:
    """Return the kernel of a half-precision type, from that of float32."""
    run_wide, half, stem = wide.run, dtype.numpy, wide.name.removesuffix("_f32")

    bfloat, in_blocks = HALVES[half], getattr(run_wide, "half", None)

    def run(*args: Any) -> Any:
        found = NotImplemented if in_blocks is None else in_blocks(bfloat, *args)
        return narrowed(run_wide(*[widened(a) for a in args]), half) if found is NotImplemented else found

    return Kernel(run, f"{stem}_{'bf16' if bfloat else 'f16'}", wide.backend)


def row(name: str, wide: Row) -> Row:
    """Return the row of the half-precision types, from that of float32. Hidden outputs stay float32; a gradient has its
    input's type."""
    backward = name.endswith(".backward")
    stem = name.removesuffix(".backward")

    def declines(*args: Any, **kwargs: Any) -> str | None:
        if _half_of((*args, *kwargs.values())) is None:
            return "takes float16 or bfloat16, one of them"
        given = {k: _stand_in(v) for k, v in kwargs.items()}
        return wide.declines(*[_stand_in(a) for a in args], **given)

    def forward(*args: Any, **kwargs: Any) -> Any:
        half = _half_of((*args, *kwargs.values()))
        results = wide.run(*[widened(a) for a in args], **kwargs)
        if not isinstance(results, tuple):
            return narrowed(results, half)
        shown = declarations.table[stem].returns  # type: ignore[attr-defined]
        return tuple(narrowed(r, half) if i < shown else r for i, r in enumerate(results))

    def gradients(**kwargs: Any) -> Any:
        half = _half_of(kwargs.values())
        results = wide.run(**{k: widened(v) for k, v in kwargs.items()})
        if not isinstance(results, tuple):
            return narrowed(results, half)
        names = declarations.table[stem].inputs
        kinds = [kwargs.get(f"{n}_dtype") for n in names]
        wide_ones = [kind is dtypes.float32 or _is_wide(kwargs.get(n)) for n, kind in zip(names, kinds, strict=True)]
        return tuple(r if w else narrowed(r, half) for r, w in zip(results, wide_ones, strict=True))

    run: Callable[..., Any] = gradients if backward else forward
    return Row(wide.name, wide.backend, run, declines)


def _is_wide(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype == FLOAT32
