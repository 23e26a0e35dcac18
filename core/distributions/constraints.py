"""What values a parameter or an outcome may have; ``check`` says of each whether it does."""

from __future__ import annotations

from typing import Any

from ..ops.decomposition import cholesky_ex
from ..tensors.tensor import Tensor


class Constraint:
    """A set of values: `check` gives a bool tensor with the event's dimensions, `event_dim` of them, taken together."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    """Depends on other parameters, so it is not checked by itself."""


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # a NaN is not


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        lower = (value.tril() == value).flatten(-2).all(-1)
        return lower & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _PositiveDefinite(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        symmetric = ((value - value.mT).abs() <= 1e-6 + 1e-5 * value.abs()).flatten(-2).all(-1)
        return symmetric & (cholesky_ex(value)[1] == 0)


class _Bounded(Constraint):
    """Bounds that are numbers or tensors; None is no bound."""

    def __init__(self, lower: Any = None, upper: Any = None) -> None:
        self.lower_bound, self.upper_bound = lower, upper

    def __repr__(self) -> str:
        named = (("lower_bound", self.lower_bound), ("upper_bound", self.upper_bound))
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in named if v is not None)})"


class GreaterThan(_Bounded):
    """Greater than a bound."""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class GreaterThanEq(_Bounded):
    """A bound or greater."""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class LessThan(_Bounded):
    """Less than a bound."""

    def __init__(self, upper: Any) -> None:
        super().__init__(None, upper)

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class Interval(_Bounded):
    """Between two bounds, both included."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class IntegerInterval(_Bounded):
    """Whole numbers between two bounds, both included."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == value.floor()) & (self.lower_bound <= value) & (value <= self.upper_bound)


class IntegerGreaterThan(_Bounded):
    """Whole numbers from a bound on."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == value.floor()) & (value >= self.lower_bound)


class Independent(Constraint):
    """Another constraint over several dimensions, taken together."""

    def __init__(self, base: Constraint, more: int) -> None:
        self.base, self.more = base, more
        self.event_dim, self.is_discrete = base.event_dim + more, base.is_discrete

    def check(self, value: Tensor) -> Tensor:
        found = self.base.check(value)
        for _ in range(self.more):
            found = found.all(-1)
        return found

    def __repr__(self) -> str:
        return f"Independent({self.base!r}, {self.more})"


dependent = _Dependent()
boolean = _Boolean()
one_hot = _OneHot()
real = _Real()
real_vector = Independent(real, 1)
simplex = _Simplex()
lower_cholesky = _LowerCholesky()
positive_definite = _PositiveDefinite()
positive = GreaterThan(0.0)
nonnegative = GreaterThanEq(0.0)
unit_interval = Interval(0.0, 1.0)
nonnegative_integer = IntegerGreaterThan(0)
positive_integer = IntegerGreaterThan(1)
interval, integer_interval = Interval, IntegerInterval
greater_than, greater_than_eq, less_than, independent = GreaterThan, GreaterThanEq, LessThan, Independent
