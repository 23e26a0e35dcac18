"""`MixtureSameFamily`: now one, now another distribution of a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.errors import text
from ..base.modes import no_grad
from ..tensors.tensor import Tensor
from . import constraints
from .categorical import Categorical
from .constraints import Constraint
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """Outcomes of one of `component_distribution`'s rightmost batch dimension, chosen by `mixture_distribution`.

    >>> import core
    >>> d = core.distributions
    >>> mixture = d.MixtureSameFamily(d.Categorical(core.ones(2)), d.Normal(core.tensor([-1.0, 1.0]), 1.0))
    >>> mixture.mean, mixture.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    has_rsample = False

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        op, mixture, component = "MixtureSameFamily", mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError(text("The Mixture distribution needs to be an instance of core.distributions.Categorical",
                                  op=op, came=type(mixture).__name__))  # fmt: skip
        if not isinstance(component, Distribution):
            raise ValueError(text("The Component distribution needs to be an instance of "
                                  "core.distributions.Distribution", op=op, came=type(component).__name__))  # fmt: skip
        outer, batch = mixture.batch_shape, component.batch_shape[:-1]
        for mine, theirs in zip(reversed(outer), reversed(batch), strict=False):
            if mine != 1 and theirs != 1 and mine != theirs:
                raise ValueError(text(f"`mixture_distribution.batch_shape` ({tuple(outer)}) is not compatible with "
                                      f"`component_distribution.batch_shape`({tuple(batch)})", op=op))  # fmt: skip
        count, parts = int(mixture.logits.shape[-1]), component.batch_shape[-1]
        if count != parts:
            raise ValueError(text(f"`mixture_distribution component` ({count}) does not equal "
                                  f"`component_distribution.batch_shape[-1]` ({parts})", op=op))  # fmt: skip
        self._mixture_distribution, self._component_distribution = mixture, component
        self._num_component, self._event_ndims = count, len(component.event_shape)
        super().__init__(batch, component.event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = self._get_checked_instance(MixtureSameFamily, _instance)
        made._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        made._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        made._num_component, made._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Which component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weighted(self, value: Tensor) -> Tensor:
        """Return the mean over the components."""
        probs = self._mixture_distribution.probs
        return (probs.reshape(*probs.shape, *(1,) * self._event_ndims) * value).sum(-1 - self._event_ndims)

    def _for_each(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        within = self._weighted(self._component_distribution.variance)
        means = self._component_distribution.mean
        return within + self._weighted((means - self._for_each(self._weighted(means))).square())

    def cdf(self, value: Tensor) -> Tensor:
        found = self._component_distribution.cdf(self._for_each(value))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        each = self._component_distribution.log_prob(self._for_each(value))
        return (each + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            which = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            cut = len(sample_shape) + len(self._batch_shape)
            which = which.reshape(*which.shape, *(1,) * (self._event_ndims + 1))
            chosen = which.expand(*drawn.shape[:cut], 1, *self._event_shape)
            return drawn.gather(cut, chosen).squeeze(cut)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
