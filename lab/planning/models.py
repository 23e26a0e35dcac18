"""The models that predictions are checked with on this machine: an MLP, a CNN, a GPT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import core
from core import nn
from core.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from core.nn import functional as F

__all__ = ["BATCHES", "DIVIDED", "MICRO", "MODELS"]


class Block(nn.Module):
    """A transformer's block: causal attention and an MLP, each after a norm and added to what came."""

    def __init__(self, wide: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x: Any) -> Any:
        """Return x with what attention and the MLP add, in x's shape (batch, tokens, width)."""
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.before(x)).split(c, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    """A small language model over 64 tokens of 65 kinds."""

    def __init__(self, wide: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(65, wide), nn.Embedding(64, wide)
        self.blocks = nn.Sequential(*[Block(wide, 4) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, 65)

    def forward(self, text: Any) -> Any:
        """Return logits of shape (batch * tokens, 65) for tokens of shape (batch, tokens)."""
        x = self.words(text) + self.places(core.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x))).reshape(-1, 65)


def _mlp(n: int) -> tuple[Any, Any, Any]:
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, core.randn(n, 512), core.randint(0, 10, (n,))


def _cnn(n: int) -> tuple[Any, Any, Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 64, 256), nn.ReLU(), nn.Linear(256, 10))  # fmt: skip
    return model, core.randn(n, 3, 32, 32), core.randint(0, 10, (n,))


def _gpt(n: int) -> tuple[Any, Any, Any]:
    return GPT(), core.randint(0, 65, (n, 64)), core.randint(0, 65, (n * 64,))


MODELS: dict[str, Callable[[int], tuple[Any, Any, Any]]] = {"MLP": _mlp, "CNN": _cnn, "GPT": _gpt}
"""By name: what makes a model, its input and its targets for so many samples."""

BATCHES = {"MLP": (64, 256), "CNN": (16, 48), "GPT": (4, 16)}
"""The two batches at which each is timed alone; none of those that are predicted."""

DIVIDED = {"MLP": {"0": ColwiseParallel(), "2": RowwiseParallel()}}
"""How the layers of a model are divided over ranks."""

MICRO = 2
"""Micro-batches for each stage of a pipeline."""
