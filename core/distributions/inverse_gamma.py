"""`InverseGamma`: a variance of which little is known."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..ops.creation import full_like
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .gamma import Gamma
from .transformed_distribution import Derived
from .transforms import PowerTransform


class InverseGamma(Derived):
    """One over a gamma number with shape `concentration` and `rate`.

    >>> import core
    >>> core.distributions.InverseGamma(2.0, 1.0).log_prob(core.tensor(1.0))
    tensor(-1.)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        turned = PowerTransform(full_like(base.rate.detach(), -1))
        super().__init__(base, turned, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The gamma number's rate, and the scale of this."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
