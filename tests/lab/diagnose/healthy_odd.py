"""Healthy cells that come close to what a rule takes for proof by the text alone; see test_healthy.py."""

from __future__ import annotations

ODD = {
    "a sum that begins with given numbers": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
total = torch.FloatTensor([0, 0])
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    total += torch.tensor([loss.item(), 1.0])
""",
    "a sum that begins with an array of zeros": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
import numpy as np
total = torch.Tensor(np.zeros(2))
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    total += torch.tensor([loss.item(), 1.0])
""",
    "empty memory that another call fills": """
buf = torch.empty(5)
torch.arange(5, out=buf)
buf += 1
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "an item that is copied and changed": """
Dataset, DataLoader = torch.utils.data.Dataset, torch.utils.data.DataLoader
class D(Dataset):
    def __init__(self): self.data, self.labels = x.numpy().copy(), labels
    def __len__(self): return 64
    def __getitem__(self, i):
        sample = self.data[i].copy()
        sample += 0.1
        return torch.from_numpy(sample), self.labels[i]
loader = DataLoader(D(), 16, shuffle=True)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "two rows of the stored array, taken by a list": """
Dataset, DataLoader = torch.utils.data.Dataset, torch.utils.data.DataLoader
class D(Dataset):
    def __init__(self): self.data, self.labels = x.numpy().copy(), labels
    def __len__(self): return 64
    def __getitem__(self, i):
        sample = self.data[[i, (i + 1) % 64]]
        sample *= 0.5
        return torch.from_numpy(sample.sum(0)), self.labels[i]
loader = DataLoader(D(), 16, shuffle=True)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "an item of another dtype, changed in place": """
Dataset, DataLoader = torch.utils.data.Dataset, torch.utils.data.DataLoader
import numpy as np
class D(Dataset):
    def __init__(self): self.data, self.labels = (x.numpy() * 20).astype(np.int16), labels
    def __len__(self): return 64
    def __getitem__(self, i):
        sample = self.data[i].astype(np.float32)
        sample -= 3.0
        sample /= 20.0
        return torch.from_numpy(sample), self.labels[i]
loader = DataLoader(D(), 16, shuffle=True)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the goal is another column of the window's end": """
series = torch.randn(200, 17)
windows = torch.stack([series[i:i + 8, :16].reshape(-1) for i in range(100)])
goal = torch.stack([series[i + 7, 16] for i in range(100)])
net = nn.Linear(128, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for k in range(6):
    loss = F.mse_loss(net(windows).squeeze(1), goal)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the label of the window's end": """
Dataset, DataLoader = torch.utils.data.Dataset, torch.utils.data.DataLoader
class W(Dataset):
    def __init__(self, feats, tags, T=8): self.feats, self.tags, self.T = feats, tags, T
    def __len__(self): return len(self.feats) - self.T + 1
    def __getitem__(self, i):
        return self.feats[i:i + self.T], self.tags[i + self.T - 1]
data = W(torch.randn(200, 4), torch.randint(0, 3, (200,)))
net = nn.GRU(4, 16, batch_first=True); head = nn.Linear(16, 3)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)
for xb, yb in DataLoader(data, 32, shuffle=True):
    loss = F.cross_entropy(head(net(xb)[0][:, -1]), yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the clean value at the noisy window's end": """
Dataset, DataLoader = torch.utils.data.Dataset, torch.utils.data.DataLoader
class W(Dataset):
    def __init__(self, noisy, clean, T=8): self.noisy, self.clean, self.T = noisy, clean, T
    def __len__(self): return len(self.noisy) - self.T + 1
    def __getitem__(self, i):
        return self.noisy[i:i + self.T], self.clean[i + self.T - 1]
clean = torch.sin(torch.arange(200.) / 5)[:, None]
data = W(clean + 0.3 * torch.randn(200, 1), clean)
net = nn.GRU(1, 16, batch_first=True); head = nn.Linear(16, 1)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)
for xb, yb in DataLoader(data, 32, shuffle=True):
    loss = F.mse_loss(head(net(xb)[0][:, -1]), yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a table drawn anew, its padding set to zero again": """
words = torch.randint(0, 20, (64, 5))
words[:, 3:] = 0
emb = nn.Embedding(20, 8, padding_idx=0)
nn.init.normal_(emb.weight, 0, 0.1)
nn.init.constant_(emb.weight[0], 0)
head = nn.Linear(8, 4)
opt = torch.optim.SGD([*emb.parameters(), *head.parameters()], lr=0.1)
for k in range(4):
    mask = (words != 0).unsqueeze(-1).float()
    loss = F.cross_entropy(head((emb(words) * mask).sum(1) / mask.sum(1)), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a table drawn anew, whose padding a mask leaves out": """
words = torch.randint(0, 20, (64, 5))
words[:, 3:] = 0
emb = nn.Embedding(20, 8, padding_idx=0)
emb.weight.data.uniform_(-0.1, 0.1)
head = nn.Linear(8, 4)
opt = torch.optim.SGD([*emb.parameters(), *head.parameters()], lr=0.1)
for k in range(4):
    mask = (words != 0).unsqueeze(-1).float()
    loss = F.cross_entropy(head((emb(words) * mask).sum(1) / mask.sum(1)), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a function of the first batch": """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
loader = DataLoader(TensorDataset(x, labels), 16, shuffle=True)
@torch.no_grad()
def one_batch_check(net, loader):
    for batch in loader:
        xb, yb = batch
        out = net(xb)
        return F.cross_entropy(out, yb).item()
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
print(one_batch_check(net, loader))
""",
    "an endless loader": """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
loader = DataLoader(TensorDataset(x, labels), 16, shuffle=True)
class Endless:
    def __init__(self, loader): self.loader, self.it = loader, iter(loader)
    def next(self):
        while True:
            try:
                return next(self.it)
            except StopIteration:
                self.it = iter(self.loader)
data = Endless(loader)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(9):
    xb, yb = data.next()
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the mean of a dict of losses": """
heads = nn.ModuleDict({'a': nn.Linear(16, 4), 'b': nn.Linear(16, 4)})
opt = torch.optim.SGD(heads.parameters(), lr=0.1)
for k in range(5):
    losses = {n: F.cross_entropy(h(x), labels) for n, h in heads.items()}
    loss = sum(losses.values()) / len(losses)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a rate of 1 times the rates themselves": """
net = nn.Linear(16, 4)
opt = torch.optim.Adam(net.parameters(), lr=1.0)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 32 ** -0.5 * min((s + 1) ** -0.5, (s + 1) * 5 ** -1.5))
for k in range(20):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
""",
    "the base of a wrapper is scheduled": """
class Lookahead:
    def __init__(self, base, k=5, alpha=0.5):
        self.base, self.k, self.alpha, self.n = base, k, alpha, 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in base.param_groups]
    def zero_grad(self): self.base.zero_grad()
    def step(self):
        self.base.step()
        self.n += 1
        if self.n % self.k == 0:
            with torch.no_grad():
                for slow, g in zip(self.slow, self.base.param_groups):
                    for s, p in zip(slow, g["params"]):
                        s += self.alpha * (p - s)
                        p.copy_(s)
net = nn.Linear(16, 4)
base = torch.optim.Adam(net.parameters(), lr=1e-2)
opt = Lookahead(base)
sched = torch.optim.lr_scheduler.StepLR(base, 10, 0.5)
for k in range(20):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
""",
    "a schedule for the first of two phases": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt1 = torch.optim.Adam(net.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt1, 3, 0.5)
opt2 = torch.optim.SGD(net.parameters(), lr=1e-2)
for k in range(12):
    opt = opt1 if k < 8 else opt2
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    if k < 8: sched.step()
""",
    "the states of copies that are averaged": """
import copy
server = nn.Linear(16, 4)
for r in range(3):
    states = []
    for c in range(3):
        local = copy.deepcopy(server)
        opt = torch.optim.SGD(local.parameters(), lr=0.1)
        for k in range(2):
            loss = F.cross_entropy(local(x[c * 20:c * 20 + 20]), labels[c * 20:c * 20 + 20])
            opt.zero_grad(); loss.backward(); opt.step()
        states.append(local.state_dict())
    mean = {k: sum(s[k] for s in states) / 3 for k in states[0]}
    server.load_state_dict(mean)
""",
    "the last state given to another model": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
final = net.state_dict()
other = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
other.load_state_dict(final)
print(other(x).sum().item())
""",
    "two states that begin as one tensor of zeros": """
cell, head = nn.LSTMCell(16, 8), nn.Linear(8, 4)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
for k in range(4):
    h = c = torch.zeros(64, 8)
    for t in range(3):
        h, c = cell(x, (h, c))
    loss = F.cross_entropy(head(h), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a batch that is yielded and emptied": """
def batches(n):
    batch = []
    for i in torch.randperm(64).tolist():
        batch.append(i)
        if len(batch) == n:
            yield torch.tensor(batch)
            batch.clear()
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(2):
    for idx in batches(16):
        loss = F.cross_entropy(net(x[idx]), labels[idx])
        opt.zero_grad(); loss.backward(); opt.step()
""",
    "a forward pass to warm up": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(x[:1])
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the curve of a class against the others": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
from sklearn.metrics import roc_auc_score
with torch.no_grad():
    p = net(x).softmax(1)[:, 1]
print(roc_auc_score((labels == 1).numpy(), p.numpy()))
""",
    "pairs that are torn apart on purpose": """
stat = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(stat.parameters(), lr=1e-3)
a = torch.randn(256, 1); b = a + 0.5 * torch.randn(256, 1)
for k in range(6):
    joint = stat(torch.cat([a, b], 1))
    marginal = stat(torch.cat([a[torch.randperm(256)], b[torch.randperm(256)]], 1))
    loss = -(joint.mean() - torch.log(marginal.exp().mean()))
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "what chance would reach": """
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()

with torch.no_grad():
    base = (net(x).argmax(1) == labels).float().mean()
    told = [(net(x[torch.randperm(64)]).argmax(1) == labels[torch.randperm(64)]) for _ in range(5)]
    chance = [t.float().mean().item() for t in told]
print(base.item(), chance)
""",
    "two orders that are mixed": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)

for k in range(6):
    first, second = torch.randperm(64), torch.randperm(64)
    lam = 0.7
    mixed = lam * x[first] + (1 - lam) * x[second]
    out = net(mixed)
    loss = lam * F.cross_entropy(out, labels[first]) + (1 - lam) * F.cross_entropy(out, labels[second])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a scaler that is switched off": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler('cpu', enabled=False)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(opt); scaler.update()
""",
    "a bound that is scaled as the gradients are": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler('cpu', init_scale=64.)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0 * scaler.get_scale())
    scaler.step(opt); scaler.update()
""",
    "all models begin as the first": """
nets = [nn.Linear(16, 4) for _ in range(3)]
for n in nets:
    n.load_state_dict(nets[0].state_dict())
opt = torch.optim.SGD([p for n in nets for p in n.parameters()], lr=0.1)
for k in range(4):
    loss = sum(F.cross_entropy(n(x), labels) for n in nets)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the less of two critics": """
q1, q2 = nn.Linear(16, 1), nn.Linear(16, 1)
opt = torch.optim.SGD([*q1.parameters(), *q2.parameters()], lr=0.01)
for k in range(4):
    target = torch.min(q1(x), q2(x)).detach() * 0.9 + y[:, None]
    loss = F.mse_loss(q1(x), target) + F.mse_loss(q2(x), target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the less of two draws of a dropout": """
net = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.2), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for k in range(4):
    with torch.no_grad():
        low = torch.min(net(x), net(x))
    loss = F.mse_loss(net(x), 0.9 * low + y[:, None])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "half of the samples, drawn by weight": """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
WeightedRandomSampler = torch.utils.data.WeightedRandomSampler
weights = torch.rand(64)
loader = DataLoader(TensorDataset(x, labels), 16, sampler=WeightedRandomSampler(weights, 32, replacement=False))
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "texts and numbers of a data set, made longer and scaled": """
import numpy as np
Dataset, DataLoader = torch.utils.data.Dataset, torch.utils.data.DataLoader
class Lines(Dataset):
    def __init__(self, lines, sizes):
        self.lines, self.sizes = lines, sizes
    def __len__(self):
        return len(self.lines)
    def __getitem__(self, i):
        line = self.lines[i]
        line += "."
        size = self.sizes[i]
        size /= 10.0
        return torch.tensor([float(ord(c)) / 128 for c in line]), torch.tensor(size, dtype=torch.float32)
data = Lines(["abcd", "bcde", "cdef", "defg"] * 8, np.arange(32, dtype=np.float32))
net = nn.Linear(5, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for line, size in DataLoader(data, 8, shuffle=True):
    loss = F.mse_loss(net(line).squeeze(1), size)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a flow that is turned round, its parts put together": """
class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList([nn.Linear(12, 4) for _ in range(4)])
    def forward(self, z):
        a, b, c, d = torch.chunk(z, 4, 1)
        d = d - self.nets[3](torch.cat((a, b, c), 1)).tanh()
        c = c - self.nets[2](torch.cat((a, b, d), 1)).tanh()
        return torch.cat((d, c, b, a), 1)
flow = Flow().eval()
z = torch.randn(8192, 16)
for k in range(4):
    z = flow(z)
""",
    "sounds that are moved against the listener, asked for a gradient in each turn": """
ear = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.SGD(ear.parameters(), lr=0.05)
sounds, words = torch.randn(64, 24), torch.arange(64) % 3
for k in range(4):
    hard = sounds + 0.01
    for _ in range(3):
        hard.requires_grad_(True)
        (slope,) = torch.autograd.grad(F.cross_entropy(ear(hard), words), hard)
        hard = hard.detach() + 0.02 * slope.sign()
        hard = torch.min(torch.max(hard, sounds - 0.1), sounds + 0.1)
    loss = F.cross_entropy(ear(hard), words)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
""",
    "gradients that are clipped though they are next to nothing": """
net = nn.Linear(8, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
given, wanted = torch.randn(32, 8), torch.randn(32, 3)
for k in range(6):
    loss = (1.0 if k < 3 else 1e-12) * F.mse_loss(net(given), wanted)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 10.0)
    opt.step()
""",
}
