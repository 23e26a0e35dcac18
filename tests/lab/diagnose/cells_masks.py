"""Masks of an attention: missing, the wrong way round, added; beside those that are as they should be."""

from __future__ import annotations

from .planted_more import Planted

_GPT = """
class Tiny(nn.Module):
    def __init__(self, V=11, d=16):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.pos = nn.Embedding(16, d)
        layer = nn.TransformerEncoderLayer(d, 2, 32, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(d, V)
    def forward(self, ids):
        h = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        return self.head(self.blocks(h{mask}))

torch.manual_seed(0)
tokens = torch.randint(0, 11, (40, 13))
net = Tiny()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(6):
    logits = net(tokens[:, {inputs}])
    loss = F.cross_entropy(logits.reshape(-1, 11), tokens[:, {targets}].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_CAUSAL = ", mask=torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool()"
_NEXT = {"inputs": ":-1", "targets": "1:"}

_BY_HAND = """
class Head(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
    def forward(self, h, keep):
        scores = self.q(h) @ self.k(h).transpose(1, 2) / 4.0
        {apply}
        return scores.softmax(-1) @ self.v(h)

torch.manual_seed(0)
seqs = torch.randn(24, 10, 16)
lengths = torch.randint(3, 10, (24,))
keep = (torch.arange(10)[None] < lengths[:, None]).float()
head, out = Head(), nn.Linear(16, 2)
opt = torch.optim.Adam([*head.parameters(), *out.parameters()], lr=1e-3)
target = torch.randint(0, 2, (24,))
for step in range(6):
    h = head(seqs, keep)
    loss = F.cross_entropy(out(h.mean(1)), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

_PADDED = """
class Clf(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.emb = nn.Embedding(30, d, padding_idx=0)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.fc = nn.Linear(d, 2)
    def forward(self, ids):
        h = self.emb(ids)
        a, _ = self.attn(h, h, h, key_padding_mask={mask})
        return self.fc(self.norm(h + a).mean(1))

torch.manual_seed(0)
ids = torch.randint(1, 30, (32, 9))
lengths = torch.randint(4, 10, (32,))
ids = ids * (torch.arange(9)[None] < lengths[:, None])
target = torch.randint(0, 2, (32,))
clf = Clf()
opt = torch.optim.Adam(clf.parameters(), lr=1e-3)
for step in range(6):
    loss = F.cross_entropy(clf(ids), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

_TRIANGLE = """
qkv, out = nn.Linear(16, 48), nn.Linear(16, 16)
opt = torch.optim.SGD([*qkv.parameters(), *out.parameters()], lr=0.01)
keep = torch.tril(torch.ones(8, 8)).bool()
for k in range(4):
    h = x.reshape(8, 8, 16)
    q, key, v = qkv(h).chunk(3, -1)
    scores = (q @ key.transpose(1, 2) / 4).masked_fill({hidden}, -1e9)
    loss = F.mse_loss(out(scores.softmax(-1) @ v)[:, :-1], h[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_PARTS = """
net, score, head = nn.Linear(16, 8), nn.Linear(8, 1), nn.Linear(8, 4)
opt = torch.optim.SGD([*net.parameters(), *score.parameters(), *head.parameters()], lr=0.1)
for k in range(4):
    h = net(x).reshape(-1, {parts}, 8)
    w = F.softmax(score(h), dim=1)
    loss = F.cross_entropy(head((w * h).sum(1)), labels[: len(h)])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_PLAYED = """
legal = torch.rand(64, 6) < 0.6
best = legal.float().argmax(1)
legal[torch.arange(64), best] = True
best[40:] = -1
legal[40:] = {padded}
mask = torch.zeros(64, 6).masked_fill(~legal, {hidden})
net = nn.Linear(16, 6)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    scores = net(x) + mask
    loss = F.cross_entropy(scores, best, ignore_index=-1)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

PLANTED = {
    "the lower triangle of the scores filled": Planted("mask", (7,), _TRIANGLE.format(hidden="keep")),
    "weights of the one part there is": Planted("loss", (5,), _PARTS.format(parts=1)),
    "samples of which a mask hides every class": Planted(
        "nan", (10,), _PLAYED.format(padded="False", hidden="float('-inf')")
    ),
    "a language model without a causal mask": Planted("mask", (11,), _GPT.format(mask="", **_NEXT)),
    "targets that nobody has shifted": Planted("loss", (19,), _GPT.format(mask=_CAUSAL, inputs=":-1", targets=":-1")),
    "a lower triangle for a layer that ignores what is True": Planted(
        "mask", (11,), _GPT.format(mask=", mask=torch.tril(torch.ones(ids.shape[1], ids.shape[1])).bool()", **_NEXT)
    ),
    "a padding mask the wrong way round": Planted("mask", (10,), _PADDED.format(mask="ids != 0")),
    "a padding mask by lengths, the wrong way round": Planted(
        "mask", (10,), _PADDED.format(mask="torch.arange(9)[None] < (ids != 0).sum(1)[:, None]")
    ),
    "a mask that is multiplied with the scores": Planted(
        "mask", (7,), _BY_HAND.format(apply="scores = scores * keep[:, None, :]")
    ),
    "a mask that is added to the scores": Planted(
        "mask", (7,), _BY_HAND.format(apply="scores = scores + keep[:, None, :]")
    ),
}

HEALTHY = {
    "the upper triangle of the scores filled": _TRIANGLE.format(hidden="~keep"),
    "weights of four parts": _PARTS.format(parts=4),
    "samples that are left out and not hidden": _PLAYED.format(padded="True", hidden="float('-inf')"),
    "samples of which a mask hides every class by a finite number": _PLAYED.format(padded="False", hidden="-1e9"),
    "a language model with a causal mask": _GPT.format(mask=_CAUSAL, **_NEXT),
    "an encoder that labels each token": _GPT.format(mask="", inputs=":-1", targets=":-1").replace(
        "tokens[:, :-1].reshape", "(tokens[:, :-1] // 2).reshape"
    ),
    "a padding mask as it should be": _PADDED.format(mask="ids == 0"),
    "a padding mask turned round on the line": _PADDED.format(mask="~(ids != 0)"),
    "a mask that fills the scores": _BY_HAND.format(
        apply="scores = scores.masked_fill(keep[:, None, :] == 0, float('-inf'))"
    ),
    "a mask made of -inf that is added": _BY_HAND.format(apply="scores = scores + (1.0 - keep[:, None, :]) * -1e9"),
    "a translation model, whose encoder sees all": """
torch.manual_seed(0)
V, d = 13, 16
src, tgt = torch.randint(0, V, (30, 8)), torch.randint(0, V, (30, 9))
emb = nn.ModuleList([nn.Embedding(V, d), nn.Embedding(V, d)])
net = nn.Transformer(d, 2, 1, 1, 32, dropout=0.0, batch_first=True)
head = nn.Linear(d, V)
opt = torch.optim.Adam([*emb.parameters(), *net.parameters(), *head.parameters()], lr=1e-3)
for step in range(6):
    mask = torch.ones(8, 8).triu(1).bool()
    out = net(emb[0](src), emb[1](tgt[:, :-1]), tgt_mask=mask)
    loss = F.cross_entropy(head(out).reshape(-1, V), tgt[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
}
