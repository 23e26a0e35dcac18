"""`Geometric`: how many tries fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import text
from ..base.modes import no_grad
from ..ops.creation import zeros_like
from ..ops.distance import binary_cross_entropy_with_logits
from ..ops.queries import finfo
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import constraints
from .binary import Binary
from .utils import broadcast_all, unit_numbers


class Geometric(Binary):
    """How many failures come before the first success, of probability `probs`.

    >>> import core
    >>> core.distributions.Geometric(0.5).log_prob(core.tensor(2.0))
    tensor(-2.0794)
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            shape = tuple(self.probs.shape)
            raise ValueError(text(f"Expected parameter probs (Tensor of shape {shape}) of distribution {self!r} to be "
                                  f"positive but found invalid values:\n{self.probs}", op="Geometric",
                                  needed="a success that happens at all: probs > 0"))  # fmt: skip

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            u = unit_numbers(self._extended_shape(sample_shape), self.probs).clamp(min=finfo(self.probs.dtype).tiny)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        value, probs = broadcast_all(value, self.probs)
        sure = (probs == 1) & (value == 0)
        return value * (-where(sure, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
