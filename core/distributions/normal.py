"""`Normal`: the bell curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.modes import no_grad
from ..random import normal
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Parametrised
from .exp_family import ExponentialFamily
from .utils import broadcast_all, standard_normal

_LOG_TWO_PI = math.log(2 * math.pi)


class Normal(Parametrised, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> import core
    >>> d = core.distributions.Normal(0.0, 1.0)
    >>> d, d.log_prob(core.tensor(0.0))
    (Normal(loc: 0.0, scale: 1.0), tensor(-0.9189))
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _mean_carrier_measure = 0

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - _LOG_TWO_PI / 2

    def cdf(self, value: Tensor) -> Tensor:
        self._given(value)
        return 0.5 * (1 + ((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * _LOG_TWO_PI + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        variance = self.scale.square()
        return self.loc / variance, -0.5 * variance.reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()
