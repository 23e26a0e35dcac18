"""`Bernoulli`: yes or no."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.modes import no_grad
from ..ops.creation import arange
from ..ops.distance import binary_cross_entropy_with_logits
from ..ops.sampling import bernoulli
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .binary import Binary
from .exp_family import ExponentialFamily
from .utils import all_values, broadcast_all


class Bernoulli(Binary, ExponentialFamily):
    """1 with probability `probs`, else 0.

    >>> import core
    >>> core.distributions.Bernoulli(0.25).log_prob(core.tensor(1.0))
    tensor(-1.3863)
    """

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, math.nan, likelier)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return all_values(arange(2, dtype=self._param.dtype, device=self._param.device), self._batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp().log1p()
