"""`Chi2`: the length of a normal vector, squared."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensors.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .gamma import Gamma
from .utils import broadcast_all


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers.

    >>> import core
    >>> core.distributions.Chi2(2.0).log_prob(core.tensor(1.0))
    tensor(-1.1931)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (half,) = broadcast_all(0.5 * df)
        super().__init__(half, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2
