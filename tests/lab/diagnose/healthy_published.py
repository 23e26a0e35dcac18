"""Healthy cells after programs that people published, of which a rule once said something; see test_healthy.py."""

from __future__ import annotations

PUBLISHED = {
    "a view that has the shape already": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.RNN(4, 8, batch_first=True), nn.Linear(8, 4)
    def forward(self, x):
        x.view(x.size(0), 4, 4)
        return self.out(self.rnn(x)[0][:, -1])
net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    loss = F.cross_entropy(net(x.reshape(64, 4, 4)), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "gradients cleared in a function of one's own": """
enc, dec = nn.Linear(16, 4), nn.Linear(4, 16)
disc = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
opt_e = torch.optim.Adam(enc.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(dec.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)
def reset_grad():
    enc.zero_grad()
    dec.zero_grad()
    disc.zero_grad()
for step in range(4):
    F.mse_loss(dec(enc(x)), x).backward()
    opt_c.step()
    opt_e.step()
    reset_grad()
    real, fake = disc(torch.randn(64, 4)), disc(enc(x))
    d_loss = -torch.mean(torch.log(real + 1e-8) + torch.log(1 - fake + 1e-8))
    d_loss.backward()
    opt_d.step()
    reset_grad()
    g_loss = -torch.mean(torch.log(disc(enc(x)) + 1e-8))
    g_loss.backward()
    opt_e.step()
    reset_grad()
""",
}
