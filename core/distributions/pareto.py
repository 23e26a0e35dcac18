"""`Pareto`: few have much."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .exponential import Exponential
from .transformed_distribution import Derived
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all


class Pareto(Derived):
    """The Pareto distribution of type 1: at least `scale`, and more than x with probability (scale / x) ** alpha.

    >>> import core
    >>> core.distributions.Pareto(1.0, 2.0).log_prob(core.tensor(1.0))
    tensor(0.6931)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args=validate_args),
                         [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)  # fmt: skip

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # below 1 it is infinite
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)  # below 2 it is infinite
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
