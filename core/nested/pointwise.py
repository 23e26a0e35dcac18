"""What goes element by element works on the values of nested tensors."""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor
from .of_sequences import NestedTensor
from .padding import spread
from .results import back, together


def pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Run what goes element by element on the values; dense tensors broadcast."""
    name = func.__name__
    given = [*args, *kwargs.values()]
    many = together(name, given)
    dense = [t for t in given if isinstance(t, Tensor) and not isinstance(t, NestedTensor) and t.ndim]
    writes = name.endswith("_") and many[0] is args[0]
    if dense and not writes:
        many = [t.compacted() for t in many]
    left = iter(many)
    first = many[0]

    def of(v: Any) -> Any:
        if isinstance(v, NestedTensor):
            return next(left)._held
        return spread(v, first, name) if isinstance(v, Tensor) and v.ndim else v

    y = func(*(of(v) for v in args), **{k: of(v) for k, v in kwargs.items()})
    return args[0] if writes else back(y, first._structure, first._ragged)


def of_values(func: Any, input: NestedTensor, *given: Any, **options: Any) -> Any:
    """Run on the values; other tensors are not spread over them, and of nested ones the values are meant."""
    others = [v._held if isinstance(v, NestedTensor) else v for v in given]
    y = func(input._held, *others, **options)
    return input if y is input._held else back(y, input._structure, input._ragged)


def contiguous(func: Any, input: NestedTensor, **options: Any) -> NestedTensor:
    x = input.compacted()
    values: Any = func(x._held, **options)
    return x if values is x._held else x.with_values(values)
