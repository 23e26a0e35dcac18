"""Embeddings in pairs, and graphs: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "clip without norms": Mistake(
        "loss",
        6,
        """
torch.manual_seed(0)
img_enc, txt_enc = nn.Linear(16, 64), nn.Linear(16, 64)
opt = torch.optim.Adam([*img_enc.parameters(), *txt_enc.parameters()], lr=1e-3)
for it in range(4):
    a, b = img_enc(5 * x), txt_enc(5 * x + torch.randn_like(x))
    logits = a @ b.t() / 0.07
    target = torch.arange(64)
    loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            (
                "a, b = img_enc(5 * x), txt_enc(5 * x + torch.randn_like(x))",
                "a, b = F.normalize(img_enc(5 * x), dim=1), F.normalize(txt_enc(5 * x + torch.randn_like(x)), dim=1)",
            ),
        ),
    ),
    "normalised along the batch": Mistake(
        "layout",
        5,
        """
torch.manual_seed(0)
enc = nn.Linear(16, 8)
opt = torch.optim.Adam(enc.parameters(), lr=1e-3)
for it in range(4):
    z1 = F.normalize(enc(x + 0.1 * torch.randn_like(x)), dim=0)
    z2 = F.normalize(enc(x + 0.1 * torch.randn_like(x)), dim=0)
    loss = F.cross_entropy(z1 @ z2.T / 0.1, torch.arange(64))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("dim=0", "dim=1"),),
    ),
    "the easiest negative": Mistake(
        "loss",
        8,
        """
torch.manual_seed(0)
enc = nn.Linear(16, 8)
opt = torch.optim.Adam(enc.parameters(), lr=1e-3)
def batch_hard(emb, lab, margin=0.3):
    dist = torch.cdist(emb, emb)
    same = lab[:, None] == lab[None, :]
    pos = (dist * same.float()).max(1).values
    neg = dist.masked_fill(same, 0.0).max(1).values
    return F.relu(pos - neg + margin).mean()
for it in range(4):
    loss = batch_hard(enc(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("dist.masked_fill(same, 0.0).max(1)", "dist.masked_fill(same, 1e9).min(1)"),),
    ),
    "friends pushed apart": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
net = nn.Linear(16, 8)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
class ContrastiveLoss(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin
    def forward(self, e1, e2, same):
        d = F.pairwise_distance(e1, e2)
        return ((1 - same) * d.pow(2) + same * F.relu(self.margin - d).pow(2)).mean()
crit = ContrastiveLoss()
for it in range(4):
    perm = torch.randperm(64)
    loss = crit(net(x), net(x[perm]), (labels == labels[perm]).float())
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("(1 - same) * d.pow(2) + same * F", "same * d.pow(2) + (1 - same) * F"),),
    ),
    "no stop of the gradient": Mistake(
        "loss",
        9,
        """
torch.manual_seed(0)
encoder, predictor = nn.Linear(16, 8), nn.Linear(8, 8)
opt = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.05)
def D(p, z):
    return -F.cosine_similarity(p, z, dim=1).mean()
for it in range(4):
    z1, z2 = encoder(x + 0.1 * torch.randn_like(x)), encoder(x + 0.1 * torch.randn_like(x))
    p1, p2 = predictor(z1), predictor(z2)
    loss = 0.5 * D(p1, z2) + 0.5 * D(p2, z1)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("F.cosine_similarity(p, z, dim=1)", "F.cosine_similarity(p, z.detach(), dim=1)"),),
    ),
    "similarity made smaller": Mistake(
        "loss",
        9,
        """
torch.manual_seed(0)
online, target = nn.Linear(16, 8), nn.Linear(16, 8)
pred = nn.Linear(8, 8)
opt = torch.optim.Adam([*online.parameters(), *pred.parameters()], lr=1e-3)
for it in range(4):
    p = pred(online(x))
    with torch.no_grad():
        z = target(x + 0.1 * torch.randn_like(x))
    loss = F.cosine_similarity(p, z, dim=-1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    for t, o in zip(target.parameters(), online.parameters()):
        t.data.mul_(0.99).add_(0.01 * o.data)
""",
        (("loss = F.cos", "loss = 1 - F.cos"),),
    ),
    "zeros for minus ones": Mistake(
        "loss",
        8,
        """
torch.manual_seed(0)
net = nn.Linear(16, 8)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
crit = nn.CosineEmbeddingLoss(margin=0.2)
for it in range(4):
    other = torch.randperm(64)
    target = (labels == labels[other]).float()
    loss = crit(net(x), net(x[other]), target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("(labels == labels[other]).float()", "2 * (labels == labels[other]).float() - 1"),),
    ),
    "ranks of zeros": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
rank = nn.Linear(16, 1)
opt = torch.optim.Adam(rank.parameters(), lr=1e-3)
for it in range(4):
    i, j = torch.randint(0, 64, (2, 32))
    better = (y[i] > y[j]).float()
    loss = F.margin_ranking_loss(rank(x[i]).squeeze(1), rank(x[j]).squeeze(1), better, margin=0.1)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("(y[i] > y[j]).float()", "torch.sign(y[i] - y[j])"),),
    ),
    "degree without loops": Mistake(
        "loss",
        5,
        """
torch.manual_seed(0)
A = (torch.rand(64, 64) < 0.1).float()
A = ((A + A.t()) > 0).float().fill_diagonal_(0)
A[0, 1] = A[1, 0] = 1
deg = A.sum(1)
A_hat = A + torch.eye(64)
d_inv_sqrt = deg.clamp(min=1).pow(-0.5)
adj = d_inv_sqrt[:, None] * A_hat * d_inv_sqrt[None, :]
w1, w2 = nn.Linear(16, 32), nn.Linear(32, 4)
opt = torch.optim.Adam([*w1.parameters(), *w2.parameters()], lr=1e-2)
for it in range(4):
    out = adj @ w2(F.relu(adj @ w1(x)))
    loss = F.cross_entropy(out, labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("deg = A.sum(1)\nA_hat = A + torch.eye(64)", "A_hat = A + torch.eye(64)\ndeg = A_hat.sum(1)"),),
    ),
    "messages to oneself": Mistake(
        "loss",
        11,
        """
torch.manual_seed(0)
edge_index = torch.randint(0, 64, (2, 300))
class Conv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)
    def forward(self, h, edge_index):
        src, dst = edge_index
        msg = self.lin(h[src])
        out = torch.zeros(h.size(0), msg.size(1))
        return out.index_add(0, src, msg)
conv = Conv(16, 4)
opt = torch.optim.Adam(conv.parameters(), lr=1e-2)
for it in range(4):
    loss = F.cross_entropy(conv(x, edge_index), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("index_add(0, src", "index_add(0, dst"),),
    ),
    "degree of the other end": Mistake(
        "loss",
        8,
        """
torch.manual_seed(0)
row, col = torch.randint(0, 64, (2, 300))
lin = nn.Linear(16, 4)
opt = torch.optim.Adam(lin.parameters(), lr=1e-2)
deg = torch.zeros(64).index_add(0, row, torch.ones(300)).clamp(min=1)
for it in range(4):
    agg = torch.zeros(64, 16).index_add(0, col, x[row])
    h = agg / deg[:, None]
    loss = F.cross_entropy(lin(h), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("index_add(0, row, torch", "index_add(0, col, torch"),),
    ),
    "attention over all edges": Mistake(
        "layout",
        9,
        """
torch.manual_seed(0)
edge_index = torch.randint(0, 64, (2, 300))
W, a = nn.Linear(16, 4), nn.Linear(8, 1)
opt = torch.optim.Adam([*W.parameters(), *a.parameters()], lr=1e-2)
for it in range(4):
    h = W(x)
    src, dst = edge_index
    e = F.leaky_relu(a(torch.cat([h[src], h[dst]], 1)).squeeze(1))
    alpha = torch.softmax(e, dim=0)
    out = torch.zeros_like(h).index_add(0, dst, alpha[:, None] * h[src])
    loss = F.cross_entropy(out, labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            (
                "alpha = torch.softmax(e, dim=0)",
                "e = (e - e.max()).exp()\n    alpha = e / torch.zeros(64).index_add(0, dst, e)[dst]",
            ),
        ),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
