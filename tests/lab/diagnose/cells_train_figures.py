"""Figures, schedules and averages of supervised training that say or do something else."""

from __future__ import annotations

from .planted_more import Planted

PLANTED: dict[str, Planted] = {
    "recall by the columns": Planted(
        "evaluation",
        (11, 12),
        """
torch.manual_seed(0)
X = torch.randn(200, 4); y = (X[:, 0] > 0).long() + (X[:, 1] > 1).long()
net = nn.Linear(4, 3); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(8):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step()
net.eval()
pred = net(X).argmax(1)
cm = torch.zeros(3, 3)
for t, p in zip(y, pred):
    cm[t, p] += 1
recall = cm.diag() / cm.sum(0)
precision = cm.diag() / cm.sum(1)
print(recall, precision)
""",
    ),
    "init never called": Planted(
        "unused",
        (9,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(20, 32); self.g = nn.Linear(32, 3)
    def init_weights(self):
        for m in (self.f, self.g):
            nn.init.xavier_uniform_(m.weight); nn.init.zeros_(m.bias)
    def forward(self, x):
        return self.g(torch.relu(self.f(x)))
net = Net()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(30):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "init after loading": Planted(
        "optimizer",
        (13,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

def make():
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
def init(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight); nn.init.zeros_(m.bias)
pre = make()
net = make()
net.load_state_dict(pre.state_dict())
net.apply(init)
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(30):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "lambda gives the rate": Planted(
        "learning-rate",
        (9, 10),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

base_lr = 1e-2
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=base_lr)
def warmup(epoch):
    return base_lr * min(1.0, (epoch + 1) / 5)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda=warmup)
for epoch in range(20):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
""",
    ),
    "scheduler of another optimizer": Planted(
        "learning-rate",
        (9, 10),
        """
import warnings
warnings.simplefilter("ignore")  # PyTorch says that no optimizer step came before the scheduler's
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.SGD(net.parameters(), 0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(20):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
    scheduler.step()
""",
    ),
    "accumulate: steps at the first": Planted(
        "optimizer",
        (12,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
accum = 4
for i, (xb, yb) in enumerate(loader):
    loss = F.cross_entropy(net(xb), yb) / accum
    loss.backward()
    if i % accum == 0:
        opt.step()
        opt.zero_grad()
""",
    ),
    "best kept, last one tested": Planted(
        "evaluation",
        (18, 21),
        """
import copy
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
best, best_state = 1e9, None
for epoch in range(10):
    net.train()
    loss = F.cross_entropy(net(X[:180]), y[:180])
    opt.zero_grad(); loss.backward(); opt.step()
    net.eval()
    with torch.no_grad():
        val = F.cross_entropy(net(X[180:220]), y[180:220]).item()
    if val < best:
        best = val
        best_state = copy.deepcopy(net.state_dict())
net.eval()
with torch.no_grad():
    test_acc = (net(X[220:]).argmax(1) == y[220:]).float().mean()
print("test", test_acc.item())
""",
    ),
    "ema too slow": Planted(
        "evaluation",
        (8, 15),
        """
import copy
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
ema = copy.deepcopy(net)
decay = 0.9999
opt = torch.optim.Adam(net.parameters(), 1e-2)
for step in range(60):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
    with torch.no_grad():
        for pe, p in zip(ema.parameters(), net.parameters()):
            pe.mul_(decay).add_(p, alpha=1 - decay)
ema.eval()
print((ema(X).argmax(1) == y).float().mean().item())
""",
    ),
    "ema not restored": Planted(
        "evaluation",
        (16, 27),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

class EMA:
    def __init__(self, model, decay=0.9):
        self.model, self.decay = model, decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
    def update(self):
        for k, v in self.model.named_parameters():
            self.shadow[k].mul_(self.decay).add_(v.detach(), alpha=1 - self.decay)
    def apply(self):
        self.backup = {k: v.detach().clone() for k, v in self.model.named_parameters()}
        for k, v in self.model.named_parameters():
            v.data.copy_(self.shadow[k])
    def restore(self):
        for k, v in self.model.named_parameters():
            v.data.copy_(self.backup[k])
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
ema = EMA(net)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(6):
    for i in range(0, 256, 64):
        loss = F.cross_entropy(net(X[i:i + 64]), y[i:i + 64])
        opt.zero_grad(); loss.backward(); opt.step()
        ema.update()
    ema.apply()
    with torch.no_grad():
        print(F.cross_entropy(net(X), y).item())
""",
    ),
    "metrics lists not reset": Planted(
        "evaluation",
        (9, 18, 19, 20),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

train = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[:200], y[:200]), batch_size=50, shuffle=True)
valid = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[200:], y[200:]), batch_size=50)
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
preds, targets = [], []
for epoch in range(5):
    net.train()
    for xb, yb in train:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
    net.eval()
    with torch.no_grad():
        for xb, yb in valid:
            preds.append(net(xb).argmax(1))
            targets.append(yb)
    acc = (torch.cat(preds) == torch.cat(targets)).float().mean()
    print(epoch, acc.item())
""",
    ),
    "precision recall exchanged": Planted(
        "evaluation",
        (17, 18),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.binary_cross_entropy_with_logits(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

with torch.no_grad():
    p = (net(X).squeeze(1) > 0).float()
tp = ((p == 1) & (y == 1)).sum().float()
fp = ((p == 1) & (y == 0)).sum().float()
fn = ((p == 0) & (y == 1)).sum().float()
precision = tp / (tp + fn)
recall = tp / (tp + fp)
f1 = 2 * precision * recall / (precision + recall)
print(precision, recall, f1)
""",
    ),
    "fp and fn exchanged": Planted(
        "evaluation",
        (14, 15),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.binary_cross_entropy_with_logits(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

def counts(pred, true):
    tp = ((pred == 1) & (true == 1)).sum()
    fn = ((pred == 1) & (true == 0)).sum()
    fp = ((pred == 0) & (true == 1)).sum()
    return tp.item(), fp.item(), fn.item()
with torch.no_grad():
    pred = (torch.sigmoid(net(X).squeeze(1)) > 0.5).long()
tp, fp, fn = counts(pred, y.long())
print("precision", tp / (tp + fp), "recall", tp / (tp + fn))
""",
    ),
    "iou without minus": Planted(
        "evaluation",
        (14, 15),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.binary_cross_entropy_with_logits(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

def iou(pred, mask, eps=1e-6):
    inter = (pred * mask).sum()
    union = pred.sum() + mask.sum()
    return (inter + eps) / (union + eps)
with torch.no_grad():
    p = (net(X).squeeze(1) > 0).float()
print(iou(p, y).item())
""",
    ),
    "r2 arguments swapped": Planted(
        "evaluation",
        (16,),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

def r2(y_true, y_pred):
    ss_res = ((y_true - y_pred) ** 2).sum()
    ss_tot = ((y_true - y_true.mean()) ** 2).sum()
    return 1 - ss_res / ss_tot
net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(60):
    loss = F.mse_loss(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
with torch.no_grad():
    pred = net(X).squeeze(1)
print(r2(pred, y).item())
""",
    ),
    "rmse averaged": Planted(
        "evaluation",
        (15, 16),
        """
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=10)
net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(5):
    for xb, yb in loader:
        loss = F.mse_loss(net(xb).squeeze(1), yb)
        opt.zero_grad(); loss.backward(); opt.step()
net.eval()
total = 0.0
with torch.no_grad():
    for xb, yb in loader:
        total += torch.sqrt(F.mse_loss(net(xb).squeeze(1), yb)).item()
rmse = total / len(loader)
print(rmse)
""",
    ),
    "perplexity averaged": Planted(
        "evaluation",
        (14, 15),
        """
import math
torch.manual_seed(0)
ids = torch.randint(0, 30, (2000,))
net = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 30))
opt = torch.optim.Adam(net.parameters(), 1e-2)
batches = [(ids[i:i + 50], ids[i + 1:i + 51]) for i in range(0, 1900, 50)]
for a, b in batches:
    loss = F.cross_entropy(net(a), b)
    opt.zero_grad(); loss.backward(); opt.step()
ppl = 0.0
net.eval()
with torch.no_grad():
    for a, b in batches:
        ppl += math.exp(F.cross_entropy(net(a), b).item())
print("perplexity", ppl / len(batches))
""",
    ),
    "generation feeds the first token": Planted(
        "loop",
        (15, 16),
        """
torch.manual_seed(0)
emb, cell, out = nn.Embedding(12, 16), nn.GRUCell(16, 16), nn.Linear(16, 12)
params = [*emb.parameters(), *cell.parameters(), *out.parameters()]
opt = torch.optim.Adam(params, 1e-2)
seq = torch.randint(0, 12, (16, 9))
for _ in range(5):
    h = torch.zeros(16, 16); loss = 0.0
    for t in range(8):
        h = cell(emb(seq[:, t]), h)
        loss = loss + F.cross_entropy(out(h), seq[:, t + 1])
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    tok, h, text = torch.zeros(1, dtype=torch.long), torch.zeros(1, 16), []
    for _ in range(10):
        h = cell(emb(tok), h)
        nxt = out(h).argmax(1)
        text.append(nxt.item())
print(text)
""",
    ),
    "inter without clamp": Planted(
        "loss",
        (4,),
        """
def box_iou(a, b):
    x1 = torch.max(a[:, None, 0], b[None, :, 0]); y1 = torch.max(a[:, None, 1], b[None, :, 1])
    x2 = torch.min(a[:, None, 2], b[None, :, 2]); y2 = torch.min(a[:, None, 3], b[None, :, 3])
    inter = (x2 - x1) * (y2 - y1)
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]); area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return inter / (area_a[:, None] + area_b[None] - inter)
torch.manual_seed(0)
def boxes(n):
    p = torch.rand(n, 2) * 50; s = torch.rand(n, 2) * 20 + 2
    return torch.cat([p, p + s], 1)
gt, anchors = boxes(6), boxes(40)
feats = torch.randn(40, 8)
labels = (box_iou(anchors, gt).max(1).values > 0.3).float()
net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    loss = F.binary_cross_entropy_with_logits(net(feats)[:, 0], labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "nms keeps the lowest": Planted(
        "evaluation",
        (2,),
        """
def nms(boxes, scores, thr=0.5):
    order = scores.argsort()
    keep = []
    while len(order):
        i = order[0]
        keep.append(i.item())
        lt = torch.max(boxes[i, :2], boxes[order, :2]); rb = torch.min(boxes[i, 2:], boxes[order, 2:])
        wh = (rb - lt).clamp(min=0); inter = wh[:, 0] * wh[:, 1]
        area = (boxes[order, 2] - boxes[order, 0]) * (boxes[order, 3] - boxes[order, 1])
        iou = inter / (area + area[0] - inter)
        order = order[iou <= thr]
    return keep
torch.manual_seed(0)
p = torch.rand(30, 2) * 20; boxes = torch.cat([p, p + 8], 1)
feats = torch.randn(30, 6); hit = (feats[:, 0] > 0).float()
net = nn.Linear(6, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(10):
    loss = F.binary_cross_entropy_with_logits(net(feats)[:, 0], hit)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
with torch.no_grad():
    print(nms(boxes, torch.sigmoid(net(feats)[:, 0])))
""",
    ),
    "sum of means over samples": Planted(
        "evaluation",
        (17,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=32)
val_loss = 0.0
with torch.no_grad():
    for xb, yb in loader:
        val_loss += F.cross_entropy(net(xb), yb).item()
val_loss /= len(loader.dataset)
print(val_loss)
""",
    ),
    "sums over batches": Planted(
        "evaluation",
        (18,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=32)
criterion = nn.CrossEntropyLoss(reduction="sum")
val = 0.0
with torch.no_grad():
    for xb, yb in loader:
        val += criterion(net(xb), yb).item()
print("val loss", val / len(loader))
""",
    ),
    "argmax of one column": Planted(
        "evaluation",
        (13,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.binary_cross_entropy_with_logits(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

with torch.no_grad():
    pred = net(X).argmax(dim=1)
acc = (pred == y).float().mean()
print(acc.item())
""",
    ),
    "sigmoid above zero": Planted(
        "evaluation",
        (14,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.binary_cross_entropy_with_logits(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

with torch.no_grad():
    prob = torch.sigmoid(net(X).squeeze(1))
    pred = (prob > 0).float()
print((pred == y).float().mean().item())
""",
    ),
    "probability equals label": Planted(
        "evaluation",
        (15,),
        """
torch.manual_seed(0)
X = torch.randn(240, 10)
y = (X[:, 0] + 0.3 * torch.randn(240) > 0).float()

net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.binary_cross_entropy_with_logits(net(X).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

correct = 0
with torch.no_grad():
    out = torch.sigmoid(net(X)).squeeze(1)
    correct += (out == y).sum().item()
print(correct / len(y))
""",
    ),
    "accuracy over batches of one size": Planted(
        "evaluation",
        (18,),
        """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(15):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()

bs = 60
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=bs)
correct = 0
with torch.no_grad():
    for xb, yb in loader:
        correct += (net(xb).argmax(1) == yb).sum().item()
print("acc", correct / (len(loader) * bs))
""",
    ),
}

HEALTHY: dict[str, str] = {
    "rmse right": """
import math
X = torch.randn(200, 8)
y = X @ torch.randn(8) + 0.1 * torch.randn(200)

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 30)
net = nn.Linear(8, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
history = []
for epoch in range(3):
    for a, b in loader:
        loss = torch.sqrt(F.mse_loss(net(a)[:, 0], b))
        opt.zero_grad(); loss.backward(); opt.step()
        history.append(loss.item())
    net.eval()
    sq = n = 0
    with torch.no_grad():
        for a, b in loader:
            sq += ((net(a)[:, 0] - b) ** 2).sum().item(); n += len(b)
    print(math.sqrt(sq / n), np.mean(history[-7:]))
    net.train()
""",
    "val loss right": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 48)
net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), 1e-2)
crit = nn.CrossEntropyLoss()
for epoch in range(3):
    total = 0.0; preds = []
    for a, b in loader:
        loss = crit(net(a), b)
        opt.zero_grad(); loss.backward(); opt.step()
        total += loss.item() * len(b); preds.append(net(a).argmax(1).detach())
    print(total / len(loader.dataset), torch.cat(preds).shape)
""",
    "lambda factor": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

base_lr, min_lr = 1e-2, 1e-4
net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), lr=base_lr)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: max(min_lr / base_lr, 0.5 ** e))
for i in range(8):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step(); sched.step()
""",
    "accumulation right": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), lr=1e-2)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 32)
for i, (a, b) in enumerate(loader, 1):
    (F.cross_entropy(net(a), b) / 4).backward()
    if i % 4 == 0:
        opt.step(); opt.zero_grad()
for i, (a, b) in enumerate(loader):
    loss = F.cross_entropy(net(a), b); opt.zero_grad(); loss.backward(); opt.step()
    if i % 4 == 0:
        print(i, loss.item())
""",
    "best loaded": """
import copy
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), lr=1e-2)
best, best_state = 1e9, None
for e in range(8):
    opt.zero_grad(); F.cross_entropy(net(X[:200]), y[:200]).backward(); opt.step()
    with torch.no_grad():
        v = F.cross_entropy(net(X[200:]), y[200:]).item()
    if v < best:
        best, best_state = v, copy.deepcopy(net.state_dict())
net.load_state_dict(best_state)
net.eval()
print(F.cross_entropy(net(X[200:]), y[200:]).item())
""",
    "ema right": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

class EMA:
    def __init__(self, model, decay=0.9):
        self.decay, self.shadow = decay, {k: v.detach().clone() for k, v in model.named_parameters()}
    def update(self, model):
        for k, v in model.named_parameters():
            self.shadow[k].mul_(self.decay).add_(v.detach(), alpha=1 - self.decay)
    def apply(self, model):
        self.backup = {k: v.detach().clone() for k, v in model.named_parameters()}
        for k, v in model.named_parameters(): v.data.copy_(self.shadow[k])
    def restore(self, model):
        for k, v in model.named_parameters(): v.data.copy_(self.backup[k])
net = nn.Linear(20, 3); opt = torch.optim.Adam(net.parameters(), lr=1e-2); ema = EMA(net)
for e in range(40):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step(); ema.update(net)
    if e % 10 == 9:
        ema.apply(net); print(F.cross_entropy(net(X), y).item()); ema.restore(net)
""",
    "init called and loaded": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

def init_weights(m):
    if isinstance(m, nn.Linear): nn.init.xavier_uniform_(m.weight)
net = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 3))
net.apply(init_weights)
net.load_state_dict({k: v * 0.9 for k, v in net.state_dict().items()})
net[2].apply(init_weights)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for e in range(8):
    opt.zero_grad(); F.cross_entropy(net(X), y).backward(); opt.step()
""",
    "first of a loader": """
g = torch.Generator().manual_seed(1)
X = torch.randn(256, 20, generator=g)
y = (X[:, :3].sum(1) > 0).long() + (X[:, 3] > 0.5).long()

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 32)
def first(loader):
    for a, b in loader:
        a = a + 0
        return a, b
def find(loader):
    best = 0
    for a, b in loader:
        best = max(best, int(b.max()))
        if best == 2:
            return best
    return best
net = nn.Linear(20, 3); opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(5):
    a, b = first(loader)
    opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()
print(find(loader))
""",
    "nms right": """
def nms(boxes, scores, thr=0.5):
    order = scores.argsort(descending=True); keep = []
    while len(order):
        i = order[0]; keep.append(i.item())
        lt = torch.max(boxes[i, :2], boxes[order, :2]); rb = torch.min(boxes[i, 2:], boxes[order, 2:])
        wh = (rb - lt).clamp(min=0); inter = wh[:, 0] * wh[:, 1]
        area = (boxes[order, 2] - boxes[order, 0]) * (boxes[order, 3] - boxes[order, 1])
        order = order[inter / (area + area[0] - inter) <= thr]
    return keep
torch.manual_seed(0)
p = torch.rand(20, 2) * 20; boxes = torch.cat([p, p + 8], 1); f = torch.randn(20, 4)
net = nn.Linear(4, 1); opt = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(5):
    opt.zero_grad(); F.binary_cross_entropy_with_logits(net(f)[:, 0], (f[:, 0] > 0).float()).backward(); opt.step()
net.eval(); print(nms(boxes, torch.sigmoid(net(f)[:, 0]).detach()))
""",
    "generation right": """
torch.manual_seed(0)
emb, cell, out = nn.Embedding(12, 8), nn.GRUCell(8, 8), nn.Linear(8, 12)
opt = torch.optim.Adam([*emb.parameters(), *cell.parameters(), *out.parameters()], 1e-2)
seq = torch.randint(0, 12, (8, 6))
for _ in range(4):
    h = torch.zeros(8, 8); loss = 0.0
    for t in range(5):
        h = cell(emb(seq[:, t]), h); loss = loss + F.cross_entropy(out(h), seq[:, t + 1])
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    tok, h, text = torch.zeros(1, dtype=torch.long), torch.zeros(1, 8), []
    for _ in range(6):
        h = cell(emb(tok), h); tok = out(h).argmax(1); text.append(tok.item())
    draws = []
    probs = out(h).softmax(-1)
    for _ in range(5):
        k = torch.multinomial(probs, 1); draws.append(k.item())
print(text, draws)
""",
}
