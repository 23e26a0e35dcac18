"""The CPU's kernels of reductions (native/kernels/axes.c) and of what comes back from sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..declare.kernel import kernel

c: Any = native.module


def _says(name: str, types: str) -> Callable[..., str | None]:
    """Return what tells why the entry of a reduction does not take a type: it takes few integers, and is asked."""

    def say(x: Any, dim: Any, keepdim: bool) -> str | None:
        if x.dtype.char in "fd":
            return None
        small = "l" in types and x.dtype.char == "l" and c.entries[name](x, dim, keepdim) is not NotImplemented
        return None if small else f"takes float32 and float64, got {x.dtype}"

    return say


_FEW_INTEGERS = "x.type != NPY_INT64 or (0 < x.size <= {} and x.whole and are_neighbours(dim, len(dim)))"
for _name, _kind, _mean, _type in (
    ("sum", "SUM", 0, "number"),
    ("mean", "SUM", 1, "real"),
    ("amax", "MAX", 0, "number"),
    ("amin", "MIN", 0, "number"),
):
    kernel(
        _name,
        f"x: {_type}[...] dense, dim: ints, keepdim: flag",
        plan="reduce_plan: reduce_planned(address(plan), x.view, dim, len(dim), keepdim)",
        gives=f"y: {_type}[plan]",
        call=f"reduce_axes.T(REDUCE_{_kind}, {_mean}, address(plan), x, y)",
        fails="memory",
        quiet="x.size >= 65536",
        requires={"x.size": "has no value for an empty tensor"} if _kind != "SUM" else None,
        takes=(_FEW_INTEGERS.format(65536 if _name == "sum" else 4096),) if _type == "number" else (),
        say=_says(_name, _type),
        row={"amax": "max_forward", "amin": "min_forward"}.get(_name, ""),
    )


def _argument(name: str) -> Callable[..., Any]:
    def run(x: Any, dim: int | None, keepdim: bool) -> Any:
        if dim is not None:
            return c.entries[name](x, dim, keepdim)
        found = c.entries[name](np.ascontiguousarray(x).reshape(-1), 0, False)
        return found.reshape((1,) * x.ndim) if keepdim else found

    return run


for _name, _kind in (("argmax", "MAX"), ("argmin", "MIN")):
    kernel(
        _name,
        "x: real[*outer, n, *inner], dim: axis(n), keepdim: flag",
        gives="y: int64[*outer, *n|keepdim, *inner]",
        call=f"argreduce.T(REDUCE_{_kind}, x, y, outer, n, inner)",
        quiet="True",
        requires={"x.size": "has no value for an empty tensor"},
        run=_argument(_name),
    )


# -- what comes back from sums: views as the reference's where it is large, without an op for each step ----------------

_SMALL = 4096  # items up to which a copy is quicker than a view


def _sum_backward(g: Any, x_shape: Any, dim: Any, keepdim: bool) -> Any:
    g = g.reshape([1 if i in dim else n for i, n in enumerate(x_shape)])
    if math.prod(x_shape) > _SMALL:
        return np.broadcast_to(g, x_shape)
    out = np.empty(x_shape, g.dtype)
    out[...] = g
    return out


def _mean_backward(g: Any, x_shape: Any, dim: Any, keepdim: bool) -> Any:
    n = math.prod([x_shape[i] for i in dim])
    return _sum_backward(g * g.dtype.type(1 / n if n else math.nan), x_shape, dim, keepdim)


for _name, _mean, _back in (("sum", 0, _sum_backward), ("mean", 1, _mean_backward)):
    kernel(
        f"{_name}.backward",
        "g: real[...] strided, x_shape: shape[*all], dim: ints, keepdim: flag",
        plan="spread_plan: spread_planned(address(plan), g.view, x_shape.shape, x_shape.ndim, dim, len(dim), keepdim)",
        gives="gx: real[*all]",
        call=f"spread.T(address(plan), {_mean}, g, gx, x_shape.shape, x_shape.ndim)",
        quiet="False",
        takes=(f"0 < all <= {_SMALL}",),
        run=_back,
        backend="NumPy",
        any_type=_name == "sum",
    )
