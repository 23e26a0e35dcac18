"""`CatTransform` and `StackTransform`: several transforms, each for its part of one dimension."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import text
from ...ops.joining import cat, stack
from ...tensors.tensor import Tensor
from .. import constraints
from ..constraints import Constraint
from ..utils import sum_rightmost
from .transform import Transform


class _Joined(Transform):
    """Parts along the dimension `dim`."""

    transforms: list[Transform]
    dim: int

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _pieces(self, value: Tensor) -> list[Tensor]:
        """The part of each transform."""
        raise NotImplementedError

    def _within(self, *values: Tensor) -> None:
        for value in values:
            if not -value.ndim <= self.dim < value.ndim:
                raise AssertionError(f"dim {self.dim} out of range for tensor with {value.ndim} dimensions")

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        self._within(x)
        return self._joined([t(part) for t, part in zip(self.transforms, self._pieces(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        self._within(y)
        return self._joined([t.inv(part) for t, part in zip(self.transforms, self._pieces(y), strict=True)])

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else self._like(cache_size)

    def _like(self, cache_size: int) -> Transform:
        return type(self)(self.transforms, self.dim, cache_size=cache_size)


class CatTransform(_Joined):
    """Transforms of parts, of the lengths `lengths` (1 each), that are joined along `dim`.

    >>> import core
    >>> t = core.distributions.transforms
    >>> t.CatTransform([t.ExpTransform(), t.identity_transform], lengths=[1, 2])(core.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
                 cache_size: int = 0) -> None:  # fmt: skip
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(text(f"lengths has {len(self.lengths)} elements and tseq {len(self.transforms)}",
                                      op="CatTransform"))  # fmt: skip

    def _like(self, cache_size: int) -> Transform:
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """How long all parts are together."""
        return sum(self.lengths)

    def _pieces(self, value: Tensor) -> list[Tensor]:
        if value.shape[self.dim] != self.length:
            raise AssertionError(text(f"size at dim {self.dim} is {value.shape[self.dim]}, expected {self.length}",
                                      op="CatTransform", needed=" + ".join(map(str, self.lengths))))  # fmt: skip
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return [value.narrow(self.dim, start, n) for start, n in zip(starts, self.lengths, strict=True)]

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return cat(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        self._within(x, y)
        terms = []
        for t, before, after in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            term = t.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += self.event_dim
        return cat(terms, dim) if dim < 0 else sum(terms)  # type: ignore[return-value]

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """Transforms of parts that are stacked along `dim`.

    >>> import core
    >>> t = core.distributions.transforms
    >>> t.StackTransform([t.ExpTransform(), t.identity_transform], dim=-1)(core.zeros(2))
    tensor([1., 0.])
    """

    def _pieces(self, value: Tensor) -> list[Tensor]:
        if value.shape[self.dim] != len(self.transforms):
            raise AssertionError(text(f"size at dim {self.dim} is {value.shape[self.dim]}, expected "
                                      f"{len(self.transforms)}", op="StackTransform"))  # fmt: skip
        return [value.select(self.dim, i) for i in range(value.shape[self.dim])]

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return stack(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        self._within(x, y)
        pieces = zip(self.transforms, self._pieces(x), self._pieces(y), strict=True)
        return stack([t.log_abs_det_jacobian(before, after) for t, before, after in pieces], self.dim)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
