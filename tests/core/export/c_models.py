"""Models that are written as C: each with arguments to export it with, what may vary, and others to run it on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import core
from core import nn
from core.nn import functional as F


class Case(NamedTuple):
    """A model, what it is exported with, and other arguments."""

    make: Callable[[], Any]
    args: Callable[[], tuple[Any, ...]]
    dynamic: dict[str, Any]
    other: Callable[[], tuple[Any, ...]]


def mlp() -> Any:
    return nn.Sequential(nn.Linear(20, 70), nn.ReLU(), nn.Linear(70, 64), nn.Tanh(), nn.Linear(64, 10))


class ResNetBlock(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.short = nn.Conv2d(inside, outside, 1, stride=stride) if stride > 1 else nn.Identity()

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 5, padding=2)
        self.blocks = nn.Sequential(ResNetBlock(8, 8, 1), ResNetBlock(8, 12, 2), ResNetBlock(12, 16, 2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = self.blocks(F.max_pool2d(self.stem(x), 3, stride=2, padding=1))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def cnn() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, padding=1, groups=4), nn.SiLU(),
        nn.AvgPool2d(2), nn.Conv2d(12, 12, 3, padding=2, dilation=2), nn.LeakyReLU(0.1), nn.Flatten(),
        nn.Linear(432, 10),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        a = F.relu(self.down1(x))
        b = F.silu(self.norm(self.down2(a)))
        up = self.up(b)
        wide = F.interpolate(b, scale_factor=2, mode="bilinear")
        return self.out(core.cat([a, up], 1)), wide, F.interpolate(b, scale_factor=2)


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.RMSNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 50, width: int = 32, heads: int = 4, layers: int = 2, most: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(most, width)
        self.blocks = nn.Sequential(*(GPTBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.places(core.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.cell = kind(6, 20, num_layers=2, batch_first=True, bidirectional=kind is nn.LSTM)
        self.head = nn.Linear(40 if kind is nn.LSTM else 20, 3)

    def forward(self, x: Any) -> Any:
        y, state = self.cell(x)
        return self.head(y[:, -1]), state


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, stride=4)
        self.first = nn.Parameter(core.randn(1, 1, 24))
        self.places = nn.Parameter(core.randn(1, 17, 24))
        self.encoder = nn.TransformerEncoderLayer(24, 3, 48, batch_first=True, activation="gelu")
        self.head = nn.Linear(24, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = core.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return F.log_softmax(self.head(self.encoder(x)[:, 0]), -1)


def vae_decoder() -> Any:
    return nn.Sequential(
        nn.Linear(8, 64), nn.ELU(), nn.Unflatten(1, (4, 4, 4)), nn.ConvTranspose2d(4, 8, 4, stride=2, padding=1),
        nn.Softplus(), nn.ConvTranspose2d(8, 1, 3, stride=2, padding=1, output_padding=1), nn.Sigmoid(),
    )  # fmt: skip


def generator() -> Any:
    return nn.Sequential(
        nn.ConvTranspose2d(10, 16, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1),
        nn.Tanh(), nn.Upsample(scale_factor=2),
    )  # fmt: skip


class GNN(nn.Module):
    """Messages along edges, added up where they arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.send, self.own = nn.Linear(5, 12), nn.Linear(5, 12)

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        messages = F.relu(self.send(x))[source]
        total = core.zeros(x.shape[0], 12).index_add(0, target, messages)
        degree = core.zeros(x.shape[0]).scatter_add(0, target, core.ones(target.shape[0]))
        h = self.own(x) + total / degree.clamp(min=1)[:, None]
        return h, h.max(0).values, h @ h.t()


def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2)


def losses(x: Any, target: Any) -> Any:
    weight = core.arange(8) * 0.25
    log_p = F.log_softmax(x, -1)
    return (F.cross_entropy(x, target, weight=weight, label_smoothing=0.1), F.nll_loss(log_p, target),
            F.mse_loss(x, log_p), F.smooth_l1_loss(x, log_p), F.kl_div(log_p, log_p.exp() * 0.5, reduction="batchmean"),
            F.binary_cross_entropy_with_logits(x, core.sigmoid(x)), x.var(1), x.std((0, 1)), x.norm(dim=1),
            x.logsumexp(1), x.amax((0, 1)), x.amin(0), (x * x + 0.1).prod(1), (x > 0).sum(), x.cumsum(0))  # fmt: skip


def beam_step(logits: Any, scores: Any) -> Any:
    """One step of a beam search: the best of all continuations, which beam they go on from, and which token."""
    every = (F.log_softmax(logits, -1) + scores[:, :, None]).flatten(1)
    best, at = every.topk(3)
    beam, token = at // logits.shape[2], at % logits.shape[2]
    kept = core.gather(logits, 1, beam[:, :, None].expand(-1, -1, logits.shape[2]))
    return best, beam, token, kept.argmax(-1), every.sort(descending=True).indices, F.one_hot(token, 11)


def views(x: Any) -> Any:
    y = x.clone()
    y[:, 0] = 1.5
    y[:, 1:3] += x[:, 3:5]
    a, b = y.transpose(1, 2).chunk(2, 1)
    square = core.einsum("btc,bsc->bts", x, y)
    return (a, b, y.flip(1), y.permute(2, 0, 1).reshape(-1), square.diagonal(dim1=1, dim2=2), core.tril(square),
            core.stack([x, y], 2).squeeze(2), y[:, -1].unsqueeze(1).expand(-1, 3, -1), F.pad(y, (1, 2), value=-1.0),
            y.roll(1, 1), y.repeat(1, 2, 1),
            core.where(core.arange(x.shape[1])[:, None] > 1, x, y).unbind(2))  # fmt: skip


class Decoder(nn.Module):
    """A step of decoding with a cache of keys and values that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(24, 72)

    def forward(self, x: Any, keys: Any, values: Any) -> Any:
        q, k, v = self.qkv(x).view(x.shape[0], 1, 3, 3, 8).permute(2, 0, 3, 1, 4)
        keys, values = core.cat([keys, k], 2), core.cat([values, v], 2)
        return F.scaled_dot_product_attention(q, keys, values).flatten(1), keys, values


class Cells(nn.Module):
    """Cells stepped by hand, each with a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(5, 7), nn.GRUCell(7, 7), nn.RNNCell(7, 4, nonlinearity="relu")

    def forward(self, x: Any, h: Any) -> Any:
        c, last = h * 0.5, None
        for _ in range(3):
            h, c = self.lstm(x, (h, c))
            h = self.gru(h, c)
            last = self.rnn(h, last)
        return h, c, last


def windows(x: Any) -> Any:
    """Images as columns and back, with borders, dilation and strides."""
    how = {"dilation": (2, 1), "padding": (1, 2), "stride": (2, 1)}
    columns = F.unfold(x, (3, 2), **how)
    rest = (4 - x.shape[-1] % 4) % 4  # a border that depends on a size
    return columns, F.fold(columns * 2, x.shape[2:], (3, 2), **how), F.unfold(x, 3), F.pad(x, (0, rest, 1, -1))


def diagonals(x: Any, y: Any) -> Any:
    """Diagonals taken and put, and cross products."""
    n = x.shape[0]
    return (core.diag(x[:, 0]), core.diag(x[:, 1], 2), core.diag(x[:, 2], -1), core.diag_embed(x, 1, 0, 2),
            core.diag(core.diag(x[:, 0]), 1), core.cross(x, y, dim=1), core.eye(n) @ core.diag(y[:, 0]))  # fmt: skip


def _int(high: int, *shape: int) -> Any:
    return core.randint(0, high, shape)


CASES = {
    "mlp": Case(mlp, lambda: (core.randn(3, 20),), {"input": {0: "batch"}}, lambda: (core.randn(13, 20),)),
    "cnn": Case(cnn, lambda: (core.randn(2, 1, 28, 28),), {"input": {0: "batch"}}, lambda: (core.randn(3, 1, 28, 28),)),
    "resnet": Case(ResNet, lambda: (core.randn(2, 3, 21, 21),), {"x": {0: "batch"}},
                   lambda: (core.randn(3, 3, 21, 21),)),
    "unet": Case(UNet, lambda: (core.randn(2, 3, 12, 20),), {"x": {0: "batch"}}, lambda: (core.randn(3, 3, 12, 20),)),
    "gpt": Case(GPT, lambda: (_int(50, 2, 7),), {"tokens": {0: "batch", 1: "time"}}, lambda: (_int(50, 3, 37),)),
    "lstm": Case(lambda: Recurrent(nn.LSTM), lambda: (core.randn(2, 5, 6),), {"x": {0: "batch", 1: "time"}},
                 lambda: (core.randn(5, 11, 6),)),
    "gru": Case(lambda: Recurrent(nn.GRU), lambda: (core.randn(2, 5, 6),), {"x": {0: "batch", 1: "time"}},
                lambda: (core.randn(1, 11, 6),)),
    "rnn": Case(lambda: Recurrent(nn.RNN), lambda: (core.randn(2, 5, 6),), {"x": {0: "batch", 1: "time"}},
                lambda: (core.randn(7, 3, 6),)),
    "vit": Case(ViT, lambda: (core.randn(2, 3, 16, 16),), {"x": {0: "batch"}}, lambda: (core.randn(5, 3, 16, 16),)),
    "vae": Case(vae_decoder, lambda: (core.randn(2, 8),), {"input": {0: "batch"}}, lambda: (core.randn(7, 8),)),
    "gan": Case(generator, lambda: (core.randn(2, 10, 1, 1),), {"input": {0: "batch"}},
                lambda: (core.randn(3, 10, 1, 1),)),
    "gnn": Case(GNN, lambda: (core.randn(5, 5), _int(5, 9), _int(5, 9)),
                {"x": {0: "nodes"}, "source": {0: "edges"}, "target": {0: "edges"}},
                lambda: (core.randn(8, 5), _int(8, 30), _int(8, 30))),
    "encoder": Case(encoder, lambda: (core.randn(2, 6, 16),), {"src": {0: "batch", 1: "time"}},
                    lambda: (core.randn(3, 33, 16),)),
    "losses": Case(lambda: losses, lambda: (core.randn(3, 8), _int(8, 3)), {"x": {0: "n"}, "target": {0: "n"}},
                   lambda: (core.randn(29, 8), _int(8, 29))),
    "beam": Case(lambda: beam_step, lambda: (core.randn(2, 3, 11), core.randn(2, 3)),
                 {"logits": {0: "batch"}, "scores": {0: "batch"}}, lambda: (core.randn(5, 3, 11), core.randn(5, 3))),
    "views": Case(lambda: views, lambda: (core.randn(2, 5, 6),), {"x": {0: "batch", 1: "time"}},
                  lambda: (core.randn(3, 9, 6),)),
    "decoder": Case(Decoder, lambda: (core.randn(2, 1, 24), core.randn(2, 3, 4, 8), core.randn(2, 3, 4, 8)),
                    {"x": {0: "batch"}, "keys": {0: "batch", 2: "past"}, "values": {0: "batch", 2: "past"}},
                    lambda: (core.randn(1, 1, 24), core.randn(1, 3, 20, 8), core.randn(1, 3, 20, 8))),
    "cells": Case(Cells, lambda: (core.randn(3, 5), core.randn(3, 7)), {"x": {0: "batch"}, "h": {0: "batch"}},
                  lambda: (core.randn(8, 5), core.randn(8, 7))),
    "windows": Case(lambda: windows, lambda: (core.randn(2, 3, 9, 8),), {"x": {0: "batch", 3: "width"}},
                    lambda: (core.randn(4, 3, 9, 11),)),
    "diagonals": Case(lambda: diagonals, lambda: (core.randn(4, 3), core.randn(4, 3)), {"x": {0: "n"}, "y": {0: "n"}},
                      lambda: (core.randn(7, 3), core.randn(7, 3))),
}  # fmt: skip
