"""Group, batch and RMS norm on the CPU: C kernels of their own, or of reductions and maps, a pass over the data each.

Statistics are a few numbers and are joined by NumPy. Half types are widened first and their results narrowed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .. import native
from ..base.device import cpu as the_cpu
from ..base.device import kind as kind_of
from ..base.dtypes import from_numpy
from ..declare import op as declarations
from ..declare.kernel import kernel
from . import Row, cpu_maps, half

c: Any = native.module


@cache
def _map(name: str, dtype: Any) -> Any:
    """Return the C kernel of an elementwise op."""
    found = cpu_maps.map(declarations.table[name].program, kind_of(from_numpy(dtype), the_cpu))  # type: ignore[attr-defined]
    if isinstance(found, str):
        raise RuntimeError(f"no C kernel for {name}: {found}")
    return found.run


def _times(a: Any, b: Any) -> Any:
    return _map("mul", a.dtype)(a, b)


def _less(a: Any, b: Any) -> Any:
    return _map("sub", a.dtype)(a, b)


def _plus_product(x: Any, a: Any, b: Any) -> Any:
    """x + a b in one pass."""
    return _map("add_product", a.dtype)(x, a, b, 1.0)


def _takes(x: Any, *others: Any) -> str | None:
    """Why arrays are not all float32, float64 or a half-precision type, which counts as float32."""
    kinds = {"d" if a.dtype.char == "d" else "f" if a.dtype.char == "f" or a.dtype in half.HALVES else str(a.dtype)
             for a in (x, *others) if a is not None}  # fmt: skip
    if len(kinds) > 1 or not kinds <= {"f", "d"}:
        return f"takes one floating type, got {', '.join(sorted(kinds))}"
    return None if x.size else "takes no empty arrays"


def _wide(*arrays: Any) -> Any:
    return [half.widened(a) for a in arrays]


def _as(a: Any, dtype: Any) -> Any:
    """Return a result in the type that is asked for, an array's or a declared one."""
    wanted = getattr(dtype, "numpy", dtype)
    return a if a.dtype == wanted else half.narrowed(a, wanted) if wanted in half.HALVES else a.astype(wanted)


def _along(a: Any, ndim: int) -> Any:
    return a.reshape((1, -1) + (1,) * (ndim - 2))


def _affine(off: Any, scale: Any, bias: Any) -> Any:
    return _times(off, scale) if bias is None else _plus_product(_along(bias, off.ndim), off, scale)


def _dims(x: Any) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


# -- batch norm --------------------------------------------------------------------------------------------------------


_LEAST = 16
"""Neighbours of a channel from which on it pays to take a channel at a time."""


def _by_channel(x: Any) -> bool:
    return bool(x.flags.c_contiguous) and x.size >= _LEAST * x.shape[0] * x.shape[1]


def _batch(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    w, weight, bias = _wide(x, weight, bias)
    if _by_channel(w) or (w.flags.c_contiguous and w.size == w.shape[0] * w.shape[1]):
        y, mean, var = c.kernels["batch_norm_forward"](w, weight, bias, eps)
        return _as(y, x.dtype), mean, var
    mean = c.entries["mean"](w, _dims(w), False)
    off = _less(w, _along(mean, w.ndim))
    var = c.entries["mean"](_map("square", w.dtype)(off), _dims(w), False)
    scale = 1 / np.sqrt(var + w.dtype.type(eps))
    y = _affine(off, _along(scale if weight is None else scale * weight, w.ndim), bias)
    return _as(y, x.dtype), mean, var


def _arrays(g: Any) -> tuple[Any, ...]:
    """Return the arrays of a gradient: of one that an elementwise op still has to be gone through, that and what the op
    kept (binding/graph/behind.c)."""
    return (g[1], g[2]) if type(g) is tuple else (g,)


def _plain(g: Any) -> Any:
    """Return a gradient as an array."""
    if type(g) is not tuple:
        return g
    run, given, kept, kept_first, params = g
    return run(kept, given, *params) if kept_first else run(given, kept, *params)


def _behind(name: str, g: Any, shape: Any, *rest: Any) -> Any:
    """Return a norm's gradients, by the kernel that goes through the op behind it as well where there is one."""
    if type(g) is not tuple:
        return c.kernels[name](half.widened(g).reshape(shape), *rest)
    run, given, kept, kept_first, params = g
    numbers = np.array(params or (0.0,))
    return c.kernels[f"{name}_behind"](
        given.reshape(shape), kept.reshape(shape), run.address, kept_first, numbers, *rest
    )


def _batch_backward(g: Any, x: Any, weight: Any, mean: Any, var: Any, weight_dtype: Any, bias_dtype: Any, eps: float,
                    needs: Any) -> Any:  # fmt: skip
    dtype = x.dtype
    x, weight = _wide(x, weight)
    if _by_channel(x):
        gx, gw, gb = _behind("batch_norm_backward", g[0], x.shape, g[1], g[2], x, weight, mean, var, eps, needs[0])
        return (_as(gx, dtype) if needs[0] else None, _as(gw, weight_dtype) if needs[1] else None,
                _as(gb, bias_dtype) if needs[2] else None)  # fmt: skip
    gy = half.widened(_plain(g[0]))
    d, n = x.ndim, x.dtype.type(x.size // x.shape[1])
    off, rstd = _less(x, _along(mean, d)), 1 / np.sqrt(var + x.dtype.type(eps))
    total, with_off = c.entries["sum"](gy, _dims(x), False), c.entries["sum"](_times(gy, off), _dims(x), False)
    gx = None
    if needs[0]:
        scale = rstd if weight is None else rstd * weight
        of_off = (2 * g[2] - scale * rstd * rstd * with_off) / n
        gx = _plus_product(_along((g[1] - scale * total) / n, d), off, _along(of_off, d))
        gx = _as(_plus_product(gx, gy, _along(scale, d)), dtype)
    return (gx, _as(with_off * rstd, weight_dtype) if needs[1] else None, _as(total, bias_dtype) if needs[2] else None)


def _eval(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    w, mean, var, weight, bias = _wide(x, mean, var, weight, bias)
    scale = 1 / np.sqrt(var + w.dtype.type(eps))
    scale = _along(scale if weight is None else scale * weight, w.ndim)
    return _as(_affine(_less(w, _along(mean, w.ndim)), scale, bias), x.dtype)


def _eval_backward(g: Any, x: Any, mean: Any, var: Any, weight: Any, x_dtype: Any, weight_dtype: Any, bias_dtype: Any,
                   eps: float, needs: Any, **_: Any) -> Any:  # fmt: skip
    x, g, mean, var, weight = _wide(x, g, mean, var, weight)
    rstd = 1 / np.sqrt(var + x.dtype.type(eps))
    gx = gw = gb = None
    if needs[0]:
        gx = _as(_times(g, _along(rstd if weight is None else rstd * weight, x.ndim)), x_dtype)
    if needs[3]:
        off = _less(x, _along(mean, x.ndim))
        gw = _as(c.entries["sum"](_times(g, off), _dims(x), False) * rstd, weight_dtype)
    if needs[4]:
        gb = _as(c.entries["sum"](g, _dims(x), False), bias_dtype)
    return gx, None, None, gw, gb


# -- group norm --------------------------------------------------------------------------------------------------------


def _in_groups(num_groups: int, x: Any, *others: Any) -> list[Any]:
    """Return an array (samples, groups, channels of a group, size) and vectors of channels by group, as views."""
    groups = (num_groups, x.shape[1] // num_groups)
    return [x.reshape(x.shape[0], *groups, -1), *(None if a is None else a.reshape(groups) for a in others)]


def _group(x: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    y, mean, rstd = c.kernels["group_norm_forward"](*_in_groups(num_groups, *_wide(x, weight, bias)), eps)
    return _as(y.reshape(x.shape), x.dtype), mean, rstd


def _group_backward(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, weight_dtype: Any, bias_dtype: Any,
                    num_groups: int, needs: Any, **_: Any) -> Any:  # fmt: skip
    wide, weight = _in_groups(num_groups, *_wide(x, weight))
    gx, gw, gb = _behind("group_norm_backward", g, wide.shape, wide, weight, mean, rstd, needs[0])
    return (_as(gx.reshape(x.shape), x.dtype) if needs[0] else None,
            _as(gw.reshape(-1), weight_dtype) if needs[1] else None,
            _as(gb.reshape(-1), bias_dtype) if needs[2] else None)  # fmt: skip


# -- RMS norm ----------------------------------------------------------------------------------------------------------


def _rms(x: Any, weight: Any, normalized_ndim: int, eps: float) -> Any:
    w, weight = _wide(x, weight)
    dims = tuple(range(x.ndim - normalized_ndim, x.ndim))
    rstd = np.asarray(1 / np.sqrt(c.entries["mean"](_map("square", w.dtype)(w), dims, True) + w.dtype.type(eps)))
    y = _times(w, rstd)
    return _as(y if weight is None else _times(y, weight), x.dtype), rstd


def _rms_backward(g: Any, x: Any, weight: Any, rstd: Any, weight_dtype: Any, normalized_ndim: int, needs: Any,
                  **_: Any) -> Any:  # fmt: skip
    dtype, kept = x.dtype, x.ndim - normalized_ndim
    x, g, weight = _wide(x, g, weight)
    dims, rstd = tuple(range(kept, x.ndim)), rstd.reshape(x.shape[:kept] + (1,) * normalized_ndim)
    gx = gw = None
    if needs[0]:
        h = g if weight is None else _times(g, weight)
        of_x = c.entries["mean"](_times(h, x), dims, True) * -(rstd * rstd * rstd)
        gx = _as(_plus_product(_times(h, rstd), x, of_x), dtype)
    if needs[1]:
        gw = _times(g, _times(x, rstd))
        gw = _as(c.entries["sum"](gw, tuple(range(kept)), False) if kept else gw, weight_dtype)
    return gx, gw


kernel(
    "batch_norm_forward",
    "x: real[samples, channels, *size], weight: real[channels]?, bias: real[channels]?, eps: float",
    gives="y: real[samples, channels, *size], mean: real[channels], var: real[channels]",
    call="batch_norm_forward.T(struct('batch_shape', samples, channels, size), x, weight, bias, y, mean, var, eps)",
    quiet="x.size > 65536",
    takes=("x.size",),
    run=False,
)
kernel(
    "batch_norm_eval",
    "x: real[samples, channels, *size] whole, mean: real[channels], var: real[channels], weight: real[channels]?, "
    "bias: real[channels]?, eps: float",
    gives="y: real[samples, channels, *size]",
    scratch="scale: real[channels]",
    call="batch_norm_eval.T(struct('batch_shape', samples, channels, size), x, mean, var, weight, bias, scale, y, eps)",
    quiet="x.size > 65536",
    takes=("x.size",),
    run=_eval,
    say=lambda x, mean, var, weight, bias, eps: _takes(x, mean, var, weight, bias),
    any_type=True,
)


def _backward(name: str, shape: str, arrays: str, sizes: str, more: str, also: str = "") -> None:
    """Declare a norm's gradient, and that of a norm with an elementwise op behind it (kernels/behind.h)."""
    behind = {"": ("", "None"),
              "_behind": (f"kept: real[{shape}], map: word, kept_first: flag, params: double[numbers], ",
                          "struct('behind_norm', map, kept, kept_first, params)")}  # fmt: skip
    for suffix, (taken, given) in behind.items():
        kernel(
            f"{name}_backward{suffix}",
            f"g: real[{shape}], {taken}{arrays}, wanted: flag",
            gives=f"gx: real[{shape}] if wanted, gw: real[{sizes}], gb: real[{sizes}]",
            scratch=also and f"sums: real[{also}], products: real[{also}]",
            call=f"{name}_backward.T({more.format(given)})",
            quiet="x.size > 65536",
            takes=("x.size",),
            run=False,
        )


_backward(
    "batch_norm",
    "samples, channels, *size",
    "gmean: real[channels], gvar: real[channels], x: real[samples, channels, *size], weight: real[channels]?, "
    "mean: real[channels], var: real[channels], eps: float",
    "channels",
    "struct('batch_shape', samples, channels, size), g, {}, gmean, gvar, x, weight, mean, var, gx, gw, gb, eps",
)
_backward(
    "group_norm",
    "samples, groups, inside, size",
    "x: real[samples, groups, inside, size], weight: real[groups, inside]?, mean: real[samples, groups], "
    "rstd: real[samples, groups]",
    "groups, inside",
    "struct('group_shape', samples, groups, inside, size), g, {}, x, weight, mean, rstd, gx, gw, gb, sums, products",
    "samples, groups, inside",
)
kernel(
    "group_norm_forward",
    "x: real[samples, groups, inside, size], weight: real[groups, inside]?, bias: real[groups, inside]?, eps: float",
    gives="y: real[samples, groups, inside, size], mean: real[samples, groups], rstd: real[samples, groups]",
    call="group_norm_forward.T(struct('group_shape', samples, groups, inside, size), x, weight, bias, y, mean, rstd,"
    " eps)",
    quiet="x.size > 65536",
    takes=("x.size",),
    run=False,
)


def _row(name: str, run: Any, declines: Any) -> Row:
    return Row(name, "C", run, declines)


rows: dict[str, Row] = {
    "batch_norm": _row("batch_norm_forward", _batch, lambda x, weight, bias, eps: _takes(x, weight, bias)),
    "batch_norm.backward": _row("batch_norm_backward", _batch_backward,
                                lambda g, x, weight, mean, **_: _takes(x, *_arrays(g[0]), weight, mean)),
    "batch_norm_eval.backward": _row("batch_norm_eval_backward", _eval_backward,
                                     lambda g, x, mean, var, weight, needs, **_: _takes(x, g, mean, var, weight)
                                     or ("gives no gradient of the statistics" if needs[1] or needs[2] else None)),
    "group_norm": _row("group_norm_forward", _group, lambda x, weight, bias, **_: _takes(x, weight, bias)),
    "group_norm.backward": _row("group_norm_backward", _group_backward,
                                lambda g, x, weight, mean, **_: _takes(x, *_arrays(g), weight, mean)),
    "rms_norm": _row("rms_norm_forward", _rms, lambda x, weight, **_: _takes(x, weight)),
    "rms_norm.backward": _row("rms_norm_backward", _rms_backward,
                              lambda g, x, weight, rstd, **_: _takes(x, g, weight, rstd)),
}  # fmt: skip
