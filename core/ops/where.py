"""`where`: values of one tensor or of another, by a condition."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from ..base.dtypes import get_default_dtype, of_number, promote_types
from ..base.errors import text
from ..base.scalars import element
from ..base.source import warn
from ..declare.kinds import Operand
from ..declare.signature import Fast
from ..dispatch.publish import public
from ..tensors.tensor import Tensor, from_array
from .elementwise import where_


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor: ...
@public(method=False, home="choice",
        fast=[Fast(elementwise="where(condition, input, other)", given=("input", "other"),
                   check=("holds(input, other)", "holds(other, input)"))])  # fmt: skip
def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Any:
    """`input` where the condition holds, else `other`; with a condition alone, the indices where it holds.

    >>> import core
    >>> x = core.tensor([-1.0, 2.0])
    >>> core.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)  # type: ignore[attr-defined]
    if condition.dtype.name == "uint8":  # PyTorch's older truths
        warn(
            text("where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
                 "version of PyTorch. Use a boolean condition instead.", op="where",
                 remedy="condition.bool()"))  # fmt: skip
        condition = condition.bool()  # type: ignore[attr-defined]
    if condition.dtype.name != "bool":
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}"
            "\n  remedy: condition != 0"
        )
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        input = _number_beside(input, other)
    else:
        for number, beside in ((input, other), (other, input)):
            if not isinstance(number, Tensor) and isinstance(beside, Tensor):
                _check_number(number, beside.dtype)
    return where_(condition, input, other)


def _check_number(number: Any, beside: Any) -> None:
    """RuntimeError for a number that the dtype of the result does not hold. Half types take what float32 holds."""
    found = of_number(number)
    if beside.category >= found.category:
        found = get_default_dtype() if beside.category == 2 and beside.itemsize < 4 else beside
    element(number, found, "where")


def _number_beside(x: Any, other: Any) -> Tensor:
    """Return a number as a tensor of the dtype that it has together with another one."""
    dtype = (
        get_default_dtype()
        if x.__class__ is other.__class__ is float
        else promote_types(of_number(x), of_number(other))
    )
    return from_array(np.asarray(x, dtype.numpy))


def _where(self: Tensor, condition: Tensor, other: Operand) -> Tensor:
    """This tensor where the condition holds, else `other`."""
    return where(condition, self, other)  # type: ignore[no-any-return]


Tensor.where = _where  # type: ignore[assignment, method-assign]
