"""KL divergences by pairs of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ops.where import where
from ..tensors.tensor import Tensor
from .continuous import Exponential, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Uniform
from .discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution, summed
from .gamma import Beta, Dirichlet, Gamma
from .independent import Independent
from .multivariate_normal import MultivariateNormal, kl_of

_EULER = 0.57721566490153286060
_table: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[..., Any]:
    """Decorator: the function gives KL(p ‖ q) for these classes and those below them.

    >>> import core
    >>> class Mine(core.distributions.Normal):
    ...     pass
    >>> @core.distributions.register_kl(Mine, Mine)
    ... def kl(p, q):
    ...     return p.loc - q.loc
    >>> core.distributions.kl_divergence(Mine(3.0, 1.0), Mine(1.0, 1.0))
    tensor(2.)
    """
    for name, t in (("type_p", type_p), ("type_q", type_q)):
        if not (isinstance(t, type) and issubclass(t, Distribution)):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {t}")

    def decorate(function: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
        _table[type_p, type_q] = function
        return function

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) = ∫ p log(p / q), by the formula of the closest registered pair of classes.

    *Raises*: NotImplementedError for a pair without one.

    >>> import core
    >>> d = core.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    lines_p, lines_q = type(p).__mro__, type(q).__mro__
    found = [(lines_p.index(a) + lines_q.index(b), a, b) for a, b in _table if a in lines_p and b in lines_q]
    if not found:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
                                  f"{type(q).__name__}\n  remedy: core.distributions.register_kl")  # fmt: skip
    _, a, b = min(found, key=lambda row: row[0])
    return _table[a, b](p, q)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    off = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + off - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p._normal, q._normal)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    up, down = p.probs, 1 - p.probs

    def side(share: Tensor, own: Tensor, other: Tensor) -> Tensor:
        return where(share == 0, 0.0, where(other == 0, math.inf, share * (own.log() - other.log())))

    return side(up, up, q.probs) + side(down, down, 1 - q.probs)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = where((q.probs == 0).expand(t.shape), math.inf, t)
    return where((p.probs == 0).expand(t.shape), 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, off = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * (-off / p.scale).exp() - 1


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, at_q = p.scale / q.scale, q.loc / q.scale
    at_p = p.loc / q.scale
    grown = (at_q + (1 + ratio).lgamma() - at_p).exp()
    return -ratio.log() - at_q + at_p + ratio * _EULER + grown - (1 + _EULER)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    spread = (width / q.scale).square() / 12
    off = ((p.high + p.low - 2 * q.loc) / q.scale / 2).square()
    return (q.scale * math.sqrt(2 * math.pi) / width).log() + 0.5 * (spread + off)


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Tensor:
    variance, rate2 = q.scale.square(), p.rate.square()
    first = 0.5 * (rate2 * variance * 2 * math.pi).log()
    return first - 1 + (1 / rate2 - q.loc / p.rate + q.loc.square() / 2) / variance


@register_kl(Laplace, Normal)
def _laplace_normal(p: Laplace, q: Normal) -> Tensor:
    variance = q.scale.square()
    ratio = p.scale.square() / variance
    return -0.5 * (2 * ratio / math.pi).log() + 0.5 * p.loc.square() / variance - p.loc * q.loc / variance \
        + 0.5 * q.loc.square() / variance + ratio - 1  # fmt: skip


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    off = p.loc - q.loc
    share = off / p.scale
    reach = math.sqrt(2 / math.pi) * p.scale * (-0.5 * share.square()).exp() + off * (share * math.sqrt(0.5)).erf()
    return -(p.scale / q.scale).log() + reach / q.scale - 0.5 * math.log(0.5 * math.pi) - 0.5


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    scales = b * (p.rate / q.rate).log() + (q.rate - p.rate) * (a / p.rate)
    return scales + b.lgamma() - a.lgamma() + (a - b) * a.digamma()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    rest = (a.lgamma() - b.lgamma()).sum(-1)
    drift = (a - b) * (a.digamma() - a.sum(-1, keepdim=True).digamma())
    return a.sum(-1).lgamma() - b.sum(-1).lgamma() - rest + drift.sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    return kl_of(p, q)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL(p || q) of Independent needs the same number of reinterpreted dimensions, got "
                                  f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}")  # fmt: skip
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
