"""The elementwise ops, one declaration each: the function, its gradient, where tests sample it."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from ..base.dtypes import complex64, float32, get_default_dtype, of_number, promote_types
from ..base.errors import text
from ..base.scalars import element
from ..declare.expr import Expr, s
from ..declare.kinds import Operand
from ..declare.signature import Fast
from ..dispatch.autocast import behind
from ..dispatch.declare import elementwise
from ..dispatch.operands import need_tensors
from ..dispatch.out import into
from ..dispatch.publish import bind, bind_operator, bind_square, public
from ..tensors.tensor import Tensor, from_array
from .constant import constant
from .creation import tensor
from .formulas import ROOT_PI, TWO_OVER_ROOT_PI, inverse_erf, no_slope, signum

INV_ROOT_2 = 1 / math.sqrt(2)
INV_ROOT_2PI = 1 / math.sqrt(2 * math.pi)
ROOT_2_OVER_PI = math.sqrt(2 / math.pi)


def tanh_slope(g: Any, y: Any) -> Any:
    """g (1 - y^2), the gradient of tanh. On tensors it is one op, not three: a graph of gradients of gradients, as nets
    for differential equations have it, stays small."""
    return g * (1.0 - y * y) if isinstance(g, Expr) or isinstance(y, Expr) else _tanh_gradient(g, y)


def tanh_curve(a: Any, b: Any, c: Any) -> Any:
    """-2 a b c, the gradient of that in y; on tensors one op."""
    return -2.0 * (a * b * c) if builtins.any(isinstance(t, Expr) for t in (a, b, c)) else _tanh_curve(a, b, c)


# -- arithmetic --------------------------------------------------------------------------------------------------------

mul = elementwise("mul", lambda a, b: a * b, vjp=(lambda g, b: g * b, lambda g, a: g * a), aliases=("multiply",),
                  doc="The product.", example=("core.tensor([1.0, 2.0]), 3", "tensor([3., 6.])"))  # fmt: skip
div_ = elementwise("true_divide", lambda a, b: a / b, out="float", domain=((-3.0, 3.0), (0.5, 3.0)),
                   vjp=(lambda g, b: g / b, lambda g, a, b: -g * (a / b) / b),
                   label="div", doc="The quotient; of integers too a floating one.",
                   example=("core.tensor([1, 2]), 4", "tensor([0.2500, 0.5000])"))  # fmt: skip
neg = elementwise("neg", lambda x: -x, vjp=lambda g: -g, aliases=("negative",), doc="The negative.",
                  example=("core.tensor([1.0, -2.0])", "tensor([-1.,  2.])"))  # fmt: skip
abs = elementwise("abs", lambda x: s.abs(x), vjp=lambda g, x: g * signum(x), aliases=("absolute",), piecewise=True,
                  domain=(0.2, 3.0), doc="The absolute value; its gradient at 0 is 0.",
                  example=("core.tensor([-1.5, 2.0])", "tensor([1.5000, 2.0000])"))  # fmt: skip
square = elementwise("square", lambda x: x * x, out="number", vjp=lambda g, x: g * (2.0 * x), label="pow", doc="The square.",
                     example=("core.tensor([-2.0, 3.0])", "tensor([4., 9.])"))  # fmt: skip
_cube = elementwise("cube", lambda x: x * x * x, out="float", vjp=lambda g, x: g * (3.0 * (x * x)), public=False, label="pow",
                    doc="The third power.")  # fmt: skip
reciprocal = elementwise("reciprocal", lambda x: 1.0 / x, out="float", vjp=lambda g, y: -g * y * y, domain=(0.5, 3.0),
                         doc="One over x.", example=("core.tensor([2.0, 4.0])", "tensor([0.5000, 0.2500])"))  # fmt: skip
_add = elementwise("add", lambda a, b: a + b, vjp=(lambda g: g, lambda g: g), doc="The sum.",
                   example=("core.tensor([1.0, 2.0]), 1", "tensor([2., 3.])"))  # fmt: skip
_sub = elementwise("sub", lambda a, b: a - b, vjp=(lambda g: g, lambda g: -g), doc="The difference.",
                   aliases=("subtract",), example=("core.tensor([1.0, 2.0]), 1", "tensor([0., 1.])"))  # fmt: skip
remainder = elementwise("remainder", lambda a, b: a % b, domain=((0.1, 0.9), (1.0, 3.0)),
                        vjp=(lambda g: g, lambda g, a, b: -g * (s.floor(a / b) + 0.0 * a)),  # NaN of an infinite dividend
                        doc="The remainder of the floored division; its sign is the divisor's.",
                        example=("core.tensor([-3.0, 3.0]), 2", "tensor([1., 1.])"))  # fmt: skip
fmod = elementwise("fmod", lambda a, b: s.fmod(a, b), domain=((0.1, 0.9), (1.0, 3.0)),
                   vjp=(lambda g: g, lambda g, a, b: -g * s.trunc(a / b)),
                   doc="The remainder of the truncated division; its sign is the dividend's.",
                   tensors=("input",), example=("core.tensor([-3.0, 3.0]), 2", "tensor([-1.,  1.])"))  # fmt: skip
floor_divide = elementwise("floor_divide", lambda a, b: a // b, domain=((0.1, 0.9), (1.0, 3.0)),
                           doc="The quotient, rounded down.",
                           example=("core.tensor([-3.0, 3.0]), 2", "tensor([-2.,  1.])"))  # fmt: skip
pow_tensor = elementwise("pow_tensor", lambda a, b: a**b, domain=((0.5, 3.0), (-2.0, 2.0)), public=False,
                         vjp=(lambda g, a, b: s.where(b == 0.0, 0.0, g * b * a ** (b - 1.0)),
                              lambda g, a, b, y: s.where((a == 0.0) & (s.abs(b) == b), 0.0, g * y * s.log(a))),
                         label="pow", doc="a to the power b, both tensors.")  # fmt: skip
pow_scalar = elementwise("pow_scalar", lambda x, exponent: x**exponent, params={"exponent": 2.0}, public=False,
                         domain=(0.5, 3.0), label="pow", doc="x to the power of a number.",
                         vjp=lambda g, x, exponent: s.where(exponent == 0.0, 0.0 * g, g * (exponent * x ** (exponent - 1.0))))  # fmt: skip
scalar_pow = elementwise("scalar_pow", lambda x, base: base**x, params={"base": 2.0}, public=False,
                         vjp=lambda g, y, base: g * (y * s.log(base + 0.0 * y)), label="pow", doc="A number to the power x.")  # fmt: skip
lerp = elementwise("lerp", lambda a, b, weight: s.where(s.abs(weight) < 0.5, a + weight * (b - a), b - (b - a) * (1.0 - weight)),
                   doc="a + weight * (b - a), computed from the nearer end.",
                   vjp=(lambda g, weight: g * (1.0 - weight), lambda g, weight: g * weight, lambda g, a, b: g * (b - a)),
                   example=("core.tensor([0.0]), core.tensor([10.0]), 0.5", "tensor([5.])"))  # fmt: skip

# -- powers and logarithms ---------------------------------------------------------------------------------------------

exp = elementwise("exp", lambda x: s.exp(x), out="float", vjp=lambda g, y: g * y, domain=(-8.0, 8.0),
                  doc="The exponential.", example=("core.tensor([0.0, 1.0])", "tensor([1.0000, 2.7183])"))  # fmt: skip
exp2 = elementwise("exp2", lambda x: s.exp2(x), out="float", vjp=lambda g, y: g * (y * math.log(2)), domain=(-8.0, 8.0),
                   doc="Two to the power x.", example=("core.tensor([0.0, 3.0])", "tensor([1., 8.])"))  # fmt: skip
expm1 = elementwise("expm1", lambda x: s.expm1(x), out="float", vjp=lambda g, y: g * (y + 1.0),
                    doc="exp(x) - 1, exact near 0.", example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 1.7183])"))  # fmt: skip
log = elementwise("log", lambda x: s.log(x), out="float", vjp=lambda g, x: g / x, domain=(0.1, 8.0),
                  doc="The natural logarithm.", example=("core.tensor([1.0, 10.0])", "tensor([0.0000, 2.3026])"))  # fmt: skip
log2 = elementwise("log2", lambda x: s.log2(x), out="float", vjp=lambda g, x: g / (x * math.log(2)), domain=(0.1, 8.0),
                   doc="The logarithm to base 2.", example=("core.tensor([1.0, 8.0])", "tensor([0., 3.])"))  # fmt: skip
log10 = elementwise("log10", lambda x: s.log10(x), out="float", vjp=lambda g, x: g / (x * math.log(10)),
                    domain=(0.1, 8.0), doc="The logarithm to base 10.",
                    example=("core.tensor([1.0, 100.0])", "tensor([0., 2.])"))  # fmt: skip
log1p = elementwise("log1p", lambda x: s.log1p(x), out="float", vjp=lambda g, x: g / (x + 1.0), domain=(-0.5, 8.0),
                    doc="log(1 + x), exact near 0.", example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 0.6931])"))  # fmt: skip
sqrt = elementwise("sqrt", lambda x: s.sqrt(x), out="float", vjp=lambda g, y: g / (2.0 * y), domain=(0.1, 8.0),
                   doc="The square root.", example=("core.tensor([4.0, 9.0])", "tensor([2., 3.])"))  # fmt: skip
_square_root = elementwise("pow_half", lambda x: s.sqrt(x), out="float", vjp=lambda g, y: g / (2.0 * y), domain=(0.1, 8.0),
                           public=False, label="pow", doc="x to the power of one half.")  # fmt: skip
rsqrt = elementwise("rsqrt", lambda x: s.rsqrt(x), out="float", vjp=lambda g, y: -0.5 * g * (y * y * y),
                    domain=(0.1, 8.0), doc="One over the square root.",
                    example=("core.tensor([4.0, 16.0])", "tensor([0.5000, 0.2500])"))  # fmt: skip

# -- trigonometric and hyperbolic ---------------------------------------------------------------------------------------

sin = elementwise("sin", lambda x: s.sin(x), out="float", vjp=lambda g, x: g * s.cos(x), domain=(-6.0, 6.0),
                  doc="The sine (radians).", example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 0.8415])"))  # fmt: skip
cos = elementwise("cos", lambda x: s.cos(x), out="float", vjp=lambda g, x: -g * s.sin(x), domain=(-6.0, 6.0),
                  doc="The cosine (radians).", example=("core.tensor([0.0, 1.0])", "tensor([1.0000, 0.5403])"))  # fmt: skip
tan = elementwise("tan", lambda x: s.tan(x), out="float", vjp=lambda g, y: g * (1.0 + y * y), domain=(-1.2, 1.2),
                  doc="The tangent (radians).", example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 1.5574])"))  # fmt: skip
asin = elementwise("asin", lambda x: s.asin(x), out="float", vjp=lambda g, x: g * s.rsqrt(1.0 - x * x),
                   domain=(-0.9, 0.9), aliases=("arcsin",), doc="The inverse sine.",
                   example=("core.tensor([0.0, 0.5])", "tensor([0.0000, 0.5236])"))  # fmt: skip
acos = elementwise("acos", lambda x: s.acos(x), out="float", vjp=lambda g, x: -g * s.rsqrt(1.0 - x * x),
                   domain=(-0.9, 0.9), aliases=("arccos",), doc="The inverse cosine.",
                   example=("core.tensor([1.0, 0.5])", "tensor([0.0000, 1.0472])"))  # fmt: skip
atan = elementwise("atan", lambda x: s.atan(x), out="float", vjp=lambda g, x: g / (1.0 + x * x), aliases=("arctan",),
                   doc="The inverse tangent.", example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 0.7854])"))  # fmt: skip
atan2 = elementwise("atan2", lambda a, b: s.atan2(a, b), out="float", aliases=("arctan2",), domain=(0.2, 3.0),
                    vjp=(lambda g, a, b: s.where((a == 0.0) & (b == 0.0), 0.0, g * b / (a * a + b * b)),
                         lambda g, a, b: s.where((a == 0.0) & (b == 0.0), 0.0, -g * a / (a * a + b * b))),
                    doc="The angle of the point (b, a).",
                    tensors=("input", "other"), example=("core.tensor([1.0]), core.tensor([1.0])", "tensor([0.7854])"))  # fmt: skip
sinh = elementwise("sinh", lambda x: s.sinh(x), out="float", vjp=lambda g, x: g * s.cosh(x), doc="The hyperbolic sine.",
                   example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 1.1752])"))  # fmt: skip
cosh = elementwise("cosh", lambda x: s.cosh(x), out="float", vjp=lambda g, x: g * s.sinh(x),
                   doc="The hyperbolic cosine.", example=("core.tensor([0.0, 1.0])", "tensor([1.0000, 1.5431])"))  # fmt: skip
tanh = elementwise("tanh", lambda x: s.tanh(x), out="float", vjp=lambda g, y: tanh_slope(g, y), domain=(-4.0, 4.0),
                   doc="The hyperbolic tangent.", example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 0.7616])"))  # fmt: skip
_tanh_gradient = elementwise("tanh_gradient", lambda a, y: a * (1.0 - y * y), public=False, label="tanh_backward",
                             vjp=(lambda g, y: tanh_slope(g, y), lambda g, a, y: tanh_curve(g, a, y)),
                             doc="a (1 - y^2): tanh's gradient where a comes in.")  # fmt: skip
_tanh_curve = elementwise("tanh_curve", lambda a, b, c: -2.0 * (a * b * c), public=False, label="tanh_backward",
                          vjp=(lambda g, b, c: tanh_curve(g, b, c), lambda g, a, c: tanh_curve(g, a, c),
                               lambda g, a, b: tanh_curve(g, a, b)), doc="-2 a b c.")  # fmt: skip
asinh = elementwise("asinh", lambda x: s.asinh(x), out="float", vjp=lambda g, x: g * s.rsqrt(x * x + 1.0),
                    aliases=("arcsinh",), doc="The inverse hyperbolic sine.",
                    example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 0.8814])"))  # fmt: skip
acosh = elementwise("acosh", lambda x: s.acosh(x), out="float", vjp=lambda g, x: g * s.rsqrt(x * x - 1.0),
                    domain=(1.5, 5.0), aliases=("arccosh",), doc="The inverse hyperbolic cosine.",
                    example=("core.tensor([1.0, 2.0])", "tensor([0.0000, 1.3170])"))  # fmt: skip
atanh = elementwise("atanh", lambda x: s.atanh(x), out="float", vjp=lambda g, x: g / (1.0 - x * x), domain=(-0.8, 0.8),
                    aliases=("arctanh",), doc="The inverse hyperbolic tangent.",
                    example=("core.tensor([0.0, 0.5])", "tensor([0.0000, 0.5493])"))  # fmt: skip
erf = elementwise("erf", lambda x: s.erf(x), out="float", vjp=lambda g, x: g * (TWO_OVER_ROOT_PI * s.exp(-(x * x))),
                  doc="The error function.", example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 0.8427])"))  # fmt: skip
erfc = elementwise("erfc", lambda x: s.erfc(x), out="float", vjp=lambda g, x: -g * (TWO_OVER_ROOT_PI * s.exp(-(x * x))),
                   doc="1 - erf(x), exact where it is small.",
                   example=("core.tensor([0.0, 1.0])", "tensor([1.0000, 0.1573])"))  # fmt: skip
erfinv = elementwise("erfinv", inverse_erf, out="float", domain=(-0.9, 0.9),
                     vjp=lambda g, y: g * (0.5 * ROOT_PI * s.exp(y * y)), doc="The inverse of the error function.",
                     example=("core.tensor([0.0, 0.5])", "tensor([0.0000, 0.4769])"))  # fmt: skip
hypot = elementwise("hypot", lambda a, b: s.hypot(a, b), domain=(0.3, 3.0), vjp=(lambda g, a, y: g * a / y, lambda g, b, y: g * b / y),
                    doc="sqrt(a² + b²) without overflow.",
                    tensors=("input", "other"), example=("core.tensor([3.0]), core.tensor([4.0])", "tensor([5.])"))  # fmt: skip
copysign = elementwise("copysign", lambda a, b: s.copysign(a, b), out="float", domain=((0.3, 3.0), (0.3, 3.0)),
                       vjp=(lambda g, a, y: g * s.where(a == 0.0, 0.0, y / a), lambda g: 0.0 * g),
                       doc="The magnitude of a with the sign of b.",
                       tensors=("input",), example=("core.tensor([1.0]), core.tensor([-2.0])", "tensor([-1.])"))  # fmt: skip

# -- rounding: piecewise constant, the gradient is zero -----------------------------------------------------------------

floor = elementwise("floor", lambda x: s.floor(x), vjp=no_slope, domain=(0.1, 0.9), doc="Rounded down.",
                    example=("core.tensor([-1.5, 1.5])", "tensor([-2.,  1.])"))  # fmt: skip
ceil = elementwise("ceil", lambda x: s.ceil(x), vjp=no_slope, domain=(0.1, 0.9), doc="Rounded up.",
                   example=("core.tensor([-1.5, 1.5])", "tensor([-1.,  2.])"))  # fmt: skip
trunc = elementwise("trunc", lambda x: s.trunc(x), vjp=no_slope, domain=(0.1, 0.9), aliases=("fix",),
                    doc="Rounded towards 0.", example=("core.tensor([-1.5, 1.5])", "tensor([-1.,  1.])"))  # fmt: skip
_round = elementwise("round", lambda x: s.round(x), vjp=no_slope, domain=(0.6, 0.9), public=False,
                     doc="Rounded to the nearest integer, halves to the even one.")  # fmt: skip
frac = elementwise("frac", lambda x: x - s.trunc(x), vjp=lambda g: g, domain=(0.1, 0.9), doc="The part after the point.",
                   example=("core.tensor([1.5, -2.2500])", "tensor([ 0.5000, -0.2500])"))  # fmt: skip
sign = elementwise("sign", signum, vjp=no_slope, domain=(0.2, 3.0), aliases=("sgn",),
                   doc="-1, 0 or 1; 0 of NaN.", example=("core.tensor([-2.0, 0.0, 3.0])", "tensor([-1.,  0.,  1.])"))  # fmt: skip

# -- comparison and logic ----------------------------------------------------------------------------------------------

eq = elementwise("eq", lambda a, b: a == b, out="bool", doc="Whether a equals b.",
                 tensors=("input",), example=("core.tensor([1, 2]), 2", "tensor([False,  True])"))  # fmt: skip
ne = elementwise("ne", lambda a, b: a != b, out="bool", aliases=("not_equal",), doc="Whether a differs from b.",
                 tensors=("input",), example=("core.tensor([1, 2]), 2", "tensor([ True, False])"))  # fmt: skip
lt = elementwise("lt", lambda a, b: a < b, out="bool", aliases=("less",), doc="Whether a is below b.",
                 tensors=("input",), example=("core.tensor([1, 2]), 2", "tensor([ True, False])"))  # fmt: skip
le = elementwise("le", lambda a, b: a <= b, out="bool", aliases=("less_equal",), doc="Whether a is at most b.",
                 tensors=("input",), example=("core.tensor([1, 2]), 1", "tensor([ True, False])"))  # fmt: skip
gt = elementwise("gt", lambda a, b: a > b, out="bool", aliases=("greater",), doc="Whether a is above b.",
                 tensors=("input",), example=("core.tensor([1, 2]), 1", "tensor([False,  True])"))  # fmt: skip
ge = elementwise("ge", lambda a, b: a >= b, out="bool", aliases=("greater_equal",), doc="Whether a is at least b.",
                 tensors=("input",), example=("core.tensor([1, 2]), 2", "tensor([False,  True])"))  # fmt: skip
logical_and = elementwise("logical_and", lambda a, b: a & b, bools=("a", "b"), out="bool", doc="Both are true (not 0).",
                          tensors=("input", "other"), example=("core.tensor([1, 0]), core.tensor([2, 2])", "tensor([ True, False])"))  # fmt: skip
logical_or = elementwise("logical_or", lambda a, b: a | b, bools=("a", "b"), out="bool", doc="Either is true (not 0).",
                         tensors=("input", "other"), example=("core.tensor([1, 0]), core.tensor([0, 0])", "tensor([ True, False])"))  # fmt: skip
logical_xor = elementwise("logical_xor", lambda a, b: a ^ b, bools=("a", "b"), out="bool", doc="Just one is true (not 0).",
                          tensors=("input", "other"), example=("core.tensor([1, 0]), core.tensor([2, 2])", "tensor([False,  True])"))  # fmt: skip
logical_not = elementwise("logical_not", lambda a: ~a, bools=("a",), out="bool", doc="It is false (0).",
                          example=("core.tensor([1, 0])", "tensor([False,  True])"))  # fmt: skip
isnan = elementwise("isnan", lambda x: s.isnan(x), out="bool", doc="Whether it is not a number.",
                    example=("core.tensor([1.0, 1e999 - 1e999])", "tensor([False,  True])"))  # fmt: skip
isinf = elementwise("isinf", lambda x: s.isinf(x), out="bool", doc="Whether it is infinite.",
                    example=("core.tensor([1.0, -1e999])", "tensor([False,  True])"))  # fmt: skip
isfinite = elementwise("isfinite", lambda x: s.isfinite(x), out="bool", doc="Whether it is a finite number.",
                       example=("core.tensor([1.0, 1e999 - 1e999])", "tensor([ True, False])"))  # fmt: skip
maximum = elementwise("maximum", lambda a, b: s.maximum(a, b), doc="The greater; NaN if either is. Ties share the gradient.",
                      vjp=(lambda g, a, b: g * s.where(a < b, 0.0, s.where(a == b, 0.5, 1.0)),
                           lambda g, a, b: g * s.where(b < a, 0.0, s.where(a == b, 0.5, 1.0))),
                      tensors=("input", "other"), example=("core.tensor([1.0, 5.0]), core.tensor([3.0, 2.0])", "tensor([3., 5.])"))  # fmt: skip
minimum = elementwise("minimum", lambda a, b: s.minimum(a, b), doc="The lesser; NaN if either is. Ties share the gradient.",
                      vjp=(lambda g, a, b: g * s.where(a > b, 0.0, s.where(a == b, 0.5, 1.0)),
                           lambda g, a, b: g * s.where(b > a, 0.0, s.where(a == b, 0.5, 1.0))),
                      tensors=("input", "other"), example=("core.tensor([1.0, 5.0]), core.tensor([3.0, 2.0])", "tensor([1., 2.])"))  # fmt: skip
where_ = elementwise("where", lambda condition, a, b: s.where(condition, a, b), bools=("condition",), public=False,
                     vjp=(None, lambda g, condition: s.where(condition, g, 0.0), lambda g, condition: s.where(condition, 0.0, g)),
                     doc="a where the condition holds, else b.")  # fmt: skip
# -- activations -------------------------------------------------------------------------------------------------------

sigmoid = elementwise("sigmoid", lambda x: s.sigmoid(x), out="float", vjp=lambda g, y: g * (y * (1.0 - y)), domain=(-6.0, 6.0),
                      doc="The logistic function 1 / (1 + exp(-x)).",
                      example=("core.tensor([0.0, 2.0])", "tensor([0.5000, 0.8808])"))  # fmt: skip
relu = elementwise("relu", lambda x: s.maximum(x, 0.0), vjp=lambda g, y: s.where(y <= 0.0, 0.0, g), domain=(0.2, 3.0),
                   piecewise=True, doc="max(x, 0); the gradient at 0 is 0.", example=("core.tensor([-1.0, 2.0])", "tensor([0., 2.])"))  # fmt: skip
leaky_relu = elementwise("leaky_relu", lambda x, negative_slope: s.where(x > 0.0, x, x * negative_slope),
                         params={"negative_slope": 0.01}, namespace="nn.functional", domain=(0.2, 3.0), piecewise=True,
                         vjp=lambda g, x, negative_slope: s.where(x > 0.0, g, g * negative_slope),
                         doc="x, times `negative_slope` below 0.",
                         example=("core.tensor([-1.0, 2.0]), 0.5", "tensor([-0.5000,  2.0000])"))  # fmt: skip
elu = elementwise("elu", lambda x, alpha: s.where(x > 0.0, x, alpha * s.expm1(x)), params={"alpha": 1.0},
                  vjp=lambda g, x, alpha: s.where(x <= 0.0, g * (alpha * s.exp(x)), g), namespace="nn.functional", domain=(0.2, 3.0),
                  doc="x above 0, alpha * (exp(x) - 1) below.",
                  example=("core.tensor([-1.0, 2.0])", "tensor([-0.6321,  2.0000])"))  # fmt: skip
silu = elementwise("silu", lambda x: x * s.sigmoid(x), namespace="nn.functional",
                   vjp=lambda g, x: g * (s.sigmoid(x) * (1.0 + x * (1.0 - s.sigmoid(x)))), doc="x * sigmoid(x), also called swish.",
                   example=("core.tensor([-1.0, 2.0])", "tensor([-0.2689,  1.7616])"))  # fmt: skip
softplus = elementwise("softplus", lambda x, beta, threshold: s.where(x * beta > threshold, x, s.log1p(s.exp(x * beta)) / beta),
                       params={"beta": 1.0, "threshold": 20.0}, namespace="nn.functional",
                       vjp=lambda g, x, beta, threshold: s.where(x * beta > threshold, g, g * s.sigmoid(x * beta)),
                       doc="log(1 + exp(beta x)) / beta: a smooth relu; x itself where beta x passes `threshold`.",
                       example=("core.tensor([0.0, 2.0])", "tensor([0.6931, 2.1269])"))  # fmt: skip
gelu_erf = elementwise("gelu_erf", lambda x: 0.5 * x * (1.0 + s.erf(x * INV_ROOT_2)), public=False,
                       vjp=lambda g, x: g * (0.5 * (1.0 + s.erf(x * INV_ROOT_2)) + x * (INV_ROOT_2PI * s.exp(-0.5 * (x * x)))),
                       label="gelu", doc="The Gaussian error linear unit.")  # fmt: skip
gelu_tanh = elementwise("gelu_tanh", lambda x: 0.5 * x * (1.0 + s.tanh(ROOT_2_OVER_PI * (x + 0.044715 * (x * x * x)))), public=False,
                        vjp=lambda g, x: _gelu_tanh_vjp(g, x), label="gelu", doc="The Gaussian error linear unit, by tanh.")  # fmt: skip
logsigmoid = elementwise("logsigmoid", lambda x: s.minimum(x, 0.0) - s.log1p(s.exp(-s.abs(x))), namespace="nn.functional",
                         vjp=lambda g, x: g * s.sigmoid(-x), domain=(0.2, 4.0), doc="log(sigmoid(x)), exact for large -x.",
                         example=("core.tensor([0.0, 2.0])", "tensor([-0.6931, -0.1269])"))  # fmt: skip
hardtanh = elementwise("hardtanh", lambda x, min_val, max_val: s.minimum(s.maximum(x, min_val), max_val),
                       params={"min_val": -1.0, "max_val": 1.0}, namespace="nn.functional", domain=(-0.8, 0.8),
                       piecewise=True,
                       vjp=lambda g, x, min_val, max_val: s.where((x > min_val) & (x < max_val), g, 0.0),
                       doc="x, kept between `min_val` and `max_val`.",
                       example=("core.tensor([-2.0, 0.5])", "tensor([-1.0000,  0.5000])"))  # fmt: skip
relu6 = elementwise("relu6", lambda x: s.minimum(s.maximum(x, 0.0), 6.0), public=False, domain=(0.2, 5.0), piecewise=True,
                    vjp=lambda g, y: s.where((y > 0.0) & (y < 6.0), g, 0.0), label="hardtanh",
                    doc="x, kept between 0 and 6. Every type has these, so that the result tells the gradient, and x can go: "
                        "networks for phones have one behind every batch norm.")  # fmt: skip


def _gelu_tanh_vjp(g: Any, x: Any) -> Any:
    t = s.tanh(ROOT_2_OVER_PI * (x + 0.044715 * (x * x * x)))
    slope = 0.5 * x * (1.0 - t * t) * (ROOT_2_OVER_PI * (1.0 + 0.134145 * (x * x)))
    return g * (0.5 * (1.0 + t) + slope)


# -- public functions whose arguments choose among ops ------------------------------------------------------------------


def scaled(t: Any, alpha: Any) -> Any:
    """`t` times `alpha`, in the dtype of `t` where it is of bools or integers."""
    if not isinstance(t, Tensor):
        return t * alpha
    if t.dtype.category == 0:
        return t if alpha else logical_xor(t, t)
    return mul(t, alpha)


def add(input: Operand, other: Operand, *, alpha: float = 1, out: Tensor | None = None) -> Tensor:
    """Return the sum ``input + alpha * other``. Shapes broadcast.

    >>> import core
    >>> core.add(core.tensor([1.0, 2.0]), core.tensor([10.0, 10.0]), alpha=2)
    tensor([21., 22.])
    """
    return _with_alpha(_add, input, other, alpha, out)


def sub(input: Operand, other: Operand, *, alpha: float = 1, out: Tensor | None = None) -> Tensor:
    """Return the difference ``input - alpha * other``. Shapes broadcast.

    >>> import core
    >>> core.sub(core.tensor([1.0, 2.0]), 1)
    tensor([0., 1.])
    """
    return _with_alpha(_sub, input, other, alpha, out)


def _with_alpha(op: Any, input: Any, other: Any, alpha: Any, out: Tensor | None) -> Any:
    """``op(input, alpha * other)``; of half-precision tensors alpha is a number of their dtype, and the result is rounded
    once."""
    if alpha == 1:
        return op(input, other, out=out)
    d = input.dtype if isinstance(input, Tensor) and isinstance(other, Tensor) and input.dtype is other.dtype else None
    if d is None or d.category != 2 or d.itemsize != 2 or not isinstance(alpha, int | float):
        return op(input, _times_alpha(input, other, alpha), out=out)
    x, y = (t.to(float32) for t in (input, other))  # type: ignore[union-attr]
    total = op(x, mul(y, float(np.asarray(alpha).astype(d.numpy))), out=out)
    return total.to(d) if out is None else total


def _times_alpha(input: Any, other: Any, alpha: Any) -> Any:
    """``alpha * other``. *Raises*: RuntimeError for a factor that the result's dtype does not hold."""
    dtypes = [t.dtype if isinstance(t, Tensor) else of_number(t) for t in (input, other)]
    if isinstance(alpha, float) and all(d.category < 2 for d in dtypes):
        raise RuntimeError(text("For integral input tensors, argument alpha must not be a floating point number.",
                                op="add", came=f"alpha={alpha}", remedy="an int, or floating tensors"))  # fmt: skip
    found = promote_types(*dtypes)
    if isinstance(alpha, int | float) and isinstance(other, Tensor) and (found.category == 1 or found.itemsize > 2):
        element(alpha, found, "add")  # half-precision types take it as a float32
    return scaled(other, alpha)


def _detached(t: Any) -> Any:
    return t.detach() if isinstance(t, Tensor) else t  # type: ignore[attr-defined]


add.elementwise_call, sub.elementwise_call = _add.elementwise_call, _sub.elementwise_call  # type: ignore[attr-defined] # alpha is rarely given
bind(add, "add", inplace=True)
bind(sub, "sub", ("subtract",), inplace=True)


@public(inplace=True)
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """Rounded to `decimals` digits after the point (before it where negative), halves to the even neighbour.

    >>> import core
    >>> core.round(core.tensor([0.5, 1.5])), core.round(core.tensor([1.26]), decimals=1)
    (tensor([0., 2.]), tensor([1.3000]))
    """
    if not decimals:
        return _round(input, out=out)  # type: ignore[no-any-return]
    if input.dtype.category < 2:
        raise NotImplementedError(text(f"\"round_cpu\" not implemented for '{input.dtype.scalar_type}'", op="round",
                                       came=f"decimals={decimals} for {input.dtype}", remedy="x.float()"))  # fmt: skip
    scale = 10.0 ** builtins.abs(decimals)
    y = div_(_round(mul(input, scale)), scale) if decimals > 0 else mul(_round(div_(input, scale)), scale)
    return into(out, y)


@public("divide", inplace=True)
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return the quotient; with `rounding_mode` "floor" or "trunc" rounded.

    >>> import core
    >>> core.div(core.tensor([-7.0, 7.0]), 2, rounding_mode="trunc")
    tensor([-3.,  3.])
    """
    if rounding_mode is None:
        return div_(input, other, out=out)
    if rounding_mode == "floor":
        y = floor_divide(_detached(input), _detached(other), out=out)
        return y if out is not None else constant(y, input, other)
    if rounding_mode != "trunc":
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}"
        )
    a, b = _detached(input), _detached(other)
    if any((isinstance(t, Tensor) and t.dtype.category > 1) or isinstance(t, float | complex) for t in (a, b)):
        y = trunc(div_(a, b))
    else:  # exact beyond float32's digits, where a quotient of floats is not
        a = a if isinstance(a, Tensor) else from_array(np.asarray(a, b.dtype.numpy))  # fmod takes no number there
        y = floor_divide(a - fmod(a, b), b)
    return constant(y, input, other) if out is None else into(out, y)


def _integer_power(a: Tensor, b: Tensor) -> Tensor:
    """Integers to integer powers some of which are negative: 1 and -1 stay so, all else becomes 0, as PyTorch has it."""
    sign = where_(remainder(b, 2) == 0, 1, -1)
    below = where_(a == 1, 1, where_(a == -1, sign, 0))
    return where_(b < 0, below, pow_tensor(a, where_(b < 0, 0, b)))


@public(inplace=True, home="choice",
        fast=[Fast(body="powered(elementwise.square, elementwise.cube, elementwise.pow_half, elementwise.pow_scalar, "
                        "elementwise.pow_tensor, input, exponent)", types={"input": "real"}),
              Fast(elementwise="scalar_pow(exponent, input)", types={"exponent": "real"},
                   check=("is_number(input)",))])  # fmt: skip
def pow(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """`input` to the power of `exponent`; either may be a number.

    >>> import core
    >>> core.pow(core.tensor([2.0, 3.0]), 2)
    tensor([4., 9.])
    """
    if isinstance(exponent, Tensor):
        if not isinstance(input, Tensor):
            if isinstance(input, complex) or exponent.is_complex():
                return pow_tensor(tensor(input, dtype=promote_types(exponent.dtype, complex64)), exponent, out=out)
            if isinstance(input, int | np.integer) and not exponent.is_floating_point():
                return pow_tensor(int(input), exponent, out=out)
            to = exponent.dtype if exponent.is_floating_point() else get_default_dtype()
            return scalar_pow(exponent.to(to), float(input), out=out)  # type: ignore[attr-defined]
        if input.dtype.category == exponent.dtype.category == 1 and bool((exponent._a < 0).any()):
            return into(out, _integer_power(input, exponent))
        return pow_tensor(input, exponent, out=out)
    need_tensors("pow", ("input",), (input,))
    assert isinstance(input, Tensor)
    if isinstance(exponent, complex) or not input.is_floating_point():
        if isinstance(exponent, int) and exponent < 0 and not input.is_complex():
            raise RuntimeError(
                "Integers to negative integer powers are not allowed.\n  op: pow; remedy: x.float() ** exponent"
            )
        if input.dtype.category == 1 and isinstance(exponent, int):
            element(exponent, input.dtype, "pow")
        return pow_tensor(input, exponent, out=out)
    if exponent == 2:
        return square(input, out=out)
    if exponent == 3:
        return _cube(input, out=out)  # type: ignore[no-any-return]
    if exponent == 0.5:
        return _square_root(input, out=out)  # type: ignore[no-any-return]
    return pow_scalar(input, exponent, out=out)


@public(method=False, namespace="nn.functional")
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return the Gaussian error linear unit x Φ(x); ``approximate="tanh"`` takes the tanh form. Source: arXiv
    1606.08415.

    >>> import core
    >>> core.nn.functional.gelu(core.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return (gelu_tanh if approximate == "tanh" else gelu_erf)(input)


def _operators() -> None:
    def guarded(f: Any) -> Any:
        """Operators give NotImplemented for what is no tensor or number, so that the other side gets its turn."""

        def operator(self: Tensor, other: Operand) -> Any:
            if isinstance(other, Tensor | int | float | complex) or hasattr(other, "dtype"):
                return f(self, other)
            return NotImplemented

        operator.elementwise_call = f.elementwise_call  # type: ignore[attr-defined]
        operator.__name__ = f.__name__
        return operator

    table = {
        "add": _add,
        "sub": _sub,
        "mul": mul,
        "floordiv": floor_divide,
        "mod": remainder,
        "pow": pow,
    }
    for name, f in table.items():
        bind_operator(name, f)
    # As PyTorch's: it saves neither x nor the quotient, and both may be written afterwards.
    bind_operator("truediv", div_, lambda self, other: (
        mul(reciprocal(self), other) if other.__class__ in (int, float) else div_(other, self)
    ))  # fmt: skip
    for name in ("add", "sub", "mul", "pow"):
        setattr(Tensor, f"__i{name}__", getattr(Tensor, name + "_"))
    Tensor.__ifloordiv__ = Tensor.floor_divide_  # type: ignore[assignment, method-assign]
    Tensor.__imod__ = Tensor.remainder_  # type: ignore[assignment, method-assign]
    Tensor.__itruediv__ = Tensor.__idiv__ = Tensor.div_  # type: ignore[assignment, method-assign, attr-defined]
    Tensor.__rdiv__ = Tensor.__rtruediv__  # type: ignore[attr-defined]
    for name, f in {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}.items():
        bind_operator(name, behind(guarded(f)))
    Tensor.__abs__ = abs  # type: ignore[assignment, method-assign]
    bind_operator("neg", neg)
    bind_square(square)


_operators()
