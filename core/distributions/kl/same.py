"""KL divergences of two distributions of one family."""

from __future__ import annotations

import math

from ...base.errors import text
from ...ops.where import where
from ...tensors.tensor import Tensor
from ..bernoulli import Bernoulli
from ..beta import Beta
from ..binomial import Binomial
from ..categorical import Categorical
from ..cauchy import Cauchy
from ..continuous_bernoulli import ContinuousBernoulli
from ..dirichlet import Dirichlet
from ..exponential import Exponential
from ..gamma import Gamma
from ..geometric import Geometric
from ..gumbel import Gumbel
from ..half_normal import HalfNormal
from ..laplace import Laplace
from ..normal import Normal
from ..one_hot_categorical import OneHotCategorical
from ..pareto import Pareto
from ..poisson import Poisson
from ..uniform import Uniform
from ..utils import euler_constant
from .registry import register_kl


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    off = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + off - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    up, down = p.probs, 1 - p.probs

    def side(share: Tensor, other: Tensor) -> Tensor:
        return where(share == 0, 0.0, where(other == 0, math.inf, share * (share.log() - other.log())))

    return side(up, q.probs) + side(down, 1 - q.probs)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(text("KL between Binomials where q.total_count > p.total_count is not implemented",
                                       op="kl_divergence"))  # fmt: skip
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * each)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = where((q.probs == 0).expand(t.shape), math.inf, t)
    return where((p.probs == 0).expand(t.shape), 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    norms = p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + norms


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


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, found)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, off = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * (-off / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Source: Chyzak and Nielsen, arXiv 1905.10965."""
    wide = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return wide.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, at_q = p.scale / q.scale, q.loc / q.scale
    at_p = p.loc / q.scale
    grown = (at_q + (1 + ratio).lgamma() - at_p).exp()
    return -ratio.log() - at_q + at_p + ratio * euler_constant + grown - (1 + euler_constant)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, found)


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
