"""KL divergences between families of numbers: KL(p ‖ q) = -H(p) - E[log q(x)] over draws x of p.

What a log q has the mean of is a power, a logarithm or an exponential of x. The means of these by each p, and E[log q]
by each q in terms of them, give all pairs; `FINITE` says which of them have what they need.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...base.shape import broadcast_shapes
from ...ops.creation import full
from ...ops.where import where
from ...tensors.tensor import Tensor
from ..bernoulli import Bernoulli
from ..beta import Beta
from ..binomial import Binomial
from ..continuous_bernoulli import ContinuousBernoulli
from ..exponential import Exponential
from ..gamma import Gamma
from ..gumbel import Gumbel
from ..laplace import Laplace
from ..normal import Normal
from ..pareto import Pareto
from ..poisson import Poisson
from ..uniform import Uniform
from ..utils import euler_constant
from .registry import register_kl


def _x_log_x(high: Tensor, low: Tensor) -> Tensor:
    """Return the mean of log x between two bounds."""
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


# the mean of log x, and that of exp(-x / b)
LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _x_log_x(p.high, p.low),
}
SHRUNK: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Exponential: lambda p, b: p.rate * b / (p.rate * b + 1),
    Gamma: lambda p, b: (1 + (p.rate * b).reciprocal()).pow(-p.concentration),
    Normal: lambda p, b: ((p.scale / b).square() / 2 - p.loc / b).exp(),
    Uniform: lambda p, b: ((-p.low / b).exp() - (-p.high / b).exp()) * b / (p.high - p.low),
}


def _to_normal(p: Any, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc).square()
    return -q.scale.log() - 0.5 * math.log(2 * math.pi) - 0.5 * square / q.scale.square()


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _to_gamma(p: Any, q: Gamma) -> Tensor:
    a, b = q.concentration, q.rate
    return a * b.log() - a.lgamma() + (a - 1) * LOG[type_of(p)](p) - b * p.mean


def _to_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * LOG[type_of(p)](p) + (b - 1) * _x_log_x(1 - p.low, 1 - p.high)
    return logs + (a + b).lgamma() - a.lgamma() - b.lgamma()


def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return p.mean * q.logits + (-q.probs).log1p() + q._log_norm()


def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    grown = SHRUNK[type_of(p)](p, q.scale) * (q.loc / q.scale).exp()
    return -q.scale.log() - (p.mean - q.loc) / q.scale - grown


def _to_pareto(p: Any, q: Pareto) -> Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * LOG[type_of(p)](p)


def _to_uniform(p: Any, q: Uniform) -> Tensor:
    return -(q.high - q.low).log()


def _to_laplace(p: Normal, q: Laplace) -> Tensor:
    off = p.loc - q.loc
    share = off / p.scale
    away = math.sqrt(2 / math.pi) * p.scale * (-0.5 * share.square()).exp() + off * (share * math.sqrt(0.5)).erf()
    return -(2 * q.scale).log() - away / q.scale


def _to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return p.probs * q.rate.log() - q.rate  # 0! and 1! are 1


# by q: E[log q], where q gives 0 to what p may give, and the families p
FINITE: list[tuple[type, Callable[[Any, Any], Tensor], Callable[[Any, Any], Any], tuple[type, ...]]] = [
    (Normal, _to_normal, lambda p, q: False,
     (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform)),
    (Exponential, _to_exponential, lambda p, q: _from(p) < 0, (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)),
    (Gamma, _to_gamma, lambda p, q: _from(p) < 0, (Beta, Exponential, Pareto, Uniform)),
    (Beta, _to_beta, lambda p, q: (_from(p) < 0) | (_to(p) > 1), (Uniform,)),
    (ContinuousBernoulli, _to_continuous_bernoulli, lambda p, q: (_from(p) < 0) | (_to(p) > 1), (Beta, Uniform)),
    (Gumbel, _to_gumbel, lambda p, q: False, (Exponential, Gamma, Normal, Uniform)),
    (Pareto, _to_pareto, lambda p, q: _from(p) < q.scale, (Uniform,)),
    (Uniform, _to_uniform, lambda p, q: (_from(p) < q.low) | (_to(p) > q.high), (Beta, ContinuousBernoulli)),
    (Laplace, _to_laplace, lambda p, q: False, (Normal,)),
    (Poisson, _to_poisson, lambda p, q: False, (Bernoulli,)),
]  # fmt: skip
# p may give what q cannot, whatever their parameters
INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def type_of(p: Any) -> type:
    """Return the class of this package that p is of, or is below."""
    return next(c for c in type(p).__mro__ if c in LOG or c in SHRUNK)


def _from(p: Any) -> Any:
    """Return the least that p may give."""
    return p.low if isinstance(p, Uniform) else p.scale if isinstance(p, Pareto) else 0 * p.mean.detach()


def _to(p: Any) -> Any:
    """Return the greatest that p, on an interval, may give."""
    return p.high if isinstance(p, Uniform) else 0 * p.mean.detach() + 1


def _finite(
    type_p: type, type_q: type, mean_log: Callable[[Any, Any], Tensor], outside: Callable[[Any, Any], Any]
) -> None:
    @register_kl(type_p, type_q)
    def divergence(p: Any, q: Any) -> Tensor:
        found = -p.entropy() - mean_log(p, q)
        beyond = outside(p, q)
        return found if beyond is False else where(beyond, math.inf, found)


def _infinite(p: Any, q: Any) -> Tensor:
    shape = broadcast_shapes(p.batch_shape, q.batch_shape, op="kl_divergence")
    return full(shape, math.inf, dtype=p.mean.dtype, device=p.mean.device)


for _q, _mean_log, _outside, _families in FINITE:
    for _p in _families:
        _finite(_p, _q, _mean_log, _outside)
for _p, _qs in INFINITE.items():
    for _q in _qs:
        register_kl(_p, _q)(_infinite)
