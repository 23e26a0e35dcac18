"""Whether tensors are equal or close."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import text
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.operands import need_tensors
from ..dispatch.publish import public
from ..tensors.tensor import Tensor, was_read
from .precision import wide


def _isclose_forward(xp: Any, a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    a, b = wide(a), wide(b)
    same = a == b
    if a.dtype.kind not in "fc":
        if a.dtype.kind == "b":
            return same
        a, b = a.astype(np.float64), b.astype(np.float64)
    if equal_nan:
        same = same | (xp.isnan(a) & xp.isnan(b))
    off = xp.abs(a - b)
    return same | (xp.isfinite(off) & (off <= atol + xp.abs(rtol * b)))


_isclose = operation(
    "isclose",
    _isclose_forward,
    inputs="a b",
    params={"rtol": 1e-5, "atol": 1e-8, "equal_nan": False},
    samples=lambda rng: [((np.array([1.0, 2.0, 0.0]), np.array([1.0, 2.5, 1.0])), {"rtol": 0.1})],
)


@public()
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return whether ``|input - other| <= atol + rtol * |other|``, elementwise.

    *Raises*: RuntimeError for tensors of different dtypes or negative tolerances.

    >>> import core
    >>> core.isclose(core.tensor([1.0, 2.0]), core.tensor([1.0 + 1e-7, 2.1]))
    tensor([ True, False])
    """
    need_tensors("isclose", ("input", "other"), (input, other))
    if input.dtype is not other.dtype:
        raise RuntimeError(text(f"{input.dtype.scalar_type} did not match {other.dtype.scalar_type}", op="isclose",
                                remedy=f"other.to({input.dtype!r})"))  # fmt: skip
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(text(f"{name} must be greater than or equal to zero, but got {value}", op="isclose"))
    return _isclose(input.detach(), other.detach(), rtol=rtol, atol=atol, equal_nan=equal_nan)  # type: ignore[no-any-return]


@public()
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether `isclose` holds for all elements.

    >>> import core
    >>> core.allclose(core.tensor([1.0]), core.tensor([1.0 + 1e-7]))
    True
    """
    was_read("equal", input)
    return bool(isclose(input, other, rtol, atol, equal_nan)._a.all())


@public(home="reduce", state="quiet",
        fast=[Fast(body="same_items(input, other)", types={"input": "piece", "other": "piece"})])  # fmt: skip
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether both have the same shape and elements; NaN equals nothing.

    >>> import core
    >>> core.equal(core.tensor([1, 2]), core.tensor([1, 2]))
    True
    """
    was_read("equal", input)
    if input._a.shape != other._a.shape:
        return False
    return bool((input._a == other._a).all())
