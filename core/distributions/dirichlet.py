"""`Dirichlet`: probabilities of several choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.modes import no_grad
from ..ops.embedding import one_hot
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, Parametrised
from .exp_family import ExponentialFamily
from .gamma_numbers import standard_gamma


class Dirichlet(Parametrised, ExponentialFamily):
    """Probabilities of as many choices as `concentration` has in its last dimension.

    >>> import core
    >>> core.distributions.Dirichlet(core.ones(3)).log_prob(core.tensor([0.2, 0.3, 0.5]))
    tensor(0.6931)
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        return self._expanded(_instance, {"concentration": self.concentration.expand(*batch_shape, *self._event_shape)})

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

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
