"""Elementwise functions of the array API standard: the ops of this package behind the standard's promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.publish import namespaces
from ..tensors.tensor import Tensor
from .creation import named
from .promotion import cast, together

_f = namespaces[""]
_OTHER = {"bitwise_invert": "bitwise_not", "equal": "eq"}  # the standard's names of our ops


def _unary(name: str) -> Callable[[Tensor], Tensor]:
    op = _f[_OTHER.get(name, name)]

    def function(x: Tensor, /) -> Tensor:
        return op(x)  # type: ignore[no-any-return]

    return named(function, name, op.__name__)


def _binary(name: str) -> Callable[[Any, Any], Tensor]:
    op = _f[_OTHER.get(name, name)]

    def function(x1: Any, x2: Any, /) -> Tensor:
        return op(*together(x1, x2))  # type: ignore[no-any-return]

    return named(function, name, op.__name__)


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atanh = _unary("atanh")
bitwise_invert = _unary("bitwise_invert")
ceil = _unary("ceil")
conj = _unary("conj")
cos = _unary("cos")
cosh = _unary("cosh")
exp = _unary("exp")
floor = _unary("floor")
imag = _unary("imag")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
log = _unary("log")
log1p = _unary("log1p")
log2 = _unary("log2")
log10 = _unary("log10")
logical_not = _unary("logical_not")
negative = _unary("negative")
positive = _unary("positive")
real = _unary("real")
reciprocal = _unary("reciprocal")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
square = _unary("square")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")

add = _binary("add")
atan2 = _binary("atan2")
bitwise_and = _binary("bitwise_and")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
copysign = _binary("copysign")
divide = _binary("divide")
equal = _binary("equal")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
hypot = _binary("hypot")
less = _binary("less")
less_equal = _binary("less_equal")
logaddexp = _binary("logaddexp")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal")
pow = _binary("pow")
remainder = _binary("remainder")
subtract = _binary("subtract")


def expm1(x: Tensor, /) -> Tensor:
    """Return ``exp(x) - 1``, exact near 0 too; complex zeros and infinities have the limits that `exp` has.

    >>> import core.array_api as xp
    >>> xp.expm1(xp.asarray([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """
    y: Tensor = _f["expm1"](x)
    return where(isfinite(x) & (x != 0), y, exp(x) - 1) if x.dtype.is_complex else y  # type: ignore[operator]


def sign(x: Tensor, /) -> Tensor:
    """Return -1, 0 or 1, of a complex number its direction; NaN of NaN.

    >>> import core.array_api as xp
    >>> xp.sign(xp.asarray([-2.0, 3.0, xp.nan]))
    tensor([-1.,  1., nan])
    """
    y: Tensor = _f["sgn"](x)
    if x.dtype.is_complex:
        return where(x == 0, 0.0, y)  # where the ratio to the absolute value leaves a sign on 0
    return where(isnan(x), x, y) if x.dtype.is_floating_point else y


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """Return the greatest integers not above the quotients; of infinite numbers the quotients' limits.

    >>> import core.array_api as xp
    >>> xp.floor_divide(xp.asarray([-7.0, xp.inf]), 2.0)
    tensor([-4., inf])
    """
    x1, x2 = together(x1, x2)
    y: Tensor = _f["floor_divide"](x1, x2)
    if not y.dtype.is_floating_point:
        return y
    return where(isfinite(x1) & isfinite(x2), y, floor(divide(x1, x2)))  # type: ignore[operator]


def round(x: Tensor, /) -> Tensor:
    """Return the nearest integers, the even one of two; of a complex number those of its parts.

    >>> import core.array_api as xp
    >>> xp.round(xp.asarray([0.5, 1.5]))
    tensor([0., 2.])
    """
    if x.dtype.is_complex:
        return _f["complex"](_f["round"](x.real), _f["round"](x.imag))  # type: ignore[attr-defined,no-any-return]
    return _f["round"](x)  # type: ignore[no-any-return]


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Return the elements of `x` not below `min` and not above `max`, numbers or arrays that broadcast, in x's dtype.

    >>> import core.array_api as xp
    >>> xp.clip(xp.arange(4), 1, xp.asarray(2))
    tensor([1, 1, 2, 2])
    """
    for name, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:
            x = cast(_f[name](*together(x, bound)), x.dtype)
    return _f["clone"](x) if min is max is None else x


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Return the elements of `x1` where `condition` is true, else those of `x2`.

    >>> import core.array_api as xp
    >>> xp.where(xp.asarray([True, False]), xp.asarray([1, 2]), 0.5)
    tensor([1.0000, 0.5000])
    """
    return _f["where"](condition, *together(x1, x2))  # type: ignore[no-any-return]
