"""Ops that only ``torch.ops.aten`` has, by ATen's names and orders of arguments, written in the public functions.

>>> import core
>>> core.ops.aten.sym_size(core.ones(2, 3), 1)
3
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import ops as _ops  # noqa: F401 - they bind themselves to Tensor
from .autograd import enable_grad, grad
from .nn import functional as F
from .tensors.tensor import Tensor

__all__ = ["_to_copy", "_unsafe_view", "alias", "constant_pad_nd", "convolution", "convolution_backward",
           "embedding_dense_backward", "expand_copy", "gelu_backward", "max_pool2d_with_indices_backward",
           "native_batch_norm", "native_dropout", "native_layer_norm", "native_layer_norm_backward", "permute_copy",
           "select_copy", "silu_backward", "slice_copy", "squeeze_copy", "sym_constrain_range_for_size", "sym_numel",
           "sym_size", "sym_storage_offset", "sym_stride", "t_copy", "threshold_backward", "transpose_copy",
           "unsqueeze_copy", "upsample_bilinear2d", "upsample_nearest2d", "view_copy"]  # fmt: skip

_MAKING = {"arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like", "rand",
           "rand_like", "randint", "randn", "randn_like", "randperm", "scalar_tensor", "zeros",
           "zeros_like"}  # fmt: skip


def making(name: str) -> Any:
    """Return the public function of that name that makes a tensor; None for another name."""
    return getattr(sys.modules[__package__], name) if name in _MAKING else None


# -- what a tensor says of itself --------------------------------------------------------------------------------------


def sym_size(input: Tensor, dim: int | None = None) -> Any:
    """Return the shape, or one size."""
    return input.shape if dim is None else input.shape[dim]


def sym_stride(input: Tensor, dim: int | None = None) -> Any:
    """Return the strides, or one."""
    return input.stride() if dim is None else input.stride(dim)


def sym_numel(input: Tensor) -> int:
    """Return how many elements there are."""
    return input.numel()


def sym_storage_offset(input: Tensor) -> int:
    """Return where in its storage a tensor begins."""
    return input.storage_offset()


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Do nothing: sizes are numbers here, and need no promise."""


# -- views and their copies --------------------------------------------------------------------------------------------


def alias(input: Any) -> Tensor:
    """Return a view of all of `input`."""
    return input.view(input.shape)  # type: ignore[no-any-return]


def _unsafe_view(input: Any, size: Sequence[int]) -> Tensor:
    return input.reshape(size)  # type: ignore[no-any-return]


def _copied(name: str) -> Callable[..., Tensor]:
    def copy(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(input, name)(*args, **kwargs).clone()  # type: ignore[no-any-return]

    copy.__name__, copy.__doc__ = f"{name}_copy", f"Return what `{name}` views, in memory of its own."
    return copy


expand_copy, permute_copy, select_copy = _copied("expand"), _copied("permute"), _copied("select")
squeeze_copy, t_copy, transpose_copy = _copied("squeeze"), _copied("t"), _copied("transpose")
unsqueeze_copy, view_copy = _copied("unsqueeze"), _copied("view")


def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Return a copy of the places `start` to `end` along `dim`, every `step`-th."""
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)].clone()  # type: ignore[no-any-return]


def _to_copy(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
             non_blocking: bool = False, memory_format: Any = None) -> Tensor:  # fmt: skip
    return input.to(dtype=dtype, device=device, copy=True)  # type: ignore[no-any-return]


# -- layers ------------------------------------------------------------------------------------------------------------


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """Return `input` with `value` around it."""
    return F.pad(input, list(pad), value=value)


def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Tensor:  # fmt: skip
    """Return a convolution over as many dimensions as `weight` has beyond two, or a transposed one."""
    n = weight.ndim - 2
    if transposed:
        turned: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
        return turned(input, weight, bias, stride, padding, output_padding, groups, dilation)  # type: ignore[no-any-return]
    plain: Any = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return plain(input, weight, bias, stride, padding, dilation, groups)  # type: ignore[no-any-return]


def native_layer_norm(input: Any, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the normalised input, the means and one over the standard deviations."""
    dims = tuple(range(-len(normalized_shape), 0))
    mean = input.mean(dims, keepdim=True)
    rstd = (input.var(dims, keepdim=True, correction=0) + eps).rsqrt()
    return F.layer_norm(input, list(normalized_shape), weight, bias, eps), mean, rstd


def native_layer_norm_backward(grad_out: Any, input: Any, normalized_shape: Sequence[int], mean: Any, rstd: Any,
                               weight: Any, bias: Any,
                               output_mask: Sequence[bool]) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of a layer norm's input, weight and bias, those that the mask asks for."""
    dims = tuple(range(-len(normalized_shape), 0))
    rows = tuple(range(input.ndim - len(normalized_shape)))
    normed = (input - mean) * rstd
    scaled = grad_out if weight is None else grad_out * weight
    inner = scaled - scaled.mean(dims, keepdim=True) - normed * (scaled * normed).mean(dims, keepdim=True)
    given = (inner * rstd, (grad_out * normed).sum(rows) if rows else grad_out * normed,
             grad_out.sum(rows) if rows else grad_out)  # fmt: skip
    return tuple(g if wanted else None for g, wanted in zip(given, output_mask, strict=True))


def native_batch_norm(input: Any, weight: Tensor | None, bias: Tensor | None, running_mean: Any, running_var: Any,
                      training: bool, momentum: float, eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the normalised input, and in training the batch's means and one over its standard deviations."""
    dims = (0, *range(2, input.ndim))
    y = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return y, input.new_empty(0), input.new_empty(0)
    return y, input.mean(dims), (input.var(dims, correction=0) + eps).rsqrt()


def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return the input with a share `p` of its elements at 0, and which were kept."""
    if train is False or p == 0:
        return input.clone(), input.new_ones(input.shape, dtype=bool)
    kept = (input.new_empty(input.shape).uniform_() >= p) if p < 1 else input.new_zeros(input.shape, dtype=bool)
    return input * kept * (1 / (1 - p) if p < 1 else 0.0), kept


def upsample_bilinear2d(input: Tensor, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None,
                        scales_w: float | None = None) -> Tensor:  # fmt: skip
    """Return images at another size, between four neighbours."""
    return F.interpolate(input, list(output_size), mode="bilinear", align_corners=align_corners)


def upsample_nearest2d(input: Tensor, output_size: Sequence[int], scales_h: float | None = None,
                       scales_w: float | None = None) -> Tensor:  # fmt: skip
    """Return images at another size, each element its nearest neighbour's."""
    return F.interpolate(input, list(output_size), mode="nearest")


# -- gradients ---------------------------------------------------------------------------------------------------------


def threshold_backward(grad_output: Any, input: Any, threshold: float) -> Tensor:
    """Return the gradient where the input is above the threshold, and else 0."""
    return grad_output * (input > threshold)  # type: ignore[no-any-return]


def silu_backward(grad_output: Any, input: Any) -> Tensor:
    """Return the gradient of ``x * sigmoid(x)``."""
    s = input.sigmoid()
    return grad_output * s * (1 + input * (1 - s))  # type: ignore[no-any-return]


def gelu_backward(grad_output: Any, input: Any, *, approximate: str = "none") -> Tensor:
    """Return the gradient of `nn.functional.gelu`."""
    found = _gradients(lambda x: F.gelu(x, approximate=approximate), grad_output, [input])
    return found[0]  # type: ignore[return-value]


def _gradients(function: Callable[..., Tensor], grad_output: Any, given: Sequence[Any],
               wanted: Sequence[bool] | None = None) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of a function's arguments, those that are wanted; None for the others."""
    asked = [g is not None and (wanted is None or wanted[k]) for k, g in enumerate(given)]
    leaves = [g.detach().requires_grad_() if a else g for g, a in zip(given, asked, strict=True)]
    with enable_grad():
        y = function(*leaves)
    found = iter(grad(y, [x for x, a in zip(leaves, asked, strict=True) if a], grad_output))
    return tuple(next(found) if a else None for a in asked)


def convolution_backward(grad_output: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any,
                         dilation: Any, transposed: bool, output_padding: Any, groups: int,
                         output_mask: Sequence[bool]) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of a convolution's input, weight and bias, those that the mask asks for."""
    bias = weight.new_zeros((grad_output.shape[1],)) if output_mask[2] else None
    return _gradients(
        lambda x, w, b: convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups),
        grad_output, (input, weight, bias), output_mask,
    )  # fmt: skip


def max_pool2d_with_indices_backward(grad_output: Any, input: Any, kernel_size: Any, stride: Any, padding: Any,
                                     dilation: Any, ceil_mode: bool, indices: Any) -> Tensor:  # fmt: skip
    """Return the gradient of `max_pool2d`'s input: each result's, at the place that `indices` says, added up."""
    flat = grad_output.new_zeros((*input.shape[:-2], input.shape[-2] * input.shape[-1]))
    flat = flat.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2))
    return flat.reshape(input.shape)  # type: ignore[no-any-return]


def embedding_dense_backward(grad_output: Any, indices: Any, num_weights: int, padding_idx: int,
                             scale_grad_by_freq: bool) -> Tensor:  # fmt: skip
    """Return the gradient of an embedding's weight: each row's gradients added up."""
    flat, rows = indices.reshape(-1), grad_output.reshape(-1, grad_output.shape[-1])
    if scale_grad_by_freq:
        rows = rows / flat.bincount(minlength=num_weights)[flat].unsqueeze(-1)
    if padding_idx >= 0:
        rows = rows * (flat != padding_idx).unsqueeze(-1)
    return rows.new_zeros((num_weights, rows.shape[-1])).index_add(0, flat, rows)  # type: ignore[no-any-return]
