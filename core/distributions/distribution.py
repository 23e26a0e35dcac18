"""`Distribution`: shapes, checks and what is common to all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..base.modes import no_grad
from ..base.shape import Size
from ..base.source import warn
from ..events import observe
from ..tensors.tensor import Tensor
from .constraints import Constraint, is_dependent
from .utils import lazy_property


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
    """A distribution of tensors: `batch_shape` of independent ones, each with outcomes of `event_shape`.

    >>> import core
    >>> class Always(core.distributions.Distribution):
    ...     arg_constraints = {}
    ...     def sample(self, sample_shape=()):
    ...         return core.ones(*sample_shape)
    >>> Always().sample((2,))
    tensor([1., 1.])
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are checked unless `validate_args` says otherwise."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args needs True or False, got {value!r}")
        Distribution._validate_args = bool(value)

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (),
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self._stated("arg_constraints", {}).items():
                late = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
                if late or is_dependent(constraint):
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

    def _stated(self, name: str, otherwise: Any) -> Any:
        """What the class says to check by; where it says nothing, a warning that nothing is checked."""
        try:
            return getattr(self, name)
        except NotImplementedError:
            remedy = "`arg_constraints = {}`" if name == "arg_constraints" else "the constraint of its outcomes"
            warn(f"{type(self)} does not define `{name}`, so nothing is checked by it.\n"
                 f"  remedy: state {remedy}, or make it with `validate_args=False`")  # fmt: skip
            return otherwise

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """What each parameter has to be, by its name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """What the outcomes are, as a constraint."""
        raise NotImplementedError

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

    def sample_n(self, n: int) -> Tensor:
        """Return `n` outcomes: an old name of ``sample((n,))``."""
        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample((n,))

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

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Give what `expand` fills: `_instance`, or a new one of this class if `cls` knows all that it is made of."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom "
                                      "__init__ method must also define a custom .expand() method.")  # fmt: skip
        return type(self).__new__(type(self)) if _instance is None else _instance

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
        support = self._stated("support", None)
        if support is None:
            return
        with _checking():
            valid = bool(support.check(value).all())
        if not valid:
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _given(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        shown = []
        for name in self._stated("arg_constraints", {}):
            if name in self.__dict__ or isinstance(getattr(type(self), name, None), property):
                value = getattr(self, name)
                shown.append(f"{name}: {value.item() if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Parametrised(Distribution):
    """A distribution whose parameters are tensors of the batch's shape, and tell all of it: it expands by expanding
    them."""

    @property
    def _parameters(self) -> Sequence[str]:
        """What the constructor is called with."""
        return tuple(self.arg_constraints)

    def _expanded(self, _instance: Any, parameters: dict[str, Any]) -> Any:
        """Make the like of this one by the constructor of this package's class."""
        package = __name__.rpartition(".")[0]
        made_by = next(c for c in type(self).__mro__ if c.__init__.__module__.startswith(package))  # type: ignore[misc]
        made = self._get_checked_instance(made_by, _instance)
        made_by.__init__(made, **parameters, validate_args=False)  # type: ignore[misc]
        made._validate_args = self._validate_args
        return made

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        shape = tuple(batch_shape)
        return self._expanded(_instance, {name: getattr(self, name).expand(shape) for name in self._parameters})
