"""Noise, boxes, pictures and parts of a split that are not what the code around them takes them for."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

_DIFFUSION = """
torch.manual_seed(0)
steps = 50
betas = torch.linspace(1e-4, 0.05, steps)
kept = torch.cumprod(1 - betas, dim=0)
net = nn.Sequential(nn.Linear(17, 32), nn.SiLU(), nn.Linear(32, 16))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
def diffuse(x0, t, noise=None):
    if noise is None:
        noise = torch.rand_like(x0)
    share = kept[t].unsqueeze(1)
    return share ** 0.5 * x0 + (1 - share) ** 0.5 * noise, noise
for it in range(4):
    t = torch.randint(0, steps, (64,))
    noisy, noise = diffuse(x, t)
    loss = F.mse_loss(net(torch.cat([noisy, t[:, None] / steps], 1)), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_DECODER = """
torch.manual_seed(0)
enc, dec = nn.Linear(16, 6), nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 16))
critic = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
g_opt = torch.optim.Adam(dec.parameters(), lr=1e-3)
d_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for it in range(4):
    fake = dec(torch.randn(64, 3))
    d_loss = bce(critic(x), torch.ones(64, 1)) + bce(critic(fake.detach()), torch.zeros(64, 1))
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = bce(critic(dec(torch.randn(64, 3))), torch.ones(64, 1))
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
with torch.no_grad():
    shown = dec(torch.rand(9, 3))
"""
_BOXES = """
torch.manual_seed(0)
def overlap(a, b):
    lt, rb = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    areas = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1)
    return inter / (areas - inter + 1e-6)
def cxcywh_to_xyxy(b):
    return torch.cat([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], 1)
truth = torch.cat([torch.rand(64, 2) * 0.5 + 0.25, torch.rand(64, 2) * 0.2 + 0.1], 1)
net = nn.Sequential(nn.Linear(16, 4), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for it in range(6):
    out = net(x)
    loss = F.l1_loss(out, truth) + (1 - overlap(out, truth)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_PICTURES = """
torch.manual_seed(0)
count = 64
photos = (np.random.default_rng(0).random((count, 8, 8, 3)) * 255).astype(np.uint8)
pixels = torch.from_numpy(photos.reshape(count, 3, 8, 8)).float() / 255
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(3):
    loss = F.cross_entropy(net(pixels), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_NODES = """
torch.manual_seed(0)
order = torch.randperm(64)
train_mask, test_mask = torch.zeros(64, dtype=torch.bool), torch.zeros(64, dtype=torch.bool)
train_mask[order[:40]] = True
test_mask[order[40:]] = True
near = (torch.rand(64, 64) < 0.1).float() + torch.eye(64)
near = near / near.sum(1, keepdim=True)
net = nn.Linear(16, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(5):
    out = near @ net(x)
    loss = F.cross_entropy(out, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    right = (near @ net(x)).argmax(1) == labels
    guess = (near @ net(x)).argmax(1)
    print((guess[test_mask] == labels[test_mask]).float().mean())
"""

MISTAKES = {
    "uniform noise by a root": Mistake("loss", 9, _DIFFUSION, (("torch.rand_like", "torch.randn_like"),)),
    "shown from other noise": Mistake("loss", 18, _DECODER, (("torch.rand(9", "torch.randn(9"),)),
    "centres and sizes for corners": Mistake(
        "loss",
        14,
        _BOXES,
        (("overlap(out, truth)", "overlap(cxcywh_to_xyxy(out), cxcywh_to_xyxy(truth))"),),
    ),
    "pictures whose colours are reshaped": Mistake(
        "layout", 4, _PICTURES, (("photos.reshape(count, 3, 8, 8)", "photos.transpose(0, 3, 1, 2)"),)
    ),
    "a loss over the test nodes": Mistake(
        "evaluation",
        12,
        _NODES,
        (("F.cross_entropy(out, labels)", "F.cross_entropy(out[train_mask], labels[train_mask])"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES) | {
    "a loss over all nodes that leaves the others out": _NODES.replace(
        "F.cross_entropy(out, labels)",
        "(F.cross_entropy(out, labels, reduction='none') * train_mask).sum() / train_mask.sum()",
    ),
    "labels of other nodes are taken out": _NODES.replace(
        "loss = F.cross_entropy(out, labels)",
        "known = torch.where(train_mask, labels, -100)\n    loss = F.cross_entropy(out, known)",
    ),
    "features of all nodes are rebuilt": _NODES.replace("net = nn.Linear(16, 4)", "net = nn.Linear(16, 16)").replace(
        "F.cross_entropy(out, labels)", "F.cross_entropy(out[train_mask], labels[train_mask]) + F.mse_loss(out, x)"
    ),
    "a uniform draw between two ends": _DIFFUSION.replace("torch.rand_like(x0)", "torch.randn_like(x0)").replace(
        "    t = torch.randint", "    low = x.std() ** 0.5 * 2 + 0.1 * torch.rand(64, 1)\n    t = torch.randint"
    ),
    "widths of paths that go back": _BOXES.replace(
        "overlap(out, truth)", "overlap(cxcywh_to_xyxy(out), cxcywh_to_xyxy(truth))"
    )
    + "way = (truth[:, 2:] - truth[:, :2]).norm(dim=1).mean()\n",
    "flat rows of pictures": _PICTURES.replace("(count, 8, 8, 3)", "(count, 192)"),
}
