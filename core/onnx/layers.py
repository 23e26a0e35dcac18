"""ONNX's convolutions, pooling, normalisation and losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import dtypes
from .table import Call, F, constant, ints, pairs, row, t

# -- convolutions ------------------------------------------------------------------------------------------------------


def padding_of(sizes: Any, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: str) -> list[int]:
    """Return the pads of a window: those given, or with SAME_UPPER and SAME_LOWER those that keep size / stride."""
    n = len(kernel)
    if auto_pad in ("NOTSET", "VALID"):
        return list(pads) if pads is not None and auto_pad == "NOTSET" else [0] * 2 * n
    before, after = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small = total // 2
        before.append(small if auto_pad == "SAME_UPPER" else total - small)
        after.append(total - before[-1])
    return before + after


@row("Conv")
def conv(call: Call, x: Any, w: Any, bias: Any = None, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
         kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    n = x.ndim - 2
    steps, apart = strides or [1] * n, dilations or [1] * n
    around = padding_of(x.shape[2:], w.shape[2:], steps, apart, pads, auto_pad)
    if around[:n] != around[n:]:
        x, around = F.pad(x, pairs(around)), [0] * 2 * n
    function = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return function(x, w, bias, stride=steps, padding=around[:n], dilation=apart, groups=group)


@row("ConvTranspose")
def _conv_transpose(call: Call, x: Any, w: Any, bias: Any = None, auto_pad: str = "NOTSET", dilations: Any = None,
                    group: int = 1, kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None,
                    pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    """The whole result, without the pads, which are cut off it at both ends."""
    n = x.ndim - 2
    steps, apart, more = strides or [1] * n, dilations or [1] * n, list(output_padding or [0] * n)
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    y = function(x, w, None, stride=steps, groups=group, dilation=apart)
    around = list(pads) if pads is not None else [0] * 2 * n
    wanted = output_shape
    if wanted is None and auto_pad.startswith("SAME"):
        wanted = [size * s for size, s in zip(x.shape[2:], steps, strict=True)]
    for k in range(n):
        full = y.shape[2 + k]
        if wanted is not None:
            total = max(full + more[k] - wanted[-n:][k], 0)
            more[k] = max(wanted[-n:][k] - full, more[k])
            small = total // 2
            around[k] = small if auto_pad == "SAME_UPPER" else total - small
            around[n + k] = total - around[k]
        end = around[n + k] - more[k]
        y = F.pad(y, [*[0, 0] * (n - k - 1), -around[k], -end])
    return y if bias is None else y + bias.reshape((-1, *[1] * n))


@row("CausalConvWithState")
def _causal_conv(call: Call, x: Any, w: Any, bias: Any = None, past: Any = None, activation: str = "none") -> Any:
    keep = w.shape[2] - 1
    before = t.zeros((*x.shape[:2], keep), dtype=x.dtype, device=x.device) if past is None else past
    whole = t.cat([before, x], 2)
    y = F.conv1d(whole, w, bias, groups=x.shape[1])
    y = F.silu(y) if activation in ("silu", "swish") else y
    return y, whole.narrow(2, whole.shape[2] - keep, keep)


@row("Col2Im")
def _col2im(call: Call, x: Any, image_shape: Any, block_shape: Any, dilations: Any = None, pads: Any = None,
            strides: Any = None) -> Any:  # fmt: skip
    """Every column's elements are added at their places in the image."""
    sizes, block = ints(image_shape), ints(block_shape)
    n = len(sizes)
    steps, apart, around = strides or [1] * n, dilations or [1] * n, pads or [0] * 2 * n
    whole = [m + around[k] + around[n + k] for k, m in enumerate(sizes)]
    counts = [(m - d * (b - 1) - 1) // s + 1 for m, d, b, s in zip(whole, apart, block, steps, strict=True)]
    taps = np.indices(block).reshape(n, -1, 1) * np.array(apart).reshape(n, 1, 1)
    starts = np.indices(counts).reshape(n, 1, -1) * np.array(steps).reshape(n, 1, 1)
    at = np.ravel_multi_index(tuple(taps + starts), tuple(whole)).reshape(-1)
    channels = x.shape[1] // math.prod(block)
    rows = x.reshape((x.shape[0] * channels, -1))
    flat = t.zeros((rows.shape[0], math.prod(whole)), dtype=x.dtype, device=x.device)
    y = flat.index_add(1, constant(at, dtypes.int64, x), rows).reshape((x.shape[0], channels, *whole))
    return F.pad(y, pairs([-p for p in around]))


@row("DeformConv")
def _deform_conv(call: Call, x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None, dilations: Any = None,
                 group: int = 1, kernel_shape: Any = None, offset_group: int = 1, pads: Any = None,
                 strides: Any = None) -> Any:  # fmt: skip
    """Each tap of the kernel samples the image between its pixels, at its place and an offset."""
    if x.ndim != 4:
        raise call.refused("of images with other than two dimensions", "Conv")
    (n, channels, height, width), (kh, kw) = x.shape, w.shape[2:]
    step, apart, around = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    oh, ow = offset.shape[2:]
    moved = offset.reshape((n, offset_group, kh, kw, 2, oh, ow))
    rows = constant(np.arange(oh) * step[0] - around[0], x.dtype, x).reshape((oh, 1))
    columns = constant(np.arange(ow) * step[1] - around[1], x.dtype, x)
    taps = []
    for i in range(kh):
        for j in range(kw):
            v = (moved[:, :, i, j, 0] + rows + i * apart[0]) / max(height - 1, 1) * 2 - 1
            u = (moved[:, :, i, j, 1] + columns + j * apart[1]) / max(width - 1, 1) * 2 - 1
            grid = t.stack([u, v], -1).reshape((n * offset_group, oh, ow, 2))
            images = x.reshape((n * offset_group, channels // offset_group, height, width))
            found = F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
            found = found.reshape((n, offset_group, channels // offset_group, oh, ow))
            if mask is not None:
                found = found * mask.reshape((n, offset_group, kh, kw, 1, oh, ow))[:, :, i, j]
            taps.append(found.reshape((n, group, channels // group, oh, ow)))
    columns_of = t.stack(taps, 3).reshape((n, group, channels // group * kh * kw, oh * ow))
    weight = w.reshape((group, w.shape[0] // group, -1))
    y = t.matmul(weight, columns_of).reshape((n, w.shape[0], oh, ow))
    return y if bias is None else y + bias.reshape((-1, 1, 1))


# -- pooling -----------------------------------------------------------------------------------------------------------


def _windows(call: Call, x: Any, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: str,
             ceil_mode: int) -> tuple[Any, Any, Any, Any, list[int]]:  # fmt: skip
    """Return kernel, strides, dilations, pads (the ends longer where ceil_mode adds a window), and how many windows."""
    n = len(kernel)
    steps, apart = strides or [1] * n, dilations or [1] * n
    sizes = x.shape[2:]
    around = padding_of(sizes, kernel, steps, apart, pads, auto_pad)
    counts = []
    for k in range(n):
        reach = (kernel[k] - 1) * apart[k] + 1
        room = sizes[k] + around[k] + around[n + k] - reach
        count = (-(-room // steps[k]) if ceil_mode else room // steps[k]) + 1
        if ceil_mode and (count - 1) * steps[k] >= sizes[k] + around[k]:
            count -= 1  # a window that starts in the pads is none
        counts.append(count)
    return kernel, steps, apart, around, counts


def _taps(x: Any, window: Any, fill: float) -> Any:
    """Return the elements of each window, along a last dimension."""
    kernel, steps, apart, around, counts = window
    n = len(kernel)
    ends = [(c - 1) * s + (k - 1) * d + 1 - m - p
            for c, s, k, d, m, p in zip(counts, steps, kernel, apart, x.shape[2:], around, strict=False)]  # fmt: skip
    y = F.pad(x, pairs([*around[:n], *(max(e, 0) for e in ends)]), value=fill)
    for i in range(n):
        at = np.arange(counts[i])[:, None] * steps[i] + np.arange(kernel[i]) * apart[i]
        axis = 2 + i
        found = t.index_select(y, axis, constant(at.reshape(-1), dtypes.int64, x))
        y = t.movedim(found.reshape((*y.shape[:axis], *at.shape, *y.shape[axis + 1 :])), axis + 1, -1)
    return y.reshape((*x.shape[:2], *counts, -1))


@row("MaxPool")
def _max_pool(call: Call, x: Any, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
              dilations: Any = None, pads: Any = None, storage_order: int = 0, strides: Any = None) -> Any:  # fmt: skip
    window = _windows(call, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    kernel, steps, apart, around, _ = window
    n = len(kernel)
    plain = around[:n] == around[n:] and all(2 * p <= k for p, k in zip(around, kernel, strict=False))
    if call.outputs == 1 and plain and not ceil_mode and x.is_floating_point():
        function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
        return function(x, kernel, steps, around[:n], apart)
    lowest = -math.inf if x.is_floating_point() else t.iinfo(x.dtype).min
    values, which = _taps(x, window, lowest).max(-1)
    if call.outputs == 1:
        return values
    places = t.arange(math.prod(x.shape[2:]), device=x.device)
    order = [*range(n)][::-1] if storage_order else [*range(n)]  # 1 counts down the columns
    numbers = places.reshape([x.shape[2 + k] for k in order]).permute([order.index(k) for k in range(n)])
    at = _taps(numbers.reshape((1, 1, *x.shape[2:])), window, 0)
    found = t.gather(at.expand((*values.shape, at.shape[-1])), -1, which.unsqueeze(-1)).squeeze(-1)
    images = t.arange(math.prod(x.shape[:2]), device=x.device).reshape((*x.shape[:2], *[1] * n))
    return values, found + images * math.prod(x.shape[2:])


@row("AveragePool", "LpPool")
def _average_pool(call: Call, x: Any, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
                  count_include_pad: int = 0, dilations: Any = None, p: int = 2, pads: Any = None,
                  strides: Any = None) -> Any:  # fmt: skip
    window = _windows(call, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if call.op == "LpPool":
        return (_taps(x, window, 0.0).abs() ** p).sum(-1) ** (1 / p)
    n = len(window[0])
    there = t.ones((1, 1, *x.shape[2:]), dtype=x.dtype, device=x.device)
    if count_include_pad:  # the pads count, what ceil_mode adds beyond them does not
        around = window[3]
        there = F.pad(there, pairs(around), value=1.0)
        inside = (*window[:3], [0] * 2 * n, window[4])
        return _taps(x, window, 0.0).sum(-1) / _taps(there, inside, 0.0).sum(-1)
    return _taps(x, window, 0.0).sum(-1) / _taps(there, window, 0.0).sum(-1)


@row("GlobalAveragePool")
def _global_average_pool(call: Call, x: Any) -> Any:
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


@row("GlobalMaxPool")
def _global_max_pool(call: Call, x: Any) -> Any:
    return x.amax(tuple(range(2, x.ndim)), keepdim=True)


@row("GlobalLpPool")
def _global_lp_pool(call: Call, x: Any, p: int = 2) -> Any:
    return (x.abs() ** p).sum(tuple(range(2, x.ndim)), keepdim=True) ** (1 / p)


@row("MaxUnpool")
def _max_unpool(call: Call, x: Any, index: Any, shape: Any = None, kernel_shape: Any = None, pads: Any = None,
                strides: Any = None) -> Any:  # fmt: skip
    n = len(kernel_shape)
    steps, around = strides or [1] * n, pads or [0] * 2 * n
    inner = [(x.shape[2 + k] - 1) * steps[k] + kernel_shape[k] - around[k] - around[n + k] for k in range(n)]
    sizes = [*x.shape[:2], *inner]
    wanted = sizes if shape is None else ints(shape)
    # the places are those in a result of the size that the window gives
    at = index.reshape(-1)
    if wanted != sizes:
        places = np.unravel_index(np.asarray(at._a), sizes)
        at = constant(np.ravel_multi_index(places, wanted), dtypes.int64, x)
    flat = t.zeros(math.prod(wanted), dtype=x.dtype, device=x.device)
    return flat.scatter(0, at, x.reshape(-1)).reshape(wanted)


@row("MaxRoiPool")
def _max_roi_pool(call: Call, *inputs: Any, **attributes: Any) -> Any:
    raise call.refused("it is not run", "RoiAlign")


@row("RoiAlign")
def _roi_align(call: Call, x: Any, rois: Any, batch: Any, mode: str = "avg", output_height: int = 1,
               output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
               coordinate_transformation_mode: Any = None) -> Any:  # fmt: skip
    """Source: He et al., Mask R-CNN (2017). Since opset 16 the boxes are half a pixel further."""
    kind = coordinate_transformation_mode or ("half_pixel" if call.version >= 16 else "output_half_pixel")
    shift = 0.5 if kind == "half_pixel" else 0.0
    height, width = x.shape[2:]
    found = []
    for roi, b in zip(np.asarray(rois._a) * spatial_scale - shift, ints(batch), strict=True):
        w, h = roi[2] - roi[0], roi[3] - roi[1]
        if kind != "half_pixel":
            w, h = max(w, 1.0), max(h, 1.0)
        across = sampling_ratio or math.ceil(w / output_width)
        down = sampling_ratio or math.ceil(h / output_height)
        v = roi[1] + (np.arange(output_height * down) + 0.5) * h / (output_height * down)
        u = roi[0] + (np.arange(output_width * across) + 0.5) * w / (output_width * across)
        corners = _corners(x[b], v, u, height, width)
        shape = (x.shape[1], output_height, down, output_width, across)
        if mode == "avg":
            found.append(sum(corners).reshape(shape).mean((2, 4)))
        else:
            found.append(t.stack(corners).amax(0).reshape(shape).amax((2, 4)))
    return t.stack(found) if found else t.zeros((0, x.shape[1], output_height, output_width))


def _corners(image: Any, v: Any, u: Any, height: int, width: int) -> list[Any]:
    """Return the four weighted neighbours of points; what lies more than a pixel outside is 0."""

    def along(x: Any, size: int) -> Any:
        inside = (x >= -1) & (x <= size)
        x = np.clip(x, 0, size - 1)
        low = np.minimum(np.floor(x).astype(np.int64), size - 1)
        part = np.where(low >= size - 1, 0.0, x - low)
        return [(low, (1 - part) * inside), (np.minimum(low + 1, size - 1), part * inside)]

    return [image[:, constant(i, dtypes.int64, image)][:, :, constant(j, dtypes.int64, image)]
            * constant(np.outer(wi, wj), image.dtype, image)
            for i, wi in along(v, height) for j, wj in along(u, width)]  # fmt: skip


# -- normalisation -----------------------------------------------------------------------------------------------------


def _per_channel(p: Any, x: Any) -> Any:
    return p.reshape((1, -1, *[1] * (x.ndim - 2)))


@row("BatchNormalization")
def _batch_norm(call: Call, x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float = 1e-5,
                momentum: float = 0.9, training_mode: int = 0, spatial: int = 1, is_test: int = 1,
                consumed_inputs: Any = None) -> Any:  # fmt: skip
    """With training_mode (opset 14) by the batch; the running values are further results."""
    if not spatial:
        raise call.refused("one statistic for each place (spatial=0)", "spatial=1")
    if not training_mode:
        y = F.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), scale.to(x.dtype), bias.to(x.dtype), eps=epsilon)
        return (y, mean, var, mean, var)[: call.outputs] if call.outputs > 1 else y
    dims = (0, *range(2, x.ndim))
    now, spread = x.mean(dims), t.var(x, dims, correction=0)
    y = (x - _per_channel(now, x)) * t.rsqrt(_per_channel(spread, x) + epsilon)
    y = y * _per_channel(scale, x) + _per_channel(bias, x)
    running = (mean * momentum + now * (1 - momentum), var * momentum + spread * (1 - momentum))
    return (y.to(x.dtype), *running)[: call.outputs] if call.outputs > 1 else y.to(x.dtype)


@row("InstanceNormalization")
def _instance_norm(call: Call, x: Any, scale: Any, bias: Any, epsilon: float = 1e-5) -> Any:
    return F.group_norm(x, x.shape[1], scale, bias, epsilon)


@row("GroupNormalization")
def _group_norm(call: Call, x: Any, scale: Any, bias: Any, num_groups: int, epsilon: float = 1e-5,
                stash_type: int = 1) -> Any:  # fmt: skip
    """Since opset 21 a scale for each channel; before, one for each group."""
    if scale.shape[0] != x.shape[1]:
        each = x.shape[1] // num_groups
        scale, bias = (t.repeat_interleave(p, each, 0) for p in (scale, bias))
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@row("LayerNormalization")
def _layer_norm(call: Call, x: Any, scale: Any, bias: Any = None, axis: int = -1, epsilon: float = 1e-5,
                stash_type: int = 1) -> Any:  # fmt: skip
    axis %= x.ndim
    if call.outputs == 1 and tuple(scale.shape) == tuple(x.shape[axis:]):
        return F.layer_norm(x, x.shape[axis:], scale, bias, epsilon)
    dims = tuple(range(axis, x.ndim))
    wide = x.to(dtypes.float32) if x.dtype.itemsize == 2 and stash_type == 1 else x
    mean = wide.mean(dims, keepdim=True)
    off = wide - mean
    inverse = t.rsqrt((off * off).mean(dims, keepdim=True) + epsilon)
    y = (off * inverse).to(x.dtype) * scale
    return (y if bias is None else y + bias, mean, inverse)[: call.outputs]


@row("RMSNormalization")
def _rms_norm(call: Call, x: Any, scale: Any, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    dims = tuple(range(axis % x.ndim, x.ndim))
    wide = x.to(dtypes.float32) if x.dtype.itemsize == 2 and stash_type == 1 else x
    return (wide * t.rsqrt((wide * wide).mean(dims, keepdim=True) + epsilon)).to(x.dtype) * scale


@row("LpNormalization")
def _lp_norm(call: Call, x: Any, axis: int = -1, p: int = 2) -> Any:
    size = x.abs().sum(axis, keepdim=True) if p == 1 else (x * x).sum(axis, keepdim=True).sqrt()
    return t.where(size == 0, t.zeros_like(x), x / t.where(size == 0, t.ones_like(size), size))


@row("MeanVarianceNormalization")
def _mean_variance(call: Call, x: Any, axes: Any = None) -> Any:
    dims = tuple(axes or (0, 2, 3))
    off = x - x.mean(dims, keepdim=True)
    return off / ((off * off).mean(dims, keepdim=True).sqrt() + 1e-9)


@row("LRN")
def _lrn(call: Call, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    before = (size - 1) // 2
    padded = F.pad(x * x, [*[0, 0] * (x.ndim - 2), before, size - 1 - before])
    total = sum(padded.narrow(1, k, x.shape[1]) for k in range(size))
    return x / (bias + alpha / size * total) ** beta


# -- losses ------------------------------------------------------------------------------------------------------------


def _nll(x: Any, target: Any, weight: Any, ignore_index: Any, reduction: str) -> Any:
    there = t.ones(target.shape, dtype=dtypes.bool_) if ignore_index is None else target != ignore_index
    safe = t.where(there, target, t.zeros_like(target)).to(dtypes.int64)
    share = t.ones_like(x[:, 0]) if weight is None else weight[safe]
    share = t.where(there, share, t.zeros_like(share))
    loss = -t.gather(x, 1, safe.unsqueeze(1)).squeeze(1) * share
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / share.sum()


@row("NegativeLogLikelihoodLoss")
def _nll_loss(call: Call, x: Any, target: Any, weight: Any = None, ignore_index: Any = None,
              reduction: str = "mean") -> Any:  # fmt: skip
    return _nll(x, target, weight, ignore_index, reduction)


@row("SoftmaxCrossEntropyLoss")
def _cross_entropy(call: Call, x: Any, target: Any, weight: Any = None, ignore_index: Any = None,
                   reduction: str = "mean") -> Any:  # fmt: skip
    logs = F.log_softmax(x, 1)
    loss = _nll(logs, target, weight, ignore_index, reduction)
    return (loss, logs) if call.outputs > 1 else loss
