"""`Weibull`: how long something lasts that ages."""

from __future__ import annotations

from typing import Any, ClassVar

from ..ops.creation import ones_like
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .exponential import Exponential
from .transformed_distribution import Derived
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant


class Weibull(Derived):
    """The Weibull distribution with `scale` and the shape `concentration`: exponential at 1, ageing above it.

    >>> import core
    >>> core.distributions.Weibull(1.0, 2.0).log_prob(core.tensor(1.0))
    tensor(-0.3069)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(Exponential(ones_like(self.scale), validate_args=validate_args),
                         [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)],
                         validate_args=validate_args)  # fmt: skip

    def _moment(self, n: int) -> Tensor:
        """Return E[(x / scale)ⁿ]."""
        return (1 + n / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Tensor:
        return euler_constant * (1 - self.concentration.reciprocal()) + (self.scale / self.concentration).log() + 1
