"""`HalfCauchy`: a spread of which little is known."""

from __future__ import annotations

import math

from ..ops.creation import full_like
from ..tensors.tensor import Tensor
from .cauchy import Cauchy
from .half import Half


class HalfCauchy(Half):
    """The absolute value of a Cauchy number around 0, with half its width at half maximum `scale`.

    >>> import core
    >>> core.distributions.HalfCauchy(1.0).log_prob(core.tensor(0.0))
    tensor(-0.4516)
    """

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
