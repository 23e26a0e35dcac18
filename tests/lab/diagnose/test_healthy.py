"""Healthy training cells of many kinds: no finding at all."""

from __future__ import annotations

from typing import Any

import pytest

from .cells import gathered
from .healthy_loops import LOOPS
from .healthy_more import MORE
from .healthy_odd import ODD
from .healthy_published import PUBLISHED

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
    "a head that begins at zero": """
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
nn.init.zeros_(model[4].weight)
optimizer = core.optim.SGD(model.parameters(), lr=1e-2)
for i in range(10):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
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
    "a convolutional network with batch norm": """
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                      nn.Flatten(), nn.Linear(32, 4))
optimizer = core.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = core.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
images = x.reshape(64, 1, 4, 4)
for epoch in range(6):
    model.train()
    for i in range(0, 64, 16):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(images[i : i + 16]), labels[i : i + 16])
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    with core.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
""",
    "a GPT step": """
class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(0.1))
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.reshape(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.n1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(30, 32), nn.Embedding(12, 32)
        self.blocks = nn.Sequential(*[Block(32, 4) for _ in range(3)])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 30)
    def forward(self, i):
        return self.head(self.norm(self.blocks(self.tok(i) + self.pos(core.arange(i.shape[1])))))
model = GPT()
optimizer = core.optim.AdamW(model.parameters(), lr=1e-3)
words = core.randint(0, 30, (8, 13))
for step in range(4):
    logits = model(words[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 30), words[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
""",
    "a GAN with batch norm": """
maker = nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
judge = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(32, 1))
make = core.optim.Adam(maker.parameters(), lr=2e-4, betas=(0.5, 0.999))
decide = core.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
real, fake = core.ones(64, 1), core.zeros(64, 1)
for step in range(4):
    with core.no_grad():
        made = maker(core.randn(64, 4))
    decide.zero_grad()
    loss_d = F.binary_cross_entropy_with_logits(judge(x), real) + F.binary_cross_entropy_with_logits(judge(made), fake)
    loss_d.backward()
    decide.step()
    make.zero_grad()
    loss_g = F.binary_cross_entropy_with_logits(judge(maker(core.randn(64, 4))), real)
    loss_g.backward()
    make.step()
    print(loss_d.item(), loss_g.item())
""",
    "a VAE": """
encode, decode = nn.Linear(16, 8), nn.Linear(4, 16)
optimizer = core.optim.Adam([*encode.parameters(), *decode.parameters()], lr=1e-3)
for step in range(5):
    mean, log_var = encode(x).chunk(2, 1)
    z = mean + core.randn_like(mean) * (0.5 * log_var).exp()
    loss = F.mse_loss(decode(z), x) - 0.5 * (1 + log_var - mean**2 - log_var.exp()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a frozen backbone in evaluation mode": """
backbone = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU()).eval()
for p in backbone.parameters():
    p.requires_grad_(False)
head = nn.Linear(32, 4)
optimizer = core.optim.Adam(head.parameters(), lr=1e-2)
for step in range(4):
    loss = F.cross_entropy(head(backbone(x)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "batch norm frozen inside a model that trains": """
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
optimizer = core.optim.Adam(model.parameters(), lr=1e-3)
model.train()
model[1].eval()
for step in range(4):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a teacher and its student": """
teacher, student = (nn.Sequential(nn.Linear(16, n), nn.ReLU(), nn.Dropout(0.1), nn.Linear(n, 4)) for n in (64, 8))
teacher.eval()
optimizer = core.optim.Adam(student.parameters(), lr=1e-3)
for step in range(4):
    with core.no_grad():
        soft = F.softmax(teacher(x) / 2.0, dim=1)
    loss = F.kl_div(F.log_softmax(student(x) / 2.0, dim=1), soft, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a contrastive loss over all pairs": """
model = nn.Linear(16, 8)
optimizer = core.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    z = F.normalize(model(x), dim=1)
    distances = (z[:, None] - z[None, :]).square().sum(-1)
    same = labels[:, None] == labels[None, :]
    loss = core.where(same, distances, F.relu(1 - distances)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "the mean over the samples of a dropout network": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
with core.no_grad():
    samples = core.stack([F.softmax(model(x), 1) for _ in range(8)])
mean, spread = samples.mean(0), samples.std(0)
""",
    "losses kept as numbers": """
model = nn.Linear(16, 4)
optimizer = core.optim.SGD(model.parameters(), lr=0.1)
losses, total = [], 0.0
for i in range(0, 64, 8):
    loss = F.cross_entropy(model(x[i : i + 8]), labels[i : i + 8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    losses.append(loss.detach())
""",
    "a loss over time steps that is summed": """
model = nn.Linear(16, 16)
optimizer = core.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    state, total = x, 0
    for t in range(6):
        state = core.tanh(model(state))
        total = total + (state - x).square().mean()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
""",
}

CELLS |= MORE | LOOPS | PUBLISHED | ODD | gathered("HEALTHY")


TIMED = {("note", "overhead"), ("note", "slow")}


@pytest.mark.parametrize("name", CELLS)
def test_no_false_alarm(cell: Any, space: Space, name: str) -> None:
    record = cell(CELLS[name], {**space, "y": space["x"][:, 0] * 0.5})
    assert record.error is None, record.error
    told = [f for f in record.findings if f.severity != "note" or f.reads or name not in MORE | LOOPS | PUBLISHED | ODD]
    # what the clock alone decides, as a note: whether a small cell's ops are short beside Python hangs on the machine
    assert [f.message for f in told if (f.severity, f.kind) not in TIMED] == []
    assert record.ops
    assert sum(r.forward_ms + r.backward_ms for r in record.lines) == pytest.approx(record.ops_ms, rel=0.10)
