"""Cells whose dimensions are mixed up, and whose start does not fit."""

from __future__ import annotations

from .planted_more import Planted

LAYOUT: dict[str, Planted] = {
    "view where permute was meant": Planted(
        "layout",
        (7,),
        """
torch.manual_seed(0)
x = torch.randn(16, 3, 8, 8); y = torch.randint(0, 4, (16,))
emb = nn.Linear(3, 12)
head = nn.Linear(12, 4)
opt = torch.optim.Adam([*emb.parameters(), *head.parameters()], lr=1e-3)
for i in range(5):
    tokens = x.view(16, 64, 3)
    loss = F.cross_entropy(head(emb(tokens).mean(1)), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "reshape where transpose was meant": Planted(
        "layout",
        (7,),
        """
torch.manual_seed(0)
x = torch.randn(16, 20, 5); y = torch.randint(0, 2, (16,))
lstm = nn.LSTM(5, 12)
head = nn.Linear(12, 2)
opt = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=1e-3)
for i in range(5):
    out, _ = lstm(x.reshape(20, 16, 5))
    loss = F.cross_entropy(head(out[-1]), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "classes joined with time": Planted(
        "layout",
        (7,),
        """
torch.manual_seed(0)
conv = nn.Conv1d(4, 6, 3, padding=1)
opt = torch.optim.Adam(conv.parameters(), lr=1e-3)
x, t = torch.randn(8, 4, 12), torch.randint(0, 6, (8, 12))
for i in range(5):
    logits = conv(x)
    loss = F.cross_entropy(logits.reshape(-1, 6), t.reshape(-1))
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "heads by view alone": Planted(
        "error",
        (8,),
        """
class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.qkv, self.o = h, nn.Linear(d, 3 * d), nn.Linear(d, d)
    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q = q.view(B, self.h, T, D // self.h)
        k = k.view(B, self.h, T, D // self.h)
        v = v.view(B, self.h, T, D // self.h)
        w = (q @ k.transpose(-2, -1) / (D // self.h) ** 0.5).softmax(-1)
        return self.o((w @ v).transpose(1, 2).reshape(B, T, D))
torch.manual_seed(0)
a, head = Attn(16, 4), nn.Linear(16, 3)
opt = torch.optim.Adam([*a.parameters(), *head.parameters()], lr=1e-3)
x, y = torch.randn(8, 10, 16), torch.randint(0, 3, (8,))
for i in range(5):
    loss = F.cross_entropy(head(a(x).mean(1)), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "an LSTM without batch_first": Planted(
        "layout",
        (6,),
        """
torch.manual_seed(0)
x, y = torch.randn(32, 20, 5), torch.randint(0, 2, (32,))
class Clf(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 12)
        self.fc = nn.Linear(12, 2)
    def forward(self, x):
        out, (h, c) = self.lstm(x)
        return self.fc(out[:, -1])
model = Clf()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in range(4):
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "the last state without batch_first": Planted(
        "error",
        (7,),
        """
torch.manual_seed(0)
x, y = torch.randn(32, 20, 5), torch.randint(0, 2, (32,))
lstm, fc = nn.LSTM(5, 12), nn.Linear(12, 2)
opt = torch.optim.Adam([*lstm.parameters(), *fc.parameters()], lr=1e-3)
for i in range(4):
    _, (h, c) = lstm(x)
    loss = F.cross_entropy(fc(h[-1]), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "an encoder without batch_first": Planted(
        "layout",
        (2,),
        """
torch.manual_seed(0)
enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 2)
head = nn.Linear(16, 3)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=1e-3)
x, y = torch.randn(8, 10, 16), torch.randint(0, 3, (8,))
for i in range(4):
    loss = F.cross_entropy(head(enc(x).mean(1)), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "as many classes as time steps": Planted(
        "loss",
        (6,),
        """
torch.manual_seed(0)
lm = nn.Linear(8, 12)
opt = torch.optim.SGD(lm.parameters(), lr=0.1)
x, t = torch.randn(4, 12, 8), torch.randint(0, 12, (4, 12))
for i in range(3):
    loss = F.cross_entropy(lm(x), t)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "classes last": Planted(
        "error",
        (4,),
        """
torch.manual_seed(0)
lm = nn.Linear(8, 12)
x, t = torch.randn(4, 6, 8), torch.randint(0, 12, (4, 6))
loss = F.cross_entropy(lm(x), t)
""",
    ),
    "features joined along the samples": Planted(
        "error",
        (4,),
        """
torch.manual_seed(0)
a, b = torch.randn(12, 6), torch.randn(12, 6)
mlp = nn.Linear(12, 1)
out = mlp(torch.cat([a, b]))
""",
    ),
    "a table that is too small": Planted(
        "error",
        (4,),
        """
torch.manual_seed(0)
emb, fc = nn.Embedding(10, 4), nn.Linear(4, 2)
ids = torch.tensor([[1, 2, 3], [4, 5, 10]])
out = fc(emb(ids).mean(1))
""",
    ),
    "classes counted from 1": Planted(
        "error",
        (4,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(1, 4, (64,))
net = nn.Linear(8, 3)
loss = F.cross_entropy(net(X), y)
loss.backward()
""",
    ),
    "start values of 1 under Adam": Planted(
        "exploding",
        (6,),
        """
torch.manual_seed(0)
layers = []
for i in range(6): layers += [nn.Linear(64, 64), nn.ReLU()]
net = nn.Sequential(*layers, nn.Linear(64, 4))
for m in net:
    if isinstance(m, nn.Linear): nn.init.normal_(m.weight, 0.0, 1.0)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(32, 64), torch.randint(0, 4, (32,))
for _ in range(5):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "start values of 1 under SGD": Planted(
        "exploding",
        (6,),
        """
torch.manual_seed(0)
W1, W2 = torch.randn(100, 200, requires_grad=True), torch.randn(200, 10, requires_grad=True)
opt = torch.optim.SGD([W1, W2], lr=0.1)
x, y = torch.randn(32, 100), torch.randint(0, 10, (32,))
for _ in range(20):
    loss = F.cross_entropy(torch.relu(x @ W1) @ W2, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a relu before targets below 0": Planted(
        "loss",
        (6,),
        """
torch.manual_seed(0)
X = torch.randn(64, 4); y = X.sum(1, keepdim=True)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.ReLU())
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for i in range(20):
    loss = F.mse_loss(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a sigmoid before large targets": Planted(
        "loss",
        (6,),
        """
torch.manual_seed(0)
X = torch.randn(64, 4); y = 10 * X.sum(1, keepdim=True)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for i in range(20):
    loss = F.mse_loss(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a dropout that keeps 5 %": Planted(
        "mode",
        (6,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.95), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for ep in range(5):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
}
