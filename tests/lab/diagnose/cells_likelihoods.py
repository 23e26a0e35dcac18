"""Rounds of tasks, likelihoods, qualities and ranks: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "the last task alone": Mistake(
        "loss",
        8,
        """
torch.manual_seed(0)
model = nn.Linear(16, 4)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    opt.zero_grad()
    for task in range(4):
        xs, ys = x[task * 16:task * 16 + 16], labels[task * 16:task * 16 + 16]
        loss = F.cross_entropy(model(xs), ys)
    loss.backward()
    opt.step()
""",
        (
            ("    opt.zero_grad()\n    for", "    opt.zero_grad()\n    loss = 0.0\n    for"),
            ("loss = F.cross_entropy(model(xs), ys)", "loss = loss + F.cross_entropy(model(xs), ys)"),
        ),
    ),
    "likelihood of a growing variance": Mistake(
        "loss",
        5,
        """
torch.manual_seed(0)
net = nn.Linear(16, 2)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
def gaussian_nll(mu, log_var, target):
    return (0.5 * (log_var + (target - mu) ** 2 * torch.exp(log_var))).mean()
for it in range(4):
    mu, log_var = net(x).unbind(1)
    loss = gaussian_nll(mu, log_var, y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("torch.exp(log_var)", "torch.exp(-log_var)"),),
    ),
    "a spread for a variance": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
net = nn.Linear(16, 2)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(4):
    out = net(x)
    mean, sigma = out[:, 0], F.softplus(out[:, 1]) + 1e-3
    nll = torch.log(sigma) + (y - mean) ** 2 / (2 * sigma)
    loss = nll.mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("(2 * sigma)", "(2 * sigma ** 2)"),),
    ),
    "softened after the softmax": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
model = nn.Linear(16, 4)
logits = model(x).detach()
T = nn.Parameter(torch.ones(1))
opt = torch.optim.SGD([T], lr=0.01)
for it in range(10):
    probs = F.softmax(logits, dim=1) / T
    loss = F.nll_loss(torch.log(probs), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (),
    ),
    "quality made worse": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
net = nn.Linear(64, 64)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
clean = torch.randn(16, 64); noisy = clean + 0.3 * torch.randn(16, 64)
def si_sdr(est, ref):
    scale = (est * ref).sum(-1, keepdim=True) / ref.pow(2).sum(-1, keepdim=True)
    proj = scale * ref
    return 10 * torch.log10(proj.pow(2).sum(-1) / (est - proj).pow(2).sum(-1))
for it in range(4):
    loss = si_sdr(net(noisy), clean).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("loss = si_sdr", "loss = -si_sdr"),),
    ),
    "overlap made smaller": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
net = nn.Linear(16, 16)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
mask = (x > 0).float()
def dice(pred, target, eps=1.0):
    inter = (pred * target).sum(1)
    return ((2 * inter + eps) / (pred.sum(1) + target.sum(1) + eps)).mean()
for it in range(4):
    pred = torch.sigmoid(net(x))
    loss = F.binary_cross_entropy(pred, mask) + dice(pred, mask)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("+ dice(pred, mask)", "+ 1 - dice(pred, mask)"),),
    ),
    "negatives preferred": Mistake(
        "loss",
        8,
        """
torch.manual_seed(0)
users, items = nn.Embedding(20, 8), nn.Embedding(50, 8)
opt = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=1e-2)
for it in range(4):
    u, i, j = torch.randint(0, 20, (64,)), torch.randint(0, 50, (64,)), torch.randint(0, 50, (64,))
    pos = (users(u) * items(i)).sum(1)
    neg = (users(u) * items(j)).sum(1)
    loss = -F.logsigmoid(neg - pos).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("neg - pos", "pos - neg"),),
    ),
    "summed before the logarithm": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
users, items = nn.Embedding(20, 8), nn.Embedding(50, 8)
opt = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=1e-2)
for it in range(4):
    u, i, j = torch.randint(0, 20, (64,)), torch.randint(0, 50, (64,)), torch.randint(0, 50, (64,))
    uv = users(u)
    score = torch.sum(torch.mul(uv, items(i) - items(j)))
    loss = -F.logsigmoid(score)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            ("torch.sum(torch.mul(uv, items(i) - items(j)))", "torch.sum(torch.mul(uv, items(i) - items(j)), 1)"),
            ("-F.logsigmoid(score)", "-F.logsigmoid(score).mean()"),
        ),
    ),
    "word vectors without a minus": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
class SkipGram(nn.Module):
    def __init__(self, v, d):
        super().__init__()
        self.inp, self.out = nn.Embedding(v, d), nn.Embedding(v, d)
    def forward(self, center, context, noise):
        c = self.inp(center)
        pos_score = (c * self.out(context)).sum(1)
        neg_score = torch.bmm(self.out(noise), c.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(pos_score) + F.logsigmoid(neg_score).sum(1)).mean()
model = SkipGram(50, 8)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for it in range(4):
    loss = model(torch.randint(0, 50, (32,)), torch.randint(0, 50, (32,)), torch.randint(0, 50, (32, 5)))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("F.logsigmoid(neg_score)", "F.logsigmoid(-neg_score)"),),
    ),
    "one score for the whole batch": Mistake(
        "layout",
        7,
        """
torch.manual_seed(0)
U, V = nn.Embedding(20, 8), nn.Embedding(50, 8)
opt = torch.optim.Adam([*U.parameters(), *V.parameters()], lr=1e-2)
for it in range(4):
    u, i = torch.randint(0, 20, (64,)), torch.randint(0, 50, (64,))
    rating = torch.rand(64) * 5
    pred = (U(u) * V(i)).sum()
    loss = ((pred - rating) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("V(i)).sum()", "V(i)).sum(1)"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
