"""`Wishart`: the covariance that a few normal vectors show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..base.source import warn
from ..ops.creation import arange, tril_indices
from ..ops.decomposition import cholesky
from ..ops.determinant import slogdet
from ..ops.queries import finfo
from ..ops.solving import inv
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .chi2 import Chi2
from .constraints import Constraint
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .multivariate_normal import inverse_factor, log_diagonal, one_matrix, solved
from .utils import broadcast_all, lazy_property, standard_normal

_TRIES = 10  # draws again of those that came out singular


class Wishart(ExponentialFamily):
    """Sums of `df` products x xᵀ of normal vectors with mean 0 and one of: a covariance matrix, its inverse, or its
    lower Cholesky factor.

    Drawn by Bartlett's decomposition. Source: Anderson, "An introduction to multivariate statistical analysis", 2003,
    chapter 7.

    >>> import core
    >>> core.distributions.Wishart(core.tensor(2.0), core.eye(2)).mean
    tensor([[2., 0.],
            [0., 2.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _matrices: ClassVar[tuple[str, ...]] = ("covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(self, df: Any, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:  # fmt: skip
        error = AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = one_matrix("Wishart", covariance_matrix, precision_matrix, scale_tril, error)
        n = matrix.shape[-1]
        shape = tuple(df.shape) if isinstance(df, Tensor) else ()
        batch = broadcast_shapes(shape, tuple(matrix.shape[:-2]), op="Wishart")
        (self.df,) = broadcast_all(df)
        self.df = self.df.to(matrix.device, matrix.dtype).expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(text(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.", op="Wishart"))
        self.__dict__[name] = matrix.expand(*batch, n, n)
        super().__init__(batch, (n, n), validate_args)
        if self._validate_args and bool((self.df < n).any()):
            warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.")
        if name == "scale_tril":
            self._tril = matrix
        else:
            self._tril = cholesky(matrix) if name == "covariance_matrix" else inverse_factor(matrix)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """What each parameter has to be, by its name."""
        n = self._event_shape[-1]
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(n - 1)}  # fmt: skip

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = self._get_checked_instance(Wishart, _instance)
        made.df, made._tril = self.df.expand(tuple(batch_shape)), self._tril
        for name in self._matrices:
            if name in self.__dict__:
                made.__dict__[name] = self.__dict__[name].expand(*batch_shape, *self._event_shape)
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def _of_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the vectors' covariance."""
        return self._of_batch(self._tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The vectors' covariance."""
        return self._of_batch(self._tril @ self._tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Its inverse."""
        half = inv(self._tril)
        return self._of_batch(half.mT @ half)

    @property
    def _df(self) -> Tensor:
        return self.df[..., None, None]

    @property
    def mean(self) -> Tensor:
        return self._df * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self._df - self._event_shape[-1] - 1
        return where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._df * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _drawn(self, sample_shape: Sequence[int]) -> Tensor:
        """L A Aᵀ Lᵀ, where A has roots of chi-squared numbers on its diagonal and normal ones below it."""
        n = self._event_shape[-1]
        steps = arange(n, dtype=self.df.dtype, device=self.df.device)
        on = Chi2(self.df.unsqueeze(-1) - steps, validate_args=False).rsample(sample_shape).sqrt()
        noise = on.clamp(min=finfo(on.dtype).eps).diag_embed()
        rows, columns = tril_indices(n, n, -1, device=self.df.device)
        noise[..., rows, columns] = standard_normal((*sample_shape, *self._batch_shape, n * (n - 1) // 2), self.df)
        factor = self._tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Matrices that are a differentiable function of the parameters; those that rounding left singular are drawn
        again, `max_try_correction` times at most (10)."""
        drawn = self._drawn(sample_shape)
        for _ in range(_TRIES if max_try_correction is None else max_try_correction):
            good = self.support.check(drawn.detach())
            if bool(good.all()):
                return drawn
            drawn = where(good[..., None, None], drawn, self._drawn(sample_shape))
        if not bool(self.support.check(drawn.detach()).all()):
            warn("Singular sample detected.\n  remedy: a df further above the number of rows, or float64")
        return drawn

    def _log_gamma(self) -> Tensor:
        return (self.df / 2).mvlgamma(self._event_shape[-1])

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        df, n = self.df, self._event_shape[-1]
        inverse = solved(self._tril, solved(self._tril, value).mT)
        trace = inverse.diagonal(dim1=-2, dim2=-1).sum(-1)
        norm = df * (n * math.log(2) / 2 + log_diagonal(self._tril)) + self._log_gamma()
        return (df - n - 1) / 2 * slogdet(value)[1] - trace / 2 - norm

    def entropy(self) -> Tensor:
        df, n = self.df, self._event_shape[-1]
        steps = arange(n, dtype=df.dtype, device=df.device)
        digammas = ((df.unsqueeze(-1) - steps) / 2).digamma().sum(-1)
        size = (n + 1) * (n * math.log(2) / 2 + log_diagonal(self._tril))
        return size + self._log_gamma() - (df - n - 1) / 2 * digammas + df * n / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        n = self._event_shape[-1]
        power = y + (n + 1) / 2
        return power * (n * math.log(2) - slogdet(-2 * x)[1]) + power.mvlgamma(n)
