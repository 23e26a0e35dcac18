"""`RelaxedOneHotCategorical`: one of several, softened so that gradients flow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..tensors.tensor import Tensor
from . import constraints
from .categorical import Categorical
from .constraints import Constraint
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs, unit_numbers


class ExpRelaxedCategorical(Distribution):
    """The logarithms of a `RelaxedOneHotCategorical`: logits with Gumbel numbers over `temperature`, normalised.

    Source: Maddison, Mnih and Teh, arXiv 1611.00712.

    >>> import core
    >>> made = core.distributions.relaxed_categorical.ExpRelaxedCategorical(core.tensor(1.0), core.ones(2))
    >>> made.log_prob(core.tensor([0.5, 0.5]).log())
    tensor(-1.3863)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # those whose exponentials sum to 1, and that is one dimension less
    has_rsample = True

    def __init__(self, temperature: Any, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        made = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        made.temperature, made._categorical = self.temperature, self._categorical.expand(batch_shape)
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = clamp_probs(unit_numbers(self._extended_shape(sample_shape), self.logits))
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        score = (logits - value * self.temperature).log_softmax(-1).sum(-1)
        return score + math.lgamma(k) + (k - 1) * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Probabilities that are nearer to one choice the lower `temperature` is, each as often as `probs` says.

    Source: Maddison, Mnih and Teh, arXiv 1611.00712; Jang, Gu and Poole, arXiv 1611.01144.

    >>> import core
    >>> made = core.distributions.RelaxedOneHotCategorical(core.tensor(1.0), probs=core.ones(3))
    >>> made.log_prob(core.tensor([0.2, 0.3, 0.5]))
    tensor(0.7001)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(self, temperature: Any, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._fill(self._get_checked_instance(RelaxedOneHotCategorical, _instance), batch_shape)

    @property
    def temperature(self) -> Any:
        """How soft it is."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs
