"""Linear maps: `Linear`, `Bilinear`, `Identity`, and the reshapes that stand between layers."""

from __future__ import annotations

import math
from typing import Any

from ...ops.creation import empty
from ...tensors.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import MaybeParameter, Parameter
from .module import Module


class Identity(Module):
    """Gives its input back, whatever it was made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """The affine map ``y = x @ weight.T + bias``; weights start uniform in ±1/sqrt(in_features).

    *Shapes*: ``(..., in_features) -> (..., out_features)``; weight is ``(out_features, in_features)``.

    >>> import core
    >>> layer = core.nn.Linear(3, 2)
    >>> layer(core.ones(5, 3)).shape, layer
    (core.Size([5, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    bias: MaybeParameter

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew. Source: arXiv 1502.01852 with a = sqrt(5), as PyTorch has it."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under the name that `MultiheadAttention` shows for its last map."""


class Bilinear(Module):
    """The bilinear map ``y[o] = x1 @ weight[o] @ x2 + bias[o]``.

    *Shapes*: ``(..., in1_features), (..., in2_features) -> (..., out_features)``.

    >>> import core
    >>> core.nn.Bilinear(3, 4, 2)(core.ones(5, 3), core.ones(5, 4)).shape
    core.Size([5, 2])
    """

    bias: MaybeParameter

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, uniform in ±1/sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        # x1 @ weight for every output at once, then the product with x2, summed over its last dimension
        flat = self.weight.permute(1, 0, 2).reshape(self.in1_features, -1)  # type: ignore[attr-defined]
        left = (input1 @ flat).reshape(*input1.shape[:-1], self.out_features, self.in2_features)  # type: ignore[operator]
        y = (left * input2.reshape(*input2.shape[:-1], 1, self.in2_features)).sum(-1)  # type: ignore[attr-defined]
        return y if self.bias is None else y + self.bias  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")  # fmt: skip


class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` as one.

    >>> import core
    >>> core.nn.Flatten()(core.ones(2, 3, 4)).shape
    core.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)  # type: ignore[attr-defined, no-any-return]

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension `dim` as several, of sizes `unflattened_size`.

    >>> import core
    >>> core.nn.Unflatten(1, (3, 4))(core.ones(2, 12)).shape
    core.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for i, n in enumerate(unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(n).__name__} at pos {i}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)  # type: ignore[attr-defined, no-any-return]

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
