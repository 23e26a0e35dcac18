"""`FractionalMaxPool2d` and `FractionalMaxPool3d`, and the older `CrossMapLRN2d`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensors.tensor import Tensor, from_array
from .. import functional as F
from .module import Module


class _FractionalMaxPool(Module):
    function: str
    n: int

    def __init__(self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                 return_indices: bool = False, _random_samples: Tensor | None = None) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__

        def many(v: Any) -> Any:
            return None if v is None else tuple(v) if isinstance(v, tuple | list) else (v,) * self.n

        self.kernel_size, self.return_indices = many(kernel_size), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size, self.output_ratio = many(output_size), many(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.function)(input, self.kernel_size, self.output_size, self.output_ratio,
                                         self.return_indices, _random_samples=self._random_samples)  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling by windows whose steps vary at random, to `output_size` or a share `output_ratio` of the input.

    *Raises*: ValueError for both or none of them. Source: Graham, arXiv:1412.6071.

    >>> import core
    >>> core.nn.FractionalMaxPool2d(2, output_ratio=0.5)(core.ones(1, 1, 8, 6)).shape
    core.Size([1, 1, 4, 3])
    """

    function, n = "fractional_max_pool2d", 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling by windows whose steps vary at random, in three dimensions.

    >>> import core
    >>> core.nn.FractionalMaxPool3d(2, output_size=3)(core.ones(1, 1, 8, 8, 8)).shape
    core.Size([1, 1, 3, 3, 3])
    """

    function, n = "fractional_max_pool3d", 3


class CrossMapLRN2d(Module):
    """Each channel divided by ``(k + alpha / size * sum of squares around it) ** beta``. Source: Krizhevsky, 2012.

    The window of channel c reaches from c - r to c + r, r = (size - 1) // 2, and as in PyTorch always takes in channel
    0: its running sum never lets the first square go. `LocalResponseNorm` has the plain window. The gradient is that
    of what is computed; PyTorch's is that of the plain window.

    *Shapes*: ``(N, C, H, W)``. *Raises*: ValueError for others.

    >>> import core
    >>> core.nn.CrossMapLRN2d(3)(core.ones(1, 4, 2, 2)).shape
    core.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        n, reach = input.shape[1], (self.size - 1) // 2
        c = np.arange(n)
        window = abs(c[:, None] - c) <= reach
        window[:, :1] = True
        sums = from_array(window.astype(input._a.dtype)).to(input.device) @ (input * input).flatten(2)  # type: ignore[attr-defined, operator]
        scale = sums.reshape(input.shape) * (self.alpha / self.size) + self.k
        return input * scale**-self.beta  # type: ignore[operator, no-any-return]

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
