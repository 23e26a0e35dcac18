"""`LogisticNormal`: probabilities that move together."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform


class LogisticNormal(TransformedDistribution):
    """K normal numbers with means `loc` and standard deviations `scale`, as K + 1 probabilities by stick breaking.

    >>> import core
    >>> core.distributions.LogisticNormal(core.zeros(2), core.ones(2)).event_shape
    core.Size([3])
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base: Any = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._fill(self._get_checked_instance(LogisticNormal, _instance), batch_shape)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Their standard deviations."""
        return self.base_dist.base_dist.scale
