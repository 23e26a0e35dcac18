"""The CPU's rows: op name -> C kernels. The elementwise ones are printed from the declarations at build time."""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Any

import numpy as np

from .. import native
from ..declare.kernel import kernel, kernels
from . import (
    DeviceBackend,
    Row,
    add,
    attend,
    by_class,  # noqa: F401  declares kernels
    channel_norm,
    contraction,
    convolve,
    declared,
    gathering,  # noqa: F401  declares kernels
    half,
    half_products,
    moments,  # noqa: F401  declares kernels
    picking,
    pooling,
    products,  # noqa: F401  declares kernels
    quantised,
    recurrent,
    reducing,  # noqa: F401  declares kernels
    reference,
    resampling,
    rowwise,  # noqa: F401  declares kernels
)
from .cpu_maps import map, name

__all__ = ["absent", "map", "name", "rows"]

c: Any = native.module


def rows(name: str) -> tuple[Row, ...]:
    """Return the structured kernels that serve `name`."""
    if c is None:
        return ()
    found = _table.get(name) or declared.row(name)
    if found is None:
        return ()
    found = found._replace(entry=c.entries.get(name))
    if name in _ANY_TYPE or (name in kernels and not kernels[name].half):
        return (found,)
    product = half_products.rows.get(name)
    return (found, *((product,) if product is not None else ()), half.row(name, found))


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    return native.reason or "no C kernel is written for this op"


# -- what rows take ---------------------------------------------------------------------------------------------------


def _real(*arrays: Any) -> str | None:
    """Return the reason to decline arrays that are not all float32 or all float64; None stands for one that was left
    out."""
    first = arrays[0].dtype
    if first.char not in "fd":
        return _not_real(first)
    for a in arrays[1:]:
        if a is not None and a.dtype != first:
            return f"takes one floating type, got {first} and {a.dtype}"
    return None


@cache
def _not_real(dtype: Any) -> str:  # NumPy takes 3 us to write a dtype's name
    return f"takes float32 and float64, got {dtype}"


def _cat(*tensors: Any, dim: int) -> Any:
    first = tensors[0]
    shape = list(first.shape)
    shape[dim] = sum([t.shape[dim] for t in tensors])
    if math.prod(shape) * first.itemsize < 65536 or any(t.dtype != first.dtype for t in tensors):
        return np.ascontiguousarray(np.concatenate(tensors, axis=dim))  # NumPy keeps column order
    return np.concatenate(tensors, axis=dim, out=c.empty(tuple(shape), first.dtype))  # in cached memory


kernel(
    "dropout",
    "x: real[*all] whole, p: float, seed: word, offset: word",
    gives="y: real[*all]",
    call="philox_dropout.T(seed, offset, x.size, x, y, p, (1 / (1 - p) if p < 1 else 0.0))",
    quiet="True",
    say=lambda x, **_: None if x.flags.c_contiguous else "takes contiguous arrays",
)
kernel(
    "philox_words",
    "seed: word, offset: word, n: int, count: int",
    gives="w0: uint32[n], w1: uint32[n] only if count > 1, w2: uint32[n] only if count > 2, "
    "w3: uint32[n] only if count > 3",
    call="philox_words(seed, offset, n, count, value('uint32_t *const[4]', w0, w1, w2, w3))",
    quiet="True",
    takes=("n >= 0 and 1 <= count <= 4",),
    run=False,
)

_table: dict[str, Row] = {
    "attention": Row("attention_forward", name, attend.forward, attend.declines),
    "attention.backward": Row("attention_backward", name, attend.backward, attend.backward_declines),
    "conv": Row("conv_forward", name, convolve.conv, lambda x, weight, bias, **_: _real(x, weight, bias)),
    "conv_transpose": Row("conv_transpose_forward", name, convolve.conv_transpose,
                          lambda x, weight, bias, **_: _real(x, weight, bias)),
    "conv_weight": Row("conv_weight_forward", name, convolve.conv_weight, lambda x, y, **_: _real(x, y)),
    "cat": Row("cat_forward", "NumPy", _cat, lambda *tensors, dim: None),
    "clone": Row("copy", name, lambda x: c.copied(x), lambda x: None),
    "contiguous": Row("copy", name, lambda x: c.copied(x), lambda x: None),
    **pooling.rows,
    **recurrent.rows,
    **contraction.rows,
    **resampling.rows,
    **channel_norm.rows,
    **picking.rows,
    **quantised.rows,
}  # fmt: skip
# what needs no widening, or does it itself
_ANY_TYPE = (
    "cat", "clone", "contiguous", *channel_norm.rows, *picking.ANY_TYPE, *quantised.rows
)  # fmt: skip

add(DeviceBackend("cpu", lambda: (sys.modules[__name__], reference.numpy_backend)))


def get_cpu_capability() -> str:
    """Return PyTorch's name of what its kernels use of the processor: "DEFAULT"; core's choose for themselves."""
    return "DEFAULT"
