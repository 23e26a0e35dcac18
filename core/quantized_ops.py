"""Ops that ``torch.ops.quantized_decomposed`` has: whole numbers for real ones by a scale and a zero point, and back.

The whole numbers are ordinary tensors of int8, uint8, ..., as PyTorch's decomposition has them.

>>> import core
>>> q = core.ops.quantized_decomposed.quantize_per_tensor(core.tensor([0.3, 9.0]), 0.5, 0, -8, 7, core.int8)
>>> q
tensor([1, 7], dtype=core.int8)
>>> core.ops.quantized_decomposed.dequantize_per_tensor(q, 0.5, 0, -8, 7, core.int8)
tensor([0.5000, 3.5000])
"""

from __future__ import annotations

from typing import Any

from .base import dtypes
from .ops.conversion import as_tensor
from .tensors.tensor import Tensor

__all__ = ["choose_qparams", "choose_qparams_per_token", "choose_qparams_per_token_asymmetric",
           "choose_qparams_symmetric", "convert_element_type", "dequantize_per_channel",
           "dequantize_per_channel_group", "dequantize_per_tensor", "dequantize_per_token", "quantize_per_channel",
           "quantize_per_channel_group", "quantize_per_tensor", "quantize_per_token"]  # fmt: skip


def _whole(x: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: Any) -> Tensor:
    return ((x * (1.0 / scale)).round() + zero_point).clamp(low, high).to(dtype)  # type: ignore[no-any-return]


def _real(q: Any, scale: Any, zero_point: Any, out_dtype: Any) -> Tensor:
    return ((q.to(dtypes.float32) - zero_point) * scale).to(out_dtype or dtypes.float32)  # type: ignore[no-any-return]


def _along(x: Any, values: Any, axis: int) -> Any:
    """Return one value for each place along an axis, in a shape that spreads over `x`."""
    shape = [1] * x.ndim
    shape[axis] = -1
    return None if values is None else values.reshape(shape)


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any) -> Tensor:
    """Return ``round(input / scale) + zero_point`` within the bounds."""
    return _whole(input, scale, zero_point, quant_min, quant_max, dtype)


def dequantize_per_tensor(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any, *,
                          out_dtype: Any = None) -> Tensor:  # fmt: skip
    """Return ``(input - zero_point) * scale``."""
    return _real(input, scale, zero_point, out_dtype)


def quantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, quant_min: int, quant_max: int,
                         dtype: Any) -> Tensor:  # fmt: skip
    """Return as `quantize_per_tensor`, with a scale and a zero point for each place along `axis`."""
    return _whole(input, _along(input, scales, axis), _along(input, zero_points, axis), quant_min, quant_max, dtype)


def dequantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, quant_min: int, quant_max: int,
                           dtype: Any, *, out_dtype: Any = None) -> Tensor:  # fmt: skip
    """Return as `dequantize_per_tensor`, with a scale and a zero point for each place along `axis`."""
    zero = _along(input, zero_points, axis)
    return _real(input, _along(input, scales, axis), 0 if zero is None else zero, out_dtype)


def quantize_per_token(input: Any, scales: Any, zero_points: Any, quant_min: int, quant_max: int,
                       dtype: Any) -> Tensor:  # fmt: skip
    """Return as `quantize_per_tensor`, with a scale and a zero point for each row."""
    return _whole(input, scales, zero_points, quant_min, quant_max, dtype)


def dequantize_per_token(input: Any, scales: Any, zero_points: Any, quant_min: int, quant_max: int, dtype: Any,
                         output_dtype: Any = None) -> Tensor:  # fmt: skip
    """Return as `dequantize_per_tensor`, with a scale and a zero point for each row."""
    return _real(input, scales, zero_points, output_dtype)


def quantize_per_channel_group(input: Any, scales: Any, zero_points: Any, quant_min: int, quant_max: int, dtype: Any,
                               group_size: int = 128) -> Tensor:  # fmt: skip
    """Return a matrix as whole numbers, with a scale and a zero point for each `group_size` elements of a row."""
    groups = input.reshape(input.shape[0], -1, group_size)
    whole: Any = _whole(groups, scales.unsqueeze(-1), zero_points.unsqueeze(-1), quant_min, quant_max, dtype)
    return whole.reshape(input.shape)  # type: ignore[no-any-return]


def dequantize_per_channel_group(input: Any, scales: Any, zero_points: Any, quant_min: int, quant_max: int, dtype: Any,
                                 group_size: int = 128, output_dtype: Any = None) -> Tensor:  # fmt: skip
    """Return what `quantize_per_channel_group` stands for."""
    groups = input.reshape(input.shape[0], -1, group_size)
    zero = 0 if zero_points is None else zero_points.unsqueeze(-1)
    real: Any = _real(groups, scales.unsqueeze(-1), zero, output_dtype)
    return real.reshape(input.shape)  # type: ignore[no-any-return]


def _parameters(low: Any, high: Any, quant_min: int, quant_max: int, eps: float) -> tuple[Any, Any]:
    """Return the scale and the zero point with which the whole numbers reach from `low` to `high`, 0 among them."""
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    scale = ((high - low) / (quant_max - quant_min)).clamp(min=eps)
    return scale, (quant_min - (low / scale).round()).clamp(quant_min, quant_max)


def choose_qparams(input: Any, quant_min: int, quant_max: int, eps: float, dtype: Any) -> tuple[Tensor, Tensor]:
    """Return the scale (float64) and the zero point (int64) for the range of a tensor."""
    scale, zero = _parameters(input.min(), input.max(), quant_min, quant_max, eps)
    return scale.reshape(1).to(dtypes.float64), zero.reshape(1).to(dtypes.int64)


def choose_qparams_symmetric(input: Any, quant_min: int, quant_max: int, eps: float, dtype: Any) -> tuple[Any, Any]:
    """Return the scale and the zero point for a range as wide below 0 as above."""
    most = input.abs().max()
    scale = (most / ((quant_max - quant_min) / 2)).clamp(min=eps).reshape(1).to(dtypes.float64)
    return scale, as_tensor([0 if quant_min < 0 else (quant_max + quant_min + 1) // 2])


def choose_qparams_per_token(input: Any, dtype: Any) -> tuple[Tensor, Tensor]:
    """Return for each row the scale with which int8 reaches its largest magnitude, and 0."""
    most = input.abs().amax(-1, keepdim=True)
    scale = (most.float() if most.dtype is dtypes.float16 else most).clamp(min=1e-5) / 127
    return scale, scale * 0


def choose_qparams_per_token_asymmetric(input: Any, dtype: Any) -> tuple[Tensor, Tensor]:
    """Return for each row the scale and the zero point with which int8 reaches from its least to its largest."""
    low, high = input.amin(-1, keepdim=True).clamp(max=0), input.amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / 255.0).clamp(min=1.1920928955078125e-07)
    at_low, at_high = low / scale, high / scale
    zero = (-128 - at_low) * ((-128 + at_low) + (127 + at_high) > 0) + (127 - at_high) * (
        (-128 + at_low) + (127 + at_high) <= 0
    )
    return scale.to(dtypes.float64), zero.clamp(-128, 127).round().to(dtypes.int64)


def convert_element_type(input: Any, dtype: Any) -> Tensor:
    """Return the tensor in another dtype."""
    return input.to(dtype)  # type: ignore[no-any-return]
