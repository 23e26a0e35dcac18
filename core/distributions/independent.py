"""`Independent`: dimensions of a batch taken as dimensions of the event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..base.errors import text
from ..base.shape import Size
from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution
from .utils import sum_rightmost


class Independent(Distribution):
    """`base_distribution` with its last `reinterpreted_batch_ndims` batch dimensions as one event.

    >>> import core
    >>> d = core.distributions.Independent(core.distributions.Normal(core.zeros(3), 1.0), 1)
    >>> d.event_shape, d.log_prob(core.zeros(3))
    (core.Size([3]), tensor(-2.7568))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        base, n = base_distribution, reinterpreted_batch_ndims
        if n > len(base.batch_shape):
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                             f"{n} vs {len(base.batch_shape)}")  # fmt: skip
        shape = base.batch_shape + base.event_shape
        cut = len(base.batch_shape) - n
        self.base_dist, self.reinterpreted_batch_ndims = base, n
        super().__init__(Size(shape[:cut]), Size(shape[cut:]), validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether all outcomes can be given: not those of several dimensions taken together."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        found, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(found, n) if n else found

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        made = self._get_checked_instance(Independent, _instance)
        inner = tuple(self._event_shape[: self.reinterpreted_batch_ndims])
        made.base_dist = self.base_dist.expand((*batch_shape, *inner))
        made.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(made, tuple(batch_shape), self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError(text("Enumeration over cartesian product is not implemented", op="Independent",
                                           remedy="enumerate_support of base_dist"))  # fmt: skip
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
