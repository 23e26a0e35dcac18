"""`GeneralizedPareto`: how far above a high bound something lies that is above it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.closeness import isclose
from ..ops.creation import zeros_like
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Parametrised
from .utils import broadcast_all, unit_numbers


class GeneralizedPareto(Parametrised):
    """From `loc` on, with `scale` and the shape `concentration`: exponential at 0, heavier above it, ending below it.

    >>> import core
    >>> core.distributions.GeneralizedPareto(0.0, 1.0, 0.5).cdf(core.tensor(2.0))
    tensor(0.7500)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        ends = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, where(self.concentration < 0, ends, math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the shape is 0, and the shape with 1 there, so that nothing is divided by 0."""
        flat = isclose(self.concentration, zeros_like(self.concentration))
        return flat, where(flat, 1.0, self.concentration)

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return where(c < 1, self.loc + self.scale / (1 - where(c < 1, c, 0.0)), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = where(self.concentration < 0.5, self.concentration, 0.0)
        return where(self.concentration < 0.5, (self.scale / (1 - c)).square() / (1 - 2 * c), math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(unit_numbers(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        z, (flat, c) = self._z(value), self._shape()
        return where(flat, -z, -(1 + 1 / c) * (c * z).log1p()) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of more than `value`."""
        self._given(value)
        z, (flat, c) = self._z(value), self._shape()
        return where(flat, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of at most `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        rest, (flat, c) = (-value).log1p(), self._shape()
        return self.loc + self.scale * where(flat, -rest, (-c * rest).expm1() / c)

    def entropy(self) -> Tensor:
        return 1 + self.scale.log() + self.concentration
