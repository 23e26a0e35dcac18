"""Keeping values between bounds, numbers or tensors."""

from __future__ import annotations

import math
from typing import Any

from ..base.dtypes import of_number
from ..base.scalars import element
from ..declare.expr import s
from ..declare.kinds import Operand
from ..declare.signature import Fast
from ..dispatch.declare import elementwise
from ..dispatch.elementwise import with_numbers
from ..dispatch.out import into
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .elementwise import maximum, minimum

clamp_ = elementwise("clip_between", lambda x, min, max: s.minimum(s.maximum(x, min), max), public=False,
                     params={"min": -math.inf, "max": math.inf}, label="clamp", doc="x, kept between two numbers.",
                     vjp=lambda g, x, min, max: s.where((x >= min) & (x <= max), g, 0.0))  # fmt: skip
clamp_both = elementwise("clamp_both", lambda x, min, max: s.minimum(s.maximum(x, min), max), public=False,
                         label="clamp", domain=((-1.0, 1.0), (-3.0, -2.0), (2.0, 3.0)),
                         vjp=(lambda g, x, min, max: s.where((x >= min) & (x <= max), g, 0.0),
                              lambda g, x, min, max: s.where((x < min) & (min < max), g, 0.0),
                              lambda g, x, min, max: s.where((x > max) | (max < min), g, 0.0)),
                         doc="x, kept between two tensors.")  # fmt: skip
clamp_below = elementwise("clamp_below", lambda x, min: s.maximum(x, min), public=False, label="clamp_min",
                          vjp=(lambda g, x, min: s.where(x >= min, g, 0.0), lambda g, x, min: s.where(x < min, g, 0.0)),
                          doc="x, at least as great as a tensor.")  # fmt: skip
clamp_above = elementwise("clamp_above", lambda x, max: s.minimum(x, max), public=False, label="clamp_max",
                          vjp=(lambda g, x, max: s.where(x <= max, g, 0.0), lambda g, x, max: s.where(x > max, g, 0.0)),
                          doc="x, at most as great as a tensor.")  # fmt: skip
_greater, _lesser = with_numbers(maximum), with_numbers(minimum)
CLAMPED = "clamped(elementwise.clip_between, elementwise.clamp_below, elementwise.clamp_above, elementwise.clamp_both, "


def _clamped(x: Tensor, min: Any, max: Any) -> Tensor:
    if max is None:
        return clamp_below(x, min)  # type: ignore[no-any-return]
    return clamp_above(x, max) if min is None else clamp_both(x, min, max)  # type: ignore[no-any-return]


@public("clip", inplace=True, home="choice", fast=[Fast(body=CLAMPED + "input, min, max)", types={"input": "real"})])
def clamp(
    input: Tensor, min: Operand | None = None, max: Operand | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`input` kept between `min` and `max`, numbers or tensors; either may be left out.

    >>> import core
    >>> core.clamp(core.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None\n  op: clamp")
    for bound in (min, max):
        _check_bound(input, bound)
    if not input.is_floating_point():
        y = input if min is None else _greater(input, min)
        return into(out, y if max is None else _lesser(y, max), "clamp")
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return into(out, _clamped(input, min, max), "clamp")
    return clamp_(input, -math.inf if min is None else min, math.inf if max is None else max, out=out)


def _check_bound(input: Tensor, bound: Any) -> None:
    """RuntimeError for a number that the result's dtype does not hold."""
    if bound is not None and not isinstance(bound, Tensor):
        found = input.dtype if input.dtype.category >= of_number(bound).category else of_number(bound)
        element(bound, found, "clamp")
