"""Rows of the reductions: sums, products, norms, counts, extremes and their places, variance, log-sum-exp.

The gradients that are one map of the operand and a few numbers a result are one launch here, printed for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .. import Row
from .shared import FLOATING, array_library, empty, floating, kept, name

_COUNTED = ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATING)
_NORMS = {0.0: "norm0", 1.0: "norm1", 2.0: "norm2", float("inf"): "norminf", float("-inf"): "norm-inf"}


def _dims(x: Any, dim: Any) -> tuple[int, ...]:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(d % max(x.ndim, 1) for d in dims if x.ndim)


def _none_of(x: Any, dim: Any) -> bool:
    """Return whether a result is asked for of no elements at all."""
    return any(x.shape[d] == 0 for d in _dims(x, dim))


def _reduce(kind: str, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    from triton_kernels import reduce

    dims = _dims(x, dim)
    out = empty(kept(x.shape, dims, keepdim), dtype)
    reduce.reduce_forward(kind, x, dims, out)
    return out


def _reduction(kind: str) -> Row:
    def declines(x: Any, dim: Any, keepdim: bool) -> str | None:
        if kind == "sum" and x.dtype == np.int64:
            return None
        return floating(x) or (
            "has no value for an empty tensor" if kind not in ("sum", "mean", "prod") and not x.size else None
        )

    def run(x: Any, dim: Any, keepdim: bool) -> Any:
        return _reduce(kind, x, dim, keepdim, np.int64 if kind.startswith("arg") else x.dtype)

    return Row("arg_kernel" if kind.startswith("arg") else "reduce_kernel", name, run, declines)


def _truth(kind: str) -> Row:
    return Row("reduce_kernel", name, lambda x, dim, keepdim: _reduce(kind, x, dim, keepdim, np.bool_),
               lambda x, **_: _counted(x))  # fmt: skip


def _counted(x: Any) -> str | None:
    return None if x.dtype.name in _COUNTED else f"takes {', '.join(_COUNTED)}, got {x.dtype}"


def _norm_takes(x: Any, p: float, dim: Any) -> str | None:
    if p not in _NORMS:
        return f"takes the norms {', '.join(map(str, _NORMS))}, got {p}"
    return floating(x) or ("has no least element of none" if p == float("-inf") and _none_of(x, dim) else None)


def _extreme(kind: str) -> Row:
    def run(x: Any, dim: int, keepdim: bool) -> Any:
        from triton_kernels import reduce

        dims = _dims(x, dim)
        shape = kept(x.shape, dims, keepdim)
        values, places = empty(shape, x.dtype), empty(shape, np.int64)
        reduce.reduce_forward(kind, x, dims, places, values=values)
        return values, places

    none = "has no value for an empty tensor, and no dimension in a 0-d one"
    return Row("arg_kernel", name, run, lambda x, dim, keepdim: floating(x) or (None if x.ndim and x.size else none))


def _moments(kind: str) -> Row:
    def run(x: Any, dim: Any, keepdim: bool, correction: float = 0.0) -> Any:
        from triton_kernels import moments

        dims = _dims(x, dim)
        out = empty(kept(x.shape, dims, keepdim), x.dtype)
        moments.moments_forward(kind, x, dims, out, correction)
        return out

    return Row("moments_kernel", name, run,
               lambda x, **_: floating(x) or (None if x.size else "takes no empty arrays"))  # fmt: skip


# -- gradients ---------------------------------------------------------------------------------------------------------


@cache
def _printed(kernel: str, inputs: tuple[str, ...], params: tuple[str, ...], *lines: str) -> Callable[..., Any]:
    """Return a map of x and a few numbers a result, as one kernel; what has the result's shape broadcasts."""
    from triton_kernels import elementwise

    built = elementwise.build(kernel, inputs, params, lines, lines[-1].partition(" = ")[0])

    def run(dims: tuple[int, ...], x: Any, *others: Any, numbers: tuple[float, ...] = ()) -> Any:
        shape = tuple(1 if i in dims else n for i, n in enumerate(x.shape))
        out = empty(x.shape, x.dtype)
        built((x, *(a.reshape(shape) for a in others)), numbers, out)
        return (out,)

    return run


def _logsumexp_backward(g: Any, x: Any, y: Any, dim: Any, keepdim: bool) -> Any:
    lines = ('t0 = tl.where(y == -float("inf"), 0.0, y)', "t1 = scalar.exp(x - t0)", "t2 = g * t1")
    return _printed("logsumexp_backward", ("x", "g", "y"), (), *lines)(_dims(x, dim), x, g, y)


def _spread_backward(g: Any, x: Any, dim: Any, correction: float, keepdim: bool, y: Any = None) -> Any:
    dims = _dims(x, dim)
    mean = _reduce("mean", x, dims, True, np.float64 if x.dtype == np.float64 else np.float32)
    free = float(np.prod([x.shape[d] for d in dims])) - correction
    numbers = ((2.0 if y is None else 1.0) / free if free > 0 else float("inf"),)
    if y is None:
        line = "t0 = (g * slope) * (x - mean)"
        return _printed("var_backward", ("x", "g", "mean"), ("slope",), line)(dims, x, g, mean, numbers=numbers)
    lines = ("t0 = tl.where(y == 0, 0.0, scalar.div(g, tl.where(y == 0, 1.0, y)))", "t1 = (t0 * slope) * (x - mean)")
    return _printed("std_backward", ("x", "g", "mean", "y"), ("slope",), *lines)(dims, x, g, mean, y, numbers=numbers)


def _norm_backward(g: Any, x: Any, y: Any, p: float, dim: Any, keepdim: bool) -> Any:
    if p == 1:
        return _printed("norm1_backward", ("x", "g"), (), "t0 = g * scalar.sign(x)")(_dims(x, dim), x, g)
    lines = ("t0 = x * tl.where(y == 0, 0.0, scalar.div(g, tl.where(y == 0, 1.0, y)))",)
    return _printed("norm2_backward", ("x", "g", "y"), (), *lines)(_dims(x, dim), x, g, y)


def _place_backward(g: Any, indices: Any, x_shape: Any, dim: int, keepdim: bool, needs: Any) -> Any:
    from triton_kernels import reduce

    dense, given = array_library().ascontiguousarray, g[0]
    out = empty(x_shape, given.dtype)
    reduce.place(dense(given), dense(indices), dim, out)
    return (out,)


def _placed_declines(g: Any, x_shape: Any, **_: Any) -> str | None:
    return floating(g[0]) or (None if x_shape else "has no dimension in a 0-d tensor")


_PLACED = Row("place_kernel", name, _place_backward, _placed_declines)

ROWS = {
    **{op: _reduction(kind) for op, kind in [("sum", "sum"), ("mean", "mean"), ("prod", "prod"), ("amax", "max"),
                                             ("amin", "min"), ("argmax", "argmax"), ("argmin", "argmin")]},
    "any": _truth("any"),
    "all": _truth("all"),
    "count_nonzero": Row("reduce_kernel", name, lambda x, dim: _reduce("count", x, dim, False, np.int64),
                         lambda x, dim: _counted(x)),
    "vector_norm": Row("reduce_kernel", name,
                       lambda x, p, dim, keepdim: _reduce(_NORMS[p], x, dim, keepdim, x.dtype),
                       lambda x, p, dim, keepdim: _norm_takes(x, p, dim)),
    "vector_norm.backward": Row("norm_backward_kernel", name, _norm_backward,
                                lambda g, x, y, p, **_: floating(x, g, y)
                                or (None if p in (1, 2) else f"takes the norms 1 and 2, got {p}")),
    "max_dim": _extreme("argmax"),
    "min_dim": _extreme("argmin"),
    "max_dim.backward": _PLACED,
    "min_dim.backward": _PLACED,
    "var": _moments("var"),
    "std": _moments("std"),
    "logsumexp": _moments("logsumexp"),
    "var.backward": Row("var_backward_kernel", name, _spread_backward, lambda g, x, **_: floating(x, g)),
    "std.backward": Row("std_backward_kernel", name, _spread_backward, lambda g, x, y, **_: floating(x, g, y)),
    "logsumexp.backward": Row("logsumexp_backward_kernel", name, _logsumexp_backward,
                              lambda g, x, y, **_: floating(x, g, y)),
}  # fmt: skip
