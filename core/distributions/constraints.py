"""What values a parameter or an outcome may have: `check` says of each whether it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import text
from ..ops.closeness import isclose
from ..ops.creation import full
from ..ops.decomposition import cholesky_ex
from ..ops.joining import cat as joined
from ..ops.joining import stack as stacked
from ..ops.matrix import vector_norm
from ..ops.queries import finfo
from ..ops.spectral import eigvalsh
from ..tensors.tensor import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values: `check` gives a bool tensor with the event's dimensions, `event_dim` of them, taken together.

    >>> import core
    >>> c = core.distributions.constraints
    >>> c.positive, c.positive.check(core.tensor([-1.0, 1.0]))
    (GreaterThan(lower_bound=0.0), tensor([False,  True]))
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Return for each event of `value` whether it is in the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


class _Dependent(Constraint):
    """Depends on other parameters, so it is not checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, name: str) -> Any:
        found = getattr(self, "_" + name)
        if found is NotImplemented:
            raise NotImplementedError(
                f".{name} cannot be determined statically\n  remedy: ask a distribution that is made"
            )
        return found

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the values are separate, where that is known beforehand."""
        return self._known("is_discrete")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """How many dimensions an event has, where that is known beforehand."""
        return self._known("event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)  # fmt: skip

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property of a distribution whose constraint follows from its parameters; on the class it is dependent."""

    def __init__(self, fn: Callable[[Any], Any] | None = None, *, is_discrete: Any = NotImplemented,
                 event_dim: Any = NotImplemented) -> None:  # fmt: skip
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[[Any], Any]) -> Any:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Say whether a constraint follows from other parameters.

    >>> import core
    >>> d = core.distributions
    >>> d.constraints.is_dependent(d.Uniform.support), d.constraints.is_dependent(d.Normal.support)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


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


class _Bounded(Constraint):
    """Bounds that are numbers or tensors; None is no bound."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def __repr__(self) -> str:
        named = (("lower_bound", self.lower_bound), ("upper_bound", self.upper_bound))
        shown = ", ".join(f"{k}={v}" for k, v in named if v is not None)
        return f"{type(self).__name__.removeprefix('_')}({shown})"


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound)


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound)


class _GreaterThan(_Above):
    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Below):
    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_Below):
    """Counts that are together at most a number."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)

    __repr__ = Constraint.__repr__


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower Cholesky factors of correlations: their rows have length 1."""

    def check(self, value: Tensor) -> Tensor:
        off = (vector_norm(value.detach(), dim=-1) - 1).abs()
        return super().check(value) & (off <= finfo(value.dtype).eps * value.shape[-1] * 10).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return full(tuple(value.shape[:-2]), value.shape[-2] == value.shape[-1], device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return square
        return isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return cholesky_ex(value)[1] == 0


class _IndependentConstraint(Constraint):
    """Another constraint over several dimensions, taken together."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the base's values are separate."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The base's dimensions and those taken together."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        found = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if found.ndim < n:
            needed = self.base_constraint.event_dim + n
            raise ValueError(f"Expected value.dim() >= {needed} but got {value.ndim}")
        return found.flatten(found.ndim - n).all(-1) if n else found

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """What a mixture may give: each of its components gives all of it.

    >>> import core
    >>> c = core.distributions.constraints
    >>> c.MixtureSameFamilyConstraint(c.real)
    MixtureSameFamilyConstraint(Real())
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(text(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}"))
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the components' values are separate."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The dimensions of a component's event."""
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        n = self.event_dim
        if value.ndim < n:
            raise ValueError(f"Expected value.dim() >= {n} but got {value.ndim}")
        found = self.base_constraint.check(value.unsqueeze(-1 - n))
        kept = value.ndim - n
        return found.reshape(*found.shape[:kept], -1).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Joined(Constraint):
    """Several constraints, each for its part of one dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether any part's values are separate."""
        return any(c.is_discrete for c in self.cseq)

    def _dim_of(self, value: Tensor) -> int:
        if not -value.ndim <= self.dim < value.ndim:
            raise AssertionError(f"dim must be in range [{-value.ndim}, {value.ndim}), got {self.dim}")
        return self.dim


class _Cat(_Joined):
    """Constraints of parts that are joined along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths must have same length as cseq, got {len(self.lengths)} vs {len(self.cseq)}")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The greatest of the parts'."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        dim, start, found = self._dim_of(value), 0, []
        for part, length in zip(self.cseq, self.lengths, strict=True):
            found.append(part.check(value.narrow(dim, start, length)))
            start += length
        return joined(found, dim)


class _Stack(_Joined):
    """Constraints of parts that are stacked along a dimension of their own."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The greatest of the parts', and one more where the dimension is inside them."""
        n = max(c.event_dim for c in self.cseq)
        return n + 1 if self.dim + n < 0 else n

    def check(self, value: Tensor) -> Tensor:
        dim = self._dim_of(value)
        parts = [value.select(dim, i) for i in range(value.shape[dim])]
        return stacked([c.check(v) for c, v in zip(self.cseq, parts, strict=False)], dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean, one_hot, real = _Boolean(), _OneHot(), _Real()
real_vector = independent(real, 1)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
simplex, multinomial = _Simplex(), _Multinomial
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
cat, stack = _Cat, _Stack
