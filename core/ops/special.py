"""Special functions: gamma and zeta, error functions, Bessel functions; `core.special` shows them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backends
from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.modes import state as mode
from ..base.shape import broadcast_shapes
from ..declare.expr import s
from ..declare.kinds import Operand
from ..dispatch.declare import elementwise, operation
from ..dispatch.operands import need_tensors
from ..dispatch.out import into
from ..dispatch.publish import bind
from ..tensors.tensor import Tensor, from_array
from . import bessel_math, gamma_math
from .elementwise import exp
from .where import where

shown: dict[str, Callable[..., Any]] = {}  # what core.special shows, by name


def _floating(input: Any, name: str) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input if input.dtype.category >= 2 else input.to(dtypes.get_default_dtype())


def _show(function: Callable[..., Any], name: str, doc: str, example: str, aliases: tuple[str, ...],
          top: tuple[str, ...]) -> None:  # fmt: skip
    """Make a function public in `core.special`, and under the names of `top` in core and as methods."""
    call, _, result = example.partition(" -> ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{doc}\n\n    *Shapes*: those of the input; integers become the default dtype.\n\n"
        f"    >>> import core\n    >>> core.special.{name}({call})\n    {result}\n    "
    )
    for n in (name, *aliases):
        shown[n] = function
    for n in top:
        bind(function, n, inplace=True)


def _unary(name: str, compute: Callable[..., Any], low: float, high: float, doc: str, example: str, *, vjp: Any,
           aliases: tuple[str, ...] = (), top: tuple[str, ...] = ()) -> Any:  # fmt: skip
    """Declare a function of one number, computed in float64 and rounded once."""

    def forward(xp: Any, x: Any) -> Any:
        return xp.asarray(compute(xp, x.astype(np.float64))).astype(x.dtype)

    op = operation(name, forward, vjp=vjp, doc=doc, recorded=True,
                   samples=lambda rng: [((rng.uniform(low, high, (3, 4)),), {})])  # fmt: skip

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        return into(out, op(_floating(input, name)), name)

    function.op = op  # type: ignore[attr-defined]
    _show(function, name, doc, example, aliases, top)
    return function


# -- elementwise expressions -------------------------------------------------------------------------------------------

_INV_ROOT_2, _INV_ROOT_2PI = 1 / math.sqrt(2), 1 / math.sqrt(2 * math.pi)

ndtr = elementwise(
    "ndtr",
    lambda x: 0.5 * s.erfc(-_INV_ROOT_2 * x),
    out="float",
    public=False,
    vjp=lambda g, x: g * (_INV_ROOT_2PI * s.exp(-0.5 * (x * x))),
    doc="The normal distribution function.",
    example=("core.tensor([0.0, 1.0])", "tensor([0.5000, 0.8413])"),
    namespace="special",
)
entr = elementwise("entr", lambda x: s.where(x > 0.0, -x * s.log(x), s.where(x < 0.0, -math.inf, 0.0 * x)), out="float",
                   vjp=lambda g, x: g * (-s.log(x) - 1.0), public=False, domain=(0.2, 3.0),
                   doc="-x log(x), which is 0 at 0 and -inf below.",
                   example=("core.tensor([0.0, 1.0])", "tensor([0., -0.])"), namespace="special")  # fmt: skip
xlog1py = elementwise(
    "xlog1py",
    lambda a, b: s.where((a == 0.0) & (b == b), 0.0 * a, a * s.log1p(b)),
    out="float",
    vjp=(lambda g, a, b: s.where((a == 0.0) & (b <= -1.0), 0.0, g * s.log1p(b)), lambda g, a, b: g * a / (b + 1.0)),
    domain=((0.2, 3.0), (-0.5, 3.0)),
    public=False,
    doc="a log(1 + b), which is 0 where a is 0.",
    example=("core.tensor([0.0]), core.tensor([-1.0])", "tensor([0.])"),
    namespace="special",
)
shown |= {"ndtr": ndtr, "entr": entr, "xlog1py": xlog1py}

# -- gamma and zeta ----------------------------------------------------------------------------------------------------

_polygamma_op: Any = operation(
    "polygamma",
    lambda xp, x, n: xp.asarray(_polygamma_at(xp, n, x.astype(np.float64))).astype(x.dtype),
    params={"n": 1},
    vjp=lambda g, x, n: g * _polygamma_op(x, n=n + 1),
    samples=lambda rng: [((rng.uniform(0.6, 5, (3, 4)),), {"n": n}) for n in (1, 3)],
)


def _polygamma_at(xp: Any, n: int, x: Any) -> Any:
    y = (-1) ** (n + 1) * math.factorial(n) * gamma_math.zeta(xp, xp.full_like(x, n + 1), x)
    return xp.where(xp.isneginf(x), math.nan, y) if n == 1 else y


digamma = _unary("digamma", gamma_math.digamma, 0.6, 5, "The logarithmic derivative of the gamma function.",
                 "core.tensor([1.0, 0.5]) -> tensor([-0.5772, -1.9635])", vjp=lambda g, x: g * _polygamma_op(x, n=1),
                 aliases=("psi",), top=("digamma",))  # fmt: skip
gammaln = _unary("lgamma", gamma_math.lgamma, 0.6, 5, "The logarithm of the absolute value of the gamma function.",
                 "core.tensor([1.0, 0.5]) -> tensor([0.0000, 0.5724])", vjp=lambda g, x: g * digamma(x),
                 aliases=("gammaln",), top=("lgamma",))  # fmt: skip
gammaln.__doc__ = gammaln.__doc__.replace("special.lgamma", "special.gammaln")
del shown["lgamma"]


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the `n`-th derivative of `digamma`, from ζ(n + 1, x). *Raises*: RuntimeError for a negative `n`.

    >>> import core
    >>> core.special.polygamma(1, core.tensor([1.0]))
    tensor([1.6449])
    """
    if isinstance(n, Tensor):  # x.polygamma(n)
        n, input = input, n
    if n < 0:
        raise RuntimeError(text("polygamma(n, x) does not support negative n.", op="polygamma", came=f"n={n}"))
    return digamma(input, out=out) if n == 0 else into(out, _polygamma_op(_floating(input, "polygamma"), n=int(n)))  # type: ignore[no-any-return]


bind(polygamma, "polygamma", inplace=True)
shown["polygamma"] = polygamma


def _pair(name: str, input: Any, other: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of their promoted floating dtype."""
    tensors = [t for t in (input, other) if isinstance(t, Tensor)]
    if not tensors:
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    numbers = [dtypes.of_number(t) for t in (input, other) if not isinstance(t, Tensor)]
    d = dtypes.result_type([t.dtype for t in tensors if t.ndim], [t.dtype for t in tensors if not t.ndim], numbers)
    d = dtypes.get_default_dtype() if d.category < 2 else d
    xp = backends.array_module(tensors[0].device.type)
    a, b = (t if isinstance(t, Tensor) else from_array(xp.asarray(float(t)), tensors[0].device) for t in (input, other))
    broadcast_shapes(a._a.shape, b._a.shape, op=name)
    return a.to(d), b.to(d)


def _of_second(name: str, input: Any, other: Any) -> tuple[Tensor, Tensor]:
    """Both operands; NotImplementedError where the gradient of the first is wanted, which has no closed form."""
    if mode.enabled and isinstance(input, Tensor) and input.requires_grad:
        raise NotImplementedError(text(f"the derivative for '{name}: input' is not implemented.", op=name,
                                remedy="input.detach()"))  # fmt: skip
    return _pair(name, input, other)


_zeta_op: Any = operation(
    "zeta",
    lambda xp, x, q: xp.asarray(gamma_math.zeta(xp, x.astype(np.float64), q.astype(np.float64))).astype(q.dtype),
    inputs="x q",
    vjp=(None, lambda g, x, q, q_shape: (g * -x * _zeta_op(x + 1, q)).sum_to_size(q_shape)),
    samples=lambda rng: [
        ((rng.uniform(1.5, 5, (3, 4)), rng.uniform(0.5, 5, (3, 4))), {}),
        ((rng.uniform(1.5, 5, (3, 1)), rng.uniform(0.5, 5, (4,))), {}),
    ],
)


def zeta(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz's zeta function Σ (other + k)**-input over k >= 0.

    >>> import core
    >>> core.special.zeta(core.tensor([2.0]), core.tensor([1.0]))
    tensor([1.6449])
    """
    return into(out, _zeta_op(*_of_second("zeta", input, other)), "zeta")


shown["zeta"] = zeta


def _gamma_op(name: str, which: int, sign: float) -> Any:
    return operation(
        name, lambda xp, a, x: xp.asarray(gamma_math.gamma_pair(xp, a, x)[which]).astype(x.dtype), inputs="a x",
        vjp=(None, lambda g, a, x, x_shape: (g * sign * exp((a - 1) * x.log() - x - gammaln(a))).sum_to_size(x_shape)),
        samples=lambda rng: [((rng.uniform(0.5, 5, (3, 4)), rng.uniform(0.5, 5, (3, 4))), {})])  # fmt: skip


_lower, _upper = _gamma_op("gammainc", 0, 1.0), _gamma_op("gammaincc", 1, -1.0)


def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the regularised lower incomplete gamma function P(input, other); the gradient is that of `other`.

    >>> import core
    >>> core.special.gammainc(core.tensor([1.0]), core.tensor([1.0]))
    tensor([0.6321])
    """
    need_tensors("igamma", ("input", "other"), (input, other))
    return into(out, _lower(*_of_second("gammainc", input, other)), "gammainc")


def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the regularised upper incomplete gamma function Q(input, other) = 1 - P; the gradient is that of `other`.

    >>> import core
    >>> core.special.gammaincc(core.tensor([1.0]), core.tensor([1.0]))
    tensor([0.3679])
    """
    need_tensors("igammac", ("input", "other"), (input, other))
    return into(out, _upper(*_of_second("gammaincc", input, other)), "gammaincc")


bind(gammainc, "igamma", inplace=True)
bind(gammaincc, "igammac", inplace=True)
shown |= {"gammainc": gammainc, "gammaincc": gammaincc}


def multigammaln(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension `p`.

    *Raises*: RuntimeError for a `p` below 1.

    >>> import core
    >>> core.special.multigammaln(core.tensor([2.0]), 2)
    tensor([0.4516])
    """
    if isinstance(input, Tensor) and input.dtype is dtypes.bool_:
        raise RuntimeError(text("The input tensor may not be a boolean tensor.", op="mvlgamma", remedy="x.float()"))
    x = _floating(input, "mvlgamma") + 0.0  # -0.0 is 0.0 here
    if p < 1:
        raise RuntimeError(text("p has to be greater than or equal to 1", op="mvlgamma", came=f"p={p}"))
    total = gammaln(x)
    for j in range(1, p):
        total = total + gammaln(x - 0.5 * j)
    return into(out, total + 0.25 * p * (p - 1) * math.log(math.pi), "mvlgamma")


bind(multigammaln, "mvlgamma", inplace=True)
shown["multigammaln"] = multigammaln

# -- error functions ---------------------------------------------------------------------------------------------------

erfcx = _unary("erfcx", gamma_math.erfcx, -2, 4, "exp(x²) erfc(x), without underflow.",
               "core.tensor([0.0, 10.0]) -> tensor([1.0000, 0.0561])",
               vjp=lambda g, x, y: g * (2 * x * y - 2 / math.sqrt(math.pi)))  # fmt: skip
ndtri = _unary("ndtri", gamma_math.ndtri, 0.1, 0.9, "The inverse of the normal distribution function.",
               "core.tensor([0.5, 0.975]) -> tensor([-0.0000, 1.9600])",
               vjp=lambda g, y: g * (math.sqrt(2 * math.pi) * exp(0.5 * y * y)))  # fmt: skip
log_ndtr = _unary("log_ndtr", gamma_math.log_ndtr, -4, 3, "The logarithm of the normal distribution function.",
                  "core.tensor([0.0, -10.0]) -> tensor([ -0.6931, -53.2313])",
                  vjp=lambda g, x: g * (math.sqrt(2 / math.pi) / erfcx(x * -_INV_ROOT_2)))  # fmt: skip

# -- Bessel functions --------------------------------------------------------------------------------------------------


def _over(y: Tensor, x: Tensor, at_zero: float) -> Tensor:
    """y / x, and its limit where x is 0."""
    none = x.detach() == 0
    return where(none, at_zero, y / where(none, 1.0, x))  # type: ignore[no-any-return]


def _bessel(
    name: str,
    compute: Callable[..., Any],
    order: int,
    low: float,
    high: float,
    doc: str,
    result: str,
    vjp: Any,
    top: tuple[str, ...] = (),
) -> Any:
    return _unary(
        name,
        lambda xp, x: compute(xp, order, x),
        low,
        high,
        doc,
        f"core.tensor([1.0]) -> tensor([{result}])",
        vjp=vjp,
        top=top,
    )


i0: Any = _bessel(
    "i0",
    bessel_math.bessel_i,
    0,
    -3,
    3,
    "The modified Bessel function of the first kind, order 0.",
    "1.2661",
    lambda g, x: g * i1(x),
    ("i0",),
)
i1: Any = _bessel(
    "i1",
    bessel_math.bessel_i,
    1,
    0.3,
    3,
    "The modified Bessel function of the first kind, order 1.",
    "0.5652",
    lambda g, x, y: g * (i0(x) - _over(y, x, 0.5)),
)
i0e: Any = _bessel("i0e", bessel_math.bessel_i_scaled, 0, 0.3, 3, "exp(-|x|) i0(x).", "0.4658",
              lambda g, x, y: g * (i1e(x) - x.sign() * y))  # fmt: skip
i1e: Any = _bessel("i1e", bessel_math.bessel_i_scaled, 1, 0.3, 3, "exp(-|x|) i1(x).", "0.2079",
              lambda g, x, y: g * (i0e(x) - x.sign() * y - _over(y, x, 0.5)))  # fmt: skip
bessel_j0: Any = _bessel(
    "bessel_j0",
    bessel_math.bessel_j,
    0,
    0.3,
    30,
    "The Bessel function of the first kind, order 0.",
    "0.7652",
    lambda g, x: -g * bessel_j1(x),
)
bessel_j1: Any = _bessel(
    "bessel_j1",
    bessel_math.bessel_j,
    1,
    0.3,
    30,
    "The Bessel function of the first kind, order 1.",
    "0.4401",
    lambda g, x, y: g * (bessel_j0(x) - _over(y, x, 0.5)),
)
bessel_y0: Any = _bessel(
    "bessel_y0",
    bessel_math.bessel_y,
    0,
    0.3,
    30,
    "The Bessel function of the second kind, order 0.",
    "0.0883",
    lambda g, x: -g * bessel_y1(x),
)
bessel_y1: Any = _bessel(
    "bessel_y1",
    bessel_math.bessel_y,
    1,
    0.3,
    30,
    "The Bessel function of the second kind, order 1.",
    "-0.7812",
    lambda g, x, y: g * (bessel_y0(x) - y / x),
)
k0e: Any = _bessel("scaled_modified_bessel_k0", bessel_math.bessel_k_scaled, 0, 0.3, 5,
              "exp(x) K(x), the modified Bessel function of the second kind of order 0.", "1.1445",
              lambda g, x, y: g * (y - k1e(x)))  # fmt: skip
k1e: Any = _bessel("scaled_modified_bessel_k1", bessel_math.bessel_k_scaled, 1, 0.3, 5,
              "exp(x) K(x), the modified Bessel function of the second kind of order 1.", "1.6362",
              lambda g, x, y: g * (y - k0e(x) - y / x))  # fmt: skip
k0: Any = _bessel(
    "modified_bessel_k0",
    lambda xp, n, x: xp.exp(-x) * bessel_math.bessel_k_scaled(xp, n, x),
    0,
    0.3,
    5,
    "The modified Bessel function of the second kind, order 0.",
    "0.4210",
    lambda g, x: -g * k1(x),
)
k1: Any = _bessel("modified_bessel_k1", lambda xp, n, x: xp.exp(-x) * bessel_math.bessel_k_scaled(xp, n, x), 1, 0.3, 5,
             "The modified Bessel function of the second kind, order 1.", "0.6019",
             lambda g, x, y: -g * (k0(x) + y / x))  # fmt: skip
shown |= {"modified_bessel_i0": i0, "modified_bessel_i1": i1}
spherical_bessel_j0 = _unary(
    "spherical_bessel_j0", bessel_math.spherical_j0, 0.6, 9, "The spherical Bessel function of order 0, sin(x) / x.",
    "core.tensor([1.0]) -> tensor([0.8415])", vjp=lambda g, x, y: g * _over(x.cos() - y, x, 0.0))  # fmt: skip

airy_ai = _unary(
    "airy_ai", bessel_math.airy, -3, 3, "Airy's function Ai.", "core.tensor([0.0]) -> tensor([0.3550])", vjp=None
)


def softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None) -> Tensor:
    """`core.softmax`.

    >>> import core
    >>> core.special.softmax(core.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return input.softmax(dim, dtype=dtype)  # type: ignore[no-any-return]


def log_softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None) -> Tensor:
    """`core.log_softmax`.

    >>> import core
    >>> core.special.log_softmax(core.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    return input.log_softmax(dim, dtype=dtype)  # type: ignore[no-any-return]


shown |= {"softmax": softmax, "log_softmax": log_softmax}
