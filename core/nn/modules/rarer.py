"""The rarer activations, dropouts and distances as modules."""

from __future__ import annotations

from typing import Any

from ...ops.creation import empty
from ...tensors.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .activation import _Activation
from .dropout import Dropout
from .module import Module


class _Plain(_Activation):
    """An activation without settings."""


class _InPlace(_Activation):
    """An activation that can write its input."""

    shows_inplace = True

    def forward(self, input: Tensor) -> Tensor:
        values = [getattr(self, name) for name in self.settings]
        y: Tensor = getattr(F, self.function)(input, *values, inplace=self.inplace)
        return y

    def extra_repr(self) -> str:
        return super().extra_repr() if self.shows_inplace else ""


class SELU(_InPlace):
    """The scaled exponential linear unit. Source: arXiv 1706.02515.

    >>> import core
    >>> core.nn.SELU()(core.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    function = "selu"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class CELU(_InPlace):
    """x above 0, `alpha` (exp(x / alpha) - 1) below. Source: arXiv 1704.07483.

    >>> import core
    >>> core.nn.CELU()(core.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    function, settings = "celu", ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace


class Hardsigmoid(_InPlace):
    """A sigmoid of three straight pieces.

    >>> import core
    >>> core.nn.Hardsigmoid()(core.tensor([-4.0, 0.0]))
    tensor([0.0000, 0.5000])
    """

    function, shows_inplace = "hardsigmoid", False

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class Hardswish(Hardsigmoid):
    """x times its hardsigmoid. Source: arXiv 1905.02244.

    >>> import core
    >>> core.nn.Hardswish()(core.tensor([0.0, 4.0]))
    tensor([0., 4.])
    """

    function = "hardswish"


class Mish(_InPlace):
    """x tanh(softplus(x)). Source: arXiv 1908.08681.

    >>> import core
    >>> core.nn.Mish()(core.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    function = "mish"

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class Threshold(_InPlace):
    """x above `threshold`, else `value`.

    >>> import core
    >>> core.nn.Threshold(0.5, 9.0)(core.tensor([-1.0, 2.0]))
    tensor([9., 2.])
    """

    function, settings = "threshold", ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace


class RReLU(_Activation):
    """x above 0, below it x times a number drawn from `lower` to `upper` (their mean in evaluation).

    >>> import core
    >>> core.nn.RReLU(0.1, 0.3).eval()(core.tensor([-1.0, 2.0]))
    tensor([-0.2000,  2.0000])
    """

    settings = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(Module):
    """x above 0, `weight` x below: one learnt weight, or one for each channel. Source: arXiv 1502.01852.

    >>> import core
    >>> core.nn.PReLU()(core.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every weight what it was made with."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softsign(_Plain):
    """x / (1 + |x|).

    >>> import core
    >>> core.nn.Softsign()(core.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    function = "softsign"


class Tanhshrink(_Plain):
    """x - tanh(x).

    >>> import core
    >>> core.nn.Tanhshrink()(core.tensor(0.0))
    tensor(0.)
    """

    function = "tanhshrink"


class Softshrink(_Activation):
    """x drawn towards 0 by `lambd`, 0 where it would pass.

    >>> import core
    >>> core.nn.Softshrink()(core.tensor([0.2, 2.0]))
    tensor([0.0000, 1.5000])
    """

    function, settings = "softshrink", ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Softshrink):
    """x, or 0 where |x| is at most `lambd`.

    >>> import core
    >>> core.nn.Hardshrink()(core.tensor([0.2, 2.0]))
    tensor([0., 2.])
    """

    function = "hardshrink"


class GLU(_Activation):
    """The first half along `dim` times the sigmoid of the second. Source: arXiv 1612.08083.

    >>> import core
    >>> core.nn.GLU()(core.tensor([1.0, 0.0]))
    tensor([0.5000])
    """

    function, settings = "glu", ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class Softmin(_Activation):
    """The softmax of -x along `dim`.

    >>> import core
    >>> core.nn.Softmin(dim=0)(core.zeros(2))
    tensor([0.5000, 0.5000])
    """

    function, settings = "softmin", ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax2d(Module):
    """The softmax over the channels at every pixel.

    *Shapes*: ``(N, C, H, W)`` or ``(C, H, W)``. *Raises*: ValueError for others.

    >>> import core
    >>> core.nn.Softmax2d()(core.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class Dropout1d(Dropout):
    """In training, whole channels of ``(N, C, L)`` are 0. Source: arXiv 1411.4280.

    >>> import core
    >>> core.nn.Dropout1d().eval()(core.ones(1, 1, 2))
    tensor([[[1., 1.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """In training, whole channels of ``(N, C, H, W)`` are 0. Source: arXiv 1411.4280.

    >>> import core
    >>> core.nn.Dropout2d().eval()(core.ones(1, 1, 1, 2))
    tensor([[[[1., 1.]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """In training, whole channels of ``(N, C, D, H, W)`` are 0. Source: arXiv 1411.4280.

    >>> import core
    >>> core.nn.Dropout3d().eval()(core.ones(1, 1, 1, 1, 2))
    tensor([[[[[1., 1.]]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(Dropout):
    """Dropout for selu, which keeps mean and variance. Source: arXiv 1706.02515.

    >>> import core
    >>> core.nn.AlphaDropout().eval()(core.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(Dropout):
    """`AlphaDropout` of whole channels.

    >>> import core
    >>> core.nn.FeatureAlphaDropout().eval()(core.ones(1, 2))
    tensor([[1., 1.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)


class CosineSimilarity(Module):
    """The cosine between two tensors along `dim`.

    >>> import core
    >>> core.nn.CosineSimilarity()(core.tensor([[1.0, 0.0]]), core.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """‖x1 - x2 + eps‖ over the last dimension.

    >>> import core
    >>> core.nn.PairwiseDistance()(core.tensor([[3.0, 0.0]]), core.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class LocalResponseNorm(Module):
    """Each channel divided by a power of the mean square of `size` channels around it.

    >>> import core
    >>> core.nn.LocalResponseNorm(2)(core.ones(1, 4, 3)).shape
    core.Size([1, 4, 3])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
