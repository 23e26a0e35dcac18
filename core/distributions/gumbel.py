"""`Gumbel`: the greatest of many."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..ops.creation import full_like, ones_like
from ..ops.queries import finfo
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .transformed_distribution import Derived
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant


class Gumbel(Derived):
    """The Gumbel distribution: how the greatest of many is distributed.

    >>> import core
    >>> core.distributions.Gumbel(0.0, 1.0).log_prob(core.tensor(0.0))
    tensor(-1.)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        numbers = finfo(self.loc.dtype)
        base = Uniform(full_like(self.loc, numbers.tiny), full_like(self.loc, 1 - numbers.eps), validate_args=False)
        base._validate_args = bool(self._validate_args if validate_args is None else validate_args)
        twice = [ExpTransform().inv, AffineTransform(0, -ones_like(self.scale))]
        super().__init__(base, [*twice, ExpTransform().inv, AffineTransform(self.loc, -self.scale)],
                         validate_args=validate_args)  # fmt: skip

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._given(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
