"""Actors, their temperature, and how they explore: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "density of the squashed action": Mistake(
        "loss",
        11,
        """
torch.manual_seed(0)
class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu, self.log_std = nn.Linear(16, 2), nn.Linear(16, 2)
    def sample(self, s):
        mean, std = self.mu(s), self.log_std(s).clamp(-5, 2).exp()
        normal = torch.distributions.Normal(mean, std)
        u = normal.rsample()
        action = torch.tanh(u)
        log_prob = normal.log_prob(action).sum(-1, keepdim=True)
        return action, log_prob
actor, q = Actor(), nn.Linear(18, 1).requires_grad_(False)
opt = torch.optim.Adam(actor.parameters(), lr=3e-4)
for k in range(4):
    a, logp = actor.sample(x)
    loss = (0.2 * logp - q(torch.cat([x, a], 1))).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            (
                "normal.log_prob(action).sum(-1, keepdim=True)",
                "(normal.log_prob(u) - torch.log(1 - action ** 2 + 1e-6)).sum(-1, keepdim=True)",
            ),
        ),
    ),
    "tanh twice": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
mu_net, critic = nn.Linear(16, 2), nn.Linear(18, 1).requires_grad_(False)
log_sigma = nn.Parameter(torch.zeros(2))
opt = torch.optim.Adam([*mu_net.parameters(), log_sigma], lr=3e-4)
for i in range(4):
    d = torch.distributions.Normal(mu_net(x), F.softplus(log_sigma))
    z = d.rsample()
    logp = d.log_prob(z)
    a = torch.tanh(z)
    logp = logp - torch.log(1 - torch.tanh(a).pow(2) + 1e-7)
    logp = logp.sum(1, keepdim=True)
    actor_loss = (0.1 * logp - critic(torch.cat([x, a], 1))).mean()
    opt.zero_grad(); actor_loss.backward(); opt.step()
""",
        (("torch.tanh(a).pow(2)", "a.pow(2)"),),
    ),
    "temperature with the other sign": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
policy = nn.Linear(16, 2)
log_alpha = torch.zeros(1, requires_grad=True)
alpha_opt = torch.optim.Adam([log_alpha], lr=3e-4)
target_entropy = -2.0
for step in range(4):
    d = torch.distributions.Normal(policy(x), 1.0)
    a = d.rsample()
    log_pi = d.log_prob(a).sum(1)
    alpha_loss = (log_alpha * (log_pi + target_entropy).detach()).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()
""",
        (),
    ),
    "soft target with a plus": Mistake(
        "loss",
        13,
        """
torch.manual_seed(0)
actor, q1, q2 = nn.Linear(16, 2), nn.Linear(18, 1), nn.Linear(18, 1)
q1_t, q2_t = nn.Linear(18, 1), nn.Linear(18, 1)
opt = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=3e-4)
alpha, gamma, tau = 0.2, 0.99, 0.005
for it in range(4):
    done = (torch.rand(64, 1) < 0.1).float()
    with torch.no_grad():
        d = torch.distributions.Normal(actor(x.roll(1, 0)), 1.0)
        a2 = d.sample()
        logp2 = d.log_prob(a2).sum(1, keepdim=True)
        sa2 = torch.cat([x.roll(1, 0), a2], 1)
        min_q = torch.min(q1_t(sa2), q2_t(sa2)) + alpha * logp2
        backup = y[:, None] + gamma * (1 - done) * min_q
    sa = torch.cat([x, torch.randn(64, 2)], 1)
    loss = F.mse_loss(q1(sa), backup) + F.mse_loss(q2(sa), backup)
    opt.zero_grad(); loss.backward(); opt.step()
    for net, t in ((q1, q1_t), (q2, q2_t)):
        for p, tp in zip(net.parameters(), t.parameters()):
            tp.data.mul_(1 - tau).add_(tau * p.data)
""",
        (("+ alpha * logp2", "- alpha * logp2"),),
    ),
    "actor that lowers its value": Mistake(
        "loss",
        6,
        """
torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(16, 2), nn.Tanh())
critic = nn.Sequential(nn.Linear(18, 32), nn.ReLU(), nn.Linear(32, 1)).requires_grad_(False)
actor_optim = torch.optim.Adam(actor.parameters(), lr=1e-4)
for i in range(4):
    actor_loss = critic(torch.cat([x, actor(x)], dim=1)).mean()
    actor_optim.zero_grad()
    actor_loss.backward()
    actor_optim.step()
""",
        (("actor_loss = critic", "actor_loss = -critic"),),
    ),
    "soft actor that lowers its value": Mistake(
        "loss",
        15,
        """
torch.manual_seed(0)
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(18, 1)
    def forward(self, s, a):
        return self.l(torch.cat([s, a], 1))
pi, critic, alpha = nn.Linear(16, 2), Critic().requires_grad_(False), 0.2
opt = torch.optim.Adam(pi.parameters(), lr=1e-4)
for i in range(4):
    dist = torch.distributions.Normal(pi(x), 1.0)
    a = dist.rsample()
    log_pi = dist.log_prob(a).sum(1, keepdim=True)
    q_pi = critic(x, a)
    policy_loss = (q_pi - alpha * log_pi).mean()
    opt.zero_grad(); policy_loss.backward(); opt.step()
""",
        (("(q_pi - alpha * log_pi)", "(alpha * log_pi - q_pi)"),),
    ),
    "the larger critic": Mistake(
        "loss",
        11,
        """
torch.manual_seed(0)
q1, q2, q1_targ, q2_targ = (nn.Linear(18, 1) for _ in range(4))
mu_targ = nn.Linear(16, 2)
opt = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3)
for it in range(4):
    d = (torch.rand(64, 1) < 0.1).float()
    with torch.no_grad():
        noise = (torch.randn(64, 2) * 0.2).clamp(-0.5, 0.5)
        a2 = (mu_targ(x.roll(1, 0)) + noise).clamp(-1, 1)
        inp = torch.cat([x.roll(1, 0), a2], 1)
        q_next = torch.max(q1_targ(inp), q2_targ(inp))
        target = y[:, None] + 0.99 * (1 - d) * q_next
    inp = torch.cat([x, torch.rand(64, 2)], 1)
    loss = F.mse_loss(q1(inp), target) + F.mse_loss(q2(inp), target)
    opt.zero_grad(); loss.backward(); opt.step()
    for t, s in ((q1_targ, q1), (q2_targ, q2)):
        for a, b in zip(t.parameters(), s.parameters()):
            a.data.copy_(0.995 * a.data + 0.005 * b.data)
""",
        (("torch.max(q1_targ", "torch.min(q1_targ"),),
    ),
    "drawn anew for the log-prob": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for episode in range(3):
    logps, rews = [], []
    for t in range(10):
        dist = torch.distributions.Categorical(logits=net(x[t]))
        action = dist.sample().item()
        reward = 1.0 if action == int(labels[t]) else 0.0
        logps.append(dist.log_prob(dist.sample()))
        rews.append(reward)
    R = torch.tensor(rews)
    loss = -(torch.stack(logps) * (R - R.mean())).sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            ("action = dist.sample().item()", "a = dist.sample()\n        action = a.item()"),
            ("dist.log_prob(dist.sample())", "dist.log_prob(a)"),
        ),
    ),
    "epsilon turned": Mistake(
        "data",
        7,
        """
import random
torch.manual_seed(0)
q = nn.Linear(16, 4)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
epsilon = 1.0
def select_action(state):
    if random.random() < epsilon:
        with torch.no_grad():
            return q(state).argmax().item()
    return random.randrange(4)
for t in range(20):
    a = select_action(x[t])
    loss = (q(x[t])[a] - y[t]) ** 2
    opt.zero_grad(); loss.backward(); opt.step()
    epsilon = max(0.05, epsilon * 0.9)
""",
        (("random.random() < epsilon", "random.random() > epsilon"),),
    ),
    "gather along the batch": Mistake(
        "layout",
        6,
        """
torch.manual_seed(0)
q = nn.Linear(16, 4)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
for t in range(5):
    r = y
    q_sa = q(x).gather(0, labels.unsqueeze(1)).squeeze(1)
    loss = F.mse_loss(q_sa, r)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("gather(0,", "gather(1,"),),
    ),
    "columns for places": Mistake(
        "layout",
        5,
        """
torch.manual_seed(0)
q = nn.Linear(16, 4)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
for t in range(5):
    chosen = q(x)[:, labels]
    loss = (chosen - y).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("q(x)[:, labels]", "q(x)[torch.arange(64), labels]"),),
    ),
    "averaged into nothing": Mistake(
        "alias",
        7,
        """
torch.manual_seed(0)
tau = 0.01
q, q_target = nn.Linear(16, 4), nn.Linear(16, 4)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
def soft_update(net, target_net):
    for param, target_param in zip(net.parameters(), target_net.parameters()):
        target_param = tau * param + (1 - tau) * target_param
for t in range(5):
    done = (torch.rand(64) < 0.1).float()
    with torch.no_grad():
        target = y + 0.99 * (1 - done) * q_target(x.roll(1, 0)).max(1)[0]
    loss = F.mse_loss(q(x).gather(1, labels[:, None])[:, 0], target)
    opt.zero_grad(); loss.backward(); opt.step()
    soft_update(q, q_target)
""",
        (
            (
                "target_param = tau * param + (1 - tau) * target_param",
                "target_param.data.copy_(tau * param.data + (1 - tau) * target_param.data)",
            ),
        ),
    ),
    "one state many times": Mistake(
        "alias",
        7,
        """
torch.manual_seed(0)
q = nn.Linear(4, 2)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
buffer, state = [], torch.zeros(4)
for t in range(30):
    a = int(torch.randint(0, 2, (1,)))
    buffer.append((state, a, float(a)))
    state += 0.1 * torch.randn(4)
for k in range(5):
    s = torch.stack([b[0] for b in buffer])
    a = torch.tensor([b[1] for b in buffer])
    r = torch.tensor([b[2] for b in buffer])
    loss = F.mse_loss(q(s).gather(1, a[:, None])[:, 0], r)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("state += 0.1 * torch.randn(4)", "state = state + 0.1 * torch.randn(4)"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
