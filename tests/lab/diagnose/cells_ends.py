"""Last batches that are smaller, padding that a loss counts, weights too coarse for their steps, and work whose result
nobody takes; and what comes close."""

from __future__ import annotations

from .planted_more import Planted

_STATE = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 8, batch_first=True)
        self.out = nn.Linear(8, 4)
    def forward(self, seq, state):
        out, _ = self.rnn(seq, state)
        return self.out(out[:, -1])
torch.manual_seed(0)
net = Reader()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(x.view(64, 4, 4), labels)
loader = torch.utils.data.DataLoader(data, batch_size=24)
for seq, target in loader:
    state = (torch.zeros(1, {many}, 8), torch.zeros(1, {many}, 8))
    loss = F.cross_entropy(net(seq, state), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_TOKENS = """
PAD = 0
torch.manual_seed(0)
ids = torch.randint(1, 9, (32, 20))
ids[:, 8:] = PAD
embed, rnn, out = nn.Embedding(9, 8, padding_idx=PAD), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 9)
opt = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *out.parameters()], lr=1e-2)
criterion = nn.CrossEntropyLoss({ignored})
for step in range(6):
    states, _ = rnn(embed(ids[:, :-1]))
    loss = criterion(out(states).transpose(1, 2), ids[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_COARSE = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(torch.{dtype})
opt = torch.optim.AdamW(net.parameters(), lr={lr}, weight_decay=0.0)
for step in range(6):
    loss = F.cross_entropy(net(x.to(torch.{dtype})).float(), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_VALIDATED = """
torch.manual_seed(0)
big = torch.randn(4000, 16)
net = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
def judge():
    with torch.no_grad():
        return net(big).std().item()
for epoch in range(3):
    for k in range(0, 64, 4):
        loss = F.cross_entropy(net(x[k : k + 4]), labels[k : k + 4])
        opt.zero_grad()
        loss.backward()
        opt.step()
        spread = judge(){inside}
    print(spread)
"""
_FILLED = """
torch.manual_seed(0)
texts = [torch.randint(1, 50, (6 + k % 5,)).tolist() for k in range(64)]
longest = {longest}
embed, rnn, out = nn.Embedding(50, 32, padding_idx=0), nn.GRU(32, 64, batch_first=True), nn.Linear(64, 4)
opt = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *out.parameters()], lr=1e-3)
for k in [*range(0, 64, 8)] * 4:
    part = texts[k : k + 8]
    ids = torch.tensor([t + [0] * (longest - len(t)) for t in part])
    states, _ = rnn(embed(ids))
    picked = states[torch.arange(8), torch.tensor([len(t) - 1 for t in part])]
    loss = F.cross_entropy(out(picked), labels[k : k + 8])
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_FROZEN = """
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()).eval()
head = nn.Linear(512, 4)
{freeze}
opt = torch.optim.SGD(head.parameters(), lr=0.01)
for step in range(60):
    features = body(x + 0.1 * torch.randn_like(x))
    loss = F.cross_entropy(head(features), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

_LOADED = """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=16)
for epoch in range(2):
    total = 0.0
    for k, (xb, yb) in enumerate(loader):
        loss = F.cross_entropy(net(xb), yb){divided}
        loss.backward()
        if (k + 1) % {every} == 0:
            opt.step()
            opt.zero_grad()
        total += loss.item()
    print(total / len(loader{of}))
"""

_PARTS = """
data = torch.utils.data.TensorDataset(x, labels)
some = torch.utils.data.SubsetRandomSampler(torch.randperm(64)[:48].tolist())
loader = torch.utils.data.DataLoader(data, batch_size=16, sampler=some)
model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    total = 0.0
    for batch, target in loader:
        loss = F.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(target)
    print(epoch, total / len({by}))
"""
_SLEEPS = """
body = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU())
net = nn.Sequential(body, nn.Linear(8, 4))
for p in body.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
for step in range(8):
    net.train()
    {still}
    loss = F.cross_entropy(net(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLANTED = {
    "a state for more samples than the last batch has": Planted("error", (13,), _STATE.format(many=24)),
    "padding that the loss counts": Planted("evaluation", (7,), _TOKENS.format(ignored="")),
    "steps too small for bfloat16": Planted("dtype", (2,), _COARSE.format(dtype="bfloat16", lr="2e-5")),
    "a validation after each batch": Planted("slow", (14,), _VALIDATED.format(inside="")),
    "sequences filled up to one length": Planted("slow", (8,), _FILLED.format(longest=400)),
    "means that are added up for a step": Planted("learning-rate", (9,), _LOADED.format(divided="", every=2, of="")),
    "a sum of means divided by samples": Planted(
        "evaluation", (14,), _LOADED.format(divided="", every=1, of=".dataset")
    ),
    "a sum over a part, divided by the whole set": Planted("evaluation", (14,), _PARTS.format(by="loader.dataset")),
    "a frozen part whose averages move": Planted("mode", (7,), _SLEEPS.format(still="pass")),
    "a sleeping part that gets gradients": Planted("optimizer", (7,), _FROZEN.format(freeze="")),
}

HEALTHY = {
    "a state for as many samples as there are": _STATE.format(many="len(seq)"),
    "padding that the loss leaves out": _TOKENS.format(ignored="ignore_index=PAD"),
    "steps of float32 weights": _COARSE.format(dtype="float32", lr="2e-5"),
    "sequences filled up for a batch": _FILLED.format(longest="max(map(len, texts))"),
    "means that are divided and added up": _LOADED.format(divided=" / 2", every=2, of=""),
    "a sum of means divided by batches": _LOADED.format(divided="", every=1, of=""),
    "a sum over a part, divided by the part": _PARTS.format(by="some"),
    "a frozen part whose averages are still": _SLEEPS.format(still="body.eval()"),
    "a second network that stays as it was": """
ours = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8))
theirs = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8)).requires_grad_(False)
optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
for step in range(8):
    loss = F.mse_loss(ours(x + 0.1 * torch.randn(64, 16)), theirs(x).detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "targets of which some were not measured": """
import numpy as np
there = np.arange(256).reshape(64, 4) % 3
target = torch.tensor(np.where(there == 0, np.nan, there - 1.0).astype("float32"))
net = nn.Linear(16, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for some in torch.randperm(48).split(8):
    wanted = target[:48][some]
    measured = wanted == wanted
    loss = F.binary_cross_entropy_with_logits(net(x[:48][some])[measured], wanted[measured])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a sleeping part that is frozen": _FROZEN.format(freeze="body.requires_grad_(False)"),
}
