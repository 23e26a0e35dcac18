"""Causes that lie beside the line that fails: derivatives without a graph, products that underflow, slopes that are
infinite, the target with one dimension too many; and cells that look like a mistake in one way alone."""

from __future__ import annotations

from .planted_more import Planted

_TRAINS = "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"

PLANTED = {
    "the bending of a beam without the graph of its slope": Planted(
        "no-gradient",
        (4,),
        """
beam = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(beam.parameters(), lr=1e-3)
def along(height, at):
    return torch.autograd.grad(height.sum(), at, retain_graph=True)[0]
for step in range(3):
    at = torch.linspace(0, 1, 20)[:, None].requires_grad_()
    slope = along(beam(at), at)
    bending = along(slope, at)
    loss = (bending + 1).pow(2).mean()
"""
        + _TRAINS,
    ),
    "ages as a column in a batch": Planted(
        "broadcast",
        (5,),
        """
model = nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=1e-2)
batch = {"scan": x, "age": y.view(64, 1)}
for step in range(4):
    loss = (batch["age"] - model(batch["scan"]).squeeze(-1)).pow(2).mean()
"""
        + _TRAINS,
    ),
    "the angle between two directions that are one": Planted(
        "nan",
        (7,),
        """
torch.manual_seed(0)
turn = nn.Linear(3, 3, bias=False)
nn.init.eye_(turn.weight)
opt = torch.optim.SGD(turn.parameters(), lr=1e-2)
wind = torch.eye(3).repeat(4, 1)
for step in range(3):
    loss = torch.acos((turn(wind) * wind).sum(1)).mean()
"""
        + _TRAINS,
    ),
    "the likelihood of a long series of throws": Planted(
        "nan",
        (9,),
        """
torch.manual_seed(0)
sides = nn.Parameter(torch.zeros(6))
opt = torch.optim.SGD([sides], lr=1e-2)
throws = torch.randint(0, 6, (8, 90))
for step in range(2):
    seen = torch.ones(8)
    for k in range(90):
        seen = seen * sides.softmax(0)[throws[:, k]]
    loss = -torch.log(seen).mean()
"""
        + _TRAINS,
    ),
    "a memory that is None before the first day": Planted(
        "error",
        (8,),
        """
days = nn.GRU(16, 8, batch_first=True)
opt = torch.optim.Adam(days.parameters(), lr=1e-3)
memory = None
for step in range(3):
    told, memory = days(x.view(4, 16, 16), memory)
    loss = told.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a restorer that is told the place in its plan": Planted(
        "loss",
        (15,),
        """
torch.manual_seed(0)
kept = torch.cumprod(1 - torch.linspace(1e-4, 0.05, 100), 0)
net = nn.Sequential(nn.Linear(17, 32), nn.SiLU(), nn.Linear(32, 16))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
def model(noisy, t):
    return net(torch.cat([noisy, t[:, None] / 100], 1))
plan = torch.arange(9, 100, 10)
clean = kept[plan]
def restore(noisy):
    for k in reversed(range(len(plan))):
        at = torch.full((64,), k)
        before = clean[k - 1] if k else torch.ones(())
        with torch.no_grad():

            noise = model(noisy, at)
        start = (noisy - (1 - clean[k]).sqrt() * noise) / clean[k].sqrt()
        noisy = before.sqrt() * start + (1 - before).sqrt() * noise
    return noisy
for step in range(3):
    t = torch.randint(0, 100, (64,))
    noise, share = torch.randn(64, 16), kept[t][:, None]
    loss = (model(share.sqrt() * x + (1 - share).sqrt() * noise, t) - noise).pow(2).mean()
"""
        + _TRAINS
        + "restored = restore(torch.randn(64, 16))\n",
    ),
}

_PLAN = PLANTED["a restorer that is told the place in its plan"].text

HEALTHY = {
    "a restorer that is told its step": _PLAN.replace("(64,), k)", "(64,), int(plan[k]))"),
    "a mean that follows what it has seen": """
torch.manual_seed(0)
gain = nn.Parameter(torch.tensor(0.2))
opt = torch.optim.SGD([gain], lr=1e-2)
seen = torch.randn(40, 8)
for step in range(3):
    mean, loss = torch.zeros(8), 0.0
    for now in seen:
        off = now - mean
        loss = loss + off.pow(2).mean()
        mean = mean + gain * off
"""
    + _TRAINS,
    "a value between two layers that is a target as well": """
torch.manual_seed(0)
class Twins(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 12), nn.BatchNorm1d(12, affine=False))
        self.guess = nn.Linear(12, 12)
    def forward(self, one, other):
        a, b = self.look(one), self.look(other)
        return self.guess(a), self.guess(b), a.detach(), b.detach()
net = Twins()
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
for step in range(4):
    p, q, a, b = net(x + 0.1 * torch.randn(64, 16), x + 0.1 * torch.randn(64, 16))
    loss = -(F.cosine_similarity(p, b).mean() + F.cosine_similarity(q, a).mean()) / 2
"""
    + _TRAINS,
    "colours of one seed for two sets of pictures": """
torch.manual_seed(0)
def pictures(n):
    kinds = torch.randint(0, 4, (n,))
    colours = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    return colours[kinds] + 0.5 * torch.randn(n, 16), kinds
train_x, train_y = pictures(64)
test_x, test_y = pictures(32)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = F.cross_entropy(net(train_x), train_y)
"""
    + _TRAINS
    + """
with torch.no_grad():
    right = (net(test_x).argmax(1) == test_y).float().mean()
""",
}
