"""Functions that ask the ONNX writer for what models rarely do, each with arguments at a size and its dynamic axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import core as torch
from core.export import script

from .models import normal, whole

nn, F = torch.nn, torch.nn.functional
N = {"x": {0: "n"}}
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], dict[str, Any]]] = {}


def case(args: Callable[[int], tuple[Any, ...]], dynamic: dict[str, Any] = N) -> Callable[[Any], Any]:
    def note(function: Any) -> Any:
        FUNCTIONS[function.__name__] = (function, args, dynamic)
        return function

    return note


def square(n: int) -> tuple[Any, ...]:
    return (normal(n, n, 6, 5),)


def image(n: int) -> tuple[Any, ...]:
    return (normal(n, 2, 3, n + 6, n + 7),)


IMAGE = {"x": {2: "height", 3: "width"}}


@case(square)
def reductions(x):
    y = x * 2
    return (x.sum(), x.mean(0), x.amax((1, 2)), x.amin(-1, keepdim=True), x.prod(1), x.var(0), x.std((0, 1)), y.norm(),
            x.norm(p=1, dim=1), x.norm(p=3, dim=2), x.logsumexp((0, 2)), (x > 0).all(1), (x > 2).any(), x.argmax(0),
            x.argmin(2), *x.max(1), *x.min(2), x.count_nonzero(0), (x > 0).sum(1))  # fmt: skip


@case(square)
def running(x):
    return x.cumsum(0), x.cumsum(2).flip(1), x.cumprod(1), x.logcumsumexp(2), x.cummax(1).values, x.softmax(0)


@case(square)
def ordered(x):
    return (
        *x.sort(1),
        *x.topk(3, 2),
        *x.kthvalue(2, 1),
        x.argsort(2, descending=True),
        x.sort(0, descending=True).values,
    )


@case(square)
def views(x):
    return (x[1:, ::2], x[:, -1], x[..., 1:-1], x[:, None, 2], x.t_() if x.ndim == 2 else x.transpose(0, 2),
            x.reshape(-1, 5), x.reshape(x.shape[0] * 2, 3, 5), x.permute(2, 0, 1), x.flatten(),
            x.unsqueeze(-1).squeeze(),
            x.diagonal(0, 1, 2), x.diagonal(-1, 0, 1), x.unfold(1, 3, 2), *x.split((2, 4), 1), *x.unbind(2),
            x.expand(2, -1, -1, -1), x.narrow(0, 1, x.shape[0] - 1), x.movedim(0, 2), *x.chunk(2, 1))  # fmt: skip


@case(square)
def joined(x):
    return (torch.cat([x, x * 2], 0), torch.stack([x, -x], 1), x.repeat(2, 1, 3), x.repeat_interleave(2, 0),
            x.roll(2, 0),
            x.roll((1, -2), (1, 2)), x.flip(0, 2), x.tile(2), F.pad(x, (1, 2, 0, 3)), F.pad(x, (-1, 1)), x.tril(),
            x.triu(1), F.pad(x, (1, 1), mode="reflect"))  # fmt: skip


@case(lambda n: (normal(n, n, 6, 5), whole(n, 6, 4), whole(n, 5, 4, 1), whole(n, 5, n, 6, 2)),
      {"x": {0: "n"}, "k": {0: "n"}})  # fmt: skip
def by_index(x, i, j, k):
    return (x[:, i], x[:, i, j], x[:, :, i % 5], x[:, i[:3], :, None], x.gather(2, k), x.index_select(1, i),
            x.scatter(2, k, x[:, :, 1:3]), x.scatter_add(2, k, x[:, :, :2]), x.take_along_dim(k, 2), F.one_hot(k, 5),
            x.index_put((torch.arange(x.shape[0]), torch.zeros(x.shape[0], dtype=torch.int64)), x[:, 0] * 2),
            x.index_add(1, i, x[:, :4]), x.masked_fill(x > 0, -1.0))  # fmt: skip


@case(square)
def written(x):
    """Writes through views of many kinds, and of views of views."""
    y = x.clone()
    y[:, 1] = 3.0
    y[1:, ::2, 1:3] *= 2
    y.diagonal(0, 1, 2).add_(1)
    y.transpose(0, 2)[1:3].mul_(-1)
    y.view(-1, 5)[::3, 0] = x.sum(0)[0, 0]
    y[:, 2].copy_(x[:, 3] * 10)
    z = torch.zeros(x.shape[0], 4)
    z[:, 1:3] = x[:, 0, :2]
    y.unfold(1, 2, 2).zero_()
    return y, z


@case(image, IMAGE)
def images(x):
    return (F.max_pool2d(x, 3, 1, 1), F.avg_pool2d(x, 2, 1), x.mean((2, 3)), F.conv2d(x, x[:1, :, :3, :3], stride=2),
            F.interpolate(x, scale_factor=2, mode="nearest"), F.unfold(x, 3, padding=1, stride=2),
            F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))  # fmt: skip


@case(lambda n: (normal(n, n, 4, 9, 9),))
def images_of_one_size(x):
    y, at = F.max_pool2d(x, 2, 2, return_indices=True)
    return (y, at, F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), F.adaptive_avg_pool2d(x, (4, 3)),
            F.adaptive_max_pool2d(x, 4), F.interpolate(x, (5, 13), mode="bicubic"), F.pixel_shuffle(x, 2),
            F.interpolate(x, (12, 7), mode="bilinear", align_corners=True), F.interpolate(x, 20, mode="nearest"),
            F.fold(F.unfold(x, 3), (9, 9), 3), F.max_pool1d(x[:, 0], 3, 2), F.avg_pool1d(x[:, 1], 2),
            F.local_response_norm(x, 3))  # fmt: skip


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.up = nn.Conv1d(3, 6, 3, 2, 1, groups=3), nn.ConvTranspose1d(6, 4, 3, 2, 1, 1, groups=2)
        self.three, self.prelu = nn.Conv3d(1, 2, 2, dilation=2), nn.PReLU(4)
        self.norms = nn.ModuleList([nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, affine=True), nn.BatchNorm1d(4),
                                    nn.LayerNorm(12, elementwise_affine=False), nn.RMSNorm(12)])  # fmt: skip

    def forward(self, x):
        y = self.prelu(self.up(self.one(x)))
        return *(norm(y) for norm in self.norms), self.three(x[:, :1, :4, None, None].repeat(1, 1, 1, 4, 4))


layers = Layers().eval()
FUNCTIONS["layers"] = (layers, lambda n: (normal(n, n, 3, 12),), {"x": {0: "n"}})
FUNCTIONS["rnn"] = (nn.RNN(3, 4, 2, nonlinearity="relu", bidirectional=True).eval(),
                    lambda n: (normal(n, n, 2, 3), normal(n + 1, 4, 2, 4)), {"input": {0: "time"}})  # fmt: skip
FUNCTIONS["gru_cell"] = (nn.GRUCell(3, 4).eval(), lambda n: (normal(n, n, 3), normal(n + 1, n, 4)),
                         {"input": {0: "n"}, "hx": {0: "n"}})  # fmt: skip
FUNCTIONS["lstm_cell"] = (nn.LSTMCell(3, 4).eval(), lambda n: (normal(n, n, 3),), {"input": {0: "n"}})


@case(lambda n: (normal(n, n, 5), whole(n, 5, n)), {"x": {0: "n"}, "y": {0: "n"}})
def losses(x, y):
    w = torch.tensor([0.5, 1.0, 2.0, 0.1, 1.5])
    return (F.cross_entropy(x, y), F.cross_entropy(x, y, w, ignore_index=2), F.cross_entropy(x, y, label_smoothing=0.1),
            F.nll_loss(x.log_softmax(1), y, reduction="none"), F.mse_loss(x, x.flip(1)), F.smooth_l1_loss(x, x * 0.5),
            F.binary_cross_entropy_with_logits(x, x.sigmoid()),
            F.kl_div(x.log_softmax(1), x.flip(1).softmax(1), reduction="sum"),
            F.cosine_embedding_loss(x, x.flip(1), torch.ones(x.shape[0])), F.huber_loss(x, -x))  # fmt: skip


@case(lambda n: (normal(n, 2, 4, n, 8), normal(n + 1, 2, 2, n + 1, 8), normal(n + 2, 2, 2, n + 1, 8)),
      {"q": {2: "queries"}, "k": {2: "keys"}, "v": {2: "keys"}})  # fmt: skip
def attention(q, k, v):
    mask = torch.arange(k.shape[2]) % 3 != 1
    return (F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            F.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True),
            F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True, scale=0.3))  # fmt: skip


@case(lambda n: (normal(n, n, 4).double(), whole(n, 9, n, 4) - 4), {"x": {0: "n"}, "i": {0: "n"}})
def numbers(x, i):
    """Doubles and whole numbers, sizes in arithmetic, divisions of every kind."""
    n = x.shape[0]
    return (x / n, x * (n - 1), i // 3, i % 3, i.remainder(-2), torch.fmod(i, 3), x // 0.7, x % 0.7,
            x.to(torch.float32),
            x.long(), i.to(torch.int32) * 2, (i > 0) & (x < 0), i & 3, i ^ 5, ~(i > 1), torch.arange(n) * 2,
            torch.arange(1, n, 2), torch.full((n, 2), 1.5), torch.zeros(n), torch.linspace(0, 1, 7),
            x.clamp(-1, 1), x.sqrt().nan_to_num(0.0), torch.where(i > 0, i, -i), x.sign(),
            i.float().mean())  # fmt: skip


@case(lambda n: (normal(n, n + 1, 4), normal(n, n + 1, 3, 5).requires_grad_()), {"x": {0: "n"}, "y": {0: "n"}})
def diagonals(x, y):
    with torch.enable_grad():
        taken = torch.diagonal(y, 1, 2, 1).square().sum() + torch.diagonal(y, -1, 2, 1).sum()
    return (torch.diag(x[:, 0]), torch.diag(x[:, 1], 2), torch.diag(x[:, 2], -1), torch.diag_embed(x, 1, 0, 2),
            torch.diag_embed(x, -2), torch.autograd.grad(taken, y)[0])  # fmt: skip


@script
def halved(x):
    while x.abs().sum() > 1:
        x = x / 2 if x.mean() > 0 else x / 3
    return x


@case(lambda n: (normal(n, n, 3) * n,))
def halved_until_small(x):
    return halved(x) + 1
