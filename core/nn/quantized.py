"""Sums and products as modules, under ``nn.quantized`` and ``ao.quantization``: what models put where numbers may be
rounded later. An observer may watch the results; converted, they are floating numbers as before."""

from __future__ import annotations

from typing import Any

from ..base.lazy_import import lazy_attributes
from ..declare import op as declarations
from .modules.linear import Identity
from .modules.module import Module

__all__ = ["DeQuantStub", "FloatFunctional", "QFunctional", "QuantStub"]


class FloatFunctional(Module):
    """Sums and products of tensors, each a method.

    >>> import core
    >>> core.nn.quantized.FloatFunctional().add_relu(core.tensor([-2.0, 1.0]), core.tensor([1.0, 1.0]))
    tensor([0., 2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Any = Identity()

    def forward(self, x: Any) -> Any:
        """Refuse to be called. *Raises*: RuntimeError: its methods are."""
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x: Any, y: Any) -> Any:
        """Return the sum."""
        return self.activation_post_process(x + y)

    add_scalar = add

    def mul(self, x: Any, y: Any) -> Any:
        """Return the product."""
        return self.activation_post_process(x * y)

    mul_scalar = mul

    def cat(self, x: Any, dim: int = 0) -> Any:
        """Return tensors one after the other."""
        return self.activation_post_process(declarations.functions["cat"](x, dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """Return the sum, and 0 where it is below."""
        return self.activation_post_process((x + y).relu())

    def matmul(self, x: Any, y: Any) -> Any:
        """Return the product of matrices."""
        return self.activation_post_process(x @ y)


class QuantStub(Module):
    """Where a model's numbers would be rounded: they pass."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """Return the input."""
        return x


class DeQuantStub(QuantStub):
    """Where rounded numbers would become real ones: they pass."""


QFunctional = FloatFunctional  # between converted layers the numbers are floating ones

# the layers of PyTorch's path
__getattr__ = lazy_attributes(
    __name__, dict.fromkeys(["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
                             "DeQuantize", "Embedding", "EmbeddingBag", "Linear", "Quantize", "dynamic"],
                            "..ao.nn.quantized"))[0]  # fmt: skip
