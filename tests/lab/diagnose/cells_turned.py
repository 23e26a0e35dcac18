"""Cells in which one thing stands for another: a sign, an order, a number, or an object that two names share."""

from __future__ import annotations

from .planted_more import Planted

_STEPS = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, {out}))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
{before}
for k in range(3):
    {loss}
    opt.zero_grad(); loss.backward(); opt.step()
{after}
"""


def _steps(loss: str, before: str = "", after: str = "", out: int = 4) -> str:
    return _STEPS.format(loss=loss, before=before, after=after, out=out)


PLANTED: dict[str, Planted] = {
    "each sample among those it is told from": Planted(
        "loss",
        (7,),
        _steps(
            "loss = nt_xent(torch.cat([net(x), net(x + 0.1 * torch.randn_like(x))]))",
            "def nt_xent(z):\n    z = F.normalize(z, dim=1)\n    pair = torch.arange(128).roll(64)\n"
            "    sim = z @ z.T / 0.5\n    return F.cross_entropy(sim, pair)",
        ),
    ),
    "a weight decay that nothing reads": Planted(
        "unused", (4,), _steps("loss = F.cross_entropy(net(x), labels)", "weight_decay = 1e-4")
    ),
    "a penalty for a distance that is 0": Planted(
        "alias",
        (4,),
        _steps(
            "loss = F.cross_entropy(net(x), labels) + sum(((p - q) ** 2).sum() for p, q in "
            "zip(net.parameters(), start))",
            "start = list(net.parameters())",
        ),
    ),
    "transforms that both parts lose": Planted(
        "alias",
        (14,),
        """
class Set(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.transform = transform
    def __len__(self):
        return 64
    def __getitem__(self, k):
        return (x[k] if self.transform is None else self.transform(x[k])), labels[k]
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
full = Set(lambda v: v * 1.1)
train_set, val_set = torch.utils.data.random_split(full, [48, 16])
loader = torch.utils.data.DataLoader(train_set, batch_size=16, shuffle=True)
val_set.dataset.transform = None
for xb, yb in loader:
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
print(sum(int((net(xb).argmax(1) == yb).sum()) for xb, yb in torch.utils.data.DataLoader(val_set, batch_size=16)))
""",
    ),
    "a quantile that is turned": Planted(
        "loss",
        (6,),
        _steps(
            "loss = pinball(net(x).squeeze(1), y, 0.9)",
            "def pinball(pred, target, q):\n    e = pred - target\n    return torch.max((q - 1) * e, q * e).mean()",
            out=1,
        ),
    ),
    "risks of those before": Planted(
        "loss",
        (5,),
        _steps(
            "loss = cox(net(x).squeeze(1), y.abs(), (labels > 0).float())",
            "def cox(risk, time, event):\n    order = torch.argsort(time)\n"
            "    risk, event = risk[order], event[order]\n"
            "    return -((risk - torch.logcumsumexp(risk, 0)) * event).sum() / event.sum()",
            out=1,
        ),
    ),
    "an end that is padding": Planted(
        "loss",
        (7,),
        _steps(
            "loss = F.cross_entropy(net(x), wanted, ignore_index=-100)",
            "EOS = 1\nPAD = EOS\nwanted = labels.clone()\nwanted[wanted == PAD] = -100",
        ),
    ),
    "categories numbered for each table": Planted(
        "data",
        (6,),
        _steps(
            "loss = F.cross_entropy(table(codes(rows_train)), labels[:6])",
            "table = nn.Embedding(4, 4)\ndef codes(rows):\n"
            "    known = {v: i for i, v in enumerate(sorted(set(rows)))}\n"
            "    return torch.tensor([known[v] for v in rows])\n"
            "rows_train, rows_test = list('abcdab'), list('bcdbcd')\n"
            "opt = torch.optim.SGD(table.parameters(), lr=0.01)",
            "print(table(codes(rows_test)).argmax(1))",
        ),
    ),
    "positions in the pool for positions in the whole": Planted(
        "data",
        (11,),
        _steps(
            "loss = F.cross_entropy(net(x), labels)",
            "seen = labels == 0",
            "with torch.no_grad():\n    p = net(x[~seen]).softmax(1)\nquery = p.amax(1).topk(4).indices\n"
            "seen[query] = True",
        ),
    ),
}
