"""`StudentT`: a mean of few numbers, measured by their own spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.creation import full_like
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .chi2 import Chi2
from .constraints import Constraint
from .distribution import Parametrised
from .utils import broadcast_all, standard_normal


class StudentT(Parametrised):
    """Student's t distribution with `df` degrees of freedom.

    >>> import core
    >>> core.distributions.StudentT(1.0).log_prob(core.tensor(0.0))
    tensor(-1.1447)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        many = self.df > 2
        found = self.scale.square() * self.df / (where(many, self.df, 3.0) - 2)
        return where(many, found, where(self.df > 1, full_like(self.df, math.inf), math.nan))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x, z = standard_normal(shape, self.df), Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * (x * (z / self.df).rsqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        y = (value - self.loc) / self.scale
        half = 0.5 * self.df
        z = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + half.lgamma() - (half + 0.5).lgamma()
        return -0.5 * (self.df + 1.0) * (y.square() / self.df).log1p() - z

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        growth = 0.5 * (self.df + 1) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + growth + 0.5 * self.df.log() + beta
