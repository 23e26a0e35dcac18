"""Names that are read in place of others, terms that no gradient passes, updates by hand that are not finite; and what
comes close."""

from __future__ import annotations

from .planted_more import Planted

_TRAINS = "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"

_SHADOW = """
torch.manual_seed(0)
class Follower:
    def __init__(self, share=0.01):
        self.share = share
        self.own, self.slow = nn.Linear(16, 1), nn.Linear(16, 1)
        self.follow(share=1.0)
    def follow(self, share=None):
        share = self.share if share is None else share
        for a, b in zip(self.slow.parameters(), self.own.parameters()):
            a.data.copy_((1 - self.share) * a.data + self.share * b.data)
pair = Follower()
opt = torch.optim.SGD(pair.own.parameters(), lr=1e-2)
for step in range(3):
    loss = (pair.own(x) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    pair.follow()
"""
_LENS = """
torch.manual_seed(0)
class Lens(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
    def forward(self, light):
        even = (light - 0.5) / 0.25
        return self.layers(light)
lens = Lens()
opt = torch.optim.SGD(lens.parameters(), lr=1e-2)
for step in range(3):
    loss = F.cross_entropy(lens(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_CHOIR = (
    """
torch.manual_seed(0)
high, low = nn.Linear(16, 3), nn.Linear(16, 3)
opt = torch.optim.SGD([*high.parameters(), *low.parameters()], lr=1e-2)
voices = labels.clamp(max=2)
for step in range(3):
    a, b = high(x), low(x)
    apart = (a.argmax(1) != b.argmax(1)).float().mean()
    loss = F.cross_entropy(a, voices) + F.cross_entropy(b, voices) + 0.5 * apart
"""
    + _TRAINS
)
_MOVES = """
torch.manual_seed(0)
arm = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
nn.init.constant_(arm[0].bias, -90.0)
for step in range(4):
    arm.zero_grad()
    loss = (arm(x) - 1).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in arm.parameters():
            slope = p.grad.clone()
            way = slope / slope.norm()
            p -= 0.01 * way
"""
_WAVES = (
    """
import math
torch.manual_seed(0)
depth = 16
rates = torch.exp(torch.arange(0, depth, 2) * (-math.log(50.0) / depth // 2))
at = torch.arange(64.0)[:, None] * rates
swell = nn.Linear(16, 1)
opt = torch.optim.SGD(swell.parameters(), lr=1e-2)
for step in range(3):
    loss = (swell(torch.cat([at.sin(), at.cos()], 1)) - x[:, :1]).pow(2).mean()
"""
    + _TRAINS
)
_FLAGS = (
    """
torch.manual_seed(0)
class Flags(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 4), nn.Softmax(dim=0))
    def forward(self, seen):
        return self.net(seen)
flags = Flags()
opt = torch.optim.Adam(flags.parameters(), lr=1e-3)
for step in range(4):
    chance = flags(x)
    loss = -torch.log(chance.gather(1, labels[:, None])).mean()
"""
    + _TRAINS
)

_BIRDS = (
    """
torch.manual_seed(0)
birds = nn.Linear(16, 9)
opt = torch.optim.Adam(birds.parameters(), lr=1e-3)
height = x[:, :1]
for step in range(3):
    share, middle, spread = birds(x).chunk(3, 1)
    logp = -0.5 * ((height - middle) * torch.exp(-spread)) ** 2 - spread
    logp = logp.sum(-1, keepdim=True) + F.log_softmax(share, dim=-1)
    loss = -torch.logsumexp(logp, dim=-1).mean()
"""
    + _TRAINS
)
_LAMPS = (
    """
torch.manual_seed(0)
glow = torch.randint(0, 256, (64, 16)).float()
def even(x):
    return x * (2 / 255 - 1)
lamp = nn.Linear(16, 4)
opt = torch.optim.SGD(lamp.parameters(), lr=1e-5)
for step in range(3):
    loss = F.cross_entropy(lamp(even(glow)), labels)
"""
    + _TRAINS
)

PLANTED = {
    "a share that is given and not read": Planted("unused", (10,), _SHADOW),
    "light that is made even for nobody": Planted("unused", (7,), _LENS),
    "two voices that shall sing the same": Planted("cut", (7,), _CHOIR),
    "a way of length 1 of no slope": Planted("nan", (11,), _MOVES),
    "rates of waves by a whole part": Planted("dtype", (4,), _WAVES),
    "heights of birds of three kinds": Planted("loss", (8,), _BIRDS),
    "lamps that are made even": Planted("dtype", (4,), _LAMPS),
    "flags over all ships": Planted("loss", (5,), _FLAGS),
}

HEALTHY = {
    "heights of birds of three kinds, weighed": _BIRDS.replace(".sum(-1, keepdim=True)", ""),
    "lamps that are even": _LAMPS.replace("(2 / 255 - 1)", "(2 / 255) - 1").replace("1e-5", "1e-2"),
    "a share that is given and read": _SHADOW.replace("1 - self.share", "1 - share").replace(
        "self.share * b", "share * b"
    ),
    "light that is made even and read": _LENS.replace("self.layers(light)", "self.layers(even)"),
    "two voices that shall sound the same": _CHOIR.replace(
        "(a.argmax(1) != b.argmax(1)).float().mean()", "(a.softmax(1) - b.softmax(1)).pow(2).mean()"
    ),
    "rates of waves by the half": _WAVES.replace("/ depth // 2", "/ (depth // 2)"),
}
