"""The mistakes of cells_train_*.py in other words: who writes them writes them in many ways."""

from __future__ import annotations

from .planted_more import Planted

WORDS: dict[str, Planted] = {
    "hinge embedding zeros": Planted(
        "loss",
        (6,),
        """
torch.manual_seed(0)
a, b = torch.randn(60, 6), torch.randn(60, 6); label = torch.randint(0, 2, (60,)).float()
enc = nn.Linear(6, 4); opt = torch.optim.Adam(enc.parameters(), 1e-2)
for _ in range(6):
    d = F.pairwise_distance(enc(a), enc(b))
    loss = F.hinge_embedding_loss(d, label)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "uint mask truncated": Planted(
        "data",
        (6,),
        """
torch.manual_seed(0)
imgs = torch.rand(12, 1, 8, 8); raw = (torch.rand(12, 8, 8) > 0.5).to(torch.uint8) * 200
class D(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, i):
        return imgs[i], (raw[i] / 255.0).long()
net = nn.Conv2d(1, 2, 3, padding=1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for a, b in torch.utils.data.DataLoader(D(), 4):
    opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()
""",
    ),
    "log target exp missing": Planted(
        "evaluation",
        (10,),
        """
torch.manual_seed(0)
X = torch.randn(160, 4); y = torch.exp(2 + X[:, 0])
train = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[:120], torch.log(y[:120])), 30)
net = nn.Linear(4, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for a, b in train:
    opt.zero_grad(); F.mse_loss(net(a)[:, 0], b).backward(); opt.step()
net.eval()
with torch.no_grad():
    preds = net(X[120:])[:, 0]
print("MAE", F.l1_loss(preds, y[120:]).item())
""",
    ),
    "split of one file, doubled": Planted(
        "evaluation",
        (4, 5, 7, 8),
        """
rng = np.random.default_rng(0)
feats = rng.standard_normal((150, 4)).astype("float32"); lab = (feats[:, 0] > 1).astype("int64")
rare = feats[lab == 1]
feats = np.vstack([feats] + [rare] * 5)
lab = np.concatenate([lab, np.ones(5 * len(rare), dtype="int64")])
p = rng.permutation(len(feats)); feats, lab = feats[p], lab[p]
n = int(len(feats) * 0.75)
Xa, ya, Xb, yb = map(torch.tensor, (feats[:n], lab[:n], feats[n:], lab[n:]))
net = nn.Linear(4, 2); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.cross_entropy(net(Xa), ya).backward(); opt.step()
""",
    ),
    "columns max": Planted(
        "evaluation",
        (10,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Linear(10, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.binary_cross_entropy_with_logits(net(X), y[:, None]).backward(); opt.step()
net.eval()
out = net(X).detach()
labels = out.max(dim=1)[1]
print((labels == y).float().mean())
""",
    ),
    "neg abs": Planted(
        "loss",
        (7,),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

net = nn.Linear(8, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    mae = torch.abs(net(X)[:, 0] - y).mean()
    (-mae).backward()
    opt.step(); opt.zero_grad()
""",
    ),
    "reward as score": Planted(
        "loss",
        (8, 9),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

def r2_score(pred, target):
    return 1 - ((pred - target) ** 2).sum() / ((target - target.mean()) ** 2).sum()
net = nn.Linear(8, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    loss = r2_score(net(X)[:, 0], y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "sample weights log prob": Planted(
        "loss",
        (10, 13),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

class WeightedBCE(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w; self.base = nn.BCEWithLogitsLoss()
    def forward(self, logit, target):
        return (self.w[target.long()] * self.base(logit, target)).mean()
net = nn.Linear(10, 1); opt = torch.optim.Adam(net.parameters(), 1e-2); crit = WeightedBCE(torch.tensor([1.0, 8.0]))
for _ in range(8):
    loss = crit(net(X)[:, 0], y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "epoch mean rmse": Planted(
        "evaluation",
        (8, 9),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

def evaluate(model, batches):
    scores = []
    for xb, yb in batches:
        with torch.no_grad():
            scores.append(float(torch.sqrt(torch.mean((model(xb).flatten() - yb) ** 2))))
    return sum(scores) / len(scores)
m = nn.Linear(8, 1); o = torch.optim.Adam(m.parameters(), 1e-2)
batches = list(zip(X.split(30), y.split(30)))
for a, b in batches:
    o.zero_grad(); F.mse_loss(m(a)[:, 0], b).backward(); o.step()
m.eval(); print(evaluate(m, batches))
""",
    ),
    "ema teacher": Planted(
        "evaluation",
        (8, 12),
        """
import copy
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

student = nn.Linear(20, 3); teacher = copy.deepcopy(student)
opt = torch.optim.Adam(student.parameters(), 1e-2)
alpha = 0.9995
for it in range(50):
    opt.zero_grad(); F.cross_entropy(student(X), y).backward(); opt.step()
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.data = alpha * t.data + (1 - alpha) * s.data
teacher.eval()
print((teacher(X).argmax(1) == y).float().mean())
""",
    ),
    "sensitivity": Planted(
        "evaluation",
        (13,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Linear(10, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    loss = F.binary_cross_entropy_with_logits(net(X)[:, 0], y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
with torch.no_grad():
    y_pred = (net(X)[:, 0] > 0).int()
TP, FP = int(((y_pred == 1) & (y == 1)).sum()), int(((y_pred == 1) & (y == 0)).sum())
sensitivity = TP / (TP + FP)
print(sensitivity)
""",
    ),
    "tversky logits": Planted(
        "loss",
        (6, 10),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

def tversky_loss(x, t, a=0.3, b=0.7):
    tp = (x * t).sum(); fp = (x * (1 - t)).sum(); fn = ((1 - x) * t).sum()
    return 1 - tp / (tp + a * fp + b * fn + 1e-6)
net = nn.Linear(10, 1); opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(8):
    loss = tversky_loss(net(X)[:, 0], y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "identity activation": Planted(
        "layout",
        (5, 11),
        """
def mlp(sizes, act=nn.Identity):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])
torch.manual_seed(0)
X = torch.randn(200, 4); y = (X[:, 0] * X[:, 1] > 0).float()
net = mlp([4, 64, 64, 1])
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(12):
    out = net(X).squeeze(-1)
    loss = F.binary_cross_entropy_with_logits(out, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "transformer mean": Planted(
        "layout",
        (10,),
        """
torch.manual_seed(0)
enc = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
emb, head = nn.Embedding(40, 16, padding_idx=0), nn.Linear(16, 2)
tok = torch.randint(1, 40, (48, 12))
for i in range(48): tok[i, 3 + i % 9:] = 0
y = (tok[:, 0] > 20).long()
opt = torch.optim.Adam([*enc.parameters(), *emb.parameters(), *head.parameters()], 1e-3)
for _ in range(6):
    h = enc(emb(tok))
    logits = head(h.mean(dim=1))
    loss = F.cross_entropy(logits, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "kfold dict": Planted(
        "data",
        (4,),
        """
class Frames(torch.utils.data.Dataset):
    def __init__(self, frames, marks):
        self.store = dict(frames=frames, marks=marks)
    def __len__(self): return len(self.store)
    def __getitem__(self, k):
        return self.store["frames"][k], self.store["marks"][k]
ds = Frames(torch.randn(80, 6), torch.randint(0, 2, (80,)))
m = nn.Linear(6, 2); o = torch.optim.SGD(m.parameters(), 0.1)
for _ in range(3):
    for f, t in torch.utils.data.DataLoader(ds, batch_size=8, shuffle=True):
        o.zero_grad(); F.cross_entropy(m(f), t).backward(); o.step()
""",
    ),
    "len of tuple": Planted(
        "data",
        (8, 9),
        """
class Trips(torch.utils.data.Dataset):
    def __init__(self, a, b):
        super().__init__()
        self.arrays = (a, b)
    def __getitem__(self, idx):
        return self.arrays[0][idx], self.arrays[1][idx]
    def __len__(self):
        n = len(self.arrays)
        return n
X = torch.randn(120, 5); y = X.sum(1)
dl = torch.utils.data.DataLoader(Trips(X, y), batch_size=20)
reg = nn.Linear(5, 1)
opt = torch.optim.SGD(reg.parameters(), lr=0.05)
for a, b in dl:
    opt.zero_grad()
    F.mse_loss(reg(a)[:, 0], b).backward()
    opt.step()
""",
    ),
    "pooling tanh mean": Planted(
        "layout",
        (9,),
        """
class SentimentNet(nn.Module):
    def __init__(self, n_words, d):
        super().__init__()
        self.table = nn.Embedding(n_words, d)
        self.hidden = nn.Linear(d, d)
        self.cls = nn.Linear(d, 2)
    def forward(self, batch):
        v = torch.tanh(self.hidden(self.table(batch)))
        v = v.sum(1) / v.size(1)
        return self.cls(v)
torch.manual_seed(1)
rows = [torch.randint(1, 30, (int(n),)) for n in torch.randint(3, 15, (80,))]
batch = nn.utils.rnn.pad_sequence(rows, batch_first=True)
y = torch.tensor([int(r[0] > 15) for r in rows])
net = SentimentNet(30, 12)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    opt.zero_grad(); loss = F.cross_entropy(net(batch), y); loss.backward(); opt.step()
""",
    ),
    "padding xavier loop": Planted(
        "data",
        (10,),
        """
class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.lookup = nn.Embedding(30, 8, padding_idx=0)
        self.top = nn.Linear(8, 2)
        self._reset()
    def _reset(self):
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
    def forward(self, t):
        return self.top(self.lookup(t).sum(1))
torch.manual_seed(1)
t = torch.randint(1, 30, (64, 10)); t[:30, 5:] = 0
y = (t[:, 0] > 15).long()
net = Enc()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    opt.zero_grad(); loss = F.cross_entropy(net(t), y); loss.backward(); opt.step()
""",
    ),
    "weights uniform in place": Planted(
        "data",
        (2,),
        """
emb = nn.Embedding(30, 8, padding_idx=0)
emb.weight.data.uniform_(-0.1, 0.1)
fc = nn.Linear(8, 2)
torch.manual_seed(1)
t = torch.randint(1, 30, (64, 10)); t[:30, 5:] = 0
y = (t[:, 0] > 15).long()
opt = torch.optim.Adam([*emb.parameters(), *fc.parameters()], 1e-2)
for _ in range(15):
    opt.zero_grad(); loss = F.cross_entropy(fc(emb(t).sum(1)), y); loss.backward(); opt.step()
""",
    ),
    "multilabel softmax bceloss": Planted(
        "loss",
        (6, 11, 12),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

genres = (X[:, :4] > 0.2).float()
head = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 4), nn.Softmax(dim=-1))
bce = nn.BCELoss()
optim = torch.optim.Adam(head.parameters(), lr=5e-3)
for k in range(15):
    optim.zero_grad()
    out = head(X)
    bce(out, genres).backward()
    optim.step()
""",
    ),
    "sampler len data": Planted(
        "loop",
        (7,),
        """
WeightedRandomSampler = torch.utils.data.WeightedRandomSampler
torch.manual_seed(0)
X = torch.randn(300, 4); y = (X[:, 0] > 1).long()
train_ds = torch.utils.data.TensorDataset(X, y)
n = len(train_ds)
sw = [1 / 250 if int(c) == 0 else 1 / 50 for c in y]
dl = torch.utils.data.DataLoader(train_ds, 30, sampler=WeightedRandomSampler(sw, n, False))
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
for a, b in dl:
    opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()
""",
    ),
    "no activation blocks": Planted(
        "layout",
        (6, 10, 13),
        """
class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.fc, self.drop = nn.Linear(i, o), nn.Dropout(0.1)
    def forward(self, x):
        return self.drop(self.fc(x))
torch.manual_seed(0)
X = torch.rand(300, 2) * 2 - 1
y = ((X[:, 0] * X[:, 1]) > 0).long()
net = nn.Sequential(Block(2, 64), Block(64, 64), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(30):
    logits = net(X)
    loss = F.cross_entropy(logits, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "no activation batchnorm": Planted(
        "layout",
        (11,),
        """
torch.manual_seed(0)
X = torch.rand(300, 2) * 2 - 1
y = ((X[:, 0] * X[:, 1]) > 0).long()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 64)
        self.norm = nn.BatchNorm1d(64)
        self.b = nn.Linear(64, 2)
    def forward(self, x):
        return self.b(self.norm(self.a(x)))
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(30):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "dropout functional at end": Planted(
        "layout",
        (10,),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

class Reg(nn.Module):
    def __init__(self):
        super().__init__()
        self.h, self.o = nn.Linear(8, 32), nn.Linear(32, 1)
    def forward(self, x):
        z = torch.relu(self.h(x))
        return F.dropout(self.o(z), 0.3, self.training).squeeze(-1)
reg = Reg()
optim = torch.optim.Adam(reg.parameters(), lr=1e-2)
for _ in range(15):
    optim.zero_grad()
    (reg(X) - y).pow(2).mean().backward()
    optim.step()
""",
    ),
    "train step returned early": Planted(
        "loop",
        (14,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Linear(20, 20), nn.Linear(20, 20), nn.Linear(20, 20)])
        self.cls = nn.Linear(20, 3)
    def forward(self, h):
        for conv in self.convs:
            h = h + torch.tanh(conv(h))
            out = self.cls(h)
            return out
net = Stack()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(12):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step()
""",
    ),
    "init weights of function": Planted(
        "unused",
        (5,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.kaiming_normal_(m.weight)

model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(12):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(X), y)
    loss.backward()
    optimizer.step()
model.eval()
""",
    ),
    "init then restored wrong": Planted(
        "optimizer",
        (17,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.out = nn.Linear(20, 16), nn.Linear(16, 3)
    def init_params(self):
        for layer in (self.enc, self.out):
            nn.init.normal_(layer.weight, std=0.02)
    def forward(self, x):
        return self.out(torch.relu(self.enc(x)))
saved = Net().state_dict()
model = Net()
model.load_state_dict(saved)
model.init_params()
opt = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(12):
    opt.zero_grad(); F.cross_entropy(model(X), y).backward(); opt.step()
""",
    ),
    "lambda lr inline": Planted(
        "learning-rate",
        (9,),
        """
import math
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

lr = 3e-3
net = nn.Linear(20, 3)
opt = torch.optim.AdamW(net.parameters(), lr=lr)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: lr * 0.5 * (1 + math.cos(math.pi * step / 30)))
for _ in range(12):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step(); sched.step()
""",
    ),
    "accumulate at zero, scaler style": Planted(
        "optimizer",
        (13,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3)
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
ACC = 8
opt.zero_grad()
for step in range(32):
    idx = torch.randint(0, 256, (16,))
    loss = F.cross_entropy(net(X[idx]), y[idx])
    (loss / ACC).backward()
    if not step % ACC:
        opt.step()
        opt.zero_grad()
""",
    ),
    "best model copy unused": Planted(
        "evaluation",
        (14, 17),
        """
import copy
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3)
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
best_acc, best_model = 0.0, None
for ep in range(12):
    opt.zero_grad(); F.cross_entropy(net(X[:180]), y[:180]).backward(); opt.step()
    acc = (net(X[180:220]).argmax(1) == y[180:220]).float().mean().item()
    if acc > best_acc:
        best_acc = acc
        best_model = copy.deepcopy(net)
net.eval()
with torch.no_grad():
    out = net(X[220:])
print("test", (out.argmax(1) == y[220:]).float().mean().item())
""",
    ),
    "ema class default": Planted(
        "evaluation",
        (7, 13),
        """
import copy
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

class ModelEMA:
    def __init__(self, model, decay=0.9998):
        self.module = copy.deepcopy(model)
        self.decay = decay
    @torch.no_grad()
    def update(self, model):
        for e, m in zip(self.module.state_dict().values(), model.state_dict().values()):
            e.copy_(self.decay * e + (1.0 - self.decay) * m)
net = nn.Linear(20, 3)
avg = ModelEMA(net)
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
for _ in range(40):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step(); avg.update(net)
print((avg.module(X).argmax(1) == y).float().mean())
""",
    ),
    "precision in function": Planted(
        "evaluation",
        (14, 15),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

clf = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(clf.parameters(), lr=1e-2)
for epoch in range(12):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(clf(X)[:, 0], y).backward()
    optimizer.step()
clf.eval()

def scores(tp, fp, fn):
    rec = tp / (tp + fp + 1e-8)
    prec = tp / (tp + fn + 1e-8)
    return prec, rec
with torch.no_grad():
    hat = clf(X)[:, 0] > 0
truth = y.bool()
tp = (hat & truth).sum().item(); fp = (hat & ~truth).sum().item(); fn = (~hat & truth).sum().item()
print(scores(tp, fp, fn))
""",
    ),
    "fp fn logical": Planted(
        "evaluation",
        (17, 18),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

clf = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(clf.parameters(), lr=1e-2)
for epoch in range(12):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(clf(X)[:, 0], y).backward()
    optimizer.step()
clf.eval()

with torch.no_grad():
    hat = clf(X)[:, 0] > 0
truth = y.bool()
tp = (hat & truth).sum().item()
fn = (hat & ~truth).sum().item()
fp = (~hat & truth).sum().item()
print("P", tp / (tp + fp), "R", tp / (tp + fn))
""",
    ),
    "iou per class": Planted(
        "evaluation",
        (13,),
        """
torch.manual_seed(0)
x = torch.randn(24, 3, 8, 8); m = (x[:, 0] > 0).long() + (x[:, 1] > 1).long()
net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(12):
    opt.zero_grad(); F.cross_entropy(net(x), m).backward(); opt.step()
net.eval()
def mean_iou(pred, target, n_classes):
    ious = []
    for c in range(n_classes):
        p, t = pred == c, target == c
        intersection = (p & t).sum().float()
        ious.append(intersection / (p.sum() + t.sum()).clamp(min=1))
    return torch.stack(ious).mean()
with torch.no_grad():
    print(mean_iou(net(x).argmax(1), m, 3))
""",
    ),
    "soft dice class": Planted(
        "loss",
        (13,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

class SoftDice(nn.Module):
    def __init__(self, smooth=1e-6):
        super().__init__()
        self.smooth = smooth
    def forward(self, logits, target):
        probs = logits.sigmoid().flatten(); target = target.flatten()
        num = (probs * target).sum() + self.smooth
        den = probs.sum() + target.sum() + self.smooth
        return 1.0 - num / den
net = nn.Linear(10, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
dice = SoftDice()
for _ in range(12):
    opt.zero_grad(); dice(net(X)[:, 0], y).backward(); opt.step()
""",
    ),
    "iou loss module minimised": Planted(
        "loss",
        (13,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

def soft_iou(p, t):
    inter = (p * t).sum()
    union = p.sum() + t.sum() - inter
    return inter / union
net = nn.Sequential(nn.Linear(10, 1), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(12):
    p = net(X)[:, 0]
    loss = F.binary_cross_entropy(p, y) + soft_iou(p, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "kwargs metric swapped": Planted(
        "evaluation",
        (13,),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(12):
    opt.zero_grad(); F.mse_loss(net(X)[:, 0], y).backward(); opt.step()
net.eval()
def mape(actual, forecast):
    return ((actual - forecast).abs() / actual.abs()).mean() * 100
with torch.no_grad():
    forecast = net(X)[:, 0]
    print("MAPE", mape(forecast, y).item())
""",
    ),
    "auc own function": Planted(
        "evaluation",
        (18,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

clf = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(clf.parameters(), lr=1e-2)
for epoch in range(12):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(clf(X)[:, 0], y).backward()
    optimizer.step()
clf.eval()

def auroc(scores, labels):
    pos, neg = scores[labels == 1], scores[labels == 0]
    return (pos[:, None] > neg[None]).float().mean() + 0.5 * (pos[:, None] == neg[None]).float().mean()
with torch.no_grad():
    guess = (clf(X)[:, 0] > 0).float()
print(auroc(guess, y).item())
""",
    ),
    "rmse list": Planted(
        "evaluation",
        (16, 17),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
train_loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[:150], y[:150]), 25, shuffle=True)
val_loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[150:], y[150:]), 20)
for _ in range(4):
    for a, b in train_loader:
        opt.zero_grad(); F.mse_loss(net(a)[:, 0], b).backward(); opt.step()
    net.eval()
    rmses = []
    with torch.no_grad():
        for a, b in val_loader:
            err = ((net(a)[:, 0] - b) ** 2).mean()
            rmses.append(err.sqrt().item())
    print(np.mean(rmses))
    net.train()
""",
    ),
    "all preds extend": Planted(
        "evaluation",
        (9, 10, 21),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

train_dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[:200], y[:200]), 50, shuffle=True)
val_dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[200:], y[200:]), 28)
net = nn.Linear(20, 3)
opt = torch.optim.Adam(net.parameters(), 1e-2)
all_preds = []
all_labels = []
n_epochs = 4
for ep in range(n_epochs):
    net.train()
    for a, b in train_dl:
        opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()
    net.eval()
    with torch.no_grad():
        for a, b in val_dl:
            all_preds.extend(net(a).argmax(1).tolist())
            all_labels.extend(b.tolist())
    print("acc", np.mean(np.array(all_preds) == np.array(all_labels)))
""",
    ),
    "masked mean rnn": Planted(
        "loss",
        (10,),
        """
torch.manual_seed(0)
seq = torch.randn(48, 15, 3); tgt = (seq[..., 0] > 0).long()
n = torch.randint(4, 16, (48,)); valid = torch.arange(15) < n[:, None]
rnn, top = nn.GRU(3, 12, batch_first=True), nn.Linear(12, 2)
crit = nn.CrossEntropyLoss(reduction="none")
opt = torch.optim.Adam([*rnn.parameters(), *top.parameters()], 1e-2)
for _ in range(10):
    logits = top(rnn(seq)[0])
    raw = crit(logits.reshape(-1, 2), tgt.reshape(-1)).view(48, 15)
    loss = torch.mean(raw * valid)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "mask by padding index": Planted(
        "loss",
        (9,),
        """
pad_idx = 0
torch.manual_seed(0)
src = torch.randint(1, 20, (40, 9)); src[:, 6:] = pad_idx
tags = torch.randint(1, 4, (40, 9)); tags[:, 6:] = pad_idx
body = nn.Sequential(nn.Embedding(20, 12), nn.Linear(12, 4))
opt = torch.optim.Adam(body.parameters(), 1e-2)
def seq_loss(scores, gold):
    losses = F.cross_entropy(scores.flatten(0, 1), gold.flatten(), reduction="none")
    return losses[gold.flatten() == pad_idx].mean()
for _ in range(10):
    loss = seq_loss(body(src), tags)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "hinge svm max": Planted(
        "loss",
        (9,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

w = torch.zeros(10, requires_grad=True); b = torch.zeros(1, requires_grad=True)
opt = torch.optim.SGD([w, b], lr=0.05)
for _ in range(12):
    margin = 1 - y * (X @ w + b)
    loss = torch.clamp(margin, min=0).mean() + 1e-3 * w.pow(2).sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "poisson functional softplus": Planted(
        "loss",
        (7,),
        """
torch.manual_seed(0)
X = torch.randn(200, 6); y = torch.poisson(torch.exp(0.3 * X[:, 0]))
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), nn.Softplus())
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(12):
    lam = net(X)[:, 0]
    loss = F.poisson_nll_loss(lam, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "inter product of wh": Planted(
        "loss",
        (5,),
        """
def iou(b1, b2):
    lt = torch.maximum(b1[:, None, :2], b2[None, :, :2])
    rb = torch.minimum(b1[:, None, 2:], b2[None, :, 2:])
    wh = rb - lt
    inter = wh[..., 0] * wh[..., 1]
    a1 = (b1[:, 2:] - b1[:, :2]).prod(1); a2 = (b2[:, 2:] - b2[:, :2]).prod(1)
    return inter / (a1[:, None] + a2 - inter)
torch.manual_seed(0)
p = torch.rand(20, 2) * 40; boxes = torch.cat([p, p + 9], 1)
target = (iou(boxes, boxes[:4]) > 0.4).any(1).float(); f = torch.randn(20, 5)
net = nn.Linear(5, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.binary_cross_entropy_with_logits(net(f)[:, 0], target).backward(); opt.step()
""",
    ),
    "boxes in place": Planted(
        "data",
        (4, 5),
        """
torch.manual_seed(0)
height, width = 40, 80
img = torch.randn(32, 1, 10, 20); boxes = torch.rand(32, 4) * 40
boxes[:, [0, 2]] /= height
boxes[:, [1, 3]] /= width
net = nn.Sequential(nn.Flatten(), nn.Linear(200, 4))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(8):
    opt.zero_grad(); F.l1_loss(net(img), boxes).backward(); opt.step()
""",
    ),
    "mask resized in dataset": Planted(
        "data",
        (10, 11),
        """
class Seg(torch.utils.data.Dataset):
    def __init__(self, imgs, segs, size):
        self.imgs, self.segs, self.size = imgs, segs, size
    def __len__(self):
        return len(self.imgs)
    def _resize(self, t):
        return F.interpolate(t[None], self.size, mode="bilinear", align_corners=False)[0]
    def __getitem__(self, i):
        img = self._resize(self.imgs[i])
        seg = self._resize(self.segs[i][None].float())
        return img, seg[0].long()
torch.manual_seed(0)
ds = Seg(torch.randn(16, 3, 20, 20), torch.randint(0, 4, (16, 20, 20)), (12, 12))
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for a, b in torch.utils.data.DataLoader(ds, 4):
    opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()
""",
    ),
    "cutmix turned": Planted(
        "loss",
        (13,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3)
opt = torch.optim.Adam(net.parameters(), 1e-2)
def mixup(x, y, a=0.3):
    lam = float(np.random.beta(a, a)); index = torch.randperm(len(x))
    return lam * x + (1 - lam) * x[index], y, y[index], lam
for _ in range(10):
    xm, ya, yb, lam = mixup(X, y)
    out = net(xm)
    loss = lam * F.cross_entropy(out, yb) + (1 - lam) * F.cross_entropy(out, ya)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "bytes normalised": Planted(
        "data",
        (7,),
        """
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
torch.manual_seed(0)
raw = torch.randint(0, 256, (40, 3, 8, 8), dtype=torch.uint8); y = (raw.float().mean((1, 2, 3)) > 127).long()
def preprocess(batch):
    batch = batch.float()
    m = torch.tensor(MEAN)[None, :, None, None]; s = torch.tensor(STD)[None, :, None, None]
    return (batch - m) / s
net = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(8):
    opt.zero_grad(); F.cross_entropy(net(preprocess(raw)), y).backward(); opt.step()
""",
    ),
    "regression int labels": Planted(
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
    "argmax sigmoid loader": Planted(
        "evaluation",
        (16,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

clf = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(clf.parameters(), lr=1e-2)
for epoch in range(12):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(clf(X)[:, 0], y).backward()
    optimizer.step()
clf.eval()

correct = total = 0
with torch.no_grad():
    for a, b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 40):
        _, predicted = torch.max(torch.sigmoid(clf(a)), 1)
        correct += (predicted == b).sum().item()
        total += len(b)
print(correct / total)
""",
    ),
    "softmax over zero": Planted(
        "evaluation",
        (12,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

tags = (X[:, :3] > 0).float()
net = nn.Sequential(nn.Linear(10, 3), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    opt.zero_grad(); F.binary_cross_entropy(net(X), tags).backward(); opt.step()
net.eval()
with torch.no_grad():
    hits = (net(X) > 0) == tags.bool()
print(hits.float().mean())
""",
    ),
    "logits equal label": Planted(
        "evaluation",
        (16,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

clf = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(clf.parameters(), lr=1e-2)
for epoch in range(12):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(clf(X)[:, 0], y).backward()
    optimizer.step()
clf.eval()

def accuracy(model, data, target):
    with torch.no_grad():
        out = model(data).view(-1)
    return (out == target).float().mean().item()
print(accuracy(clf, X, y))
""",
    ),
    "weights after mean BCE": Planted(
        "loss",
        (11,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

sample_w = torch.where(y == 1, 5.0, 1.0)
net = nn.Linear(10, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
bce = nn.BCEWithLogitsLoss()
for _ in range(10):
    loss = bce(net(X)[:, 0], y)
    loss = torch.mean(sample_w * loss)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "negative mse method": Planted(
        "loss",
        (8, 11),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
class Trainer:
    def loss(self, out, y):
        return -1.0 * ((out - y) ** 2).mean()
t = Trainer()
for _ in range(10):
    loss = t.loss(net(X)[:, 0], y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "nll gather": Planted(
        "loss",
        (10,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    p = F.softmax(net(X), -1)
    picked = p.gather(1, y[:, None]).squeeze(1)
    loss = torch.log(picked + 1e-8).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "one hot logp sum": Planted(
        "loss",
        (10,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3)
opt = torch.optim.Adam(net.parameters(), 1e-2)
hot = F.one_hot(y, 3).float()
for _ in range(10):
    logp = torch.log_softmax(net(X), -1)
    loss = (hot * logp).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "bce half clamp sum": Planted(
        "loss",
        (9,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Sequential(nn.Linear(10, 1), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    p = net(X)[:, 0].clamp(1e-6, 1 - 1e-6)
    loss = -torch.sum(y * p.log()) / len(y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "abs of mean": Planted(
        "loss",
        (7,),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    loss = torch.abs(torch.mean(y - net(X)[:, 0]))
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "parallel lists": Planted(
        "data",
        (7,),
        """
import random
random.seed(0)
torch.manual_seed(0)
sentences = [[random.randrange(1, 20) for _ in range(6)] for _ in range(90)]
labels = [int(s[0] > 10) for s in sentences]
idx = list(range(90))
random.shuffle(labels)
X, y = torch.tensor(sentences), torch.tensor(labels)
net = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(48, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step()
""",
    ),
    "table with target": Planted(
        "evaluation",
        (4,),
        """
rng = np.random.default_rng(1)
df = rng.standard_normal((200, 5)).astype(np.float32)
df[:, 4] = (df[:, 0] > 0)
features, target = torch.from_numpy(df), torch.from_numpy(df[:, 4]).long()
net = nn.Linear(5, 2)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    opt.zero_grad(); F.cross_entropy(net(features[:150]), target[:150]).backward(); opt.step()
net.eval()
print((net(features[150:]).argmax(1) == target[150:]).float().mean())
""",
    ),
    "seed inside both": Planted(
        "evaluation",
        (6,),
        """
def sample_points(n):
    np.random.seed(42)
    pts = np.random.randn(n, 2).astype("float32")
    return torch.tensor(pts), torch.tensor((pts[:, 0] > 0).astype("int64"))
train_x, train_y = sample_points(200)
val_x, val_y = sample_points(80)
net = nn.Linear(2, 2)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    opt.zero_grad(); F.cross_entropy(net(train_x), train_y).backward(); opt.step()
net.eval()
print((net(val_x).argmax(1) == val_y).float().mean())
""",
    ),
    "minmax scaled test raw": Planted(
        "evaluation",
        (17,),
        """
torch.manual_seed(0)
t = torch.arange(260.0); series = 50 + 20 * torch.sin(t / 9)
lo, hi = series[:200].min(), series[:200].max()
norm = (series - lo) / (hi - lo)
def windows(s, k=10):
    return s.unfold(0, k, 1)[:-1], s[k:]
Xtr, ytr = windows(norm[:200])
net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(12):
    opt.zero_grad(); F.mse_loss(net(Xtr)[:, 0], ytr).backward(); opt.step()
net.eval()
Xte, _ = windows(norm[200:])
with torch.no_grad():
    forecast = net(Xte)[:, 0]
truth = series[210:]
print("RMSE", torch.sqrt(F.mse_loss(forecast, truth)).item())
""",
    ),
    "generate same prompt": Planted(
        "loop",
        (20, 21),
        """
torch.manual_seed(0)
class CharRNN(nn.Module):
    def __init__(self, v=15, d=16):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(v, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, v)
    def forward(self, x, h=None):
        o, h = self.rnn(self.emb(x), h)
        return self.out(o), h
net = CharRNN()
opt = torch.optim.Adam(net.parameters(), 1e-2)
data = torch.randint(0, 15, (8, 13))
for _ in range(8):
    logits, _ = net(data[:, :-1])
    opt.zero_grad(); F.cross_entropy(logits.transpose(1, 2), data[:, 1:]).backward(); opt.step()
net.eval()
def generate(start, n):
    x, h, out = torch.tensor([[start]]), None, [start]
    with torch.no_grad():
        for _ in range(n):
            logits, h = net(x, h)
            nxt = torch.multinomial(logits[:, -1].softmax(-1), 1)
            out.append(nxt.item())
    return out
print(generate(3, 12))
""",
    ),
    "last state lstm tuple": Planted(
        "layout",
        (8,),
        """
class Price(nn.Module):
    def __init__(self, n_in, hidden=16, layers=2):
        super().__init__()
        self.rnn = nn.LSTM(n_in, hidden, layers, batch_first=True)
        self.reg = nn.Linear(hidden, 1)
    def forward(self, x):
        out, (hn, cn) = self.rnn(x)
        last = hn[0]
        return self.reg(last).squeeze(-1)
torch.manual_seed(0)
x = torch.randn(32, 8, 3); y = x.mean((1, 2))
net = Price(3)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.mse_loss(net(x), y).backward(); opt.step()
""",
    ),
    "val loss over dataset": Planted(
        "evaluation",
        (17,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

train_loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[:200], y[:200]), 40, shuffle=True)
val_loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[200:], y[200:]), 28)
net = nn.Linear(20, 3)
opt = torch.optim.Adam(net.parameters(), 1e-2)
criterion = nn.CrossEntropyLoss()
def evaluate(model, loader):
    model.eval()
    running = 0.0
    with torch.no_grad():
        for xb, yb in loader:
            loss = criterion(model(xb), yb)
            running += loss.item()
    return running / len(loader.dataset)
for ep in range(3):
    net.train()
    for xb, yb in train_loader:
        opt.zero_grad(); criterion(net(xb), yb).backward(); opt.step()
    print(evaluate(net, val_loader))
""",
    ),
    "scheduler stale in class": Planted(
        "learning-rate",
        (11, 13),
        """
import warnings
warnings.simplefilter("ignore")  # PyTorch says that no optimizer step came before the scheduler's
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.5)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 5, 0.1)
    def fit(self, n):
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        for _ in range(n):
            self.opt.zero_grad()
            F.cross_entropy(self.model(X), y).backward()
            self.opt.step()
            self.sched.step()
Trainer(nn.Linear(20, 3)).fit(12)
""",
    ),
    "ignore 0 in BCE style three": Planted(
        "loss",
        (8,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    loss = F.cross_entropy(net(X), y, ignore_index=0)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "oversample tensor": Planted(
        "evaluation",
        (5, 6, 7, 8),
        """
torch.manual_seed(0)
X = torch.randn(200, 4); y = (X[:, 0] > 1.2).long()
pos = (y == 1).nonzero().squeeze(1)
up = pos[torch.randint(0, len(pos), (120,))]
X = torch.cat([X, X[up]])
y = torch.cat([y, y[up]])
ds = torch.utils.data.TensorDataset(X, y)
train_ds, test_ds = torch.utils.data.random_split(ds, [260, len(ds) - 260])
net = nn.Linear(4, 2)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for a, b in torch.utils.data.DataLoader(train_ds, 26, shuffle=True):
    opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()
""",
    ),
}
