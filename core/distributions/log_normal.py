"""`LogNormal`: a product of many things."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .normal import Normal
from .transformed_distribution import Derived
from .transforms import ExpTransform


class LogNormal(Derived):
    """The exponential of a normal number with mean `loc` and standard deviation `scale`.

    >>> import core
    >>> core.distributions.LogNormal(0.0, 1.0).log_prob(core.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        squared = self.scale.square()
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
