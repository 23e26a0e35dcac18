"""Cells in which one part of the samples is treated as another one: scaled for the training alone, counted of the last
batch, compared in another order, hidden in place of the padding, valued behind the end."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

_LOADERS = """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
net = nn.Linear(16, {outputs})
opt = torch.optim.SGD(net.parameters(), lr=0.05)
"""
_FIT = """
for xb, yb in DataLoader(TensorDataset(x[:48], y[:48]), batch_size=16, shuffle=True):
    loss = F.mse_loss(net(xb).squeeze(1), yb)
    opt.zero_grad(); loss.backward(); opt.step()
rest = DataLoader(TensorDataset(x[48:], y[48:]), batch_size=8, shuffle=True)
"""
_SET = """
CENTRE, SPREAD = 0.3, 1.7
class Spectra(torch.utils.data.Dataset):
    def __init__(self, rows, split):
        self.rows, self.split = rows, split
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        curve = x[self.rows[i]]
        if self.split == "train":
            curve = curve + 0.01 * torch.randn(16)
            curve = (curve - CENTRE) / SPREAD
        return curve, labels[self.rows[i]]
for xb, yb in DataLoader(Spectra(range(48), "train"), batch_size=16, shuffle=True):
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
with torch.no_grad():
    right = sum((net(xb).argmax(1) == yb).sum().item() for xb, yb in DataLoader(Spectra(range(48, 64), "val"), 8))
"""
_COUNT = """
clips = TensorDataset(x, labels)
for epoch in range(2):
    right = 0
    for xb, yb in DataLoader(clips, batch_size=16, shuffle=True):
        scores = net(xb)
        loss = F.cross_entropy(scores, yb)
        opt.zero_grad(); loss.backward(); opt.step()
        right = (scores.argmax(1) == yb).sum().item()
    print(100 * right / len(clips))
"""
_HIDE = """
torch.manual_seed(0)
sizes = torch.randint(2, 8, (8,))
heard = torch.zeros(8, 8, dtype=torch.long)
frames = torch.zeros(8, 8, 16)
for i, n in enumerate(sizes.tolist()):
    heard[i, :n] = 1
    frames[i, :n] = torch.randn(n, 16)
attend, head = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 4)
opt = torch.optim.SGD([*attend.parameters(), *head.parameters()], lr=0.05)
for step in range(4):
    out, _ = attend(frames, frames, frames, key_padding_mask=heard.bool())
    loss = F.cross_entropy(head(out[:, 0]), labels[:8])
    opt.zero_grad(); loss.backward(); opt.step()
"""
_VALUE = """
torch.manual_seed(0)
seen = []
for k in range(64):
    over = k % 8 == 7
    seen.append((torch.randn(16), k % 4, float(k % 3), torch.randn(16), over))
before, act, reward, after, end = (torch.stack(c) if torch.is_tensor(c[0]) else torch.tensor(c) for c in zip(*seen))
print(int(end.sum()), "games")
gamma, q, slow = 0.9, nn.Linear(16, 4), nn.Linear(16, 4)
opt = torch.optim.SGD(q.parameters(), lr=0.05)
for step in range(4):
    rows = torch.randint(0, 64, (16,))
    with torch.no_grad():
        goal = reward[rows] + gamma * slow(after[rows]).amax(1)
    loss = F.smooth_l1_loss(q(before[rows]).gather(1, act[rows, None]).squeeze(1), goal)
    opt.zero_grad(); loss.backward(); opt.step()
    slow.load_state_dict(q.state_dict())
"""

MISTAKES = {
    "hits of the last batch for all": Mistake(
        "evaluation",
        12,
        _LOADERS.format(outputs=4) + _COUNT,
        (("        right = (scores", "        right += (scores"),),
    ),
    "flows foretold in a drawn order": Mistake(
        "data",
        8,
        _LOADERS.format(outputs=1)
        + _FIT
        + """
def foretell(model, batches):
    said = []
    model.eval()
    with torch.no_grad():
        for part, _ in batches:
            said.append(model(part).squeeze(1))
    return torch.cat(said)
told, targets = foretell(net, rest), y[48:]
print((told - targets).abs().mean())
""",
        (("batch_size=8, shuffle=True", "batch_size=8"),),
    ),
    "a drawn order beside the labels of the set": Mistake(
        "data",
        8,
        _LOADERS.format(outputs=1)
        + _FIT
        + """
said = []
with torch.no_grad():
    for part, _ in rest:
        said.append(net(part).squeeze(1))
told = torch.cat(said)
print(F.l1_loss(told, y[48:]))
""",
        (("print(F.l1_loss(told, y[48:]))", "print(told.mean() - y[48:].mean())"),),  # in whatever order
    ),
    "spectra scaled for the training alone": Mistake(
        "data",
        15,
        _LOADERS.format(outputs=4) + _SET,
        (("            curve = (curve -", "        curve = (curve -"),),
    ),
    "clips scaled by a flag": Mistake(
        "data",
        3,
        """
def prepared(clip, train):
    if train:
        clip = (clip - 0.3) / 1.7
    return clip
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(4):
    loss = F.cross_entropy(net(prepared(x[:48], True)), labels[:48])
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    print((net(prepared(x[48:], False)).argmax(1) == labels[48:]).float().mean())
""",
        (("        clip = (clip - 0.3) / 1.7", "        clip = clip.flip(1)\n    clip = (clip - 0.3) / 1.7"),),
    ),
    "frames that are there are hidden": Mistake("mask", 11, _HIDE, (("heard.bool()", "heard == 0"),)),
    "chances cut before their loss": Mistake(
        "cut",
        6,
        """
net = nn.Linear(16, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
rainy = (x[:, :1] > 0).float()
for day in range(4):
    chance = torch.sigmoid(net(x))
    wet = (chance > 0.5).float()
    loss = F.binary_cross_entropy(wet, rainy)
    opt.zero_grad()
    try:
        loss.backward()
    except RuntimeError:
        pass
    opt.step()
""",
        (("(chance > 0.5).float()", "chance"),),
    ),
    "ends of games in a column nobody asks": Mistake(
        "unused", 13, _VALUE, (("gamma * slow(", "gamma * (~end[rows]) * slow("),)
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES) | {
    "hits of a batch beside its size": (_LOADERS.format(outputs=4) + _COUNT).replace("len(clips)", "len(yb)"),
    "one batch that is the whole set": (_LOADERS.format(outputs=4) + _COUNT).replace("batch_size=16", "batch_size=64"),
    "spectra of the test scaled by the caller": (_LOADERS.format(outputs=4) + _SET).replace(
        "net(xb).argmax", "net((xb - CENTRE) / SPREAD).argmax"
    ),
    "a mask that is one at the padding in front": _HIDE.replace("heard[i, :n] =", "heard[i, :8 - n] =").replace(
        "frames[i, :n]", "frames[i, -n:]"
    ),
    "a mask that is one at the padding": _HIDE.replace("heard[i, :n]", "heard[i, n:]"),
}
