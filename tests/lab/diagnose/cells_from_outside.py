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
    "gradients of two tasks that are asked for and put there": """
torch.manual_seed(0)
trunk, one, two = nn.Linear(16, 32), nn.Linear(32, 1), nn.Linear(32, 4)
parts = [list(m.parameters()) for m in (trunk, one, two)]
opt = torch.optim.Adam([p for part in parts for p in part], lr=1e-3)
for step in range(30):
    z = trunk(x).relu()
    first = torch.autograd.grad(F.mse_loss(one(z), y[:, None]), parts[0] + parts[1], retain_graph=True)
    second = torch.autograd.grad(F.cross_entropy(two(z), labels), parts[0] + parts[2])
    shared = [a + b for a, b in zip(first[:2], second[:2])]
    for p, g in zip(parts[0] + parts[1] + parts[2], [*shared, *first[2:], *second[2:]]):
        p.grad = g
    opt.step()
""",
    "tables of values that begin at 0": """
torch.manual_seed(0)
policy, value = nn.Embedding(25, 4), nn.Embedding(25, 1)
nn.init.zeros_(policy.weight)
nn.init.zeros_(value.weight)
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=0.05)
for step in range(30):
    states = torch.randint(0, 25, (64,))
    chosen = torch.distributions.Categorical(logits=policy(states))
    action, returns = chosen.sample(), (states.float() - 12) / 12
    baseline = value(states).squeeze(1)
    loss = -(chosen.log_prob(action) * (returns - baseline).detach()).mean() + F.mse_loss(baseline, returns)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "copies of the weights that are asked for gradients": """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
def adapted(params, create_graph):
    loss = F.mse_loss(torch.func.functional_call(net, params, (x,)), y[:, None])
    grads = torch.autograd.grad(loss, list(params.values()), create_graph=create_graph)
    return {name: p - 0.02 * g for (name, p), g in zip(params.items(), grads)}
for step in range(20):
    fast = adapted(dict(net.named_parameters()), True)
    loss = F.mse_loss(torch.func.functional_call(net, fast, (x,)), y[:, None])
    opt.zero_grad()
    loss.backward()
    opt.step()
params = {k: v.detach().clone().requires_grad_() for k, v in net.named_parameters()}
fast = adapted(params, False)
print(F.mse_loss(torch.func.functional_call(net, fast, (x,)), y[:, None]).item())
""",
    "a place that grows and is kept": """
import random
class Corridor:
    def reset(self):
        self.pos = random.randrange(1, 8)
        return self.pos
    def step(self, action):
        self.pos += 1 if action else -1
        return self.pos, float(self.pos == 8), self.pos in (0, 8)
env, memory = Corridor(), []
q = nn.Embedding(9, 2)
opt = torch.optim.Adam(q.parameters(), lr=1e-2)
state = env.reset()
for t in range(200):
    action = random.randrange(2)
    nxt, reward, done = env.step(action)
    memory.append((state, action, reward, nxt, done))
    state = env.reset() if done else nxt
    if len(memory) >= 32:
        s, a, r, s2, d = map(torch.tensor, zip(*random.sample(memory, 32)))
        with torch.no_grad():
            target = r + 0.9 * q(s2).max(1).values * (~d)
        loss = F.mse_loss(q(s).gather(1, a[:, None])[:, 0], target)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
}
