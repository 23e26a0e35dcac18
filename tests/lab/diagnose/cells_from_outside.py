"""Right cells whose kind was warned of in published programs: written anew, each as small as shows the cause."""

from __future__ import annotations

from .planted_more import Planted

_DQN = """
torch.manual_seed(0)
q, late = nn.Linear(16, 4), nn.Linear(16, 4)
late.load_state_dict(q.state_dict())
opt = torch.optim.Adam({held}.parameters(), lr=1e-3)
for step in range(6):
    chosen = torch.randint(0, 4, (64, 1))
    ahead = {ahead}
    loss = F.smooth_l1_loss(q(x).gather(1, chosen), y[:, None] + 0.9 * ahead)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step == 3:
        late.load_state_dict(q.state_dict())
"""

PLANTED = {
    "gradients of a target network": Planted(
        "optimizer", (7,), _DQN.format(held="q", ahead="late(x.roll(1, 0)).max(1, keepdim=True)[0]")
    ),
}

HEALTHY = {
    "a target network that is asked without gradients": _DQN.format(
        held="q", ahead="late(x.roll(1, 0)).max(1, keepdim=True)[0].detach()"
    ),
    "sums of losses in the old spelling": """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4), nn.LogSoftmax(1))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=16)
total = 0
import warnings
with torch.no_grad(), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for xb, yb in loader:
        total += F.nll_loss(model(xb), yb, size_average=False).item()
total /= len(loader.dataset)
""",
    "a running mean of the loss": """
torch.manual_seed(0)
class Meter:
    def __init__(self, momentum=0.99):
        self.momentum, self.avg = momentum, None
    def update(self, val):
        self.avg = val if self.avg is None else self.avg * self.momentum + val * (1 - self.momentum)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
meter = Meter()
for step in range(20):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter.update(loss.item())
""",
    "steps within a step, each with a loss": """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
def ahead(weights, inputs):
    a, b, c, d = weights
    return F.linear(F.relu(F.linear(inputs, a, b)), c, d)
for step in range(3):
    losses = [0 for _ in range(4)]
    for task in range(4):
        support, query = slice(16 * task, 16 * task + 8), slice(16 * task + 8, 16 * task + 16)
        fast = list(net.parameters())
        for k in range(4):
            loss = F.cross_entropy(ahead(fast, x[support]), labels[support])
            grad = torch.autograd.grad(loss, fast)
            fast = [w - 0.1 * g for w, g in zip(fast, grad)]
            losses[k] += F.cross_entropy(ahead(fast, x[query]), labels[query])
    total = losses[-1] / 4
    opt.zero_grad()
    total.backward()
    opt.step()
""",
    "weight_norm in the old spelling": """
import warnings
torch.manual_seed(0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    net = nn.Sequential(nn.utils.weight_norm(nn.Linear(16, 32)), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(5):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
}
