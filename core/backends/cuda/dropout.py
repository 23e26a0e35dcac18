"""The row of dropout; its gradient is the same op on the gradient."""

from __future__ import annotations

from typing import Any

from ...rng.philox import place_of
from .. import Row
from .shared import array_library, empty, floating, name


def _dropout(x: Any, p: float, seed: int, offset: int) -> Any:
    from triton_kernels import dropout

    x = array_library().ascontiguousarray(x).reshape(x.shape)  # NumPy makes one dimension of none
    y = empty(x.shape, x.dtype)
    dropout.dropout_forward(x, y, p, seed, offset, place=place_of(offset))
    return y


def _declines(x: Any, p: float, seed: int, offset: int) -> str | None:
    return floating(x) or (None if offset + x.size < 1 << 53 else "takes at most 2**53 numbers of one seed")


ROWS = {"dropout": Row("dropout_kernel", name, _dropout, _declines)}
