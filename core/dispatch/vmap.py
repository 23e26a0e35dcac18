"""Tensors with a hidden first dimension, for `core.func.vmap`: each op runs once for the whole batch.

A `Batched` tensor looks like one example. An elementwise op, a reduction, a product, a movement or a basic index has a
rule that runs it over the hidden dimension; any other op runs once for each example, and the results are stacked. What
would need to see values (``if x > 0``, ``x.item()``, a mask as an index) raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ..base.device import Kind, kind
from ..base.errors import text
from ..base.modes import state as mode
from ..declare import op as declarations
from ..declare.op import Elementwise, Operation
from ..tensors.overriding import not_asked
from ..tensors.tensor import Tensor
from . import elementwise, operands, structured
from .inplace import write

_f = declarations.functions


def _refuse(what: str) -> RuntimeError:
    return RuntimeError(
        text(f"vmap: It looks like you're calling {what} on a Tensor. We don't support vmap over calling {what} on a "
             "Tensor, please try to rewrite what you're doing.", op="vmap",
             came="a value that differs between the examples", remedy="core.where for a choice, a reduction for a sum")
    )  # fmt: skip


class _Proxy(np.ndarray):
    """One example's place: it has a shape and a dtype, and raises when its values are asked for."""

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise _refuse("an operation on values")

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        raise _refuse("an operation on values")

    def item(self, *args: Any) -> Any:
        raise _refuse(".item()")

    def tolist(self) -> Any:
        raise _refuse(".tolist()")

    nonzero = copy = astype = tolist  # type: ignore[assignment]


@cache
def _kind(of: Kind) -> Kind:
    """Return a kind like `of` that no kernel knows, so that ops of a batched tensor take the general way."""
    found = object.__new__(type(of))
    for name in getattr(type(of), "__slots__", None) or vars(of):
        setattr(found, name, getattr(of, name))
    return found


class Batched(Tensor):
    """What one example sees of a tensor whose first dimension holds all of them."""

    __torch_function__ = not_asked

    _full: Tensor
    _level: int

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:  # type: ignore[override]
        return self._full.requires_grad

    @property
    def grad_fn(self) -> Any:
        return self._full.grad_fn

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        self._full.requires_grad_(requires_grad)
        return self

    def detach(self) -> Tensor:
        return batched(self._full.detach(), self._level)

    @property  # type: ignore[misc]
    def data(self) -> Tensor:  # type: ignore[override]
        return batched(self._full.data, self._level)

    def item(self) -> Any:
        raise _refuse(".item()")

    def tolist(self) -> Any:
        raise _refuse(".tolist()")

    def numpy(self, *, force: bool = False) -> Any:
        raise _refuse(".numpy()")

    def __bool__(self) -> bool:
        raise RuntimeError(
            text("vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
                 "support that yet, please shout over at https://github.com/pytorch/functorch/issues/257 .", op="vmap",
                 came="if or while on a value that differs between the examples", remedy="core.where(condition, a, b)")
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Batched(level={self._level}, {self._full!r})"


def batched(full: Tensor, level: int) -> Batched:
    """`full` as its examples see it."""
    out = Tensor.__new__(Batched)
    a = full._a
    shape = tuple(a.shape[1:])
    out._a = np.ndarray.__new__(_Proxy, shape, a.dtype) if not a.size else np.asarray(a)[0, ...].view(_Proxy)
    out._kind, out._full, out._level = _kind(_plain(full._kind)), full, level
    return out


def _plain(k: Kind) -> Kind:
    return kind(k.dtype, k.device)


def full_of(x: Any, level: int, size: int) -> Any:
    """Return the whole batch of `x` at a level; stretched over it if it is the same for all."""
    if isinstance(x, Batched) and x._level == level:
        return x._full
    return x.unsqueeze(0).expand(size, *x.shape) if isinstance(x, Tensor) else x


def level_of(args: Sequence[Any]) -> int:
    """Return the innermost level among tensors; 0 where none is batched."""
    return max((a._level for a in args if isinstance(a, Batched)), default=0)


class Handler:
    """What dispatch asks while a vmap runs."""

    def __init__(self) -> None:
        self.sizes: list[int] = []  # of every level that is open, the outermost first

    def __bool__(self) -> bool:
        return bool(self.sizes)

    def map(self, op: Elementwise, args: tuple[Any, ...], params: Any) -> Any:
        """Return an elementwise op; NotImplemented where nothing is batched."""
        level = level_of(args)
        if not level:
            return NotImplemented
        _, args = operands.promote(op, args)
        rank = max(a.ndim for a in args if isinstance(a, Tensor))
        return batched(elementwise.call_map(op, tuple(_aligned(a, level, rank) for a in args), params), level)

    def operation(self, op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Return a structured op, by its rule or example by example; NotImplemented where nothing is batched."""
        level = level_of(tensors)
        if not level:
            return NotImplemented
        from .vmap_rules import RULES

        rule = RULES.get(op.name)
        found = rule(op, tensors, params, level, self.sizes[level - 1]) if rule is not None else None
        if found is None:
            size = self.sizes[level - 1]
            found = one_by_one(lambda *ts: structured.call_operation(op, ts, params), tensors, level, size)
        return tuple(batched(t, level) for t in found) if isinstance(found, tuple) else batched(found, level)

    def write(self, target: Tensor, name: str, compute: Any) -> Any:
        """Return an in-place op; NotImplemented where nothing is batched."""
        if not isinstance(target, Batched):
            return NotImplemented
        level = target._level

        def whole(t: Tensor) -> Tensor:
            result = compute(target if t is target._full else batched(t, level))
            self.check_write(target, result, name)
            full = result._full if isinstance(result, Batched) and result._level == level else result
            return full if full.shape == t.shape else full.expand(t.shape)

        write(target._full, name, whole)
        return target

    def check_write(self, target: Tensor, result: Tensor, name: str) -> None:
        """Raise if examples would be written into one tensor that is the same for all."""
        if level_of((result,)) > level_of((target,)):
            raise RuntimeError(
                text("vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor "
                     f"`other` in extra_args that has more elements than `self`. ({name})", op="vmap",
                     remedy=f"the form without the underscore: {name.rstrip('_')}")
            )  # fmt: skip

    def each(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a whole function example by example, where it looks at values; NotImplemented where nothing is
        batched."""
        level = level_of(args)
        if not level:
            return NotImplemented
        tensors = [a for a in args if isinstance(a, Tensor)]

        def one(*given: Tensor) -> Any:
            it = iter(given)
            return function(*(next(it) if isinstance(a, Tensor) else a for a in args), **kwargs)

        return batched(one_by_one(one, tensors, level, self.sizes[level - 1]), level)

    def index(self, x: Tensor, index: Any) -> Any:
        """``x[index]`` where an index is batched: example by example; NotImplemented where none is."""
        parts = index if isinstance(index, tuple) else (index,)
        level = level_of(parts)
        if not level:
            return NotImplemented
        if any(isinstance(p, Batched) and p.dtype.category == 0 for p in parts):
            raise _refuse("a mask as an index: its result has another size in every example, which .nonzero() means")
        tensors = (x, *(p for p in parts if isinstance(p, Tensor)))

        def one(x: Tensor, *given: Tensor) -> Tensor:
            it = iter(given)
            return x[tuple(next(it) if isinstance(p, Tensor) else p for p in parts)]

        level = level_of(tensors)
        return batched(one_by_one(one, tensors, level, self.sizes[level - 1]), level)


def _aligned(a: Any, level: int, rank: int) -> Any:
    """Return the batch of an operand, with ones after its first dimension up to the rank of the others."""
    if not (isinstance(a, Batched) and a._level == level):
        return a
    full = a._full
    for _ in range(rank - a.ndim):
        full = full.unsqueeze(1)
    return full


def one_by_one(function: Any, tensors: Sequence[Any], level: int, size: int) -> Any:
    """Run `function` for each example and stack what comes."""
    if not size:
        raise RuntimeError(text("vmap: an op without a rule over an empty batch", op="vmap", remedy="a batch of one"))
    each = [function(*(t._full[b] if isinstance(t, Batched) and t._level == level else t for t in tensors))
            for b in range(size)]  # fmt: skip
    if isinstance(each[0], tuple):
        return tuple(_f["stack"](list(column)) for column in zip(*each, strict=True))
    return _f["stack"](each)


def handler() -> Handler:
    """This thread's handler, made when an outermost vmap begins; it goes with that."""
    if mode.batch is None:
        mode.batch = Handler()
    return mode.batch  # type: ignore[no-any-return]
