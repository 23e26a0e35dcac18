"""`MultivariateNormal`: normal vectors with a covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from ..base.modes import enable_grad
from ..base.shape import broadcast_shapes
from ..ops.decomposition import cholesky
from ..ops.solving import inv, solve_triangular
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .continuous import standard_normal
from .distribution import Distribution


def _log_diagonal(tril: Tensor) -> Tensor:
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _inverse_factor(precision: Tensor) -> Tensor:
    """Return the lower factor of the inverse: from the factor of the matrix read backwards."""
    upper = cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    return inv(upper)


class MultivariateNormal(Distribution):
    """Normal vectors with mean `loc` and one of: a covariance matrix, its inverse, or its lower Cholesky factor.

    >>> import core
    >>> d = core.distributions.MultivariateNormal(core.zeros(2), core.eye(2))
    >>> d.log_prob(core.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        named = [(k, v) for k, v in given.items() if v is not None]
        if len(named) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = named[0]
        if matrix.ndim < 2:
            extra = "" if name == "scale_tril" else " with optional leading batch dimensions"
            raise ValueError(f"{name} must be at least two-dimensional,{extra}")
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]), op="MultivariateNormal")
        n = loc.shape[-1]
        self.loc = loc.expand(*batch, n)
        self.__dict__[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(batch, (n,), validate_args)
        if name == "scale_tril":
            self._tril = matrix
        else:
            self._tril = cholesky(matrix) if name == "covariance_matrix" else _inverse_factor(matrix)

    @cached_property
    @enable_grad()  # sample() may ask first, under no_grad, and what it finds is kept
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._tril.expand(*self._batch_shape, *self._tril.shape[-2:])

    @cached_property
    @enable_grad()  # sample() may ask first, under no_grad, and what it finds is kept
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return (self._tril @ self._tril.mT).expand(*self._batch_shape, *self._tril.shape[-2:])

    @cached_property
    @enable_grad()  # sample() may ask first, under no_grad, and what it finds is kept
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        half = inv(self._tril)
        return (half.mT @ half).expand(*self._batch_shape, *half.shape[-2:])

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._tril.square().sum(-1).expand(*self._batch_shape, *self._event_shape)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made: Any = type(self).__new__(type(self))
        shape = (*batch_shape, *self._event_shape)
        made.loc, made._tril = self.loc.expand(shape), self._tril
        for name in ("covariance_matrix", "precision_matrix", "scale_tril"):
            if name in self.__dict__:
                made.__dict__[name] = self.__dict__[name].expand(*shape, shape[-1])
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        z = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._tril @ z.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        n = self._event_shape[0]
        distance = mahalanobis(self._tril, value - self.loc)
        return -0.5 * (n * math.log(2 * math.pi) + distance) - _log_diagonal(self._tril)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        found = 0.5 * n * (1.0 + math.log(2 * math.pi)) + _log_diagonal(self._tril)
        return found.expand(self._batch_shape) if self._batch_shape else found


def mahalanobis(tril: Tensor, off: Tensor) -> Tensor:
    """Return the squared length of ``tril⁻¹ off``."""
    batch = broadcast_shapes(tuple(tril.shape[:-2]), tuple(off.shape[:-1]), op="MultivariateNormal")
    n = off.shape[-1]
    z = solve_triangular(tril.expand(*batch, n, n), off.expand(*batch, n).unsqueeze(-1), upper=False)
    return z.squeeze(-1).square().sum(-1)


def kl_of(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    """KL(p ‖ q) of two of one size."""
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    n = p.event_shape[0]
    batch = broadcast_shapes(tuple(p._tril.shape[:-2]), tuple(q._tril.shape[:-2]), op="kl_divergence")
    ratio = solve_triangular(q._tril.expand(*batch, n, n), p._tril.expand(*batch, n, n), upper=False)
    trace = ratio.square().sum((-2, -1))
    distance = mahalanobis(q._tril, q.loc - p.loc)
    return _log_diagonal(q._tril) - _log_diagonal(p._tril) + 0.5 * (trace + distance - n)
