"""Healthy cells whose loops look unusual: gradients cleared on purpose, optimizers made anew; see test_healthy.py."""

from __future__ import annotations

LOOPS = {
    "dropout with training=self.training": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)
    def forward(self, x):
        return self.b(F.dropout(F.relu(self.a(x)), 0.5, training=self.training))
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for e in range(3):
    net.train()
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    net.eval()
    with torch.no_grad():
        val = F.cross_entropy(net(x), labels).item()
        acc = (net(x).argmax(1) == labels).float().mean().item()
""",
    "SAM": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
rho = 0.05
for i in range(4):
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    eps = []
    with torch.no_grad():
        for p in model.parameters():
            e = p.grad * rho / (norm + 1e-12)
            p.add_(e)
            eps.append(e)
    model.zero_grad()
    F.cross_entropy(model(x), labels).backward()
    with torch.no_grad():
        for p, e in zip(model.parameters(), eps):
            p.sub_(e)
    base.step()
    base.zero_grad()
""",
    "PCGrad": """
model = nn.Linear(16, 8); h1, h2 = nn.Linear(8, 4), nn.Linear(8, 1)
opt = torch.optim.SGD([*model.parameters(), *h1.parameters(), *h2.parameters()], lr=0.05)
for i in range(3):
    z = torch.tanh(model(x))
    losses = [F.cross_entropy(h1(z), labels), F.mse_loss(h2(z).squeeze(1), y)]
    grads = []
    for l in losses:
        opt.zero_grad()
        l.backward(retain_graph=True)
        grads.append([p.grad.clone() for p in model.parameters()])
    for p, ga, gb in zip(model.parameters(), *grads):
        p.grad = ga + gb
    opt.step()
""",
    "skip of bad batches": """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(8):
    opt.zero_grad()
    loss = F.cross_entropy(model(x[8*i:8*i+8]), labels[8*i:8*i+8])
    loss.backward()
    if i == 3:
        continue
    opt.step()
""",
    "federated averaging": """
import copy
glob = nn.Linear(16, 4)
for r in range(3):
    states = []
    for c in range(2):
        local = copy.deepcopy(glob)
        opt = torch.optim.SGD(local.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            loss = F.cross_entropy(local(x[32*c:32*c+32]), labels[32*c:32*c+32])
            opt.zero_grad(); loss.backward(); opt.step()
        states.append(local.state_dict())
    glob.load_state_dict({k: sum(s[k] for s in states) / 2 for k in states[0]})
""",
    "k folds": """
scores = []
for fold in range(3):
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 4))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    idx = torch.arange(64) % 3 != fold
    model.train()
    for e in range(4):
        loss = F.cross_entropy(model(x[idx]), labels[idx])
        opt.zero_grad(); loss.backward(); opt.step()
    model.eval()
    with torch.no_grad():
        scores.append((model(x[~idx]).argmax(1) == labels[~idx]).float().mean().item())
""",
    "hyperparameter search": """
def train(lr):
    torch.manual_seed(0)
    m = nn.Linear(16, 4)
    o = torch.optim.SGD(m.parameters(), lr=lr)
    for _ in range(3):
        loss = F.cross_entropy(m(x), labels)
        o.zero_grad(); loss.backward(); o.step()
    return loss.item()
best = min((train(lr), lr) for lr in (0.3, 0.1, 0.03))
""",
    "one step per optimizer, three lrs": """
losses = {}
for lr in (0.3, 0.1, 0.01):
    torch.manual_seed(0)
    m = nn.Linear(16, 4)
    o = torch.optim.Adam(m.parameters(), lr=lr)
    loss = F.cross_entropy(m(x), labels)
    o.zero_grad(); loss.backward(); o.step()
    with torch.no_grad(): losses[lr] = F.cross_entropy(m(x), labels).item()
""",
    "warm restarts and one cycle": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=12)
for i in range(12):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
""",
    "cosine to zero": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)
for i in range(10):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
""",
    "negative loss, ELBO-like": """
mu, ls = nn.Linear(16, 2), nn.Linear(16, 2)
opt = torch.optim.Adam([*mu.parameters(), *ls.parameters()], lr=1e-2)
t = x[:, :2] * 0.01
for i in range(30):
    m, s = mu(x), ls(x).clamp(-3, 3)
    loss = (0.5 * ((t - m) / s.exp()) ** 2 + s).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "tanh policy head, sigmoid gates": """
class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.g, self.o = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 2)
    def forward(self, x):
        return torch.tanh(self.o(torch.relu(self.a(x)) * torch.sigmoid(self.g(x))))
net = G()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
target = torch.stack([torch.sign(y), -torch.sign(y)], 1)
for i in range(60):
    loss = F.mse_loss(net(x), target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "zero init linear regression": """
w = nn.Parameter(torch.zeros(16, 1)); b = nn.Parameter(torch.zeros(1))
opt = torch.optim.SGD([w, b], lr=0.1)
for i in range(20):
    loss = F.mse_loss((x @ w + b).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "softmax regression from zeros": """
W, b = torch.zeros(16, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
for i in range(20):
    loss = F.cross_entropy(x @ W + b, labels)
    loss.backward()
    with torch.no_grad():
        W -= 0.5 * W.grad
        b -= 0.5 * b.grad
        W.grad.zero_(); b.grad.zero_()
""",
    "matrix factorisation": """
U = torch.randn(20, 3, requires_grad=True)
V = torch.randn(15, 3, requires_grad=True)
R = torch.randn(20, 3) @ torch.randn(3, 15)
opt = torch.optim.Adam([U, V], lr=0.05)
for i in range(50):
    loss = (U @ V.T - R).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "curve fit with Adam lr 0.1": """
a = torch.tensor(0.0, requires_grad=True); b = torch.tensor(0.0, requires_grad=True)
opt = torch.optim.Adam([a, b], lr=0.1)
t = torch.linspace(-1, 1, 50)
for i in range(60):
    loss = ((a * t + b - (2 * t + 1)) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "attack on the input": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
for p in model.parameters(): p.requires_grad_(False)
delta = torch.zeros(64, 16, requires_grad=True)
for i in range(5):
    loss = F.cross_entropy(model(x + delta), labels)
    loss.backward()
    delta.data = (delta + 0.01 * delta.grad.sign()).clamp(-0.1, 0.1).detach()
    delta.grad.zero_()
""",
    "adversarial training": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    adv = x.clone().requires_grad_(True)
    F.cross_entropy(model(adv), labels).backward()
    adv = (adv + 0.05 * adv.grad.sign()).detach()
    opt.zero_grad()
    loss = F.cross_entropy(model(adv), labels)
    loss.backward()
    opt.step()
""",
    "dqn": """
import copy, random
q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2)); tgt = copy.deepcopy(q)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
buf = []
s = torch.randn(4)
for t in range(60):
    with torch.no_grad():
        a = q(s).argmax().item() if random.random() > 0.2 else random.randrange(2)
    s2 = torch.randn(4); buf.append((s, a, float(a), s2)); s = s2
    if len(buf) >= 16 and t % 4 == 0:
        b = random.sample(buf, 16)
        S, S2 = torch.stack([e[0] for e in b]), torch.stack([e[3] for e in b])
        A, R = torch.tensor([e[1] for e in b]), torch.tensor([e[2] for e in b])
        with torch.no_grad():
            target = R + 0.9 * tgt(S2).max(1)[0]
        loss = F.smooth_l1_loss(q(S).gather(1, A[:, None]).squeeze(1), target)
        opt.zero_grad(); loss.backward(); opt.step()
    if t % 20 == 0: tgt.load_state_dict(q.state_dict())
""",
    "mc dropout after training": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for i in range(5):
    loss = F.mse_loss(model(x).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
model.train()
with torch.no_grad():
    s = torch.stack([model(x) for _ in range(10)])
mean, std = s.mean(0), s.std(0)
""",
    "deep supervision, outs used in the loop": """
cell = nn.GRUCell(16, 16); head = nn.Linear(16, 4)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-3)
for e in range(3):
    h, hs, loss = torch.zeros(64, 16), [], 0
    for t in range(4):
        h = cell(x, h)
        hs.append(h)
        loss = loss + F.cross_entropy(head(torch.stack(hs).mean(0)), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "logging of everything": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
log = {"loss": [], "gn": [], "acc": []}
for e in range(6):
    out = model(x)
    loss = F.cross_entropy(out, labels)
    opt.zero_grad(); loss.backward()
    gn = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    log["loss"].append(loss.item()); log["gn"].append(float(gn))
    log["acc"].append((out.argmax(1) == labels).float().mean().item())
    preds = []
    preds.append(out.detach())
""",
    "neural ode by hand": """
f = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(f.parameters(), lr=1e-2)
z0 = torch.tensor([[1.0, 0.0]])
for i in range(3):
    z, path = z0, [z0]
    for s in range(20):
        z = z + 0.05 * f(z)
        path.append(z)
    loss = (torch.stack(path)[-1] - torch.tensor([[0.0, 1.0]])).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "triplet loss": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
crit = nn.TripletMarginLoss(margin=0.5)
for i in range(4):
    perm = torch.randperm(64)
    loss = crit(net(x), net(x + 0.01 * torch.randn_like(x)), net(x[perm]))
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "double on purpose": """
torch.manual_seed(0)
a = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
b = torch.rand(4, 4, dtype=torch.float64)
opt = torch.optim.SGD([a], lr=0.1)
for i in range(5):
    loss = (a @ b - torch.eye(4, dtype=torch.float64)).square().sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "one sample at a time, as it comes": """
torch.manual_seed(0)
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for sample in torch.randn(20, 3):
    target = sample.sum().unsqueeze(0)
    pred = model(sample)
    loss = (pred - target).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a penalty whose weight is read as a number": """
model = nn.Linear(16, 1)
optimizer = core.optim.SGD(model.parameters(), lr=0.01)
total = 0.0
for step in range(8):
    fit = F.mse_loss(model(x).squeeze(1), x[:, 0])
    penalty = model.weight.abs().mean()
    loss = fit + 0.1 * (fit.item() / (penalty.item() + 1e-6)) * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = total + loss.item()
""",
    "two parts of a series that meet in one sample": """
emb, rnn, out = nn.Embedding(6, 8), nn.GRU(8, 16), nn.Linear(16, 6)
opt = torch.optim.Adam([*emb.parameters(), *rnn.parameters(), *out.parameters()], lr=1e-2)
stream = torch.randint(0, 6, (81, 4))
train, valid = stream[:61], stream[60:]
for lo in range(0, 60, 20):
    said, _ = rnn(emb(train[lo:lo + 20]))
    loss = F.cross_entropy(out(said).flatten(0, 1), train[lo + 1:lo + 21].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    print(F.cross_entropy(out(rnn(emb(valid[:-1]))[0]).flatten(0, 1), valid[1:].flatten()).item())
""",
    "a target in training mode, whose statistics are its batch's": """
import copy
online = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))
judge = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
target = copy.deepcopy(online).requires_grad_(False)
opt = torch.optim.Adam([*online.parameters(), *judge.parameters()], lr=1e-3)
for step in range(4):
    a, b = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    with torch.no_grad():
        ta, tb = target(a), target(b)
    loss = (4 - 2 * F.cosine_similarity(judge(online(a)), tb) - 2 * F.cosine_similarity(judge(online(b)), ta)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t.mul_(0.9).add_(o, alpha=0.1)
online.eval()
print(online(x).std().item())
""",
    "two losses, of which the first is clipped": """
policy, value = nn.Linear(16, 4), nn.Linear(16, 1)
pi_opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
v_opt = torch.optim.Adam(value.parameters(), lr=1e-2)
for episode in range(4):
    dist = torch.distributions.Categorical(logits=policy(x))
    baseline = value(x).squeeze(1)
    pi_loss = -(dist.log_prob(labels) * (y - baseline.detach())).mean()
    v_loss = F.mse_loss(baseline, y)
    pi_opt.zero_grad()
    pi_loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    pi_opt.step()
    v_opt.zero_grad()
    v_loss.backward()
    v_opt.step()
""",
    "a tenth of all steps to warm up": """
model = nn.Linear(16, 4)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
steps = 40
warm = steps // 10
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda s: (s + 1) / warm if s < warm else max(0.05, (steps - s) / (steps - warm)))
for step in range(steps):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
""",
    "a ranking by softplus": """
users, items = nn.Embedding(32, 8), nn.Embedding(64, 8)
opt = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=1e-2)
u, liked = torch.randint(0, 32, (64,)), torch.randint(0, 64, (64,))
for step in range(4):
    pos = (users(u) * items(liked)).sum(1)
    neg = (users(u) * items(torch.randint(0, 64, (64,)))).sum(1)
    loss = F.softplus(neg - pos).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
}
