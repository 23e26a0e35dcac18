"""`NegativeBinomial`: how many succeed before several have failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.modes import no_grad
from ..ops.elementwise import logsigmoid
from ..ops.methods import poisson
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .binary import Binary
from .constraints import Constraint
from .gamma import Gamma


class NegativeBinomial(Binary):
    """How many tries of probability `probs` succeed before `total_count` have failed.

    >>> import core
    >>> core.distributions.NegativeBinomial(2.0, core.tensor(0.5)).log_prob(core.tensor(1.0)).exp()
    tensor(0.2500)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        (count,) = self._take(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape)
            return poisson(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        n, logits = self.total_count, self.logits
        powers = n * logsigmoid(-logits) + value * logsigmoid(logits)
        ways = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        return powers + where(n + value == 0, 0.0, ways)
