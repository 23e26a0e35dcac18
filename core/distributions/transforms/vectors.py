"""Transforms of vectors and matrices: onto probabilities, correlations and covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base.errors import text
from ...base.shape import Size
from ...ops.creation import arange, eye
from ...ops.decomposition import cholesky
from ...ops.elementwise import logsigmoid, softplus
from ...ops.padding import pad
from ...ops.queries import finfo
from ...tensors.tensor import Tensor
from .. import constraints
from ..utils import tril_matrix_to_vec, vec_to_tril_matrix
from .elementwise import _Fixed
from .transform import Transform


def _enough(op: str, shape: Sequence[int], needed: int) -> None:
    if len(shape) < needed:
        raise ValueError(text("Too few dimensions on input", op=op, came=f"{tuple(shape)}", needed=f"{needed} or more"))


class SoftmaxTransform(_Fixed):
    """y = softmax(x) over the last dimension; log y is the inverse that is taken, of many.

    >>> import core
    >>> core.distributions.transforms.SoftmaxTransform()(core.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _enough("SoftmaxTransform", shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Fixed):
    """K numbers as K + 1 probabilities: each says how much of what is left of a stick is broken off.

    Equal shares are at 0. Source: the Stan reference manual, "Unit simplex".

    >>> import core
    >>> core.distributions.transforms.StickBreakingTransform()(core.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    @staticmethod
    def _left(k: int, like: Tensor) -> Tensor:
        """How many pieces are still to come: k, k - 1, ... 1."""
        return arange(k, 0, -1, dtype=like.dtype, device=like.device)

    def _call(self, x: Tensor) -> Tensor:
        share = (x - self._left(x.shape[-1], x).log()).sigmoid()
        rest = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1.0) * pad(rest, [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        broken = y[..., :-1]
        rest = (1 - broken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return broken.log() - rest.log() + self._left(broken.shape[-1], y).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._left(x.shape[-1], x).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _enough("StickBreakingTransform", shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _enough("StickBreakingTransform", shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class CorrCholeskyTransform(Transform):
    """D (D - 1) / 2 numbers as the lower Cholesky factor of a D by D correlation matrix.

    Their tanh are the partial correlations, row by row; each row is a stick of length 1 that is broken by squares.
    Source: the Stan reference manual, "Cholesky factors of correlation matrices"; Lewandowski, Kurowicka and Joe,
    Journal of Multivariate Analysis 100 (2009).

    >>> import core
    >>> core.distributions.transforms.CorrCholeskyTransform()(core.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - partial.square()).sqrt().cumprod(-1)
        n = partial.shape[-1]
        partial = partial + eye(n, dtype=x.dtype, device=x.device)
        return partial * pad(rest[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        rest = pad((1 - y.square().cumsum(-1))[..., :-1], [1, 0], value=1.0)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(rest, diag=-1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2  # atanh, which keeps its digits near 0

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # ∂y/∂tanh(x) is triangular; on its diagonal stand the roots of what was left of each row before an entry. The
        # first entry of a row finds all of it, so that its logarithm of 0 is left out, with the second diagonal.
        rest = 1 - y.square().cumsum(-1)
        broken = 0.5 * tril_matrix_to_vec(rest, diag=-2).log().sum(-1)
        return broken - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _enough("CorrCholeskyTransform", shape, 1)
        count = shape[-1]
        n = round(math.sqrt(0.25 + 2 * count) + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError(text("Input is not a flattened lower-diagonal number", op="CorrCholeskyTransform",
                                  came=f"{count}", needed="D (D - 1) / 2 of some D"))  # fmt: skip
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _enough("CorrCholeskyTransform", shape, 2)
        n = shape[-1]
        if shape[-2] != n:
            raise ValueError(text("Input is not square", op="CorrCholeskyTransform", came=f"{tuple(shape)}"))
        return Size((*shape[:-2], n * (n - 1) // 2))


class LowerCholeskyTransform(_Fixed):
    """Any square matrix as a lower Cholesky factor: what is above the diagonal is left out, the diagonal is exp(x).

    >>> import core
    >>> core.distributions.transforms.LowerCholeskyTransform()(core.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Fixed):
    """Any square matrix as a positive definite one: L Lᵀ of what `LowerCholeskyTransform` gives.

    >>> import core
    >>> core.distributions.transforms.PositiveDefiniteTransform()(core.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(cholesky(y))
