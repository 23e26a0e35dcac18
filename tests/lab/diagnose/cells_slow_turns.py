"""Loops of small ops in a step, results of which a part is read, models judged too often; and what comes close."""

from __future__ import annotations

from .planted_more import Planted

PLANTED: dict[str, Planted] = {
    "a layer for each feature": Planted(
        "slow",
        (9,),
        """
class Tokens(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embeds, self.head = nn.ModuleList([nn.Linear(1, 8) for _ in range(n)]), nn.Linear(8 * n, 1)

    def forward(self, rows):
        parts = []
        for column, layer in zip(rows.split(1, 1), self.embeds):
            parts.append(layer(column))
        return self.head(torch.relu(torch.cat(parts, 1)))
torch.manual_seed(0)
model = Tokens(120)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
rows = torch.randn(64, 120)
for k in range(100):
    loss = (model(rows) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a mean for each group": Planted(
        "slow",
        (4,),
        """
torch.manual_seed(0)
h, group, w = torch.randn(30000, 16), torch.arange(30000) // 150, nn.Linear(16, 1)
def pooled(h):
    return torch.stack([h[group == g].mean(0) for g in range(200)])
opt = torch.optim.SGD(w.parameters(), lr=1e-4)
for k in range(30):
    loss = w(pooled(h + 0.01 * k)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a gradient for each point": Planted(
        "slow",
        (7, 8),
        """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
def residual(points):
    parts = []
    for p in points:
        t = p.clone().requires_grad_(True)
        u = net(t.view(1, 1))
        parts.append(torch.autograd.grad(u.sum(), t, create_graph=True)[0] + u.squeeze())
    return torch.stack(parts)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for k in range(20):
    loss = residual(torch.linspace(0, 1, 60)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "all pictures converted for a batch": Planted(
        "slow",
        (6,),
        """
pictures = torch.randint(0, 255, (4000, 784)).to(torch.uint8)
net = nn.Linear(784, 4)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for k in range(60):
    i = k * 16
    batch = (pictures.float() / 255)[i : i + 16]
    loss = F.cross_entropy(net(batch), labels[:16])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a product for its diagonal": Planted(
        "slow",
        (4,),
        """
a, b = torch.randn(2000, 32), torch.randn(2000, 32)
best = []
for k in range(160):
    alike = torch.diagonal((a + k) @ b.T)
    best.append(alike.max().item())
print(best)
""",
    ),
    "a diagonal matrix multiplied": Planted(
        "slow",
        (4,),
        """
links = (torch.rand(800, 800) < 0.01).float()
def normalised(A):
    D = torch.diag(A.sum(1).clamp(min=1) ** -0.5)
    return D @ A
sums = [normalised(links + k).sum().item() for k in range(60)]
print(sums)
""",
    ),
    "the largest singular value by all vectors": Planted(
        "slow",
        (4,),
        """
weight = torch.randn(400, 400)
norms = []
for k in range(12):
    U, S, Vh = torch.linalg.svd(weight + k)
    norms.append(S[0].item())
print(norms)
""",
    ),
    "accuracy of all after each batch": Planted(
        "slow",
        (11,),
        """
torch.manual_seed(0)
X, Y = torch.randn(6000, 64), torch.randint(0, 10, (6000,))
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
right = []
for k in range(100):
    part = torch.randint(0, 6000, (32,))
    loss = F.cross_entropy(net(X[part]), Y[part])
    opt.zero_grad()
    loss.backward(); opt.step()
    right.append((net(X).argmax(1) == Y).float().mean().item())
""",
    ),
    "three orders in each turn of a loop": Planted(
        "slow",
        (4,),
        """
torch.manual_seed(0)
values, kept = torch.randn(300000), []
for k in range(16):
    up = torch.sort(values + k)[0]
    down = torch.sort(k - values[:200000])[0]
    size = torch.sort(values[100000:].abs() + k)[0]
    kept.append((up.sum() + down.sum() + size.sum()).item())
""",
    ),
    "a word looked up in a list": Planted(
        "slow",
        (4,),
        """
words = ["w%d" % i for i in range(4000)]
docs = [[words[(i * 37 + j * 101) % 4000] for j in range(60)] for i in range(300)]
def encode(doc):
    return torch.tensor([words.index(w) for w in doc])
table, head = nn.EmbeddingBag(4000, 32), nn.Linear(32, 2)
opt = torch.optim.Adam([*table.parameters(), *head.parameters()], lr=1e-3)
for i in range(0, 300, 10):
    batch = torch.stack([encode(d) for d in docs[i : i + 10]])
    loss = F.cross_entropy(head(table(batch)), torch.arange(10) % 2)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
}

HEALTHY: dict[str, str] = {
    "layers one after another": """
torch.manual_seed(0)
layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(40)])
opt = torch.optim.Adam(layers.parameters(), lr=1e-4)
for k in range(60):
    h = torch.ones(16, 32)
    for layer in layers:
        h = h + 0.1 * torch.relu(layer(h))
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a world that is stepped": """
torch.manual_seed(0)
class World:
    def __init__(self):
        self.s = torch.zeros(4)

    def step(self, a):
        self.s = 0.9 * self.s + 0.1 * torch.randn(4) + 0.01 * a
        return self.s
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
for k in range(20):
    world, costs = World(), []
    for t in range(50):
        costs.append(world.step(policy(world.s)).pow(2).sum())
    loss = torch.stack(costs).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "batches in a comprehension": """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).eval()
data = torch.randn(40000, 64)
with torch.no_grad():
    codes = torch.cat([model(part) for part in data.split(64)])
""",
    "samples of a network with dropout": """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1))
with torch.no_grad():
    drawn = torch.stack([net(x) for _ in range(300)])
spread = drawn.std(0)
""",
    "a product whose diagonal and rows are read": """
torch.manual_seed(0)
first = nn.Linear(64, 64)
opt = torch.optim.Adam(first.parameters(), lr=1e-3)
for k in range(20):
    a, b = first(torch.randn(256, 64)), torch.randn(256, 64)
    alike = a @ b.T / 8
    loss = (alike.logsumexp(1) - alike.diagonal()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "singular vectors that are used": """
torch.manual_seed(0)
W = torch.randn(60, 60)
for k in range(8):
    U, S, Vh = torch.linalg.svd(W + k)
    W = (U * S.clamp(max=10.0)) @ Vh / 10
""",
    "a test set after each epoch": """
torch.manual_seed(0)
X, Y, Xt, Yt = torch.randn(1024, 64), torch.randint(0, 4, (1024,)), torch.randn(1024, 64), torch.randint(0, 4, (1024,))
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
right = []
for epoch in range(30):
    net.train()
    loss = F.cross_entropy(net(X), Y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    with torch.no_grad():
        right.append((net(Xt).argmax(1) == Yt).float().mean().item())
""",
    "word by word with a cache": """
torch.manual_seed(0)
emb, qkv, out = nn.Embedding(50, 64), nn.Linear(64, 192), nn.Linear(64, 50)
with torch.no_grad():
    word, keys, values = torch.zeros(4, 1, dtype=torch.long), torch.zeros(4, 0, 64), torch.zeros(4, 0, 64)
    for t in range(60):
        q, k, v = qkv(emb(word)).chunk(3, -1)
        keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        word = out(torch.softmax(q @ keys.transpose(1, 2) / 8, -1) @ values).argmax(-1)
""",
}
