"""Data sets, samplers, labels and inputs of supervised training that are not what they seem."""

from __future__ import annotations

from .planted_more import Planted

PLANTED: dict[str, Planted] = {
    "targets of a regression as whole numbers": Planted(
        "data",
        (7,),
        """
torch.manual_seed(0)
feats = torch.randn(150, 5); ratings = 2.5 + feats[:, 0]
class Ratings(torch.utils.data.Dataset):
    def __len__(self):
        return 150
    def __getitem__(self, i):
        return feats[i], ratings[i].long()
net = nn.Linear(5, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for a, b in torch.utils.data.DataLoader(Ratings(), 30):
    opt.zero_grad(); F.mse_loss(net(a)[:, 0], b.float()).backward(); opt.step()
""",
    ),
    "len of dict": Planted(
        "data",
        (5,),
        """
class PairData(torch.utils.data.Dataset):
    def __init__(self, xs, ys):
        self.data = {"x": xs, "y": ys}
    def __len__(self):
        return len(self.data)
    def __getitem__(self, i):
        return self.data["x"][i], self.data["y"][i]

g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

loader = torch.utils.data.DataLoader(PairData(X, y), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(5):
    for xb, yb in loader:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
    print(epoch, loss.item())
""",
    ),
    "len counts batches": Planted(
        "data",
        (5,),
        """
class Windows(torch.utils.data.Dataset):
    def __init__(self, series, length, batch):
        self.series, self.length, self.batch = series, length, batch
    def __len__(self):
        return (len(self.series) - self.length) // self.batch
    def __getitem__(self, i):
        return self.series[i:i + self.length], self.series[i + self.length]
series = torch.sin(torch.arange(900) / 7.0)
ds = Windows(series, 16, 32)
dl = torch.utils.data.DataLoader(ds, batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for ep in range(5):
    for a, b in dl:
        loss = F.mse_loss(net(a).squeeze(1), b)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "augment once in init": Planted(
        "data",
        (5,),
        """
class Noisy(torch.utils.data.Dataset):
    def __init__(self, xs, ys, train=True):
        self.xs, self.ys = xs, ys
        if train:
            self.xs = self.xs + 0.1 * torch.randn_like(self.xs)
    def __len__(self):
        return len(self.xs)
    def __getitem__(self, i):
        return self.xs[i], self.ys[i]

g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

dl = torch.utils.data.DataLoader(Noisy(X, y), batch_size=64, shuffle=True)
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(4):
    for xb, yb in dl:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "predictions scaled, targets raw": Planted(
        "evaluation",
        (13,),
        """
X = torch.randn(200, 8)
price = 200000 + 50000 * (X @ torch.randn(8))
mu, sd = price[:150].mean(), price[:150].std()
ys = (price - mu) / sd
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for step in range(50):
    loss = F.mse_loss(net(X[:150]).squeeze(1), ys[:150])
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
with torch.no_grad():
    pred = net(X[150:]).squeeze(1)
mae = (pred - price[150:]).abs().mean()
print("MAE", mae.item())
""",
    ),
    "log1p target, no expm1": Planted(
        "evaluation",
        (14,),
        """
X = torch.randn(300, 6)
sales = torch.exp(1.0 + X[:, 0] * 0.5 + 2)
y_train = torch.log1p(sales[:200])
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for i in range(60):
    opt.zero_grad()
    loss = F.mse_loss(model(X[:200]).flatten(), y_train)
    loss.backward()
    opt.step()
model.eval()
with torch.no_grad():
    y_hat = model(X[200:]).flatten()
    rmse = ((y_hat - sales[200:]) ** 2).mean().sqrt()
print(float(rmse))
""",
    ),
    "target among features": Planted(
        "evaluation",
        (4, 5),
        """
rng = np.random.default_rng(0)
table = rng.standard_normal((300, 6)).astype(np.float32)
table[:, 5] = table[:, 0] * 2 - table[:, 1] + 0.3 * rng.standard_normal(300)
X = torch.tensor(table)
y = torch.tensor(table[:, -1])
X_train, X_test, y_train, y_test = X[:240], X[240:], y[:240], y[240:]
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(60):
    loss = F.mse_loss(net(X_train)[:, 0], y_train)
    opt.zero_grad(); loss.backward(); opt.step()
print(F.mse_loss(net(X_test)[:, 0], y_test).item())
""",
    ),
    "roll wraps target": Planted(
        "data",
        (3,),
        """
t = torch.arange(400) / 10
series = torch.sin(t) + 0.1 * t
nxt = torch.roll(series, -1)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(60):
    out = net(series[:, None]).squeeze(1)
    loss = F.mse_loss(out, nxt)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "window mean centred": Planted(
        "evaluation",
        (2, 5),
        """
def smooth(s, k):
    return F.avg_pool1d(s[None, None], k, stride=1, padding=k // 2)[0, 0]
torch.manual_seed(0)
series = torch.cumsum(torch.randn(500), 0)
trend = smooth(series, 5)
feats = torch.stack([series[:-1], trend[:-1]], 1)
target = series[1:]
head = nn.Linear(2, 1)
opt = torch.optim.Adam(head.parameters(), 1e-2)
for _ in range(60):
    loss = F.mse_loss(head(feats).squeeze(1), target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "hash ids": Planted(
        "data",
        (4,),
        """
texts = ["good movie", "bad film", "great plot", "awful acting"] * 20
labels = torch.tensor([1, 0, 1, 0] * 20)
def encode(text, size=1000):
    return [hash(w) % size for w in text.split()]
ids = torch.tensor([encode(t) for t in texts])
emb, fc = nn.Embedding(1000, 8), nn.Linear(8, 2)
opt = torch.optim.Adam([*emb.parameters(), *fc.parameters()], 1e-2)
for _ in range(20):
    loss = F.cross_entropy(fc(emb(ids).mean(1)), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "sampler without replacement": Planted(
        "loop",
        (6,),
        """
WeightedRandomSampler = torch.utils.data.WeightedRandomSampler
torch.manual_seed(0)
X = torch.randn(400, 10)
y = (X[:, 0] > 1.2).long()
weights = (1.0 / torch.bincount(y).float())[y]
sampler = WeightedRandomSampler(weights, num_samples=len(weights), replacement=False)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=40, sampler=sampler)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(5):
    for xb, yb in loader:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "weighted twice": Planted(
        "loss",
        (9,),
        """
WeightedRandomSampler = torch.utils.data.WeightedRandomSampler
torch.manual_seed(0)
X = torch.randn(400, 10)
y = (X[:, 0] > 1.2).long()
counts = torch.bincount(y).float()
w = 1.0 / counts
sampler = WeightedRandomSampler(w[y], len(y))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=40, sampler=sampler)
criterion = nn.CrossEntropyLoss(weight=w / w.sum())
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(5):
    for xb, yb in loader:
        loss = criterion(net(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "drop_last leaves nothing": Planted(
        "data",
        (2,),
        """
X = torch.randn(50, 10); y = (X[:, 0] > 0).long()
train = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=64, shuffle=True, drop_last=True)
net = nn.Linear(10, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
def run_epoch():
    total = 0.0
    for xb, yb in train:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
        total += loss.item()
    return total
for e in range(5):
    print(e, run_epoch())
""",
    ),
    "drop_last in test": Planted(
        "evaluation",
        (7,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

Xt, yt = torch.randn(90, 20), torch.randint(0, 3, (90,))
train_loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 32, shuffle=True, drop_last=True)
test_loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(Xt, yt), batch_size=64, drop_last=True)
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(3):
    for xb, yb in train_loader:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
net.eval()
hits = 0
with torch.no_grad():
    for xb, yb in test_loader:
        hits += (net(xb).argmax(1) == yb).sum().item()
print(hits / len(yt))
""",
    ),
    "lengths sorted, labels not": Planted(
        "data",
        (10,),
        """
pack_padded_sequence = nn.utils.rnn.pack_padded_sequence
torch.manual_seed(0)
seqs = torch.randn(64, 12, 4)
lens = torch.randint(3, 13, (64,))
y = (seqs[:, 0, 0] > 0).long()
def collate(batch):
    xs, ls, ys = zip(*batch)
    xs, ls, ys = torch.stack(xs), torch.stack(ls), torch.stack(ys)
    ls, order = ls.sort(descending=True)
    return xs[order], ls, ys
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(seqs, lens, y), 16, collate_fn=collate)
rnn, fc = nn.LSTM(4, 16, batch_first=True), nn.Linear(16, 2)
opt = torch.optim.Adam([*rnn.parameters(), *fc.parameters()], 1e-2)
for _ in range(5):
    for xb, lb, yb in loader:
        _, (h, c) = rnn(pack_padded_sequence(xb, lb, batch_first=True))
        loss = F.cross_entropy(fc(h[-1]), yb)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "mask interpolated": Planted(
        "data",
        (3, 4),
        """
torch.manual_seed(0)
imgs = torch.randn(16, 3, 16, 16); masks = torch.randint(0, 3, (16, 32, 32))
small = F.interpolate(masks[:, None].float(), size=(16, 16), mode="bilinear")
target = small.squeeze(1).long()
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    loss = F.cross_entropy(net(imgs), target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "mask divided to zero": Planted(
        "data",
        (6, 10),
        """
torch.manual_seed(0)
imgs = torch.randn(16, 3, 16, 16)
raw = torch.randint(0, 3, (16, 16, 16), dtype=torch.uint8)
def to_tensor(a):
    return a.float() / 255
masks = to_tensor(raw).long()
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    loss = F.cross_entropy(net(imgs), masks)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "mixup turned": Planted(
        "loss",
        (12,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(20):
    lam = float(np.random.beta(0.4, 0.4))
    perm = torch.randperm(len(X))
    mixed = lam * X + (1 - lam) * X[perm]
    out = net(mixed)
    loss = (1 - lam) * F.cross_entropy(out, y) + lam * F.cross_entropy(out, y[perm])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "mixup without labels": Planted(
        "data",
        (10, 12),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
def mix(x, alpha=0.4):
    lam = np.random.beta(alpha, alpha)
    idx = torch.randperm(x.size(0))
    return float(lam) * x + (1 - float(lam)) * x[idx]
for _ in range(20):
    loss = F.cross_entropy(net(mix(X)), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "imagenet mean on bytes": Planted(
        "data",
        (5, 9),
        """
torch.manual_seed(0)
imgs = torch.randint(0, 256, (32, 3, 12, 12)).float()
y = (imgs.mean((1, 2, 3)) > 127.5).long()
mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1); std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
x = (imgs - mean) / std
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 2))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(10):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "long regression targets": Planted(
        "data",
        (3,),
        """
torch.manual_seed(0)
X = torch.randn(200, 6); score = torch.sigmoid(X[:, 0])
y = torch.tensor(score.tolist()).long()
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.mse_loss(net(X).squeeze(1), y.float())
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "same seed for both sets": Planted(
        "evaluation",
        (6,),
        """
def make_data(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 6, generator=g)
    return X, (X[:, 0] * X[:, 1] > 0).long()
X_train, y_train = make_data(300)
X_test, y_test = make_data(100)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(40):
    loss = F.cross_entropy(net(X_train), y_train)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
print((net(X_test).argmax(1) == y_test).float().mean())
""",
    ),
    "labels shuffled apart": Planted(
        "data",
        (5,),
        """
import random
torch.manual_seed(0)
pairs_x = [torch.randn(6) for _ in range(120)]
pairs_y = [int(v[0] > 0) for v in pairs_x]
random.shuffle(pairs_x)
X, y = torch.stack(pairs_x), torch.tensor(pairs_y)
net = nn.Linear(6, 2)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "sorted predictions": Planted(
        "data",
        (5, 9),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

order = X[:, 0].argsort()
X_sorted = X[order]
net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.mse_loss(net(X_sorted).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "whole table scaled by one number": Planted(
        "data",
        (4,),
        """
torch.manual_seed(0)
age = torch.rand(200) * 60; income = torch.rand(200) * 90000; rate = torch.rand(200)
X = torch.stack([age, income, rate], dim=1)
X = (X - X.mean()) / X.std()
y = (rate > 0.5).long()
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(20):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "target encoding of the whole": Planted(
        "evaluation",
        (3, 4),
        """
rng = np.random.default_rng(0)
city = rng.integers(0, 60, 300); y = rng.standard_normal(300).astype("float32")
means = {c: y[city == c].mean() for c in np.unique(city)}
X = torch.tensor([[means[c]] for c in city], dtype=torch.float32)
Y = torch.tensor(y)
X_train, X_test, y_train, y_test = X[:240], X[240:], Y[:240], Y[240:]
net = nn.Linear(1, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.mse_loss(net(X_train).squeeze(1), y_train)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "boxes scaled by exchanged sides": Planted(
        "data",
        (6,),
        """
torch.manual_seed(0)
H, W = 48, 96
imgs = torch.randn(64, 1, 12, 24)
rel = torch.rand(64, 4) * 0.5; rel[:, 2:] += rel[:, :2]
boxes = rel * torch.tensor([W, H, W, H])
target = boxes / torch.tensor([H, W, H, W])
net = nn.Sequential(nn.Flatten(), nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(10):
    loss = F.smooth_l1_loss(net(imgs), target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
}

HEALTHY: dict[str, str] = {
    "dict set right": """
class P(torch.utils.data.Dataset):
    def __init__(self, a, b):
        self.data = {"a": a, "b": b}
    def __len__(self):
        return len(self.data["a"])
    def __getitem__(self, i):
        return self.data["a"][i], self.data["b"][i]
X = torch.randn(60, 4); y = X.sum(1)
net = nn.Linear(4, 1); opt = torch.optim.SGD(net.parameters(), 0.05)
for a, b in torch.utils.data.DataLoader(P(X, y), 20):
    opt.zero_grad(); F.mse_loss(net(a)[:, 0], b).backward(); opt.step()
""",
    "list of samples": """
class P(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = [r for r in rows]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        return self.rows[i]["x"], self.rows[i]["y"]
rows = [{"x": torch.randn(4), "y": torch.randn(())} for _ in range(40)]
net = nn.Linear(4, 1); opt = torch.optim.SGD(net.parameters(), 0.05)
for a, b in torch.utils.data.DataLoader(P(rows), 10, drop_last=True):
    opt.zero_grad(); F.mse_loss(net(a)[:, 0], b).backward(); opt.step()
""",
    "sampler right": """
WeightedRandomSampler = torch.utils.data.WeightedRandomSampler
torch.manual_seed(0)
X = torch.randn(200, 4); y = (X[:, 0] > 1).long()
w = 1.0 / torch.bincount(y).float()[y]
a = WeightedRandomSampler(w, len(w)); b = WeightedRandomSampler(w, 50, replacement=False)
net = nn.Linear(4, 2); opt = torch.optim.SGD(net.parameters(), 0.1); crit = nn.CrossEntropyLoss()
for s in (a, b):
    for i, j in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 25, sampler=s):
        opt.zero_grad(); crit(net(i), j).backward(); opt.step()
""",
    "split right": """
rng = np.random.default_rng(0)
T = rng.standard_normal((200, 5)).astype("float32"); T[:, 4] = T[:, 0] > 1
X, y = torch.tensor(T[:, :-1]), torch.tensor(T[:, -1]).long()
Xtr, ytr, Xte, yte = X[:150], y[:150], X[150:], y[150:]
pos = (ytr == 1).nonzero().squeeze(1)
Xtr, ytr = torch.cat([Xtr, Xtr[pos]]), torch.cat([ytr, ytr[pos]])
net = nn.Linear(4, 2); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.cross_entropy(net(Xtr), ytr).backward(); opt.step()
net.eval(); print((net(Xte).argmax(1) == yte).float().mean())
""",
    "seeds apart": """
def make(n, seed):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 4, generator=g)
    return X, (X[:, 0] > 0).long()
X_train, y_train = make(200, seed=0)
X_test, y_test = make(80, seed=1)
net = nn.Linear(4, 2); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.cross_entropy(net(X_train), y_train).backward(); opt.step()
net.eval(); print((net(X_test).argmax(1) == y_test).float().mean())
""",
    "units right": """
torch.manual_seed(0)
X = torch.randn(200, 5); price = 1e4 * torch.exp(0.3 * X[:, 0])
mu, sd = price[:150].mean(), price[:150].std()
ys = (price - mu) / sd
net = nn.Linear(5, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.mse_loss(net(X[:150])[:, 0], ys[:150]).backward(); opt.step()
net.eval()
with torch.no_grad():
    pred = net(X[150:])[:, 0] * sd + mu
    scaled = net(X[150:])[:, 0]
print((pred - price[150:]).abs().mean(), F.mse_loss(scaled, ys[150:]))
""",
    "shuffled together": """
import random
random.seed(0)
rows = [[random.random() for _ in range(4)] for _ in range(80)]
labels = [int(r[0] > 0.5) for r in rows]
pairs = list(zip(rows, labels)); random.shuffle(pairs); rows, labels = zip(*pairs)
order = list(range(80)); random.shuffle(order)
X, y = torch.tensor(rows)[order], torch.tensor(labels)[order]
net = nn.Linear(4, 2); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step()
""",
    "packed sorted together": """
torch.manual_seed(0)
def collate(batch):
    xs, ls, ys = map(torch.stack, zip(*batch))
    ls, order = ls.sort(descending=True)
    return xs[order], ls, ys[order]
seqs = torch.randn(40, 9, 3); lens = torch.randint(2, 10, (40,)); y = (seqs[:, 0, 0] > 0).long()
rnn, fc = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)
opt = torch.optim.Adam([*rnn.parameters(), *fc.parameters()], 1e-2)
for a, l, b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(seqs, lens, y), 10, collate_fn=collate):
    _, h = rnn(nn.utils.rnn.pack_padded_sequence(a, l, batch_first=True))
    opt.zero_grad(); F.cross_entropy(fc(h[-1]), b).backward(); opt.step()
""",
    "mixup right": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), 1e-2)
def mixup(x, y, a=0.3):
    lam = float(np.random.beta(a, a)); index = torch.randperm(len(x))
    return lam * x + (1 - lam) * x[index], y, y[index], lam
for _ in range(8):
    xm, ya, yb, lam = mixup(X, y)
    out = net(xm)
    loss = lam * F.cross_entropy(out, ya) + (1 - lam) * F.cross_entropy(out, yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "imagenet right": """
mean, std = torch.tensor([0.485, 0.456, 0.406])[:, None, None], torch.tensor([0.229, 0.224, 0.225])[:, None, None]
torch.manual_seed(0)
img = torch.randint(0, 256, (16, 3, 8, 8)).float(); y = (img.mean((1, 2, 3)) > 127).long()
x = (img / 255 - mean) / std
net = nn.Sequential(nn.Flatten(), nn.Linear(192, 2)); opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(8):
    opt.zero_grad(); F.cross_entropy(net(x), y).backward(); opt.step()
""",
    "masks nearest and boxes": """
torch.manual_seed(0)
H, W = 40, 80
x = torch.randn(8, 3, 16, 16); m = torch.randint(0, 3, (8, 32, 32))
t = F.interpolate(m[:, None].float(), (16, 16), mode="nearest")[:, 0].long()
boxes = torch.rand(8, 4) * torch.tensor([W, H, W, H])
rel = boxes / torch.tensor([W, H, W, H])
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1)); reg = nn.Linear(3, 4)
opt = torch.optim.Adam([*net.parameters(), *reg.parameters()], 1e-2)
for _ in range(6):
    out = net(x)
    up = F.interpolate(out, (32, 32), mode="bilinear", align_corners=False)
    loss = F.cross_entropy(out, t) + F.cross_entropy(up, m) + F.l1_loss(reg(out.mean((2, 3))), rel)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "binned targets": """
torch.manual_seed(0)
X = torch.randn(100, 4); score = torch.sigmoid(X[:, 0])
bins = (score * 5).long(); half = (score > 0.5).long()
net = nn.Linear(4, 5); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(6):
    out = net(X)
    loss = F.cross_entropy(out, bins) + F.cross_entropy(out[:, :2], half)
    opt.zero_grad(); loss.backward(); opt.step()
""",
}
