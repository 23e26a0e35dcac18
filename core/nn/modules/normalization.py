"""`LayerNorm` and `RMSNorm`."""

from __future__ import annotations

from typing import Any

from ...ops.creation import empty
from ...tensors.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import MaybeParameter, Parameter
from .module import Module


def _as_tuple(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last dimensions, then a scale and a shift. Source: arXiv 1607.06450.

    >>> import core
    >>> core.nn.LayerNorm(3)(core.tensor([[1.0, 2.0, 3.0]]))
    tensor([[-1.2247,  0.0000,  1.2247]], grad_fn=<LayerNormBackward0>)
    """

    bias: MaybeParameter
    weight: MaybeParameter

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
                 device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            made = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")  # fmt: skip


class RMSNorm(Module):
    """Root mean square 1 over the last dimensions, then a scale. Source: arXiv 1910.07467.

    >>> import core
    >>> core.nn.RMSNorm(2)(core.tensor([[3.0, 4.0]])).shape
    core.Size([1, 2])
    """

    weight: MaybeParameter

    def __init__(self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True,
                 device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        made = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
