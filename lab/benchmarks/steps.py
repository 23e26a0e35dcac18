"""The benchmarks' short training steps: loss, gradients, update; one text for core and PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .cases import Case, normal, whole

GPT_SIZES = {"layers": 4, "wide": 128, "heads": 4, "tokens": 64, "batch": 16, "words": 65}


class Step:
    """A training step of one loss or several, each with its own optimizer, taken one after the other.

    A call gives the losses; `results` the losses and all gradients, without an update. `losses` and `updates` may be
    replaced by compiled ones.
    """

    def __init__(self, losses: Sequence[Callable[[], Any]], optimizers: Sequence[Any]) -> None:
        self.losses, self.optimizers = list(losses), optimizers
        self.updates = [o.step for o in optimizers]

    def __call__(self) -> Sequence[Any]:
        found = []
        for loss_of, optimizer, update in zip(self.losses, self.optimizers, self.updates, strict=True):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            update()
            found.append(loss)
        return found

    def results(self) -> Sequence[Any]:
        """Return the losses and the gradients of what each optimizer changes."""
        found = []
        for loss_of, optimizer in zip(self.losses, self.optimizers, strict=True):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            found += [loss, *(p.grad for group in optimizer.param_groups for p in group["params"])]
        return found

    def compile(self, compiler: Callable[..., Any]) -> None:
        """Run losses and updates as `compiler` makes them from now on."""
        self.losses = [compiler(loss) for loss in self.losses]
        self.updates = [compiler(update) for update in self.updates]


def prepared(lib: Any, model: Any, dtype: str) -> Any:
    """Return a model whose weights are the same numbers in either library: normal, by what flows in; biases 0."""
    with lib.no_grad():
        for k, (name, p) in enumerate(model.named_parameters()):
            if p.ndim > 1:
                p.copy_(normal(lib, p.dtype, tuple(p.shape), k, math.prod(p.shape[1:]) ** -0.5))
            elif "bias" in name:
                p.zero_()
    return model.to(getattr(lib, dtype))


def classified(lib: Any, model: Any, x: Any, y: Any, optimizer: Any) -> Step:
    """Return the step of a classifier: cross entropy of what the model says to `x`."""
    return Step([lambda: lib.nn.functional.cross_entropy(model(x), y)], [optimizer])


def _mlp(lib: Any, dtype: str) -> Step:
    nn = lib.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    model = prepared(lib, model, dtype)
    x, y = normal(lib, getattr(lib, dtype), (64, 64), 1), whole(lib, (64,), 10)
    return classified(lib, model, x, y, lib.optim.AdamW(model.parameters(), lr=1e-3))


def _cnn(lib: Any, dtype: str) -> Step:
    nn = lib.nn

    def stage(a: int, b: int) -> Any:
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))

    model = prepared(lib, nn.Sequential(stage(1, 16), stage(16, 32), nn.Flatten(), nn.Linear(32 * 49, 10)), dtype)
    x, y = normal(lib, getattr(lib, dtype), (32, 1, 28, 28), 1), whole(lib, (32,), 10)
    return classified(lib, model, x, y, lib.optim.AdamW(model.parameters(), lr=1e-3))


def _resnet_block(lib: Any, dtype: str) -> Step:
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
            self.conv2, self.norm2 = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)

        def forward(self, x: Any) -> Any:
            y = lib.relu(self.norm1(self.conv1(x)))
            return lib.relu(self.norm2(self.conv2(y)) + x)

    model = prepared(lib, Block(), dtype)
    x, y = (normal(lib, getattr(lib, dtype), (8, 64, 28, 28), seed) for seed in (1, 2))
    optimizer = lib.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return Step([lambda: lib.nn.functional.mse_loss(model(x), y)], [optimizer])


def _lstm(lib: Any, dtype: str) -> Step:
    nn = lib.nn

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm, self.head = nn.Embedding(65, 128), nn.LSTM(128, 128), nn.Linear(128, 65)

        def forward(self, text: Any) -> Any:
            return self.head(self.lstm(self.words(text))[0]).reshape(-1, 65)

    model = prepared(lib, Model(), dtype)
    text = whole(lib, (51, 32), 65)
    x, y = text[:-1], text[1:].reshape(-1)
    return classified(lib, model, x, y, lib.optim.AdamW(model.parameters(), lr=1e-3))


def gpt_model(lib: Any, sizes: dict[str, int]) -> Any:
    """Make a GPT that gives a row of scores for each token of a text; its sizes are those of `GPT_SIZES`."""
    nn, functional, wide, words = lib.nn, lib.nn.functional, sizes["wide"], sizes["words"]

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(wide), nn.LayerNorm(wide)
            self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
            self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = (p.view(b, t, sizes["heads"], -1).transpose(1, 2) for p in self.qkv(self.before(x)).split(c, -1))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(functional.gelu(self.up(self.after(x))))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, wide), nn.Embedding(sizes["tokens"], wide)
            self.blocks = nn.Sequential(*[Block() for _ in range(sizes["layers"])])
            self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, words)

        def forward(self, text: Any, place: Any = None) -> Any:
            place = lib.arange(text.shape[1]) if place is None else place
            return self.head(self.norm(self.blocks(self.words(text) + self.places(place)))).reshape(-1, words)

    return Model()


def gpt(lib: Any, dtype: str = "float32", sizes: dict[str, int] = GPT_SIZES) -> Step:
    """Return a GPT's training step."""
    model, words = prepared(lib, gpt_model(lib, sizes), dtype), sizes["words"]
    text = whole(lib, (sizes["batch"], sizes["tokens"] + 1), words)
    x, y = text[:, :-1].contiguous(), text[:, 1:].reshape(-1)
    return classified(lib, model, x, y, lib.optim.AdamW(model.parameters(), lr=1e-3))


def _gan(lib: Any, dtype: str) -> Step:
    """Return the critic's step and the maker's, over fully connected nets for images of 28x28."""
    nn, entropy = lib.nn, lib.nn.functional.binary_cross_entropy_with_logits
    maker = nn.Sequential(nn.Linear(64, 256), nn.LeakyReLU(0.2), nn.Linear(256, 784), nn.Tanh())
    critic = nn.Sequential(nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
    maker, critic = prepared(lib, maker, dtype), prepared(lib, critic, dtype)
    kind = getattr(lib, dtype)
    real, noise = normal(lib, kind, (64, 784), 1), normal(lib, kind, (64, 64), 2)
    yes, no = lib.ones(64, 1, dtype=kind), lib.zeros(64, 1, dtype=kind)

    def critical() -> Any:
        return entropy(critic(real), yes) + entropy(critic(maker(noise).detach()), no)

    def making() -> Any:
        return entropy(critic(maker(noise)), yes)

    adam = lib.optim.Adam
    return Step([critical, making], [adam(critic.parameters(), lr=2e-4), adam(maker.parameters(), lr=2e-4)])


def steps() -> list[Case]:
    """Return the short training steps as cases."""
    rows: list[tuple[str, str, Callable[[Any, str], Any], float | None]] = [
        ("MLP", "64-128-64-10, batch 64", _mlp, 0.4),
        ("CNN", "2 stages, batch 32x28x28", _cnn, 0.8),
        ("ResNet block", "64 channels, batch 8x28x28", _resnet_block, None),
        ("LSTM", "128 wide, 50 steps, batch 32", _lstm, 0.6),
        ("GPT", "4 layers, 128 wide, 64 tokens, batch 16", gpt, 0.6),
        ("GAN", "784-256, batch 64", _gan, None),
    ]
    return [Case("short-steps", name, size, make, target) for name, size, make, target in rows]
