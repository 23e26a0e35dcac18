"""`Categorical`: one of several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.modes import no_grad
from ..ops.creation import arange, full
from ..ops.queries import finfo
from ..ops.sampling import multinomial
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution
from .utils import all_values, broadcast_all, lazy_property, logits_to_probs, one_of, probs_to_logits


class Categorical(Distribution):
    """One of K, with probabilities `probs` (normalised here) or logits, in the last dimension.

    >>> import core
    >>> d = core.distributions.Categorical(core.tensor([1.0, 3.0]))
    >>> d.probs, d.log_prob(core.tensor(0))
    (tensor([0.2500, 0.7500]), tensor(-1.3863))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        name = one_of(probs, logits)
        parameter = probs if name == "probs" else logits
        assert parameter is not None
        if parameter.ndim < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            self.probs = parameter / parameter.sum(-1, keepdim=True)
        else:
            self.logits = parameter - parameter.logsumexp(-1, keepdim=True)
        self._param = parameter
        self._num_events = int(parameter.shape[-1])
        super().__init__(parameter.shape[:-1], validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return probs_to_logits(self.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def mean(self) -> Tensor:
        return full(tuple(self._batch_shape), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = self._get_checked_instance(Categorical, _instance)
        shape = (*batch_shape, self._num_events)
        for name in ("probs", "logits", "_param"):
            if name in self.__dict__:
                made.__dict__[name] = self.__dict__[name].expand(shape)
        made._num_events = self._num_events
        Distribution.__init__(made, tuple(batch_shape), validate_args=False)
        made._validate_args = self._validate_args
        return made  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            n = math.prod(sample_shape)
            return multinomial(rows, n, True).T.reshape(tuple(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        value = value.long().unsqueeze(-1)
        shape = broadcast_all(value, self.logits[..., :1])[0].shape[:-1]
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, value.expand(*shape, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return all_values(arange(self._num_events, device=self._param.device), self._batch_shape, expand)
