"""`%%autograd --precision`: the first line that loses half its digits, in core and in PyTorch."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import core

LIBRARIES = ["core", pytest.param("torch", marks=pytest.mark.skipif(importlib.util.find_spec("torch") is None,
                                                                      reason="needs PyTorch"))]  # fmt: skip

# name -> (line, what the sentence says, the cell)
LOSES: dict[str, tuple[int, str, str]] = {
    "a variance as the difference of two means": (3, "loses its digits", """
torch.manual_seed(0)
pressure = 1e5 + 4 * torch.randn(2000)
var = (pressure ** 2).mean() - pressure.mean() ** 2
scaled = (pressure - pressure.mean()) / (var.abs() + 1e-6).sqrt()
"""),
    "Unix seconds in float32": (3, "loses its digits", """
stamps = torch.arange(1_700_000_000, 1_700_000_600, 10)
seconds = stamps.float()
gaps = seconds[1:] - seconds[:-1]
rate = 1 / (gaps + 1)
"""),
    "one minus a number near one": (3, "loses its digits", """
x = torch.full((5,), 1e-6)
y = torch.exp(x)
loss = y - 1
z = (loss * 2).sum()
"""),
    "a sum of bfloat16 that stands still": (4, "stands still", """
total = torch.zeros(3, dtype=torch.bfloat16)
step = torch.full((3,), 0.5, dtype=torch.bfloat16)
for _ in range(600):
    total += step
"""),
    "a running loss in float16": (5, "stands still", """
total = torch.tensor(0.0, dtype=torch.float16)
x = torch.full((4,), 2.0)
for _ in range(3000):
    loss = (x * x).mean().half()
    total = total + loss
"""),
    "gradients that float16 cannot hold": (0, "Gradients of w fall below what float16 holds", """
w = torch.full((8,), 0.5, dtype=torch.float16, requires_grad=True)
x = torch.full((8,), 1e-3, dtype=torch.float16)
loss = ((w * x) * 2e-3).sum()
loss.backward()
"""),
}  # fmt: skip

KEEPS = {
    "a training loop with batch norm and dropout": """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(32, 8)
y = x.sum(1, keepdim=True)
total = 0.0
for _ in range(20):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()
""",
    "masks, indices and in-place ops": """
x = torch.randn(6, 5)
y = x.clone()
y[y < 0] = 0
y[:, 0] += 3
y.mul_(2).clamp_(max=4)
best = y.argmax(1)
picked = y.gather(1, best[:, None]).round()
h = torch.stack([y[0], y[1] * 2]).softmax(-1).log()
""",
    "a variance by its own op": """
x = 1e4 + torch.randn(500)
v = x.var()
centred = (x.double() - x.double().mean()).float()
""",
    "a small number added on purpose": """
x = torch.rand(10) + 1
for _ in range(20):
    x = x / (x.norm() + 1e-12)
""",
    "gradients of halves, most of them 0": """
w = torch.ones(64).half().requires_grad_()
torch.relu(w * (torch.arange(64) % 4 - 2).half()).sum().backward()
""",
    "a chaotic map": """
x = torch.full((4,), 0.3)
for _ in range(200):
    x = 3.9 * x * (1 - x)
""",
}


def space(library: str) -> dict[str, Any]:
    torch: Any = importlib.import_module(library)
    torch.manual_seed(0)
    return {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", LOSES)
def test_the_line_that_loses_digits(name: str, library: str, cell: Any) -> None:
    line, said, text = LOSES[name]
    record = cell(text, space(library), precision=True)
    found = [f for f in record.findings if f.kind == "precision"]
    assert found, record.checked
    assert said in found[0].message
    assert (found[0].line or 0) == line, found[0].message
    assert found[0].remedy


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", KEEPS)
def test_what_keeps_its_digits_is_left_in_peace(name: str, library: str, cell: Any) -> None:
    record = cell(KEEPS[name], space(library), precision=True)
    assert record.error is None
    assert [f.message for f in record.findings if f.kind == "precision"] == []
    assert record.checked.startswith("✓ Precision"), record.checked


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_cell_gives_what_it_gives_without(library: str, cell: Any) -> None:
    text = """
torch.manual_seed(1)
layer = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
out = [layer(torch.randn(8, 4)) for _ in range(3)]
drawn = torch.rand(3)
mean = layer[1].running_mean.clone()
"""
    ends = []
    for precision in (False, True):
        names = space(library)
        cell(text, names, precision=precision)
        ends.append([names["drawn"], names["mean"], *names["out"]])
    torch: Any = importlib.import_module(library)
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_an_op_that_cannot_run_again_is_counted(cell: Any) -> None:
    record = cell("x = core.ones(3000, 3000)\ny = x + 1\nz = (x[:3, :3] * 2).sum()", {"core": core}, precision=True)
    assert "Not compared: too large" in record.checked
