"""The ops behind RMS, group and batch norm, each with its statistics, so that one kernel may make all of it."""

from __future__ import annotations

from typing import Any

from ..base import dtypes
from ..base.modes import is_grad_enabled
from ..dispatch.declare import operation
from ..tensors.tensor import Tensor
from .elementwise import rsqrt
from .precision import rounded, wide
from .reduce import count


def _uniform(rng: Any) -> Any:
    return lambda *shape: rng.uniform(-2, 2, shape)


# -- RMS norm ----------------------------------------------------------------------------------------------------------


def _rms_norm_forward(xp: Any, x: Any, weight: Any, normalized_ndim: int, eps: float) -> Any:
    w, dims = wide(x), tuple(range(x.ndim - normalized_ndim, x.ndim))
    n = w.dtype.type(count(x.shape, dims))
    rstd = 1 / xp.sqrt((w * w).sum(axis=dims, keepdims=True) / n + w.dtype.type(eps))
    y = w * rstd
    return rounded(y if weight is None else y * wide(weight), x.dtype), rstd


def _rms_norm_vjp(g: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, weight_dtype: Any, normalized_ndim: int,
                  eps: float, needs: tuple[bool, ...]) -> Any:  # fmt: skip
    rows, dims = tuple(range(x.ndim - normalized_ndim)), tuple(range(x.ndim - normalized_ndim, x.ndim))
    dtype, per_row = x.dtype, tuple(x.shape[: x.ndim - normalized_ndim]) + (1,) * normalized_ndim
    x, g, rstd = x.to(rstd.dtype), g.to(rstd.dtype), rstd.reshape(per_row)
    if is_grad_enabled():  # for second derivatives the length must follow x
        rstd = rsqrt(x.square().mean(dims, keepdim=True) + eps)
    gx = gw = None
    if needs[0]:
        h = g if weight is None else g * weight
        gx = (rstd * h - x * (rstd * rstd * rstd * (h * x).mean(dims, keepdim=True))).to(dtype)
    if needs[1]:
        per_element = g * (x * rstd)
        gw = (per_element.sum(rows) if rows else per_element).to(weight_dtype)
    return gx, gw


def _rms_norm_samples(rng: Any) -> list[Any]:
    u = _uniform(rng)
    return [
        ((u(3, 5), u(5)), {"normalized_ndim": 1, "eps": 1e-5}),
        ((u(2, 3, 4), u(3, 4)), {"normalized_ndim": 2, "eps": 1e-3}),
        ((u(4), None), {"normalized_ndim": 1, "eps": 1e-5}),
    ]


rms_norm = operation("rms_norm", _rms_norm_forward, inputs="x weight?", params={"normalized_ndim": 1, "eps": 1e-5},
                     outputs="y rstd", vjp=_rms_norm_vjp, samples=_rms_norm_samples)  # fmt: skip

# -- group norm --------------------------------------------------------------------------------------------------------


def along_channels(a: Any, ndim: int) -> Any:
    """Return a vector of channels, an array or a tensor, as it broadcasts to ``(N, C, ...)``."""
    return a.reshape((1, -1) + (1,) * (ndim - 2))


def _affine(y: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        y = y * along_channels(wide(weight), y.ndim)
    return y if bias is None else y + along_channels(wide(bias), y.ndim)


def _group_norm_forward(xp: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    w = wide(x)
    groups = w.reshape(x.shape[0], num_groups, count(x.shape, tuple(range(1, x.ndim))) // num_groups)
    n = w.dtype.type(groups.shape[2])
    mean = groups.sum(axis=2, keepdims=True) / n
    off = groups - mean
    rstd = 1 / xp.sqrt((off * off).sum(axis=2, keepdims=True) / n + w.dtype.type(eps))
    y = _affine((off * rstd).reshape(x.shape), weight, bias)
    return rounded(y, x.dtype), mean[:, :, 0], rstd[:, :, 0]


def _group_norm_vjp(g: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, weight_dtype: Any,
                    bias_dtype: Any, num_groups: int, eps: float, needs: tuple[bool, ...]) -> Any:  # fmt: skip
    shape, dtype, dims = tuple(x.shape), x.dtype, (0, *range(2, x.ndim))
    grouped = (shape[0], num_groups, count(shape, tuple(range(1, len(shape)))) // num_groups)
    x, g = x.to(mean.dtype).reshape(grouped), g.to(mean.dtype)
    mean, rstd = mean.unsqueeze(2), rstd.unsqueeze(2)
    if is_grad_enabled():  # for second derivatives the statistics must follow x
        mean = x.mean(2, keepdim=True)
        rstd = rsqrt((x - mean).square().mean(2, keepdim=True) + eps)
    z = (x - mean) * rstd
    gx = gw = gb = None
    if needs[0]:
        h = (g if weight is None else g * along_channels(weight, g.ndim)).reshape(grouped)
        gx = rstd * (h - h.mean(2, keepdim=True) - z * (h * z).mean(2, keepdim=True))
        gx = gx.reshape(shape).to(dtype)
    if needs[1]:
        gw = (g * z.reshape(shape)).sum(dims).to(weight_dtype)
    if needs[2]:
        gb = g.sum(dims).to(bias_dtype)
    return gx, gw, gb


def _group_norm_samples(rng: Any) -> list[Any]:
    u = _uniform(rng)
    return [
        ((u(2, 4, 3), u(4), u(4)), {"num_groups": 2, "eps": 1e-5}),
        ((u(2, 3, 2, 2), u(3), None), {"num_groups": 3, "eps": 1e-3}),
        ((u(3, 6), None, u(6)), {"num_groups": 2, "eps": 1e-5}),
    ]


group_norm = operation("group_norm", _group_norm_forward, inputs="x weight? bias?",
                       params={"num_groups": 1, "eps": 1e-5}, outputs="y mean rstd", vjp=_group_norm_vjp,
                       samples=_group_norm_samples, contiguous=True)  # fmt: skip

# -- batch norm --------------------------------------------------------------------------------------------------------


def _batch_norm_forward(xp: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    w, dims = wide(x), (0, *range(2, x.ndim))
    n = w.dtype.type(count(x.shape, dims))
    mean = w.sum(axis=dims) / n
    off = w - along_channels(mean, x.ndim)
    var = (off * off).sum(axis=dims) / n
    y = _affine(off * along_channels(1 / xp.sqrt(var + w.dtype.type(eps)), x.ndim), weight, bias)
    return rounded(y, x.dtype), mean, var


def _batch_norm_vjp(g: Any, x: Tensor, weight: Tensor | None, mean: Tensor, var: Tensor, weight_dtype: Any,
                    bias_dtype: Any, eps: float, needs: tuple[bool, ...]) -> Any:  # fmt: skip
    dtype, d, dims = x.dtype, x.ndim, (0, *range(2, x.ndim))
    n = count(tuple(x.shape), dims)
    x, gy, g_mean, g_var = x.to(mean.dtype), g[0].to(mean.dtype), g[1], g[2]
    off, rstd = x - along_channels(mean, d), rsqrt(along_channels(var, d) + eps)
    gx = gw = gb = None
    if needs[0]:
        scale = rstd if weight is None else rstd * along_channels(weight, d)
        of_off = rstd * rstd * (gy * off).mean(dims, keepdim=True)
        gx = scale * (gy - gy.mean(dims, keepdim=True) - off * of_off)
        gx = (gx + (along_channels(g_mean, d) / n + off * (along_channels(g_var, d) * (2 / n)))).to(dtype)
    if needs[1]:
        gw = (gy * (off * rstd)).sum(dims).to(weight_dtype)
    if needs[2]:
        gb = gy.sum(dims).to(bias_dtype)
    return gx, gw, gb


def _batch_norm_samples(rng: Any) -> list[Any]:
    u = _uniform(rng)
    return [
        ((u(4, 3), u(3), u(3)), {"eps": 1e-5}),
        ((u(2, 3, 4), u(3), None), {"eps": 1e-3}),
        ((u(2, 2, 2, 3), None, None), {"eps": 1e-5}),
    ]


batch_norm = operation("batch_norm", _batch_norm_forward, inputs="x weight? bias?", params={"eps": 1e-5},
                       outputs="y mean var", returns=3, vjp=_batch_norm_vjp, samples=_batch_norm_samples,
                       doc="Batch norm with the batch's own mean and variance, which are given back.")  # fmt: skip


def _batch_norm_eval_forward(xp: Any, x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    w, d = wide(x), x.ndim
    rstd = 1 / xp.sqrt(wide(var) + w.dtype.type(eps))
    y = _affine((w - along_channels(wide(mean), d)) * along_channels(rstd, d), weight, bias)
    return rounded(y, x.dtype)


def _batch_norm_eval_vjp(g: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, x_dtype: Any,
                         mean_dtype: Any, var_dtype: Any, weight_dtype: Any, bias_dtype: Any, eps: float,
                         needs: tuple[bool, ...]) -> Any:  # fmt: skip
    d, dims, inside = x.ndim, (0, *range(2, x.ndim)), accumulating(x_dtype)
    x, g = x.to(inside), g.to(inside)
    rstd = rsqrt(var.to(inside) + eps)
    slope = rstd if weight is None else rstd * weight.to(inside)
    total = g.sum(dims) if needs[1] or needs[4] else None
    gx = gm = gv = gw = gb = None
    if needs[0]:
        gx = (g * along_channels(slope, d)).to(x_dtype)
    if needs[1]:
        gm = (total * -slope).to(mean_dtype)
    if needs[2] or needs[3]:
        with_off = (g * (x - along_channels(mean.to(inside), d))).sum(dims)
        gv = (with_off * slope * rstd * rstd * -0.5).to(var_dtype) if needs[2] else None
        gw = (with_off * rstd).to(weight_dtype) if needs[3] else None
    if needs[4]:
        gb = total.to(bias_dtype)  # type: ignore[union-attr]
    return gx, gm, gv, gw, gb


def accumulating(d: Any) -> Any:
    """Return the dtype that a reduction over `d` is computed in."""
    return dtypes.float32 if d in (dtypes.float16, dtypes.bfloat16) else d


def _batch_norm_eval_samples(rng: Any) -> list[Any]:
    u = _uniform(rng)
    return [
        ((u(4, 3), u(3), rng.uniform(0.5, 2, 3), u(3), u(3)), {"eps": 1e-5}),
        ((u(2, 3, 4), u(3), rng.uniform(0.5, 2, 3), None, None), {"eps": 1e-3}),
    ]


batch_norm_eval = operation("batch_norm_eval", _batch_norm_eval_forward, inputs="x mean var weight? bias?",
                            params={"eps": 1e-5}, vjp=_batch_norm_eval_vjp, samples=_batch_norm_eval_samples,
                            label="batch_norm", doc="Batch norm with a given mean and variance.")  # fmt: skip
