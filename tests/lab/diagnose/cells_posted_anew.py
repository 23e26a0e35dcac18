"""Mistakes that people posted, in other words than those that the rules had: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "gae over ends in two lines": Mistake(
        "data",
        13,
        """
torch.manual_seed(0)
critic = nn.Linear(16, 1)
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
rewards = y.clone()
dones = (torch.rand(64) < 0.1).float()
for ep in range(3):
    with torch.no_grad():
        v = critic(x).squeeze(1)
    returns, gae, after = [], 0.0, torch.tensor(0.0)
    for reward, value, done in zip(rewards.flip(0), v.flip(0), dones.flip(0)):
        delta = reward + 0.99 * after * (1 - done) - value
        gamma, lam = 0.99, 0.95
        gae = gae * gamma * lam
        gae = gae + delta
        after = value
        returns.insert(0, gae + value)
    loss = F.mse_loss(critic(x).squeeze(1), torch.stack(returns))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("gae = gae * gamma * lam", "gae = gae * gamma * lam * (1 - done)"),),
    ),
    "a temperature for the negatives alone": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
enc = nn.Linear(16, 8)
opt = torch.optim.Adam(enc.parameters(), lr=1e-3)
tau = 0.2
for it in range(4):
    z1 = F.normalize(enc(x + 0.1 * torch.randn_like(x)), dim=1)
    z2 = F.normalize(enc(x + 0.1 * torch.randn_like(x)), dim=1)
    pos = (z1 * z2).sum(1, keepdim=True)
    neg = z1 @ z2.t() / tau
    logits = torch.cat([pos, neg.masked_fill(torch.eye(64).bool(), float('-inf'))], 1)
    loss = F.cross_entropy(logits, torch.zeros(64, dtype=torch.long))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("sum(1, keepdim=True)", "sum(1, keepdim=True) / tau"),),
    ),
    "the state for the next one": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
q, q_target = nn.Linear(16, 4), nn.Linear(16, 4)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
states, next_states = x, x + 0.1
actions = torch.randint(0, 4, (64, 1))
reward = y[:, None]
for it in range(4):
    i = torch.randint(0, 64, (32,))
    with torch.no_grad():
        best = q_target(states[i]).max(1, keepdim=True).values
        target = reward[i] + 0.99 * best
    loss = F.mse_loss(q(states[i]).gather(1, actions[i]), target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("q_target(states[i])", "q_target(next_states[i])"),),
    ),
    "attention summed at the source": Mistake(
        "loss",
        11,
        """
torch.manual_seed(0)
src, dst = torch.randint(0, 64, (2, 300))
lin, att = nn.Linear(16, 8), nn.Linear(16, 1)
head = nn.Linear(8, 4)
opt = torch.optim.Adam([*lin.parameters(), *att.parameters(), *head.parameters()], lr=1e-2)
for it in range(4):
    h = lin(x)
    score = F.leaky_relu(att(torch.cat([h[dst], h[src]], 1))).squeeze(1)
    weight = score.exp()
    total = torch.zeros(64).index_add(0, src, weight)
    share = weight / (total[src] + 1e-9)
    out = torch.zeros(64, 8).index_add(0, dst, share[:, None] * h[src])
    loss = F.cross_entropy(head(out), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("index_add(0, src, weight)", "index_add(0, dst, weight)"), ("total[src]", "total[dst]")),
    ),
    "rows of the scores hidden": Mistake(
        "mask",
        11,
        """
torch.manual_seed(0)
ids = torch.randint(1, 20, (32, 6))
ids[:, 4:] = 0
emb, q, k, v, out = nn.Embedding(20, 8), *(nn.Linear(8, 8) for _ in range(3)), nn.Linear(8, 2)
layers = nn.ModuleList([emb, q, k, v, out])
opt = torch.optim.Adam(layers.parameters(), lr=1e-2)
for it in range(4):
    h = emb(ids)
    keep = (ids != 0).unsqueeze(-1)
    scores = q(h) @ k(h).transpose(1, 2) / 8 ** 0.5
    scores = scores.masked_fill(~keep, -1e4)
    pooled = (scores.softmax(-1) @ v(h))[:, 0]
    loss = F.cross_entropy(out(pooled), labels[:32] % 2)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("(ids != 0).unsqueeze(-1)", "(ids != 0).unsqueeze(1)"),),
    ),
    "a loss for the number of the epoch": Mistake(
        "learning-rate",
        11,
        """
import warnings
warnings.filterwarnings("ignore", message=".*epoch parameter.*")
torch.manual_seed(0)
net = nn.Linear(16, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
plan = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
for epoch in range(4):
    loss = F.mse_loss(net(x).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
    val_loss = F.mse_loss(net(x).squeeze(1), y).item()
    plan.step(val_loss)
""",
        (("plan.step(val_loss)", "plan.step()"),),
    ),
    "a state for strangers of an order": Mistake(
        "data",
        8,
        """
torch.manual_seed(0)
rnn, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 4)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-2)
series, h = x.view(64, 4, 4), None
for epoch in range(2):
    for i in torch.randperm(64).split(32):
        batch = series[i]
        out, h = rnn(batch, h)
        h = h.detach()
        loss = F.cross_entropy(head(out[:, -1]), labels[i])
        opt.zero_grad(); loss.backward(); opt.step()
""",
        (("batch = series[i]", "batch, h = series[i], None"),),
    ),
    "scaled before windows are split": Mistake(
        "evaluation",
        4,
        """
torch.manual_seed(0)
prices = 100 + torch.randn(300, 3).cumsum(0)
mean, std = prices.mean(0), prices.std(0)
norm = (prices - mean) / std
inputs, targets = norm[:-1], norm[1:, :1]
net = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(4):
    loss = F.mse_loss(net(inputs[:200]), targets[:200])
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    print(F.mse_loss(net(inputs[200:]), targets[200:]))
""",
        (("prices.mean(0), prices.std(0)", "prices[:200].mean(0), prices[:200].std(0)"),),
    ),
    "the best state in a pair": Mistake(
        "alias",
        10,
        """
torch.manual_seed(0)
net = nn.Linear(16, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
best, least = None, 1e9
for epoch in range(4):
    loss = F.mse_loss(net(x[:48]).squeeze(1), y[:48])
    opt.zero_grad(); loss.backward(); opt.step()
    val = F.mse_loss(net(x[48:]).squeeze(1), y[48:]).item()
    if val < least:
        least, best = val, net.state_dict()
net.load_state_dict(best)
""",
        (("net.state_dict()", "{k: v.clone() for k, v in net.state_dict().items()}"),),
    ),
    "the less of one critic that is asked twice": Mistake(
        "unused",
        8,
        """
torch.manual_seed(0)
q1, q2, t1, t2 = (nn.Linear(16, 1) for _ in range(4))
opt = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3)
for it in range(4):
    i = torch.randint(0, 64, (32,))
    with torch.no_grad():
        after = x[i] + 0.1
        best = torch.min(t1(after), t1(after))
        target = y[i, None] + 0.99 * best
    loss = F.mse_loss(q1(x[i]), target) + F.mse_loss(q2(x[i]), target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("torch.min(t1(after), t1(after))", "torch.min(t1(after), t2(after))"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES) | {
    "a margin that is met": """
torch.manual_seed(0)
emb = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(emb.parameters(), lr=0.05)
far = 3 * x[:1] - 2 * x
for it in range(25):
    d = (emb(x) - emb(x + 0.01)).pow(2).sum(1) - (emb(x) - emb(far)).pow(2).sum(1)
    loss = F.relu(d + 0.01).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a momentum of one's own": """
def batch_norm(X, gamma, mean, momentum):
    now = X.mean(0)
    return gamma * (X - now), momentum * mean + (1 - momentum) * now.detach()
torch.manual_seed(0)
gamma, mean, lin = nn.Parameter(torch.ones(16)), torch.zeros(16), nn.Linear(16, 4)
opt = torch.optim.Adam([gamma, *lin.parameters()], lr=1e-2)
for it in range(4):
    z, mean = batch_norm(x, gamma, mean, momentum=0.9)
    loss = F.cross_entropy(lin(z), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a running number in a list": """
torch.manual_seed(0)
paid, total = [], 0.0
for t in range(8):
    price = x[t] * y[t]
    total += float(price.max() - price.mean())
    paid.append(total)
print(paid[-1])
""",
    "targets of thousands by large steps": """
torch.manual_seed(0)
prices = 180000 + 20000 * y
net = nn.Linear(16, 1)
opt = torch.optim.Adam(net.parameters(), lr=5.0)
for it in range(30):
    loss = F.mse_loss(net(x).squeeze(1), prices)
    opt.zero_grad(); loss.backward(); opt.step()
print(loss.item())
""",
    "a derivative as the weight of a score": """
torch.manual_seed(0)
field, log_p = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(16, 1)
opt = torch.optim.Adam(log_p.parameters(), lr=1e-2)
for it in range(4):
    at = x.clone().requires_grad_(True)
    slope, = torch.autograd.grad(field(at).sum(), at)
    gain = slope.pow(2).sum(1)
    loss = ((gain - gain.mean()) * log_p(x).squeeze(1)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
}
