"""The in-place methods that PyTorch shows as functions too: ``core.relu_(x)``."""

from __future__ import annotations

from ..dispatch.publish import namespaces
from ..dispatch.type_errors import guarded
from ..tensors.tensor import Tensor

_NAMES = """
abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh atan atanh ceil celu clamp
clamp_max clamp_min clip cos cosh deg2rad detach erf erfc exp exp2 expm1 fill fix floor frac gcd i0 lcm ldexp log log10
log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu round rsqrt selu sigmoid sin sinc sinh sqrt square tan
tanh threshold trunc xlogy zero
"""
for _name in _NAMES.split():
    if hasattr(Tensor, _name + "_"):
        namespaces[""].setdefault(_name + "_", getattr(Tensor, _name + "_"))
namespaces[""]["detach_"] = guarded(Tensor.detach_)
namespaces[""]["detach"] = guarded(Tensor.detach)
