"""After the seventh blind set: a mask that keeps the future, a variance taken for a spread, evaluation in the midst of
an epoch, means divided by samples; beside what comes close."""

from __future__ import annotations

from .planted_more import Planted

_ATTENDS = """
class Attention(nn.Module):
    def __init__(self, d=16, most=12):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        mask = torch.triu(torch.ones(most, most), diagonal=1)
        self.register_buffer("blocked", mask.bool())
    def forward(self, h):
        T = h.shape[1]
        q, k, v = self.qkv(h).split(16, 2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask={mask})

torch.manual_seed(0)
tokens = torch.randint(0, 9, (20, 11))
tok, att, head = nn.Embedding(9, 16), Attention(), nn.Linear(16, 9)
opt = torch.optim.Adam([*tok.parameters(), *att.parameters(), *head.parameters()], lr=1e-3)
for step in range(6):
    logits = head(att(tok(tokens[:, :-1])))
    loss = F.cross_entropy(logits.reshape(-1, 9), tokens[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_NORM = """
class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d))
    def forward(self, h):
        mean = h.mean(-1, keepdim=True)
        variance = {variance}
        spread = {spread}
        return self.gain * (h - mean) / spread

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), Norm(32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_VARIANCE = {"variance": "((h - mean) ** 2).mean(-1, keepdim=True)"}
_JUDGED = """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
torch.manual_seed(0)
train = DataLoader(TensorDataset(x, labels), batch_size=8)
far = torch.randn(4000, 16)
test = DataLoader(TensorDataset(far, (far[:, 0] > 0).long()), batch_size=500)
net = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(3):
    for k, (a, b) in enumerate(train):
        loss = F.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if k % {every} == 0:
            net.eval()
            right = 0
            with torch.no_grad():
                for c, d in test:
                    right += (net(c).argmax(1) == d).sum().item()
            net.train()
            print(right / 4000)
"""
_HITS = """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
torch.manual_seed(0)
loader = DataLoader(TensorDataset(x, labels), batch_size=8)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
history = [0.0] * 6
for epoch in range(6):
    for a, b in loader:
        out = net(a)
        loss = F.cross_entropy(out, b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        hits = (out.argmax(1) == b).float()
        history[epoch] += {adds}.item()
    history[epoch] /= len(loader.dataset)
print(history)
"""
_SOFTMAX = """
torch.manual_seed(0)
pixels = torch.randint(0, 256, (64, 16)).float()
W = (0.01 * torch.randn(16, 4)).requires_grad_()
def probabilities(z):
    {top}
    e = torch.exp(z)
    return e / e.sum(1, keepdim=True)
for step in range(40):
    p = probabilities(pixels @ W)
    loss = -torch.log(p[torch.arange(64), labels]).sum()
    loss.backward()
    with torch.no_grad():
        W -= 0.002 * W.grad / 8
        W.grad.zero_()
"""

_BY_HAND = """
class Head(nn.Module):
    def __init__(self, d=16, most=12):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.register_buffer("seen", torch.{triangle}(torch.ones(most, most)))
    def forward(self, h):
        T = h.shape[1]
        scores = self.q(h) @ self.k(h).transpose(-2, -1) / 4.0
        scores = scores.masked_fill(self.seen[:T, :T] == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ self.v(h)

torch.manual_seed(0)
tokens = torch.randint(0, 9, (20, 11))
tok, att, head = nn.Embedding(9, 16), Head(), nn.Linear(16, 9)
opt = torch.optim.Adam([*tok.parameters(), *att.parameters(), *head.parameters()], lr=1e-3)
for step in range(6):
    logits = head(att(tok(tokens[:, :-1])))
    loss = F.cross_entropy(logits.reshape(-1, 9), tokens[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

PLANTED = {
    "a triangle by hand that keeps the future": Planted("mask", (9, 10), _BY_HAND.format(triangle="triu")),
    "a boolean mask that keeps the future": Planted("mask", (10,), _ATTENDS.format(mask="self.blocked[:T, :T]")),
    "the square of a variance for a spread": Planted(
        "scale", (8,), _NORM.format(spread="(variance + 1e-5) ** 2", **_VARIANCE)
    ),
    "a variance for a spread": Planted("scale", (9,), _NORM.format(spread="variance + 1e-5", **_VARIANCE)),
    "an evaluation after every other batch": Planted("slow", (14, 18), _JUDGED.format(every=2)),  # 18: the loader
    "means of hits divided by samples": Planted("evaluation", (16,), _HITS.format(adds="hits.mean()")),
    "a softmax by hand of raw pixels": Planted("nan", (6,), _SOFTMAX.format(top="pass")),
}

HEALTHY = {
    "weights that are averaged at the end": """
swa = torch.optim.swa_utils
torch.manual_seed(0)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=8)
net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
mean = swa.AveragedModel(net)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=4)
later = swa.SWALR(opt, swa_lr=0.1, anneal_epochs=2)
for epoch in range(10):
    net.train()
    for a, b in loader:
        loss = F.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch >= 4:
        mean.update_parameters(net)
        later.step()
    else:
        cosine.step()
swa.update_bn(loader, mean)
mean.eval()
with torch.no_grad():
    print((mean(x).argmax(1) == labels).float().mean().item())
""",
    "a triangle by hand that keeps the past": _BY_HAND.format(triangle="tril"),
    "a boolean mask that keeps the past": _ATTENDS.format(mask="~self.blocked[:T, :T]"),
    "the root of a variance": _NORM.format(spread="(variance + 1e-5) ** 0.5", **_VARIANCE),
    "a spread that is one": _NORM.format(variance="h.var(-1, keepdim=True)", spread="(variance + 1e-5).sqrt()"),
    "an evaluation at the end of each epoch": _JUDGED.format(every=2).replace(
        "        if k % 2 == 0:", "        if k == len(train) - 1:"
    ),
    "sums of hits divided by samples": _HITS.format(adds="hits.sum()"),
    "a softmax by hand that is told the maximum": _SOFTMAX.format(
        top="z = (z - z.max(1, keepdim=True).values).clamp(min=-50)"
    ).replace("0.002", "0.00002"),
}
