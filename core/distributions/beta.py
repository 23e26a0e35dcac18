"""`Beta`: a probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.joining import stack
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .dirichlet import Dirichlet
from .distribution import Parametrised
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Beta(Parametrised, ExponentialFamily):
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

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
