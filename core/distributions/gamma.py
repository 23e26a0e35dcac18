"""`Gamma` and what is made of it: `Chi2`, `StudentT`, `Dirichlet`, `Beta`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..base import dtypes
from ..base.modes import no_grad
from ..ops.creation import full_like
from ..ops.embedding import one_hot
from ..ops.joining import stack
from ..ops.queries import finfo
from ..ops.special import gammainc
from ..ops.where import where
from ..random import normal, rand
from ..tensors.tensor import Tensor, from_array
from . import constraints
from .constraints import Constraint
from .continuous import standard_normal
from .distribution import Distribution, Parametrised, broadcast_all

_LARGE = 300.0  # from here on the cube root of a gamma number is normal to 1e-4


def _drawn(a: Any) -> Any:
    """Gamma numbers of the shapes in `a`, all at least 1. Source: Marsaglia and Tsang, ACM TOMS 26 (2000)."""
    d = a - 1 / 3
    c = 1 / np.sqrt(9 * d)
    out = np.zeros_like(a)
    left = np.arange(a.size)
    while left.size:
        z = normal(0.0, 1.0, (left.size,), dtype=dtypes.float64)._a
        u = 1 - rand(left.size, dtype=dtypes.float64)._a
        v = (1 + c[left] * z) ** 3
        safe = np.where(v > 0, v, 1.0)
        taken = (v > 0) & (np.log(u) < 0.5 * z * z + d[left] * (1 - v + np.log(safe)))
        out[left[taken]] = (d[left] * v)[taken]
        left = left[~taken]
    return out


def _digamma(x: Any) -> Any:
    """Return the derivative of lgamma for x above 0: recurrence up to 10, then the asymptotic series."""
    total = np.zeros_like(x)
    for _ in range(10):
        low = x < 10
        total -= np.where(low, 1 / x, 0.0)
        x = np.where(low, x + 1, x)
    y = 1 / (x * x)
    return total + np.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))


def _slope(a: Any, x: Any) -> Any:
    """How a gamma number moves with its shape a while its rank stays: -(∂P/∂a) / p, for P(a, x) and its density p.

    P = x^a e^-x / Γ(a + 1) Σ_k x^k / ((a + 1) ... (a + k)), and the factor before the sum is x p / a. Source: Figurnov,
    Mohamed and Mnih, arXiv 1805.08498.
    """
    term, total, turned, drift = np.ones_like(x), np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    for k in range(1, 4000):
        term = term * x / (a + k)
        drift = drift + 1 / (a + k)
        total += term
        turned += term * drift
        if (term * drift < 1e-17 * total).all():
            break
    return -(x / a) * ((np.log(x) - _digamma(a + 1)) * total - turned)


def _slope_large(a: Any, x: Any) -> Any:
    """Return the same where a is large: there x = a (1 - 1 / 9a + z / 3√a)³ with z normal. Wilson and Hilferty,
    1931."""
    root = (x / a) ** (1 / 3)
    z = (root - 1 + 1 / (9 * a)) * 3 * np.sqrt(a)
    return root**3 + 3 * a * root**2 * (1 / (9 * a * a) - z / (6 * a * np.sqrt(a)))


def standard_gamma(concentration: Tensor) -> Tensor:
    """Gamma numbers of rate 1, whose gradient is how each moves with its concentration while its rank stays."""
    a = concentration.detach().cpu()._a.astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        low = a < 1
        x = _drawn(np.where(low, a + 1, a))
        if low.any():
            u = 1 - rand(a.size, dtype=dtypes.float64)._a
            x = np.where(low, x * u ** (1 / a), x)
        tiny = finfo(concentration.dtype).tiny
        x = np.maximum(x, tiny)
        slope = np.zeros_like(x)
        if concentration.requires_grad:
            many = a > _LARGE
            slope[many] = _slope_large(a[many], x[many])
            slope[~many] = _slope(a[~many], x[~many])
    shape, dtype = tuple(concentration.shape), concentration.dtype
    value = from_array(x.reshape(shape)).to(concentration.device, dtype)
    if not concentration.requires_grad:
        return value
    moves = from_array(slope.reshape(shape)).to(concentration.device, dtype)
    return value + moves * (concentration - concentration.detach())


class Gamma(Parametrised):
    """The gamma distribution with shape `concentration` and `rate`.

    >>> import core
    >>> core.distributions.Gamma(1.0, 2.0).log_prob(core.tensor(0.5))
    tensor(-0.3069)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        a, b = self.concentration, self.rate
        return a.xlogy(b) + (a - 1).xlogy(value) - b * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._given(value)
        return gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers.

    >>> import core
    >>> core.distributions.Chi2(2.0).log_prob(core.tensor(1.0))
    tensor(-1.1931)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        return type(self)(self.df.expand(tuple(batch_shape)), validate_args=False)


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


class Dirichlet(Distribution):
    """Probabilities of as many choices as `concentration` has in its last dimension.

    >>> import core
    >>> core.distributions.Dirichlet(core.ones(3)).log_prob(core.tensor([0.2, 0.3, 0.5]))
    tensor(0.6931)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.Independent(constraints.positive, 1)
    }
    support = constraints.simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        return Dirichlet(self.concentration.expand(*batch_shape, *self._event_shape), validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        over = (self.concentration - 1).clamp(min=0.0)
        found = over / over.sum(-1, keepdim=True)
        with no_grad():
            corner = one_hot(found.argmax(-1), found.shape[-1]).to(found.dtype)
        return where((self.concentration < 1).all(-1, keepdim=True), corner, found)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, total, k = self.concentration, self.concentration.sum(-1), self._event_shape[0]
        return (a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma()
                - ((a - 1.0) * a.digamma()).sum(-1))  # fmt: skip


class Beta(Distribution):
    """A probability: the first of a `Dirichlet` of two.

    >>> import core
    >>> core.distributions.Beta(2.0, 3.0).mean
    tensor(0.4000)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """The weight of 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The weight of 0."""
        return self._dirichlet.concentration[..., 1]

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        shape = tuple(batch_shape)
        return Beta(self.concentration1.expand(shape), self.concentration0.expand(shape), validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        both = stack((value, 1.0 - value), -1)
        a = self._dirichlet.concentration
        return (a - 1.0).xlogy(both).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()
