"""Further mistakes that people posted: noise of too few steps, labels in an old order, terms that move nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

_STEPS = """
torch.manual_seed(0)
T = 60
betas = torch.linspace(1e-4, 0.02, T)
kept = torch.cumprod(1 - betas, 0)
net = nn.Sequential(nn.Linear(17, 32), nn.SiLU(), nn.Linear(32, 16))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(6):
    t = torch.randint(0, T, (64,))
    eps = torch.randn_like(x)
    noisy = kept[t][:, None].sqrt() * x + (1 - kept[t])[:, None].sqrt() * eps
    loss = F.mse_loss(net(torch.cat([noisy, t[:, None] / T], 1)), eps)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    made = torch.randn(8, 16)
    for k in reversed(range(T)):
        off = betas[k] / (1 - kept[k]).sqrt() * net(torch.cat([made, torch.full((8, 1), k / T)], 1))
        made = (made - off) / (1 - betas[k]).sqrt()
        made = made + betas[k].sqrt() * torch.randn_like(made) if k else made
"""
_SORTED = """
torch.manual_seed(0)
lengths = torch.randint(2, 9, (64,))
words = torch.randn(64, 8, 4) * (torch.arange(8) < lengths[:, None])[..., None]
rnn, fc = nn.GRU(4, 12, batch_first=True), nn.Linear(12, 4)
opt = torch.optim.Adam([*rnn.parameters(), *fc.parameters()], lr=1e-3)
for idx in torch.randperm(64).split(16):
    w, n, goal = words[idx], lengths[idx], labels[idx]
    n, order = n.sort(descending=True)
    packed = nn.utils.rnn.pack_padded_sequence(w[order], n, batch_first=True)
    _, last = rnn(packed)
    loss = F.cross_entropy(fc(last[-1]), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_CUT = """
torch.manual_seed(0)
G, D = nn.Linear(4, 16), nn.Sequential(nn.Linear(16, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
g_opt, d_opt = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
bce = nn.BCEWithLogitsLoss()
seeds = x[:, :4]
for it in range(5):
    fake = G(seeds)
    d_loss = bce(D(x), torch.ones(64, 1)) + bce(D(fake.detach()), torch.zeros(64, 1))
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    said = D(fake).detach()
    g_loss = F.l1_loss(fake, x) + 0.1 * bce(said, torch.ones(64, 1))
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
"""
_FLAGS = """
torch.manual_seed(0)
G, D = nn.Linear(4, 16), nn.Sequential(nn.Linear(16, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
g_opt, d_opt = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
def adv_loss(pred, real):
    goal = torch.zeros_like(pred) if real else torch.ones_like(pred)
    return F.binary_cross_entropy_with_logits(pred, goal)
for it in range(5):
    fake = G(torch.randn(64, 4))
    d_loss = adv_loss(D(x), True) + adv_loss(D(fake.detach()), False)
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = adv_loss(D(fake), False)
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
"""
_SELF = """
torch.manual_seed(0)
enc = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8))
opt = torch.optim.Adam(enc.parameters(), lr=1e-3)
for it in range(5):
    a = F.normalize(enc(x + 0.1 * torch.randn(64, 16)), dim=1)
    b = F.normalize(enc(x + 0.1 * torch.randn(64, 16)), dim=1)
    both = torch.cat([a, b])
    alike = torch.exp(both @ both.t() / 0.5)
    pair = torch.exp((a * b).sum(-1) / 0.5)
    loss = -torch.log(torch.cat([pair, pair]) / alike.sum(-1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

MISTAKES = {
    "the betas of more steps": Mistake(
        "loss", 3, _STEPS, (("torch.linspace(1e-4, 0.02, T)", "torch.linspace(1e-3, 0.2, T)"),)
    ),
    "labels that are not sorted along": Mistake(
        "loop", 11, _SORTED, (("fc(last[-1]), goal)", "fc(last[-1]), goal[order])"),)
    ),
    "a term that is cut off": Mistake("cut", 13, _CUT, (("D(fake).detach()", "D(fake)"),)),
    "to be found out, by a flag": Mistake(
        "loss", 13, _FLAGS, (("adv_loss(D(fake), False)", "adv_loss(D(fake), True)"),)
    ),
    "itself among the others, by exp": Mistake(
        "loss",
        8,
        _SELF,
        (("alike.sum(-1)", "(alike.sum(-1) - alike.diagonal())"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES) | {
    "what comes out is brought back": _SORTED.replace("fc(last[-1]), goal)", "fc(last[-1])[order.argsort()], goal)"),
    "a gap to the critic that only weighs": _CUT.replace(
        "F.l1_loss(fake, x) + 0.1 * bce(said, torch.ones(64, 1))",
        "F.l1_loss(fake, x) * (1 + bce(said, torch.ones(64, 1))) + 0.1 * bce(D(fake), torch.ones(64, 1))",
    ),
}
