"""Whole numbers that a dtype cannot tell apart, and differences of large numbers, beside what comes close."""

from __future__ import annotations

from .planted_more import Planted

_ANGLES = """
torch.manual_seed(0)
inv = 1.0 / (10000 ** (torch.arange(0, 16, 2).float() / 16))
like = torch.zeros(4, 16, dtype=torch.bfloat16)
{steps}
angle = torch.outer(steps.float(), inv)
print(angle.cos().std().item())
"""
_GAPS = """
stamps = 1_700_000_000 + np.cumsum(np.random.default_rng(0).integers(20, 90, 400))
{times}
gaps = times[1:] - times[:-1]
net = nn.Linear(399, 2)
print(net(torch.from_numpy(gaps).float()).shape)
"""
_CLOUD = """
rng = np.random.default_rng(0)
cloud = np.array([431_000.0, 5_411_000.0, 200.0]) + rng.uniform(0, 3, (500, 3))
{points}
local = points - points.mean(0)
net = nn.Linear(3, 2)
print(net(local.float()).shape)
"""
_COUNTS = """
torch.manual_seed(0)
hits = torch.zeros(4, dtype=torch.{dtype})
for k in range(3000):
    hits += F.one_hot(torch.randint(0, 4, (8,)), 4).sum(0).to(hits.dtype)
print(hits)
"""
_VOTES = """
torch.manual_seed(0)
votes = torch.zeros(8, 8, dtype=torch.uint8)
for k in range({turns}):
    votes += (torch.rand(8, 8) < 0.9).to(torch.uint8)
print((votes.float() / {turns}).mean().item())
"""
_FLAT = """
rng = np.random.default_rng(0)
rows, cols = (rng.integers(0, n, 90).astype(np.{dtype}) for n in (100, 200))
place = {place}
table = nn.Embedding(20000, 2)
print(table(torch.from_numpy(place.astype(np.int64))).shape)
"""
_NORM = """
torch.manual_seed(0)
h = (300 * torch.randn(8, 16)).half()
mean = h{as_float}.pow(2).mean(1, keepdim=True)
print((h * torch.rsqrt(mean + 1e-6)).float().std().item())
"""
_WEIGHTS = """
torch.manual_seed(0)
counts = torch.bincount(labels, minlength=5).float()
share = counts.sum() / {counts}
share = share / share.sum()
criterion = nn.CrossEntropyLoss(weight=share)
net = nn.Linear(16, 5)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for k in range(4):
    loss = criterion(net(x[16 * k : 16 * k + 16]), labels[16 * k : 16 * k + 16])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_SPREAD = """
torch.manual_seed(0)
a = {data}
total, squares = torch.zeros(()), torch.zeros(())
for part in a.split(100):
    total = total + part.sum()
    squares = squares + (part ** 2).sum()
mean = total / len(a)
std = (squares / len(a) - mean ** 2).sqrt()
z = (a - mean) / std
print(z.abs().mean().item())
"""
PLANTED = {
    "a spread from two sums, of numbers far from 0": Planted(
        "dtype", (8,), _SPREAD.format(data="torch.randn(1000) * 0.01 + 300")
    ),
    "places in a map of bytes": Planted("dtype", (3,), _FLAT.format(dtype="uint8", place="rows * 200 + cols")),
    "squares that overflow below a root": Planted("nan", (3,), _NORM.format(as_float="")),
    "weights of classes without a sample": Planted("nan", (3,), _WEIGHTS.format(counts="counts")),
    "positions of the dtype of the activations": Planted(
        "dtype", (4,), _ANGLES.format(steps="steps = torch.arange(2000, dtype=like.dtype)")
    ),
    "positions cast to bfloat16": Planted(
        "dtype", (4,), _ANGLES.format(steps="steps = torch.arange(2000).type_as(like)")
    ),
    "gaps of times that NumPy has made float32": Planted(
        "dtype", (2,), _GAPS.format(times="times = stamps.astype(np.float32)")
    ),
    "points on a map in float32": Planted(
        "dtype", (3,), _CLOUD.format(points="points = torch.tensor(cloud, dtype=torch.float32)")
    ),
    "counts of classes in float16": Planted("dtype", (4,), _COUNTS.format(dtype="float16")),
    "votes in bytes": Planted("dtype", (4,), _VOTES.format(turns=400)),
}
HEALTHY = {
    "a spread from two sums, of numbers near 0": _SPREAD.format(data="torch.randn(1000) * 2 + 3"),
    "places in a map of int64": _FLAT.format(dtype="int64", place="rows * 200 + cols"),
    "a hash of bytes": _FLAT.format(dtype="uint8", place="(rows * 31 + cols) % 128"),
    "bytes that are large enough": _FLAT.format(dtype="uint8", place="rows + cols // 2"),
    "squares in float32 below a root": _NORM.format(as_float=".float()"),
    "weights of classes that have a sample at least": _WEIGHTS.format(counts="counts.clamp(min=1)"),
    "positions in float32": _ANGLES.format(steps="steps = torch.arange(2000, dtype=torch.float32)"),
    "few positions in bfloat16": _ANGLES.format(steps="steps = torch.arange(200, dtype=like.dtype)"),
    "few positions cast to bfloat16": _ANGLES.format(steps="steps = torch.arange(200).type_as(like)"),
    "gaps of times in float64": _GAPS.format(times="times = stamps.astype(np.float64)"),
    "times counted from the first one": _GAPS.format(times="times = (stamps - stamps[0]).astype(np.float32)"),
    "points from their mean": _CLOUD.format(points="points = torch.tensor(cloud - cloud.mean(0), dtype=torch.float32)"),
    "counts of classes in float32": _COUNTS.format(dtype="float32"),
    "few votes in bytes": _VOTES.format(turns=200),
}
