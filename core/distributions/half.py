"""`Half`: the absolute value of a number that lies as often below 0 as above."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..ops.creation import zeros_like
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .transformed_distribution import Derived
from .transforms import AbsTransform
from .utils import broadcast_all


class Half(Derived):
    """The absolute value of an outcome of `_whole`, a distribution that is symmetric around 0."""

    _whole: ClassVar[Any]
    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (scale,) = broadcast_all(scale)
        super().__init__(self._whole(zeros_like(scale), scale, validate_args=False), AbsTransform(),
                         validate_args=validate_args)  # fmt: skip

    @property
    def scale(self) -> Tensor:
        """The width of the whole."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._given(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
