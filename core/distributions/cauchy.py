"""`Cauchy`: the quotient of two normal numbers, without a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.creation import empty, full_like
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Parametrised
from .utils import broadcast_all


class Cauchy(Parametrised):
    """The Cauchy distribution around the median `loc`, with half its width at half maximum `scale`.

    >>> import core
    >>> core.distributions.Cauchy(0.0, 1.0).log_prob(core.tensor(0.0))
    tensor(-1.1447)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + drawn.cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._given(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
