"""Mistakes of losses, samples and policies as others write them: through functions of their own, layers for functions,
methods for operators, and names that say nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "cosine layer that is made small": Mistake(
        "loss",
        8,
        """
teacher, student = nn.Linear(16, 8).requires_grad_(False), nn.Linear(16, 8)
cos = nn.CosineSimilarity(dim=1)
opt = torch.optim.Adam(student.parameters(), 1e-3)
for _ in range(6):
    with torch.no_grad():
        goal = teacher(x)
    match = cos(student(x), goal)
    objective = torch.mean(match)
    opt.zero_grad(); objective.backward(); opt.step()
""",
        (("torch.mean(match)", "torch.mean(1 - match)"),),
    ),
    "siamese that returns its projections": Mistake(
        "loss",
        15,
        """
class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8), nn.Tanh())
        self.predictor = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    def forward(self, a, b):
        za, zb = self.backbone(a), self.backbone(b)
        return za, zb, self.predictor(za), self.predictor(zb)
def agreement(p, z):
    p, z = F.normalize(p, dim=1), F.normalize(z, dim=1)
    return -(p * z).sum(dim=1).mean()
net = Siamese(); opt = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(6):
    za, zb, pa, pb = net(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    loss = agreement(pa, zb) / 2 + agreement(pb, za) / 2
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("za, zb, self", "za.detach(), zb.detach(), self"),),
    ),
    "similarity of pictures by its whole name": Mistake(
        "loss",
        9,
        """
def structural_similarity(a, b):
    ma, mb = a.mean(1), b.mean(1)
    cov = (a * b).mean(1) - ma * mb
    top, spread = (2 * ma * mb + 0.01) * (2 * cov + 0.03), a.var(1) + b.var(1) + 0.03
    return (top / ((ma ** 2 + mb ** 2 + 0.01) * spread)).mean()
net = nn.Linear(16, 16); opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(6):
    noisy = x + 0.1 * torch.randn_like(x)
    criterion = structural_similarity(net(noisy), x)
    opt.zero_grad(); criterion.backward(); opt.step()
""",
        (("criterion = structural", "criterion = 1 - structural"),),
    ),
    "ranks turned, what is drawn for what is liked": Mistake(
        "loss",
        10,
        """
people, things = nn.Embedding(20, 8), nn.Embedding(30, 8)
opt = torch.optim.Adam([*people.parameters(), *things.parameters()], 1e-2)
def unseen_for(u):
    return torch.randint(0, 30, u.shape)
def mf(u, i):
    return torch.sum(people(u) * things(i), dim=-1)
user, liked = torch.arange(64) % 20, torch.arange(64) % 30
for _ in range(6):
    other = unseen_for(user)
    loss = -F.logsigmoid(mf(user, other) - mf(user, liked)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("mf(user, other) - mf(user, liked)", "mf(user, liked) - mf(user, other)"),),
    ),
    "ranks turned, by softplus": Mistake(
        "loss",
        7,
        """
people, things = nn.Embedding(20, 8), nn.Embedding(30, 8)
opt = torch.optim.Adam([*people.parameters(), *things.parameters()], 1e-2)
user, liked = torch.arange(64) % 20, torch.arange(64) % 30
for _ in range(6):
    pos = (people(user) * things(liked)).sum(1)
    neg = (people(user) * things(torch.randint(0, 30, (64,)))).sum(1)
    loss = F.softplus(pos - neg).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("pos - neg", "neg - pos"),),
    ),
    "one number before a log-sigmoid layer": Mistake(
        "loss",
        7,
        """
readers = nn.Parameter(0.1 * torch.randn(20, 6)); books = nn.Parameter(0.1 * torch.randn(30, 6))
opt = torch.optim.Adam([readers, books], 0.01); logsig = nn.LogSigmoid()
r, yes = torch.arange(64) % 20, torch.arange(64) % 30
for _ in range(6):
    no = torch.randint(0, 30, (64,))
    contrast = books[yes] - books[no]
    margin = torch.sum(readers[r] * contrast)
    loss = -logsig(margin)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("readers[r] * contrast)", "readers[r] * contrast, dim=-1)"), ("-logsig(margin)", "-logsig(margin).mean()")),
    ),
    "links alone, by a criterion": Mistake(
        "loss",
        5,
        """
enc = nn.Linear(16, 8); opt = torch.optim.Adam(enc.parameters(), 1e-3); bce = nn.BCEWithLogitsLoss()
for _ in range(6):
    h = enc(x)
    s = (h[:32] * h[32:]).sum(-1)
    loss = bce(s, torch.ones(32))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("bce(s, torch.ones(32))", "bce(s, labels[:32].eq(labels[32:]).float())"),),
    ),
    "decibels by a method": Mistake(
        "loss",
        4,
        """
def level(wave):
    spec = torch.fft.rfft(wave)
    magnitude = 2.0 * torch.abs(spec) / 16
    return 10.0 * magnitude.clamp_min(1e-7).log10()
print(level(x).mean())
""",
        (("10.0 * mag", "20.0 * mag"),),
    ),
    "the real part by a function": Mistake(
        "data",
        3,
        """
def spectrum(w):
    coeff = torch.fft.rfft(w * torch.hann_window(16), dim=-1)
    p = torch.real(coeff).square() / 16
    return torch.log1p(p)
print(spectrum(x).mean())
""",
        (("torch.real(coeff)", "torch.abs(coeff)"),),
    ),
    "whole circle in a sine": Mistake(
        "data",
        4,
        """
bearing, speed = torch.arange(0, 360).float(), torch.rand(360)
def encode(record):
    direction, v = record["bearing"], record["speed"]
    east, north = v * torch.sin(direction), v * torch.cos(direction)
    return torch.stack((east, north), dim=1)
print(encode({"bearing": bearing, "speed": speed}).mean())
""",
        (('record["bearing"], record', 'torch.deg2rad(record["bearing"]), record'),),
    ),
    "headings on a line": Mistake(
        "loss",
        8,
        """
heading = torch.linspace(-179, 179, 64)
compass = torch.stack([torch.cos(torch.deg2rad(heading)), torch.sin(torch.deg2rad(heading))], 1)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)); opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(6):
    idx = torch.randperm(64)[:32]
    guess = 180.0 * net(compass[idx])[:, 0]
    err = (guess - heading[idx]) / 180.0
    loss = torch.mean(err ** 2)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            (
                "err = (guess - heading[idx]) / 180.0",
                "err = torch.remainder(guess - heading[idx] + 180, 360) / 180.0 - 1",
            ),
        ),
    ),
    "a spread by addcmul": Mistake(
        "loss",
        7,
        """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.stats, self.back = nn.Linear(16, 8), nn.Linear(4, 16)
    def forward(self, v):
        m, log_var = torch.split(self.stats(v), 4, dim=1)
        scale = log_var.exp()
        return self.back(torch.addcmul(m, scale, torch.randn_like(scale))), m, log_var
vae = VAE(); opt = torch.optim.Adam(vae.parameters(), 1e-3)
for _ in range(6):
    out, m, log_var = vae(x)
    loss = F.mse_loss(out, x, reduction="sum") / 64 + 0.5 * (log_var.exp() + m ** 2 - 1 - log_var).sum() / 64
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("scale = log_var.exp()", "scale = (0.5 * log_var).exp()"),),
    ),
    "codes through a module of their own": Mistake(
        "no-gradient",
        17,
        """
class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(12, 6)
    def forward(self, z):
        nearest = torch.cdist(z, self.codes.weight).argmin(dim=1)
        picked = self.codes(nearest)
        pull = F.mse_loss(picked, z.detach()) + 0.25 * F.mse_loss(z, picked.detach())
        return picked, pull
class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec, self.vq = nn.Linear(16, 6), nn.Linear(6, 16), Quantizer()
    def forward(self, v):
        z = self.enc(v)
        quantized, pull = self.vq(z)
        return self.dec(quantized), pull
vq = VQ(); opt = torch.optim.Adam(vq.parameters(), 3e-3)
for _ in range(6):
    rec, pull = vq(x)
    loss = F.mse_loss(rec, x) + pull
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("        return picked, pull", "        return z + (picked - z).detach(), pull"),),
    ),
    "a log-variance out of a Sequential": Mistake(
        "loss",
        5,
        """
class Spread(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.centre = nn.Sequential(nn.Linear(16, 32), nn.Tanh()), nn.Linear(32, 1)
        self.spread = nn.Sequential(nn.Linear(32, 1), nn.Softplus())
    def forward(self, d):
        h = self.trunk(d)
        return self.centre(h), self.spread(h)
net = Spread(); nll = nn.GaussianNLLLoss(); opt = torch.optim.Adam(net.parameters(), 3e-3)
for _ in range(6):
    m, logvar = net(x)
    loss = nll(m, x[:, :1], logvar.exp())
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("nn.Sequential(nn.Linear(32, 1), nn.Softplus())", "nn.Linear(32, 1)"),),
    ),
    "a volume by a method, through two loops": Mistake(
        "loss",
        9,
        """
class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 16))
    def forward(self, v):
        a, b = v.chunk(2, dim=1)
        raw, shift = self.net(a).chunk(2, dim=1)
        log_scale = torch.tanh(raw)
        volume = log_scale.sum(dim=1).neg()
        return torch.cat([b * torch.exp(log_scale) + shift, a], 1), volume
class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Coupling() for _ in range(2))
    def log_prob(self, v):
        total = torch.zeros(len(v))
        for part in self.parts:
            v, change = part(v)
            total = total + change
        return torch.distributions.Normal(0.0, 1.0).log_prob(v).sum(1) + total
chain = Chain(); opt = torch.optim.Adam(chain.parameters(), 1e-3)
for _ in range(6):
    nll = -chain.log_prob(x).mean()
    opt.zero_grad(); nll.backward(); opt.step()
""",
        (("log_scale.sum(dim=1).neg()", "log_scale.sum(dim=1)"),),
    ),
    "an entropy under another name": Mistake(
        "loss",
        8,
        """
cfg = {"beta": 0.05}
agent = nn.Linear(16, 4); opt = torch.optim.Adam(agent.parameters(), 3e-3)
for _ in range(6):
    d = torch.distributions.Categorical(logits=agent(x)); a = d.sample()
    payoff = x.gather(1, a[:, None]).squeeze(1)
    pg = -(d.log_prob(a) * (payoff - payoff.mean())).mean()
    openness = d.entropy().mean()
    total = torch.add(pg, openness, alpha=cfg["beta"])
    opt.zero_grad(); total.backward(); opt.step()
""",
        (('torch.add(pg, openness, alpha=cfg["beta"])', 'torch.sub(pg, openness, alpha=cfg["beta"])'),),
    ),
    "a prize that is made less likely": Mistake(
        "loss",
        12,
        """
class Bandit(nn.Module):
    def __init__(self):
        super().__init__()
        self.preference = nn.Parameter(torch.zeros(4))
    def play(self, n):
        choice = torch.distributions.Categorical(logits=self.preference); arm = choice.sample((n,))
        return torch.tensor([0.1, 0.3, 0.9, 0.2])[arm], choice.log_prob(arm)
agent = Bandit(); opt = torch.optim.Adam(agent.parameters(), 0.05); baseline = 0.0
for _ in range(8):
    prize, logp = agent.play(64)
    surprise = prize - baseline; baseline = 0.9 * baseline + 0.1 * prize.mean().item()
    objective = torch.mean(logp * surprise)
    opt.zero_grad(); objective.backward(); opt.step()
""",
        (("torch.mean(logp", "-torch.mean(logp"),),
    ),
    "the larger gain, by a function": Mistake(
        "loss",
        5,
        """
pi = nn.Linear(16, 4); opt = torch.optim.Adam(pi.parameters(), 3e-3)
def surrogate(a, old, gain, width=0.2):
    change = torch.exp(torch.distributions.Categorical(logits=pi(x)).log_prob(a) - old)
    free, bounded = change * gain, change.clamp(1 - width, 1 + width) * gain
    return torch.maximum(free, bounded).mean().neg()
with torch.no_grad():
    d = torch.distributions.Categorical(logits=pi(x)); a = d.sample(); old = d.log_prob(a)
    gain = x.gather(1, a[:, None]).squeeze(1)
for _ in range(6):
    loss = surrogate(a, old, (gain - gain.mean()) / gain.std())
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("torch.maximum(free", "torch.minimum(free"),),
    ),
    "distances of what a function is given": Mistake(
        "loss",
        4,
        """
net = nn.Linear(16, 8); opt = torch.optim.Adam(net.parameters(), 2e-3)
def hinge(ea, ep, en, gap=3.0):
    near, far = F.pairwise_distance(ea, ep), F.pairwise_distance(ea, en)
    return torch.clamp(far - near + gap, min=0).mean()
for _ in range(6):
    a, p, n = x[:20], x[:20] + 0.1 * torch.randn(20, 16), x[20:40]
    loss = hinge(net(a), net(p), net(n))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("far - near", "near - far"),),
    ),
    "beside itself, by einsum": Mistake(
        "loss",
        5,
        """
net = nn.Linear(16, 8); opt = torch.optim.Adam(net.parameters(), 2e-3)
def contrast(a, b, tau=0.2):
    z = net(torch.cat([a, b]))
    z = z / z.norm(dim=1, keepdim=True)
    table = torch.einsum("id,jd->ij", z, z) / tau
    return F.cross_entropy(table, torch.arange(2 * len(a)).roll(len(a)))
for _ in range(6):
    loss = contrast(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("z, z) / tau", "z, z) / tau - 1e9 * torch.eye(len(z))"),),
    ),
    "a quantile of what a function is given": Mistake(
        "loss",
        4,
        """
class Pinball(nn.Module):
    def forward(self, guess, seen, level=0.9):
        delta = guess - seen
        return torch.where(delta >= 0, level * delta, (level - 1) * delta).mean()
upper = nn.Linear(16, 1); opt = torch.optim.Adam(upper.parameters(), 1e-2); loss_fn = Pinball()
for _ in range(6):
    b = torch.randperm(64)[:32]
    loss = loss_fn(upper(x[b]).squeeze(-1), x[b, 0])
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("guess - seen", "seen - guess"),),
    ),
    "the power of what is right": Mistake(
        "loss",
        9,
        """
class Focused(nn.Module):
    def __init__(self, power=2.0):
        super().__init__()
        self.power = power
    def forward(self, logit, truth):
        plain = F.binary_cross_entropy_with_logits(logit, truth, reduction="none")
        chance = torch.sigmoid(logit)
        right = chance * truth + (1 - chance) * (1 - truth)
        return torch.mean(right.pow(self.power) * plain)
net = nn.Linear(16, 1); crit = Focused(); opt = torch.optim.Adam(net.parameters(), 3e-3)
for _ in range(6):
    loss = crit(net(x)[:, 0], (labels == 0).float())
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("right.pow(self", "(1 - right).pow(self"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
