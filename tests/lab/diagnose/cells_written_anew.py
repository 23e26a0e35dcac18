"""Expressions whose results or slopes are not finite, which the remedy writes anew; and those that are written so."""

from __future__ import annotations

from .planted_more import Planted

_TRAINS = "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"

_RAIN = (
    """
torch.manual_seed(0)
gauge = nn.Linear(16, 1)
nn.init.constant_(gauge.bias, 120.0)
opt = torch.optim.SGD(gauge.parameters(), lr=1e-3)
for step in range(3):
    rain = torch.log(1 + torch.exp(gauge(x)))
    loss = (rain - rain.detach() * 0.9).pow(2).mean()
"""
    + _TRAINS
)
_SPINS = (
    """
torch.manual_seed(0)
field = nn.Linear(16, 12)
nn.init.constant_(field.bias, 100.0)
opt = torch.optim.SGD(field.parameters(), lr=1e-3)
for step in range(3):
    energy = field(x)
    free = torch.log(torch.exp(energy).sum(dim=1))
    loss = (free - energy[:, 0]).mean()
"""
    + _TRAINS
)
_TIDES = (
    """
torch.manual_seed(0)
tide = nn.Linear(16, 6)
opt = torch.optim.SGD(tide.parameters(), lr=1e-3)
for step in range(3):
    level = tide(x).mean(0) * 0
    share = (level - level.min()) / (level.max() - level.min())
    loss = (share - 0.5).pow(2).mean()
"""
    + _TRAINS
)
_GERMS = (
    """
torch.manual_seed(0)
germ = nn.Linear(16, 1)
nn.init.constant_(germ.bias, 60.0)
opt = torch.optim.SGD(germ.parameters(), lr=1e-3)
for step in range(3):
    lives = torch.sigmoid(germ(x))
    loss = -torch.log(1 - lives).mean()
"""
    + _TRAINS
)
_STEPS = (
    """
torch.manual_seed(0)
walk = nn.Linear(16, 3, bias=False)
opt = torch.optim.SGD(walk.parameters(), lr=1e-3)
still = torch.cat([x[:60], torch.zeros(4, 16)])
for step in range(3):
    length = (walk(still) ** 2).sum(1) ** 0.5
    loss = (length - 1).pow(2).mean()
"""
    + _TRAINS
)

PLANTED = {
    "softplus of a rain gauge by hand": Planted("nan", (6,), _RAIN),
    "the free energy of spins by hand": Planted("nan", (7,), _SPINS),
    "a tide of one level, scaled": Planted("nan", (6,), _TIDES),
    "the logarithm of what dies for certain": Planted("nan", (7,), _GERMS),
    "the root of the length of no step": Planted("nan", (6,), _STEPS),
    "the chances of a verdict as a column": Planted(
        "error",
        (5,),
        """
judge = nn.Linear(16, 4)
opt = torch.optim.SGD(judge.parameters(), lr=1e-2)
verdict = labels[:, None]
for step in range(3):
    loss = F.cross_entropy(judge(x), verdict)
"""
        + _TRAINS,
    ),
    "a divergence of two chances of rain": Planted(
        "loss",
        (7,),
        """
torch.manual_seed(0)
sky, old = nn.Linear(16, 4), nn.Linear(16, 4)
opt = torch.optim.SGD(sky.parameters(), lr=1e-2)
for step in range(4):
    with torch.no_grad():
        known = F.softmax(old(x) / 2, dim=1)
    loss = F.kl_div(F.softmax(sky(x) / 2, dim=1), known, reduction="batchmean")
"""
        + _TRAINS,
    ),
}

HEALTHY = {
    "softplus of a rain gauge": _RAIN.replace("torch.log(1 + torch.exp(gauge(x)))", "F.softplus(gauge(x))"),
    "the free energy of spins": _SPINS.replace("torch.log(torch.exp(energy).sum(dim=1))", "energy.logsumexp(1)"),
    "a tide of one level, kept from zero": _TIDES.replace("level.min())\n", "level.min() + 1e-8)\n"),
    "the logarithm of what dies, by logits": _GERMS.replace(
        "-torch.log(1 - lives).mean()", "-F.logsigmoid(-germ(x)).mean()"
    ),
}
