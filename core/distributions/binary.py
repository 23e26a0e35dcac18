"""`Binary`: what distributions with one probability, given as such or by its logit, have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Parametrised
from .utils import broadcast_all, lazy_property, logits_to_probs, one_of, probs_to_logits


class Binary(Parametrised):
    """One probability, `probs`, or its logit, and other parameters beside it."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Set the one that was given, and give the others in its shape."""
        self._one = one_of(probs, logits)
        self._param, *rest = broadcast_all(probs if self._one == "probs" else logits, *others)
        setattr(self, self._one, self._param)
        return tuple(rest)

    @property
    def _parameters(self) -> Sequence[str]:
        other = "logits" if self._one == "probs" else "probs"
        return tuple(name for name in self.arg_constraints if name != other)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Tensor:
        """The logit of that probability."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape
