"""What the rules of nested tensors share: arguments that belong together, results that are nested, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ..base.dtypes import int64
from ..base.errors import text
from ..base.shape import normalize_dim
from ..ops.creation import tensor
from ..ops.joining import cat
from ..tensors.tensor import Tensor
from .of_sequences import REMEDY, NestedTensor, made
from .structure import Structure


def any_nested(values: Iterable[Any]) -> NestedTensor:
    for v in values:
        if isinstance(v, NestedTensor):
            return v
        if isinstance(v, list | tuple) and any(isinstance(t, NestedTensor) for t in v):
            return any_nested(v)
    raise AssertionError("no argument is nested")


def back(y: Any, structure: Structure, ragged: int) -> Any:
    """Return results over the same rows: tensors are nested, and what holds several is left what it is."""
    if isinstance(y, Tensor):
        return made(y, structure, ragged)
    if isinstance(y, tuple | list):
        several = [back(v, structure, ragged) for v in y]
        return type(y)(*several) if hasattr(y, "_fields") else type(y)(several)
    return y


def unsupported(name: str, why: str, x: NestedTensor, error: type[Exception] = RuntimeError) -> Exception:
    return error(text(f"{name}(): {why}", op=name, came=f"a nested tensor of shape {tuple(x.shape)}", remedy=REMEDY))


def inner_dim(name: str, x: NestedTensor, dim: Any, extra: int = 0) -> int:
    """Return a dimension that is neither the batch nor ragged, counted from the front."""
    d = normalize_dim(dim, x.ndim + extra, name)
    if d == 0:
        raise unsupported(name, "not supported for NestedTensor on dim=0", x)
    if d == x._ragged and not extra:
        raise unsupported(name, "not supported for NestedTensor on ragged dim", x)
    return d


def together(name: str, tensors: Iterable[Any]) -> list[NestedTensor]:
    """Return the nested ones of several tensors, over the same rows; RuntimeError where their sequences differ."""
    many = [t for t in tensors if isinstance(t, NestedTensor)]
    first = many[0]
    for t in many[1:]:
        if (t._structure.size, t._ragged, t.ndim) != (first._structure.size, first._ragged, first.ndim):
            raise RuntimeError(
                text(f"cannot call binary pointwise function {name} with inputs of shapes {tuple(first.shape)} and "
                     f"{tuple(t.shape)}", op=name, needed="sequences of the same offsets",
                     remedy="core.nested.nested_tensor_from_jagged(y.values(), offsets=x.offsets()), where their "
                     "lengths are the same"))  # fmt: skip
    fit = all(t._structure.fits(first._structure) for t in many)
    return many if fit else [t.compacted() for t in many]


def nested_of(pieces: Sequence[Tensor], ragged: int) -> NestedTensor:
    """Return the nested tensor of sequences that differ in dimension ``ragged - 1``, on their graph."""
    ends = [0, *itertools.accumulate(t.shape[ragged - 1] for t in pieces)]
    offsets = tensor(ends, dtype=int64, device=pieces[0].device)
    return made(cat(list(pieces), ragged - 1), Structure(offsets, None, ends[-1]), ragged)
