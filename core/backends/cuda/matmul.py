"""Rows of the matrix products and their gradients, and the setting of their precision, under PyTorch's path.

``core.backends.cuda.matmul.allow_tf32 = True``, like ``core.set_float32_matmul_precision("high")``, lets products of
float32 be multiplied with 10 bits of each factor (TF32), many times as fast on tensor cores; sums keep float32.

>>> import core
>>> core.backends.cuda.matmul.allow_tf32
False
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from .. import Row, as_matrix
from ..precision import float32_products
from .shared import array_library, empty, floating, name


class _Settings(ModuleType):
    """This module, whose settings are one with `core.set_float32_matmul_precision`."""

    # Sums of float16 and bfloat16 are always kept in float32: these two are kept and change nothing.
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        return float32_products.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        float32_products.precision = "high" if value else "highest"

    @property
    def fp32_precision(self) -> str:
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("ieee", "tf32", "none"):
            raise RuntimeError(f"Invalid fp32_precision {value!r}\n  needed: 'ieee', 'tf32' or 'none'")
        self.allow_tf32 = value == "tf32"


sys.modules[__name__].__class__ = _Settings


def input_precision() -> str:
    """How kernels multiply float32 now."""
    return "ieee" if float32_products.precision == "highest" else "tf32"


def product(a: Any, b: Any, bias: Any = None, dtype: Any = None) -> Any:
    """``a @ b + bias``, batches broadcast; of no more than three batch dimensions once those that can be are merged."""
    from triton_kernels import matmul

    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:  # one product of all rows
        out = empty((*a.shape[:-1], b.shape[1]), a.dtype)
        matmul.matmul_forward(as_matrix(a), b, as_matrix(out), None, bias, input_precision())
        return out
    out = empty((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    matmul.matmul_forward(a, b, out, None, bias, input_precision())
    return out


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return product(as_matrix(x), weight.T, bias).reshape(*x.shape[:-1], weight.shape[0])


def column_sum(x: Any) -> Any:
    """Return the sums of a matrix's columns, always in the same order."""
    from triton_kernels import reduce

    out = empty(x.shape[1:], x.dtype)
    reduce.reduce_forward("sum", x, (0,), out)
    return out


def _linear_backward(g: Any, weight: Any, x: Any, needs: Any) -> Any:
    rows = as_matrix(g)
    return (
        product(rows, weight).reshape(*g.shape[:-1], weight.shape[1]) if needs[0] else None,
        product(rows.T, as_matrix(x)) if needs[1] else None,  # few tiles and long sums: the launcher splits them
        column_sum(rows) if needs[2] else None,
    )


def _matmul_backward(g: Any, b: Any, a_shape: Any, a: Any, b_shape: Any, needs: Any) -> Any:
    return (
        product(g, b.swapaxes(-1, -2)) if needs[0] else None,
        _right(g, a, b_shape) if needs[1] else None,
    )


def _right(g: Any, a: Any, b_shape: Any) -> Any:
    """Return the gradient of the right factor; of one that serves a whole stack, one product over all rows of the
    stack."""
    if len(b_shape) == 2 and g.ndim > 2:
        xp, wide = array_library(), (*g.shape[:-2], *a.shape[-2:])
        return product(as_matrix(xp.broadcast_to(a, wide)).T, as_matrix(g))
    return product(a.swapaxes(-1, -2), g)


def _stacks(*arrays: Any) -> str | None:
    """Arrays of too many batch dimensions, where none can be merged."""
    if any(a is not None and a.ndim > 5 for a in arrays):
        return "takes at most three batch dimensions"
    return None


def _matmul_backward_declines(g: Any, b: Any, a_shape: Any, a: Any, b_shape: Any, needs: Any) -> str | None:
    lead = g.shape[:-2]
    if (a_shape is not None and needs[0] and a_shape[:-2] != lead) or (
        b_shape is not None and needs[1] and b_shape[:-2] != lead and len(b_shape) > 2
    ):
        return "takes no stacks that broadcast, but for a matrix on the right"
    return floating(g, b, a) or _stacks(g)


def _matmul_declines(a: Any, b: Any) -> str | None:
    return floating(a, b) or _stacks(a, b)


ROWS = {
    "matmul": Row("matmul_kernel", name, product, _matmul_declines),
    "matmul.backward": Row("matmul_kernel", name, _matmul_backward, _matmul_backward_declines),
    "linear": Row("matmul_kernel", name, _linear, lambda x, weight, bias: floating(x, weight, bias)),
    "linear.backward": Row("matmul_kernel", name, _linear_backward, lambda g, weight, x, needs: floating(g, weight, x)),
}
