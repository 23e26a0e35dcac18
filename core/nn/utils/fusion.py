"""A batch norm in evaluation folded into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

from ...base.modes import no_grad
from ...ops.creation import ones_like, zeros_like
from ..parameter import Parameter


def _scaled(weight: Any, bias: Any, mean: Any, var: Any, eps: float, bn_weight: Any, bn_bias: Any,
            shape: list[int]) -> tuple[Parameter, Parameter]:  # fmt: skip
    with no_grad():
        bias = zeros_like(mean) if bias is None else bias
        scale = (ones_like(mean) if bn_weight is None else bn_weight) * (var + eps).rsqrt()
        shift = zeros_like(mean) if bn_bias is None else bn_bias
        new = (weight * scale.reshape(shape)).to(weight.dtype)
        new_bias = ((bias - mean) * scale + shift).to(bias.dtype)
    return Parameter(new, weight.requires_grad), Parameter(new_bias, bias.requires_grad)


def fuse_conv_bn_weights(conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any,
                         transpose: bool = False) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of the convolution that does what this one and the batch norm behind it do."""
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _scaled(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a copy of a convolution that does what it and the batch norm behind it do in evaluation.

    *Raises*: AssertionError while one of them trains.

    >>> import core
    >>> conv, bn = core.nn.Conv2d(2, 3, 1).eval(), core.nn.BatchNorm2d(3).eval()
    >>> x = core.ones(1, 2, 4, 4)
    >>> bool(core.allclose(core.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x))))
    True
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Expected bn.running_mean and bn.running_var to be non-None")
    fused.weight, fused.bias = fuse_conv_bn_weights(conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps,
                                                    bn.weight, bn.bias, transpose)  # fmt: skip
    return fused


def fuse_linear_bn_weights(linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any,
                           bn_b: Any) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of the linear map that does what this one and the batch norm behind it do."""
    return _scaled(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a copy of a linear layer that does what it and the batch norm behind it do in evaluation.

    *Raises*: AssertionError while one of them trains, or where their sizes differ.
    """
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(linear)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
                             f"linear.out_features={linear.out_features} and "
                             f"bn.num_features={bn.num_features}")  # fmt: skip
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Expected bn.running_mean and bn.running_var to be non-None")
    fused.weight, fused.bias = fuse_linear_bn_weights(linear.weight, linear.bias, bn.running_mean, bn.running_var,
                                                      bn.eps, bn.weight, bn.bias)  # fmt: skip
    return fused
