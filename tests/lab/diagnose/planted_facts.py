"""Cells whose mistake shows in a fact beside the graph: the mode of a module, indices that repeat, where data came
from, how long a loop waited."""

from __future__ import annotations

from .planted_more import Planted

FACTS: dict[str, Planted] = {
    "dropout2d in a method": Planted(
        "mode",
        (8,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.fc = nn.Linear(8, 2)
    def encode(self, x):
        h = torch.relu(self.conv(x))
        h = F.dropout2d(h, 0.3)
        return h.mean((2, 3))
    def forward(self, x):
        return self.fc(self.encode(x))
    def predict(self, x):
        self.eval()
        with torch.no_grad():
            return self.fc(self.encode(x)).argmax(1)
net = Net()
opt = torch.optim.Adam(net.parameters())
X, y = torch.randn(32, 3, 8, 8), torch.randint(0, 2, (32,))
for _ in range(5):
    net.train()
    opt.zero_grad()
    F.cross_entropy(net(X), y).backward()
    opt.step()
print((net.predict(X) == y).float().mean().item())
""",
    ),
    "attention that drops in evaluation": Planted(
        "mode",
        (7,),
        """
class Attn(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)
a = Attn().eval()
with torch.no_grad():
    y1 = a(torch.randn(2, 5, 16))
print(y1.shape)
""",
    ),
    "predictions of a comprehension": Planted(
        "memory",
        (12,),
        """
net = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
X = torch.randn(1024, 32); Y = X.sum(1, keepdim=True)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=64)
for epoch in range(2):
    net.train()
    for xb, yb in loader:
        opt.zero_grad()
        F.mse_loss(net(xb), yb).backward()
        opt.step()
    net.eval()
    preds = torch.cat([net(xb) for xb, _ in loader])
    print(F.mse_loss(preds, Y).item())
""",
    ),
    "predictions in a dictionary": Planted(
        "memory",
        (6,),
        """
def evaluate(model, loader):
    model.eval()
    res = {"pred": [], "true": []}
    for xb, yb in loader:
        out = model(xb)
        res["pred"].append(out)
        res["true"].append(yb)
    return torch.vstack(res["pred"]), torch.vstack(res["true"])
model = nn.Sequential(nn.Linear(16, 128), nn.GELU(), nn.Linear(128, 1))
opt = torch.optim.SGD(model.parameters(), lr=1e-2)
X = torch.randn(512, 16); Y = X[:, :1]
dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=32)
for xb, yb in dl:
    opt.zero_grad(); F.mse_loss(model(xb), yb).backward(); opt.step()
p, t = evaluate(model, dl)
print((p - t).abs().mean().item())
""",
    ),
    "a validation loss that is summed": Planted(
        "memory",
        (13,),
        """
net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
X, y = torch.randn(256, 16), torch.randint(0, 3, (256,))
for epoch in range(3):
    net.train()
    for i in range(0, 256, 64):
        opt.zero_grad()
        F.cross_entropy(net(X[i:i+64]), y[i:i+64]).backward()
        opt.step()
    net.eval()
    val = 0
    for i in range(0, 256, 32):
        val += F.cross_entropy(net(X[i:i+32]), y[i:i+32])
    print(epoch, val.item() / 8)
""",
    ),
    "parameters of zeros": Planted(
        "vanishing",
        (4,),
        """
class Lin(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(b, a))
        self.bias = nn.Parameter(torch.zeros(b))
    def forward(self, x):
        return x @ self.weight.t() + self.bias
net = nn.Sequential(Lin(8, 16), nn.Tanh(), Lin(16, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
X, y = torch.randn(40, 8), torch.randint(0, 2, (40,))
for _ in range(6):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step()
""",
    ),
    "parameters set to zero": Planted(
        "vanishing",
        (3,),
        """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
for p in net.parameters():
    p.data.zero_()
opt = torch.optim.Adam(net.parameters(), lr=0.1)
X, y = torch.randn(40, 8), torch.randint(0, 2, (40,))
for _ in range(6):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step()
""",
    ),
    "weights of NumPy zeros": Planted(
        "vanishing",
        (1,),
        """
W1 = torch.tensor(np.zeros((8, 16)), dtype=torch.float32, requires_grad=True)
W2 = torch.tensor(np.zeros((16, 2)), dtype=torch.float32, requires_grad=True)
X, y = torch.randn(40, 8), torch.randint(0, 2, (40,))
opt = torch.optim.SGD([W1, W2], lr=0.1)
for _ in range(6):
    opt.zero_grad(); F.cross_entropy(torch.relu(X @ W1) @ W2, y).backward(); opt.step()
""",
    ),
    "a model made double for its data": Planted(
        "dtype",
        (2,),
        """
data = np.loadtxt(["1 2 3", "4 5 6", "7 8 9", "1 0 1"])
X = torch.tensor(data[:, :2])
y = torch.tensor(data[:, 2:])
net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)).double()
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for i in range(20):
    opt.zero_grad()
    loss = F.mse_loss(net(X), y)
    loss.backward(); opt.step()
""",
    ),
    "counts by an index": Planted(
        "indexing",
        (3,),
        """
labels = torch.randint(0, 5, (100,))
counts = torch.zeros(5)
counts[labels] += 1
weights = counts.sum() / counts
net = nn.Linear(4, 5)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
X = torch.randn(100, 4)
for _ in range(4):
    opt.zero_grad(); F.cross_entropy(net(X), labels, weight=weights.clamp(max=10)).backward(); opt.step()
""",
    ),
    "pairs of indices": Planted(
        "indexing",
        (5,),
        """
emb = nn.Embedding(6, 4)
i, j = torch.randint(0, 6, (50,)), torch.randint(0, 6, (50,))
e = (emb(i) * emb(j)).sum(1)
A = torch.zeros(6, 6)
A[i, j] = A[i, j] + e
loss = (A - torch.eye(6)).pow(2).sum()
loss.backward()
""",
    ),
    "pooling weights over one": Planted(
        "loss",
        (7,),
        """
class Pool(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q = nn.Parameter(torch.randn(d, 1) * 0.3)
        self.out = nn.Linear(d, 2)
    def forward(self, h):
        a = torch.softmax(h @ self.q, dim=2)
        return self.out((a * h).mean(1))
m = Pool(12)
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
H, y = torch.randn(20, 7, 12), torch.randint(0, 2, (20,))
for _ in range(5):
    opt.zero_grad(); F.cross_entropy(m(H), y).backward(); opt.step()
""",
    ),
    "a dropout made in forward": Planted(
        "mode",
        (7,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 32), nn.Linear(32, 2)
    def forward(self, x):
        h = torch.relu(self.a(x))
        h = nn.Dropout(0.5)(h)
        return self.b(h)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
X, y = torch.randn(64, 8), torch.randint(0, 2, (64,))
for epoch in range(6):
    opt.zero_grad()
    F.cross_entropy(net(X), y).backward(); opt.step()
net.eval()
with torch.no_grad():
    acc = (net(X).argmax(1) == y).float().mean().item()
print(acc)
""",
    ),
    "dropouts in a plain list": Planted(
        "mode",
        (8,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.drops = [nn.Dropout(0.5) for _ in range(2)]
    def forward(self, x):
        for l, d in zip(self.layers, self.drops):
            x = d(torch.relu(l(x)))
        return x
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
X, y = torch.randn(64, 8), torch.randint(0, 8, (64,))
for epoch in range(6):
    opt.zero_grad()
    F.cross_entropy(net(X), y).backward(); opt.step()
net.eval()
with torch.no_grad():
    acc = (net(X).argmax(1) == y).float().mean().item()
""",
    ),
    "a clamp that gives zeros": Planted(
        "vanishing",
        (6,),
        """
w = nn.Linear(4, 8); o = nn.Linear(8, 1)
nn.init.constant_(w.bias, -50)
opt = torch.optim.Adam([*w.parameters(), *o.parameters()])
X, y = torch.randn(30, 4), torch.randn(30, 1)
for _ in range(6):
    h = w(X).clamp(min=0)
    loss = F.mse_loss(o(h), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a bank of embeddings": Planted(
        "memory",
        (5,),
        """
enc = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 32)).eval()
X = torch.randn(800, 64)
bank = []
for i in range(0, 800, 50):
    bank.append(F.normalize(enc(X[i:i+50]), dim=1))
bank = torch.cat(bank)
sim = bank @ bank.t()
print(sim.topk(5, dim=1).indices.shape)
""",
    ),
    "a stream behind next()": Planted(
        "data-loader",
        (4,),
        """
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for i in range(40):
            __import__('time').sleep(0.006)
            yield torch.randn(8), torch.randn(1)
net = nn.Linear(8, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
dl = torch.utils.data.DataLoader(Stream(), batch_size=4)
it = iter(dl)
for step in range(10):
    x, y = next(it)
    opt.zero_grad(); F.mse_loss(net(x), y).backward(); opt.step()
""",
    ),
    "eval without its brackets": Planted(
        "unused",
        (7,),
        """
net = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Dropout(0.5), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
X, y = torch.randn(64, 8), torch.randint(0, 2, (64,))
for epoch in range(6):
    opt.zero_grad()
    F.cross_entropy(net(X), y).backward(); opt.step()
net.eval
with torch.no_grad():
    pred = net(X).argmax(1)
print((pred == y).float().mean().item())
""",
    ),
}
