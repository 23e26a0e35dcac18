"""Thirty models and functions of many kinds, each with its arguments at a size and the axes that vary.

`CASES[name]()` gives (function or module, arguments at a size, dynamic). What a program of each gives is compared with
the function at a size that was not exported and on other data: tests/core/export/test_thirty.py, and as a table
`python -m tests.core.export.thirty`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import core as torch
from core.export import script

nn, F = torch.nn, torch.nn.functional
Case = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], dict[str, Any]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Register a case under its function's name; its weights are the same each time."""

    def seeded() -> Case:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            function, args, dynamic = make()
        return (function.eval() if isinstance(function, nn.Module) else function), args, dynamic

    CASES[make.__name__] = seeded
    return seeded


def normal(n: int, *shape: int) -> torch.Tensor:
    """Return numbers that are others for each `n`."""
    return torch.tensor(np.random.default_rng(n).standard_normal(shape).astype(np.float32))


def whole(n: int, high: int, *shape: int) -> torch.Tensor:
    """Return whole numbers from 0 to `high`, others for each `n`."""
    return torch.tensor(np.random.default_rng(n).integers(0, high, shape))


@case
def mlp() -> Case:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
    return model, lambda n: (normal(n, n, 16),), {"input": {0: "batch"}}


@case
def cnn() -> Case:
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(16, 10), nn.LogSoftmax(1))  # fmt: skip
    return model, lambda n: (normal(n, n, 1, 14, 14),), {"input": {0: "batch"}}


class Residual(nn.Module):
    def __init__(self, c: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(c, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.short = nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


@case
def resnet() -> Case:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), Residual(8, 8, 1), Residual(8, 16, 2), nn.AvgPool2d(4),
                          nn.Flatten(), nn.Linear(16 * 4, 10))  # fmt: skip
    return model, lambda n: (normal(n, n, 3, 16, 16),), {"input": {0: "batch"}}


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU())
        self.middle = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x):
        a = self.down(x)
        b = self.middle(F.max_pool2d(a, 2))
        return self.out(torch.cat([self.up(b), a], 1))


@case
def unet() -> Case:
    return UNet(), lambda n: (normal(n, n, 2, 8, 8),), {"x": {0: "batch"}}


class Block(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.feed = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(d, 2)
        q, k, v = (a.view(b, t, self.heads, d // self.heads).transpose(1, 2) for a in (q, k, v))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.feed(self.norm2(x)), (k, v)


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.blocks = nn.ModuleList([Block(32, 4) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x, _ = block(x)
        return self.head(self.norm(x))


class Step(GPT):
    def forward(self, token, place, caches):
        x, kept = self.words(token) + self.places(place), []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(x, cache)
            kept.append(cache)
        return self.head(self.norm(x)), kept


@case
def gpt() -> Case:
    return GPT(), lambda n: (whole(n, 50, 2, n),), {"tokens": {1: "time"}}


@case
def gpt_with_a_growing_cache() -> Case:
    def args(n: int) -> tuple[Any, ...]:
        caches = [(normal(n + k, 2, 4, n, 8), normal(n + k + 7, 2, 4, n, 8)) for k in range(2)]
        return whole(n, 50, 2, 1), whole(n, 50, 1), caches

    pair = ({2: "past"}, {2: "past"})
    return Step(), args, {"caches": [pair, pair]}


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 3)

    def forward(self, x):
        y, last = self.layer(x)
        return self.head(y), last


@case
def lstm() -> Case:
    model = Recurrent(nn.LSTM(6, 12, num_layers=2, batch_first=True), 12)
    return model, lambda n: (normal(n, n, 5, 6),), {"x": {0: "batch"}}


@case
def gru() -> Case:
    return Recurrent(nn.GRU(6, 12), 12), lambda n: (normal(n, n, 3, 6),), {"x": {0: "time"}}


@case
def two_ways() -> Case:
    return Recurrent(nn.RNN(6, 8, bidirectional=True), 16), lambda n: (normal(n, 4, n, 6),), {"x": {1: "batch"}}


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu", norm_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 5)

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.first.expand(x.shape[0], -1, -1), y], 1) + self.places
        return self.head(self.encoder(y)[:, 0])


@case
def vit() -> Case:
    return ViT(), lambda n: (normal(n, n, 3, 16, 16),), {"x": {0: "batch"}}


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(20, 16), nn.ELU(), nn.Linear(16, 8))
        self.decode = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 20), nn.Sigmoid())

    def forward(self, x, noise):
        mean, log_var = self.encode(x).chunk(2, 1)
        y = self.decode(mean + noise * (log_var / 2).exp())
        kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1)
        return y, F.binary_cross_entropy(y, x.sigmoid()) + kl.mean()


@case
def vae() -> Case:
    return VAE(), lambda n: (normal(n, n, 20), normal(n + 1, n, 4)), {"x": {0: "batch"}, "noise": {0: "batch"}}


@case
def generator() -> Case:
    model = nn.Sequential(nn.ConvTranspose2d(8, 16, 4, 1, 0), nn.BatchNorm2d(16), nn.ReLU(),
                          nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())  # fmt: skip
    return model, lambda n: (normal(n, n, 8, 1, 1),), {"input": {0: "batch"}}


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 12), nn.Linear(12, 4)

    def forward(self, x, adjacent):
        a = adjacent.sigmoid() + torch.eye(1)
        degree = a.sum(1).rsqrt()
        a = a * degree[:, None] * degree
        return self.two(a @ F.relu(self.one(a @ x))).log_softmax(1)


@case
def graph_net() -> Case:
    axes = {"x": {0: "nodes"}, "adjacent": {0: "nodes", 1: "nodes"}}
    return GraphNet(), lambda n: (normal(n, n, 6), normal(n, n, n)), axes


class Messages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(8, 8), nn.Linear(12, 4)

    def forward(self, x, source, target):
        m = self.message(torch.cat([x[source], x[target]], 1)).relu()
        total = torch.zeros(x.shape[0], 8).index_add(0, target, m)
        return self.update(torch.cat([x, total], 1))


@case
def messages() -> Case:
    return (Messages(), lambda n: (normal(n, 7, 4), whole(n, 7, n), whole(n + 1, 7, n)),
            {"source": {0: "edges"}, "target": {0: "edges"}})  # fmt: skip


@case
def encoder() -> Case:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2), lambda n: (normal(n, 3, n, 16),), {"src": {1: "time"}}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x, lengths):
        padding = torch.arange(x.shape[1]) >= lengths[:, None]
        y, weights = self.attention(x, x, x, key_padding_mask=padding)
        return y.masked_fill(padding[..., None], 0.0), weights


@case
def masked_attention() -> Case:
    return (Attention(), lambda n: (normal(n, n, 5, 16), whole(n, 4, n) + 1),
            {"x": {0: "batch"}, "lengths": {0: "batch"}})  # fmt: skip


class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(16), nn.Linear(16, 48, bias=False), nn.Linear(16, 16, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*s, bias=False) for s in ((16, 40), (16, 40), (40, 16)))
        self.register_buffer("rates", 1e4 ** (-torch.arange(0, 4) / 4))

    def turn(self, x, angle):
        a, b = x[..., ::2], x[..., 1::2]
        c, s = angle.cos(), angle.sin()
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)

    def forward(self, x):
        b, t, d = x.shape
        angle = torch.arange(t)[:, None] * self.rates
        q, k, v = (a.view(b, t, 2, 8).transpose(1, 2) for a in self.qkv(self.norm(x)).chunk(3, -1))
        scores = self.turn(q, angle) @ self.turn(k, angle).transpose(-1, -2) / math.sqrt(8)
        scores = scores + torch.full((t, t), -1e9).triu(1)
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


@case
def rotary() -> Case:
    return Rotary(), lambda n: (normal(n, 2, n, 16),), {"x": {1: "time"}}


@script
def root(a):
    r = a * 0.5
    while (r * r - a).abs().max() > 1e-4:
        r = 0.5 * (r + a / r)
    return r


@case
def newton() -> Case:
    return root, lambda n: (normal(n, n, 3).abs() + 0.5,), {"a": {0: "n"}}


@script
def signed(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = -x
    if y.max() > 1:
        return y.softmax(1)
    return y


@case
def branch_on_data() -> Case:
    return signed, lambda n: (normal(n, n, 4) * (-1) ** n,), {"x": {0: "n"}}


@script
def filtered(x):
    state = torch.zeros(3)
    spread = torch.ones(3)
    for row in x:
        gain = spread / (spread + 0.5)
        state = state + gain * (row - state)
        spread = (1 - gain) * spread + 0.1
    return state, spread


@case
def filter_over_rows() -> Case:
    return filtered, lambda n: (normal(n, n, 3),), {"x": {0: "time"}}


def beam(scores, total):
    best, flat = (total[:, :, None] + scores.log_softmax(-1)).flatten(1).topk(3, 1)
    return best, flat // scores.shape[2], flat % scores.shape[2]


@case
def beam_search_step() -> Case:
    return (beam, lambda n: (normal(n, n, 3, 10), normal(n, n, 3)),
            {"scores": {0: "batch"}, "total": {0: "batch"}})  # fmt: skip


class Physics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, t):
        t = t.detach().requires_grad_()
        with torch.enable_grad():
            u = self.net(t)
            (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
            (ddu,) = torch.autograd.grad(du.sum(), t)
        return u.detach(), ddu + u.detach()


@case
def physics() -> Case:
    return Physics(), lambda n: (normal(n, n, 1),), {"t": {0: "points"}}


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
        self.one, self.two = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 1, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x, t):
        rates = torch.exp(-math.log(1e4) * torch.arange(4) / 4)
        angle = t[:, None] * rates
        e = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        h = F.silu(self.norm(self.one(x)) + e[:, :, None, None])
        return self.two(F.interpolate(F.avg_pool2d(h, 2), scale_factor=2, mode="nearest") + h)


@case
def denoiser() -> Case:
    return Denoiser(), lambda n: (normal(n, n, 1, 8, 8), normal(n, n).abs()), {"x": {0: "batch"}, "t": {0: "batch"}}


class Mobile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.deep = nn.Conv2d(4, 16, 1), nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.squeeze, self.excite, self.thin = nn.Linear(16, 4), nn.Linear(4, 16), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        y = F.hardswish(self.deep(F.relu6(self.wide(x))))
        s = F.hardsigmoid(self.excite(F.relu(self.squeeze(y.mean((2, 3))))))
        return x + self.thin(y * s[:, :, None, None])


@case
def mobile() -> Case:
    return Mobile(), lambda n: (normal(n, n, 4, 6, 6),), {"x": {0: "batch"}}


class Twins(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 8), nn.PReLU(), nn.Linear(8, 6))

    def forward(self, a, b):
        x, y = self.net(a), self.net(b)
        return F.cosine_similarity(x, y), (x - y).norm(dim=1), F.normalize(x) @ F.normalize(y).t()


@case
def twins() -> Case:
    return Twins(), lambda n: (normal(n, n, 10), normal(n + 1, n, 10)), {"a": {0: "batch"}, "b": {0: "batch"}}


class Texts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(40, 12, padding_idx=0), nn.Linear(12, 3)

    def forward(self, tokens):
        there = (tokens != 0).float()
        mean = (self.words(tokens) * there[..., None]).sum(1) / there.sum(1, keepdim=True).clamp(min=1)
        return self.head(mean).softmax(-1), tokens.argmax(1)


@case
def texts() -> Case:
    return Texts(), lambda n: (whole(n, 40, n, 7),), {"tokens": {0: "batch"}}


class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList([nn.Sequential(nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 6)) for _ in range(3)])

    def forward(self, x):
        volume = torch.zeros(x.shape[0])
        for net in self.nets:
            a, b = x.split(3, 1)
            scale, shift = net(a).chunk(2, 1)
            scale = scale.tanh()
            x = torch.cat([b * scale.exp() + shift, a], 1)
            volume = volume + scale.sum(1)
        return x, volume - 0.5 * (x**2).sum(1) - 3 * math.log(2 * math.pi)


@case
def flow() -> Case:
    return Flow(), lambda n: (normal(n, n, 6),), {"x": {0: "batch"}}


class Siren(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.out = nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(torch.sin(3 * self.two(torch.sin(30 * self.one(x)))))


@case
def siren() -> Case:
    return Siren(), lambda n: (normal(n, n, 2) * 0.1,), {"x": {0: "points"}}


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.SELU(), nn.Linear(16, 9))

    def forward(self, x, y):
        weight, mean, log_scale = self.net(x).chunk(3, 1)
        z = (y - mean) / log_scale.exp()
        each = weight.log_softmax(1) - log_scale - 0.5 * z**2 - 0.5 * math.log(2 * math.pi)
        return -each.logsumexp(1), each.argmax(1), weight.softmax(1).cumsum(1)


@case
def mixture() -> Case:
    return (Mixture(), lambda n: (normal(n, n, 4), normal(n + 1, n, 1)),
            {"x": {0: "batch"}, "y": {0: "batch"}})  # fmt: skip


def statistics(x):
    y = x.clone()
    y[:, 0] = 1
    y -= y.mean(0)
    covariance = y.t() @ y / x.shape[0]
    return covariance, x.var(0, correction=0), x.sort(0).values, torch.einsum("ij,kj->ik", x, y), x.std(1)


@case
def in_place_statistics() -> Case:
    return statistics, lambda n: (normal(n, n, 4),), {"x": {0: "n"}}
