"""`Kumaraswamy`: a probability, much like a beta number, with a cdf in closed form."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..ops.creation import full_like, ones_like
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .transformed_distribution import Derived
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant


class Kumaraswamy(Derived):
    """At most x with probability 1 - (1 - xᵃ)ᵇ, for a = `concentration1` and b = `concentration0`.

    >>> import core
    >>> core.distributions.Kumaraswamy(1.0, 2.0).mean
    tensor(0.3333)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = a, b = broadcast_all(concentration1, concentration0)
        base = Uniform(full_like(b, 0), full_like(b, 1), validate_args=validate_args)
        steps = [PowerTransform(b.reciprocal()), AffineTransform(1.0, -ones_like(b)), PowerTransform(a.reciprocal())]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """Return E[xⁿ] = b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        first = 1 + n / a
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The likeliest outcome, NaN where the density grows without bound or is even."""
        a, b = self.concentration1, self.concentration0
        within = (a >= 1) & (b >= 1) & ((a > 1) | (b > 1))
        return where(within, ((a - 1) / (a * b - 1)).pow(a.reciprocal()), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
