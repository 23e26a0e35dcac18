"""KL divergences of what is made of other distributions, and of any exponential family."""

from __future__ import annotations

from ...base.errors import text
from ...tensors.tensor import Tensor
from ..exp_family import ExponentialFamily
from ..independent import Independent
from ..transformed_distribution import TransformedDistribution
from ..utils import sum_rightmost
from .registry import kl_divergence, register_kl


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL(p || q) of Independent needs the same number of reinterpreted dimensions, got "
                                  f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}")  # fmt: skip
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """What both go through changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(text("KL(p || q) of transformed distributions needs equal transforms and events",
                                       op="kl_divergence", came=f"{p.transforms} and {q.transforms}"))  # fmt: skip
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """Return A(ηq) - A(ηp) - (ηq - ηp)·∇A(ηp), the Bregman divergence of the normaliser A."""
    if type(p) is not type(q):
        raise NotImplementedError(text("The cross KL-divergence between different exponential families cannot be "
                                       "computed using Bregman divergences", op="kl_divergence",
                                       came=f"{type(p).__name__} and {type(q).__name__}",
                                       remedy="core.distributions.register_kl"))  # fmt: skip
    normalizer, pairs = p._normalizer_and_means()
    theirs = q._natural_params
    found = q._log_normalizer(*theirs) - normalizer
    for (natural, mean), other in zip(pairs, theirs, strict=True):
        found = found - p._over_events((other - natural) * mean)
    return found
