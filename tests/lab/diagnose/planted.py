"""Cells with one mistake each, as people post them: the kind of finding that must come first, and its line.

`{F}` and the like are not needed: every cell sees `torch`, `nn`, `F`, `np`, `x` (64, 16), `labels` (64,) of four
classes and `y` (64,). The same texts run in PyTorch.
"""

from __future__ import annotations

from .cells import gathered
from .planted_batches import BATCHES
from .planted_callers import CALLERS
from .planted_errors import ERRORS
from .planted_facts import FACTS
from .planted_graph import GRAPH
from .planted_kept import KEPT
from .planted_layout import LAYOUT
from .planted_loops import LOOPS
from .planted_more import MORE, Planted
from .planted_once import ONCE
from .planted_scales import SCALES
from .planted_steps import STEPS
from .planted_values import VALUES

CELLS: dict[str, Planted] = {
    "no zero_grad": Planted(
        "zero-grad",
        (6,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    out = model(x)
    loss = F.cross_entropy(out, labels)
    loss.backward()
    optimizer.step()
""",
    ),
    "zero_grad after backward": Planted(
        "zero-grad",
        (6,),
        """
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
""",
    ),
    "no backward": Planted(
        "optimizer",
        (6,),
        """
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    optimizer.step()
print(loss.item())
""",
    ),
    "the optimizer of an older model": Planted(
        "optimizer",
        (8,),
        """
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
for epoch in range(10):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
""",
    ),
    "a head added after the optimizer": Planted(
        "optimizer",
        (7,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 32)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model.head = nn.Linear(32, 4)
for epoch in range(5):
    optimizer.zero_grad()
    loss = F.cross_entropy(model.head(torch.relu(model.body(x))), labels)
    loss.backward()
    optimizer.step()
""",
    ),
    "predictions (N, 1) against targets (N,)": Planted(
        "broadcast",
        (6,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(20):
    optimizer.zero_grad()
    pred = model(x)
    loss = ((pred - y) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
    ),
    "mse_loss of two shapes": Planted(
        "broadcast",
        (4,),
        """
import warnings; warnings.simplefilter("ignore")
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss = F.mse_loss(model(x), y)
loss.backward()
optimizer.step()
""",
    ),
    "softmax before cross_entropy": Planted(
        "loss",
        (4,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "sigmoid before the loss with logits": Planted(
        "loss",
        (5,),
        """
model = nn.Linear(16, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    p = torch.sigmoid(model(x)).squeeze(1)
    loss = F.binary_cross_entropy_with_logits(p, (y > 0).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "nll_loss of raw scores": Planted(
        "loss",
        (4,),
        """
model = nn.Linear(16, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(20):
    loss = F.nll_loss(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "eval() and never train() again": Planted(
        "mode",
        (5,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model.train()
for epoch in range(6):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == labels).float().mean().item()
""",
    ),
    "judged in training mode": Planted(
        "mode",
        (9,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    accuracy = (model(x).argmax(1) == labels).float().mean().item()
print(accuracy)
""",
    ),
    "total_loss += loss": Planted(
        "memory",
        (7,),
        """
model = nn.Linear(16, 4)
total = 0
for i in range(0, 64, 8):
    model.zero_grad()
    loss = F.cross_entropy(model(x[i : i + 8]), labels[i : i + 8])
    loss.backward()
    total += loss
print(float(total) / 8)
""",
    ),
    "a list of losses with their graphs": Planted(
        "memory",
        (5,),
        """
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
losses = []
for i in range(0, 64, 8):
    loss = F.cross_entropy(model(x[i : i + 8]), labels[i : i + 8])
    losses.append(loss)
print(sum(l.item() for l in losses))
""",
    ),
    "a learning rate far too large": Planted(
        "learning-rate",
        (7,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x).squeeze(1), y)
    loss.backward()
    optimizer.step()
""",
    ),
    "a cut through numpy": Planted(
        "cut",
        (3,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
head = nn.Linear(32, 4)
hidden = torch.from_numpy(np.tanh(model(x).detach().numpy()))
loss = F.cross_entropy(head(hidden), labels)
loss.backward()
""",
    ),
    "a loss made anew from its value": Planted(
        "cut",
        (3,),
        """
model = nn.Linear(16, 4)
loss = F.cross_entropy(model(x), labels)
loss = torch.tensor(loss.item(), requires_grad=True)
loss.backward()
""",
    ),
    "argmax inside the loss": Planted(
        "cut",
        (3,),
        """
model = nn.Linear(16, 4)
head = nn.Linear(1, 1)
chosen = model(x).argmax(dim=1).float().unsqueeze(1)
loss = ((head(chosen) - labels.float().unsqueeze(1)) ** 2).mean()
loss.backward()
""",
    ),
    "no_grad around the forward pass": Planted(
        "cut",
        (4, 3),
        """
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.no_grad():
    out = model(x)
loss = F.cross_entropy(out, labels)
loss.backward()
""",
    ),
    "a layer that forward forgets": Planted(
        "no-gradient",
        (11,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        return self.c(torch.relu(self.a(x)))
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    optimizer.zero_grad()
    F.cross_entropy(model(x), labels).backward()
    optimizer.step()
""",
    ),
    "the log of zero": Planted(
        "nan",
        (3,),
        """
model = nn.Sequential(nn.Linear(16, 8), nn.ReLU())
p = model(x)
loss = -torch.log(p).mean()
loss.backward()
""",
    ),
    "a root at zero": Planted(
        "nan",
        (3,),
        """
w = torch.zeros(16, requires_grad=True)
d = x @ w
r = torch.sqrt(d * d)
loss = (r - y).abs().mean()
loss.backward()
""",
    ),
    "an in-place change of what backward needs": Planted(
        "error",
        (4,),
        """
w = torch.randn(16, 4, requires_grad=True)
h = torch.exp(x @ w * 0.1)
s = h.sum()
h += 1
(s + h.mean()).backward()
""",
    ),
    "backward twice": Planted(
        "error",
        (5,),
        """
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = F.cross_entropy(model(x), labels)
loss.backward()
loss.backward()
""",
    ),
    "sigmoids all the way down": Planted(
        "vanishing",
        (4,),
        """
layers = [m for _ in range(12) for m in (nn.Linear(16, 16), nn.Sigmoid())]
model = nn.Sequential(*layers, nn.Linear(16, 4))
for epoch in range(3):
    loss = F.cross_entropy(model(x), labels)
    model.zero_grad()
    loss.backward()
""",
    ),
    "weights far too large": Planted(
        "exploding",
        (4, 5),
        """
ws = [torch.randn(16, 16) * 6 for _ in range(8)]
ws = [w.requires_grad_() for w in ws]
h = x
for w in ws: h = torch.relu(h @ w)
loss = (h.mean(1) - y).square().mean()
loss.backward()
""",
    ),
    "a leaf that is made anew": Planted(
        "error",
        (6,),
        """
w = torch.randn(16, 4, requires_grad=True)
for epoch in range(3):
    loss = F.cross_entropy(x @ w, labels)
    loss.backward()
    with torch.enable_grad():
        w = w - 0.1 * w.grad
""",
    ),
    "data in float64": Planted(
        "dtype",
        (5,),
        """
w = torch.randn(16, 1, requires_grad=True)
data = torch.tensor(np.random.default_rng(0).standard_normal((64, 16)))
optimizer = torch.optim.SGD([w], lr=0.01)
for epoch in range(3):
    loss = ((data * w.squeeze(1)).sum(1) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
}

CELLS |= MORE | LOOPS | SCALES | ONCE | GRAPH | ERRORS | VALUES | KEPT | LAYOUT | STEPS | BATCHES | FACTS | CALLERS
CELLS |= gathered("PLANTED")
