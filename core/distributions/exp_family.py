"""`ExponentialFamily`: densities h(x) exp(η·T(x) - A(η)), whose entropy follows from A."""

from __future__ import annotations

from typing import Any

from ..autograd.gradients import grad
from ..base.modes import enable_grad
from ..tensors.tensor import Tensor
from .distribution import Distribution
from .utils import sum_rightmost


class ExponentialFamily(Distribution):
    """A distribution with natural parameters η, the normaliser A(η), and the mean of log h(x).

    A class below it says them in `_natural_params`, `_log_normalizer` and `_mean_carrier_measure`; `entropy`, and the
    divergence of two of one class, then follow: the gradient of A is the mean of T(x). Source: Nielsen and Nock,
    "Entropies and cross-entropies of exponential families", ICIP 2010.

    >>> import core
    >>> isinstance(core.distributions.Normal(0.0, 1.0), core.distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    @enable_grad()
    def _normalizer_and_means(self) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """A(η), and each natural parameter with the mean of its statistic."""
        natural = [p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        means = grad(normalizer.sum(), natural, create_graph=True)
        return normalizer, [(p, m) for p, m in zip(natural, means, strict=True) if m is not None]

    def _over_events(self, value: Tensor) -> Tensor:
        return sum_rightmost(value, value.ndim - len(self._batch_shape))

    def entropy(self) -> Tensor:
        """Return A(η) - η·∇A(η) - E[log h(x)]."""
        carrier = self._mean_carrier_measure
        normalizer, pairs = self._normalizer_and_means()
        return normalizer - carrier - sum(self._over_events(natural * mean) for natural, mean in pairs)
