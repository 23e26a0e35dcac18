"""Helpers over parameters: clipping gradients, parameters as one vector, parametrizations, layers fused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.lazy_import import lazy_attributes
from . import rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters

if TYPE_CHECKING:
    from . import parametrizations, parametrize, prune, shrink, stateless
    from .fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
    from .norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
    from .skipping import skip_init

# What few programs use, and the file it is in; imported when it is asked for.
_LATE = {
    **dict.fromkeys(["_named_member_accessor", "parametrizations", "parametrize", "prune", "shrink", "stateless"], ""),
    **dict.fromkeys(["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"],
                    "fusion"),
    **dict.fromkeys(["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"], "norms"),
    "skip_init": "skipping",
}  # fmt: skip


__getattr__, __dir__ = lazy_attributes(__name__, _LATE)


__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]
