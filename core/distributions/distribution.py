"""`Distribution`: shapes, checks and what is common to all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ..base import dtypes
from ..base.modes import no_grad
from ..base.shape import Size, broadcast_shapes
from ..events import observe
from ..ops.creation import tensor
from ..ops.queries import finfo
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape.

    *Raises*: ValueError for anything else.
    """
    if not all(isinstance(v, Tensor | int | float) for v in values):
        raise ValueError("Input arguments must all be instances of Number or core.Tensor.\n  came: "
                         + ", ".join(type(v).__name__ for v in values))  # fmt: skip
    first = next((v for v in values if isinstance(v, Tensor)), None)
    kind: dict[str, Any] = {"dtype": dtypes.get_default_dtype() if first is None else first.dtype}
    if first is not None:
        kind["device"] = first.device
    many = [v if isinstance(v, Tensor) else tensor(v, **kind) for v in values]
    shape = broadcast_shapes(*(v._a.shape for v in many), op="distribution")
    return tuple(v if v._a.shape == shape else v.expand(shape) for v in many)


def summed(value: Tensor, dims: int) -> Tensor:
    """Return the sum over the last `dims` dimensions."""
    return value.sum(tuple(range(-dims, 0))) if dims else value


def probs_of(logits: Tensor, binary: bool = False) -> Tensor:
    """Probabilities from logits: the sigmoid of binary ones, else the softmax over the last dimension."""
    return logits.sigmoid() if binary else logits.softmax(-1)


def logits_of(probs: Tensor, binary: bool = False) -> Tensor:
    """Logits from probabilities, which are kept away from 0 and 1 by the dtype's eps."""
    eps = finfo(probs.dtype).eps
    p = probs.clamp(min=eps, max=1 - eps)
    return p.log() - (-p).log1p() if binary else p.log()


@contextmanager
def _checking() -> Iterator[None]:
    """Compare values with what they may be: no part of a gradient, nor of a program that is captured."""
    with no_grad():
        if observe.wanted("as ops"):
            with observe.muted():
                yield
        else:
            yield


class Distribution:
    """A distribution of tensors: `batch_shape` of independent ones, each with outcomes of `event_shape`."""

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Constraint = constraints.real
    _validate_args = True

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are checked unless `validate_args` says otherwise."""
        Distribution._validate_args = bool(value)

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (),
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self.arg_constraints.items():
                if name not in self.__dict__ or isinstance(constraint, type(constraints.dependent)):
                    continue
                value = getattr(self, name)
                with _checking():
                    valid = bool(constraint.check(value).all())
                if not valid:
                    raise ValueError(
                        f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                        f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n"
                        f"{value}"
                    )

    @property
    def batch_shape(self) -> Size:
        """The shape of the independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one outcome."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The likeliest outcome."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Outcomes of shape ``sample_shape + batch_shape + event_shape``, outside any graph."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Outcomes that are a differentiable function of the parameters, where there is one."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample: its outcomes are no differentiable function "
                                  "of its parameters; remedy: sample, and log_prob times the reward")  # fmt: skip

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability, of `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the outcome below which a share of `value` lies."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All outcomes of a discrete distribution."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        """Return the same distribution `batch_shape` times."""
        raise NotImplementedError

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.ndim - len(self._event_shape)
        if tuple(value.shape[start:]) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        mine = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(mine), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {mine}.")
        with _checking():
            valid = bool(self.support.check(value).all())
        if not valid:
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _given(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value.item() if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Parametrised(Distribution):
    """A distribution whose parameters are tensors of the batch's shape, so that they expand one by one."""

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = type(self).__new__(type(self)) if _instance is None else _instance
        shape = tuple(batch_shape)
        for name in self.arg_constraints:
            if name in self.__dict__:
                made.__dict__[name] = self.__dict__[name].expand(shape)
        Distribution.__init__(made, shape, self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made  # type: ignore[no-any-return]
