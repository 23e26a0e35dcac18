"""Slips that people posted: one of two taken twice, weights and masks in the wrong place, inputs that are changed."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

_MASKED = """
torch.manual_seed(0)
seen = (torch.rand(64, 5) < 0.7).float()
enc, dec = nn.Linear(16, 8), nn.Linear(4, 16)
steps = x[:, None] + 0.1 * torch.randn(64, 5, 16)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-3)
for it in range(6):
    mu, log_var = enc(steps).chunk(2, -1)
    z = mu + (0.5 * log_var).exp() * torch.randn_like(mu)
    fit = ((dec(z) - steps) ** 2).sum(-1) * seen
    div = -0.5 * torch.sum(1 + log_var - mu ** 2 - log_var.exp()) * seen
    loss = (fit + div).sum() / seen.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_POISSON = """
torch.manual_seed(0)
class Goal:
    def __init__(self, inner_weight=4.0):
        self.inner_weight = inner_weight
    def __call__(self, inside, outside):
        return self.inner_weight + inside.pow(2).mean() + outside.pow(2).mean()
net, goal = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 1)), Goal()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(6):
    loss = goal(net(x).squeeze(1) - y, net(torch.zeros(4, 16)))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_TWICE = """
torch.manual_seed(0)
net = nn.Linear(16, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
sample_weight = torch.rand(64)
sample_weight = sample_weight / sample_weight.sum()
for it in range(6):
    point_loss = (sample_weight * F.mse_loss(net(x).squeeze(1), y, reduction="none")).sum()
    point_loss = torch.sum(sample_weight * point_loss)
    opt.zero_grad()
    point_loss.backward()
    opt.step()
"""
_CRITICS = """
torch.manual_seed(0)
qa1, qa2, slow1, slow2 = nn.Linear(16, 1), nn.Linear(16, 1), nn.Linear(16, 1), nn.Linear(16, 1)
slow1.load_state_dict(qa1.state_dict())
slow2.load_state_dict(qa2.state_dict())
opt = torch.optim.Adam([*qa1.parameters(), *qa2.parameters()], lr=1e-3)
for it in range(6):
    with torch.no_grad():
        next1, next2 = slow1(x), slow2(x)
        goal = y[:, None] + 0.9 * torch.min(next1, next1)
    loss = F.mse_loss(qa1(x), goal) + F.mse_loss(qa2(x), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    for slow, fast in ((slow1, qa1), (slow2, qa2)):
        for s, f in zip(slow.parameters(), fast.parameters()):
            s.data.mul_(0.9).add_(0.1 * f.data)
"""
_VIEWS = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(6):
    batch = {"view1": x + 0.1 * torch.randn(64, 16), "view2": x + 0.1 * torch.randn(64, 16)}
    left = F.normalize(net(batch["view1"]), dim=1)
    right = F.normalize(net(batch["view1"]), dim=1)
    loss = F.cross_entropy(left @ right.t() / 0.2, torch.arange(64))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_SHARP = """
torch.manual_seed(0)
coarse = x.view(64, 1, 4, 4)
fine = coarse + 0.3 * torch.randn(64, 1, 4, 4)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(coarse, fine), batch_size=16)
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for low, high in loader:
    made = net(low)
    loss = F.mse_loss(made, low)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        print(-10 * torch.log10(F.mse_loss(made, high)).item())
"""
_ACTOR = """
torch.manual_seed(0)
gamma = 0.9
actor, critic = nn.Linear(16, 3), nn.Linear(16, 1)
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
rewards = y
for it in range(6):
    dist = torch.distributions.Categorical(logits=actor(x))
    acts = dist.sample()
    values = critic(x).squeeze(1)
    returns, total = [], 0.0
    for r in reversed(rewards.tolist()):
        total = r + gamma * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    advantages = rewards - values.detach()
    loss = -(dist.log_prob(acts) * advantages).mean() + F.mse_loss(values, returns)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_BACKUP = """
torch.manual_seed(0)
gamma = 0.9
fast, slow = nn.Linear(16, 1), nn.Linear(16, 1)
slow.load_state_dict(fast.state_dict())
opt = torch.optim.Adam(fast.parameters(), lr=1e-3)
reward, not_done = y[:, None], (torch.rand(64, 1) < 0.9).float()
for it in range(6):
    with torch.no_grad():
        next_value = slow(x.roll(1, 0))
    goal = reward + gamma * not_done + next_value
    loss = F.mse_loss(fast(x), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    for s, f in zip(slow.parameters(), fast.parameters()):
        s.data.lerp_(f.data, 0.05)
"""
_SHORTCUT = """
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 16))
    def forward(self, inp):
        out = self.body(inp)
        return out + inp
net = nn.Sequential(nn.Linear(16, 16), Block(), Block(), nn.Linear(16, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_SPOTTER = """
torch.manual_seed(0)
def spec_augment(m):
    m = m.clone()
    start = np.random.randint(0, 10)
    m[:, start:start + 5] = 0
    return m
class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4))
    def forward(self, m):
        m = spec_augment(m)
        return self.net(m)
net = Spotter()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(5):
    net.train()
    loss = F.cross_entropy(net(x[:48]), labels[:48])
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    with torch.no_grad():
        right = (net(x[48:]).argmax(1) == labels[48:]).float().mean().item()
"""
_FLOW = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(17, 32), nn.SiLU(), nn.Linear(32, 16))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(6):
    noise = torch.randn_like(x)
    when = torch.randn(64, 1)
    mixed = (1 - when) * noise + when * x
    loss = F.mse_loss(net(torch.cat([mixed, when], 1)), x - noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_CODES = """
torch.manual_seed(0)
enc, dec = nn.Linear(16, 8), nn.Linear(4, 16)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-3)
for it in range(6):
    mu, logvar = enc(x).chunk(2, 1)
    z = mu + torch.randn_like(mu) * (logvar / 2).exp()
    div = 0.5 * (mu.pow(2) + logvar.pow(2) - torch.log(logvar.pow(2) + 1e-8) - 1).sum(1).mean()
    loss = F.mse_loss(dec(z), x, reduction="sum") / 64 + div
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_STUDENT = """
torch.manual_seed(0)
student = nn.Linear(16, 4)
opt = torch.optim.Adam(student.parameters(), lr=1e-3)
target = F.softmax(x @ torch.randn(16, 4), dim=1)
for it in range(6):
    loss = F.kl_div(F.log_softmax(student(x), dim=1), target, reduction="none").mean(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

MISTAKES = {
    "a sum of all times a mask": Mistake(
        "loss",
        10,
        _MASKED,
        (("torch.sum(1 + log_var - mu ** 2 - log_var.exp())", "torch.sum(1 + log_var - mu ** 2 - log_var.exp(), -1)"),),
    ),
    "a weight that is added": Mistake(
        "loss", 6, _POISSON, (("self.inner_weight + inside", "self.inner_weight * inside"),)
    ),
    "weighted a second time": Mistake(
        "loss", 8, _TWICE, (("    point_loss = torch.sum(sample_weight * point_loss)\n", ""),)
    ),
    "the less of one critic": Mistake("unused", 9, _CRITICS, (("torch.min(next1, next1)", "torch.min(next1, next2)"),)),
    "one view as both": Mistake(
        "unused", 7, _VIEWS, (('right = F.normalize(net(batch["view1"])', 'right = F.normalize(net(batch["view2"])'),)
    ),
    "the input as its own target": Mistake("loss", 9, _SHARP, (("F.mse_loss(made, low)", "F.mse_loss(made, high)"),)),
    "rewards where returns belong": Mistake("loss", 15, _ACTOR, (("= rewards - values", "= returns - values"),)),
    "a mask that is added": Mistake("loss", 10, _BACKUP, (("not_done + next_value", "not_done * next_value"),)),
    "a shortcut behind an activation": Mistake(
        "alias", 5, _SHORTCUT, (("nn.Sequential(nn.ReLU(inplace=True), ", "nn.Sequential(nn.ReLU(), "),)
    ),
    "augmented in every mode": Mistake(
        "mode",
        12,
        _SPOTTER,
        (("        m = spec_augment(m)\n", "        if self.training:\n            m = spec_augment(m)\n"),),
    ),
    "times from a normal distribution": Mistake("loss", 6, _FLOW, (("when = torch.randn", "when = torch.rand"),)),
    "a logarithm as a spread": Mistake(
        "loss",
        7,
        _CODES,
        (("mu.pow(2) + logvar.pow(2) - torch.log(logvar.pow(2) + 1e-8) - 1", "mu.pow(2) + logvar.exp() - logvar - 1"),),
    ),
    "a divergence averaged by hand": Mistake("loss", 6, _STUDENT, ((".mean(1).mean()", ".sum(1).mean()"),)),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES) | {
    "one step an episode": _ACTOR.replace(
        """    returns, total = [], 0.0
    for r in reversed(rewards.tolist()):
        total = r + gamma * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
""",
        "",
    )
    .replace("F.mse_loss(values, returns)", "F.mse_loss(values, rewards)")
    .replace("gamma = 0.9\n", ""),
    "an autoencoder whose labels are looked at": _SHARP.replace(
        "F.mse_loss(made, high)", "F.mse_loss(made.mean((1, 2, 3)), high.mean((1, 2, 3)))"
    ),
    "one input twice through dropout": _VIEWS.replace("nn.ReLU(), ", "nn.ReLU(), nn.Dropout(0.2), ")
    .replace('batch["view1"]', "x")
    .replace("    batch = {", "    noted = {"),
    "a shortcut kept before it": _SHORTCUT.replace(
        "        out = self.body(inp)\n", "        kept = inp.clone()\n        out = self.body(inp)\n"
    ).replace("out + inp", "out + kept"),
    "a learned spread beside its errors": _TWICE.replace(
        "    point_loss = torch.sum(sample_weight * point_loss)\n",
        "    point_loss = point_loss * torch.exp(-log_scale) + log_scale\n",
    )
    .replace("net = nn.Linear(16, 1)\n", "net = nn.Linear(16, 1)\nlog_scale = torch.zeros((), requires_grad=True)\n")
    .replace("Adam(net.parameters()", "Adam([*net.parameters(), log_scale]"),
}
