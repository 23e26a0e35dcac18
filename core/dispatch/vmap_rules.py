"""How structured ops run over a batch's hidden first dimension; an op without a rule here runs example by example.

A rule gets the op, its tensors (`Batched` ones among them), its parameters, the level and the size of the batch, and
gives the whole result, or None where it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..declare import op as declarations
from ..declare.op import Operation
from ..tensors.tensor import Tensor
from . import structured
from .vmap import Batched, _aligned, full_of

Rule = Callable[[Operation, tuple[Any, ...], dict[str, Any], int, int], Any]
_f = declarations.functions


def _shift(d: Any) -> Any:
    return tuple(_shift(i) for i in d) if isinstance(d, tuple) else d + 1 if d >= 0 else d


def _dims(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    """Ops of one tensor whose parameters name dimensions."""
    (x,) = tensors
    named = {n: v for n, v in params.items() if n in ("dim", "dims", "dim0", "dim1", "dim2")}
    if x.ndim == 0 or () in named.values():
        return None
    return structured.call_operation(op, (x._full,), {**params, **{n: _shift(v) for n, v in named.items()}})


def _direct(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    """Ops of one tensor that treat every element, or the last dimensions, alike."""
    return structured.call_operation(op, (tensors[0]._full,), params)


def _matrix(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    return _direct(op, tensors, params, level, size) if tensors[0].ndim >= 2 else None


def _view(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    return tensors[0]._full.reshape((size, *params["shape"]))


def _expand(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    return _aligned(tensors[0], level, len(params["shape"])).expand((size, *params["shape"]))


def _repeat(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    return _aligned(tensors[0], level, len(params["sizes"])).repeat((1, *params["sizes"]))


def _permute(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    return tensors[0]._full.permute((0, *(d + 1 if d >= 0 else d for d in params["dims"])))


def _unsqueeze(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    return tensors[0]._full.unsqueeze(_shift(params["dim"]))


def _transposed(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    x = tensors[0]
    return x._full.transpose(1, 2) if x.ndim == 2 else x._full


def _key(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    return structured.call_operation(op, (tensors[0]._full,), {"key": (slice(None), *params["key"])})


def _joined(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    fulls = tuple(full_of(t, level, size) for t in tensors)
    return structured.call_operation(op, fulls, {**params, "dim": _shift(params["dim"])})


def _matmul(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    rank = max(t.ndim for t in tensors)
    return structured.call_operation(op, tuple(_aligned(t, level, rank) for t in tensors), params)


def _attention(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    rank = max(t.ndim for t in tensors if t is not None)
    fulls = tuple(t if t is None else _aligned(t, level, rank) for t in tensors)
    return structured.call_operation(op, fulls, params)


def _linear(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    x, weight, bias = tensors
    if not any(isinstance(t, Batched) and t._level == level for t in (weight, bias)):
        return structured.call_operation(op, (x._full, weight, bias), params)
    y = _f["matmul"](x, weight.transpose(0, 1))
    y = y if bias is None else y + bias
    return y._full


def _rows(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    """Ops of a batched first tensor and others that are the same for all."""
    x, *rest = tensors
    if not isinstance(x, Batched) or x._level != level or any(isinstance(t, Batched) for t in rest):
        return None
    return structured.call_operation(op, (x._full, *rest), params)


def _embedding(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    weight, index = tensors
    return None if isinstance(weight, Batched) else structured.call_operation(op, (weight, index._full), params)


def _gathered(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    if any(t.ndim == 0 for t in tensors):
        return None
    fulls = tuple(full_of(t, level, size) for t in tensors)
    return structured.call_operation(op, fulls, {**params, "dim": _shift(params["dim"])})


def _index(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    x, *indices = tensors
    if not isinstance(x, Batched) or any(isinstance(t, Batched) for t in indices):
        return None
    return structured.call_operation(op, (x._full, *indices), {**params, "where": (False, *params["where"])})


def _einsum(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any], level: int, size: int) -> Any:
    left, arrow, right = params["equation"].replace(" ", "").partition("->")
    free = next((c for c in "zyxwvutsrqponmlkjihgfedcba" if c not in params["equation"]), None)
    if not arrow or "." in left or free is None:
        return None
    on = [isinstance(t, Batched) and t._level == level for t in tensors]
    terms = [free + term if b else term for term, b in zip(left.split(","), on, strict=True)]
    fulls: tuple[Tensor, ...] = tuple(t._full if b else t for t, b in zip(tensors, on, strict=True))
    return structured.call_operation(op, fulls, {**params, "equation": f"{','.join(terms)}->{free}{right}"})


RULES: dict[str, Rule] = {
    **dict.fromkeys(["sum", "mean", "prod", "amax", "amin", "var", "std", "vector_norm", "logsumexp", "all", "any",
                     "count_nonzero", "max_dim", "min_dim", "argmax", "argmin", "softmax", "log_softmax", "cumsum",
                     "flip", "roll", "squeeze", "transpose", "diagonal", "split", "unbind", "unfold"], _dims),
    **dict.fromkeys(["clone", "contiguous", "cast", "fill", "dropout"], _direct),
    **dict.fromkeys(["tril", "triu"], _matrix),
    **dict.fromkeys(["cat", "stack"], _joined),
    **dict.fromkeys(["slice", "select"], _key),
    **dict.fromkeys(["gather", "scatter_add", "scatter"], _gathered),
    "view": _view, "expand": _expand, "repeat": _repeat, "permute": _permute, "unsqueeze": _unsqueeze,
    "t": _transposed, "matmul": _matmul, "attention": _attention, "linear": _linear,
    "layer_norm": _rows, "embedding": _embedding, "index": _index, "einsum": _einsum,
}  # fmt: skip
