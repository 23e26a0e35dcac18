"""The rarer activations; the common ones stand in `elementwise`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import text
from ..base.shape import normalize_dim
from ..declare.expr import s
from ..declare.signature import Fast
from ..dispatch.declare import elementwise
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .constant import piecewise
from .elementwise import sigmoid
from .where import where

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _mish_slope(x: Any) -> Any:
    t = s.tanh(s.maximum(x, 0.0) + s.log1p(s.exp(-s.abs(x))))
    return t + x * (1.0 - t * t) * s.sigmoid(x)


mish = elementwise(
    "mish",
    lambda x: x * s.tanh(s.maximum(x, 0.0) + s.log1p(s.exp(-s.abs(x)))),
    namespace="nn.functional",
    vjp=lambda g, x: g * _mish_slope(x),
    domain=(0.2, 3.0),
    doc="x tanh(softplus(x)). Source: arXiv 1908.08681.",
    example=("core.tensor([-1.0, 2.0])", "tensor([-0.3034,  1.9440])"),
)
selu_ = elementwise("selu", lambda x: s.where(x > 0.0, SELU_SCALE * x, (SELU_SCALE * SELU_ALPHA) * s.expm1(x)),
                    vjp=lambda g, x: s.where(x <= 0.0, g * ((SELU_SCALE * SELU_ALPHA) * s.exp(x)), g * SELU_SCALE),
                    domain=(0.2, 3.0), doc="The scaled exponential linear unit. Source: arXiv 1706.02515.",
                    example=("core.tensor([-1.0, 2.0])", "tensor([-1.1113,  2.1014])"))  # fmt: skip
celu_ = elementwise("celu", lambda x, alpha: s.where(x > 0.0, x, alpha * s.expm1(x / alpha)), params={"alpha": 1.0},
                    vjp=lambda g, x, alpha: s.where(x <= 0.0, g * s.exp(x / alpha), g), domain=(0.2, 3.0),
                    doc="x above 0, alpha (exp(x / alpha) - 1) below. Source: arXiv 1704.07483.",
                    example=("core.tensor([-1.0, 2.0]), 2.0", "tensor([-0.7869,  2.0000])"))  # fmt: skip
hardsigmoid_ = elementwise(
    "hardsigmoid",
    lambda x: s.minimum(s.maximum(x / 6.0 + 0.5, 0.0), 1.0),
    namespace="nn.functional",
    vjp=lambda g, x: s.where((x > -3.0) & (x < 3.0), g / 6.0, 0.0),
    domain=(-2.8, 2.8),
    piecewise=True,
    doc="A sigmoid of three straight pieces.",
    example=("core.tensor([-4.0, 0.0, 1.5])", "tensor([0.0000, 0.5000, 0.7500])"),
)
hardswish_ = elementwise(
    "hardswish",
    lambda x: x * s.minimum(s.maximum(x / 6.0 + 0.5, 0.0), 1.0),
    namespace="nn.functional",
    vjp=lambda g, x: s.where(x <= -3.0, 0.0, s.where(x < 3.0, g * (x / 3.0 + 0.5), g)),
    domain=(-2.8, 2.8),
    doc="x times its hardsigmoid. Source: arXiv 1905.02244.",
    example=("core.tensor([0.0, 1.5, 4.0])", "tensor([0.0000, 1.1250, 4.0000])"),
)
softsign = elementwise(
    "softsign",
    lambda x: x / (1.0 + s.abs(x)),
    out="float",
    namespace="nn.functional",
    domain=(0.2, 3.0),
    vjp=lambda g, x: g / ((1.0 + s.abs(x)) * (1.0 + s.abs(x))),
    doc="x / (1 + |x|).",
    example=("core.tensor([-1.0, 3.0])", "tensor([-0.5000,  0.7500])"),
)
tanhshrink = elementwise(
    "tanhshrink",
    lambda x: x - s.tanh(x),
    out="float",
    namespace="nn.functional",
    vjp=lambda g, x: g * (s.tanh(x) * s.tanh(x)),
    doc="x - tanh(x).",
    example=("core.tensor([0.0, 1.0])", "tensor([0.0000, 0.2384])"),
)
softshrink_ = elementwise(
    "softshrink",
    lambda x, lambd: s.where(x > lambd, x - lambd, s.where(x < -lambd, x + lambd, s.where(s.isnan(x), x, 0.0))),
    params={"lambd": 0.5},
    public=False,
    domain=(0.7, 3.0),
    vjp=lambda g, x, lambd: s.where((x > lambd) | (x < -lambd), g, 0.0),
    piecewise=True,
    doc="x drawn towards 0 by lambd, 0 where it would pass.",
)
hardshrink = elementwise(
    "hardshrink",
    lambda x, lambd: s.where((x >= -lambd) & (x <= lambd), 0.0, x),
    params={"lambd": 0.5},
    namespace="nn.functional",
    domain=(0.7, 3.0),
    vjp=lambda g, x, lambd: s.where((x > lambd) | (x < -lambd), g, 0.0),
    piecewise=True,
    doc="x, or 0 where |x| is at most lambd.",
    example=("core.tensor([-1.0, 0.2, 2.0])", "tensor([-1.,  0.,  2.])"),
)
threshold_ = elementwise("threshold", lambda x, threshold, value: s.where(x <= threshold, value, x), domain=(0.2, 3.0),
                         params={"threshold": 0.0, "value": 0.0}, namespace="nn.functional",
                         vjp=lambda g, x, threshold: s.where(x <= threshold, 0.0, g), piecewise=True,
                         doc="x above the threshold, else the value.",
                         example=("core.tensor([-1.0, 2.0]), 0.5, 9.0", "tensor([9., 2.])"))  # fmt: skip


@public(method=False, namespace="nn.functional")
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x drawn towards 0 by `lambd`, 0 where it would pass. *Raises*: RuntimeError for a `lambd` below 0.

    >>> import core
    >>> core.nn.functional.softshrink(core.tensor([-1.0, 0.2, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    highest = float(np.finfo(np.float64 if input.dtype.name == "float64" else np.float32).max)
    if not 0 <= lambd <= highest:
        raise RuntimeError(text(f"lambda must be in range [0, {highest:g}] for input dtype {input.dtype.scalar_type}, "
                                f"but found {lambd:g}", op="softshrink"))  # fmt: skip
    return softshrink_(input, lambd, out=out)  # type: ignore[no-any-return]


@public(home="rearranged", state="quiet",
        fast=[Fast(body="sloped(input, weight)", types={"input": "real", "weight": "real"})])  # fmt: skip
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x above 0, weight x below; one weight, or one a channel (dimension 1). Source: arXiv 1502.01852.

    >>> import core
    >>> core.prelu(core.tensor([-2.0, 3.0]), core.tensor([0.5]))
    tensor([-1.,  3.])
    """
    n = weight._a.size
    if weight.ndim > 1:
        raise RuntimeError(text(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}",
                                op="prelu", remedy="weight.reshape(-1)"))  # fmt: skip
    if n != 1:
        channels = input._a.shape[1] if input.ndim > 1 else input._a.shape[0] if input.ndim else 1
        if channels != n:
            raise RuntimeError(
                text(
                    f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {n} and "
                    f"channel size = {channels}.",
                    op="prelu",
                )
            )
        if input.ndim > 1:
            weight = weight.reshape([-1 if i == 1 else 1 for i in range(input.ndim)])
    y = piecewise(where(input > 0, input, weight * input))
    return y.reshape(()) if not input.ndim else y


@public(method=False, namespace="nn.functional")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half along `dim` times the sigmoid of the second. Source: arXiv 1612.08083.

    >>> import core
    >>> core.nn.functional.glu(core.tensor([1.0, 0.0]))
    tensor([0.5000])
    """
    d = normalize_dim(dim, input.ndim, "glu")
    size = input._a.shape[d]
    if size % 2:
        raise RuntimeError(text(f"Halving dimension must be even, but dimension {d} is size {size}", op="glu"))
    a, b = input.split(size // 2, d)
    return a * sigmoid(b)
