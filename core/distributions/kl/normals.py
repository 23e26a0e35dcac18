"""KL divergences of normal vectors, whose covariances are given in full or by a few causes."""

from __future__ import annotations

from typing import Any

from ...tensors.tensor import Tensor
from ..lowrank_multivariate_normal import LowRankMultivariateNormal
from ..multivariate_normal import MultivariateNormal
from .registry import register_kl


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _vectors(p: Any, q: Any) -> Tensor:
    """Return half of log det Σq / det Σp + tr(Σq⁻¹ Σp) + the distance of the means - n."""
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
                         f"\n  came: {tuple(p.event_shape)} and {tuple(q.event_shape)}")  # fmt: skip
    found = q._energy((q.loc - p.loc).unsqueeze(-1)) + q._log_det() - p._log_det() - p.event_shape[0]
    for root in p._roots():
        found = found + q._energy(root)
    return 0.5 * found
