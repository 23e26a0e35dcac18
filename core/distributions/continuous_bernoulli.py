"""`ContinuousBernoulli`: a grey value between black and white."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.errors import text
from ..base.modes import no_grad
from ..ops.distance import binary_cross_entropy_with_logits
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .binary import Binary
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, unit_numbers


class ContinuousBernoulli(Binary, ExponentialFamily):
    """Numbers between 0 and 1 with the density C λ^x (1 - λ)^(1 - x), of λ = `probs`, which is not the mean.

    Formulas have 0 / 0 at λ = 1/2; for λ within `lims` they are taken from their Taylor series there. Source:
    Loaiza-Ganem and Cunningham, arXiv 1907.06845.

    >>> import core
    >>> core.distributions.ContinuousBernoulli(core.tensor(0.25)).mean
    tensor(0.4102)
    """

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._take(probs, logits)
        if probs is not None:
            if validate_args is not None and not bool(constraints.unit_interval.check(self.probs).all()):
                raise ValueError(text("The parameter probs has invalid values", op="ContinuousBernoulli",
                                      needed="0 to 1"))  # fmt: skip
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    def _expanded(self, _instance: Any, parameters: dict[str, Any]) -> Any:
        return super()._expanded(_instance, {**parameters, "lims": self._lims})

    def _away(self) -> tuple[Tensor, Tensor]:
        """Where λ is away from 1/2, and λ with those that are not moved away."""
        away = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return away, where(away, self.probs, self._lims[0])

    def _log_norm(self) -> Tensor:
        """Return log C = log(2 artanh(1 - 2λ) / (1 - 2λ))."""
        away, p = self._away()
        low = p <= 0.5
        below, above = where(low, p, 0.0), where(low, 1.0, p)
        width = where(low, (-2.0 * below).log1p(), (2.0 * above - 1.0).log())
        found = ((-p).log1p() - p.log()).abs().log() - width
        x = (self.probs - 0.5).square()
        return where(away, found, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        away, p = self._away()
        found = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return where(away, found, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        away, p = self._away()
        found = p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / ((-p).log1p() - p.log()).square()
        x = (self.probs - 0.5).square()
        return where(away, found, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(unit_numbers(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._given(value)
        away, p = self._away()
        found = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        return where(away, found, value).clamp(min=0.0, max=1.0)

    def icdf(self, value: Tensor) -> Tensor:
        away, p = self._away()
        rest = (-p).log1p()
        found = ((-p + value * (2.0 * p - 1.0)).log1p() - rest) / (p.log() - rest)
        return where(away, found, value)

    def entropy(self) -> Tensor:
        rest = (-self.probs).log1p()
        return self.mean * (rest - self.probs.log()) - self._log_norm() - rest

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """Return log((eˣ - 1) / x)."""
        away = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        far = where(away, x, self._lims[0] - 0.5)
        near = 0.5 * x + x.square() / 24.0 - x.pow(4) / 2880.0
        return where(away, (far.exp() - 1.0).abs().log() - far.abs().log(), near)
