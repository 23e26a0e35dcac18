"""`LKJCholesky`: correlations of which little is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.modes import no_grad
from ..ops.creation import arange
from ..ops.joining import cat
from ..ops.matrix import vector_norm
from ..ops.queries import finfo
from ..tensors.tensor import Tensor
from . import constraints
from .beta import Beta
from .constraints import Constraint
from .distribution import Distribution
from .utils import broadcast_all, standard_normal


class LKJCholesky(Distribution):
    """Lower Cholesky factors of `dim` by `dim` correlation matrices, of density det ** (concentration - 1).

    At a concentration of 1 all correlation matrices are alike; above it those near the identity come more often. Drawn
    row by row: a direction on a sphere, and how far from the diagonal. Source: Lewandowski, Kurowicka and Joe,
    "Generating random correlation matrices based on vines and extended onion method", Journal of Multivariate Analysis
    100 (2009).

    >>> import core
    >>> core.distributions.LKJCholesky(2, 1.0).log_prob(core.eye(2))
    tensor(-0.6931)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = self._get_checked_instance(LKJCholesky, _instance)
        made.dim, made.concentration = self.dim, self.concentration.expand(tuple(batch_shape))
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def _shares(self) -> Beta:
        """How much of each row's square lies beside the diagonal."""
        rows = arange(self.dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        before = cat([rows[:1], rows])
        rest = self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 2) - 0.5 * before
        return Beta(before + 0.5, rest, validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            share = self._shares().sample(sample_shape).unsqueeze(-1)
            toward = standard_normal(self._extended_shape(sample_shape), self.concentration).tril(-1)
            length = vector_norm(toward, dim=-1, keepdim=True)
            beside = share.sqrt() * (toward / length.clamp(min=finfo(length.dtype).tiny))  # the first row has none
            left = (1 - beside.square().sum(-1)).clamp(min=finfo(length.dtype).tiny)
            return beside + left.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        n, eta = self.dim, self.concentration
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        power = 2 * (eta - 1).unsqueeze(-1) + n - arange(2, n + 1, dtype=eta.dtype, device=eta.device)
        alpha = eta + 0.5 * (n - 1)
        norm = 0.5 * (n - 1) * math.log(math.pi) + (alpha - 0.5).mvlgamma(n - 1) - alpha.lgamma() * (n - 1)
        return (power * diagonal.log()).sum(-1) - norm
