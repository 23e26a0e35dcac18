"""Vision Transformer: patches of a picture as a sequence, and a first place for the class. Source: arXiv 2010.11929.

The keys are torchvision's, and those of the files it published earlier are read too.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial
from typing import Any

from ... import nn
from ...base.errors import text
from ...ops.creation import empty, zeros
from ...ops.joining import cat
from ...tensors.tensor import Tensor
from .blocks import Layer
from .weights import built

_norm = partial(nn.LayerNorm, eps=1e-6)


class MLPBlock(nn.Sequential):
    """Two linear layers, the keys ``0`` and ``3``, with GELU between them and dropout after each.

    Files with the older keys ``linear_1`` and ``linear_2`` are read.

    >>> list(MLPBlock(2, 8, 0.0).state_dict())
    ['0.weight', '0.bias', '3.weight', '3.bias']
    """

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        first, second = nn.Linear(in_dim, mlp_dim), nn.Linear(mlp_dim, in_dim)
        super().__init__(first, nn.GELU(), nn.Dropout(dropout), second, nn.Dropout(dropout))
        for layer in (first, second):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.normal_(layer.bias, std=1e-6)
        self.register_load_state_dict_pre_hook(_renamed)


def _renamed(module: MLPBlock, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for old, new in (("linear_1", "0"), ("linear_2", "3")):
        for kind in ("weight", "bias"):
            if f"{prefix}{old}.{kind}" in state:
                state[f"{prefix}{new}.{kind}"] = state.pop(f"{prefix}{old}.{kind}")


class EncoderBlock(nn.Module):
    """Attention and then an `MLPBlock`, each of the normed input and added to it.

    Shapes: (N, length, hidden_dim), kept.

    >>> import core
    >>> EncoderBlock(2, 8, 16)(core.ones(1, 5, 8)).shape
    core.Size([1, 5, 8])
    """

    def __init__(self, num_heads: int, hidden_dim: int, mlp_dim: int, dropout: float = 0.0,
                 attention_dropout: float = 0.0, norm_layer: Layer = _norm) -> None:  # fmt: skip
        super().__init__()
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        """Return the block of the input."""
        x = self.ln_1(input)
        x = input + self.dropout(self.self_attention(x, x, x, need_weights=False)[0])
        y: Tensor = x + self.mlp(self.ln_2(x))
        return y


class Encoder(nn.Module):
    """Positions added, the blocks, and a last norm.

    Shapes: (N, seq_length, hidden_dim), kept.

    >>> import core
    >>> Encoder(5, 1, 2, 8, 16)(core.ones(1, 5, 8)).shape
    core.Size([1, 5, 8])
    """

    def __init__(self, seq_length: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int,
                 dropout: float = 0.0, attention_dropout: float = 0.0,
                 norm_layer: Layer = _norm) -> None:  # fmt: skip
        super().__init__()
        self.pos_embedding = nn.Parameter(nn.init.normal_(empty(1, seq_length, hidden_dim), std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(OrderedDict(
            (f"encoder_layer_{i}",
             EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer))
            for i in range(num_layers)
        ))  # fmt: skip
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        """Return the encoded sequence."""
        encoded: Tensor = self.ln(self.layers(self.dropout(input + self.pos_embedding)))
        return encoded


class VisionTransformer(nn.Module):
    """A Vision Transformer for pictures of `image_size`, in patches of `patch_size`.

    representation_size : the width of a layer with tanh before the last, or None for none

    Shapes: (N, 3, image_size, image_size) -> (N, num_classes).

    *Raises*: AssertionError, as torchvision's, for sizes that are no whole number of patches, and for pictures of
    another size.

    >>> import core
    >>> model = VisionTransformer(32, 16, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=16, num_classes=10)
    >>> model(core.ones(2, 3, 32, 32)).shape
    core.Size([2, 10])
    """

    def __init__(self, image_size: int, patch_size: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int,
                 dropout: float = 0.0, attention_dropout: float = 0.0, num_classes: int = 1000,
                 representation_size: int | None = None,
                 norm_layer: Layer = _norm) -> None:  # fmt: skip
        super().__init__()
        if image_size % patch_size:
            raise AssertionError(
                text("Input shape indivisible by patch size!", op="VisionTransformer",
                     came=f"image_size={image_size}, patch_size={patch_size}")
            )  # fmt: skip
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.num_classes, self.representation_size = num_classes, representation_size
        self.conv_proj = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout,
                               norm_layer)  # fmt: skip
        head: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is not None:
            head["pre_logits"], head["act"] = nn.Linear(hidden_dim, representation_size), nn.Tanh()
        head["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads = nn.Sequential(head)
        self._start()

    def _start(self) -> None:
        made = [self.conv_proj, *([self.heads.pre_logits] if self.representation_size else [])]
        for layer in made:
            nn.init.trunc_normal_(layer.weight, std=math.sqrt(1 / layer.weight[0].numel()))
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        if tuple(x.shape[-2:]) != (self.image_size, self.image_size):
            side = "height" if x.shape[-2] != self.image_size else "width"
            came = x.shape[-2] if side == "height" else x.shape[-1]
            raise AssertionError(
                text(f"Wrong image {side}! Expected {self.image_size} but got {came}!", op="VisionTransformer",
                     remedy=f"transforms.Resize(({self.image_size}, {self.image_size})), or image_size={came}")
            )  # fmt: skip
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        tokens = cat([self.class_token.expand(len(patches), -1, -1), patches], dim=1)
        logits: Tensor = self.heads(self.encoder(tokens)[:, 0])
        return logits


def _vit(op: str, weights: Any, settings: dict[str, Any], **sizes: Any) -> VisionTransformer:
    settings.setdefault("image_size", 224)
    return built(op, lambda **more: VisionTransformer(**sizes, **more), "heads.head", weights, settings)


def vit_b_16(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> VisionTransformer:
    """Return ViT-B/16: 86.6 million parameters, patches of 16×16.

    weights : the path of a file with torchvision's keys. progress : as in torchvision's signature, without effect.
    kwargs : as `VisionTransformer` takes them, `image_size` 224 where it is left out; without `num_classes` the file
        says how many there are, or there are 1000.

    >>> vit_b_16(image_size=32, num_classes=10).seq_length
    5
    """
    return _vit("vit_b_16", weights, kwargs, patch_size=16, num_layers=12, num_heads=12, hidden_dim=768, mlp_dim=3072)


def vit_b_32(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> VisionTransformer:
    """Return ViT-B/32: 88.2 million parameters, patches of 32×32; arguments as `vit_b_16`'s.

    >>> vit_b_32(image_size=64, num_classes=10).seq_length
    5
    """
    return _vit("vit_b_32", weights, kwargs, patch_size=32, num_layers=12, num_heads=12, hidden_dim=768, mlp_dim=3072)
