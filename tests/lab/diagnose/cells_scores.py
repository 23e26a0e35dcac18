"""Cells whose scores, ratios, shares or noise are not what the loss takes them for."""

from __future__ import annotations

from .cells_turned import _steps
from .planted_more import Planted

_ATTEND = (
    "wq, wk, wv = nn.Linear(16, {width}), nn.Linear(16, {width}), nn.Linear(16, 16)\n"
    "opt = torch.optim.SGD([*wq.parameters(), *wk.parameters(), *wv.parameters()], lr=0.01)\n"
    "def attend(h):\n"
    "    n = h.shape[1]\n"
    "    s = wq(h) @ wk(h).transpose(-2, -1){scaled}\n"
    "    {weights}\n"
    "    return w @ wv(h)"
)


def _attention(weights: str, width: int = 16, scaled: str = " / 4", times: str = "") -> str:
    return _steps(
        f"h = x.reshape(8, 8, 16){times}; loss = F.mse_loss(attend(h), h)",
        _ATTEND.format(weights=weights, width=width, scaled=scaled),
    )


_POLICY = (
    "with torch.no_grad():\n    old_logp = F.log_softmax(net(x), 1).gather(1, labels[:, None])[:, 0]\n"
    "adv = y - y.mean()\n"
    "def surrogate(new_logp):\n    {ratio}\n    return -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()"
)


def _policy(ratio: str) -> str:
    return _steps(
        "loss = surrogate(F.log_softmax(net(x), 1).gather(1, labels[:, None])[:, 0])", _POLICY.format(ratio=ratio)
    )


PLANTED: dict[str, Planted] = {
    "uniform noise for a latent": Planted(
        "loss",
        (8,),
        _steps(
            "mu, logvar = net(x).chunk(2, 1); loss = F.mse_loss(dec(drawn(mu, logvar)), x) + 0.01 * (mu ** 2).mean()",
            "dec = nn.Linear(2, 16)\nopt = torch.optim.SGD([*net.parameters(), *dec.parameters()], lr=0.01)\n"
            "def drawn(mu, logvar):\n    std = torch.exp(0.5 * logvar)\n    return mu + std * torch.rand_like(std)",
        ),
    ),
    "codes that pass no gradient": Planted(
        "no-gradient",
        (8,),
        _steps(
            "loss = quantised(net(x))",
            "book, dec = nn.Embedding(8, 4), nn.Linear(4, 16)\n"
            "opt = torch.optim.SGD([*net.parameters(), *book.parameters(), *dec.parameters()], lr=0.01)\n"
            "def quantised(z):\n    q = book(torch.cdist(z, book.weight).argmin(1))\n    out = dec(q)\n"
            "    return F.mse_loss(out, x) + F.mse_loss(q, z.detach()) + F.mse_loss(z, q.detach())",
        ),
    ),
    "scores masked with zero": Planted(
        "mask", (9,), _attention("w = s.masked_fill(torch.ones(n, n).triu(1).bool(), 0.0).softmax(-1)")
    ),
    "weights cut after the softmax": Planted(
        "mask", (9,), _attention("w = s.softmax(-1) * torch.tril(torch.ones(n, n))")
    ),
    "scores that are not scaled": Planted(
        "gradient", (8,), _attention("w = s.softmax(-1)", width=256, scaled="", times=" * 8")
    ),
    "a ratio of logarithms": Planted("loss", (8,), _policy("ratio = new_logp / old_logp")),
    "a ratio that is always one": Planted(
        "loss",
        (8,),
        _steps(
            "for i in range(2):\n        logp = F.log_softmax(net(x), 1).gather(1, labels[:, None])[:, 0]\n"
            "        old = logp.detach(); ratio = torch.exp(logp - old)\n"
            "        loss = -torch.min(ratio * y, ratio.clamp(0.8, 1.2) * y).mean()",
        ),
    ),
    "a likelihood that falls": Planted(
        "loss",
        (6,),
        _steps(
            "d = torch.distributions.Normal(net(x)[:, 0], 1.0); loss = d.log_prob(y).mean()",
        ),
    ),
    "an average of the last batch": Planted(
        "mode",
        (4,),
        _steps(
            "loss = F.cross_entropy(net(x), labels)",
            "net = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8, momentum=0.99), nn.Linear(8, 4))\n"
            "opt = torch.optim.SGD(net.parameters(), lr=0.01)",
        ),
    ),
    "a share to keep that is dropped": Planted(
        "mode",
        (5,),
        _steps(
            "loss = F.cross_entropy(net(x), labels)",
            "keep_prob = 0.9\nnet = nn.Sequential(nn.Linear(16, 64), nn.Dropout(keep_prob), nn.Linear(64, 4))\n"
            "opt = torch.optim.SGD(net.parameters(), lr=0.01)",
        ),
    ),
    "cosines times a temperature": Planted(
        "loss",
        (5,),
        _steps(
            "loss = F.cross_entropy(contrast(net(x), net(x + 0.1 * torch.randn_like(x))), torch.arange(64))",
            "def contrast(a, b):\n    return F.normalize(a, dim=1) @ F.normalize(b, dim=1).T * 0.07",
        ),
    ),
    "cosines as they are": Planted(
        "loss",
        (5,),
        _steps(
            "loss = F.cross_entropy(by_angle(net(x)), labels)",
            "w = nn.Parameter(torch.randn(4, 4)); opt.add_param_group({'params': [w]})\n"
            "def by_angle(h): return F.linear(h / h.norm(dim=1, keepdim=True), F.normalize(w))",
        ),
    ),
    "labels that do not share a softmax": Planted(
        "loss",
        (6,),
        _steps("loss = F.cross_entropy(net(x), several)", "several = (x[:, :4] > 0).float()"),
    ),
    "a penalty that is subtracted": Planted(
        "loss",
        (6,),
        _steps("loss = F.cross_entropy(net(x), labels) - 1e-3 * sum(p.pow(2).sum() for p in net.parameters())"),
    ),
    "rare ones that count less": Planted(
        "loss",
        (5,),
        _steps(
            "loss = F.binary_cross_entropy_with_logits(net(x)[:, 0], rare, pos_weight=weight)",
            "rare = (labels == 0).float(); rare_labels = rare\nweight = rare_labels.mean()",
        ),
    ),
    "a gradient clipped to nothing": Planted(
        "learning-rate",
        (8,),
        _steps("loss = F.cross_entropy(net(x), labels)").replace(
            "loss.backward(); opt", "loss.backward()\n    nn.utils.clip_grad_norm_(net.parameters(), 1e-4); opt"
        ),
    ),
    "a warm-up longer than the training": Planted(
        "learning-rate",
        (4,),
        _steps(
            "loss = F.cross_entropy(net(x), labels)",
            "plan = torch.optim.lr_scheduler.OneCycleLR(opt, 0.05, total_steps=1000)",
        )
        .replace("range(3)", "range(40)")
        .replace("opt.step()\n", "opt.step(); plan.step()\n"),
    ),
    "a dropout that an evaluation keeps": Planted(
        "mode",
        (8,),
        _steps(
            "loss = F.cross_entropy(net(x), labels)",
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__(); self.a = nn.Linear(16, 4)\n"
            "    def forward(self, x):\n        return self.a(F.dropout(x, 0.5))\n"
            "net = Net(); opt = torch.optim.SGD(net.parameters(), lr=0.01)",
            "net.eval()\nwith torch.no_grad():\n    print((net(x).argmax(1) == labels).float().mean())",
        ),
    ),
    "the last sample for the last step": Planted(
        "layout",
        (7,),
        _steps(
            "loss = F.cross_entropy(net(last(x.reshape(8, 8, 16))), labels[:8])",
            "rnn = nn.GRU(16, 16, batch_first=True); opt.add_param_group({'params': rnn.parameters()})\n"
            "def last(h):\n    out, _ = rnn(h)\n    return out[-1]",
        ),
    ),
    "a divergence by another spread": Planted(
        "loss",
        (4,),
        _steps(
            "mu, logstd = net(x).chunk(2, 1); loss = divergence(mu, logstd) + (mu ** 2).mean()",
            "def divergence(mu, logstd): return -0.5 * (1 + 2 * logstd - mu ** 2 - torch.exp(logstd)).mean()",
        ),
    ),
    "a list that is stored and emptied": Planted(
        "alias",
        (8,),
        _steps(
            "loss = F.cross_entropy(net(x), labels); path.append(float(loss)); kept.append(path); path.clear()",
            "kept = []\npath = []\n",
        ),
    ),
    "frozen layers that go on moving": Planted(
        "optimizer",
        (5,),
        _steps(
            "loss = F.cross_entropy(net(x), labels)",
            "opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)\n"
            "for p in net[0].parameters(): p.requires_grad = False",
        ).replace("zero_grad()", "zero_grad(set_to_none=False)"),
    ),
    "weights that were to be tied": Planted(
        "alias",
        (7,),
        _steps(
            "loss = F.mse_loss(net(x), x)",
            "class Tied(nn.Module):\n    def __init__(self):\n        super().__init__(); self.enc = nn.Linear(16, "
            "4); self.dec = nn.Linear(4, 16)\n        self.dec.weight = nn.Parameter(self.enc.weight.t().clone())\n"
            "    def forward(self, x): return self.dec(self.enc(x))\n"
            "net = Tied(); opt = torch.optim.SGD(net.parameters(), lr=0.01)",
        ),
    ),
    "a variance for a scale": Planted(
        "loss",
        (4,),
        _steps(
            "loss = -density(net(x)[:, 0], net(x)[:, 1].exp()).log_prob(y).mean()",
            "def density(mu, var): return torch.distributions.Normal(mu, var)",
        ),
    ),
    "predicted noise for drawn noise": Planted(
        "loss",
        (6,),
        _steps(
            "loss = F.mse_loss(net(x), x[:, :4])",
            "def step(model, x):\n    eps = model(x)\n"
            "    mean = x[:, :4] - 0.1 * eps; var = torch.tensor(0.5); return mean + var.sqrt() * eps",
            "with torch.no_grad(): step(net, x)",
        ),
    ),
    "weights merged twice": Planted(
        "alias",
        (6,),
        _steps(
            "loss = F.cross_entropy(net(x), labels)",
            "class Add:\n    def merge(self):\n        net[0].weight += 0.1\n        self.merged = True",
            "with torch.no_grad(): Add().merge()",
        ),
    ),
    "a picture without its boxes": Planted(
        "data",
        (6,),
        _steps(
            "image, boxes = augment(x.reshape(-1, 4, 4), x[:, :4]); loss = F.mse_loss(net(image.flatten(1)), boxes)",
            "def augment(image, boxes):\n    if torch.rand(()) < 2:\n        image = image.flip(-1)\n"
            "    return image, boxes",
        ),
    ),
    "a scaler fitted on the test part": Planted(
        "evaluation",
        (8,),
        _steps(
            "loss = F.cross_entropy(net(a[0]), labels[:40])",
            "class Scaler:\n    def fit_transform(self, x):\n        return (x - x.mean(0)) / x.std(0)\n"
            "sc = Scaler(); x_train, x_test = x[:40], x[40:]\n"
            "a, b = [sc.fit_transform(x_train)], [sc.fit_transform(x_test)]",
            "print((net(b[0]).argmax(1) == labels[40:]).sum())",
        ),
    ),
    "targets shifted twice": Planted(
        "loss",
        (6,),
        """
torch.manual_seed(0)
ids = (torch.arange(12)[None] + torch.randint(0, 20, (16, 1))) % 20
emb, out = nn.Embedding(20, 16), nn.Linear(16, 20)
opt = torch.optim.SGD([*emb.parameters(), *out.parameters()], lr=0.1)
def lm_loss(logits, labels):
    return F.cross_entropy(logits[:, :-1].reshape(-1, 20), labels[:, 1:].reshape(-1))
for k in range(3):
    inputs, labels = ids[:, :-1], ids[:, 1:]
    h = emb(inputs)
    loss = lm_loss(out(h), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "distances far from zero": Planted(
        "dtype",
        (4,),
        _steps(
            "p = 1500 + net(x); loss = (-squares(p, p) / 4).exp().mean()",
            "def squares(a, b): return (a ** 2).sum(1, keepdim=True) + (b ** 2).sum(1) - 2 * a @ b.T",
        ),
    ),
    "distances of many points far from zero": Planted(
        "dtype",
        (4,),
        """
stations = 6e4 + 400 * torch.rand(300, 2)
places, weather = 6e4 + 400 * torch.rand(400, 2), torch.rand(300)
aa, bb = places.pow(2).sum(1, keepdim=True), stations.pow(2).sum(1)
d2 = (aa + bb - 2 * places @ stations.T).clamp(min=0)
near, at = d2.topk(3, dim=1, largest=False)
est = (weather[at] / (near + 1e-3)).sum(1) / (1 / (near + 1e-3)).sum(1)
""",
    ),
    "numbers of accounts in float32": Planted(
        "dtype",
        (4,),
        _steps(
            "loss = F.cross_entropy(net(x), labels)",
            "table = torch.arange(64.0)[:, None] + 83_400_000 * torch.ones(64, 2); who = table[:, 0].long()",
        ),
    ),
}
