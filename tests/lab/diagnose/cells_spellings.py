"""Mistakes under names that say nothing, through functions, dictionaries and objects; and the same, mended."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted
from .planted_more import Planted

_NET = """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
"""
_STEP = "    opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()"
_LOADERS = """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
seen, rest = TensorDataset(x[:40], labels[:40]), TensorDataset(x[40:], labels[40:])
"""
_ALL = f"for a, b in [(x, labels)] * 6:\n{_STEP}\n"
_DIRECT = f"for k in range(6):\n    a, b = x, labels\n{_STEP}\n"

MISTAKES: dict[str, Mistake] = {
    "rest of an exam": Mistake(
        "evaluation", 4,
        f"""{_LOADERS}common = dict(batch_size=10, drop_last=True)
parts = {{"fit": DataLoader(seen, **common), "exam": DataLoader(rest, **common)}}{_NET}for a, b in parts["fit"]:
{_STEP}
net.eval()
right = 0
with torch.no_grad():
    for a, b in parts["exam"]:
        right += (net(a).argmax(1) == b).sum().item()
""",
        (('DataLoader(rest, **common)', 'DataLoader(rest, 12)'),),
    ),
    "a seed by name": Mistake(
        "loop", 5,
        f"""{_NET}def noisy(v):
    torch.manual_seed(SEED)
    return v + torch.randn_like(v)
SEED = 7
for k in range(6):
    a, b = noisy(x), labels
{_STEP}
""",
        (("    torch.manual_seed(SEED)\n", ""),),
    ),
    "a factor by its key": Mistake(
        "learning-rate", 4,
        f"""conf = {{"peak": 3e-3, "warm": 4}}
def rise(k):
    warm = min(1.0, (k + 1) / conf["warm"])
    return conf["peak"] * warm
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=conf["peak"])
plan = torch.optim.lr_scheduler.LambdaLR(opt, rise)
for k in range(6):
    a, b = x, labels
{_STEP}
    plan.step()
""",
        (('conf["peak"] * warm', "warm"),),
    ),
    "an average by another name": Mistake(
        "evaluation", 3,
        f"""import copy
class Smoothed:
    def __init__(self, src, rate=0.9999):
        self.net, self.rate = copy.deepcopy(src), rate
    @torch.no_grad()
    def update(self, src):
        for mine, theirs in zip(self.net.parameters(), src.parameters()):
            mine.lerp_(theirs, 1 - self.rate)
{_NET}smooth = Smoothed(net)
for k in range(20):
    a, b = x, labels
{_STEP}; smooth.update(net)
print((smooth.net(x).argmax(1) == labels).float().mean())
""",
        (("rate=0.9999", "rate=0.8"),),
    ),
    "swapped in for good": Mistake(
        "evaluation", 21,
        f"""class Shadow:
    def __init__(self, net):
        self.avg = [p.detach().clone() for p in net.parameters()]
    @torch.no_grad()
    def swap_in(self, net):
        self.raw = [p.detach().clone() for p in net.parameters()]
        for a, p in zip(self.avg, net.parameters()):
            p.copy_(a)
    @torch.no_grad()
    def swap_out(self, net):
        for r, p in zip(self.raw, net.parameters()):
            p.copy_(r)
{_NET}shadow = Shadow(net)
for k in range(6):
    a, b = x, labels
    opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()
    shadow.swap_in(net)
    with torch.no_grad():
        print(F.cross_entropy(net(x), labels).item())
""",
        (("print(F.cross_entropy(net(x), labels).item())", "print(net(x).mean().item())\n    shadow.swap_out(net)"),),
    ),
    "pairs that meet again": Mistake(
        "alias", 4,
        f"""def renumber(kinds, pairs):
    new = kinds
    for old, now in pairs:
        new[kinds == old] = now
    return new
labels = renumber(labels, [(0, 1), (1, 2), (2, 0)])
{_NET}{_DIRECT}""",
        (("new = kinds", "new = kinds.clone()"),),
    ),
    "anchors that move": Mistake(
        "alias", 4,
        """class Tuner:
    def __init__(self, net):
        self.net = net
        self.anchor = [p for p in net.parameters()]
        self.opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    def step(self):
        drift = sum((p - a).pow(2).sum() for p, a in zip(self.net.parameters(), self.anchor))
        loss = F.cross_entropy(self.net(x), labels) + 0.1 * drift
        self.opt.zero_grad(); loss.backward(); self.opt.step()
torch.manual_seed(0)
tuner = Tuner(nn.Linear(16, 4))
for k in range(6):
    tuner.step()
""",
        (("[p for p", "[p.detach().clone() for p"),),
    ),
    "one block four times": Mistake(
        "layer", 9,
        f"""torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self):
        super().__init__(); self.inner = nn.Linear(16, 16)
    def forward(self, v):
        return v + torch.tanh(self.inner(v))
class Deep(nn.Module):
    def __init__(self):
        super().__init__(); self.blocks = nn.ModuleList([Block()] * 3); self.out = nn.Linear(16, 4)
    def forward(self, v):
        for block in self.blocks:
            v = block(v)
        return self.out(v)
net = Deep()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
{_DIRECT}""",
        (("[Block()] * 3", "[Block() for _ in range(3)]"),),
    ),
    "right by eq": Mistake(
        "evaluation", 7,
        f"""{_NET}{_DIRECT}top, _ = torch.max(net(x), dim=1)
print(torch.eq(top, labels).float().mean().item())
""".lstrip("\n"),
        (("top, _", "_, top"),),
    ),
    "folds by their numbers": Mistake(
        "evaluation", 15,
        f"""{_NET}parts = torch.arange(60).chunk(3)
def train(rows):
    for k in range(4):
        a, b = x[rows], labels[rows]
        opt.zero_grad(); F.cross_entropy(net(a), b).backward(); opt.step()
def right(rows):
    with torch.no_grad():
        return (net(x[rows]).argmax(1) == labels[rows]).float().mean().item()
figures = []
for k in range(3):
    rows = torch.cat([p for j, p in enumerate(parts) if j != k])
    train(rows)
    figures.append(right(parts[k]))
""",
        (("    train(rows)", "    net = nn.Linear(16, 4); opt = torch.optim.SGD(net.parameters())\n    train(rows)"),),
    ),
    "a count by its variable": Mistake(
        "evaluation", 16,
        f"""{_LOADERS}{_NET}more = DataLoader(seen, 10)
for a, b in more:
{_STEP}
def judge(given):
    right = 0
    with torch.no_grad():
        for a, b in given:
            right += (net(a).argmax(1) == b).sum().item()
    many = len(given)
    return right / many
print(judge(DataLoader(rest, 8)))
""",
        (("len(given)", "len(given.dataset)"),),
    ),
    "a keeper from nothing": Mistake(
        "evaluation", 7,
        f"""import copy
class Keeper:
    def __init__(self):
        self.lowest, self.state = 0.0, None
        self.lowest = 0.0
    def offer(self, value, net):
        if value < self.lowest:
            self.lowest = value
            self.state = copy.deepcopy(net.state_dict())
{_NET}keeper = Keeper()
for k in range(6):
    a, b = x, labels
{_STEP}
    keeper.offer(F.cross_entropy(net(x), labels).item(), net)
""",
        (("0.0", 'float("inf")'),),
    ),
    "all columns": Mistake(
        "evaluation", 3,
        """table = {"age": x[:, 0], "school": x[:, 1], "wage": x[:, 0] + x[:, 1]}
goal = "wage"
matrix = torch.stack([table[c] for c in table], 1)
answer = table[goal]
torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for k in range(6):
    opt.zero_grad(); F.mse_loss(net(matrix).squeeze(1), answer).backward(); opt.step()
""",
        (("for c in table]", "for c in table if c != goal]"), ("Linear(3", "Linear(2")),
    ),
    "only one in order": Mistake(
        "data", 4,
        f"""TensorDataset = torch.utils.data.TensorDataset
def prepare(pictures, kinds):
    order = torch.randperm(len(pictures))
    pictures = pictures[order]
    return TensorDataset(pictures[:40], kinds[:40]), TensorDataset(pictures[40:], kinds[40:])
torch.manual_seed(0)
seen, rest = prepare(x, labels)
{_NET}for a, b in [seen[:]] * 6:
{_STEP}
""",
        (("    return TensorDataset", "    kinds = kinds[order]\n    return TensorDataset"),),
    ),
    "an end that is cast": Mistake(
        "unused", 13,
        """torch.manual_seed(0)
net, late = nn.Linear(4, 2), nn.Linear(4, 2)
late.load_state_dict(net.state_dict())
opt = torch.optim.SGD(net.parameters(), lr=0.01)
replay = [(torch.randn(4), k % 2, 1.0, torch.randn(4), k % 5 == 0) for k in range(40)]
gamma = 0.9
for k in range(20):
    s, a, r, s2, done = zip(*replay[k : k + 8])
    s, s2, a, r = torch.stack(s), torch.stack(s2), torch.tensor(a), torch.tensor(r)
    done = torch.tensor(done)
    with torch.no_grad():
        ahead = late(s2).max(1)[0]
        goal = r + gamma * ahead
    q = net(s).gather(1, a[:, None])[:, 0]
    opt.zero_grad(); F.mse_loss(q, goal).backward(); opt.step()
    if k % 5 == 4:
        late.load_state_dict(net.state_dict())
""",
        (("gamma * ahead", "gamma * ahead * (~done)"),),
    ),
    "a key that nobody reads": Mistake(
        "unused", 1,
        f"""conf = {{"rate": 1e-2, "label_smoothing": 0.1}}
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.Adam(net.parameters(), lr=conf["rate"])
{_DIRECT}""",
        (("F.cross_entropy(net(a), b)", 'F.cross_entropy(net(a), b, label_smoothing=conf["label_smoothing"])'),),
    ),
}  # fmt: skip

PLANTED: dict[str, Planted] = planted(MISTAKES)
HEALTHY: dict[str, str] = mended(MISTAKES) | {
    "a generator for each sample": f"""class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        self.waves = x
    def __len__(self):
        return 64
    def __getitem__(self, i):
        draw = np.random.default_rng(i)
        return self.waves[i] + 0.1 * torch.tensor(draw.normal(size=16), dtype=torch.float32), labels[i]
{_NET}for a, b in torch.utils.data.DataLoader(Noisy(), 16):
{_STEP}
""",
    "a target network whose start may last": f"""import copy
{_NET}late = copy.deepcopy(net).requires_grad_(False)
def follow(keep=0.99):
    with torch.no_grad():
        for old, new in zip(late.parameters(), net.parameters()):
            old.lerp_(new, 1 - keep)
for k in range(10):
    loss = F.mse_loss(net(x), late(x.flip(0)))
    opt.zero_grad(); loss.backward(); opt.step(); follow()
""",
    "pairs that meet no other": f"""labels = labels.clone()
for old, now in [(0, 10), (1, 11), (2, 12), (3, 13)]:
    labels[labels == old] = now
labels = labels - 10
{_NET}{_DIRECT}""",
    "a head that is trained after": f"""import copy
class Old(nn.Module):
    def __init__(self):
        super().__init__(); self.body = nn.Linear(16, 8); self.old = nn.Linear(8, 4)
class New(nn.Module):
    def __init__(self):
        super().__init__(); self.body = nn.Linear(16, 8); self.top = nn.Linear(8, 4)
    def forward(self, v):
        return self.top(torch.relu(self.body(v)))
torch.manual_seed(0)
net = New()
net.load_state_dict(Old().state_dict(), strict=False)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
{_DIRECT}""",
    "a part that is left out in training": f"""{_LOADERS}{_NET}for a, b in DataLoader(seen, 12, drop_last=True):
{_STEP}
with torch.no_grad():
    print(sum((net(a).argmax(1) == b).sum().item() for a, b in DataLoader(rest, 10)) / len(rest))
""",
}
