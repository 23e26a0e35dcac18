"""Layers, states and losses of supervised training that undo each other, or are written by hand."""

from __future__ import annotations

from .planted_more import Planted

PLANTED: dict[str, Planted] = {
    "mean pooling over padding": Planted(
        "layout",
        (9,),
        """
PAD = 0
class Clf(nn.Module):
    def __init__(self, vocab, dim, n):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.fc = nn.Linear(dim, n)
    def forward(self, ids):
        e = self.emb(ids)
        return self.fc(e.mean(dim=1))
torch.manual_seed(0)
lens = torch.randint(2, 20, (128,))
ids = torch.zeros(128, 20, dtype=torch.long)
for i, n in enumerate(lens.tolist()):
    ids[i, :n] = torch.randint(1, 50, (n,))
y = (ids[:, 0] > 25).long()
net = Clf(50, 16, 2)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(30):
    loss = F.cross_entropy(net(ids), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "max pooling over padding lstm": Planted(
        "layout",
        (9,),
        """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 12, padding_idx=0)
        self.rnn = nn.GRU(12, 16, batch_first=True)
        self.out = nn.Linear(16, 2)
    def forward(self, tokens):
        h, _ = self.rnn(self.embed(tokens))
        pooled = torch.mean(h, 1)
        return self.out(pooled)
torch.manual_seed(0)
tokens = torch.randint(1, 40, (96, 24))
for row in range(96):
    tokens[row, 4 + row % 18:] = 0
labels = (tokens[:, 1] > 20).long()
net = Tagger()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.cross_entropy(net(tokens), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "padding vector overwritten": Planted(
        "data",
        (6,),
        """
class Bow(nn.Module):
    def __init__(self, vocab=60, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.fc = nn.Linear(dim, 2)
        nn.init.normal_(self.emb.weight, std=0.5)
    def forward(self, ids):
        return self.fc(self.emb(ids).sum(1))
torch.manual_seed(0)
ids = torch.randint(1, 60, (128, 20)); ids[::2, 10:] = 0
y = (ids[:, 0] > 30).long()
net = Bow()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(20):
    loss = F.cross_entropy(net(ids), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "softmax for multilabel bce": Planted(
        "loss",
        (11, 15),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

tags = (X[:, :5] > 0).float()
class Tags(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
    def forward(self, x):
        return torch.softmax(self.body(x), dim=1)
net = Tags()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(40):
    loss = F.binary_cross_entropy(net(X), tags)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "first layer's state": Planted(
        "layout",
        (8,),
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 16, num_layers=3, batch_first=True)
        self.fc = nn.Linear(16, 1)
    def forward(self, x):
        _, (h, _) = self.lstm(x)
        return self.fc(h[0])
x = torch.randn(64, 10, 6); y = x.sum((1, 2))
y = y / y.std()
m = Model()
opt = torch.optim.Adam(m.parameters(), 1e-2)
for _ in range(20):
    loss = F.mse_loss(m(x).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "no activation": Planted(
        "layout",
        (12, 13),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 64)
        self.fc2 = nn.Linear(64, 64)
        self.fc3 = nn.Linear(64, 1)
    def forward(self, x):
        x = self.fc1(x)
        x = self.fc2(x)
        return self.fc3(x)
net = MLP()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(50):
    loss = F.mse_loss(net(X).squeeze(1), torch.sin(y))
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "no activation sequential conv": Planted(
        "layout",
        (3, 5, 7, 11),
        """
torch.manual_seed(0)
imgs = torch.randn(64, 1, 12, 12); y = (imgs.mean((1, 2, 3)) > 0).long()
cnn = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.Conv2d(8, 16, 3, padding=1),
    nn.Flatten(),
    nn.Linear(16 * 144, 2),
)
opt = torch.optim.Adam(cnn.parameters(), 1e-3)
for _ in range(15):
    loss = F.cross_entropy(cnn(imgs), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "relu on logits bce sequential": Planted(
        "loss",
        (2, 3, 8),
        """
X = torch.randn(200, 6); y = (X[:, 0] > 0).float()
layers = [nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), nn.ReLU()]
model = nn.Sequential(*layers)
loss_fn = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(40):
    opt.zero_grad()
    l = loss_fn(model(X).squeeze(-1), y)
    l.backward(); opt.step()
""",
    ),
    "dropout on logits": Planted(
        "layout",
        (5, 8),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3), nn.Dropout(0.5))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(40):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "return inside loop": Planted(
        "loop",
        (10,),
        """
X = torch.randn(200, 16); y = (X[:, 0] > 0).long()
class Deep(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(n))
        self.head = nn.Linear(16, 2)
    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
            return self.head(x)
net = Deep(4)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(40):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "masked mean over all": Planted(
        "loss",
        (10,),
        """
torch.manual_seed(0)
x = torch.randn(64, 20, 4); y = x.sum(2)
lens = torch.randint(3, 21, (64,))
mask = (torch.arange(20)[None] < lens[:, None]).float()
rnn, head = nn.GRU(4, 16, batch_first=True), nn.Linear(16, 1)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], 1e-2)
for _ in range(15):
    out = head(rnn(x)[0]).squeeze(-1)
    per_step = F.mse_loss(out, y, reduction="none")
    loss = (per_step * mask).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "mask of the padding": Planted(
        "loss",
        (10, 11),
        """
PAD = 0
torch.manual_seed(0)
ids = torch.randint(1, 40, (64, 12)); ids[:, 8:] = PAD
tgt = torch.randint(1, 5, (64, 12)); tgt[:, 8:] = PAD
emb, fc = nn.Embedding(40, 16), nn.Linear(16, 5)
opt = torch.optim.Adam([*emb.parameters(), *fc.parameters()], 1e-2)
for _ in range(15):
    logits = fc(emb(ids))
    nll = F.cross_entropy(logits.transpose(1, 2), tgt, reduction="none")
    mask = (tgt == PAD).float()
    loss = (nll * mask).sum() / mask.sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "ignore_index is a class": Planted(
        "loss",
        (6, 10),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

labels = y.long()
criterion = nn.CrossEntropyLoss(ignore_index=0)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = criterion(net(X), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "smoothing sums to more": Planted(
        "loss",
        (7, 12),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

def smooth(labels, n, eps=0.1):
    hot = F.one_hot(labels, n).float()
    return hot * (1 - eps) + eps
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    logp = F.log_softmax(net(X), 1)
    loss = -(smooth(y, 3) * logp).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "hinge with 0 and 1": Planted(
        "loss",
        (6, 10),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

def hinge(score, target):
    return F.relu(1 - target * score).mean()
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = hinge(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "soft margin with 0 and 1": Planted(
        "loss",
        (5, 9),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

crit = nn.SoftMarginLoss()
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = crit(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "cosine embedding with 0 and 1": Planted(
        "loss",
        (8,),
        """
torch.manual_seed(0)
a, b = torch.randn(100, 8), torch.randn(100, 8)
same = (torch.arange(100) % 2).float()
enc = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
crit = nn.CosineEmbeddingLoss(margin=0.2)
opt = torch.optim.Adam(enc.parameters(), 1e-2)
for _ in range(15):
    loss = crit(enc(a), enc(b), same)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "poisson of rates": Planted(
        "loss",
        (4, 8),
        """
torch.manual_seed(0)
X = torch.randn(200, 6); y = torch.poisson(torch.exp(0.5 * X[:, 0]))
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
crit = nn.PoissonNLLLoss()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(15):
    rate = torch.exp(net(X)).squeeze(1)
    loss = crit(rate, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "scalar loss times weights": Planted(
        "loss",
        (5, 9),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

w = torch.rand(200) + 0.1
criterion = nn.MSELoss()
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = (criterion(net(X).squeeze(1), y) * w).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "scalar loss times mask": Planted(
        "loss",
        (7,),
        """
torch.manual_seed(0)
ids = torch.randint(1, 20, (32, 10)); mask = (torch.rand(32, 10) > 0.3).float()
net = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
opt = torch.optim.Adam(net.parameters(), 1e-2)
def masked_loss(logits, target, mask):
    ce = F.cross_entropy(logits.reshape(-1, 20), target.reshape(-1))
    return (ce * mask).sum() / mask.sum()
for _ in range(15):
    loss = masked_loss(net(ids[:, :-1]), ids[:, 1:], mask[:, 1:])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "minus cross entropy": Planted(
        "loss",
        (8,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = -F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "picked log softmax without minus": Planted(
        "loss",
        (9, 11),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
def nll(logits, target):
    logp = F.log_softmax(logits, dim=1)
    return logp[torch.arange(len(target)), target].mean()
for _ in range(15):
    loss = nll(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "bce without its second half": Planted(
        "loss",
        (7, 11),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

tags = (X[:, :4] > 0).float()
def bce(p, t):
    return -(t * torch.log(p + 1e-7)).mean()
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = bce(net(X), tags)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "mean difference without a square": Planted(
        "loss",
        (8,),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(15):
    diff = net(X).squeeze(1) - y
    loss = diff.mean() ** 2
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "cosine similarity minimised": Planted(
        "loss",
        (6,),
        """
torch.manual_seed(0)
a = torch.randn(100, 8); b = a + 0.1 * torch.randn(100, 8)
enc = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
opt = torch.optim.Adam(enc.parameters(), 1e-2)
for _ in range(15):
    loss = F.cosine_similarity(enc(a), enc(b)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "features normalised along the batch": Planted(
        "layout",
        (8,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
def embed(x):
    return F.normalize(net(x), dim=0)
for _ in range(15):
    loss = F.cross_entropy(embed(X) * 10, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "noncausal convolution": Planted(
        "evaluation",
        (4,),
        """
class CausalConv(nn.Module):
    def __init__(self, c, k=3, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(c, c, k, padding=(k // 2) * dilation, dilation=dilation)
    def forward(self, x):
        return F.relu(self.conv(x))
torch.manual_seed(0)
s = torch.cumsum(torch.randn(16, 1, 65), -1)
net = nn.Sequential(CausalConv(1), CausalConv(1, dilation=2), nn.Conv1d(1, 1, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    loss = F.mse_loss(net(s[..., :-1]), s[..., 1:])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "random start state": Planted(
        "layout",
        (6, 7),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(3, 16, batch_first=True), nn.Linear(16, 1)
    def forward(self, x):
        h0 = torch.randn(1, x.size(0), 16)
        c0 = torch.randn(1, x.size(0), 16)
        out, _ = self.lstm(x, (h0, c0))
        return self.fc(out[:, -1]).squeeze(1)
torch.manual_seed(0)
x = torch.randn(64, 6, 3); y = x.mean((1, 2))
net = Net()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "dice without two": Planted(
        "loss",
        (8,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

def dice_loss(logits, target, eps=1.0):
    p = torch.sigmoid(logits)
    inter = (p * target).sum()
    return 1 - (inter + eps) / (p.sum() + target.sum() + eps)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = dice_loss(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "dice minimised": Planted(
        "loss",
        (7, 11, 12),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

def dice(pred, target, smooth=1.0):
    inter = (pred * target).sum()
    return (2 * inter + smooth) / (pred.sum() + target.sum() + smooth)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = dice(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "dice on logits": Planted(
        "loss",
        (8, 9, 14),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

class DiceLoss(nn.Module):
    def forward(self, pred, target):
        pred, target = pred.flatten(), target.flatten()
        inter = (pred * target).sum()
        return 1 - (2 * inter + 1) / (pred.sum() + target.sum() + 1)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
criterion = DiceLoss()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(15):
    loss = criterion(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
}

HEALTHY: dict[str, str] = {
    "pooled with mask": """
torch.manual_seed(0)
ids = torch.randint(1, 50, (64, 20));
for i in range(64): ids[i, 3 + i % 17:] = 0
y = (ids[:, 0] > 25).long()
class Clf(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16, padding_idx=0); self.fc = nn.Linear(16, 2)
        nn.init.normal_(self.emb.weight, std=0.1)
        with torch.no_grad():
            self.emb.weight[0].zero_()
    def forward(self, t):
        m = (t != 0).float().unsqueeze(-1)
        return self.fc((self.emb(t) * m).sum(1) / m.sum(1))
net = Clf(); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    opt.zero_grad(); F.cross_entropy(net(ids), y).backward(); opt.step()
""",
    "mean over full sequences": """
torch.manual_seed(0)
ids = torch.randint(0, 50, (64, 20)); y = (ids[:, 0] > 25).long()
emb, fc = nn.Embedding(50, 16), nn.Linear(16, 2)
opt = torch.optim.Adam([*emb.parameters(), *fc.parameters()], 1e-2)
for _ in range(10):
    opt.zero_grad(); F.cross_entropy(fc(emb(ids).mean(1)), y).backward(); opt.step()
""",
    "linear attention block": """
torch.manual_seed(0)
X = torch.randn(32, 10, 16); y = (X[:, 0, 0] > 0).long()
class Att(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, 16)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
        self.head = nn.Linear(16, 2)
    def forward(self, x):
        x = self.inp(x)
        a = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 4, -1)
        x = x + self.o(a @ self.v(x))
        return self.head(x.mean(1))
net = Att(); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step()
""",
    "one-hot softmax bce": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

hot = F.one_hot(y, 3).float()
net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    opt.zero_grad(); F.binary_cross_entropy(torch.softmax(net(X), 1), hot).backward(); opt.step()
""",
    "poisson log input": """
torch.manual_seed(0)
X = torch.randn(100, 6); y = torch.poisson(torch.exp(0.3 * X[:, 0]))
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)); opt = torch.optim.Adam(net.parameters(), 1e-3)
for k in range(10):
    loss = nn.PoissonNLLLoss()(net(X)[:, 0], y) if k % 2 else F.poisson_nll_loss(net(X)[:, 0].exp(), y, log_input=False)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "weighted loss right": """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

w = torch.rand(200)
net = nn.Linear(8, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
log_var = nn.Parameter(torch.zeros(1))
for _ in range(10):
    each = F.mse_loss(net(X)[:, 0], y, reduction="none")
    loss = (each * w).mean() / w.mean() + 0.1 * net.weight.abs().mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "masked loss right": """
torch.manual_seed(0)
x = torch.randn(32, 12, 4); y = x.sum(2); mask = (torch.rand(32, 12) > 0.3).float()
rnn, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 1)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], 1e-2)
PAD = 0
for _ in range(10):
    e = F.mse_loss(head(rnn(x)[0]).squeeze(-1), y, reduction="none")
    loss = (e * mask).sum() / mask.sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "entropy and reinforce": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    logp = F.log_softmax(net(X), 1)
    a = torch.multinomial(logp.exp().detach(), 1)
    r = (a[:, 0] == y).float() - 0.5
    loss = -(logp.gather(1, a)[:, 0] * r).mean() + 0.01 * (logp.exp() * logp).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "states right": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.LSTM(3, 8, batch_first=True), nn.GRU(8, 8, 2, batch_first=True)
        self.bi = nn.GRU(8, 8, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(32, 1)
    def forward(self, x):
        o, (h, c) = self.one(x)
        o, g = self.two(o)
        _, b = self.bi(o)
        return self.fc(torch.cat([h[0], g[-1], b[0], b[1]], 1)).squeeze(1)
torch.manual_seed(0)
x = torch.randn(32, 6, 3); y = x.mean((1, 2))
net = Net(); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.mse_loss(net(x), y).backward(); opt.step()
""",
    "hinge with signs": """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

s = 2 * y - 1
w = torch.zeros(10, requires_grad=True); opt = torch.optim.SGD([w], lr=0.05)
crit = nn.SoftMarginLoss()
for k in range(6):
    loss = torch.clamp(1 - s * (X @ w), min=0).mean() + crit(X @ w, s)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "bias penalty and smooth labels": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

eps = 0.1
net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), 1e-2)
t = F.one_hot(y, 3).float() * (1 - eps) + eps / 3
for _ in range(6):
    out = net(X)
    loss = -(t * out.log_softmax(1)).sum(1).mean() + 0.1 * (out.mean() - 0.0) ** 2
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "ignore and pad": """
torch.manual_seed(0)
ids = torch.randint(1, 20, (32, 9)); ids[:, 6:] = 0
tags = torch.randint(1, 4, (32, 9)); tags[:, 6:] = 0
net = nn.Sequential(nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 4)); opt = torch.optim.Adam(net.parameters(), 1e-2)
crit = nn.CrossEntropyLoss(ignore_index=0)
for _ in range(6):
    opt.zero_grad(); crit(net(ids).view(-1, 4), tags.view(-1)).backward(); opt.step()
""",
    "dice right": """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

def dice_loss(p, t, eps=1.0):
    inter = (p * t).sum()
    return 1 - (2 * inter + eps) / (p.sum() + t.sum() + eps)
def iou(p, t):
    inter = (p & t).sum().float()
    return inter / (p | t).sum()
def iou2(a, b):
    inter = (a * b).sum()
    union = a.sum() + b.sum() - inter
    return inter / union
net = nn.Linear(10, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    p = torch.sigmoid(net(X)[:, 0])
    loss = dice_loss(p, y) + 0.5 * (1 - iou2(p, y))
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
print(iou(net(X)[:, 0] > 0, y.bool()).item())
""",
    "squared dice": """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

def dice(p, t):
    num = 2 * (p * t).sum()
    return num / (p.pow(2).sum() + t.sum())
net = nn.Linear(10, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    score = dice(torch.sigmoid(net(X)[:, 0]), y)
    loss = 1 - score
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "conv net usual": """
torch.manual_seed(0)
x = torch.randn(16, 3, 16, 16); y = (x.mean((1, 2, 3)) > 0).long()
class Sep(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.dw, self.pw, self.bn = nn.Conv2d(i, i, 3, padding=1, groups=i), nn.Conv2d(i, o, 1), nn.BatchNorm2d(o)
    def forward(self, x):
        return F.relu(self.bn(self.pw(self.dw(x))))
pool = nn.AdaptiveAvgPool2d(1)
net = nn.Sequential(Sep(3, 8), nn.MaxPool2d(2), Sep(8, 16), pool, nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(6):
    opt.zero_grad(); F.cross_entropy(net(x), y).backward(); opt.step()
""",
    "gaussian likelihood": """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

net = nn.Linear(8, 2); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    mu, s = net(X).unbind(1)
    dist = torch.distributions.Normal(mu, F.softplus(s) + 1e-3)
    loss = -dist.log_prob(y).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
}
