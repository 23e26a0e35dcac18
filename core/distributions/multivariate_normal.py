"""`MultivariateNormal`: normal vectors with a covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..ops.decomposition import cholesky
from ..ops.solving import inv, solve_triangular
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution
from .utils import lazy_property, standard_normal


def log_diagonal(tril: Tensor) -> Tensor:
    """Return the logarithm of a triangular matrix's determinant."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def inverse_factor(precision: Tensor) -> Tensor:
    """Return the lower factor of the inverse: from the factor of the matrix read backwards."""
    upper = cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    return inv(upper)


def one_matrix(op: str, covariance_matrix: Tensor | None, precision_matrix: Tensor | None, scale_tril: Tensor | None,
               error: Exception) -> tuple[str, Tensor]:  # fmt: skip
    """Return the one that was given, with its name.

    *Raises*: `error` for none and for several, ValueError for what is no matrix.
    """
    given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
    named = [(k, v) for k, v in given.items() if v is not None]
    if len(named) != 1:
        raise error
    name, matrix = named[0]
    if matrix.ndim < 2:
        raise ValueError(text(f"{name} must be at least two-dimensional, with optional leading batch dimensions", op=op,
                              came=f"{tuple(matrix.shape)}"))  # fmt: skip
    return name, matrix


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
        error = ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = one_matrix("MultivariateNormal", covariance_matrix, precision_matrix, scale_tril, error)
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]), op="MultivariateNormal")
        n = loc.shape[-1]
        self.loc = loc.expand(*batch, n)
        self.__dict__[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(batch, (n,), validate_args)
        if name == "scale_tril":
            self._tril = matrix
        else:
            self._tril = cholesky(matrix) if name == "covariance_matrix" else inverse_factor(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._tril.expand(*self._batch_shape, *self._tril.shape[-2:])

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return (self._tril @ self._tril.mT).expand(*self._batch_shape, *self._tril.shape[-2:])

    @lazy_property
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
        made = self._get_checked_instance(MultivariateNormal, _instance)
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
        distance = self._energy((value - self.loc).unsqueeze(-1))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - log_diagonal(self._tril)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        found = 0.5 * n * (1.0 + math.log(2 * math.pi)) + log_diagonal(self._tril)
        return found.expand(self._batch_shape) if self._batch_shape else found

    def _energy(self, columns: Tensor) -> Tensor:
        """Return the sum of aᵀ Σ⁻¹ a over columns a."""
        return solved(self._tril, columns).square().sum((-2, -1))

    def _log_det(self) -> Tensor:
        return 2 * log_diagonal(self._tril)

    def _roots(self) -> tuple[Tensor, ...]:
        """Give matrices A of which the A Aᵀ sum to the covariance."""
        return (self._tril,)


def solved(tril: Tensor, matrix: Tensor) -> Tensor:
    """Return ``tril⁻¹ matrix`` of batches that broadcast."""
    batch = broadcast_shapes(tuple(tril.shape[:-2]), tuple(matrix.shape[:-2]), op="solve_triangular")
    n, m = matrix.shape[-2:]
    return solve_triangular(tril.expand(*batch, n, n), matrix.expand(*batch, n, m), upper=False)
