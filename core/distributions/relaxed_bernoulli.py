"""`RelaxedBernoulli`: yes or no, softened so that gradients flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..tensors.tensor import Tensor
from . import constraints
from .binary import Binary
from .constraints import Constraint
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs, unit_numbers


class LogitRelaxedBernoulli(Binary):
    """The logit of a `RelaxedBernoulli`: a logistic number around `logits`, over `temperature`.

    Source: Maddison, Mnih and Teh, arXiv 1611.00712.

    >>> import core
    >>> made = core.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(core.tensor(1.0), logits=core.tensor(0.0))
    >>> made.log_prob(core.tensor(0.0))
    tensor(-1.3863)
    """

    support = constraints.real
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        one = getattr(self, self._one).expand(tuple(batch_shape))
        return self._expanded(_instance, {"temperature": self.temperature, self._one: one})

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        p, u = clamp_probs(self.probs.expand(shape)), clamp_probs(unit_numbers(shape, self.probs))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        logits, value = broadcast_all(self.logits, value)
        off = logits - value * self.temperature
        return self.temperature.log() + off - 2 * off.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A number between 0 and 1 that is nearer to 0 or 1 the lower `temperature` is, and 1 with probability `probs`.

    Source: Maddison, Mnih and Teh, arXiv 1611.00712; Jang, Gu and Poole, arXiv 1611.01144.

    >>> import core
    >>> made = core.distributions.RelaxedBernoulli(core.tensor(1.0), probs=core.tensor(0.5))
    >>> made.log_prob(core.tensor(0.25))
    tensor(0.)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(),
                         validate_args=validate_args)  # fmt: skip

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._fill(self._get_checked_instance(RelaxedBernoulli, _instance), batch_shape)

    @property
    def temperature(self) -> Any:
        """How soft it is."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logit of the probability of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return self.base_dist.probs
