"""Models, batches and loops that are trained on 1, 2 and 4 ranks alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import core
from core import distributed as dist
from core import nn

BATCH, STEPS = 16, 20


class Block(nn.Module):
    """A block of a decoder: attention over what came before, and two layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm, self.size = nn.LayerNorm(width), width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


class Gpt(nn.Module):
    """A small decoder whose first and last weights are one."""

    def __init__(self, words: int = 32, width: int = 32, heads: int = 4, layers: int = 2, length: int = 12,
                 tied: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        if tied:
            self.head.weight = self.words.weight
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.05)

    def forward(self, x: Any) -> Any:
        y = self.words(x) + self.places.weight[: x.shape[1]]
        return self.head(self.norm(self.blocks(y)))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
                         nn.Linear(16 * 16, 4))  # fmt: skip


MODELS: dict[str, Callable[[], Any]] = {"mlp": mlp, "cnn": cnn, "gpt": Gpt}


def batches(name: str, steps: int = STEPS) -> list[tuple[Any, Any]]:
    """The batches of all ranks together, the same on each."""
    g = core.Generator().manual_seed(7)
    made = []
    for _ in range(steps):
        if name == "gpt":
            first = core.randint(0, 32, (BATCH, 1), generator=g)
            words = (first + 5 * core.arange(13)) % 32
            made.append((words[:, :-1], words[:, 1:]))
        else:
            x = core.randn(BATCH, *((16,) if name == "mlp" else (1, 8, 8)), generator=g)
            made.append((x, x.reshape(BATCH, 4, -1).sum(-1).argmax(-1)))
    return made


def share(x: Any) -> Any:
    """This rank's rows of a batch."""
    per = len(x) // dist.get_world_size()
    return x[dist.get_rank() * per : (dist.get_rank() + 1) * per]


def loss_of(model: Any, x: Any, y: Any) -> Any:
    out = model(x)
    return nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def mean(value: Any) -> float:
    """The mean of a number over the ranks."""
    if not dist.is_initialized():
        return float(value.detach())
    total = value.detach().clone()
    dist.all_reduce(total)
    return float(total / dist.get_world_size())


def trained(name: str, wrap: Callable[[Any], Any], optimizer: Callable[[Any], Any] | None = None,
            data: Callable[[Any], Any] = share) -> list[float]:  # fmt: skip
    """The losses of 20 steps of a model that `wrap` has prepared, each rank on its share of the batches."""
    core.manual_seed(0)
    model = wrap(MODELS[name]())
    opt = (optimizer or (lambda params: core.optim.AdamW(params, lr=1e-2)))(model.parameters())
    losses = []
    for x, y in batches(name):
        opt.zero_grad()
        loss = loss_of(model, data(x), data(y))
        loss.backward()
        opt.step()
        losses.append(mean(loss))
    return losses


def close(one: list[float], other: list[float], limit: float = 1e-5) -> bool:
    return len(one) == len(other) and max(abs(a - b) for a, b in zip(one, other, strict=True)) <= limit


def raises(kind: type[BaseException], call: Any) -> str:
    """What an error of a class says that a call raises."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def same_everywhere(*tensors: Any) -> bool:
    """Whether tensors have the same bits on every rank."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, [t.detach().tolist() for t in tensors])
    return all(e == every[0] for e in every)


def twice(name: str, wrap: Any, **more: Any) -> list[float]:
    """The losses of a run, whose repetition has the same bits."""
    first, again = (trained(name, wrap, **more) for _ in range(2))
    assert first == again, (first, again)
    return first
