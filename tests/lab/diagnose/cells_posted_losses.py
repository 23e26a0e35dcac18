"""Losses and figures after what people post of their own programs: terms that get lost, weights of a
mean, counts that carry on; beside what mends them."""

from __future__ import annotations

from .planted_more import Planted

_POSTED: dict[str, tuple[str, tuple[int, ...], list[tuple[str, str]], str]] = {
    "a total overwritten by a term": (
        "loss",
        (6, 7),
        [("    total_loss = score_loss\n", "")],
        """
def compute_loss(pred, labels, weights=(1.0, 1.0, 1.0)):
    score, position, dims = pred[:, :1], pred[:, 1:3], pred[:, 3:]
    score_loss = F.mse_loss(score, labels[:, :1])
    position_loss = F.l1_loss(position, labels[:, 1:3])
    dim_loss = F.l1_loss(dims, labels[:, 3:])
    total_loss = score_loss * weights[0] + position_loss * weights[1] + dim_loss * weights[2]
    total_loss = score_loss
    return total_loss, {"score": score_loss.item(), "position": position_loss.item(), "total": total_loss.item()}


data, labels = torch.randn(128, 10), torch.randn(128, 6)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(40):
    optimizer.zero_grad()
    loss, loss_dict = compute_loss(model(data), labels)
    loss.backward()
    optimizer.step()
print(loss_dict)
""",
    ),
    "a mixture over the batch": (
        "loss",
        (13,),
        [("dim=-2", "dim=-1")],
        """
seq_len, bs, gaussians, latents = 6, 16, 5, 3
rnn = nn.LSTM(latents, 32)
gmm = nn.Linear(32, gaussians * 2 * latents + gaussians)
z = torch.randn(seq_len + 1, bs, latents)
opt = torch.optim.Adam(list(rnn.parameters()) + list(gmm.parameters()), lr=3e-3)
for it in range(30):
    out, _ = rnn(z[:-1])
    g = gmm(out)
    stride = gaussians * latents
    mus = g[:, :, :stride].view(seq_len, bs, gaussians, latents)
    sigmas = torch.exp(g[:, :, stride:2 * stride].view(seq_len, bs, gaussians, latents))
    pi = g[:, :, 2 * stride:].view(seq_len, bs, gaussians)
    logpi = F.log_softmax(pi, dim=-2)
    dist = torch.distributions.Normal(mus, sigmas)
    logp = logpi + dist.log_prob(z[1:].unsqueeze(2)).sum(-1)
    loss = -torch.logsumexp(logp, dim=-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a mean divided in each turn": (
        "evaluation",
        (20,),
        [
            ("        scores = scores / (step + 1)\n", ""),
            ("return scores.item()", "return (scores / (step + 1)).item()"),
        ],
        """
model = nn.Linear(8, 1)
good, bad = torch.randn(200, 8) + 0.3, torch.randn(200, 8)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(50):
    loss = -F.logsigmoid(model(good) - model(bad)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()


def evaluation_reward(model, eval_batches):
    model.eval()
    correct_predictions, total_predictions, scores = 0, 0, 0
    for step, (chosen, rejected) in enumerate(eval_batches):
        with torch.no_grad():
            c, r = model(chosen), model(rejected)
        correct_predictions += (c > r).sum()
        total_predictions += c.shape[0]
        scores += c.mean().float()
        scores = scores / (step + 1)
    return scores.item(), (correct_predictions / total_predictions).item()


print(evaluation_reward(model, list(zip(good.split(20), bad.split(20)))))
""",
    ),
    "counts of all epochs": (
        "evaluation",
        (5, 17, 18, 19),
        [
            ("correct, total = 0, 0\n", ""),
            ("    with torch.no_grad():\n", ("    correct, total = 0, 0\n    with torch.no_grad():\n")),
        ],
        """
x, y = torch.randn(300, 10), torch.randint(0, 3, (300,))
train_x, val_x, train_y, val_y = x[:200], x[200:], y[:200], y[200:]
net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
correct, total = 0, 0
for epoch in range(15):
    net.train()
    for xb, yb in zip(train_x.split(50), train_y.split(50)):
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for xb, yb in zip(val_x.split(50), val_y.split(50)):
            pred = net(xb).argmax(1)
            correct += (pred == yb).sum().item()
            total += len(yb)
    print("epoch", epoch, "val acc", correct / total)
""",
    ),
    "an advantage normalised between two uses": (
        "loss",
        (8, 9, 10),
        [
            (
                (
                    "        gain1 = log_weight.exp() * advantage\n"
                    "        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)\n"
                ),
                (
                    "        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)\n"
                    "        gain1 = log_weight.exp() * advantage\n"
                ),
            )
        ],
        """
class ClipPPOLoss:
    def __init__(self, actor, eps=0.2):
        self.actor, self.eps = actor, eps

    def __call__(self, obs, action, old_log_prob, advantage):
        dist = torch.distributions.Categorical(logits=self.actor(obs))
        log_weight = dist.log_prob(action) - old_log_prob
        gain1 = log_weight.exp() * advantage
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain2 = log_weight.clamp(np.log1p(-self.eps), np.log1p(self.eps)).exp() * advantage
        return -torch.stack([gain1, gain2], -1).min(dim=-1)[0].mean()


obs, action = torch.randn(256, 4), torch.randint(0, 2, (256,))
advantage = 20 * torch.randn(256) + 50
actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
with torch.no_grad():
    old = torch.distributions.Categorical(logits=actor(obs)).log_prob(action)
ppo = ClipPPOLoss(actor)
opt = torch.optim.Adam(actor.parameters(), lr=3e-4)
for k in range(12):
    loss = ppo(obs, action, old, advantage)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a mean over one": (
        "layout",
        (12, 13, 14, 21),
        [("axes=(0,)", "axes=(0, 1)")],
        """
T = 50
obs, actions = torch.randn(1, T, 4), torch.randint(0, 2, (1, T))
rewards = torch.rand(1, T)
returns = torch.zeros_like(rewards)
g = torch.zeros(1)
for t in reversed(range(T)):
    g = rewards[:, t] + 0.99 * g
    returns[:, t] = g


def normalize_advantages(adv, axes=(0,), eps=1e-8):
    mean = adv.mean(dim=axes, keepdim=True)
    var = adv.var(dim=axes, keepdim=True, unbiased=False)
    return (adv - mean) / torch.sqrt(var + eps)


actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(actor.parameters(), lr=1e-2)
for it in range(20):
    logp = torch.distributions.Categorical(logits=actor(obs)).log_prob(actions)
    adv = normalize_advantages(returns)
    loss = -(logp * adv).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
""",
    ),
    "a focal loss of a mean": (
        "loss",
        (7, 8, 9, 10),
        [("weight=self.weight)", 'weight=self.weight, reduction="none")')],
        """
class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, weight=None):
        super().__init__()
        self.gamma, self.weight = gamma, weight

    def forward(self, input, target):
        logp = F.cross_entropy(input, target, weight=self.weight)
        p = torch.exp(-logp)
        loss = (1 - p) ** self.gamma * logp
        return loss.mean()


x = torch.randn(400, 12)
y = (x[:, 0] > 1.6).long()
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
criterion = FocalLoss()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(20):
    loss = criterion(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a mean over one-hot classes": (
        "loss",
        (7,),
        [("return loss.mean()", "return loss.sum(1).mean()")],
        """
def multi_class_focal_loss(inputs, targets, gamma=2.0):
    probs = F.softmax(inputs, dim=1)
    onehot = F.one_hot(targets, num_classes=inputs.size(1)).float()
    ce = -onehot * torch.log(probs + 1e-8)
    weight = (1 - (probs * onehot).sum(1, keepdim=True)) ** gamma
    loss = weight * ce
    return loss.mean()


x, y = torch.randn(300, 10), torch.randint(0, 20, (300,))
model = nn.Linear(10, 20)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for k in range(30):
    loss = multi_class_focal_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
""",
    ),
    "labels smoothed above one": (
        "loss",
        (6,),
        [("(1.0 / e2_multi.size(1))", "(label_smoothing / e2_multi.size(1))")],
        """
entities, dim, label_smoothing = 40, 16, 0.1
emb = nn.Embedding(entities, dim)
rel = nn.Linear(dim, dim)
e1 = torch.randint(0, entities, (128,))
e2_multi = (torch.rand(128, entities) < 0.05).float()
e2_multi = ((1.0 - label_smoothing) * e2_multi) + (1.0 / e2_multi.size(1))
opt = torch.optim.Adam([*emb.parameters(), *rel.parameters()], lr=1e-2)
for epoch in range(20):
    pred = torch.sigmoid(rel(emb(e1)) @ emb.weight.t())
    loss = F.binary_cross_entropy(pred, e2_multi)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "the largest of one": (
        "layout",
        (8,),
        [("torch.max(labels, 1)[1]", "labels.squeeze(1)")],
        """
features = torch.randn(240, 10)
labels = torch.randint(0, 3, (240, 1))
net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(20):
    outputs = net(features)
    loss = criterion(outputs, torch.max(labels, 1)[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
""",
    ),
    "a best loss of two that begins at 0": (
        "evaluation",
        (4, 12),
        [("best_loss, best_state = 0.0, None", "best_loss, best_state = float('inf'), None")],
        """
x, y = torch.randn(300, 8), torch.randn(300, 1)
net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
best_loss, best_state = 0.0, None
for epoch in range(30):
    loss = F.mse_loss(net(x[:200]), y[:200])
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        val_loss = F.mse_loss(net(x[200:]), y[200:]).item()
    if val_loss < best_loss:
        best_loss = val_loss
        best_state = {k: v.clone() for k, v in net.state_dict().items()}
if best_state is not None:
    net.load_state_dict(best_state)
""",
    ),
    "a decoder shown the answers": (
        "evaluation",
        (30,),
        [("out = model(src[64:], trg[64:])", "out = model(src[64:], trg[64:], teacher_forcing_ratio=0.0)")],
        """
class Seq2Seq(nn.Module):
    def __init__(self, vocab=20, d=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.enc, self.dec, self.out = nn.GRU(d, d, batch_first=True), nn.GRUCell(d, d), nn.Linear(d, vocab)
    def forward(self, src, trg, teacher_forcing_ratio=0.5):
        _, h = self.enc(self.emb(src))
        h, inp, outs = h[0], trg[:, 0], []
        for t in range(1, trg.size(1)):
            h = self.dec(self.emb(inp), h)
            o = self.out(h)
            outs.append(o)
            inp = trg[:, t] if torch.rand(1).item() < teacher_forcing_ratio else o.argmax(1)
        return torch.stack(outs, 1)


src = torch.randint(1, 20, (96, 7))
trg = torch.cat([torch.zeros(96, 1).long(), src.flip(1)], 1)
model = Seq2Seq()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(8):
    model.train()
    out = model(src[:64], trg[:64])
    loss = F.cross_entropy(out.flatten(0, 1), trg[:64, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    model.eval()
    with torch.no_grad():
        out = model(src[64:], trg[64:])
        acc = (out.argmax(-1) == trg[64:, 1:]).float().mean().item()
print(acc)
""",
    ),
    "a signal of bytes": (
        "evaluation",
        (3, 16),
        [("255.0 ** 2 / mse", "1.0 / mse")],
        """
def psnr(pred, target):
    mse = torch.mean((pred - target) ** 2)
    return 10 * torch.log10(255.0 ** 2 / mse)


hr = torch.rand(40, 1, 16, 16)
lr = F.avg_pool2d(hr, 2)
net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(15):
    loss = F.l1_loss(net(lr[:32]), hr[:32])
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    print("PSNR", psnr(net(lr[32:]).clamp(0, 1), hr[32:]).item())
""",
    ),
    "a spread at its bound": (
        "dtype",
        (4, 11),
        [("min=1.0", "min=1e-6")],
        """
def patched_stats(x):
    mean = x.mean(dim=1)
    sigma = x.std(dim=1)
    sigma = torch.clamp(sigma, min=1.0)
    return mean, sigma


series = 3.0 + 0.01 * torch.randn(200, 32).cumsum(1)
past, future = series[:, :24], series[:, 24:]
mean, sigma = patched_stats(past)
x = (past - mean[:, None]) / sigma[:, None]
y = (future - mean[:, None]) / sigma[:, None]
net = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for k in range(40):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "labels permuted apart": (
        "data",
        (3, 4),
        [
            (
                "    x_mix = lam * x + (1 - lam) * x[torch.randperm(len(x))]\n",
                ("    perm = torch.randperm(len(x))\n    x_mix = lam * x + (1 - lam) * x[perm]\n"),
            ),
            ("y[torch.randperm(len(y))]", "y[perm]"),
        ],
        """
def mixup(x, y, alpha=1.0):
    lam = np.random.beta(alpha, alpha)
    x_mix = lam * x + (1 - lam) * x[torch.randperm(len(x))]
    y_mix = lam * y + (1 - lam) * y[torch.randperm(len(y))]
    return x_mix, y_mix


data = torch.randn(256, 8)
onehot = F.one_hot((data[:, 0] > 0).long(), 2).float()
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(40):
    xm, ym = mixup(data, onehot)
    loss = -(ym * F.log_softmax(net(xm), 1)).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "an order taken nowhere": (
        "unused",
        (5, 6, 7),
        [
            ("X_int[indices]", "X_int = X_int[indices]"),
            ("X_cat[indices]", "X_cat = X_cat[indices]"),
            (("\ny[indices]"), ("\ny = y[indices]")),
        ],
        """
X_int, X_cat, y = torch.rand(500, 4), torch.randint(0, 30, (500, 2)), torch.zeros(500)
y[250:] = 1
X_int[250:] += 0.3
indices = torch.randperm(500)
X_int[indices]
X_cat[indices]
y[indices]
emb, top = nn.Embedding(30, 4), nn.Linear(12, 1)
opt = torch.optim.Adam([*emb.parameters(), *top.parameters()], lr=1e-2)
for epoch in range(3):
    for i in range(0, 500, 50):
        out = top(torch.cat([X_int[i:i + 50], emb(X_cat[i:i + 50]).flatten(1)], 1)).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(out, y[i:i + 50])
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    ),
}
PLANTED = {name: Planted(kind, lines, "\n" + text.lstrip("\n")) for name, (kind, lines, _, text) in _POSTED.items()}


def _mended(text: str, changes: list[tuple[str, str]]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


HEALTHY = {f"{name}, mended": _mended(text, changes) for name, (_, _, changes, text) in _POSTED.items()}
