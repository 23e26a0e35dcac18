"""Normalisation: over the last dimensions, over groups of channels, over the batch, to a length of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import float32
from ..base.errors import text
from ..base.modes import is_grad_enabled, no_grad
from ..declare.kinds import Dims
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.operands import need_tensors
from ..dispatch.out import into
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from . import norm_ops
from .elementwise import rsqrt
from .loss import torch_size
from .movement import in_a_format
from .norm_ops import accumulating
from .precision import rounded, wide
from .reduce import count

# -- layer norm --------------------------------------------------------------------------------------------------------


def _layer_norm_forward(xp: Any, x: Any, weight: Any, bias: Any, normalized_ndim: int, eps: float) -> Any:
    w, dims = wide(x), tuple(range(x.ndim - normalized_ndim, x.ndim))
    n = w.dtype.type(count(x.shape, dims))
    mean = w.sum(axis=dims, keepdims=True) / n
    off = w - mean
    rstd = 1 / xp.sqrt((off * off).sum(axis=dims, keepdims=True) / n + w.dtype.type(eps))
    y = off * rstd
    if weight is not None:
        y *= wide(weight)
    if bias is not None:
        y += wide(bias)
    return rounded(y, x.dtype), mean, rstd


def _layer_norm_vjp(g: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, weight_dtype: Any,
                    bias_dtype: Any, normalized_ndim: int, eps: float, needs: tuple[bool, ...]) -> Any:  # fmt: skip
    rows, dims = tuple(range(x.ndim - normalized_ndim)), tuple(range(x.ndim - normalized_ndim, x.ndim))
    dtype, per_row = x.dtype, tuple(x.shape[: x.ndim - normalized_ndim]) + (1,) * normalized_ndim
    x, g = x.to(mean.dtype), g.to(mean.dtype)
    mean, rstd = mean.reshape(per_row), rstd.reshape(per_row)
    if is_grad_enabled():  # for second derivatives the statistics must follow x
        mean = x.mean(dims, keepdim=True)
        rstd = rsqrt((x - mean).square().mean(dims, keepdim=True) + eps)
    xhat = (x - mean) * rstd
    gx = gw = gb = None
    if needs[0]:
        h = g if weight is None else g * weight
        gx = (rstd * (h - h.mean(dims, keepdim=True) - xhat * (h * xhat).mean(dims, keepdim=True))).to(dtype)
    if needs[1]:
        gw = ((g * xhat).sum(rows) if rows else g * xhat).to(weight_dtype)
    if needs[2]:
        gb = (g.sum(rows) if rows else g).to(bias_dtype)
    return gx, gw, gb


def _layer_norm_samples(rng: Any) -> list[Any]:
    def u(*shape: int) -> Any:
        return rng.uniform(-2, 2, shape)

    return [
        ((u(3, 5), u(5), u(5)), {"normalized_ndim": 1, "eps": 1e-5}),
        ((u(2, 3, 4), u(3, 4), None), {"normalized_ndim": 2, "eps": 1e-5}),
        ((u(2, 3, 4), None, None), {"normalized_ndim": 1, "eps": 1e-3}),
        ((u(4), u(4), u(4)), {"normalized_ndim": 1, "eps": 1e-5}),
    ]


_layer_norm = operation("layer_norm", _layer_norm_forward, inputs="x weight? bias?",
                        params={"normalized_ndim": 1, "eps": 1e-5}, outputs="y mean rstd", vjp=_layer_norm_vjp,
                        samples=_layer_norm_samples, contiguous=True)  # fmt: skip


def _check_normalized(op: str, input: Tensor, normalized_shape: Any, star: str) -> tuple[int, ...]:
    if not isinstance(normalized_shape, Sequence):
        raise TypeError(f"{op}(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
                        f"{type(normalized_shape).__name__}\n  remedy: ({normalized_shape},)")  # fmt: skip
    shape = tuple(int(n) for n in normalized_shape)
    if not shape:
        raise RuntimeError(text("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
                                "element, but got normalized_shape = []", op=op))  # fmt: skip
    if tuple(input.shape[-len(shape) :]) != shape:
        inside = ", ".join(map(str, shape))
        raise RuntimeError(
            text(
                f"Given normalized_shape={list(shape)}, expected input with shape [{star}{inside}], but got "
                f"input of size{list(input.shape)}",
                op=op,
                remedy=f"normalize over the sizes that the input ends with, such as {list(input.shape[-1:])}",
            )
        )
    return shape


def _check_parameter(op: str, name: str, p: Tensor | None, shape: tuple[int, ...], input: Tensor) -> None:
    if p is None:
        return
    if tuple(p.shape) != shape:
        raise RuntimeError(text(f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                                f"{list(p.shape)} and normalized_shape = {list(shape)}", op=op))  # fmt: skip
    wide = input.dtype.itemsize == 2 and p.dtype is float32 and not input.is_cuda  # as autocast leaves the parameters
    if p.dtype is not input.dtype and not wide:
        needed = float32 if input.dtype.itemsize == 2 else input.dtype
        raise RuntimeError(
            text(
                f"mixed dtype (CPU): expect parameter to have scalar type of {needed.scalar_type}",
                op=op,
                came=f"input of {input.dtype}, {name} of {p.dtype}",
                remedy=f"{name}.to(core.{needed.name})",
            )
        )


@public(method=False, namespace="nn.functional", home="layers",
        fast=[Fast(op="layer_norm(input, weight, bias, len(normalized_shape), eps)",
                   types={"input": "real", "weight": "real", "bias": "real"},
                   check=("ends_with({input}, {normalized_shape})", "weighs(input, weight, {normalized_shape})",
                          "weighs(input, bias, {normalized_shape})"))])  # fmt: skip
def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:  # fmt: skip
    """Return (x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions, which have `normalized_shape`.

    *Shapes*: weight and bias have `normalized_shape`. Source: arXiv 1607.06450.

    >>> import core
    >>> core.nn.functional.layer_norm(core.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    shape = _check_normalized("layer_norm", input, normalized_shape, "*, ")
    if input.dtype.category < 2:
        raise NotImplementedError(
            text(f"\"LayerNormKernelImpl\" not implemented for '{input.dtype.scalar_type}'", op="layer_norm")
        )
    _check_parameter("layer_norm", "weight", weight, shape, input)
    _check_parameter("layer_norm", "bias", bias, shape, input)
    if weight is not None and bias is not None and weight.dtype is not bias.dtype:
        raise RuntimeError(
            text("mixed dtype (CPU): expect parameter to have scalar type of Float", op="layer_norm",
                 came=f"weight of {weight.dtype}, bias of {bias.dtype}", needed="one dtype for both")
        )  # fmt: skip
    return _layer_norm(input, weight, bias, normalized_ndim=len(shape), eps=eps)


@public(method=False, namespace="nn.functional")
def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
             eps: float | None = None) -> Tensor:  # fmt: skip
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions; eps is the dtype's own unless given.

    Source: arXiv 1910.07467.

    >>> import core
    >>> core.nn.functional.rms_norm(core.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    shape = _check_normalized("rms_norm", input, normalized_shape, "*")
    _check_parameter("rms_norm", "weight", weight, shape, input)
    if input.dtype.category < 2:
        raise NotImplementedError(
            text(
                f"\"rms_norm\" not implemented for '{input.dtype.scalar_type}'", op="rms_norm", remedy="x.float() first"
            )
        )
    least = float(np.finfo(accumulating(input.dtype).numpy).eps) if eps is None else float(eps)
    return norm_ops.rms_norm(in_a_format(input), weight, normalized_ndim=len(shape), eps=least)  # type: ignore[no-any-return]


# -- by channel --------------------------------------------------------------------------------------------------------


def _need_floats(op: str, input: Tensor) -> None:
    if input.dtype.category != 2:
        raise NotImplementedError(
            text(f"\"{op}\" not implemented for '{input.dtype.scalar_type}'", op=op, remedy="x.float() first")
        )


_CHANNELS = dict.fromkeys(("input", "weight", "bias"), "real")
_RUNNING = dict.fromkeys(("running_mean", "running_var"), "real")


@public(method=False, namespace="nn.functional", home="norms", state="quiet",
        fast=[Fast(body="group_normed(input, num_groups, weight, bias, eps)", types=_CHANNELS)])  # fmt: skip
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:  # fmt: skip
    """Normalises each of `num_groups` groups of channels of each sample; then one weight and bias a channel.

    *Shapes*: input ``(N, C, ...)``, weight and bias ``(C)``. Source: arXiv 1803.08494.

    >>> import core
    >>> core.nn.functional.group_norm(core.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if input.ndim < 2:
        raise RuntimeError(
            text(f"Expected at least 2 dimensions for input tensor but received {input.ndim}", op="group_norm")
        )
    c = input._a.shape[1]
    if num_groups <= 0:
        raise RuntimeError(text(f"Expected num groups to be greater than 0, got {num_groups}", op="group_norm"))
    if c % num_groups:
        raise RuntimeError(
            text(
                "Expected number of channels in input to be divisible by num_groups, but got input of shape "
                f"{list(input.shape)} and num_groups={num_groups}",
                op="group_norm",
            )
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p._a.size != c:
            raise RuntimeError(
                text(f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} "
                     f"of shape {list(p.shape)} and input of shape {list(input.shape)}", op="group_norm")
            )  # fmt: skip
    _need_floats("group_norm", input)
    return norm_ops.group_norm(input, weight, bias, num_groups=int(num_groups), eps=float(eps))  # type: ignore[no-any-return]


@public(method=False, namespace="nn.functional", home="norms", state="quiet",
        fast=[Fast(body="batch_normed(input, running_mean, running_var, weight, bias, momentum, eps)",
                   types=_CHANNELS | _RUNNING, check=("{training}",))])  # fmt: skip
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel by the batch's mean and variance (in training, updating the running ones) or by the
    running ones; then one weight and bias a channel.

    *Shapes*: input ``(N, C, ...)``, all others ``(C)``. Source: arXiv 1502.03167.

    >>> import core
    >>> core.nn.functional.batch_norm(core.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if input.ndim < 2 and not input.numel():
        return input.clone()
    if input.ndim < 2:
        raise RuntimeError(
            text(f"batch_norm needs an input (N, C, ...), got {input.ndim} dimension(s)", op="batch_norm")
        )
    for name, t in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        if t is not None and t._a.size != input._a.shape[1]:
            raise RuntimeError(
                text(
                    f"{name} should contain {input._a.shape[1]} elements not {t._a.size}",
                    op="batch_norm",
                    came=f"input {tuple(input.shape)}",
                )
            )
    _need_floats("batch_norm", input)
    input = in_a_format(input)
    if eps < 0 or (training and eps == 0):
        wanted = "positive" if training else "non-negative"
        raise ValueError(text(f"batch_norm eps must be {wanted}, but got {eps}", op="batch_norm"))
    if training:
        n = count(tuple(input.shape), (0, *range(2, input.ndim)))
        if n == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {torch_size(input)}"
            )
        if n == 0:
            return _of_nothing(input, weight, bias)
        y, mean, variance = norm_ops.batch_norm(input, weight, bias, eps=float(eps))
        with no_grad():
            for running, now, share in ((running_mean, mean, 1.0), (running_var, variance, n / (n - 1))):
                if running is not None:
                    part = float(momentum)
                    running.mul_(1 - part).add_(now.to(running.dtype), alpha=part * share)
        return y  # type: ignore[no-any-return]
    if running_mean is None or running_var is None:
        raise RuntimeError(
            text("Expected running_mean and running_var to be defined when training=False", op="batch_norm")
        )
    return norm_ops.batch_norm_eval(input, running_mean, running_var, weight, bias, eps=float(eps))  # type: ignore[no-any-return]


def _of_nothing(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return the batch norm of a batch without values: nothing, and gradients of zeros. No statistics come of it."""
    along = (1, -1) + (1,) * (input.ndim - 2)
    y = input * 1.0
    y = y if weight is None else y * weight.reshape(along).to(input.dtype)  # type: ignore[attr-defined]
    return y if bias is None else y + bias.reshape(along).to(input.dtype)  # type: ignore[attr-defined, no-any-return]


@public(method=False, namespace="nn.functional")
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
                  weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5) -> Tensor:  # fmt: skip
    """Normalises each channel of each sample on its own; then one weight and bias a channel. arXiv 1607.08022.

    >>> import core
    >>> core.nn.functional.instance_norm(core.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    for name, t in (("running_mean", running_mean), ("running_var", running_var)):
        if t is not None:
            need_tensors("instance_norm", (name,), (t,))
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    dims = tuple(range(2, input.ndim))
    if running_mean is not None and running_var is not None:
        with no_grad():
            m, v = input.mean(dims).mean(0), input.var(dims).mean(0)
            running_mean.mul_(1 - momentum).add_(m, alpha=momentum)
            running_var.mul_(1 - momentum).add_(v, alpha=momentum)
    return group_norm(input, input._a.shape[1], weight, bias, eps)


# -- to a length -------------------------------------------------------------------------------------------------------


@public(method=False, namespace="nn.functional")
def normalize(input: Tensor, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """x / max(‖x‖, eps) along `dim`.

    >>> import core
    >>> core.nn.functional.normalize(core.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    length = input.norm(p, dim, keepdim=True).clamp(min=eps)
    return into(out, input / length)
