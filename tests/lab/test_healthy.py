"""Healthy training cells of many kinds: no finding at all."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]

CELLS = {
    "an MLP with AdamW, validated as it goes": """
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4))
optimizer = core.optim.AdamW(model.parameters(), lr=1e-2)
history, best = [], float("inf")
for epoch in range(20):
    model.train()
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with core.no_grad():
        right = (model(x).argmax(1) == labels).float().mean().item()
    history.append(loss.item())
    best = min(best, history[-1])
""",
    "layer norm and an embedding": """
table = nn.Embedding(50, 16)
model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 4))
optimizer = core.optim.AdamW([*table.parameters(), *model.parameters()], lr=1e-2)
words = core.arange(64) % 50
for i in range(10):
    loss = F.cross_entropy(model(table(words)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "plain gradient descent by hand": """
W, b = P(16, 4), core.zeros(4, requires_grad=True)
for i in range(30):
    loss = F.cross_entropy(x @ W + b, labels)
    loss.backward()
    with core.no_grad():
        for p in (W, b):
            p -= 0.1 * p.grad
            p.grad = None
""",
    "a recurrent network": """
U, V, out = P(16, 16), P(16, 16), P(16, 4)
for epoch in range(3):
    h = core.zeros(64, 16)
    for t in range(8):
        h = core.tanh(h @ U + x @ V)
    F.cross_entropy(h @ out, labels).backward()
""",
    "a frozen part under no_grad": """
body, head = nn.Linear(16, 8), nn.Linear(8, 4)
optimizer = core.optim.SGD(head.parameters(), lr=0.1)
for i in range(5):
    with core.no_grad():
        features = body(x)
    loss = F.cross_entropy(head(features), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a part frozen by requires_grad_": """
body, head = nn.Linear(16, 8), nn.Linear(8, 4)
for p in body.parameters():
    p.requires_grad_(False)
for i in range(5):
    F.cross_entropy(head(core.tanh(body(x))), labels).backward()
""",
    "two networks against each other": """
maker, judge = nn.Linear(16, 16), nn.Linear(16, 1)
make, decide = core.optim.AdamW(maker.parameters(), lr=1e-3), core.optim.AdamW(judge.parameters(), lr=1e-3)
for i in range(5):
    fake = maker(core.randn(64, 16))
    loss = F.softplus(-judge(x)).mean() + F.softplus(judge(fake.detach())).mean()
    decide.zero_grad()
    loss.backward()
    decide.step()
    loss = F.softplus(-judge(fake)).mean()
    make.zero_grad()
    loss.backward()
    make.step()
""",
    "gradients gathered over small batches": """
model = nn.Linear(16, 4)
optimizer = core.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    for part in range(4):
        rows = slice(16 * part, 16 * part + 16)
        (F.cross_entropy(model(x[rows]), labels[rows]) / 4).backward()
    optimizer.step()
""",
    "a gradient penalty": """
W, V = P(16, 8), P(8, 1)
z = x.clone().requires_grad_()
score = (core.tanh(z @ W) @ V).sum()
(g,) = core.autograd.grad(score, z, create_graph=True)
((g.square().sum(1) + 1e-12).sqrt() - 1).square().mean().backward()
""",
    "a loss that is a sum": """
W = P(16, 4)
for i in range(5):
    ((x @ W - 1) ** 2).sum().backward()
""",
    "a hundred steps to convergence": """
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
optimizer = core.optim.AdamW(model.parameters(), lr=1e-2)
for i in range(100):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a custom function": """
class Cube(core.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a * a
    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * 3 * a * a
W = P(16, 4)
Cube.apply(x @ W).mean().backward()
""",
    "a moving average of the weights": """
model, shadow = nn.Linear(16, 4), nn.Linear(16, 4)
optimizer = core.optim.SGD(model.parameters(), lr=0.1)
for i in range(5):
    optimizer.zero_grad()
    F.cross_entropy(model(x), labels).backward()
    optimizer.step()
    with core.no_grad():
        for p, q in zip(model.parameters(), shadow.parameters()):
            q.mul_(0.9).add_(0.1 * p)
""",
    "a parameter used twice": """
W = P(16, 16)
h = core.tanh(x @ W)
F.mse_loss(h @ W.T, x).backward()
""",
    "evaluation alone": """
model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
with core.no_grad():
    right = (model(x).argmax(1) == labels).float().mean().item()
""",
}


@pytest.mark.parametrize("name", CELLS)
def test_no_false_alarm(cell: Any, space: Space, name: str) -> None:
    record = cell(CELLS[name], space)
    assert record.error is None, record.error
    assert [f.message for f in record.findings] == []
    assert record.ops
    assert sum(r.forward_ms + r.backward_ms for r in record.lines) == pytest.approx(record.ops_ms, rel=0.10)
