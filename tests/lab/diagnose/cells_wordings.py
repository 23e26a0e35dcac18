"""Cells whose mistake is told by what ran, however it is called and written, and right ones beside them."""

from __future__ import annotations

from .planted_more import Planted

_TRAIN = """
net = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, {out}))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
{before}
for turn in range(6):
    {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def _train(loss: str, before: str = "", out: int = 4) -> str:
    return _TRAIN.format(loss=loss, before=before, out=out)


_PENALTY = (
    "def size(module):\n    total = torch.zeros(())\n    for name, p in module.named_parameters():\n"
    '        if name.endswith("weight"):\n            total = total + p.square().sum()\n    return total\n'
    "def objective(a, b):\n    fit = F.cross_entropy(net(a), b)\n    return fit.{joins}(1e-3 * size(net)), fit"
)
_TEXT = """
V = 12
text = torch.randint(0, V, (40, 9))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.rnn, self.head = nn.Embedding(V, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, V)
    def forward(self, ids):
        return self.head(self.rnn(self.tok(ids))[0])
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for turn in range(6):
    out = model(text[:, {inputs}])
    loss = F.cross_entropy(out.flatten(0, 1), {targets}.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_POOL = """
present = torch.arange(10)[None, :] < torch.randint(3, 10, (64, 1))
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.value, self.out = nn.Linear(4, 1), nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, h, keep):
        score = self.query(h).squeeze(-1)
        {apply}
        alpha = F.softmax(score, dim=1)
        return self.out(torch.bmm(alpha.unsqueeze(1), self.value(h)).squeeze(1)).squeeze(1)
pool = Pool()
h = torch.randn(64, 10, 4)
opt = torch.optim.Adam(pool.parameters(), lr=1e-3)
for turn in range(6):
    loss = F.mse_loss(pool(h, present), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_SHIFT = """
Normal = torch.distributions.Normal
log_sd = nn.Parameter(torch.zeros({wide}))
net = nn.Linear(16, {wide})
opt = torch.optim.Adam([*net.parameters(), log_sd], lr=1e-3)
def evaluate(s, a):
    return Normal(net(s), log_sd.exp()).log_prob(a){summed}
with torch.no_grad():
    act = Normal(net(x), log_sd.exp()).sample()
    before = evaluate(x, act)
adv = {adv}
for turn in range(4):
    shift = {shift}
    loss = torch.min(shift * adv, shift.clamp(0.8, 1.2) * adv).mean().neg()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_PAIRS = (
    "def unit(v):\n    return v / v.norm(p=2, dim={dim}, keepdim=True).clamp_min(1e-8)\n"
    "other = nn.Linear(16, 8)\nopt.add_param_group({{'params': other.parameters()}})"
)
_LAPLACE = """
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
def laplace(p):
    u = net(p)
    du = torch.autograd.grad(u, p, torch.ones_like(u), create_graph=True)[0]
    {second}
for turn in range(4):
    p = torch.rand(64, 2, requires_grad=True)
    loss = (laplace(p) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_SLOPES = """
net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))
STEP = {step}
@torch.no_grad()
def sensitivity(fn, at):
    base = fn(at)
    columns = []
    for j in range(at.shape[1]):
        moved = at.clone()
        moved[:, j] += STEP
        columns.append((fn(moved) - base) / STEP)
    return torch.cat(columns, dim=1)
found = sensitivity(net, x)
"""
_LEVELS = """
rate = torch.linspace(1e-3, 0.1, 60)
kept = {kept}
signal, noise = kept.sqrt(), (1 - kept).sqrt()
net = nn.Linear(16, 16)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for turn in range(5):
    t = torch.randint(0, 60, (64, 1))
    z = torch.randn_like(x)
    loss = F.mse_loss(net(signal[t] * x + noise[t] * z), z)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_MASKS = """
masks = (torch.rand(40, 1, 8, 8) > 0.7).float()
images = masks + 0.3 * torch.randn(40, 1, 8, 8)
net = nn.Conv2d(1, 1, 3, padding=1)
class Soft(nn.Module):
    def forward(self, scores, gold, smooth=1.0):
        p = {shares}
        both = (p * gold).sum(dim=(1, 2, 3))
        either = p.sum(dim=(1, 2, 3)) + gold.sum(dim=(1, 2, 3)) - both
        return {score}
criterion, opt = Soft(), torch.optim.Adam(net.parameters(), lr=1e-2)
for turn in range(6):
    value = criterion(net(images), masks)
    opt.zero_grad()
    value.backward()
    opt.step()
"""
_SHARED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        block = nn.Linear(16, 16)
        self.blocks = nn.Sequential({blocks})
        self.head = nn.Linear(16, 4)
    def forward(self, v):
        return self.head(self.blocks(v))
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for turn in range(5):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_DELAYED = """
critic, actor = nn.Linear(16 + 2, 1), nn.Linear(16, 2)
opt_c, opt_a = torch.optim.Adam(critic.parameters(), lr=1e-3), torch.optim.Adam(actor.parameters(), lr=1e-3)
acts = torch.rand(64, 2)
for turn in range(8):
    loss = F.mse_loss(critic(torch.cat([x, acts], 1))[:, 0], y)
    opt_c.zero_grad()
    loss.backward()
    opt_c.step()
    if turn % 2 == 0:
        gain = -critic(torch.cat([x, actor(x)], 1)).mean()
        opt_a.zero_grad()
        gain.backward()
        opt_a.step()
"""

PLANTED: dict[str, Planted] = {
    "a penalty taken away in a function": Planted(
        "loss", (11,), _train("loss, fit = objective(x, labels)", _PENALTY.format(joins="sub"))
    ),
    "a recurrent model told what it reads": Planted("loss", (13,), _TEXT.format(inputs=":", targets="text")),
    "a mask of 0 and 1 added to the scores of a pool": Planted(
        "mask", (8,), _POOL.format(apply="score = score + keep.float()")
    ),
    "the old over the new policy, in no words": Planted(
        "loss",
        (12,),
        _SHIFT.format(wide=1, summed=".sum(1)", adv="y - y.mean()", shift="before.sub(evaluate(x, act)).exp()"),
    ),
    "a ratio for each number, by a function": Planted(
        "loss",
        (12,),
        _SHIFT.format(wide=3, summed="", adv="(y - y.mean())[:, None]", shift="torch.exp(evaluate(x, act) - before)"),
    ),
    "length 1 along the batch by hand": Planted(
        "layout",
        (4,),
        _train(
            "loss = F.cross_entropy(unit(net(x)) @ unit(other(x)).T * 5, torch.arange(64))",
            _PAIRS.format(dim=0),
            out=8,
        ),
    ),
    "the columns of a Laplacian at once": Planted(
        "gradient",
        (6, 7),
        _LAPLACE.format(
            second="ddu = torch.autograd.grad(du, p, torch.ones_like(du), create_graph=True)[0]\n"
            "    return ddu.sum(dim=1, keepdim=True)"
        ),
    ),
    "a step below the digits, column by column": Planted("dtype", (10,), _SLOPES.format(step="1e-8")),
    "shares of noise multiplied by their logarithms": Planted(
        "loss", (2,), _LEVELS.format(kept="rate.log().cumsum(0).exp()")
    ),
    "a class left out by a dictionary": Planted(
        "loss",
        (4,),
        _train(
            "loss = crit(net(x), labels)",
            'cfg = {"loss": {"ignore_index": 0}}\ncrit = nn.CrossEntropyLoss(**cfg["loss"])',
        ),
    ),
    "a similarity by its layer, summed and divided": Planted(
        "loss",
        (6,),
        _train("loss = measure(net(x), x).sum() / len(x)", "measure = nn.CosineSimilarity(dim=1)\n", out=16),
    ),
    "an overlap made the loss": Planted(
        "loss",
        (9,),
        _MASKS.format(shares="torch.sigmoid(scores)", score="((both + smooth) / (either + smooth)).mean()"),
    ),
    "an overlap of logits, in no words": Planted(
        "loss", (7,), _MASKS.format(shares="scores", score="1 - ((both + smooth) / (either + smooth)).mean()")
    ),
    "one block in a comprehension": Planted("layer", (5,), _SHARED.format(blocks="*(block for _ in range(3))")),
}

HEALTHY: dict[str, str] = {
    "a penalty added in a function": _train("loss, fit = objective(x, labels)", _PENALTY.format(joins="add")),
    "an entropy of a learnt spread taken away": _train(
        "loss = F.gaussian_nll_loss(net(x)[:, 0], y, spread.exp().square().expand(64)) - 0.01 * spread.sum()",
        "spread = nn.Parameter(torch.zeros(1))\nopt.add_param_group({'params': [spread]})",
    ),
    "a recurrent model told what comes next": _TEXT.format(inputs=":-1", targets="text[:, 1:]"),
    "a mask that fills the scores of a pool": _POOL.format(apply="score = score.masked_fill(~keep, float('-inf'))"),
    "a reward of 0 or 1 added to what is chosen from": _train(
        "loss = F.mse_loss(F.softmax(net(x) + (x[:, :4] > 0).float(), 1), F.one_hot(labels, 4).float())"
    ),
    "the new over the old policy, in no words": _SHIFT.format(
        wide=1, summed=".sum(1)", adv="y - y.mean()", shift="before.sub(evaluate(x, act)).neg().exp()"
    ),
    "a divergence from the policy before": _SHIFT.format(
        wide=1, summed=".sum(1)", adv="y - y.mean()", shift="(evaluate(x, act) - before).exp()"
    ).replace(".mean().neg()", ".mean().neg() + 0.1 * ((before - evaluate(x, act)).exp() - 1).mean()"),
    "length 1 of each sample by hand": _train(
        "loss = F.cross_entropy(unit(net(x)) @ unit(other(x)).T * 5, torch.arange(64))", _PAIRS.format(dim=1), out=8
    ),
    "a Laplacian column by column": _LAPLACE.format(
        second="return sum(torch.autograd.grad(du[:, k].sum(), p, create_graph=True)[0][:, k] for k in range(2))"
    ),
    "a step well above the digits": _SLOPES.format(step="1e-2"),
    "levels by the logarithms of what is kept": _LEVELS.format(kept="(1 - rate).log().cumsum(0).exp()"),
    "an overlap taken from 1": _MASKS.format(
        shares="torch.sigmoid(scores)", score="1 - ((both + smooth) / (either + smooth)).mean()"
    ),
    "blocks made anew in a comprehension": _SHARED.format(
        blocks="*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3))"
    ),
    "an actor that is trained in every other turn": _DELAYED,
}
