"""Averages that begin at the wrong weights, groups that no optimizer gets, layers that nobody keeps, losses whose terms
do not go together; and what comes close to them."""

from __future__ import annotations

from .planted_more import Planted

_EMA = """
class EMA:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {{n: p.detach().clone() for n, p in model.named_parameters()}}
    @torch.no_grad()
    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n].mul_(self.decay).add_(p, alpha=1 - self.decay)

torch.manual_seed(0)
state = nn.Linear(16, 4).state_dict()
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
{first}
{second}
for step in range(6):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(model)
"""
_HALF = """
torch.manual_seed(0)
emb, out = nn.Embedding(50, 8){half}, nn.Linear(8, 4){half}
opt = torch.optim.Adam([*emb.parameters(), *out.parameters()], lr=1e-3{eps})
for step in range(6):
    loss = F.cross_entropy(out(emb(labels)).float(), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_VAE = """
torch.manual_seed(0)
data = torch.sigmoid(torch.randn(200, 3) @ torch.randn(3, 32))
enc, mu_of, log_of, dec = nn.Linear(32, 16), nn.Linear(16, 3), nn.Linear(16, 3), nn.Linear(3, 32)
parts = nn.ModuleList([enc, mu_of, log_of, dec])
opt = torch.optim.Adam(parts.parameters(), lr=1e-2)
for step in range(150):
    h = torch.relu(enc(data))
    mu, logvar = mu_of(h), log_of(h)
    z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
    back = torch.sigmoid(dec(z))
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1)
    loss = {recon} + kl.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_GROUPS = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
groups = []
group = {"params": [], "lr": 0.1}
for name, p in net.named_parameters():
    if name.startswith("0"):
        group["params"].append(p)
groups.append(group)
group = {"params": [], "lr": 0.01}
for name, p in net.named_parameters():
    if name.startswith("2"):
        group["params"].append(p)
LAST
opt = torch.optim.SGD(groups, lr=0.1)
for step in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_LAYER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(16, 8), nn.Linear(8, 4)
    def forward(self, t):
        h = {layer}(t)
        return self.out(torch.relu(h))

torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

PLANTED = {
    "an average that begins before the weights are loaded": Planted(
        "order", (14,), _EMA.format(first="ema = EMA(model)", second="model.load_state_dict(state)")
    ),
    "Adam's eps in float16": Planted("dtype", (3,), _HALF.format(half=".half()", eps="")),
    "a divergence summed beside a mean": Planted("loss", (12,), _VAE.format(recon="F.mse_loss(back, data)")),
    "a group of parameters that is left out": Planted("optimizer", (9, 12), _GROUPS.replace("LAST", "")),
    "a layer that is made and called in forward": Planted("optimizer", (6,), _LAYER.format(layer="nn.Linear(16, 8)")),
}

HEALTHY = {
    "an average that begins at the loaded weights": _EMA.format(
        first="model.load_state_dict(state)", second="ema = EMA(model)"
    ),
    "a model in float32 with Adam": _HALF.format(half="", eps=""),
    "a divergence beside a sum": _VAE.format(recon="F.mse_loss(back, data, reduction='sum') / len(data)"),
    "all groups of parameters": _GROUPS.replace("LAST", "groups.append(group)"),
    "a layer that is kept and called in forward": _LAYER.format(layer="self.inner"),
    "momentum contrast, whose key network follows": """
import copy
torch.manual_seed(0)
query = nn.Linear(16, 8)
key = copy.deepcopy(query)
for p in key.parameters():
    p.requires_grad_(False)
opt = torch.optim.SGD(query.parameters(), lr=0.1)
for step in range(6):
    a, b = F.normalize(query(x), dim=1), F.normalize(key(x + 0.1), dim=1)
    loss = F.cross_entropy(a @ b.T / 0.1, torch.arange(64))
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, q in zip(key.parameters(), query.parameters()):
            p.lerp_(q, 0.01)
""",
    "Reptile, which loads what it had before": """
import copy
torch.manual_seed(0)
net = nn.Linear(16, 4)
for task in range(4):
    before = copy.deepcopy(net.state_dict())
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        loss = F.cross_entropy(net(x), (labels + task) % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()
    after = net.state_dict()
    net.load_state_dict({k: before[k] + 0.5 * (after[k] - before[k]) for k in before})
""",
}
