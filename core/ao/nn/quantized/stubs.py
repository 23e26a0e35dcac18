"""What `QuantStub` and `DeQuantStub` become: numbers rounded to the steps that an observer chose, and numbers
passed."""

from __future__ import annotations

from typing import Any

from ....base import dtypes
from ....nn.modules.module import Module
from ....ops.creation import tensor
from ....rarer_names import fake_quantize_per_tensor_affine
from ....tensors.tensor import Tensor


class Quantize(Module):
    """Gives each number as the whole one stands for that it is rounded to: floating numbers, on the steps of `scale`.

    >>> import core
    >>> core.ao.nn.quantized.Quantize(core.tensor([0.5]), core.tensor([0]), core.quint8)(core.tensor([0.7, -1.0]))
    tensor([0.5000, 0.0000])
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: Any, zero_point: Any, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype
        self.register_buffer("scale", tensor([float(scale)]))
        self.register_buffer("zero_point", tensor([int(zero_point)], dtype=dtypes.int64))

    def forward(self, X: Any) -> Any:
        low, high = (0, 255) if self.dtype is dtypes.quint8 else (-128, 127)
        return fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, low, high)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Gives its input: between layers the numbers are floating ones already."""

    def forward(self, Xq: Any) -> Any:
        return Xq
