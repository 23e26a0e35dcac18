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
    "two networks from small weights at their own rates": """
torch.manual_seed(0)
data = x[:, :2] @ torch.tensor([[1.0, 2.0], [-0.1, 0.5]]) + torch.tensor([1.0, 2.0])
net_G, net_D = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))
for w in [*net_D.parameters(), *net_G.parameters()]:
    nn.init.normal_(w, 0, 0.02)
trainer_D = torch.optim.Adam(net_D.parameters(), lr=0.05)
trainer_G = torch.optim.Adam(net_G.parameters(), lr=0.005)
bce = nn.BCEWithLogitsLoss(reduction="sum")
for epoch in range(25):
    for i in range(0, 64, 8):
        trainer_D.zero_grad()
        made, real = net_G(torch.randn(8, 2)), net_D(data[i : i + 8])
        fake = net_D(made.detach())
        ((bce(real, torch.ones(8, 1)) + bce(fake, torch.zeros(8, 1))) / 2).backward()
        trainer_D.step()
        trainer_G.zero_grad()
        bce(net_D(net_G(torch.randn(8, 2))), torch.ones(8, 1)).backward()
        trainer_G.step()
""",
    "one sequence whose steps are made rows for a layer": """
class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.reg = nn.LSTM(2, 4, 2), nn.Linear(4, 1)
    def forward(self, x):
        x, _ = self.rnn(x)
        s, b, h = x.shape
        x = self.reg(x.view(s * b, h))
        return x.view(s, b, -1)
net = Regressor()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
series = torch.sin(torch.arange(64.0) / 4)
windows = torch.stack([series[:-2], series[1:-1]], 1).reshape(-1, 1, 2)
for step in range(4):
    loss = F.mse_loss(net(windows), series[2:].reshape(-1, 1, 1))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a decoder that shows samples between the epochs": """
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.decoder = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 16))
    def forward(self, x):
        return self.decoder(self.encoder(x))
net = Both()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(3):
    net.train()
    for i in range(0, 64, 16):
        loss = F.mse_loss(net(x[i : i + 16]), x[i : i + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    shown = net.decoder(torch.randn(16, 8)).detach()
""",
    "a mask of saturated noise beside the layers": """
class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(-2.0))
        self.a, self.b, self.c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
    def drop(self, h):
        p, noise = torch.sigmoid(self.p), torch.rand_like(h)
        logit = torch.log(p + 1e-7) - torch.log(1 - p + 1e-7) + torch.log(noise + 1e-7) - torch.log(1 - noise + 1e-7)
        return h * (1 - torch.sigmoid(logit / 0.1)) / (1 - p)
    def forward(self, x):
        h = F.relu(self.a(self.drop(x)))
        h = F.relu(self.b(self.drop(h)))
        return self.c(self.drop(h))
net = Dropped()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "averages of batch norm renewed by passes that nobody takes": """
net = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(8):
    net.train()
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    net[1].reset_running_stats()
    net.train()
    for part in x.split(16):
        net(part)
    net.eval()
    share = (net(x).argmax(1) == labels).float().mean().item()
""",
    "the derivative of a solution that is known": """
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
t = torch.linspace(0, 1, 32)[:, None].requires_grad_()
slope = torch.autograd.grad(torch.sin(3 * t).sum(), t)[0]
for k in range(8):
    u = net(t)
    u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    loss = (u_t - slope).square().mean() + u[0].square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "dropout alone left on, to draw several predictions": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
for m in net.modules():
    if isinstance(m, nn.Dropout):
        m.train()
total = torch.zeros(64, 4)
with torch.no_grad():
    for k in range(20):
        total += net(x).softmax(1)
share = (total.argmax(1) == labels).float().mean().item()
""",
}
