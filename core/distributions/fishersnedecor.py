"""`FisherSnedecor`: how one spread compares with another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.queries import finfo
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Parametrised
from .gamma import Gamma
from .utils import broadcast_all


class FisherSnedecor(Parametrised):
    """The quotient of two means of squares, of `df1` and `df2` standard normal numbers: the F distribution.

    >>> import core
    >>> core.distributions.FisherSnedecor(2.0, 2.0).log_prob(core.tensor(1.0))
    tensor(-1.3863)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = where(self.df2 > 2, self.df2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Tensor:
        df2 = where(self.df2 > 4, self.df2, math.nan)
        return 2 * df2.square() * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        tiny = finfo(self.df1.dtype).tiny
        above, below = (Gamma(df * 0.5, df, validate_args=False).rsample(sample_shape) for df in (self.df1, self.df2))
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return norm + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
