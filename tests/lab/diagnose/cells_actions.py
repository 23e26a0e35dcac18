"""Values of actions, ratios, returns: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "q of the best action": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
GAMMA = 0.99
q_net, target_net = nn.Linear(16, 4), nn.Linear(16, 4)
target_net.load_state_dict(q_net.state_dict())
optim = torch.optim.Adam(q_net.parameters(), lr=1e-3)
def learn(state, action, reward, next_state, done):
    q_value = q_net(state).max(1)[0]
    with torch.no_grad():
        target = reward + GAMMA * target_net(next_state).max(1)[0] * (1 - done)
    loss = F.mse_loss(q_value, target)
    optim.zero_grad()
    loss.backward()
    optim.step()
    return loss.item()
for it in range(6):
    done = (torch.rand(32) < 0.1).float()
    learn(x[:32], labels[:32], y[:32], x[32:], done)
    if it % 3 == 0:
        target_net.load_state_dict(q_net.state_dict())
""",
        (("q_net(state).max(1)[0]", "q_net(state).gather(1, action[:, None]).squeeze(1)"),),
    ),
    "gradient through the target": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
gamma = 0.9
class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-3)
    def update(self, s, a, r, s2, d):
        qsa = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        best = self.q(s2).max(1).values
        td_target = r + gamma * (1 - d) * best
        loss = F.smooth_l1_loss(qsa, td_target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
agent = Agent()
for k in range(6):
    agent.update(x[:32], labels[:32], y[:32], x[32:], (torch.rand(32) < 0.1).float())
""",
        (("best = self.q(s2).max(1).values", "best = self.q(s2).max(1).values.detach()"),),
    ),
    "mask the wrong way": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
discount = 0.95
net, tgt = nn.Linear(16, 4), nn.Linear(16, 4)
tgt.load_state_dict(net.state_dict())
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(6):
    s, a, r, s2 = x[:32], labels[:32], y[:32], x[32:]
    done = (torch.rand(32) < 0.2).float()
    with torch.no_grad():
        y_target = r + discount * tgt(s2).max(1).values * done
    q = net(s).gather(1, a[:, None]).squeeze(1)
    loss = F.mse_loss(q, y_target)
    opt.zero_grad(); loss.backward(); opt.step()
    tgt.load_state_dict(net.state_dict())
""",
        (("* done", "* (1 - done)"),),
    ),
    "index for value": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
policy, target = nn.Linear(16, 4), nn.Linear(16, 4)
target.load_state_dict(policy.state_dict())
opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
for i in range(8):
    done = (torch.rand(64) < 0.1).float()
    next_q = target(x.roll(1, 0)).argmax(dim=1)
    expected = y + 0.99 * next_q * (1 - done)
    current = policy(x).gather(1, labels.view(-1, 1)).view(-1)
    loss = F.mse_loss(current, expected)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 4 == 0:
        target.load_state_dict(policy.state_dict())
""",
        (),
    ),
    "ratio clipped alone": Mistake(
        "loss",
        15,
        """
torch.manual_seed(0)
actor = nn.Linear(16, 4)
opt = torch.optim.Adam(actor.parameters(), lr=3e-4)
clip_eps = 0.2
with torch.no_grad():
    dist = torch.distributions.Categorical(logits=actor(x))
    actions = dist.sample()
    old_logp = dist.log_prob(actions)
    adv = torch.randn(64)
for epoch in range(4):
    dist = torch.distributions.Categorical(logits=actor(x))
    logp = dist.log_prob(actions)
    ratio = (logp - old_logp).exp()
    clipped = torch.clamp(ratio, 1 - clip_eps, 1 + clip_eps)
    policy_loss = -(torch.min(ratio, clipped) * adv).mean()
    loss = policy_loss - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("(torch.min(ratio, clipped) * adv)", "torch.min(ratio * adv, clipped * adv)"),),
    ),
    "ratio upside down": Mistake(
        "loss",
        9,
        """
torch.manual_seed(0)
pi = nn.Linear(16, 4)
optimizer = torch.optim.Adam(pi.parameters(), lr=3e-4)
with torch.no_grad():
    log_probs_old = F.log_softmax(pi(x), -1).gather(1, labels[:, None]).squeeze(1)
    advantages = torch.randn(64)
def ppo_loss():
    log_probs = F.log_softmax(pi(x), -1).gather(1, labels[:, None]).squeeze(1)
    ratios = torch.exp(log_probs_old - log_probs)
    s1 = ratios * advantages
    s2 = ratios.clamp(0.8, 1.2) * advantages
    return -torch.min(s1, s2).mean()
for _ in range(4):
    loss = ppo_loss()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        (("log_probs_old - log_probs", "log_probs - log_probs_old"),),
    ),
    "gae over ends": Mistake(
        "data",
        12,
        """
torch.manual_seed(0)
critic = nn.Linear(16, 1)
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
rewards = y.clone()
dones = (torch.rand(64) < 0.1).float()
def compute_gae(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = torch.zeros_like(rewards)
    gae = 0.0
    for t in reversed(range(len(rewards))):
        nxt = values[t + 1] if t + 1 < len(rewards) else 0.0
        delta = rewards[t] + gamma * nxt * (1 - dones[t]) - values[t]
        gae = delta + gamma * lam * gae
        advantages[t] = gae
    return advantages
for ep in range(3):
    with torch.no_grad():
        v = critic(x).squeeze(1)
        adv = compute_gae(rewards, v, dones)
        ret = adv + v
    loss = F.mse_loss(critic(x).squeeze(1), ret)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (),
    ),
    "gae from the front": Mistake(
        "data",
        12,
        """
torch.manual_seed(0)
value_net = nn.Linear(16, 1)
opt = torch.optim.Adam(value_net.parameters(), lr=1e-3)
gamma, lam = 0.99, 0.95
for it in range(3):
    with torch.no_grad():
        v = value_net(x).squeeze(1)
    masks = 1 - (torch.rand(63) < 0.1).float()
    last, adv = 0.0, []
    for t in range(63):
        delta = y[t] + gamma * v[t + 1] * masks[t] - v[t]
        last = delta + gamma * lam * masks[t] * last
        adv.append(last)
    adv = torch.stack(adv)
    loss = F.mse_loss(value_net(x[:63]).squeeze(1), adv + v[:63])
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (),
    ),
    "log-probs of two actions not summed": Mistake(
        "loss",
        13,
        """
torch.manual_seed(0)
actor, critic = nn.Linear(16, 3), nn.Linear(16, 1)
log_std = nn.Parameter(torch.zeros(3))
opt = torch.optim.Adam([*actor.parameters(), log_std], lr=1e-3)
with torch.no_grad():
    dist = torch.distributions.Normal(actor(x), log_std.exp())
    act = dist.sample()
    old = dist.log_prob(act)
    adv = torch.randn(64, 1)
for k in range(4):
    dist = torch.distributions.Normal(actor(x), log_std.exp())
    new = dist.log_prob(act)
    ratio = torch.exp(new - old)
    loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("dist.log_prob(act)", "dist.log_prob(act).sum(-1, keepdim=True)"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
