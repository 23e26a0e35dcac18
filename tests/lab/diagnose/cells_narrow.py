"""Arrays of too narrow a dtype: bytes subtracted in NumPy, times since 1970 in float32, averages of weights in half
precision; and results that nobody takes; beside what comes close."""

from __future__ import annotations

from .planted_more import Planted

_PSNR = """
def to_image(t):
    return (t.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
def psnr(img1, img2):
    mse = np.mean((img1{as_float} - img2{as_float}) ** 2)
    return 20 * np.log10(255.0 / np.sqrt(mse))
clean = torch.rand(3, 16, 16)
for picture in clean:
    print(psnr(to_image(picture), to_image(picture + 0.1 * torch.randn(16, 16))))
"""
_MOTION = """
rng = np.random.default_rng(0)
film = rng.integers(0, 256, (6, 20, 20)).astype(np.uint8)
def moved(now, before, rim=0):
    if rim:
        now, before = {rimless}
    return np.abs(now - before).mean()
scores = [moved(b, a, rim=2) for a, b in zip(film[:-1], film[1:])]
net = nn.Linear(5, 2)
print(net(torch.tensor(scores).float()).shape)
"""
_TIMES = """
stamps = 1_700_000_000 + np.cumsum(np.random.default_rng(0).gamma(1.0, 6.0, (40, 20)), 1)
times = {times}
hours = times / 3600
net = nn.Linear(20, 4)
print(net(hours.float()).shape)
"""
_AVERAGE = """
import copy
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
ema = copy.deepcopy(model){dtype}.requires_grad_(False)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters()):
            {move}
"""
_HALF = ".to(torch.bfloat16)"
_LERP = "e.lerp_(p.to(e.dtype), 0.002)"
_DEALT = """
order = np.arange(64)
{deals}
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for k in range(0, 64, 16):
    i = torch.from_numpy(order[k : k + 16])
    loss = F.cross_entropy(net(x[i]), labels[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
PLANTED = {
    "bytes subtracted in NumPy": Planted("dtype", (4,), _PSNR.format(as_float="")),
    "bytes subtracted without their rim": Planted(
        "dtype", (6,), _MOTION.format(rimless="now[rim:-rim, rim:-rim], before[rim:-rim, rim:-rim]")
    ),
    "times in float32": Planted("dtype", (2,), _TIMES.format(times="torch.from_numpy(stamps).float()")),
    "times in float32, by NumPy": Planted("dtype", (2,), _TIMES.format(times="torch.from_numpy(np.float32(stamps))")),
    "a clock in float32": Planted(
        "dtype",
        (3,),
        "\nimport time\nstarts = [time.time() for _ in range(8)]\nwhen = torch.tensor(starts)\n"
        "print((when - when[0]).max().item())",
    ),
    "an average in bfloat16": Planted("dtype", (12,), _AVERAGE.format(dtype=_HALF, move=_LERP)),
    "an average in bfloat16, written out": Planted(
        "dtype", (12,), _AVERAGE.format(dtype=_HALF, move="e.mul_(0.999).add_(p.to(e.dtype), alpha=0.001)")
    ),
    "an average in bfloat16, copied": Planted(
        "dtype", (12,), _AVERAGE.format(dtype=_HALF, move="e.copy_(0.999 * e + 0.001 * p)")
    ),
    "an order that NumPy gives to nobody": Planted("unused", (2,), _DEALT.format(deals="np.random.permutation(order)")),
    "a product that grows on itself": Planted(
        "exploding",
        (3,),
        "\nv = torch.full((8,), 2.0)\nfor k in range(40):\n    v = v * 40.0\nprint((v - v).sum().item())",
    ),
}
HEALTHY = {
    "bytes made float first": _PSNR.format(as_float=".astype(np.float32)"),
    "bytes made float where the rim is left out": _MOTION.format(
        rimless="now[rim:-rim, rim:-rim] / 255.0, before[rim:-rim, rim:-rim] / 255.0"
    ),
    "times from the first one": _TIMES.format(times="torch.from_numpy(stamps - stamps[:, :1]).float()"),
    "times in float64": _TIMES.format(times="torch.from_numpy(stamps)"),
    "an average in float32": _AVERAGE.format(dtype="", move=_LERP),
    "an average in bfloat16 that moves": _AVERAGE.format(dtype=_HALF, move="e.lerp_(p.to(e.dtype), 0.5)"),
    "an order that is kept": _DEALT.format(deals="order = np.random.permutation(order)"),
    "a statement that is timed": (
        "\nimport time\nbegin = time.perf_counter()\nfor k in range(9):\n    x.clamp(0, 1)\n"
        "print(time.perf_counter() - begin)"
    ),
    "a model made bfloat16 in place": (
        "\nnet = nn.Linear(16, 4)\nnet.bfloat16()\nwith torch.no_grad():\n"
        "    print(net(x.bfloat16()).float().mean().item())"
    ),
}
