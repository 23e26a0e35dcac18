"""Test samples that were seen, predictions that are read wrongly, draws that repeat; and what comes close."""

from __future__ import annotations

from .planted_more import Planted

_FIT = """
{before}
torch.manual_seed(0)
net = nn.Linear({width}, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    loss = F.cross_entropy(net({train}), {classes})
    opt.zero_grad()
    loss.backward()
    opt.step()
{after}
"""


def _fit(before: str = "z = x", train: str = "z[:48]", classes: str = "labels[:48]", test: str = "z[48:]",
         width: int = 16, after: str = "") -> str:  # fmt: skip
    judged = f"with torch.no_grad():\n    print((net({test}).argmax(1) == labels[:16]).float().mean().item())"
    return _FIT.format(before=before, train=train, classes=classes, width=width, after=after or judged)


_CHOSEN = """onehot = F.one_hot(labels, 4).float()
score = (x.T @ onehot).abs().sum(1){part}
best = score.topk(6).indices
z = x[:, best]
print(onehot[:48].shape, onehot[48:].shape, labels[48:].shape)"""
_SPLIT = """data = torch.utils.data.TensorDataset(x, labels)
train_part, test_part = torch.utils.data.random_split(data, [48, 16])
loader = torch.utils.data.DataLoader({loaded}, batch_size=16, shuffle=True)
z = x
print(len(train_part), len(test_part), len(loader))"""
_SORTED_SPLIT = """
classes, order = {order}
z_train, y_train, z_test, y_test = x[order][:48], classes[:48], x[order][48:], classes[48:]
classes_train, classes_test = classes[:48], classes[48:]
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    loss = F.cross_entropy(net(z_train), classes_train)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    print(F.cross_entropy(net(z_test), classes_test).item())
"""
_AUGMENTED = """
class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return len(labels)
    def __getitem__(self, i):
        sample = x[i]
        {seed}
        return sample * float(np.random.uniform(0.8, 1.2)), self.classes[i]
    classes = labels
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for xb, yb in torch.utils.data.DataLoader(Noisy(), batch_size=16, shuffle=True):
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_BINARY = """
torch.manual_seed(0)
net = nn.Linear(16, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
target = (x[:, :1] > 0).float()
for step in range(6):
    loss = F.binary_cross_entropy_with_logits(net(x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    right = ({judged} == target).float().mean()
print(right.item())
"""
_JUDGED = """net.eval()
right = 0
with torch.no_grad():
    for i in range(0, 64, 16):
        xb, yb = x[i : i + 16], labels[i : i + 16]
        {take}
        {inside}
{end}"""
_NOISE = """
torch.manual_seed(0)
net = nn.Linear(16, 16)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{function}
for step in range(6):
    {seed}
    noisy = x + 0.1 * {draw}
    loss = F.mse_loss(net(noisy), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_SORTED = """
order = labels.argsort()
data = torch.utils.data.TensorDataset(x[order].repeat_interleave(4, 0), labels[order].repeat_interleave(4))
loader = torch.utils.data.DataLoader(data, batch_size=8{shuffle})
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for xb, yb in loader:
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_COSINE = """
a, b = torch.randn(6, 32), torch.randn(5, 32)
print(F.cosine_similarity(a[:, None], b[None]{dim}).shape)
"""

PLANTED = {
    "classes that only the test part has": Planted(
        "evaluation", (2,), _SORTED_SPLIT.format(order="torch.arange(64) // 16, torch.arange(64)")
    ),
    "a seed by the number of the sample": Planted("loop", (6,), _AUGMENTED.format(seed="np.random.seed(i)")),
    "scaled before the split": Planted("evaluation", (1,), _fit("z = (x - x.mean(0)) / x.std(0)")),
    "test samples in a scale of their own": Planted(
        "evaluation",
        (3,),
        _fit(
            "x_train, x_test = x[:48], x[48:]\nx_train = (x_train - x_train.mean(0)) / x_train.std(0)\n"
            "x_test = (x_test - x_test.mean(0)) / x_test.std(0)",
            train="x_train",
            test="x_test",
        ),
    ),
    "parts that share samples": Planted(
        "evaluation", (2,), _fit("x_train = x[:48]\nx_test = x[40:]", train="x_train", test="x_test[:16]")
    ),
    "two permutations for one split": Planted(
        "evaluation",
        (2,),
        _fit(
            "first = torch.randperm(64)[:48]\nrest = torch.randperm(64)[48:]",
            train="x[first]",
            classes="labels[first]",
            test="x[rest]",
        ),
    ),
    "a loader of what was split": Planted("evaluation", (3,), _fit(_SPLIT.format(loaded="data"))),
    "columns that the test samples chose": Planted("evaluation", (4,), _fit(_CHOSEN.format(part=""), width=6)),
    "logits held against a half": Planted("evaluation", (11,), _BINARY.format(judged="(net(x) > 0.5).float()")),
    "scores compared with classes": Planted(
        "evaluation",
        (15,),
        _fit(
            after=_JUDGED.format(
                take="pred, _ = net(xb).max(1)", inside="right += (pred == yb).sum().item()", end="print(right)"
            )
        ),
    ),
    "the last batch alone": Planted(
        "evaluation",
        (17,),
        _fit(
            after=_JUDGED.format(
                take="pred = net(xb).argmax(1)", inside="pass", end="print((pred == yb).float().mean().item())"
            )
        ),
    ),
    "a seed in each step": Planted(
        "loop", (6,), _NOISE.format(function="", seed="torch.manual_seed(1)", draw="torch.randn_like(x)")
    ),
    "a seed in the function that draws": Planted(
        "loop",
        (5,),
        _NOISE.format(
            function="def noise():\n    torch.manual_seed(1)\n    return torch.randn(64, 16)",
            seed="pass",
            draw="noise()",
        ),
    ),
    "batches of one class": Planted("loop", (3,), _SORTED.format(shuffle="")),
    "a loss that gets batches of one class": Planted(
        "loop",
        (7,),
        """
order = labels.argsort()
xs, ys = x[order].repeat_interleave(4, 0), labels[order].repeat_interleave(4)
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(0, 256, 8):
    loss = F.cross_entropy(net(xs[i : i + 8]), ys[i : i + 8])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a similarity along the wrong dimension": Planted("layout", (2,), _COSINE.format(dim="")),
}

HEALTHY = {
    "scaled by the training part": _fit("z = (x - x[:48].mean(0)) / x[:48].std(0)"),
    "scaled along each sample": _fit("z = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)"),
    "test samples in the scale of the training part": _fit(
        "x_train, x_test = x[:48], x[48:]\nmean, std = x_train.mean(0), x_train.std(0)\n"
        "x_train = (x_train - mean) / std\nx_test = (x_test - mean) / std",
        train="x_train",
        test="x_test",
    ),
    "parts that share nothing": _fit("x_train = x[:48]\nx_test = x[48:]", train="x_train", test="x_test"),
    "one permutation for one split": _fit(
        "order = torch.randperm(64)\nfirst, rest = order[:48], order[48:]",
        train="x[first]",
        classes="labels[first]",
        test="x[rest]",
    ),
    "a loader of the training part": _fit(_SPLIT.format(loaded="train_part")),
    "columns that the training part chose": _fit(
        _CHOSEN.format(part="").replace("x.T @ onehot)", "x[:48].T @ onehot[:48])"), width=6
    ),
    "logits held against zero": _BINARY.format(judged="(net(x) > 0).float()"),
    "probabilities held against a half": _BINARY.format(judged="(torch.sigmoid(net(x)) > 0.5).float()"),
    "places compared with classes": _fit(
        after=_JUDGED.format(
            take="best, pred = net(xb).max(1)",
            inside="right += (pred == yb).sum().item()",
            end="print(right, best.mean().item())",
        )
    ),
    "all batches counted": _fit(
        after=_JUDGED.format(
            take="pred = net(xb).argmax(1)",
            inside="right += (pred == yb).sum().item()",
            end="print(right / len(labels))",
        )
    ),
    "a seed before the loop": _NOISE.format(function="torch.manual_seed(1)", seed="pass", draw="torch.randn_like(x)"),
    "a seed of its own in each step": _NOISE.format(
        function="", seed="torch.manual_seed(step)", draw="torch.randn_like(x)"
    ),
    "a seed in a loop that trains several models": """
for width in (8, 16):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(6):
        loss = F.cross_entropy(net(x + 0.1 * torch.randn_like(x)), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "classes of both parts": _SORTED_SPLIT.format(order="torch.arange(64) % 4, torch.arange(64)"),
    "samples that are changed in other ways each time": _AUGMENTED.format(seed="pass"),
    "batches of a shuffled set": _SORTED.format(shuffle=", shuffle=True"),
    "a similarity along the features": _COSINE.format(dim=", dim=-1"),
}
