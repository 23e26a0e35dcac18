"""Mistakes of sessions that were played as users have them: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "as many channels as pixels": Mistake(
        "layout",
        6,
        """
torch.manual_seed(0)
conv, head = nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.Linear(16, 4)
attend, pictures = nn.MultiheadAttention(16, 4, batch_first=True), torch.randn(16, 1, 8, 8)
def tokens(feat):
    B, C, H, W = feat.shape
    return feat.view(B, H * W, C)
opt = torch.optim.SGD([*conv.parameters(), *attend.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    t = tokens(conv(pictures))
    loss = F.cross_entropy(head(attend(t, t, t)[0].mean(1)), labels[:16])
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("feat.view(B, H * W, C)", "feat.flatten(2).transpose(1, 2)"),),
    ),
    "the judge's gradients in the maker": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
opt_g, opt_d = torch.optim.Adam(G.parameters(), lr=1e-3), torch.optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for step in range(6):
    real, z = torch.randn(32, 2), torch.randn(32, 4)
    opt_d.zero_grad(); opt_g.zero_grad()
    fake = G(z)
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake), torch.zeros(32, 1))
    d_loss.backward(retain_graph=True)
    g_loss = bce(D(fake), torch.ones(32, 1))
    g_loss.backward()
    opt_d.step(); opt_g.step()
""",
        (("bce(D(fake), torch.zeros", "bce(D(fake.detach()), torch.zeros"), ("retain_graph=True", "")),
    ),
    "a schedule between the steps": Mistake(
        "learning-rate",
        9,
        """
torch.manual_seed(0)
net, every = nn.Linear(16, 4), 4
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=20)
opt.step()
for i in range(80):
    (F.cross_entropy(net(x), labels) / every).backward()
    if (i + 1) % every == 0: opt.step(); opt.zero_grad()
    sched.step()
""",
        ((" opt.zero_grad()\n    sched.step()", " opt.zero_grad(); sched.step()"),),
    ),
    "advantages written row by row": Mistake(
        "broadcast",
        17,
        """
torch.manual_seed(0)
policy, critic = nn.Linear(16, 4), nn.Linear(16, 1)
opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
def ahead(rewards, values):
    gains, later = torch.zeros_like(values), 0
    for i in reversed(range(len(rewards))):
        later = rewards[i] - values[i, 0] + 0.9 * later
        gains[i] = later
    return (gains - gains.mean()) / gains.std()
with torch.no_grad():
    values, told = critic(x), torch.distributions.Categorical(logits=policy(x))
    acts = told.sample()
    before, gains = told.log_prob(acts), ahead(y.tolist(), values)
for step in range(4):
    now = torch.distributions.Categorical(logits=policy(x)).log_prob(acts)
    ratio = (now - before).exp()
    loss = -torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("return (gains - gains.mean()) / gains.std()", "return ((gains - gains.mean()) / gains.std()).squeeze(1)"),),
    ),
    "a generator of which workers get copies": Mistake(
        "loop",
        4,
        """
class Shaken(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows
        self.rng = np.random.RandomState(0)
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        return self.rows[i] + 0.1 * self.rng.randn(16).astype(np.float32), i
loader = torch.utils.data.DataLoader(Shaken(x.numpy()), batch_size=16, shuffle=True, num_workers=2)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for xb, i in loader:
    loss = F.cross_entropy(net(xb), labels[i])
    opt.zero_grad(); loss.backward(); opt.step()
""",
        ((", num_workers=2", ""),),  # one copy, which goes on from epoch to epoch
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
