"""`Multinomial`: how often each of several comes up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.errors import text
from ..base.modes import no_grad
from ..ops.creation import ones_like, zeros
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .constraints import Constraint
from .distribution import Distribution
from .utils import broadcast_all


class Multinomial(Distribution):
    """How often each of K comes up in `total_count` draws with probabilities `probs` (normalised here) or logits.

    >>> import core
    >>> core.distributions.Multinomial(3, core.tensor([1.0, 1.0])).log_prob(core.tensor([1.0, 2.0])).exp()
    tensor(0.3750)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError(text("inhomogeneous total_count is not supported", op="Multinomial",
                                           came=type(total_count).__name__, needed="an int"))  # fmt: skip
        self.total_count, self._categorical = total_count, Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = self._get_checked_instance(Multinomial, _instance)
        made.total_count, made._categorical = self.total_count, self._categorical.expand(batch_shape)
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
            shape = tuple(self._extended_shape(sample_shape))
            counts = zeros(shape, dtype=self.probs.dtype, device=self.probs.device)
            return counts.scatter_add_(-1, drawn, ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        logits, value = broadcast_all(self.logits, value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        never = (value == 0) & logits.isneginf()  # 0 times -inf, which is to count as nothing
        return ways + (where(never, 0.0, logits) * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        whole = n * self._categorical.entropy() - (ones_like(self.probs[..., 0]) * (n + 1)).lgamma()
        each = Binomial(n, self.probs, validate_args=False)
        counts = each.enumerate_support(expand=False)[1:]
        return whole + (each.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
