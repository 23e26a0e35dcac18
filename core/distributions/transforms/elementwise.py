"""Transforms of single numbers: `ExpTransform`, `AffineTransform`, `SigmoidTransform` and their like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base.shape import Size, broadcast_shapes
from ...ops.creation import full_like
from ...ops.elementwise import softplus
from ...ops.queries import finfo
from ...tensors.tensor import Tensor
from .. import constraints
from ..constraints import Constraint
from ..utils import broadcast_all, sum_rightmost
from .transform import Transform


def _same(a: Any, b: Any) -> bool:
    """Whether two parameters, numbers or tensors, are equal throughout."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b
    return bool((a == b).all())


class _Fixed(Transform):
    """No parameters: any two of the class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = None  # type: ignore[assignment]


class ExpTransform(_Fixed):
    """y = exp(x).

    >>> import core
    >>> core.distributions.transforms.ExpTransform()(core.tensor(0.0))
    tensor(1.)
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive x.

    >>> import core
    >>> core.distributions.transforms.PowerTransform(2.0)(core.tensor(3.0))
    tensor(9.)
    """

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _same(self.exponent, other.exponent)

    __hash__ = None  # type: ignore[assignment]

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return Size(broadcast_shapes(shape, tuple(self.exponent.shape), op="PowerTransform"))

    inverse_shape = forward_shape


class SigmoidTransform(_Fixed):
    """y = 1 / (1 + exp(-x)), kept within (0, 1) where it rounds to the ends.

    >>> import core
    >>> core.distributions.transforms.SigmoidTransform()(core.tensor(0.0))
    tensor(0.5000)
    """

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign = True, 1

    @staticmethod
    def _inside(y: Tensor) -> Tensor:
        numbers = finfo(y.dtype)
        return y.clamp(min=numbers.tiny, max=1.0 - numbers.eps)

    def _call(self, x: Tensor) -> Tensor:
        return self._inside(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = self._inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Fixed):
    """y = log(1 + exp(x)).

    >>> import core
    >>> core.distributions.transforms.SoftplusTransform()(core.tensor(0.0))
    tensor(0.6931)
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(_Fixed):
    """y = tanh(x).

    >>> import core
    >>> core.distributions.transforms.TanhTransform().inv(core.tensor(0.5))
    tensor(0.5493)
    """

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))  # log(1 - y²), which loses nothing near the ends


class AbsTransform(_Fixed):
    """y = |x|; the inverse is the positive one.

    >>> import core
    >>> core.distributions.transforms.AbsTransform()(core.tensor(-2.0))
    tensor(2.)
    """

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x, over the last `event_dim` dimensions as one event.

    >>> import core
    >>> core.distributions.transforms.AffineTransform(1.0, 2.0)(core.tensor(3.0))
    tensor(7.)
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and _same(self.loc, other.loc) and _same(self.scale, other.scale)

    __hash__ = None  # type: ignore[assignment]

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            found = self.scale.abs().log()
        else:
            found = full_like(x, math.log(abs(self.scale)))
        if self._event_dim:
            shape = tuple(x.shape)
            return sum_rightmost(found.expand(shape), self._event_dim)
        return found.expand(broadcast_shapes(tuple(x.shape), tuple(found.shape), op="AffineTransform"))

    def forward_shape(self, shape: Sequence[int]) -> Any:
        sizes = [tuple(getattr(p, "shape", ())) for p in (self.loc, self.scale)]
        return Size(broadcast_shapes(shape, *sizes, op="AffineTransform"))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = the probability of at most x, of a distribution: even between 0 and 1 where x is drawn from it.

    >>> import core
    >>> d = core.distributions
    >>> d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))(core.tensor(0.0))
    tensor(0.5000)
    """

    codomain = constraints.unit_interval
    bijective, sign = True, 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
