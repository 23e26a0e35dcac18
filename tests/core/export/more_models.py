"""Models and functions whose programs are written and saved: each gives (function, arguments at a size, dynamic)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import core
from core import nn
from core.nn import functional as F

MODELS: dict[str, Callable[[], tuple[Any, Callable[[int], tuple[Any, ...]], dict[str, Any]]]] = {}
BATCH = {"x": {0: "batch"}}


def model(make: Any) -> Any:
    MODELS[make.__name__] = make
    return make


def named(module: Any, *names: str) -> Any:
    """A function whose arguments have these names."""
    return eval(f"lambda {', '.join(names)}: module({', '.join(names)})", {"module": module})


@model
def mlp():
    layers = nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3), nn.LogSoftmax(-1))
    return named(layers, "x"), lambda n: (core.randn(n, 5),), BATCH


@model
def cnn():
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                           nn.Conv2d(8, 4, 3, stride=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                           nn.Linear(4, 10)).eval()  # fmt: skip
    return named(layers, "x"), lambda n: (core.randn(n, 3, 12, 12),), BATCH


class ResidualBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.other = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.short = nn.Conv2d(4, 8, 1, stride=2)

    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        return F.relu(self.other(self.second(y)) + self.short(x))


@model
def resnet_block():
    return ResidualBlock().eval(), lambda n: (core.randn(n, 4, 8, 10),), BATCH


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = F.relu(self.down(x))
        b = F.relu(self.middle(F.max_pool2d(a, 2)))
        return self.last(core.cat([a, self.up(b)], 1))


@model
def unet():
    return UNet(), lambda n: (core.randn(n, 1, 8, 8),), BATCH


class CachedGPT(nn.Module):
    """One step of a decoder: the keys and values of what was read before come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(64, 8)
        self.qkv, self.out, self.head = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 11)
        self.norm = nn.LayerNorm(8)

    def forward(self, token, place, cache):
        x = self.tokens(token) + self.places(place)
        q, k, v = self.qkv(self.norm(x)).view(x.shape[0], 1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        k, v = core.cat([cache["k"], k], 2), core.cat([cache["v"], v], 2)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape[0], 1, 8)
        return self.head(x + self.out(y)), {"k": k, "v": v}


@model
def gpt_with_cache():
    def args(n):
        cache = {"k": core.randn(2, 2, n, 4), "v": core.randn(2, 2, n, 4)}
        return core.randint(0, 11, (2, 1)), core.full((2, 1), n), cache

    return CachedGPT(), args, {"cache": {"k": {2: "past"}, "v": {2: "past"}}}


@model
def lstm():
    layer = nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True)
    return named(layer, "x"), lambda n: (core.randn(n, 5, 4),), BATCH


@model
def gru():
    layer = nn.GRU(4, 6)
    return named(layer, "x", "h"), lambda n: (core.randn(5, n, 4), core.randn(1, n, 6)), {
        "x": {1: "batch"}, "h": {1: "batch"}}  # fmt: skip


@model
def rnn_over_time():
    return named(nn.RNN(3, 5), "x"), lambda n: (core.randn(n, 2, 3),), {"x": {0: "time"}}


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, stride=4)
        self.first = nn.Parameter(core.randn(1, 1, 12))
        self.places = nn.Parameter(core.randn(1, 5, 12))
        self.block = nn.TransformerEncoderLayer(12, 3, 24, batch_first=True, norm_first=True, activation="gelu")
        self.head = nn.Linear(12, 7)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = core.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.block(x)[:, 0])


@model
def vit():
    return ViT().eval(), lambda n: (core.randn(n, 3, 8, 8),), BATCH


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 8), nn.Linear(4, 6)

    def forward(self, x, noise):
        mean, log_variance = self.encode(x).chunk(2, -1)
        z = mean + noise * (0.5 * log_variance).exp()
        loss = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1).mean()
        return {"x": core.sigmoid(self.decode(z)), "loss": loss, "parts": [mean, (log_variance,)]}


@model
def vae():
    return VAE(), lambda n: (core.randn(n, 6), core.randn(n, 4)), {"x": {0: "batch"}, "noise": {0: "batch"}}


@model
def gan_generator():
    layers = nn.Sequential(nn.ConvTranspose2d(6, 8, 4), nn.BatchNorm2d(8), nn.ReLU(),
                           nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1), nn.Tanh()).eval()  # fmt: skip
    return named(layers, "x"), lambda n: (core.randn(n, 6, 1, 1),), BATCH


class GNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(6, 5), nn.Linear(8, 3)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        messages = F.leaky_relu(self.message(core.cat([x[source], x[target]], -1)))
        gathered = core.zeros(x.shape[0], 5).index_add(0, target, messages)
        return self.update(core.cat([x, gathered], -1))


@model
def gnn():
    def args(n):
        return core.randn(4, 3), core.randint(0, 4, (2, n))

    return GNN(), args, {"edges": {1: "edges"}}


@model
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    return named(encoder, "x"), lambda n: (core.randn(2, n, 8),), {"x": {1: "time"}}


@model
def einsum():
    return (lambda x, y: core.einsum("bij,bjk->bik", x, y).tanh()), lambda n: (
        core.randn(n, 3, 4), core.randn(n, 4, 2)), {"x": {0: "batch"}, "y": {0: "batch"}}  # fmt: skip


@model
def beam_step():
    def step(x, scores):
        total = scores[:, None] + core.log_softmax(x, -1)
        best, at = total.flatten().topk(3)
        return best, at // x.shape[1], at % x.shape[1], core.sort(total, dim=-1, descending=True)

    return step, lambda n: (core.randn(n, 7), core.randn(n)), {"x": {0: "beams"}, "scores": {0: "beams"}}


@model
def group_norm():
    layers = nn.Sequential(nn.GroupNorm(2, 6), nn.InstanceNorm2d(6), nn.Mish())
    return named(layers, "x"), lambda n: (core.randn(n, 6, 4, 3),), BATCH


@model
def resample():
    def f(x):
        small = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return small, F.interpolate(x, size=(3, 5), mode="nearest"), F.avg_pool2d(small, 3, stride=2, padding=1)

    return f, lambda n: (core.randn(n, 2, 4, 6),), BATCH


@model
def in_place():
    def f(x):
        y = core.zeros(x.shape[0], 4)
        y[:, 1:3] = x[:, :2]
        y[0] += 2
        y[..., 3].copy_(x.sum(-1))
        y.transpose(0, 1)[0].mul_(3).sub_(1)
        return y.clamp_(-1, 1.5), y.t()

    return f, lambda n: (core.randn(n, 3),), BATCH


@model
def made_from_numbers():
    def f(x):
        places = core.arange(x.shape[0], dtype=core.float32)
        steps = core.arange(0, 3 * x.shape[0], 3)
        return x * places[:, None] / x.shape[0], core.full((x.shape[0], 2), 1.5), core.ones_like(x).cumsum(0), steps

    return f, lambda n: (core.randn(n, 3),), BATCH


@model
def causal_mask():
    def f(x):
        n = x.shape[1]
        scores = x @ x.transpose(1, 2) / n**0.5
        scores = scores.masked_fill(core.tril(core.ones(n, n)) == 0, float("-inf"))
        return scores.softmax(-1) @ x

    return f, lambda n: (core.randn(2, n, 4),), {"x": {1: "time"}}


@model
def training_step():
    layer = nn.Linear(4, 2)
    optimizer = core.optim.Adam(layer.parameters(), lr=0.1)

    def step(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(layer(x), target)
        loss.backward()
        optimizer.step()
        return loss

    step(core.randn(2, 4), core.tensor([0, 1]))  # which makes the optimizer's state
    return step, lambda n: (core.randn(n, 4), core.randint(0, 2, (n,))), {
        "x": {0: "batch"}, "target": {0: "batch"}}  # fmt: skip


@model
def running_statistics():
    layers = nn.Sequential(nn.BatchNorm1d(3, momentum=0.3), nn.ELU())
    return named(layers, "x"), lambda n: (core.randn(6, 3) * n + 1,), {}


@model
def gradient():
    def f(x, w):
        w = w.detach().requires_grad_()
        loss = (core.tanh(x @ w) ** 2).mean()
        return core.autograd.grad(loss, w)[0]

    return f, lambda n: (core.randn(n, 3), core.randn(3, 2)), BATCH


@model
def special_functions():
    def f(x):
        return core.erf(x), core.erfc(x), core.special.erfinv(x / 9), core.lgamma(x.abs() + 1), core.digamma(x**2 + 1)

    return f, lambda n: (core.randn(n, 3) * 2,), BATCH


@model
def linear_algebra():
    def f(x):
        a = x @ x.transpose(-1, -2) + 4 * core.eye(3)
        return core.linalg.solve(a, x), core.linalg.cholesky(a), core.linalg.inv(a), core.linalg.det(a)

    return f, lambda n: (core.randn(n, 3, 3),), BATCH


@model
def fourier():
    def f(x):
        spectrum = core.fft.rfft(x)
        return core.fft.irfft(spectrum * 2, n=8), spectrum.abs(), core.view_as_real(spectrum)

    return f, lambda n: (core.randn(n, 8),), BATCH


@model
def gathering():
    def f(x, index):
        rows = core.gather(x, 1, index)
        return rows, core.zeros_like(x).scatter_add(1, index, rows), F.one_hot(index, 5), x.index_select(1, index[0])

    return f, lambda n: (core.randn(n, 5), core.randint(0, 5, (n, 3))), {"x": {0: "batch"}, "index": {0: "batch"}}


@model
def whole_numbers():
    def f(x):
        return x // 3 + x % 4, (x > 2) & (x != 5), x.to(core.uint8) * 2, x.float().mean(0), (x << 2) ^ 5, x.sum()

    return f, lambda n: (core.randint(0, 9, (n, 3)),), BATCH


@model
def windows():
    layers = nn.Sequential(nn.Conv1d(4, 4, 3, padding=2, dilation=2, groups=4), nn.Conv1d(4, 6, 1), nn.GLU(1))
    return (lambda x: (layers(F.pad(x, (1, 2))), x.unfold(2, 3, 2).mean(-1))), lambda n: (core.randn(n, 4, 9),), BATCH


@model
def complex_numbers():
    def f(x):
        z = core.complex(x, x * 2 + 1)
        return (z * z.conj()).real, core.view_as_real(z.exp()), z.angle()

    return f, lambda n: (core.randn(n, 3),), BATCH


@model
def half_precision():
    layers = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).half()
    return named(layers, "x"), lambda n: (core.randn(n, 4).half(),), BATCH
