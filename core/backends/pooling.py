"""The CPU's kernels of pooling over one to three dimensions, the greatest of each window and its sum, and the way back
(native/kernels/pool.c, windows.c)."""

from __future__ import annotations

import math
from typing import Any

from .. import native
from ..declare.kernel import kernel
from . import Row

c: Any = native.module
_MOST = 1 << 31  # items of a plane: places are counted in 32 bits while a row is made
_SPAN = 1024  # the widest window whose sums are taken: the kernel holds a row of twice as much


def _settings(dilation: str, made: str, at: str = "") -> str:
    counts = f"len(stride), len(padding), {f'len({dilation})' if dilation else 'len(kernel)'}, "
    counts += "len(kernel)" if at else f"len({made})"
    return (f"struct('window_settings', count=len(kernel), counts=list_of({counts}), kernel=kernel, stride=stride,"
            f" padding=padding, dilation={dilation or None}, made={made}{at})")  # fmt: skip


def _plane(x: Any, kernel: Any, **_: Any) -> str | None:
    return None if math.prod(x.shape[-len(kernel) :]) < _MOST else "takes planes of 1 to 2^31 - 1 items"


_NOTHING = "takes no empty tensors"
_DIMENSIONS = {"len(kernel) <= 3": "takes windows over one to three dimensions"}


kernel(
    "max_pool",
    "x: real[...], kernel: ints, stride: ints, padding: ints, dilation: ints, out: ints",
    plan=f"window_plan: window_planned(address(plan), x.shape, x.ndim, {_settings('dilation', 'out')}, 0)"
    " and plan.window.size[0] * plan.window.size[1] <= INT32_MAX"
    " and plan.depth.size[0] * plan.depth.size[1] <= INT32_MAX",
    gives="y: real[plan], places: int64[plan]",
    call="max_pool_planned.T(address(plan), x, y, places)",
    fails="memory",
    requires={**_DIMENSIONS, "x.size": _NOTHING},
    say=_plane,
)
_WINDOW = f"kernel[-1] <= {_SPAN} and stride[-1] <= {_SPAN}"
for _name, _x, _more, _made, _spreads in (
    ("window_sum", "x", ", out: ints", ("out", ""), 0),
    ("window_sum.backward", "g", "", ("x_shape", " + (len(x_shape) - len(kernel))"), 1),
    ("window_spread", "x", ", sizes: ints", ("sizes", ""), 1),
):
    _sizes = ", x_shape: ints" if _made[1] else ""
    kernel(
        _name,
        f"{_x}: real[...]{_sizes}, kernel: ints, stride: ints, padding: ints{_more}",
        plan=f"window_plan: window_planned(address(plan), {_x}.shape, {_x}.ndim, {_settings('', *_made)}, {_spreads})",
        gives="y: real[plan]",
        call=f"window_{'spread' if _spreads else 'sum'}_planned.T(address(plan), {_x}, y)",
        fails="memory",
        quiet=f"{_x}.size + sizes_multiplied(plan.shape, plan.ndim) >= 8192",
        requires={
            **_DIMENSIONS,
            f"{_x}.size": _NOTHING,
            "len(kernel)": "takes a window",
            _WINDOW: f"takes windows of up to {_SPAN} columns",
        },
        takes=("len(stride)", *(("len(x_shape) >= len(kernel)",) if _sizes else ())),
    )
kernel(
    "scatter_planes",
    "g: real[planes, count], places: int64[planes, count] < size, size: int",
    gives="out: real[planes, size]",
    call="scatter_add.T(g, places, out, planes, count, size)",
    quiet="True",
    takes=("size >= 0",),
    run=False,
)


def _scatter_declines(x: Any, indices: Any, sizes: Any, add: bool) -> str | None:
    if x.dtype.char not in "fd" or indices.dtype.char != "l":
        return f"takes float32 and float64 and int64 places, got {x.dtype} and {indices.dtype}"
    return None if add and x.size and x.shape == indices.shape else "adds as many items as there are places"


def _scatter(x: Any, indices: Any, sizes: Any, add: bool) -> Any:
    n = len(sizes)
    planes = math.prod(x.shape[: x.ndim - n])
    out = c.kernels["scatter_planes"](x.reshape(planes, -1), indices.reshape(planes, -1), math.prod(sizes))
    return out.reshape(*x.shape[: x.ndim - n], *sizes)


rows = {"pool_scatter": Row("pool_scatter_forward", "C", _scatter, _scatter_declines)}
