"""Four findings in the words of people who had not seen the rule: windows, residues, replay and positions."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted
from .planted_more import Planted

MISTAKES: dict[str, Mistake] = {
    "the last of a sliding window as its target": Mistake(
        "data", 4,
        """
def make_windows(values, width):
    frames = np.lib.stride_tricks.sliding_window_view(values, width)
    past = frames.copy()
    goal = past[:, -1:].copy()
    return torch.from_numpy(past), torch.from_numpy(goal)
past, goal = make_windows(np.sin(np.arange(200) / 4).astype(np.float32), 16)
mlp = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(mlp.parameters(), lr=2e-3)
for epoch in range(6):
    loss = F.mse_loss(mlp(past), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("(values, width)\n    past", "(values, width + 1)\n    past"), ("frames.copy()", "frames[:, :-1].copy()"),
         ("past[:, -1:]", "frames[:, -1:]")),
    ),
    "places counted with those left out": Mistake(
        "evaluation", 18,
        """
SKIP = -1
kinds = labels % 3
states = torch.where(torch.rand(64, 10) < 0.4, torch.tensor(SKIP), kinds[:, None].expand(64, 10))
out = nn.Linear(16, 30)
opt = torch.optim.Adam(out.parameters(), lr=5e-3)
for ep in range(6):
    opt.zero_grad()
    F.cross_entropy(out(x).view(64, 10, 3).flatten(0, 1), states.flatten(), ignore_index=SKIP).backward()
    opt.step()
out.eval()
good = places = 0
with torch.no_grad():
    for k in range(0, 64, 32):
        st = states[k : k + 32]
        said = out(x[k : k + 32]).view(32, 10, 3).argmax(-1)
        good += (said == st).sum().item()
        # the share of places that are right
        places += st.numel()
print(good / places)
""",
        (("st.numel()", "(st != SKIP).sum().item()"),),
    ),
    "an end under one letter": Mistake(
        "unused", 12,
        """
import random
replay, gamma = [], 0.9
for k in range(64):
    done = float(k % 8 == 7)
    replay.append((x[k], int(labels[k]) % 2, 1.0, x[k - 1], done))
online, lagged = nn.Linear(16, 2), nn.Linear(16, 2)
lagged.load_state_dict(online.state_dict())
opt = torch.optim.Adam(online.parameters(), lr=1e-3)
for k in range(6):
    s, a, r, n, e = zip(*random.sample(replay, 16))
    with torch.no_grad():
        backup = torch.tensor(r) + gamma * lagged(torch.stack(n)).amax(1)
    loss = F.mse_loss(online(torch.stack(s)).gather(1, torch.tensor(a)[:, None]).squeeze(1), backup)
    opt.zero_grad()
    loss.backward()
    opt.step()
    lagged.load_state_dict(online.state_dict())
""",
        (("torch.tensor(r) + gamma *", "torch.tensor(r) + gamma * (1 - torch.tensor(e)) *"),),
    ),
    "positions that count the samples": Mistake(
        "layout", 8,
        """
class Order(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(64, 16)
        self.enc = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.fc = nn.Linear(16, 2)
    def forward(self, ids):
        at = torch.arange(ids.size(0)).unsqueeze(1)
        return self.fc(self.enc(self.words(ids) + self.places(at)).mean(1))
model = Order()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
ids = torch.randint(0, 30, (64, 12))
for it in range(6):
    loss = F.cross_entropy(model(ids), labels % 2)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("ids.size(0)).unsqueeze(1)", "ids.size(1)).unsqueeze(0)"),),
    ),
}  # fmt: skip

PLANTED: dict[str, Planted] = planted(MISTAKES)
HEALTHY: dict[str, str] = mended(MISTAKES) | {
    "dropout switched on again for a spread": """
net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
net.eval()
for m in net.modules():
    if isinstance(m, nn.Dropout):
        m.train()
with torch.no_grad():
    draws = torch.stack([net(x) for _ in range(20)])
spread = draws.std(0)
""",
    "dropout that never sleeps, for a spread": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 1)
    def forward(self, x):
        return self.b(F.dropout(torch.relu(self.a(x)), 0.2, training=True))
net, scale = Net(), nn.Linear(16, 16).eval()
with torch.no_grad():
    draws = torch.stack([net(scale(x)) for _ in range(20)])
spread = draws.std(0)
""",
    "LBFGS, whose first steps are long": """
net = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
t = torch.linspace(0, 3, 1000).unsqueeze(1).requires_grad_()
opt = torch.optim.LBFGS(net.parameters(), lr=1, max_iter=20)
def closure():
    opt.zero_grad()
    u = net(t)
    slope = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    bend = torch.autograd.grad(slope.sum(), t, create_graph=True)[0]
    loss = (bend + 9 * u).square().mean() + 30 * ((u[0] - 1) ** 2 + slope[0] ** 2).sum()
    loss.backward()
    return loss
for _ in range(2):
    opt.step(closure)
""",
}
