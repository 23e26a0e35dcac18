"""One object where several were meant, statements that do nothing, an advantage on the graph; and what comes close."""

from __future__ import annotations

from .planted_more import Planted

_TRAIN = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{before}
for step in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
{after}
"""
_ROWS = "rows = {made}\nfor k, c in enumerate(labels.tolist()):\n    rows[c].append(k)\nprint(len(rows[0]))"
_HOOKS = """import functools
seen = {{}}
for name, part in net.named_children():
    part.register_forward_hook(lambda m, i, o{bound}: seen.update({{name: tuple(o.shape)}}))"""
_TARGET = """import copy
target_net = {made}
with torch.no_grad():
    wanted = target_net(x)"""
_RIGHT = """loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=8)
net.eval()
correct = 0
with torch.no_grad():
    for xb, yb in loader:
        correct += (net(xb).argmax(1) == yb).sum().item()
accuracy = correct / len(loader{of})"""
_A2C = """
torch.manual_seed(0)
policy, critic = nn.Linear(16, 4), nn.Linear(16, 1)
opt = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-3)
for step in range(6):
    value = critic(x).squeeze(1)
    logp = F.log_softmax(policy(x), 1).gather(1, labels[:, None]).squeeze(1)
    advantage = y - value{detach}
    loss = -(logp * advantage).mean() + 0.5 * F.mse_loss(value, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

PLANTED = {
    "one list by several names": Planted(
        "alias", (9,), _TRAIN.format(before="", after=_ROWS.format(made="[[]] * 4")).replace("\n\nfor", "\nfor")
    ),
    "a target network by a second name": Planted(
        "alias",
        (5,),
        _TRAIN.format(before=_TARGET.format(made="net"), after="print(target_net(x).shape, wanted.shape)"),
    ),
    "hooks that read the loop's variable": Planted(
        "alias", (7,), _TRAIN.format(before=_HOOKS.format(bound=""), after="")
    ),
    "a mode that is named and not set": Planted(
        "unused", (9,), _TRAIN.format(before="", after="net.eval\nprint(1)").replace("\n\nfor", "\nfor")
    ),
    "a clamp that nobody takes": Planted("unused", (4,), _TRAIN.format(before="x.clamp(-1, 1)", after="")),
    "right samples divided by batches": Planted(
        "evaluation", (15,), _TRAIN.format(before="", after=_RIGHT.format(of="")).replace("\n\nfor", "\nfor")
    ),
    "an advantage on the graph": Planted("loss", (8,), _A2C.format(detach="")),
}

HEALTHY = {
    "a list for each": _TRAIN.format(before="", after=_ROWS.format(made="[[] for _ in range(4)]")),
    "a target network that is a copy": _TRAIN.format(
        before=_TARGET.format(made="copy.deepcopy(net)"), after="print(wanted.shape)"
    ),
    "hooks that bind the loop's variable": _TRAIN.format(before=_HOOKS.format(bound=", name=name"), after=""),
    "a clamp in place": _TRAIN.format(before="z = x.clone()\nz.clamp_(-1, 1)", after="print(z.shape)"),
    "right samples divided by samples": _TRAIN.format(before="", after=_RIGHT.format(of=".dataset")),
    "an advantage off the graph": _A2C.format(detach=".detach()"),
}
