"""Mistakes of logic whose finding looks at what ran, and what comes close: a penalty on gradients, a state that is
carried through a loader that shuffles."""

from __future__ import annotations

from .planted_more import Planted

_PENALTY = """
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.Unflatten(1, (1, 4, 4)))
D = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64, 1))
opt_g, opt_d = torch.optim.Adam(G.parameters(), lr=1e-3), torch.optim.Adam(D.parameters(), lr=1e-3)
def penalty(real, fake):
    a = torch.rand(len(real), 1, 1, 1)
    between = (a * real + (1 - a) * fake).requires_grad_(True)
    score = D(between)
    slopes = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True)[0]
    return (({norm} - 1) ** 2).mean()
for step in range(3):
    real, fake = x.view(64, 1, 4, 4), G(torch.randn(64, 4))
    d_loss = D(fake.detach()).mean() - D(real).mean() + 10 * penalty(real, fake.detach())
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = -D(fake).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
"""
_STATE = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 4)
    def forward(self, seq, h=None):
        out, h = self.rnn(seq, h)
        return self.head(out[:, -1]), h
def load(shuffle):
    data = torch.utils.data.TensorDataset(x.view(64, 4, 4), labels)
    return torch.utils.data.DataLoader(data, batch_size=16, shuffle=shuffle)
torch.manual_seed(0)
net = Reader()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
batches, h = load({shuffle}), None
for xb, yb in batches:
    out, h = net(xb, h)
    loss = F.cross_entropy(out, yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
    h = h.detach()
"""

PLANTED = {
    "a penalty at each pixel": Planted("loss", (10,), _PENALTY.format(norm="slopes.norm(2, dim=1)")),
    "a penalty of the whole batch": Planted("loss", (10,), _PENALTY.format(norm="torch.norm(slopes)")),
    "a state of other sequences": Planted("data", (16,), _STATE.format(shuffle="True")),
}
HEALTHY = {
    "a penalty of each sample": _PENALTY.format(norm="slopes.flatten(1).norm(2, dim=1)"),
    "a penalty of each sample, over three dimensions": _PENALTY.format(norm="slopes.norm(2, dim=(1, 2, 3))"),
    "a penalty of each sample, by its squares": _PENALTY.format(norm="slopes.pow(2).sum((1, 2, 3)).sqrt()"),
    "a state that goes on in order": _STATE.format(shuffle="False"),
}
