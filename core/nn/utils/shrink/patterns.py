"""Masks of `n` in `m`: of every `m` weights in a row `n` are kept, a pattern that some processors read faster.

The masks are those of `core.nn.utils.prune`: nothing gets smaller, and no kernel of core reads the pattern faster.
"""

from __future__ import annotations

from typing import Any

from ....base.errors import text
from ....ops.creation import zeros_like
from ....tensors.tensor import Tensor
from ..prune import BasePruningMethod


class PatternStructured(BasePruningMethod):
    """Keeps the `n` greatest of every `m` entries along `dim`, the inputs of a layer."""

    PRUNING_TYPE = "global"

    def __init__(self, n: int = 2, m: int = 4, dim: int = 1) -> None:
        if not 0 < n <= m:
            raise ValueError(text("of m entries n are kept", op="pattern_structured", came=f"n={n}, m={m}",
                                  needed="0 < n <= m"))  # fmt: skip
        self.n, self.m, self.dim = n, m, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        size = t.shape[self.dim] if -t.ndim <= self.dim < t.ndim else 0
        if not size or size % self.m:
            raise ValueError(text(f"the pattern {self.n} in {self.m} does not fit this parameter",
                                  op="pattern_structured", came=f"shape {tuple(t.shape)}, dim={self.dim}",
                                  needed=f"a multiple of {self.m} entries along it",
                                  remedy="another layer, or another dim"))  # fmt: skip
        rows = (t.abs() * default_mask).transpose(self.dim, -1)
        groups = rows.reshape(-1, self.m)
        mask = zeros_like(groups).scatter(1, groups.topk(self.n, dim=1).indices, 1.0)
        kept: Tensor = mask.reshape(rows.shape).transpose(self.dim, -1).to(default_mask.dtype) * default_mask
        return kept.contiguous()


def pattern_structured(module: Any, name: str, n: int = 2, m: int = 4, dim: int = 1,
                       importance_scores: Tensor | None = None) -> Any:  # fmt: skip
    """Cut a parameter so that of every `m` entries along `dim` the `n` greatest are left: 2 in 4 by default.

    `core.nn.utils.prune.remove` makes it a plain parameter again, with its zeros. Nothing gets faster by it here.
    Source: arXiv 2104.08378.

    >>> import core
    >>> layer = core.nn.Linear(4, 1)
    >>> layer.weight.data = core.tensor([[0.1, -3.0, 2.0, 0.2]])
    >>> core.nn.utils.shrink.pattern_structured(layer, "weight").weight.tolist()
    [[0.0, -3.0, 2.0, 0.0]]
    """
    PatternStructured.apply(module, name, n, m, dim, importance_scores=importance_scores)
    return module
