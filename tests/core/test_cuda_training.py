"""The tour's MLP trains on the device `cuda` (interpreted here) to the CPU's losses, on Triton kernels alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
from core import observe

STEPS = 22  # one pass over the training digits


def data() -> tuple[Any, Any]:
    x, y = load_digits(return_X_y=True)
    return ((x - x.mean(0)) / (x.std(0) + 1e-6)).astype(np.float32), y.astype(np.int64)


class Backends(observe.Observer):
    """Which backends ran each op."""

    def __init__(self) -> None:
        self.seen: dict[str, set[str]] = {}

    def op(self, event: observe.OpEvent) -> None:
        self.seen.setdefault(event.op, set()).add(event.backend)


def train(device: str) -> tuple[list[float], Any]:
    x, y = data()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(STEPS):
        rows = slice(64 * step, 64 * step + 64)
        inputs, target = torch.tensor(x[rows], device=device), torch.tensor(y[rows], device=device)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def test_the_mlp_trains_to_the_same_losses() -> None:
    watch = Backends()
    with observe.observing(watch):
        on_cuda, model = train("cuda")
    on_cpu, twin = train("cpu")
    np.testing.assert_allclose(on_cuda, on_cpu, rtol=2e-4)
    assert on_cuda[-1] < 0.7 * on_cuda[0]
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert p.device.type == "cuda"
        np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().numpy(), atol=2e-4)
    arithmetic = {op: backends for op, backends in watch.seen.items() if op not in MOVES}
    assert {op: b for op, b in arithmetic.items() if b != {"Triton"}} == {}
    assert {"linear", "relu", "cross_entropy", "adamw_step"} <= set(arithmetic)


# what only copies or gives another view of memory: no arithmetic, the array library does it
MOVES = {
    "transfer",
    "view",
    "permute",
    "expand",
    "transpose",
    "clone",
    "contiguous",
    "move",
    "squeeze",
    "unsqueeze",
    "select",
}
