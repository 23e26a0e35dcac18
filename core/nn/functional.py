"""Functions of neural networks: ``import core.nn.functional as F``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.dtypes import dtype as Dtype
from ..base.scalars import element
from ..dispatch.autocast import behind
from ..dispatch.type_errors import guarded
from ..ops import activation as _a
from ..ops import elementwise as _e
from ..ops.scaled_products import ScalingType as ScalingType
from ..ops.scaled_products import SwizzleType as SwizzleType
from ..ops.scaled_products import grouped_mm as grouped_mm
from ..ops.scaled_products import scaled_grouped_mm as scaled_grouped_mm
from ..ops.scaled_products import scaled_mm as scaled_mm
from ..ops.softmax import implicit_dim as _implicit_dim
from ..ops.softmax import log_softmax as _log_softmax
from ..ops.softmax import softmax as _softmax
from ..tensors.tensor import Tensor

if TYPE_CHECKING:  # as core.stubs prints it from their headers
    from ..native.generated.functional import *  # noqa: F403
else:
    from ..ops.activation import glu, hardshrink, prelu, softshrink, softsign, tanhshrink
    from ..ops.attention import scaled_dot_product_attention
    from ..ops.conv import conv1d, conv2d, conv3d, conv_tbc, conv_transpose1d, conv_transpose2d, conv_transpose3d
    from ..ops.ctc import ctc_loss
    from ..ops.distance import (
        binary_cross_entropy,
        binary_cross_entropy_with_logits,
        gaussian_nll_loss,
        huber_loss,
        kl_div,
        l1_loss,  # fmt: skip
        mse_loss,
        poisson_nll_loss,
        smooth_l1_loss,
    )
    from ..ops.dropout import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d
    from ..ops.elementwise import gelu, logsigmoid, sigmoid, softplus, tanh
    from ..ops.embedding import embedding, one_hot
    from ..ops.fold import fold, unfold
    from ..ops.fractional import (
        fractional_max_pool2d,
        fractional_max_pool2d_with_indices,
        fractional_max_pool3d,
        fractional_max_pool3d_with_indices,
    )
    from ..ops.linalg import linear
    from ..ops.linear_loss import linear_cross_entropy
    from ..ops.loss import cross_entropy, nll_loss
    from ..ops.margin import (
        cosine_embedding_loss,
        cosine_similarity,
        hinge_embedding_loss,
        margin_ranking_loss,
        pairwise_distance,  # fmt: skip
        soft_margin_loss,
        triplet_margin_loss,
    )
    from ..ops.multihead import multi_head_attention_forward
    from ..ops.multilabel import (
        multi_margin_loss,
        multilabel_margin_loss,
        multilabel_soft_margin_loss,
        triplet_margin_with_distance_loss,
    )
    from ..ops.norm import batch_norm, group_norm, instance_norm, layer_norm, normalize, rms_norm
    from ..ops.padding import pad
    from ..ops.pool import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool1d_with_indices,
        adaptive_max_pool2d,
        adaptive_max_pool2d_with_indices,
        adaptive_max_pool3d,
        adaptive_max_pool3d_with_indices,
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        lp_pool1d,
        lp_pool2d,
        lp_pool3d,
        max_pool1d,
        max_pool1d_with_indices,
        max_pool2d,
        max_pool2d_with_indices,
        max_pool3d,
        max_pool3d_with_indices,
        max_unpool1d,
        max_unpool2d,
        max_unpool3d,
    )
    from ..ops.rarer import (
        bilinear,
        embedding_bag,
        feature_alpha_dropout,
        gumbel_softmax,
        local_response_norm,
        pdist,
        rrelu,
    )
    from ..ops.resample import (
        channel_shuffle,
        interpolate,
        native_channel_shuffle,
        pixel_shuffle,
        pixel_unshuffle,
        upsample,
        upsample_bilinear,
        upsample_nearest,
    )
    from ..ops.sampling_grid import affine_grid, grid_sample

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

# -- activations that can write their input --


@behind
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    >>> import core
    >>> core.nn.functional.relu(core.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else _e.relu(input)


@behind
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above 0, negative_slope x below.

    >>> import core
    >>> core.nn.functional.leaky_relu(core.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5000,  2.0000])
    """
    return input.leaky_relu_(negative_slope) if inplace else _e.leaky_relu(input, negative_slope)


@behind
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, alpha (exp(x) - 1) below.

    >>> import core
    >>> core.nn.functional.elu(core.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return input.elu_(alpha) if inplace else _e.elu(input, alpha)


@behind
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, alpha (exp(x / alpha) - 1) below.

    >>> import core
    >>> core.nn.functional.celu(core.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU\n  op: celu; needed: alpha other than 0")
    return input.celu_(alpha) if inplace else _a.celu_(input, alpha)


@behind
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the scaled exponential linear unit.

    >>> import core
    >>> core.nn.functional.selu(core.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return input.selu_() if inplace else _a.selu_(input)


@behind
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x).

    >>> import core
    >>> core.nn.functional.silu(core.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    return input.silu_() if inplace else _e.silu(input)


@behind
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)).

    >>> import core
    >>> core.nn.functional.mish(core.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    return input.mish_() if inplace else _a.mish(input)


@behind
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x, kept between `min_val` and `max_val`.

    >>> import core
    >>> core.nn.functional.hardtanh(core.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val\n  op: hardtanh; came: {min_val} and {max_val}")
    return input.hardtanh_(min_val, max_val) if inplace else _e.hardtanh(input, min_val, max_val)


@behind
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x, kept between 0 and 6.

    >>> import core
    >>> core.nn.functional.relu6(core.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """
    return input.hardtanh_(0.0, 6.0) if inplace else _e.relu6(input)


@behind
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return a sigmoid of three straight pieces.

    >>> import core
    >>> core.nn.functional.hardsigmoid(core.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return input.hardsigmoid_() if inplace else _a.hardsigmoid_(input)


@behind
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times its hardsigmoid.

    >>> import core
    >>> core.nn.functional.hardswish(core.tensor([0.0, 1.5, 4.0]))
    tensor([0.0000, 1.1250, 4.0000])
    """
    return input.hardswish_() if inplace else _a.hardswish_(input)


@behind
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above the threshold, else the value.

    >>> import core
    >>> core.nn.functional.threshold(core.tensor([-1.0, 2.0]), 0.5, 9.0)
    tensor([9., 2.])
    """
    value = element(value, input.dtype, "threshold")
    return input.threshold_(threshold, value) if inplace else _a.threshold_(input, threshold, value)


def _in_place(name: str, function: Any, example: str) -> Any:
    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, inplace=True, **kwargs)  # type: ignore[no-any-return]

    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"""`{name}`, written into its input.

    >>> import core
    >>> x = core.tensor([-1.0, 2.0])
    >>> core.nn.functional.{name}_(x{", 0.5, 9.0" if name == "threshold" else ""}) is x, x
    (True, {example})
    """
    method.of = function  # type: ignore[attr-defined]  # whose signature says of which types its arguments are
    return guarded(method)


if not TYPE_CHECKING:
    relu_ = _in_place("relu", relu, "tensor([0., 2.])")
    elu_ = _in_place("elu", elu, "tensor([-0.6321,  2.0000])")
    celu_ = _in_place("celu", celu, "tensor([-0.6321,  2.0000])")
    selu_ = _in_place("selu", selu, "tensor([-1.1113,  2.1014])")
    hardtanh_ = _in_place("hardtanh", hardtanh, "tensor([-1.,  1.])")
    leaky_relu_ = _in_place("leaky_relu", leaky_relu, "tensor([-0.0100,  2.0000])")
    threshold_ = _in_place("threshold", threshold, "tensor([9., 2.])")
    rrelu_ = _in_place("rrelu", rrelu, "tensor([-0.2292,  2.0000])")


# -- softmax, whose dim was once optional --


@behind
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`.

    >>> import core
    >>> core.nn.functional.softmax(core.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _softmax(input, _implicit_dim("softmax", input.ndim) if dim is None else dim, dtype)


@behind
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None) -> Tensor:
    """Return the softmax of -x.

    >>> import core
    >>> core.nn.functional.softmin(core.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _softmax(-input, _implicit_dim("softmin", input.ndim) if dim is None else dim, dtype)


@behind
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None) -> Tensor:
    """Return the logarithm of softmax along `dim`.

    >>> import core
    >>> core.nn.functional.log_softmax(core.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return _log_softmax(input, _implicit_dim("log_softmax", input.ndim) if dim is None else dim, dtype)
