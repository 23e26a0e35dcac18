"""Mistakes of training, values and statements as others write them: see cells_spelled.py."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "a leaf made anew for the optimizer": Mistake(
        "rebound",
        8,
        """
torch.manual_seed(0)
amp = torch.tensor(1.0, requires_grad=True)
adam = torch.optim.Adam([amp], lr=0.02)
for it in range(8):
    adam.zero_grad()
    chi2 = (amp * x[:, 0] - 1.7 * x[:, 0]).square().mean()
    chi2.backward(); adam.step()
    amp = amp.detach().clamp(0.0, 10.0).requires_grad_()
print(amp.item())
""",
        (("    amp = amp.detach().clamp(0.0, 10.0).requires_grad_()", "    amp.data.clamp_(0.0, 10.0)"),),
    ),
    "a penalty as a float, in a trainer": Mistake(
        "cut",
        9,
        """
class Trainer:
    def __init__(self, model, lam):
        self.model, self.lam = model, lam
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    def orthogonality(self):
        return (self.model.weight @ self.model.weight.T - torch.eye(8)).pow(2).sum()
    def step(self, xb):
        fit = F.mse_loss(self.model(xb), xb[:, :8])
        ortho = float(self.orthogonality())
        objective = fit + self.lam * ortho
        self.opt.zero_grad(); objective.backward(); self.opt.step()
trainer = Trainer(nn.Linear(16, 8), 0.05)
for _ in range(6):
    trainer.step(x)
""",
        (("float(self.orthogonality())", "self.orthogonality()"),),
    ),
    "built by a function in the loop": Mistake(
        "optimizer",
        5,
        """
def build():
    net = nn.Linear(16, 4)
    return net, torch.optim.RMSprop(net.parameters(), lr=1e-2)
for _ in range(6):
    net, opt = build()
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("for _ in range(6):\n    net, opt = build()", "net, opt = build()\nfor _ in range(6):"),),
    ),
    "too large, by a function that sets them": Mistake(
        "exploding",
        8,
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in ((16, 128), (128, 128), (128, 4)))
        self.reset()
    def reset(self):
        for lin in self.layers:
            nn.init.normal_(lin.weight)
            nn.init.zeros_(lin.bias)
    def forward(self, v):
        for lin in self.layers[:-1]:
            v = F.relu(lin(v))
        return self.layers[-1](v)
net = Net(); opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("normal_(lin.weight)", "kaiming_normal_(lin.weight)"),),
    ),
    "a power iteration that grows": Mistake(
        "exploding",
        5,
        """
links = (torch.rand(50, 50) < 0.6).float()
def centrality(adj, rounds=40):
    score = torch.ones(adj.size(0))
    for _ in range(rounds):
        score = torch.mv(adj, score)
    return score / score.sum()
print(centrality(links).sum().item())
""",
        (("torch.mv(adj, score)", "F.normalize(torch.mv(adj, score), dim=0)"),),
    ),
    "a buffer that masks once": Mistake(
        "unused",
        6,
        """
class Ordered(nn.Linear):
    def __init__(self, d):
        super().__init__(d, d)
        self.register_buffer("allowed", torch.tril(torch.ones(d, d), diagonal=-1))
        with torch.no_grad():
            self.weight.mul_(self.allowed)
    def forward(self, v):
        return F.linear(v, self.weight, self.bias)
layer = Ordered(16); opt = torch.optim.Adam(layer.parameters(), lr=1e-2)
for _ in range(6):
    loss = F.mse_loss(layer(x), x)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("F.linear(v, self.weight,", "F.linear(v, self.weight * self.allowed,"),),
    ),
    "a meter that begins with anything": Mistake(
        "data",
        3,
        """
class Meter:
    def __init__(self, groups):
        self.acc = torch.empty(groups)
        self.hits = torch.zeros(groups)
    def update(self, key, value):
        self.acc.index_add_(0, key, value)
        self.hits += torch.bincount(key, minlength=4)
meter = Meter(4)
meter.update(labels, x[:, 0])
print(meter.hits)
""",
        (("torch.empty(groups)", "torch.zeros(groups)"),),
    ),
    "downhill by sub": Mistake(
        "loss",
        6,
        """
net = nn.Linear(16, 4)
def fast_attack(model, inp, truth, budget):
    inp = inp.detach().clone().requires_grad_()
    cost = F.cross_entropy(model(inp), truth)
    (slope,) = torch.autograd.grad(cost, inp)
    return torch.sub(inp, slope.sign(), alpha=budget).detach()
print((net(fast_attack(net, x, labels, 0.1)).argmax(1) == labels).float().mean())
""",
        (("torch.sub(inp", "torch.add(inp"),),
    ),
    "a bound of any name that moves": Mistake(
        "loss",
        9,
        """
net = nn.Linear(16, 4)
def attack(v, truth, radius=0.1, step=0.03, rounds=5):
    adv = v.clone()
    for _ in range(rounds):
        adv.requires_grad_(True)
        g = torch.autograd.grad(F.cross_entropy(net(adv), truth), adv)[0]
        with torch.no_grad():
            moved = adv + step * g.sign()
            adv = torch.max(torch.min(moved, adv + radius), adv - radius)
    return adv
print((attack(x, labels) - x).abs().max())
""",
        (("adv + radius), adv - radius", "v + radius), v - radius"),),
    ),
    "a picture that is cloned and never stepped": Mistake(
        "optimizer",
        4,
        """
extractor = nn.Linear(16, 8); goal = torch.randn(64, 8)
photo = x.clone()
picture = photo.clone().requires_grad_(True)
opt = torch.optim.Adam(extractor.parameters(), lr=1e-2)
for it in range(8):
    opt.zero_grad()
    loss = F.mse_loss(extractor(picture), goal)
    loss.backward()
    opt.step()
print((picture.detach() - photo).abs().mean())
""",
        (("extractor.parameters()", "[picture]"), ("nn.Linear(16, 8)", "nn.Linear(16, 8).requires_grad_(False)")),
    ),
    "a discounted sum in whole numbers": Mistake(
        "dtype",
        6,
        """
def discounted(payoff, gamma=0.9):
    g = torch.zeros_like(payoff)
    running = 0.0
    for k in reversed(range(len(payoff))):
        running = payoff[k].item() + gamma * running
        g[k] = running
    return g
print(discounted(torch.tensor([0, 1, 1, 0, 1, 3])))
""",
        (("torch.zeros_like(payoff)", "torch.zeros(len(payoff))"),),
    ),
    "an upper triangle with its diagonal": Mistake(
        "mask",
        8,
        """
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_qkv = nn.Linear(16, 48)
        self.register_buffer("visible", torch.ones(8, 8).triu().bool())
    def forward(self, v):
        q, k, u = self.to_qkv(v).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, u, attn_mask=self.visible[:8, :8])
net = Attend(); opt = torch.optim.Adam(net.parameters(), 1e-3)
seq = x.view(8, 8, 16)
for _ in range(6):
    loss = F.mse_loss(net(seq)[:, :-1], seq[:, 1:])
    opt.zero_grad(); loss.backward(); opt.step()
""",
        ((".triu()", ".tril()"),),
    ),
    "the norm of an unpacked gradient": Mistake(
        "loss",
        5,
        """
critic = nn.Sequential(nn.Conv2d(1, 4, 3), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(16, 1))
def lipschitz(real, made):
    between = (0.5 * real + 0.5 * made).requires_grad_(True)
    g, = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    length = torch.linalg.vector_norm(g, dim=1)
    return (length - 1).pow(2).mean()
opt = torch.optim.Adam(critic.parameters(), 1e-3); real = x.view(-1, 1, 4, 4)
for _ in range(4):
    made = torch.randn_like(real)
    loss = critic(made).mean() - critic(real).mean() + 10 * lipschitz(real, made)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("vector_norm(g, dim=1)", "vector_norm(g.flatten(1), dim=1)"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
