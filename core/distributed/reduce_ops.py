"""How values of several processes become one, by PyTorch's names, and for which dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ..backends.half import narrowed, widened
from ..base.errors import text
from ..tensors.tensor import Tensor

__all__ = ["ReduceOp", "reduce_op"]


class RedOpType(Enum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class _PremulSum(NamedTuple):
    """A sum of values that are multiplied by a factor first."""

    factor: Any


class ReduceOp:
    """How values of several processes become one; of one process they stay what they are."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX = RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT, RedOpType.MIN, RedOpType.MAX
    BAND, BOR, BXOR, PREMUL_SUM = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR, RedOpType.PREMUL_SUM


reduce_op = ReduceOp
_BITS = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
_OF_BOOLS = {RedOpType.SUM: "MAX", RedOpType.PRODUCT: "MIN", RedOpType.BAND: "MIN", RedOpType.BOR: "MAX"}


def premul_sum(factor: Any) -> Any:
    """Return a sum of values that are multiplied by a number (or a tensor with one) first."""
    return _PremulSum(factor.item() if isinstance(factor, Tensor) else factor)


def name_for(how: Any, t: Tensor, op: str) -> str:
    """Return what a communicator calls a reduction of a tensor. *Raises*: RuntimeError where its dtype has none."""
    if isinstance(how, _PremulSum):
        return "SUM"
    if not isinstance(how, RedOpType) or how is RedOpType.PREMUL_SUM:
        raise ValueError(text(f"unknown reduction {how!r}", op=f"distributed.{op}",
                              needed="ReduceOp.SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR"))  # fmt: skip
    kind = t.dtype
    if (kind.is_complex and how in (RedOpType.MIN, RedOpType.MAX, *_BITS)) or (kind.is_floating_point and how in _BITS):
        raise RuntimeError(text(f"Cannot use ReduceOp.{how.name} with non-integral dtype" if how in _BITS else
                                f"all_reduce does not support {how.name} on complex tensors", op=f"distributed.{op}",
                                came=f"{kind}", needed="integers" if how in _BITS else "ReduceOp.SUM",
                                remedy="core.view_as_real(x) for the parts" if kind.is_complex else ""))  # fmt: skip
    if kind.name == "bool":
        return _OF_BOOLS.get(how, how.name)
    narrow = kind.is_floating_point and kind.itemsize < 4
    return "SUM" if how is RedOpType.AVG and not narrow else how.name


def is_narrow(a: Any) -> bool:
    """Return whether an array is of floats narrower than float32, which `summed` sums up."""
    return bool(a.dtype == np.float16 or a.dtype.kind == "V")


_UFUNCS = {"SUM": np.add, "AVG": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}


def summed(rows: Any, op: str, out: Any) -> None:
    """Sum the rows of an array of narrow floats in float32, in their order; round once, into `out`."""
    total = widened(rows[0]).astype(np.float32, copy=False)
    for row in rows[1:]:
        _UFUNCS[op](total, widened(row).astype(np.float32, copy=False), out=total)
    if op == "AVG":
        total /= np.float32(len(rows))
    out[:] = narrowed(total, out.dtype).astype(out.dtype, copy=False)


def before(how: Any, a: Any, own: bool) -> Any:
    """Return an array as it is before it is reduced; in place where it is the operation's own."""
    if not isinstance(how, _PremulSum):
        return a
    if is_narrow(a):
        product = (a.astype(np.float32) * np.float32(how.factor)).astype(a.dtype)
        if not own:
            return product
        a[:] = product
        return a
    return np.multiply(a, how.factor, out=a if own else None, dtype=a.dtype)


def after(how: Any, arrays: Sequence[Any], size: int) -> None:
    """Finish reduced arrays in place: a mean is the sum by the number of processes."""
    for a in arrays if how is RedOpType.AVG and size > 1 else ():
        if is_narrow(a):
            continue  # `summed` has divided
        if a.dtype.kind in "fc":
            a /= size
        else:
            a[...] = np.sign(a) * (abs(a) // size)  # towards 0, as C divides
