"""Signs, and the elementwise functions that PyTorch has at top level beside the common ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import backends, return_types
from ..base import dtypes
from ..base.errors import text
from ..base.scalars import element
from ..declare.expr import s
from ..declare.kinds import Operand
from ..declare.signature import Fast
from ..dispatch.declare import elementwise, operation
from ..dispatch.operands import need_tensors
from ..dispatch.out import into
from ..dispatch.publish import bind_operator, public
from ..return_types import return_type
from ..tensors.tensor import Tensor, from_array
from .clamping import CLAMPED
from .elementwise import mul, pow, sub
from .precision import rounded, wide

_ReturnFrexp = return_type("frexp", "mantissa exponent")
_LOG2 = math.log(2)


def _kept(x: Any, eps: Any) -> Any:
    return s.where(eps < 0.0, x, s.minimum(s.maximum(x, eps), 1.0 - eps))


# -- elementwise -------------------------------------------------------------------------------------------------------

isposinf = elementwise("isposinf", lambda x: x == math.inf, out="bool", doc="Whether it is +infinity.",
                       example=("core.tensor([1.0, 1e999])", "tensor([False,  True])"))  # fmt: skip
isneginf = elementwise("isneginf", lambda x: x == -math.inf, out="bool", doc="Whether it is -infinity.",
                       example=("core.tensor([1.0, -1e999])", "tensor([False,  True])"))  # fmt: skip
signbit = elementwise(
    "signbit",
    lambda x: s.copysign(1.0, x) < 0.0,
    out="bool",
    doc="Whether the sign is a minus; -0.0 has one.",
    example=("core.tensor([0.0, -0.0])", "tensor([False,  True])"),
)
fmax = elementwise(
    "fmax",
    lambda a, b: s.where(s.isnan(b) | (a >= b), a, b),
    doc="The greater; where one is NaN, the other.",
    vjp=(
        lambda g, a, b: s.where((a >= b) | s.isnan(b), g, 0.0),
        lambda g, a, b: s.where((a >= b) | s.isnan(b), 0.0, g),
    ),
    tensors=("input", "other"),
    example=("core.tensor([1.0, 5.0]), core.tensor([3.0, 1e999 - 1e999])", "tensor([3., 5.])"),
)
fmin = elementwise(
    "fmin",
    lambda a, b: s.where(s.isnan(b) | (a <= b), a, b),
    doc="The lesser; where one is NaN, the other.",
    vjp=(
        lambda g, a, b: s.where((a <= b) | s.isnan(b), g, 0.0),
        lambda g, a, b: s.where((a <= b) | s.isnan(b), 0.0, g),
    ),
    tensors=("input", "other"),
    example=("core.tensor([1.0, 5.0]), core.tensor([3.0, 1e999 - 1e999])", "tensor([1., 5.])"),
)
heaviside = elementwise(
    "heaviside",
    lambda a, b: s.where(a == 0.0, b, s.where(a > 0.0, 1.0, 0.0)),
    doc="0 below 0, 1 above, b at 0.",
    tensors=("input", "values"),
    example=("core.tensor([-2.0, 0.0, 2.0]), core.tensor([0.5])", "tensor([0.0000, 0.5000, 1.0000])"),
)
logaddexp = elementwise(
    "logaddexp",
    lambda a, b: s.where(a == b, a + _LOG2, s.maximum(a, b) + s.log1p(s.exp(-s.abs(a - b)))),
    vjp=(lambda g, a, b: g * s.sigmoid(a - b), lambda g, a, b: g * s.sigmoid(b - a)),
    out="float",
    doc="log(exp(a) + exp(b)) without overflow.",
    tensors=("input", "other"),
    example=("core.tensor([0.0]), core.tensor([0.0])", "tensor([0.6931])"),
)
logaddexp2 = elementwise(
    "logaddexp2",
    lambda a, b: s.where(a == b, a + 1.0, s.maximum(a, b) + s.log1p(s.exp2(-s.abs(a - b))) / _LOG2),
    vjp=(lambda g, a, b: g * s.sigmoid((a - b) * _LOG2), lambda g, a, b: g * s.sigmoid((b - a) * _LOG2)),
    out="float",
    doc="log2(2**a + 2**b) without overflow.",
    tensors=("input", "other"),
    example=("core.tensor([0.0]), core.tensor([0.0])", "tensor([1.])"),
)
xlogy = elementwise(
    "xlogy",
    lambda a, b: s.where((a == 0.0) & (b == b), 0.0 * a, a * s.log(b)),
    out="float",
    domain=((0.2, 3.0), (0.2, 3.0)),
    doc="a log(b), which is 0 where a is 0.",
    vjp=(lambda g, a, b: s.where((a == 0.0) & (b <= 0.0), 0.0, g * s.log(b)), lambda g, a, b: g * a / b),
    example=("core.tensor([0.0, 2.0]), core.tensor([0.0, 1.0])", "tensor([0., 0.])"),
)
sinc = elementwise("sinc", lambda x: s.where(x == 0.0, 1.0, s.sin(math.pi * x) / (math.pi * s.where(x == 0.0, 1.0, x))),
                   vjp=lambda g, x: s.where(x == 0.0, 0.0, g * ((math.pi * x * s.cos(math.pi * x) - s.sin(math.pi * x))
                                                                / (math.pi * s.where(x == 0.0, 1.0, x * x)))),
                   out="float", domain=(0.3, 3.0), doc="sin(πx) / (πx), which is 1 at 0.",
                   example=("core.tensor([0.0, 0.5])", "tensor([1.0000, 0.6366])"))  # fmt: skip


def _logit_slope(g: Any, x: Any, eps: Any) -> Any:
    """Outside of [eps, 1 - eps] 0; without an eps, outside of [0, 1] NaN, as PyTorch has it."""
    low = s.where(eps < 0.0, 0.0, eps)
    return s.where(
        (x >= low) & (x <= 1.0 - low), g / (s.abs(x) * (1.0 - x)), s.where((eps < 0.0) | s.isnan(x), math.nan, 0.0)
    )


logit_ = elementwise(
    "logit_within",
    lambda x, eps: s.log(_kept(x, eps) / (1.0 - _kept(x, eps))),
    params={"eps": -1.0},
    vjp=lambda g, x, eps: _logit_slope(g, x, eps),
    out="float",
    public=False,
    label="logit",
    domain=(0.1, 0.9),
    doc="log(x / (1 - x)).",
)
nan_to_num_ = elementwise(
    "nan_to_number",
    lambda x, nan, posinf, neginf: s.where(
        s.isnan(x), nan, s.where(x == math.inf, posinf, s.where(x == -math.inf, neginf, x))
    ),
    params={"nan": 0.0, "posinf": 1e30, "neginf": -1e30},
    public=False,
    label="nan_to_num",
    vjp=lambda g, x: s.where(s.isfinite(x), g, 0.0),
    doc="x with NaN and infinities replaced.",
)
addcmul_ = elementwise("add_product", lambda x, a, b, value: x + value * a * b, params={"value": 1.0}, public=False,
                       vjp=(lambda g: g, lambda g, b, value: g * (b * value), lambda g, a, value: g * (a * value)),
                       label="addcmul", doc="x + value * a * b.")  # fmt: skip
addcdiv_ = elementwise(
    "add_quotient",
    lambda x, a, b, value: x + value * a / b,
    params={"value": 1.0},
    public=False,
    vjp=(lambda g: g, lambda g, b, value: g * (value / b), lambda g, a, b, value: -g * (value * a / (b * b))),
    domain=((-2.0, 2.0), (-2.0, 2.0), (0.5, 2.0)),
    label="addcdiv",
    doc="x + value * a / b.",
)


@public(inplace=True)
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """``log(x / (1 - x))``, the inverse of the sigmoid; with `eps` x is kept within [eps, 1 - eps] first.

    >>> import core
    >>> core.logit(core.tensor([0.5, 0.8808]))
    tensor([0.0000, 2.0000])
    """
    return logit_(input, -1.0 if eps is None else float(eps), out=out)  # type: ignore[no-any-return]


@public(
    inplace=True,
    home="choice",
    fast=[Fast(body="all_finite(elementwise.nan_to_number, input, nan, posinf, neginf)", types={"input": "real"})],
)
def nan_to_num(input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None, *,
               out: Tensor | None = None) -> Tensor:  # fmt: skip
    """`input` with 0 for NaN and the greatest and least numbers of the dtype for the infinities, or what is given.

    >>> import core
    >>> core.nan_to_num(core.tensor([float("nan"), 1.0]), nan=7.0)
    tensor([7., 1.])
    """
    if not input.is_floating_point():
        return into(out, input.clone())
    top = float(limits(input.dtype).max)
    return nan_to_num_(input, nan or 0.0, top if posinf is None else posinf, -top if neginf is None else neginf,
                       out=out)  # type: ignore[no-any-return] # fmt: skip


def limits(d: dtypes.dtype) -> Any:
    """NumPy's finfo of a floating dtype; bfloat16 and float8 have ml_dtypes'."""
    import ml_dtypes

    return ml_dtypes.finfo(d.numpy) if d in (dtypes.bfloat16, *dtypes.NO_ARITHMETIC) else np.finfo(d.numpy)  # type: ignore[no-untyped-call]


@public(inplace=True, home="choice",
        fast=[Fast(elementwise="add_product(input, tensor1, tensor2, value)",
                   types={"input": "real", "tensor1": "real", "tensor2": "real"})])  # fmt: skip
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1, out: Tensor | None = None) -> Tensor:
    """``input + value * tensor1 * tensor2``; the three broadcast.

    >>> import core
    >>> core.addcmul(core.tensor([1.0]), core.tensor([2.0]), core.tensor([3.0]), value=0.5)
    tensor([4.])
    """
    if input.dtype.category == tensor1.dtype.category == tensor2.dtype.category == 1:
        value = element(
            value, dtypes.promote_types(input.dtype, tensor1.dtype), "addcmul"
        )  # of integers the factor is one too
    return addcmul_(input, tensor1, tensor2, value, out=out)  # type: ignore[no-any-return]


@public(inplace=True, home="choice",
        fast=[Fast(elementwise="add_quotient(input, tensor1, tensor2, value)",
                   types={"input": "real", "tensor1": "real", "tensor2": "real"})])  # fmt: skip
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1, out: Tensor | None = None) -> Tensor:
    """``input + value * tensor1 / tensor2``; the three broadcast. *Raises*: RuntimeError for a quotient of integers.

    >>> import core
    >>> core.addcdiv(core.tensor([1.0]), core.tensor([2.0]), core.tensor([4.0]), value=2)
    tensor([2.])
    """
    if tensor1.dtype.category < 2 and tensor2.dtype.category < 2:
        raise RuntimeError(text("Integer division with addcdiv is no longer supported, and in a future release addcdiv "
                                "will perform a true division of tensor1 and tensor2.", op="addcdiv",
                                remedy="tensor1.float()"))  # fmt: skip
    return addcdiv_(input, tensor1, tensor2, value, out=out)  # type: ignore[no-any-return]


# -- spelt with other ops ----------------------------------------------------------------------------------------------


def _float(input: Tensor) -> Tensor:
    return input if input.dtype.category >= 2 else input.to(dtypes.get_default_dtype())


@public(inplace=True)
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees in radians.

    >>> import core
    >>> core.deg2rad(core.tensor([180.0]))
    tensor([3.1416])
    """
    return mul(_float(input), math.pi / 180, out=out)  # type: ignore[no-any-return]


@public(inplace=True)
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians in degrees.

    >>> import core
    >>> core.rad2deg(core.tensor([3.14159265]))
    tensor([180.])
    """
    return mul(_float(input), 180 / math.pi, out=out)  # type: ignore[no-any-return]


@public()
def positive(input: Tensor) -> Tensor:
    """`input` itself. *Raises*: RuntimeError for bools.

    >>> import core
    >>> core.positive(core.tensor([-1.0]))
    tensor([-1.])
    """
    if input.dtype is dtypes.bool_:
        raise RuntimeError(text("The `+` operator, on a bool tensor is not supported.", op="positive"))
    return input


bind_operator("pos", positive)


@public(method=False)
def rsub(input: Tensor, other: Operand, *, alpha: float = 1) -> Tensor:
    """``other - alpha * input``.

    >>> import core
    >>> core.rsub(core.tensor([1.0]), 5)
    tensor([4.])
    """
    need_tensors("rsub", ("input",), (input,))
    return sub(other, input, alpha=alpha)


@public(inplace=True, home="choice", fast=[Fast(body=CLAMPED + "input, min, NULL)", types={"input": "real"})])
def clamp_min(input: Tensor, min: Operand, *, out: Tensor | None = None) -> Tensor:
    """`input`, at least `min`.

    >>> import core
    >>> core.clamp_min(core.tensor([-2.0, 3.0]), 0)
    tensor([0., 3.])
    """
    need_tensors("clamp_min", ("input",), (input,))
    return input.clamp(min=min, out=out)  # type: ignore[no-any-return]


@public(inplace=True, home="choice", fast=[Fast(body=CLAMPED + "input, NULL, max)", types={"input": "real"})])
def clamp_max(input: Tensor, max: Operand, *, out: Tensor | None = None) -> Tensor:
    """`input`, at most `max`.

    >>> import core
    >>> core.clamp_max(core.tensor([-2.0, 3.0]), 0)
    tensor([-2.,  0.])
    """
    need_tensors("clamp_max", ("input",), (input,))
    return input.clamp(max=max, out=out)  # type: ignore[no-any-return]


def _double(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x if isinstance(x, complex) else float(x)
    return x.to(dtypes.complex128 if x.is_complex() else dtypes.float64)


@public(inplace=True)
def float_power(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """`input` to the power of `exponent`, in float64, of complex numbers in complex128.

    >>> import core
    >>> core.float_power(core.tensor([2, 3]), 0.5)
    tensor([1.4142, 1.7321], dtype=core.float64)
    """
    if not isinstance(exponent, Tensor):
        need_tensors("float_power", ("input",), (input,))
    return pow(_double(input), _double(exponent), out=out)


_written = Tensor.float_power_  # type: ignore[attr-defined]


def float_power_(self: Tensor, exponent: Operand) -> Tensor:
    """In-place version of `float_power`. *Raises*: RuntimeError for a tensor that is not float64 or complex128."""
    if self.dtype.name not in ("float64", "complex128"):
        raise RuntimeError(text(f"the base given to float_power_ has dtype {self.dtype.scalar_type} but the operation"
                                "'s result requires dtype Double", op="float_power_",
                                remedy="float_power, which gives another tensor"))  # fmt: skip
    return _written(self, exponent)  # type: ignore[no-any-return]


Tensor.float_power_ = float_power_  # type: ignore[assignment, method-assign]


@public(inplace=True, home="rearranged", state="quiet",
        fast=[Fast(body="scaled_by_twos(input, other)", types={"input": "piece", "other": "piece"})])  # fmt: skip
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2**other``.

    >>> import core
    >>> core.ldexp(core.tensor([1.5]), core.tensor([3]))
    tensor([12.])
    """
    need_tensors("ldexp", ("input", "other"), (input, other))
    power = pow(2.0, other)
    if other.dtype.category < 2 and input.dtype.category == 2:  # an integer exponent does not widen a half
        power = power.to(input.dtype)
    return mul(input, power, out=out)  # type: ignore[no-any-return]


def _frexp(xp: Any, x: Any) -> Any:
    mantissa, exponent = xp.frexp(wide(x))
    return rounded(mantissa, x.dtype), exponent.astype(xp.int32)


_frexp_op = operation("frexp", _frexp, outputs="mantissa exponent", returns=2,
                      vjp=(lambda g, exponent: ldexp(g[0], -exponent),),
                      samples=lambda rng: [((rng.uniform(0.6, 0.9, (3, 4)),), {})])  # fmt: skip


@public()
def frexp(input: Tensor) -> return_types.frexp:
    """Mantissas in (-1, -0.5] or [0.5, 1) and int32 exponents, with ``input = mantissa * 2**exponent``.

    >>> import core
    >>> core.frexp(core.tensor([6.0])).exponent
    tensor([3], dtype=core.int32)
    """
    if not input.is_floating_point():
        raise RuntimeError(text("torch.frexp() only supports floating-point dtypes", op="frexp", came=str(input.dtype)))
    return _ReturnFrexp(*_frexp_op(input))


def _one_kind(op: str, input: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    """Both in their promoted dtype."""
    if not isinstance(other, Tensor):
        other = from_array(backends.array_module(input.device.type).asarray(other, input._a.dtype), input.device)
    d = dtypes.result_type(*_groups(input, other), [])
    return input.to(d), other.to(d)


def _groups(*tensors: Tensor) -> tuple[list[dtypes.dtype], list[dtypes.dtype]]:
    return [t.dtype for t in tensors if t.ndim], [t.dtype for t in tensors if not t.ndim]


_nextafter = operation("nextafter", lambda xp, a, b: xp.nextafter(a, b), inputs="a b",
                       vjp=(lambda g, a_shape: g.sum_to_size(a_shape),
                            lambda g, b_shape: (0.0 * g).sum_to_size(b_shape)),
                       samples=lambda rng: [((rng.uniform(1, 2, 4), rng.uniform(3, 4, 4)), {})])  # fmt: skip


@public(inplace=True)
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the next number of the dtype after `input` towards `other`.

    >>> import core
    >>> bool(core.nextafter(core.tensor(1.0), core.tensor(2.0)) > 1)
    True
    """
    need_tensors("nextafter", ("input", "other"), (input, other))
    a, b = _one_kind("nextafter", input, other)
    if a.dtype.category != 2:
        raise NotImplementedError(text(f"\"nextafter_cpu\" not implemented for '{a.dtype.scalar_type}'", op="nextafter",
                                       needed="a floating dtype"))  # fmt: skip
    return into(out, _nextafter(a, b), "nextafter")


@public()
def isreal(input: Tensor) -> Tensor:
    """Return whether the imaginary part is 0.

    >>> import core
    >>> core.isreal(core.tensor([1.0]))
    tensor([True])
    """
    xp = backends.array_module(input.device.type)
    return from_array(xp.isreal(input._a) if input.is_complex() else xp.ones(input._a.shape, bool), input.device)
