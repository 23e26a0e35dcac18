"""Distributions over choices and counts: `Bernoulli`, `Geometric`, `Poisson`, `Categorical`, `OneHotCategorical`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from ..base.modes import enable_grad, no_grad
from ..ops.creation import arange, full
from ..ops.distance import binary_cross_entropy_with_logits
from ..ops.embedding import one_hot
from ..ops.methods import poisson
from ..ops.queries import finfo
from ..ops.sampling import bernoulli, multinomial
from ..ops.where import where
from ..random import rand
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, Parametrised, broadcast_all, logits_of, probs_of


def _one_of(probs: Any, logits: Any) -> bool:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None


class _Binary(Parametrised):
    """One probability, or its logit."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if _one_of(probs, logits):
            (self.probs,) = broadcast_all(probs)
            self._param = self.probs
        else:
            (self.logits,) = broadcast_all(logits)
            self._param = self.logits
        super().__init__(self._param.shape, validate_args=validate_args)

    @cached_property
    @enable_grad()  # sample() may ask first, under no_grad, and what it finds is kept
    def probs(self) -> Tensor:
        """The probability of 1."""
        return probs_of(self.logits, binary=True)

    @cached_property
    @enable_grad()  # sample() may ask first, under no_grad, and what it finds is kept
    def logits(self) -> Tensor:
        """The logit of that probability."""
        return logits_of(self.probs, binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made: Any = super().expand(batch_shape, _instance)
        made._param = made.__dict__["probs" if "probs" in made.__dict__ else "logits"]
        return made  # type: ignore[no-any-return]


class Bernoulli(_Binary):
    """1 with probability `probs`, else 0.

    >>> import core
    >>> core.distributions.Bernoulli(0.25).log_prob(core.tensor(1.0))
    tensor(-1.3863)
    """

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, math.nan, likelier)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _all_values(arange(2, dtype=self._param.dtype, device=self._param.device), self._batch_shape, expand)


def _all_values(values: Tensor, batch_shape: Sequence[int], expand: bool) -> Tensor:
    values = values.reshape(-1, *(1,) * len(batch_shape))
    return values.expand(-1, *batch_shape) if expand else values


class Geometric(_Binary):
    """How many failures come before the first success, of probability `probs`.

    >>> import core
    >>> core.distributions.Geometric(0.5).log_prob(core.tensor(2.0))
    tensor(-2.0794)
    """

    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return self.probs.detach() * 0

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            u = rand(tuple(self._extended_shape(sample_shape)), dtype=self.probs.dtype, device=self.probs.device)
            u = u.clamp(min=finfo(self.probs.dtype).tiny)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        value, probs = broadcast_all(value, self.probs)
        sure = (probs == 1) & (value == 0)
        return value * (-where(sure, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Poisson(Parametrised):
    """How many of many rare things happen, with mean `rate`.

    >>> import core
    >>> core.distributions.Poisson(2.0).log_prob(core.tensor(1.0))
    tensor(-1.3069)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()


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
        given = _one_of(probs, logits)
        name, parameter = ("probs", probs) if given else ("logits", logits)
        assert parameter is not None
        if parameter.ndim < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if given:
            self.probs = parameter / parameter.sum(-1, keepdim=True)
        else:
            self.logits = parameter - parameter.logsumexp(-1, keepdim=True)
        self._param = parameter
        self._num_events = int(parameter.shape[-1])
        super().__init__(parameter.shape[:-1], validate_args=validate_args)

    @cached_property
    @enable_grad()  # sample() may ask first, under no_grad, and what it finds is kept
    def probs(self) -> Tensor:
        """The probabilities."""
        return probs_of(self.logits)

    @cached_property
    @enable_grad()  # sample() may ask first, under no_grad, and what it finds is kept
    def logits(self) -> Tensor:
        """Their logarithms."""
        return logits_of(self.probs)

    @property
    def support(self) -> Constraint:  # type: ignore[override]
        return constraints.IntegerInterval(0, self._num_events - 1)

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
        made: Any = type(self).__new__(type(self)) if _instance is None else _instance
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
        return _all_values(arange(self._num_events, device=self._param.device), self._batch_shape, expand)


class OneHotCategorical(Distribution):
    """A `Categorical` whose outcomes are vectors with a 1 at the choice.

    >>> import core
    >>> core.distributions.OneHotCategorical(core.tensor([1.0, 3.0])).log_prob(core.tensor([0.0, 1.0]))
    tensor(-0.2877)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made: Any = type(self).__new__(type(self))
        made._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made  # type: ignore[no-any-return]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._given(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def __repr__(self) -> str:
        return repr(self._categorical).replace("Categorical", "OneHotCategorical", 1)
