"""`Transform`, its inverse, and what is made of transforms: a chain, more event dimensions, another shape."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

from ...base.errors import text
from ...base.shape import Size
from ...ops.creation import zeros, zeros_like
from ...tensors.tensor import Tensor
from .. import constraints
from ..constraints import Constraint
from ..utils import sum_rightmost


class Transform:
    """A function of outcomes whose inverse is known, or one of its inverses, and how it stretches volumes.

    A class below it says `_call`, `_inverse` and `log_abs_det_jacobian`, its `domain` and its `codomain`, and whether
    it is `bijective`. With ``cache_size=1`` the last pair of x and y is kept: the inverse of what was just made is what
    it was made of, to the last digit.

    >>> import core
    >>> t = core.distributions.transforms.ExpTransform()
    >>> t(core.tensor(0.0)), t.inv(core.tensor(1.0)), t.inv
    (tensor(1.), tensor(0.), _InverseTransform(ExpTransform()))
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(text("cache_size must be 0 or 1", op=type(self).__name__, came=f"{cache_size}"))
        self._cache_size = cache_size
        self._inv: weakref.ReferenceType[Transform] | None = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}  # which is made again when it is asked for

    @property
    def event_dim(self) -> int:
        """How many dimensions are taken together, where x and y have as many."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse, whose inverse this is."""
        found = None if self._inv is None else self._inv()
        if found is None:
            found = _InverseTransform(self)
            self._inv = weakref.ref(found)
        return found

    @property
    def sign(self) -> Any:
        """1 where it rises and -1 where it falls, of a transform of single numbers."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return it with that cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        last_x, last_y = self._cached_x_y
        if x is last_x:
            return last_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        last_x, last_y = self._cached_x_y
        if y is last_y:
            return last_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |dy/dx| of each event."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__ + "()"

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of y for that of x."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of x for that of y."""
        return shape


class _InverseTransform(Transform):
    """A transform the other way."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._forward = transform

    @property
    def inv(self) -> Transform:
        return self._forward

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return self._forward.codomain

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return self._forward.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._forward.bijective

    @property
    def sign(self) -> Any:
        return self._forward.sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._forward.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._forward == other._forward

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._forward!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._forward.forward_shape(shape)


def widened(constraint: Constraint, event_dim: int) -> Constraint:
    """Return the constraint over `event_dim` dimensions, of which it has as many or fewer."""
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


class ComposeTransform(Transform):
    """Transforms one after another: the first of `parts` first.

    >>> import core
    >>> t = core.distributions.transforms
    >>> t.ComposeTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)])(core.tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        needed = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            needed = max(needed + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return widened(self.parts[0].domain, needed)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        made = self.parts[0].domain.event_dim
        for part in self.parts:
            made = max(made + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return widened(self.parts[-1].codomain, made)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        found: Any = 1
        for part in self.parts:
            found = found * part.sign
        return found

    @property
    def inv(self) -> Transform:
        found = None if self._inv is None else self._inv()
        if found is None:
            found = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv, found._inv = weakref.ref(found), weakref.ref(self)
        return found

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        between = [x]
        for part in self.parts[:-1]:
            between.append(part(between[-1]))
        between.append(y)
        total: Any = 0
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, between[:-1], between[1:], strict=True):
            term = part.log_abs_det_jacobian(before, after)
            total = total + sum_rightmost(term, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Sequence[int]) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform with `reinterpreted_batch_ndims` more dimensions taken as one event.

    >>> import core
    >>> t = core.distributions.transforms
    >>> x = core.zeros(3)
    >>> t.IndependentTransform(t.ExpTransform(), 1).log_abs_det_jacobian(x, x.exp())
    tensor(0.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _enough(self, value: Tensor, constraint: Constraint) -> None:
        if value.ndim < constraint.event_dim:
            raise ValueError(text("Too few dimensions on input", op="IndependentTransform",
                                  came=f"{tuple(value.shape)}", needed=f"{constraint.event_dim} or more"))  # fmt: skip

    def _call(self, x: Tensor) -> Tensor:
        self._enough(x, self.domain)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        self._enough(y, self.codomain)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Events of `in_shape` as events of `out_shape`.

    >>> import core
    >>> core.distributions.transforms.ReshapeTransform((4,), (2, 2))(core.arange(4.0))
    tensor([[0., 1.],
            [2., 3.]])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(in_shape) != math.prod(out_shape):
            raise ValueError(text("in_shape, out_shape have different numbers of elements", op="ReshapeTransform",
                                  came=f"{math.prod(in_shape)} and {math.prod(out_shape)}"))  # fmt: skip
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        batch = x.shape[: x.ndim - len(self.in_shape)]
        return zeros(tuple(batch), dtype=x.dtype, device=x.device)

    @staticmethod
    def _turned(shape: Sequence[int], old: Size, new: Size) -> Size:
        if len(shape) < len(old):
            raise ValueError(text("Too few dimensions on input", op="ReshapeTransform", came=f"{tuple(shape)}",
                                  needed=f"{len(old)} or more"))  # fmt: skip
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(text(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(old)}",
                                  op="ReshapeTransform"))  # fmt: skip
        return Size((*shape[:cut], *new))

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._turned(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._turned(shape, self.out_shape, self.in_shape)
