"""ONNX's Resize, Upsample, GridSample and AffineGrid.

Along each axis a resized image is a matrix times the image: a row has the weights of the few elements that an output
adds up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import fft
from ..base import dtypes
from .table import DTYPES, Call, F, as_array, constant, ints, number, row, t


@row("Upsample")
def _upsample(call: Call, x: Any, given: Any = None, scales: Any = None, mode: str = "nearest") -> Any:
    """Resize with coordinates that are cut off, as it was up to opset 9."""
    factors = scales if given is None else as_array(given).tolist()
    kind = "linear" if mode in ("linear", "bilinear") else mode
    sizes = [math.floor(n * f) for n, f in zip(x.shape, factors, strict=True)]
    for axis, (n, f) in enumerate(zip(x.shape, factors, strict=True)):
        if f != 1:
            at = np.arange(sizes[axis]) / f
            x = _along(x, axis, _matrix(at, n, 1.0, kind, "floor", -0.75, 0, False))
    return x


@row("Resize")
def _resize(call: Call, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, antialias: int = 0,
            axes: Any = None, coordinate_transformation_mode: Any = None, cubic_coeff_a: float = -0.75,
            exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
            mode: str = "nearest", nearest_mode: str = "round_prefer_floor") -> Any:  # fmt: skip
    if call.version < 11:  # the second input was the scales
        return _upsample(call, x, roi, mode=mode)
    how = coordinate_transformation_mode or "half_pixel"
    chosen = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    factors, wanted = _factors(x, chosen, scales, sizes, keep_aspect_ratio_policy)
    box = None if roi is None or not math.prod(roi.shape) else as_array(roi).astype(np.float64)
    outside: list[Any] = []
    for k, axis in enumerate(chosen):
        n, out, factor = x.shape[axis], wanted[k], factors[k]
        if out == n and factor == 1 and how != "tf_crop_and_resize":
            continue
        at = _coordinates(how, n, out, factor, None if box is None else (box[k], box[len(chosen) + k]))
        y = _along(x, axis, _matrix(at, n, factor, mode, nearest_mode, cubic_coeff_a, exclude_outside, bool(antialias)))
        if how == "tf_crop_and_resize":
            outside.append((axis, (at < 0) | (at > n - 1)))
        x = y
    for axis, where in outside:
        shape = [-1 if k == axis else 1 for k in range(x.ndim)]
        x = t.where(constant(where, dtypes.bool_, x).reshape(shape), constant(extrapolation_value, x.dtype, x), x)
    return x


def _factors(x: Any, axes: list[int], scales: Any, sizes: Any, policy: str) -> tuple[list[float], list[int]]:
    """Return the factor and the size along each axis."""
    have = [x.shape[a] for a in axes]
    if sizes is None or not math.prod(sizes.shape):
        factors = [float(f) for f in as_array(scales).tolist()]
        return factors, [math.floor(n * f) for n, f in zip(have, factors, strict=True)]
    wanted = ints(sizes)
    if policy == "stretch":
        return [w / n for w, n in zip(wanted, have, strict=True)], wanted
    each = [w / n for w, n in zip(wanted, have, strict=True)]
    factor = min(each) if policy == "not_larger" else max(each)
    return [factor] * len(have), [math.floor(n * factor + 0.5) for n in have]


def _coordinates(how: str, n: int, out: int, factor: float, box: Any) -> Any:
    """Return the place in the input of each output along an axis."""
    i = np.arange(out, dtype=np.float64)
    length = n * factor  # of the result, which need not be whole
    if how == "align_corners":
        return i * (n - 1) / (length - 1) if length != 1 else i * 0
    if how == "asymmetric":
        return i / factor
    if how == "pytorch_half_pixel":
        return (i + 0.5) / factor - 0.5 if length > 1 else i * 0 - 0.5
    if how == "tf_half_pixel_for_nn":
        return (i + 0.5) / factor
    if how == "tf_crop_and_resize":
        first, last = box
        if out > 1:
            return first * (n - 1) + i * (last - first) * (n - 1) / (length - 1)
        return 0.5 * (first + last) * (n - 1) + i * 0
    if how == "half_pixel_symmetric":
        centre = n / 2 * (1 - out / length)
        return centre + (i + 0.5) / factor - 0.5
    return (i + 0.5) / factor - 0.5


def _matrix(at: Any, n: int, factor: float, mode: str, nearest: str, a: float, exclude: int, antialias: bool) -> Any:
    """Return the weights, (outputs, inputs)."""
    rows = np.zeros((len(at), n))
    if mode == "nearest":
        choose: Any = {
            "round_prefer_floor": lambda v: np.ceil(v - 0.5),
            "round_prefer_ceil": lambda v: np.floor(v + 0.5),
            "floor": np.floor,
            "ceil": np.ceil,
        }[nearest]
        rows[np.arange(len(at)), np.clip(choose(at), 0, n - 1).astype(int)] = 1
        return rows
    wider = min(factor, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / wider
    for k, x in enumerate(at):
        first = math.floor(x - reach) + 1
        taps = np.arange(first, math.ceil(x + reach) + (0 if antialias else 1))
        w = _kernel((taps - x) * wider, mode, a)
        if exclude or antialias:
            inside = (taps >= 0) & (taps < n)
            w = np.where(inside, w, 0.0) if exclude else w
        total = w.sum()
        w = w / total if total else w
        np.add.at(rows[k], np.clip(taps, 0, n - 1), w)
    return rows


def _kernel(x: Any, mode: str, a: float) -> Any:
    """Return the linear kernel, or that of cubic convolution. Source: Keys, IEEE Trans. ASSP 29 (1981)."""
    x = np.abs(x)
    if mode == "linear":
        return np.maximum(1 - x, 0)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _along(x: Any, axis: int, matrix: Any) -> Any:
    """Return the matrix times `x` along an axis; a choice of elements is one."""
    if ((matrix == 0) | (matrix == 1)).all() and (matrix.sum(1) == 1).all():
        return t.index_select(x, axis, constant(matrix.argmax(1), dtypes.int64, x))
    real = x if x.is_floating_point() else x.to(dtypes.float32)
    y = t.matmul(t.movedim(real, axis, -1), constant(matrix.T, real.dtype, x))
    return t.movedim(y, -1, axis).to(x.dtype)


@row("GridSample")
def _grid_sample(call: Call, x: Any, grid: Any, align_corners: int = 0, mode: str = "linear",
                 padding_mode: str = "zeros") -> Any:  # fmt: skip
    """Opset 20 renamed the modes."""
    kind = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid.to(x.dtype), mode=kind, padding_mode=padding_mode, align_corners=bool(align_corners))


@row("AffineGrid")
def _affine_grid(call: Call, theta: Any, size: Any, align_corners: int = 0) -> Any:
    return F.affine_grid(theta, ints(size), align_corners=bool(align_corners))


# -- signals -----------------------------------------------------------------------------------------------------------


@row("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(call: Call, size: Any, output_datatype: int = 1, periodic: int = 1) -> Any:
    n = number(size)
    phase = 2 * math.pi * np.arange(n) / max(n if periodic else n - 1, 1)
    terms = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 1 - 25 / 46, 0.0),
             "BlackmanWindow": (0.42, 0.5, 0.08)}[call.op]  # fmt: skip
    return constant(terms[0] - terms[1] * np.cos(phase) + terms[2] * np.cos(2 * phase), DTYPES[output_datatype])


@row("DFT")
def _dft(call: Call, x: Any, length: Any = None, given: Any = None, axis: Any = None, inverse: int = 0,
         onesided: int = 0) -> Any:  # fmt: skip
    """A last dimension of 1 holds real numbers, one of 2 complex ones; the axis is an input since opset 20."""
    along = number(given) if given is not None else axis if axis is not None else (-2 if call.version >= 20 else 1)
    along %= x.ndim
    z = t.complex(x[..., 0], t.zeros_like(x[..., 0]) if x.shape[-1] == 1 else x[..., 1])
    n = number(length) if length is not None else None
    if inverse and onesided:
        return fft.irfft(z, n=n or 2 * (z.shape[along] - 1), dim=along).unsqueeze(-1).to(x.dtype)
    y = fft.ifft(z, n=n, dim=along) if inverse else fft.fft(z, n=n, dim=along)
    if onesided:
        y = y.narrow(along, 0, y.shape[along] // 2 + 1)
    return t.view_as_real(y).to(x.dtype)


@row("STFT")
def _stft(call: Call, signal: Any, frame_step: Any, window: Any = None, frame_length: Any = None,
          onesided: int = 1) -> Any:  # fmt: skip
    step = number(frame_step)
    n = number(frame_length) if frame_length is not None else window.shape[0]
    x = signal if signal.ndim == 2 else signal[..., 0]
    if signal.ndim == 3 and signal.shape[-1] == 2:
        x = t.complex(signal[..., 0], signal[..., 1])
    count = (x.shape[1] - n) // step + 1
    at = np.arange(count)[:, None] * step + np.arange(n)
    frames = t.index_select(x, 1, constant(at.reshape(-1), dtypes.int64, x)).reshape((x.shape[0], count, n))
    if window is not None:
        frames = frames * window
    y = fft.fft(frames, dim=-1)
    y = y.narrow(-1, 0, n // 2 + 1) if onesided else y
    return t.view_as_real(y)


@row("MelWeightMatrix")
def _mel_weights(call: Call, bins: Any, length: Any, rate: Any, low: Any, high: Any, output_datatype: int = 1) -> Any:
    """Triangles between bins that are even on the mel scale: 2595 log10(1 + hertz / 700)."""
    count, n = number(bins), number(length)

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    steps = np.arange(count + 2) * (mel(number(high)) - mel(number(low))) / (count + 2) + mel(number(low))
    at = (((n + 1) * 700 * (10 ** (steps / 2595) - 1)) // number(rate)).astype(int)
    out = np.zeros((n // 2 + 1, count))
    for i, (a, b, c) in enumerate(zip(at[:-2], at[1:-1], at[2:], strict=True)):
        if a == b:
            out[b, i] = 1
        else:
            out[a : b + 1, i] = (np.arange(a, b + 1) - a) / (b - a)
        if c > b:
            out[b:c, i] = (c - np.arange(b, c)) / (c - b)
    return constant(out, DTYPES[output_datatype])
