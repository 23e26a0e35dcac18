"""More healthy cells, of the kinds that people train: see test_healthy.py."""

from __future__ import annotations

MORE = {
    "an LSTM whose state is detached": """
lstm, head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 1)
opt = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=1e-2)
seq = x.reshape(64, 4, 4)
state = None
for i in range(4):
    out, state = lstm(seq[16*i:16*i+16], state)
    state = tuple(s.detach() for s in state)
    loss = F.mse_loss(head(out[:, -1]).squeeze(1), y[16*i:16*i+16])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "teacher forcing": """
emb, cell, out = nn.Embedding(10, 8), nn.GRUCell(8, 8), nn.Linear(8, 10)
opt = torch.optim.Adam([*emb.parameters(), *cell.parameters(), *out.parameters()], lr=1e-2)
target = torch.randint(0, 10, (16, 6))
for step in range(3):
    h, token, loss = torch.zeros(16, 8), torch.zeros(16).long(), 0
    for t in range(6):
        h = cell(emb(token), h)
        logits = out(h)
        loss = loss + F.cross_entropy(logits, target[:, t])
        token = target[:, t] if t % 2 else logits.argmax(1)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "gradient accumulation over a loader": """
model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=8, shuffle=True)
opt.zero_grad()
for i, (xb, yb) in enumerate(loader):
    loss = F.cross_entropy(model(xb), yb) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
    "two optimizers and a frozen part": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.aux = nn.Linear(16, 8), nn.Linear(8, 4), nn.Linear(8, 4)
    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.head(h), self.aux(h)
net = Net()
net.aux.requires_grad_(False)
o1 = torch.optim.Adam(net.body.parameters(), lr=1e-3)
o2 = torch.optim.SGD(net.head.parameters(), lr=1e-2)
for i in range(4):
    a, b = net(x)
    loss = F.cross_entropy(a, labels) + 0.1 * F.cross_entropy(b, labels)
    o1.zero_grad(); o2.zero_grad()
    loss.backward()
    o1.step(); o2.step()
""",
    "a moving average that is judged": """
import copy
model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
ema = copy.deepcopy(model).eval()
for p in ema.parameters():
    p.requires_grad_(False)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for i in range(5):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, q in zip(ema.parameters(), model.parameters()):
            p.lerp_(q, 0.1)
        for p, q in zip(ema.buffers(), model.buffers()):
            p.copy_(q)
    with torch.no_grad():
        acc = (ema(x).argmax(1) == labels).float().mean().item()
""",
    "mixed precision": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for i in range(4):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), labels)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
""",
    "groups of parameters and a warm-up": """
model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
decay = [p for p in model.parameters() if p.ndim > 1]
rest = [p for p in model.parameters() if p.ndim <= 1]
opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, s / 10))
for i in range(6):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
""",
    "an actor and a critic": """
actor, critic = nn.Linear(16, 4), nn.Linear(16, 1)
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
for i in range(4):
    logp_all = F.log_softmax(actor(x), dim=1)
    with torch.no_grad():
        action = torch.multinomial(logp_all.exp(), 1)
        reward = (action.squeeze(1) == labels).float()
    value = critic(x).squeeze(1)
    advantage = reward - value.detach()
    logp = logp_all.gather(1, action).squeeze(1)
    entropy = -(logp_all.exp() * logp_all).sum(1).mean()
    loss = -(logp * advantage).mean() + F.mse_loss(value, reward) - 0.01 * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a diffusion model": """
net = nn.Sequential(nn.Linear(17, 32), nn.SiLU(), nn.Linear(32, 16))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
betas = torch.linspace(1e-3, 0.2, 100)
alpha = torch.cumprod(1 - betas, 0)
for i in range(4):
    t = torch.randint(0, 100, (64,))
    noise = torch.randn_like(x)
    a = alpha[t].unsqueeze(1)
    noisy = a.sqrt() * x + (1 - a).sqrt() * noise
    loss = F.mse_loss(net(torch.cat([noisy, t.float().unsqueeze(1) / 100], 1)), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    z = torch.randn(8, 16)
    for t in range(99, 94, -1):
        e = net(torch.cat([z, torch.full((8, 1), t / 100)], 1))
        z = (z - betas[t] / (1 - alpha[t]).sqrt() * e) / (1 - betas[t]).sqrt()
""",
    "an inner loop that is differentiated": """
w = torch.zeros(16, 1, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.01)
for step in range(3):
    opt.zero_grad()
    for task in range(2):
        xs, ys = x[32*task:32*task+16], y[32*task:32*task+16]
        xq, yq = x[32*task+16:32*task+32], y[32*task+16:32*task+32]
        inner = F.mse_loss((xs @ w).squeeze(1), ys)
        (g,) = torch.autograd.grad(inner, w, create_graph=True)
        fast = w - 0.1 * g
        F.mse_loss((xq @ fast).squeeze(1), yq).backward()
    opt.step()
""",
    "a spectral norm": """
D = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt = torch.optim.Adam(D.parameters(), lr=1e-3)
for i in range(3):
    loss = F.relu(1 - D(x)).mean() + F.relu(1 + D(torch.randn(64, 16))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "attention that looks back alone": """
wq, wk, wv = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 8)
head = nn.Linear(8, 4)
opt = torch.optim.Adam([p for m in (wq, wk, wv, head) for p in m.parameters()], lr=1e-3)
mask = torch.triu(torch.ones(64, 64), diagonal=1).bool()
for i in range(3):
    scores = wq(x) @ wk(x).T / 8 ** 0.5
    scores = scores.masked_fill(mask, float("-inf"))
    loss = F.cross_entropy(head(torch.softmax(scores, -1) @ wv(x)), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "blocks whose last layer begins at zero": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 16)
        nn.init.zeros_(self.b.weight); nn.init.zeros_(self.b.bias)
    def forward(self, x):
        return x + self.b(F.gelu(self.a(x)))
model = nn.Sequential(Block(), Block(), Block(), nn.Linear(16, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in range(4):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a low-rank adapter": """
base = nn.Linear(16, 4)
base.requires_grad_(False)
A, B = nn.Parameter(torch.randn(16, 2) * 0.1), nn.Parameter(torch.zeros(2, 4))
opt = torch.optim.AdamW([A, B], lr=1e-2)
for i in range(4):
    loss = F.cross_entropy(base(x) + x @ A @ B, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "epochs in a function": """
def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    total, right, n = 0.0, 0, 0
    for xb, yb in loader:
        with torch.set_grad_enabled(opt is not None):
            out = model(xb)
            loss = F.cross_entropy(out, yb)
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
        total += loss.item() * len(xb)
        right += (out.argmax(1) == yb).sum().item()
        n += len(xb)
    return total / n, right / n
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
ds = torch.utils.data.TensorDataset(x, labels)
train = torch.utils.data.DataLoader(ds, batch_size=16, shuffle=True)
val = torch.utils.data.DataLoader(ds, batch_size=32)
for e in range(2):
    run_epoch(model, train, opt)
    run_epoch(model, val)
""",
    "a critic with a gradient penalty": """
G, D = nn.Linear(4, 16), nn.Sequential(nn.Linear(16, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = torch.optim.Adam(G.parameters(), lr=1e-4), torch.optim.Adam(D.parameters(), lr=1e-4)
for i in range(3):
    for _ in range(2):
        fake = G(torch.randn(64, 4)).detach()
        e = torch.rand(64, 1)
        mix = (e * x + (1 - e) * fake).requires_grad_(True)
        (g,) = torch.autograd.grad(D(mix).sum(), mix, create_graph=True)
        loss = D(fake).mean() - D(x).mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()
        od.zero_grad(); loss.backward(); od.step()
    loss = -D(G(torch.randn(64, 4))).mean()
    og.zero_grad(); loss.backward(); og.step()
""",
    "a codebook with a straight-through estimator": """
enc, dec, book = nn.Linear(16, 4), nn.Linear(4, 16), nn.Embedding(8, 4)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *book.parameters()], lr=1e-3)
for i in range(4):
    z = enc(x)
    d = (z.unsqueeze(1) - book.weight.unsqueeze(0)).square().sum(-1)
    q = book(d.argmin(1))
    loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
    zq = z + (q - z).detach()
    loss = loss + F.mse_loss(dec(zq), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "LBFGS": """
w = torch.zeros(16, requires_grad=True)
opt = torch.optim.LBFGS([w], lr=0.5, max_iter=4)
def closure():
    opt.zero_grad()
    loss = F.mse_loss(x @ w, y)
    loss.backward()
    return loss
for i in range(3):
    opt.step(closure)
""",
    "a differential equation": """
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for i in range(3):
    t = torch.rand(32, 1, requires_grad=True)
    u = net(t)
    (du,) = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)
    loss = (du + u).square().mean() + (net(torch.zeros(1, 1)) - 1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "outputs in a list, stacked": """
cell, head = nn.RNNCell(4, 8), nn.Linear(8, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
seq = x.reshape(64, 4, 4)
for i in range(3):
    h, outs = torch.zeros(64, 8), []
    for t in range(4):
        h = cell(seq[:, t], h)
        outs.append(h)
    pred = head(torch.stack(outs, 1)).squeeze(-1)
    loss = F.mse_loss(pred, seq.mean(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "losses in a list, one backward": """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for i in range(4):
    losses.append(F.cross_entropy(model(x[16*i:16*i+16]), labels[16*i:16*i+16]))
opt.zero_grad()
torch.stack(losses).mean().backward()
opt.step()
""",
    "a focal loss": """
model = nn.Linear(16, 4)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for i in range(3):
    logp = F.log_softmax(model(x), 1)
    p = logp.exp()
    loss = F.nll_loss((1 - p) ** 2 * logp, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "REINFORCE": """
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(3):
    state, logps, rewards = torch.randn(4), [], []
    for t in range(6):
        logp = F.log_softmax(policy(state), dim=0)
        action = torch.multinomial(logp.exp().detach(), 1).item()
        logps.append(logp[action])
        state = 0.9 * state + 0.1 * action
        rewards.append(float(state.sum() > 0))
    returns, g = [], 0.0
    for r in reversed(rewards):
        g = r + 0.9 * g
        returns.insert(0, g)
    returns = torch.tensor(returns)
    loss = -(torch.stack(logps) * returns).mean() + 0.001 * torch.stack(logps).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a model in two pieces": """
a, b = nn.Linear(16, 8), nn.Linear(8, 4)
opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for i in range(3):
    opt.zero_grad()
    h = torch.tanh(a(x))
    cut = h.detach().requires_grad_()
    loss = F.cross_entropy(b(cut), labels)
    loss.backward()
    h.backward(cut.grad)
    opt.step()
""",
    "two passes for one step": """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    F.cross_entropy(model(x), labels).backward()
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        es = [0.05 * p.grad / norm for p in model.parameters()]
        for p, e in zip(model.parameters(), es):
            p.add_(e)
    opt.zero_grad()
    F.cross_entropy(model(x), labels).backward()
    with torch.no_grad():
        for p, e in zip(model.parameters(), es):
            p.sub_(e)
    opt.step()
    opt.zero_grad()
""",
    "a forward algorithm that begins at -inf": """
trans = nn.Parameter(torch.randn(4, 4) * 0.1)
emit = nn.Linear(16, 4)
opt = torch.optim.Adam([trans, *emit.parameters()], lr=1e-2)
for i in range(3):
    scores = emit(x[:8])
    alpha = torch.full((4,), float("-inf"))
    alpha[0] = 0.0
    alpha = alpha + scores[0]
    for t in range(1, 8):
        alpha = torch.logsumexp(alpha.unsqueeze(1) + trans, 0) + scores[t]
    gold = scores[torch.arange(8), labels[:8]].sum()
    loss = (torch.logsumexp(alpha, 0) - gold).abs() / 8
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a transformer with padding": """
layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
enc = nn.TransformerEncoder(layer, 2)
head = nn.Linear(16, 4)
opt = torch.optim.AdamW([*enc.parameters(), *head.parameters()], lr=1e-3)
pad = torch.zeros(8, 8).bool()
pad[:, 6:] = True
for i in range(3):
    h = enc(x.reshape(8, 8, 16), src_key_padding_mask=pad)
    loss = F.cross_entropy(head(h.mean(1)), labels[:8])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "steps by .data that clear": """
W = torch.randn(16, 4, requires_grad=True)
for i in range(6):
    loss = F.cross_entropy(x @ W, labels)
    loss.backward()
    W.data -= 0.1 * W.grad.data
    W.grad.data.zero_()
""",
    "accumulation by hand": """
W = torch.randn(16, 4, requires_grad=True)
for i in range(3):
    for j in range(2):
        (F.cross_entropy(x @ W, labels) / 2).backward()
    with torch.no_grad():
        W.sub_(0.1 * W.grad)
    W.grad = None
""",
    "attention over the keys": """
q, k, v = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 4)
weights = torch.softmax(q(x) @ k(x).T / 8 ** 0.5, dim=-1)
loss = F.cross_entropy(F.dropout(weights, 0.1) @ v(x), labels)
loss.backward()
""",
    "linear attention": """
q, k, v = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 4)
queries, keys = q(x).softmax(-1), k(x).softmax(0)
loss = F.cross_entropy(queries @ (keys.T @ v(x)), labels)
loss.backward()
""",
    "a straight-through estimator": """
enc, dec = nn.Linear(16, 8), nn.Linear(8, 16)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
for step in range(3):
    soft = torch.sigmoid(enc(x))
    code = soft + ((soft > 0.5).float() - soft).detach()
    loss = F.mse_loss(dec(code), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a teacher beside a student, without an optimizer": """
student, teacher = nn.Linear(16, 4), nn.Linear(16, 4)
with torch.no_grad():
    target = F.softmax(teacher(x), dim=1)
loss = F.kl_div(F.log_softmax(student(x), dim=1), target, reduction="batchmean")
loss = loss + F.mse_loss(student(x), teacher(x).detach())
loss.backward()
""",
    "a policy by its drawn actions": """
policy = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(3):
    kept = []
    for t in range(8):
        logp = F.log_softmax(policy(x[t]), dim=0)
        action = int(torch.multinomial(logp.detach().exp(), 1))
        kept.append(-logp[action] * float(action == 1))
    loss = torch.stack(kept).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "noise of a variational encoder beside the graph": """
mu, log_std, dec = nn.Linear(16, 4), nn.Linear(16, 4), nn.Linear(4, 16)
opt = torch.optim.Adam([*mu.parameters(), *log_std.parameters(), *dec.parameters()], lr=1e-3)
for step in range(3):
    m, s = mu(x), log_std(x)
    z = m + s.exp() * torch.randn_like(s)
    kl = -0.5 * (1 + 2 * s - m.square() - (2 * s).exp()).sum(1).mean()
    loss = F.mse_loss(dec(z), x) + 0.01 * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "weights of samples in a loss": """
model = nn.Linear(16, 4)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
weights = torch.rand(64)
for step in range(3):
    each = F.cross_entropy(model(x), labels, reduction="none")
    loss = (each * weights).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
}
