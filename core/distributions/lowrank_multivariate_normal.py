"""`LowRankMultivariateNormal`: normal vectors that few causes move together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..ops.creation import eye
from ..ops.decomposition import cholesky
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution
from .multivariate_normal import log_diagonal, solved
from .utils import lazy_property, standard_normal


def _capacitance(factor: Tensor, diagonal: Tensor) -> Tensor:
    """Return the lower Cholesky factor of I + Wᵀ D⁻¹ W."""
    m = factor.shape[-1]
    inner = factor.mT @ (factor / diagonal.unsqueeze(-1))
    return cholesky(inner + eye(m, dtype=factor.dtype, device=factor.device))


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with mean `loc` and the covariance W Wᵀ + D, of W = `cov_factor` and D = diag(`cov_diag`).

    With n by m in W, what needs n³ steps of a full covariance needs n m² here. Source: Woodbury, "Inverting modified
    matrices", 1950.

    *Shapes*: loc (..., n), cov_factor (..., n, m), cov_diag (..., n).

    >>> import core
    >>> d = core.distributions.LowRankMultivariateNormal(core.zeros(2), core.zeros(2, 1), core.ones(2))
    >>> d.log_prob(core.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        op = "LowRankMultivariateNormal"
        if loc.ndim < 1:
            raise ValueError(text("loc must be at least one-dimensional.", op=op))
        if cov_factor.ndim < 2:
            raise ValueError(text("cov_factor must be at least two-dimensional, with optional leading batch dimensions",
                                  op=op, came=f"{tuple(cov_factor.shape)}"))  # fmt: skip
        n, m = loc.shape[-1], cov_factor.shape[-1]
        if cov_factor.shape[-2] != n:
            raise ValueError(text(f"cov_factor must be a batch of matrices with shape {n} x m", op=op,
                                  came=f"{tuple(cov_factor.shape)}"))  # fmt: skip
        if cov_diag.shape[-1] != n:
            raise ValueError(text(f"cov_diag must be a batch of vectors with shape {(n,)}", op=op,
                                  came=f"{tuple(cov_diag.shape)}"))  # fmt: skip
        batches = tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        try:
            batch = broadcast_shapes(*batches, op=op)
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag "
                             f"{cov_diag.shape}") from error  # fmt: skip
        self.loc, self.cov_diag = loc.expand(*batch, n), cov_diag.expand(*batch, n)
        self.cov_factor = cov_factor.expand(*batch, n, m)
        super().__init__(batch, (n,), validate_args)
        self._factor, self._diagonal = cov_factor, cov_diag  # not repeated over the batch
        self._inner = _capacitance(cov_factor, cov_diag)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        shape = (*batch_shape, *self._event_shape)
        made.loc, made.cov_diag = self.loc.expand(shape), self.cov_diag.expand(shape)
        made.cov_factor = self.cov_factor.expand(*shape, self.cov_factor.shape[-1])
        made._factor, made._diagonal, made._inner = self._factor, self._diagonal, self._inner
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _of_matrices(self, matrix: Tensor) -> Tensor:
        return matrix.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The variances."""
        found = self._factor.square().sum(-1) + self._diagonal
        return found.expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance: that of I + D^-½ W Wᵀ D^-½, its rows times D^½."""
        root = self._diagonal.sqrt().unsqueeze(-1)
        scaled = self._factor / root
        inner = scaled @ scaled.mT + eye(self._event_shape[0], dtype=root.dtype, device=root.device)
        return self._of_matrices(root * cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._of_matrices(self._factor @ self._factor.mT + self._diagonal.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        half = solved(self._inner, self._factor.mT / self._diagonal.unsqueeze(-2))
        return self._of_matrices(self._diagonal.reciprocal().diag_embed() - half.mT @ half)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        causes = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        own = standard_normal(shape, self.loc)
        return self.loc + (self._factor @ causes.unsqueeze(-1)).squeeze(-1) + self._diagonal.sqrt() * own

    def _energy(self, columns: Tensor) -> Tensor:
        """Return the sum of aᵀ Σ⁻¹ a over columns a."""
        scaled = columns / self._diagonal.unsqueeze(-1)
        seen = solved(self._inner, self._factor.mT @ scaled)
        return (columns * scaled).sum((-2, -1)) - seen.square().sum((-2, -1))

    def _log_det(self) -> Tensor:
        return 2 * log_diagonal(self._inner) + self._diagonal.log().sum(-1)

    def _roots(self) -> tuple[Tensor, ...]:
        """Give matrices A of which the A Aᵀ sum to the covariance."""
        return self._factor, self._diagonal.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        distance = self._energy((value - self.loc).unsqueeze(-1))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        found = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return found.expand(self._batch_shape) if self._batch_shape else found
