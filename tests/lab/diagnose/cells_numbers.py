"""Numbers that lose their digits, and columns against rows; beside what comes close."""

from __future__ import annotations

from .planted_more import Planted

_SCALED = """
torch.manual_seed(0)
pressure = 101325 + 4.0 * torch.randn(400, 2)
mean = pressure.mean(0)
var = {var}
z = (pressure - mean) / var.clamp(min=1e-6).sqrt()
print(z.std().item())
"""
_BINS = """
torch.manual_seed(0)
counts = torch.stack([20 + torch.randn(64), {channel}], 1)
total, squares = torch.zeros(2), torch.zeros(2)
for part in counts.split(16):
    total += part.sum(0)
    squares += part.pow(2).sum(0)
mean = total / 64
spread = (squares / 64 - mean * mean).clamp(min=0).sqrt()
net = nn.Linear(2, 3)
print(net((counts - mean) / (spread + 1e-6)).shape)
"""
_TIMES = """
torch.manual_seed(0)
first = {first}
stamp = (first + torch.rand(50, 20, dtype=torch.float64).cumsum(1) * 20).to({dtype})
gaps = stamp[:, 1:] - stamp[:, :-1]
print(gaps.float().mean().item())
"""
_SUM = """
total = torch.zeros((), dtype={dtype})
seen = 0
for k in range(600):
    total += {what}
    seen += 1
print(total.item() / seen)
"""
_ACTOR = """
torch.manual_seed(0)
policy, value = nn.Linear(16, 4), nn.Linear(16, 1)
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-3)
for step in range(6):
    v = {value}
    logp = F.log_softmax(policy(x), 1)[torch.arange(64), labels]
    advantage = y - v.detach()
    loss = -(advantage * logp).mean() + F.mse_loss({value}.reshape(64), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_RIGHT = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
wanted = (y > 0).float()
for step in range(6):
    loss = F.binary_cross_entropy_with_logits(net(x).squeeze(1), wanted)
    opt.zero_grad()
    loss.backward()
    opt.step()
net.eval()
with torch.no_grad():
    right = ((net(x){squeeze} > 0) == (y > 0)).float().mean().item()
print(right)
"""
_FRAMES = """
torch.manual_seed(0)
frames = torch.randint(0, 256, (6, 8, 8)).to(torch.uint8)
apart = ({pair}).abs().float()
print(apart.mean().item())
"""

PLANTED = {
    "a difference of bytes": Planted("dtype", (3,), _FRAMES.format(pair="frames[1:] - frames[:-1]")),
    "a sum of bytes": Planted("dtype", (3,), _FRAMES.format(pair="frames[1:] + frames[:-1]")),
    "a variance as a difference of squares": Planted(
        "dtype", (4,), _SCALED.format(var="(pressure ** 2).mean(0) - mean ** 2")
    ),
    "a spread of which nothing is left": Planted(
        "dtype", (8,), _BINS.format(channel="2.0 ** 17 + torch.arange(64) % 2")
    ),
    "Unix seconds in float32": Planted("dtype", (4,), _TIMES.format(first="1_700_000_000", dtype="torch.float32")),
    "a sum in bfloat16 that stands still": Planted(
        "dtype", (4,), _SUM.format(dtype="torch.bfloat16", what="torch.ones((), dtype=torch.bfloat16)")
    ),
    "a count in float16 that stands still": Planted(
        "dtype", (4,), _SUM.format(dtype="torch.float16", what="16.0").replace("range(600)", "range(4000)")
    ),
    "an advantage of every sample with every other": Planted("broadcast", (7,), _ACTOR.format(value="value(x)")),
    "an accuracy of every sample with every other": Planted("broadcast", (12,), _RIGHT.format(squeeze="")),
}

HEALTHY = {
    "a melody that comes again, after a softer beginning": """
torch.manual_seed(0)
song = torch.randperm(59).repeat(3)[None].repeat(8, 1)
emb, out = nn.Embedding(59, 16), nn.Linear(16, 59)
opt = torch.optim.SGD([*emb.parameters(), *out.parameters()], lr=0.1)
for k in range(10):
    heard, follows = song[:, 10 * k : 10 * k + 10], song[:, 10 * k + 1 : 10 * k + 11]
    scores = out(emb(heard)).flatten(0, 1)
    if k < 6:
        loss = F.cross_entropy(scores, follows.flatten(), label_smoothing=0.1)
    else:
        loss = F.cross_entropy(scores, follows.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a difference of bytes as numbers": _FRAMES.format(pair="frames[1:].float() - frames[:-1].float()"),
    "a variance of what is left": _SCALED.format(var="((pressure - mean) ** 2).mean(0)"),
    "a variance as a difference of squares about zero": _SCALED.format(
        var="(pressure ** 2).mean(0) - mean ** 2"
    ).replace("101325 + 4.0", "0.5 + 4.0"),
    "a spread of a channel that never changes": _BINS.format(channel="torch.full((64,), 2.0 ** 17)"),
    "Unix seconds in float64": _TIMES.format(first="1_700_000_000", dtype="torch.float64"),
    "seconds of a day in float32": _TIMES.format(first="3_600", dtype="torch.float32"),
    "a sum in float32": _SUM.format(dtype="torch.float32", what="torch.ones((), dtype=torch.float32)"),
    "an advantage of its own sample": _ACTOR.format(value="value(x).squeeze(1)"),
    "an accuracy of its own sample": _RIGHT.format(squeeze=".squeeze(1)"),
    "an iteration that comes to rest": """
torch.manual_seed(0)
a = torch.randn(20, 20)
a = a @ a.T / 20 + torch.eye(20)
b, v = torch.randn(20) * 1e6, torch.zeros(20)
for k in range(200):
    new = v + 0.1 * (b - a @ v)
    if (new - v).abs().max() < 1e-2:
        break
    v = new
print(k)
""",
    "distances of all pairs of scores": """
torch.manual_seed(0)
net = nn.Linear(16, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(6):
    s = net(x)
    apart = s - s.T
    wanted = torch.sign(y[:, None] - y[None, :])
    loss = F.softplus(-wanted * apart).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
}
