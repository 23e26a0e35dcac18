"""Activation functions as modules. With ``inplace=True``, where there is one, the input itself is overwritten."""

from __future__ import annotations

from typing import Any

from ...base.lazy_import import lazy_attributes
from ...tensors.tensor import Tensor
from .. import functional as F
from .module import Module


class _Activation(Module):
    """An activation: `settings` are the attributes that its repr shows and its function takes, in order."""

    settings: tuple[str, ...] = ()
    function = ""
    inplace = False

    def forward(self, input: Tensor) -> Tensor:
        values = [getattr(self, name) for name in self.settings]
        if self.inplace:
            return getattr(input, self.function + "_")(*values)  # type: ignore[no-any-return]
        return getattr(F, self.function)(input, *values)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return ", ".join([*(f"{n}={getattr(self, n)!r}" for n in self.settings), *(["inplace=True"] * self.inplace)])


class ReLU(_Activation):
    """max(x, 0).

    >>> import core
    >>> core.nn.ReLU()(core.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    function = "relu"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class LeakyReLU(_Activation):
    """x where positive, else `negative_slope` x.

    >>> import core
    >>> core.nn.LeakyReLU(0.1)(core.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    function, settings = "leaky_relu", ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace


class ELU(_Activation):
    """x where positive, else `alpha` (exp(x) - 1). Source: arXiv 1511.07289.

    >>> import core
    >>> core.nn.ELU()(core.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """

    function, settings = "elu", ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace


class GELU(_Activation):
    """x Φ(x), or its tanh form with ``approximate="tanh"``. Source: arXiv 1606.08415.

    >>> import core
    >>> core.nn.GELU()(core.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """

    function, settings = "gelu", ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate


class SiLU(_Activation):
    """x sigmoid(x).

    >>> import core
    >>> core.nn.SiLU()(core.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """

    function = "silu"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)).

    >>> import core
    >>> core.nn.Sigmoid()(core.tensor(0.0))
    tensor(0.5000)
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()  # type: ignore[attr-defined, no-any-return]


class Tanh(_Activation):
    """The hyperbolic tangent.

    >>> import core
    >>> core.nn.Tanh()(core.tensor(0.0))
    tensor(0.)
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()  # type: ignore[attr-defined, no-any-return]


class Softplus(_Activation):
    """log(1 + exp(`beta` x)) / `beta`; x itself where `beta` x is above `threshold`.

    >>> import core
    >>> core.nn.Softplus()(core.tensor(0.0))
    tensor(0.6931)
    """

    function, settings = "softplus", ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold


class LogSigmoid(_Activation):
    """log(sigmoid(x)).

    >>> import core
    >>> core.nn.LogSigmoid()(core.tensor(0.0))
    tensor(-0.6931)
    """

    function = "logsigmoid"


class Hardtanh(_Activation):
    """x kept between `min_val` and `max_val`.

    >>> import core
    >>> core.nn.Hardtanh()(core.tensor([-3.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    function, settings = "hardtanh", ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
                 min_value: float | None = None, max_value: float | None = None) -> None:  # fmt: skip
        """Keep the bounds; `min_value` and `max_value` are their older names."""
        super().__init__()
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6).

    >>> import core
    >>> core.nn.ReLU6()(core.tensor([-1.0, 7.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _AlongDim(_Activation):
    """A softmax or its logarithm, along `dim`."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        found: Any = getattr(F, self.function)(input, self.dim)
        return found  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along `dim`.

    >>> import core
    >>> core.nn.Softmax(dim=0)(core.zeros(2))
    tensor([0.5000, 0.5000])
    """

    function = "softmax"


class LogSoftmax(_AlongDim):
    """log(softmax(x)) along `dim`.

    >>> import core
    >>> core.nn.LogSoftmax(dim=0)(core.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    function = "log_softmax"


__getattr__, __dir__ = lazy_attributes(__name__, {"MultiheadAttention": ".multihead"})  # they stand there in PyTorch
