"""`HalfNormal`: how far a normal number is from its mean."""

from __future__ import annotations

import math

from ..tensors.tensor import Tensor
from .half import Half
from .normal import Normal


class HalfNormal(Half):
    """The absolute value of a normal number with mean 0 and standard deviation `scale`.

    >>> import core
    >>> core.distributions.HalfNormal(1.0).log_prob(core.tensor(0.0))
    tensor(-0.2258)
    """

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)
