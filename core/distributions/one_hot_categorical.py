"""`OneHotCategorical` and `OneHotCategoricalStraightThrough`: one of several, as a vector with a 1 at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.creation import eye
from ..ops.embedding import one_hot
from ..tensors.tensor import Tensor
from . import constraints
from .categorical import Categorical
from .constraints import Constraint
from .distribution import Distribution


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
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=False)
        self._validate_args = self._categorical._validate_args  # which has looked at the parameters

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

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
        made = self._get_checked_instance(OneHotCategorical, _instance)
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

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = eye(n, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape(n, *(1,) * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values

    def __repr__(self) -> str:
        return repr(self._categorical).replace("Categorical", type(self).__name__, 1)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A `OneHotCategorical` whose draws pass the gradient on to the probabilities as if they were these.

    Source: Bengio, Léonard and Courville, arXiv 1308.3432.

    >>> import core
    >>> logits = core.zeros(2, requires_grad=True)
    >>> drawn = core.distributions.OneHotCategoricalStraightThrough(logits=logits).rsample()
    >>> drawn.detach().sort().values, drawn.requires_grad
    (tensor([0., 1.]), True)
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
