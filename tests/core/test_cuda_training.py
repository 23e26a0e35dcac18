"""The notebooks' MLP, CNN and GPT train on `cuda` (interpreted here) to the CPU's losses, on Triton's kernels.

Every step's loss is compared, and every op that ran: what does arithmetic must be a kernel of ours, forward, backward
and update. The models are those of the notebooks, made smaller where the interpreter is slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import core as torch
import core.nn.functional as F
from core import nn
from core.events import observe

# What only copies or gives another view of memory: no arithmetic, the array library does it.
MOVES = {"view", "permute", "expand", "transpose", "clone", "contiguous", "move", "squeeze", "unsqueeze", "select",
         "slice", "detach", "slice_backward", "select_backward", "fill", "copy", "stack", "cat", "alias", "t",
         "flatten", "reshape", "split", "unbind", "to_copy"}  # fmt: skip


class Backends(observe.Observer):
    """Which backends ran each op, and which kernels the gradients."""

    def __init__(self) -> None:
        self.seen: dict[str, set[str]] = {}
        self.gradients: set[str] = set()

    def op(self, event: observe.OpEvent) -> None:
        if not event.outputs or any(
            t.is_floating_point() for t in event.outputs
        ):  # counters and places are no arithmetic to speak of
            name = event.op if event.declared is None else event.declared.name
            self.seen.setdefault(name, set()).add(event.backend)

    def backward(self, event: observe.BackwardEvent) -> None:
        self.gradients.add(event.kernel)

    @property
    def elsewhere(self) -> set[str]:
        """The ops that did arithmetic, and not by a kernel of ours."""
        return {op for op, backends in self.seen.items() if op not in MOVES and backends != {"Triton"}}


Batch = tuple[Any, Any]


def train(
    device: str, make: Callable[[], Any], batches: list[Batch], loss_of: Callable[..., Any], clip: bool = False
) -> tuple[list[float], Any]:
    torch.manual_seed(0)
    model = make().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for x, y in batches:
        loss = loss_of(model, torch.tensor(x, device=device), torch.tensor(y, device=device))
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def same(make: Callable[[], Any], batches: list[Batch], loss_of: Callable[..., Any], rtol: float = 1e-4,
         clip: bool = False) -> tuple[Backends, list[float]]:  # fmt: skip
    """Train on both devices, compare each step's loss and the parameters at the end."""
    watch = Backends()
    with observe.observing(watch):
        on_cuda, model = train("cuda", make, batches, loss_of, clip)
    on_cpu, twin = train("cpu", make, batches, loss_of, clip)
    np.testing.assert_allclose(on_cuda, on_cpu, rtol=rtol)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert p.device.type == "cuda"
        np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().numpy(), atol=3e-4)
    return watch, on_cuda


def digits(n: int, size: int, shape: tuple[int, ...]) -> list[Batch]:
    x, y = load_digits(return_X_y=True)
    x = ((x - x.mean(0)) / (x.std(0) + 1e-6)).astype(np.float32)
    return [(x[i : i + size].reshape(-1, *shape), y[i : i + size].astype(np.int64)) for i in range(0, n * size, size)]


def plain(model: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(model(x), y)


@pytest.mark.by_turns
def test_the_mlp() -> None:
    """The tour's, over one pass through the digits."""
    watch, losses = same(lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)),
                         digits(22, 64, (64,)), plain)  # fmt: skip
    assert losses[-1] < 0.7 * losses[0]
    assert watch.elsewhere == set()
    assert {"linear", "relu", "cross_entropy", "adamw_step"} <= set(watch.seen)


class CNN(nn.Module):
    """The CNN notebook's."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(2 * width * 16, 64), nn.ReLU(), nn.Linear(64, 10)
        )

    def forward(self, x: Any) -> Any:
        return self.classifier(self.features(x))


def smoothed(model: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(model(x), y, label_smoothing=0.1)


def without_dropout() -> CNN:
    model = CNN()
    model.classifier[1].p = 0.0  # each device draws its own masks, as in PyTorch
    return model


@pytest.mark.by_turns
def test_the_cnn() -> None:
    watch, _ = same(without_dropout, digits(4, 9, (1, 8, 8)), smoothed)
    assert watch.elsewhere == set()
    assert {"conv", "batch_norm", "max_pool", "linear", "cross_entropy"} <= set(watch.seen)


def test_a_step_with_dropout() -> None:
    watch = Backends()
    with observe.observing(watch):
        losses, _ = train("cuda", CNN, digits(1, 9, (1, 8, 8)), smoothed)
    assert 1.5 < losses[0] < 4
    assert watch.seen["dropout"] == {"Triton"}
    assert watch.elsewhere == set()


CONTEXT = 12


class Block(nn.Module):
    """The GPT notebook's."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        for last in (self.out, self.mlp[2]):
            nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * layers))

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, characters: int = 29, layers: int = 1, width: int = 24, heads: int = 2) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(characters, width), nn.Embedding(CONTEXT, width)
        nn.init.normal_(self.token.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, layers) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


@pytest.mark.by_turns
def test_the_gpt() -> None:
    rng = np.random.default_rng(0)
    text = np.cumsum(rng.integers(0, 3, 400)) % 29  # each character says much of the next
    starts = rng.integers(0, 400 - CONTEXT - 1, (4, 5))
    windows = [np.stack([text[s : s + CONTEXT + 1] for s in row]) for row in starts]
    watch, _ = same(GPT, [(w[:, :-1], w[:, 1:]) for w in windows],
                    lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten()), clip=True)  # fmt: skip
    assert watch.elsewhere == set()
    assert {"embedding", "layer_norm", "linear", "attention", "cross_entropy"} <= set(watch.seen)
    assert any(op.startswith("gelu") for op in watch.seen)
    assert {"norm_backward_kernel", "cross_entropy_backward_kernel", "segment_sum_kernel"} <= watch.gradients
    assert "keys_backward_kernel" in watch.gradients
    assert not {"softmax", "matmul", "tril", "where"} & set(watch.seen)  # what attention's gradient is by ops
