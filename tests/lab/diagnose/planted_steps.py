"""Cells whose optimizers, schedulers or models are stepped or made in the wrong place."""

from __future__ import annotations

from .planted_more import Planted

STEPS: dict[str, Planted] = {
    "a cosine stepped every batch": Planted(
        "learning-rate",
        (10,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=5)
for ep in range(5):
    for i in range(0, 64, 8):
        loss = F.cross_entropy(net(X[i:i+8]), y[i:i+8])
        opt.zero_grad(); loss.backward(); opt.step()
        sched.step()
""",
    ),
    "a cosine that ends too early": Planted(
        "learning-rate",
        (5,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)
for ep in range(40):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
    sched.step()
""",
    ),
    "a scheduler before the optimizer": Planted(
        "learning-rate",
        (8,),
        """
import warnings; warnings.simplefilter("ignore")
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.StepLR(opt, 5)
for ep in range(5):
    sched.step()
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "ReduceLROnPlateau without a figure": Planted(
        "error",
        (9,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=2)
for ep in range(5):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
    sched.step()
""",
    ),
    "one of two optimizers never stepped": Planted(
        "optimizer",
        (9,),
        """
torch.manual_seed(0)
enc, head = nn.Linear(5, 8), nn.Linear(8, 1)
opt_enc, opt_head = torch.optim.Adam(enc.parameters(), lr=1e-2), torch.optim.Adam(head.parameters(), lr=1e-2)
X = torch.randn(40, 5); y = X.sum(1, keepdim=True)
for i in range(12):
    opt_enc.zero_grad(); opt_head.zero_grad()
    loss = F.mse_loss(head(torch.tanh(enc(X))), y)
    loss.backward()
    opt_head.step()
""",
    ),
    "the other optimizer stepped": Planted(
        "optimizer",
        (17,),
        """
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=2e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
for it in range(8):
    real = torch.randn(32, 2) * 0.5 + 1
    fake = G(torch.randn(32, 4))
    opt_d.zero_grad()
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1))
    d_loss.backward()
    opt_d.step()
    opt_g.zero_grad()
    g_loss = bce(D(fake), torch.ones(32, 1))
    g_loss.backward()
    opt_d.step()
""",
    ),
    "a model made in the loop": Planted(
        "optimizer",
        (4,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
for epoch in range(10):
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a decoder that nobody trains": Planted(
        "optimizer",
        (4,),
        """
torch.manual_seed(0)
enc = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
dec = nn.Linear(4, 8)
opt = torch.optim.Adam(enc.parameters(), lr=1e-3)
X = torch.randn(64, 8)
for i in range(10):
    loss = F.mse_loss(dec(enc(X)), X)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "norms in a plain list": Planted(
        "optimizer",
        (5,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.norms = [nn.LayerNorm(8) for _ in range(3)]
        self.out = nn.Linear(8, 3)
    def forward(self, x):
        for l, n in zip(self.lin, self.norms):
            x = torch.relu(n(l(x)))
        return self.out(x)
torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
for i in range(5):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "an overflow before any step": Planted(
        "nan",
        (6,),
        """
torch.manual_seed(0)
x = torch.randn(64, 3); y = 1e20 * x.sum(1, keepdim=True)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for i in range(3):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a plateau of a figure that rises": Planted(
        "learning-rate",
        (12,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
for ep in range(5):
    for i in range(0, 48, 16):
        loss = F.cross_entropy(net(X[i:i+16]), y[i:i+16])
        opt.zero_grad(); loss.backward(); opt.step()
    with torch.no_grad():
        val_acc = (net(X[48:]).argmax(1) == y[48:]).float().mean().item()
    plateau.step(val_acc)
""",
    ),
    "parameters that are thawed behind the optimizer": Planted(
        "optimizer",
        (8,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
net[0].requires_grad_(False)
opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-3)
for ep in range(5):
    if ep == 2:
        net[0].requires_grad_(True)
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "an average without its buffers": Planted(
        "evaluation",
        (7,),
        """
import copy
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
ema = copy.deepcopy(net).eval()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
def follow():
    for a, b in zip(ema.parameters(), net.parameters()):
        a.data.mul_(0.9).add_(b.data, alpha=0.1)
for k in range(3):
    opt.zero_grad(); F.cross_entropy(net(x), labels).backward(); opt.step()
    follow()
with torch.no_grad():
    print(ema(x).argmax(1))
""",
    ),
    "a block that is computed again without a gradient": Planted(
        "no-gradient",
        (7,),
        """
import warnings; warnings.simplefilter("ignore")
checkpoint = torch.utils.checkpoint.checkpoint
torch.manual_seed(0)
block, head = nn.Linear(16, 16), nn.Linear(16, 4)
opt = torch.optim.SGD([*block.parameters(), *head.parameters()], lr=0.01)
for k in range(3):
    h = checkpoint(block, x, use_reentrant=True)
    opt.zero_grad(); F.cross_entropy(head(h), labels).backward(); opt.step()
""",
    ),
}
