"""Slow cells, each by one idiom that lab/diagnose knows, and cells that come close and are as fast as they can be."""

from __future__ import annotations

from .planted_more import Planted

_ROADS = """
torch.manual_seed(0)
crossings = 1500
leads = torch.zeros(crossings, crossings)
leads[torch.randint(0, crossings, ({roads},)), torch.randint(0, crossings, ({roads},))] = 1.0
layer = nn.Linear(48, 48)
opt = torch.optim.SGD(layer.parameters(), lr=0.01)
traffic = torch.randn(crossings, 48)
for k in range(30):
    level = traffic
    for hop in range(3):
        level = torch.tanh(layer(leads @ level))
    opt.zero_grad()
    level.square().mean().backward()
    opt.step()
"""
PLANTED: dict[str, Planted] = {
    "roads as a full matrix": Planted("slow", (11,), _ROADS.format(roads=4500)),
    "passes through all turns so far": Planted(
        "slow",
        (11,),
        """
torch.manual_seed(0)
cell, head = nn.Linear(80, 64), nn.Linear(64, 4)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.01)
for k in range(4):
    h, loss = torch.zeros(64, 64), 0.0
    opt.zero_grad()
    for t in range(40):
        h = torch.tanh(cell(torch.cat([x, h], 1)))
        loss = loss + F.cross_entropy(head(h), labels)
        # the graph is needed again
        loss.backward(retain_graph=True)
    nn.utils.clip_grad_norm_(cell.parameters(), 1.0)
    opt.step()
""",
    ),
    "a bank grown by cat": Planted(
        "slow",
        (5,),
        """
model = nn.Linear(16, 128)
bank = torch.empty((0, 128))
with torch.no_grad():
    for k in range(400):
        bank = torch.cat([bank, model(x)])
print(bank.shape)
""",
    ),
    "one-hot rows times a matrix": Planted(
        "slow",
        (6,),
        """
table = nn.Linear(8000, 64, bias=False)
words = torch.arange(256) * 31
total = 0.0
for k in range(50):
    picked = F.one_hot(words, 8000).float()
    v = table(picked)
    total += v.sum().item()
print(total)
""",
    ),
    "a filter of thousands of taps": Planted(
        "slow",
        (5,),
        """
signal = torch.randn(4, 1, 30000)
taps = torch.randn(1, 1, 6000)
outs = []
for k in range(24):
    outs.append(F.conv1d(signal, taps))
print(len(outs))
""",
    ),
    "svd in full": Planted(
        "slow",
        (4,),
        """
data = torch.randn(1600, 12)
found = []
for k in range(24):
    U, S, Vh = torch.linalg.svd(data + k)
    found.append(S[0].item())
print(found)
""",
    ),
    "a softmax written out": Planted(
        "slow",
        (5,),
        """
scores = torch.randn(512, 512, requires_grad=True)
for k in range(100):
    scores.grad = None
    powers = torch.exp(scores - scores.max(-1, keepdim=True)[0])
    weights = powers / powers.sum(-1, keepdim=True)
    (weights * weights).sum().backward()
""",
    ),
    "a GELU written out": Planted(
        "slow",
        (3,),
        """
import math
def bend(t):
    return 0.5 * t * (1 + torch.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t ** 3)))
words = torch.randn(2048, 256, requires_grad=True)
for k in range(80):
    words.grad = None
    bend(words).sum().backward()
""",
    ),
    "pairs of rows, spread out": Planted(
        "slow",
        (4,),
        """
a, b = torch.randn(600, 64), torch.randn(500, 64)
found = []
for k in range(12):
    d = ((a[:, None] - b[None]) ** 2).sum(-1)
    found.append(d.min().item())
print(found)
""",
    ),
    "a hook in each call": Planted(
        "slow",
        (8,),
        """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
kept = {}
def keep(module, given, made):
    kept["out"] = made
    kept["size"] = made.detach().pow(2).mean().sqrt()
def look(batch):
    for layer in net[:1]:
        layer.register_forward_hook(keep)
    with torch.no_grad():
        net(batch)
    return kept["size"]
sizes = [look(x) for k in range(250)]
print(len(sizes))
""",
    ),
    "the search for NaN left on": Planted(
        "slow",
        (1,),
        """
torch.autograd.set_detect_anomaly(True)
model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for k in range(220):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
torch.autograd.set_detect_anomaly(False)
""",
    ),
    "a table of which few rows are read": Planted(
        "slow",
        (1,),
        """
table = nn.Embedding(100000, 32)
head = nn.Linear(32, 4)
optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=1e-2)
for k in range(200):
    optimizer.zero_grad()
    words = torch.randint(0, 100000, (64,))
    loss = F.cross_entropy(head(table(words)), labels)
    loss.backward()
    optimizer.step()
""",
    ),
    "gradients of each output by itself": Planted(
        "slow",
        (6,),
        """
net = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 12))
t = torch.linspace(0, 1, 100).unsqueeze(1).requires_grad_(True)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
def slopes(u):
    parts = []
    for i in range(12): parts.append(torch.autograd.grad(u[:, i].sum(), t, create_graph=True)[0])
    return torch.cat(parts, 1)
for k in range(80):
    u = net(t)
    loss = (slopes(u) + u).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "a step of the judge that goes back through the maker": Planted(
        "slow",
        (8,),
        """
maker = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
judge = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))
first, second = torch.optim.Adam(judge.parameters(), lr=1e-4), torch.optim.Adam(maker.parameters(), lr=1e-4)
real = torch.randn(64, 256)
for k in range(80):
    for _ in range(4):
        made = maker(torch.randn(64, 16))
        loss = F.softplus(judge(made)).mean() + F.softplus(-judge(real)).mean()
        first.zero_grad()
        loss.backward()
        first.step()
    loss = F.softplus(-judge(maker(torch.randn(64, 16)))).mean()
    second.zero_grad()
    loss.backward()
    second.step()
""",
    ),
    "a frozen part in each epoch": Planted(
        "slow",
        (11,),
        """
data = torch.randn(256, 256)
kinds = (data[:, 0] > 0).long()
base = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 512))
base.requires_grad_(False)
head = nn.Linear(512, 2)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
for epoch in range(25):
    order = torch.randperm(256)
    for part in order.split(64):
        with torch.no_grad():
            h = base(data[part])
        loss = F.cross_entropy(head(h), kinds[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    "a prefix that grows": Planted(
        "slow",
        (7,),
        """
table, layer, head = nn.Embedding(30, 32), nn.GRU(32, 96, batch_first=True), nn.Linear(96, 30)
def run(ids):
    return head(layer(table(ids))[0])
@torch.no_grad()
def write(ids, n):
    for _ in range(n):
        out = run(torch.tensor(ids).unsqueeze(0))
        ids.append(int(torch.argmax(out[0, -1])))
    return ids
print(len(write([1, 2, 3], 400)))
""",
    ),
    "one sample in each step": Planted(
        "slow",
        (5,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(6):
    for i in range(64):
        batch, kind = x[i : i + 1], labels[i : i + 1]
        loss = F.cross_entropy(model(batch), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    "a line that takes most of the time": Planted(
        "slow",
        (4,),
        """
values = torch.randn(400000)
found = []
for k in range(25):
    order = torch.sort(values + k)
    found.append(order[0][10].item())
print(len(found))
""",
    ),
    "a GRU written out": Planted(
        "slow",
        (10, 11, 12, 13),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.xz, self.hz, self.xn, self.hn = nn.Linear(6, 32), nn.Linear(32, 32), nn.Linear(6, 32), nn.Linear(32, 32)
    def forward(self, x):
        h = torch.zeros(x.size(0), 32)
        outs = []
        for t in range(x.size(1)):
            xt = x[:, t]
            z = torch.sigmoid(self.xz(xt) + self.hz(h))
            n = torch.tanh(self.xn(xt) + self.hn(z * h))
            h = (1 - z) * n + z * h
            outs.append(h)
        return torch.stack(outs, 1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
series = torch.randn(16, 80, 6)
for k in range(60):
    loss = (net(series) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "the same product in each step": Planted(
        "slow",
        (6,),
        """
graph = torch.randn(600, 600)
weight = nn.Linear(600, 4)
optimizer = torch.optim.SGD(weight.parameters(), lr=1e-6)
marks = torch.arange(600) % 4
for k in range(40):
    spread = graph @ graph
    loss = F.cross_entropy(weight(spread[:64]), marks[:64])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
}

HEALTHY: dict[str, str] = {
    "roads between many": _ROADS.format(roads=400_000),
    "a loss that begins anew in each turn": """
torch.manual_seed(0)
cell, head = nn.Linear(80, 64), nn.Linear(64, 4)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.01)
for k in range(4):
    h = torch.zeros(64, 64)
    opt.zero_grad()
    for t in range(40):
        h = torch.tanh(cell(torch.cat([x, h.detach()], 1)))
        loss = 0.0
        loss = loss + F.cross_entropy(head(h), labels)
        loss.backward()
    opt.step()
""",
    "samples of a policy beyond its mean": """
torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(16, 2), nn.Tanh())
opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
for k in range(5):
    dist = torch.distributions.Normal(actor(x), 2.0)
    a = dist.sample()
    loss = -(dist.log_prob(a).sum(1) * (a[:, 0] > 0).float()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a gradient for each task": """
weight = (0.05 * torch.randn(16, 64)).requires_grad_()
head = (0.1 * torch.randn(64, 4)).requires_grad_()
optimizer = torch.optim.Adam([weight, head], lr=1e-3)
for k in range(10):
    optimizer.zero_grad()
    total = 0.0
    for task in range(8):
        first = F.cross_entropy(torch.tanh((x + task) @ weight) @ head, labels)
        g, h = torch.autograd.grad(first, [weight, head], create_graph=True)
        total = total + F.cross_entropy(torch.tanh((x - task) @ (weight - 0.1 * g)) @ (head - 0.1 * h), labels)
    total.backward()
    optimizer.step()
""",
    "parts gathered in a list": """
model = nn.Linear(16, 128)
parts = []
with torch.no_grad():
    for k in range(400):
        parts.append(model(x + k))
bank = torch.cat(parts)
""",
    "a maker and a judge, detached": """
maker = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
judge = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))
first, second = torch.optim.Adam(judge.parameters(), lr=1e-4), torch.optim.Adam(maker.parameters(), lr=1e-4)
real = torch.randn(64, 256)
for k in range(40):
    made = maker(torch.randn(64, 16))
    loss = F.softplus(judge(made.detach())).mean() + F.softplus(-judge(real)).mean()
    first.zero_grad()
    loss.backward()
    first.step()
    loss = F.softplus(-judge(made)).mean()
    second.zero_grad()
    loss.backward()
    second.step()
""",
    "a whole batch in each step, and what it is right in": """
model = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
big, kinds = x.repeat(8, 1), labels.repeat(8)
for k in range(40):
    loss = F.cross_entropy(model(big), kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        right = (model(big).argmax(1) == kinds).float().mean().item()
""",
    "a decoder that goes on with its own words": """
table, cell, out = nn.Embedding(14, 40), nn.GRUCell(40, 40), nn.Linear(40, 14)
optimizer = torch.optim.Adam([*table.parameters(), *cell.parameters(), *out.parameters()], lr=1e-3)
target = torch.randint(1, 14, (32, 8))
for k in range(6):
    h, word, losses = torch.zeros(32, 40), torch.zeros(32).long(), []
    for t in range(target.size(1)):
        h = cell(table(word), h)
        z = out(h)
        losses.append(F.cross_entropy(z, target[:, t]))
        word = z.argmax(1)
    optimizer.zero_grad()
    torch.stack(losses).mean().backward()
    optimizer.step()
""",
    "a GRU layer that keeps its state": """
table, layer, head = nn.Embedding(30, 32), nn.GRU(32, 96, batch_first=True), nn.Linear(96, 30)
ids, state = [1], None
with torch.no_grad():
    for _ in range(60):
        out, state = layer(table(torch.tensor([[ids[-1]]])), state)
        ids.append(int(torch.argmax(head(out[0, -1]))))
""",
}
