"""`Exponential`: how long until something happens that does not age."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.creation import empty, zeros_like
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Parametrised
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Exponential(Parametrised, ExponentialFamily):
    """The exponential distribution with `rate`.

    >>> import core
    >>> core.distributions.Exponential(2.0).log_prob(core.tensor(1.0))
    tensor(-1.3069)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = empty(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)
        return drawn.exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._given(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -(-x).log()
