"""Mistakes of logic about the samples that a model sees, in what order, and by which it is judged."""

from __future__ import annotations

from .planted_more import Planted

_LOADERS = """
import copy
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(x, labels)
train_set, val_set = torch.utils.data.random_split(data, [48, 16])
train_loader = torch.utils.data.DataLoader(train_set, batch_size=16, shuffle=True)
val_loader = torch.utils.data.DataLoader(val_set, batch_size=16)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
{before}
for epoch in range(3):
    train_loss = val_loss = 0.0
    for xb, yb in train_loader:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        train_loss += loss.item()
    with torch.no_grad():
        for xb, yb in {judged}:
            val_loss += F.cross_entropy(net(xb), yb).item()
    print(train_loss / len(train_loader), val_loss / len({over}))
{after}
"""


def _loaders(judged: str = "val_loader", over: str = "val_loader", before: str = "", after: str = "") -> str:
    return _LOADERS.format(judged=judged, over=over, before=before, after=after)


_SPLIT = """
class Digits(torch.utils.data.Dataset):
    def __init__(self, augment):
        self.augment = augment
    def __len__(self):
        return 64
    def __getitem__(self, k):
        return (x[k] + 0.1 * torch.randn(16) if self.augment else x[k]), labels[k]
torch.manual_seed(0)
{made}
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for xb, yb in torch.utils.data.DataLoader(train_set, batch_size=16, shuffle=True):
    loss = F.cross_entropy(net(xb), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(sum((net(xb).argmax(1) == yb).sum().item() for xb, yb in torch.utils.data.DataLoader(val_set, batch_size=16)))
"""
_BOTH = "data = Digits(augment=True)\ntrain_set, val_set = torch.utils.data.random_split(data, [48, 16])"
_OWN = "train_set, val_set = Digits(augment=True), Digits(augment={drawn})"
_WINDOWS = """
torch.manual_seed(0)
series, L = torch.sin(torch.arange(80.0) / 5), 16
windows = torch.stack([series[i : i + L] for i in range(len(series) - L)])
pairs = torch.utils.data.TensorDataset(windows, series[L:])
{split}
net = nn.Linear(16, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for xb, yb in torch.utils.data.DataLoader(train_set, batch_size=16):
    loss = F.mse_loss(net(xb).squeeze(1), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    print(F.mse_loss(net(torch.stack([a for a, _ in test_set])).squeeze(1), torch.stack([b for _, b in test_set])))
"""
_NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}
    def forward(self, x, lengths=None):
        {forward}
torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    loss = F.cross_entropy(net(x{shaped}{more}), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def _net(layers: str, forward: str, shaped: str = ".view(64, 4, 4)", more: str = "") -> str:
    return _NET.format(layers=layers, forward=forward.replace("\n", "\n        "), shaped=shaped, more=more)


_RNN = "self.rnn, self.fc = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 4)"
_LENGTHS = ", torch.randint(1, 5, (64,))"
_ENCODER = (
    "self.layer, self.fc = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), nn.Linear(4, 4)\n"
    "        self.register_buffer('pe', torch.randn(100, 4).unsqueeze(1))"
)
_AFTER = "    if {test}:\n        best_loss = {figure}\n        best = copy.deepcopy(net.state_dict())"
_TRAIN = """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
{before}
for step in range(4):
    {loss}
    opt.zero_grad()
    {back}
    {between}
    opt.step()
{after}
"""


def _train(
    loss: str = "loss = F.cross_entropy(net(x), labels)",
    before: str = "",
    back: str = "loss.backward()",
    between: str = "pass",
    after: str = "",
) -> str:
    return _TRAIN.format(loss=loss, before=before, back=back, between=between, after=after)


PLANTED = {
    "a validation over the training part": Planted(
        "evaluation", (19,), _loaders(judged="train_loader", over="train_loader")
    ),
    "a mean by another loader's length": Planted("evaluation", (21,), _loaders(over="train_loader")),
    "steps on the validation part": Planted(
        "evaluation",
        (22,),
        _loaders(
            after="for xb, yb in val_loader:\n    loss = F.cross_entropy(net(xb), yb)\n    opt.zero_grad()\n"
            "    loss.backward()\n    opt.step()"
        ),
    ),
    "the weights of the least training loss": Planted(
        "evaluation",
        (22,),
        _loaders(
            before="best_loss = float('inf')", after=_AFTER.format(test="train_loss < best_loss", figure="train_loss")
        ),
    ),
    "the weights of the best test figure": Planted(
        "evaluation",
        (22,),
        _loaders(
            before="best_loss = float('inf')", after=_AFTER.format(test="test_loss < best_loss", figure="test_loss")
        ).replace("val_loss", "test_loss"),
    ),
    "the weights of the largest loss": Planted(
        "evaluation",
        (22,),
        _loaders(before="best_loss = 0.0", after=_AFTER.format(test="val_loss > best_loss", figure="val_loss")),
    ),
    "a patience that is never set back": Planted(
        "evaluation",
        (26,),
        _loaders(
            before="best_loss, wait = float('inf'), 0",
            after=_AFTER.format(test="val_loss < best_loss", figure="val_loss")
            + "\n    else:\n        wait += 1\n        if wait > 5:\n            break",
        ),
    ),
    "a loss that sums over epochs": Planted(
        "evaluation",
        (18,),
        _loaders(before="train_loss = 0.0")
        .replace("    train_loss = val_loss = 0.0\n", "    val_loss = 0.0\n")
        .replace("    with torch", "    shown = train_loss / len(train_loader)\n    with torch")
        .replace("train_loss / len(train_loader), ", ""),
    ),
    "an augmented set that is split": Planted("evaluation", (10,), _SPLIT.format(made=_BOTH)),
    "an augmented validation set": Planted("evaluation", (9,), _SPLIT.format(made=_OWN.format(drawn="True"))),
    "windows dealt out": Planted(
        "evaluation",
        (5,),
        _WINDOWS.format(split="train_set, test_set = torch.utils.data.random_split(pairs, [48, 16])"),
    ),
    "the last step of padded sequences": Planted(
        "layout", (7,), _net(_RNN, "out, _ = self.rnn(x)\nreturn self.fc(out[:, -1])", more=_LENGTHS)
    ),
    "a batch where time should be": Planted(
        "layout", (6,), _net(_RNN, "out, _ = self.rnn(x.permute(1, 0, 2))\nreturn self.fc(out[-1])")
    ),
    "positions by the samples": Planted(
        "layout", (7,), _net(_ENCODER, "return self.fc(self.layer(x + self.pe[: x.size(0)]).mean(1))")
    ),
    "one position for all tokens": Planted(
        "layout", (7,), _net(_ENCODER, "return self.fc(self.layer(x + self.pe[x.size(1)]).mean(1))")
    ),
    "a residual of itself": Planted(
        "unused",
        (7,),
        _net(
            "self.fc, self.out = nn.Linear(16, 16), nn.Linear(16, 4)",
            "h = self.fc(x).relu()\nreturn self.out(h + h)",
            shaped="",
        ),
    ),
    "a mask after the softmax": Planted(
        "layout",
        (7,),
        _net(
            "self.fc = nn.Linear(4, 4)",
            "w = (x @ x.transpose(1, 2)).softmax(-1)\nw = w.masked_fill(torch.ones(4, 4).triu(1).bool(), -1e9)\n"
            "return self.fc((w.clamp(min=0.0) @ x).mean(1))",
        ),
    ),
    "images that are scaled twice": Planted(
        "data",
        (7,),
        "pixels = (x.abs() * 80) / 255\n"
        + _net("self.fc = nn.Linear(16, 4)", "return self.fc(x / 255)", shaped="")
        .lstrip("\n")
        .replace("net(x)", "net(pixels)"),
    ),
    "a loss of the output with itself": Planted(
        "loss",
        (7,),
        _train("out = net(x)\n    loss = F.mse_loss(out.softmax(1), out.detach().softmax(1)) + 0.0 * out.sum()"),
    ),
    "one place for the whole batch": Planted(
        "evaluation", (11,), _train(after="print((net(x).argmax() == labels).float().mean())")
    ),
    "weights of classes by their counts": Planted(
        "loss",
        (4,),
        _train("loss = F.cross_entropy(net(x), labels, weight=w)", before="w = torch.bincount(labels) / len(labels)"),
    ),
    "gradients clipped with their scale": Planted(
        "optimizer",
        (9,),
        _train(
            before="scaler = torch.amp.GradScaler('cpu')",
            back="scaler.scale(loss).backward()",
            between="nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
        ).replace("    opt.step()", "    scaler.step(opt)\n    scaler.update()"),
    ),
}
HEALTHY = {
    "a training and its validation": _loaders(
        before="best_loss, wait = float('inf'), 0",
        after=_AFTER.format(test="val_loss < best_loss", figure="val_loss")
        + "\n        wait = 0\n    else:\n        wait += 1\n        if wait > 5:\n            break",
    ),
    "a plain validation set": _SPLIT.format(made=_OWN.format(drawn="False")),
    "windows cut by time": _WINDOWS.format(
        split="train_set, test_set = (torch.utils.data.Subset(pairs, part) for part in (range(40), range(56, 64)))"
    ),
    "each sequence's last step": _net(
        _RNN, "out, _ = self.rnn(x)\nreturn self.fc(out[torch.arange(len(x)), lengths - 1])", more=_LENGTHS
    ),
    "positions by the tokens": _net(
        _ENCODER, "return self.fc(self.layer(x + self.pe[: x.size(1)].squeeze(1)).mean(1))"
    ),
    "weights of classes by the inverse": _train(
        "loss = F.cross_entropy(net(x), labels, weight=w)", before="w = len(labels) / torch.bincount(labels)"
    ),
}
