"""`Dropout`."""

from __future__ import annotations

from ...tensors.tensor import Tensor
from .. import functional as F
from .module import Module


class Dropout(Module):
    """In training, zeros with probability `p` and the rest scaled by 1 / (1 - p); otherwise the input itself.

    *Raises*: ValueError for `p` outside 0..1. *Source*: arXiv 1207.0580.

    >>> import core
    >>> core.nn.Dropout(0.5).eval()(core.ones(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
