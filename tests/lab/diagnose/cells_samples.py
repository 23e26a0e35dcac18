"""Data sets that change what they store, turn images without their masks, or show the target; networks and gradients
that are not what they are called; and what comes close."""

from __future__ import annotations

from .planted_more import Planted

_DATA = """
class Set(torch.utils.data.Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels
    def __len__(self):
        return len(self.labels)
    {helper}
    def __getitem__(self, k):
        image, label = self.images[k], int(self.labels[k])
        {change}
        return {give}, label
torch.manual_seed(0)
loader = torch.utils.data.DataLoader(Set({images}, labels), batch_size=16)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(2):
    for xb, yb in loader:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


def _data(change: str = "pass", give: str = "image", helper: str = "", images: str = "x.clone()") -> str:
    return _DATA.format(change=change, give=give, helper=helper, images=images)


_CENTRE = "def centre(self, part):\n        part[:8] -= 0.5\n        return part"
_MASKS = """
import random
class Set(torch.utils.data.Dataset):
    def __init__(self):
        self.images, self.masks = torch.rand(8, 1, 6, 6), (torch.rand(8, 6, 6) > 0.5).float()
    def __len__(self):
        return 8
    def __getitem__(self, k):
        img, mask = self.images[k], self.masks[k]
        if random.random() < 0.5:
            img = img.flip(-1){mask}
        return img, mask
torch.manual_seed(0)
net = nn.Conv2d(1, 1, 3, padding=1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for img, mask in torch.utils.data.DataLoader(Set(), batch_size=4):
    loss = F.binary_cross_entropy_with_logits(net(img).squeeze(1), mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_SERIES = """
series = torch.sin(torch.arange(80.0) / 5)
def pair(i, w=16):
    return series[i : i + w], series[i + w{less}]
torch.manual_seed(0)
net = nn.Linear(16, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(0, 60, 4):
    pairs = [pair(i + k) for k in range(4)]
    xb, yb = torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])
    loss = F.mse_loss(net(xb).squeeze(1), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_SPIKE = """
class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()
    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        slope = 1 / (1 + v.abs()) ** 2
        return {slope}
torch.manual_seed(0)
first, last = nn.Linear(16, 8), nn.Linear(8, 4)
opt = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.01)
for step in range(4):
    loss = F.cross_entropy(last(Spike.apply(first(x))), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_AGENT = """
import copy
class Agent:
    def __init__(self, net):
        self.policy_net = net.to("cpu")
        self.target_net = {target}
        self.opt = torch.optim.SGD(self.policy_net.parameters(), lr=0.01)
    def update(self, x, y):
        with torch.no_grad():
            wanted = y + 0.9 * self.target_net(x).max(1).values
        loss = F.mse_loss(self.policy_net(x).max(1).values, wanted)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
torch.manual_seed(0)
agent = Agent(nn.Linear(16, 4))
for step in range(4):
    agent.update(x, y)
"""
_RNN = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 8, batch_first=True, bidirectional={both})
        self.out = nn.Linear({width}, 4)
    def forward(self, seq):
        states, last = self.rnn(seq)
        return self.out({taken})
torch.manual_seed(0)
net = Reader()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(4):
    loss = F.cross_entropy(net(x.view(64, 4, 4)), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

PLANTED = {
    "a stored image changed in passing": Planted("alias", (9,), _data("image.sub_(0.5)")),
    "a stored image changed by a helper": Planted("alias", (7,), _data(give="self.centre(image)", helper=_CENTRE)),
    "a stored array changed in place": Planted(
        "alias",
        (9,),
        _data("image -= 0.5", give="torch.from_numpy(image).float()", images="x.numpy().copy()"),
    ),
    "an image turned without its mask": Planted("data", (10,), _MASKS.format(mask="")),
    "an image and its mask turned by a draw each": Planted(
        "data", (10,), _MASKS.format(mask="\n        if random.random() < 0.5:\n            mask = mask.flip(-1)")
    ),
    "a target that the window holds": Planted("data", (3,), _SERIES.format(less=" - 1")),
    "a backward that drops what comes": Planted("gradient", (10,), _SPIKE.format(slope="slope")),
    "a target network that is the network itself": Planted("alias", (5,), _AGENT.format(target='net.to("cpu")')),
    "the last step of both directions": Planted(
        "layout", (8,), _RNN.format(both=True, width=16, taken="states[:, -1]")
    ),
}

HEALTHY = {
    "a copy of a stored image changed": _data("image = image.clone()\n        image.sub_(0.5)"),
    "a stored image changed out of place": _data("image = image - 0.5"),
    "an image turned with its mask": _MASKS.format(mask="\n            mask = mask.flip(-1)"),
    "an image and its mask turned in two directions": _MASKS.format(
        mask="; mask = mask.flip(-1)\n        if random.random() < 0.5:\n"
        "            img = img.flip(-2); mask = mask.flip(-2)"
    ),
    "a target after the window": _SERIES.format(less=""),
    "a backward that scales what comes": _SPIKE.format(slope="g * slope"),
    "a target network of its own": _AGENT.format(target="copy.deepcopy(net)"),
    "the last step of one direction": _RNN.format(both=False, width=8, taken="states[:, -1]"),
    "the last states of both directions": _RNN.format(both=True, width=16, taken="torch.cat([last[0], last[1]], 1)"),
}
