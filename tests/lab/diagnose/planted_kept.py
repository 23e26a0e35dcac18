"""Cells that keep the graphs of earlier iterations, each in another container, and cells that freeze the wrong way."""

from __future__ import annotations

from .planted_more import Planted

KEPT: dict[str, Planted] = {
    "a history on self": Planted(
        "memory",
        (14,),
        """
class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.Adam(net.parameters(), lr=1e-3)
        self.log = {"loss": [], "acc": []}

    def fit(self, X, y):
        for i in range(12):
            out = self.net(X)
            loss = F.cross_entropy(out, y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.log["loss"].append(loss)
            self.log["acc"].append((out.argmax(1) == y).float().mean().item())

torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
t = Trainer(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)))
t.fit(X, y)
""",
    ),
    "a defaultdict that a function returns": Planted(
        "memory",
        (9,),
        """
from collections import defaultdict
def fit(net, X, y, epochs=10):
    history = defaultdict(list)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for ep in range(epochs):
        for i in range(0, 64, 16):
            loss = F.cross_entropy(net(X[i:i+16]), y[i:i+16])
            opt.zero_grad(); loss.backward(); opt.step()
            history["train"].append(loss)
    return history
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
h = fit(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), X, y)
""",
    ),
    "a field of a dataclass": Planted(
        "memory",
        (8,),
        """
from dataclasses import dataclass, field
@dataclass
class Metrics:
    losses: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    def update(self, loss, out):
        self.losses.append(loss.item())
        self.outputs.append(out)
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
m = Metrics()
for ep in range(5):
    for i in range(0, 64, 16):
        out = net(X[i:i+16])
        loss = F.cross_entropy(out, y[i:i+16])
        opt.zero_grad(); loss.backward(); opt.step()
        m.update(loss, out)
""",
    ),
    "a list in a closure": Planted(
        "memory",
        (4,),
        """
def make_logger():
    seen = []
    def log(v):
        seen.append(v)
        return len(seen)
    return log
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
log = make_logger()
for ep in range(12):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
    log(loss)
""",
    ),
    "a deque": Planted(
        "memory",
        (10,),
        """
from collections import deque
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
recent = deque(maxlen=100)
for ep in range(30):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
    recent.append(loss)
    if ep % 10 == 0: print(sum(recent) / len(recent))
""",
    ),
    "tuples in a list": Planted(
        "memory",
        (9,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
rows = []
for ep in range(12):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
    rows.append((ep, loss, 0.5))
""",
    ),
    "a global dictionary of dictionaries": Planted(
        "memory",
        (6,),
        """
LOG = {"train": {"loss": []}, "val": {"loss": []}}
def train(net, opt, X, y):
    for i in range(12):
        loss = F.cross_entropy(net(X), y)
        opt.zero_grad(); loss.backward(); opt.step()
        LOG["train"]["loss"].append(loss)
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
train(net, torch.optim.Adam(net.parameters(), lr=1e-3), X, y)
""",
    ),
    "a meter on an object": Planted(
        "memory",
        (4,),
        """
class AverageMeter:
    def __init__(self): self.sum, self.count = 0.0, 0
    def update(self, val, n=1):
        self.sum += val * n
        self.count += n
    @property
    def avg(self): return self.sum / self.count
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
meter = AverageMeter()
for ep in range(12):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
    meter.update(loss, 64)
print(meter.avg)
""",
    ),
    "a dictionary by epoch": Planted(
        "memory",
        (10,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
results = {}
for ep in range(12):
    out = net(X)
    loss = F.cross_entropy(out, y)
    opt.zero_grad(); loss.backward(); opt.step()
    results[ep] = {"loss": loss, "preds": out.argmax(1)}
""",
    ),
    "predictions of an evaluation on self": Planted(
        "memory",
        (7,),
        """
class Eval:
    def __init__(self, model):
        self.model, self.preds = model, []
    def run(self, loader):
        self.model.eval()
        for xb, yb in loader:
            self.preds.append(self.model(xb))
        return torch.cat(self.preds).argmax(1)
torch.manual_seed(0)
X, y = torch.randn(200, 8), torch.randint(0, 3, (200,))
e = Eval(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)))
p = e.run(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 10))
""",
    ),
    "activations that a hook keeps": Planted(
        "memory",
        (5,),
        """
torch.manual_seed(0)
X = torch.randn(64, 8)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
feats = []
hook = net[1].register_forward_hook(lambda m, i, o: feats.append(o))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for ep in range(12):
    loss = net(X).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "frozen again where it should thaw": Planted(
        "no-gradient",
        (13,),
        """
def freeze(m, flag=True):
    for p in m.parameters():
        p.requires_grad = not flag
torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(9, 20), nn.ReLU())
head = nn.Linear(20, 2)
net = nn.Sequential(backbone, head)
freeze(backbone)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(36, 9), torch.randint(0, 2, (36,))
for epoch in range(6):
    if epoch == 3:
        freeze(backbone, True)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "requires_grad_(False) where it should thaw": Planted(
        "no-gradient",
        (10,),
        """
torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(9, 20), nn.ReLU())
head = nn.Linear(20, 2)
net = nn.Sequential(backbone, head)
backbone.requires_grad_(False)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(36, 9), torch.randint(0, 2, (36,))
for epoch in range(6):
    if epoch == 2:
        backbone.requires_grad_(False)  # unfreeze
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a misspelt requires_grad": Planted(
        "no-gradient",
        (4,),
        """
torch.manual_seed(0)
backbone, head = nn.Linear(9, 20), nn.Linear(20, 2)
for p in backbone.parameters():
    p.require_grad = False
opt = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.05)
x, y = torch.randn(36, 9), torch.randint(0, 2, (36,))
for epoch in range(6):
    loss = F.cross_entropy(head(torch.relu(backbone(x))), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "requires_grad of a module": Planted(
        "no-gradient",
        (3,),
        """
torch.manual_seed(0)
backbone, head = nn.Linear(9, 20), nn.Linear(20, 2)
backbone.requires_grad = False
opt = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.05)
x, y = torch.randn(36, 9), torch.randint(0, 2, (36,))
for epoch in range(6):
    loss = F.cross_entropy(head(torch.relu(backbone(x))), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
}
