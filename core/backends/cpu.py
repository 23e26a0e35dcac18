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
    decomposing,  # noqa: F401  declares kernels
    folding,  # noqa: F401  declares kernels
    gammas,  # noqa: F401  declares kernels
    gathering,  # noqa: F401  declares kernels
    half,
    half_products,
    moments,  # noqa: F401  declares kernels
    ordered,  # noqa: F401  declares kernels
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

__all__ = ["absent", "get_convolution_method", "map", "name", "rows", "set_convolution_method"]

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
for _drawn, _type, _more, _span in (("uniform", "float32", "", ""), ("normal", "float32", "", ""),
                                    ("integers", "int64", ", span: word", ", span")):  # fmt: skip
    kernel(
        f"philox_{_drawn}",
        f"seed: word, offset: word, n: int{_more}",
        gives=f"y: {_type}[n]",
        call=f"philox_{_drawn}(seed, offset, n{_span}, y)",
        quiet="True",
        takes=("n >= 0",),
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


def get_convolution_method() -> str:
    """Return how 3 x 3 convolutions of stride 1 are made in float32; see `set_convolution_method`."""
    return c.get_convolution_method() if c is not None else "direct"


def set_convolution_method(method: str) -> None:
    """Set how 3 x 3 convolutions of stride 1 are made in float32, from 16 channels on, and their gradients.

    method : ``"direct"``: the sum as it is defined; ``"F2"`` and ``"F4"``: Winograd's minimal filtering by tiles of
        2 x 2 and 4 x 4 outputs, with 2.25 and 4 times fewer multiplications; ``"chosen"``: by shape and numbers, as it
        is at first. F2 errs as the direct sum does, F4 about twice as much (rms 7e-7 of the result's). F4 is chosen
        unless tiles are few or an input's largest is 1000 times the typical one; what is not finite is always summed
        directly.

    *Raises*: ValueError for another name, RuntimeError without the C kernels.

    Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, arXiv:1509.09308.

    >>> import core
    >>> core.backends.cpu.set_convolution_method("direct")
    >>> core.backends.cpu.get_convolution_method()
    'direct'
    >>> core.backends.cpu.set_convolution_method("chosen")
    """
    if c is None:
        raise RuntimeError(f"set_convolution_method: core has no C kernels here: {native.reason}")
    c.set_convolution_method(method)
