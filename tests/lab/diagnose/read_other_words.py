"""Programs of the sciences in other words, which test_other_words.py reads without running them: the rule that tells,
and its line; and what mends some of them."""

from __future__ import annotations

TOLD: dict[str, tuple[str, int, str]] = {
    "q of best, class with numpy replay": (
        "action_values.best_for_taken",
        18,
        """
import random
from collections import deque
torch.manual_seed(0); random.seed(0)
class DQNAgent:
    def __init__(self, n_obs, n_act):
        self.model = nn.Sequential(nn.Linear(n_obs, 24), nn.ReLU(), nn.Linear(24, n_act))
        self.target_model = nn.Sequential(nn.Linear(n_obs, 24), nn.ReLU(), nn.Linear(24, n_act))
        self.target_model.load_state_dict(self.model.state_dict())
        self.memory = deque(maxlen=1000)
        self.gamma = 0.95
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.criterion = nn.MSELoss()
    def replay(self, batch_size):
        minibatch = random.sample(self.memory, batch_size)
        s, a, r, ns, d = zip(*minibatch)
        s, ns = torch.stack(s), torch.stack(ns)
        a, r, d = torch.tensor(a), torch.tensor(r), torch.tensor(d, dtype=torch.float32)
        pred = torch.max(self.model(s), dim=1)[0]
        next_q = self.target_model(ns).detach().max(1)[0]
        expected = r + self.gamma * next_q * (1 - d)
        loss = self.criterion(pred, expected)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
agent = DQNAgent(16, 4)
for t in range(60):
    agent.memory.append((x[t], int(labels[t]), float(y[t]), x[t + 1], t % 10 == 9))
for k in range(4):
    agent.replay(16)
    agent.target_model.load_state_dict(agent.model.state_dict())
""",
    ),
    "done flag multiplied, vectors": (
        "action_values.ended_for_alive",
        11,
        """
torch.manual_seed(0)
policy_net, target_net = nn.Linear(16, 4), nn.Linear(16, 4)
target_net.load_state_dict(policy_net.state_dict())
opt = torch.optim.RMSprop(policy_net.parameters())
args_gamma = 0.99
batch = dict(obs=x, act=labels, rew=y, next_obs=x.roll(1, 0), terminal=(torch.rand(64) < .1))
def compute_loss(batch, gamma):
    q = policy_net(batch["obs"]).gather(1, batch["act"].unsqueeze(-1)).squeeze(-1)
    q_next = target_net(batch["next_obs"]).max(dim=-1).values.detach()
    terminal = batch["terminal"].float()
    target = batch["rew"] + gamma * q_next * terminal
    return F.smooth_l1_loss(q, target)
for _ in range(5):
    loss = compute_loss(batch, args_gamma)
    opt.zero_grad(); loss.backward(); opt.step()
    target_net.load_state_dict(policy_net.state_dict())
""",
    ),
    "indices of torch.max": (
        "action_values.index_for_value",
        7,
        """
torch.manual_seed(0)
qnet = nn.Linear(16, 4); frozen = nn.Linear(16, 4)
frozen.load_state_dict(qnet.state_dict())
opt = torch.optim.Adam(qnet.parameters(), 1e-3)
for epoch in range(4):
    with torch.no_grad():
        _, best = torch.max(frozen(x.roll(1, 0)), 1)
        tgt = y + 0.9 * best
    pred = qnet(x)[torch.arange(64), labels]
    loss = ((pred - tgt) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    frozen.load_state_dict(qnet.state_dict())
""",
    ),
    "ppo surrogate in one expression": (
        "policy_steps.ratio_clipped_alone",
        11,
        """
torch.manual_seed(0)
class PPO:
    def __init__(self):
        self.actor = nn.Linear(16, 4)
        self.opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.eps = 0.2
    def update(self, states, actions, old_log_probs, advantages):
        for _ in range(3):
            new_log_probs = torch.distributions.Categorical(logits=self.actor(states)).log_prob(actions)
            ratio = torch.exp(new_log_probs - old_log_probs)
            surrogate = torch.minimum(ratio, ratio.clip(1 - self.eps, 1 + self.eps)) * advantages
            loss = -surrogate.mean()
            self.opt.zero_grad(); loss.backward(); self.opt.step()
agent = PPO()
with torch.no_grad():
    d = torch.distributions.Categorical(logits=agent.actor(x))
    a = d.sample(); lp = d.log_prob(a)
agent.update(x, a, lp, torch.randn(64))
""",
    ),
    "ratio turned by division": (
        "policy_steps.ratio_turned",
        9,
        """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.Adam(net.parameters(), 1e-3)
with torch.no_grad():
    old_probs = F.softmax(net(x), 1).gather(1, labels[:, None]).squeeze(1)
adv = torch.randn(64)
for k in range(4):
    probs = F.softmax(net(x), 1).gather(1, labels[:, None]).squeeze(1)
    r = old_probs / probs
    loss = -torch.min(r * adv, torch.clamp(r, 0.8, 1.2) * adv).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "gae without mask, numpy style": (
        "policy_steps.over_the_end",
        10,
        """
torch.manual_seed(0)
class Buffer:
    def __init__(self):
        self.rew, self.val, self.done = [], [], []
    def finish(self, last_value, gamma=0.99, lmbda=0.95):
        adv, out = 0.0, []
        vals = self.val + [last_value]
        for i in reversed(range(len(self.rew))):
            td = self.rew[i] + gamma * vals[i + 1] * (1.0 - self.done[i]) - vals[i]
            adv = td + gamma * lmbda * adv
            out.insert(0, adv)
        return torch.tensor(out)
buf, v = Buffer(), nn.Linear(16, 1)
opt = torch.optim.Adam(v.parameters(), 1e-3)
for i in range(40):
    buf.rew.append(float(y[i])); buf.val.append(v(x[i]).item()); buf.done.append(float(i % 9 == 8))
A = buf.finish(0.0)
for k in range(3):
    loss = F.mse_loss(v(x[:40]).squeeze(1), A)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "returns over ends": (
        "policy_steps.over_the_end",
        10,
        """
torch.manual_seed(0)
pol = nn.Linear(16, 4)
opt = torch.optim.Adam(pol.parameters(), 1e-3)
gamma = 0.99
rewards, is_terminals = [float(v) for v in y], [i % 16 == 15 for i in range(64)]
def discounted(rewards, is_terminals):
    out = []
    running = 0
    for r, term in zip(reversed(rewards), reversed(is_terminals)):
        running = r + gamma * running
        out.insert(0, running)
    return torch.tensor(out)
R = discounted(rewards, is_terminals)
print("episodes", sum(is_terminals))
for k in range(3):
    lp = F.log_softmax(pol(x), 1).gather(1, labels[:, None]).squeeze(1)
    loss = -(lp * (R - R.mean())).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "ddpg actor in a class": (
        "soft_actors.value_lowered",
        16,
        """
torch.manual_seed(0)
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(18, 32), nn.ReLU(), nn.Linear(32, 1))
    def forward(self, s, a):
        return self.net(torch.cat([s, a], -1))
class DDPG:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(16, 2), nn.Tanh())
        self.critic = Critic()
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), 1e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), 1e-3)
    def train_actor(self, states):
        actions = self.actor(states)
        policy_loss = torch.mean(self.critic(states, actions))
        self.actor_opt.zero_grad()
        policy_loss.backward()
        self.actor_opt.step()
    def train_critic(self, s, a, target):
        loss = F.mse_loss(self.critic(s, a), target)
        self.critic_opt.zero_grad(); loss.backward(); self.critic_opt.step()
agent = DDPG()
for i in range(3):
    agent.train_critic(x, torch.rand(64, 2), y[:, None])
    agent.train_actor(x)
""",
    ),
    "sac target with a plus in a method": (
        "soft_actors.entropy_taken_off",
        20,
        """
torch.manual_seed(0)
class SAC:
    def __init__(self):
        self.pi = nn.Linear(16, 4)
        self.critic1, self.critic2 = nn.Linear(18, 1), nn.Linear(18, 1)
        self.target1, self.target2 = nn.Linear(18, 1), nn.Linear(18, 1)
        self.log_alpha = torch.tensor(0.0, requires_grad=True)
        self.opt = torch.optim.Adam([*self.critic1.parameters(), *self.critic2.parameters()], 3e-4)
    def act(self, s):
        mean, log_std = self.pi(s).chunk(2, -1)
        dist = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        u = dist.rsample()
        lp = dist.log_prob(u) - 2 * (0.6931 - u - F.softplus(-2 * u))
        return torch.tanh(u), lp.sum(-1, keepdim=True)
    def critic_loss(self, s, a, r, s2, d):
        with torch.no_grad():
            a2, next_log_prob = self.act(s2)
            i2 = torch.cat([s2, a2], 1)
            next_q = torch.min(self.target1(i2), self.target2(i2))
            soft_value = next_q + self.log_alpha.exp() * next_log_prob
            q_hat = r + 0.99 * (1 - d) * soft_value
        i1 = torch.cat([s, a], 1)
        return F.mse_loss(self.critic1(i1), q_hat) + F.mse_loss(self.critic2(i1), q_hat)
sac = SAC()
for k in range(3):
    loss = sac.critic_loss(x, torch.rand(64, 2), y[:, None], x.roll(1, 0), torch.zeros(64, 1))
    sac.opt.zero_grad(); loss.backward(); sac.opt.step()
    for a, b in ((sac.target1, sac.critic1), (sac.target2, sac.critic2)):
        for p, q in zip(a.parameters(), b.parameters()):
            p.data.lerp_(q.data, 0.005)
""",
    ),
    "greedy the wrong way with ternary": (
        "policy_steps.chance_turned",
        8,
        """
import numpy as np
torch.manual_seed(0); np.random.seed(0)
q = nn.Linear(16, 4)
opt = torch.optim.Adam(q.parameters(), 1e-3)
eps, eps_min, decay = 1.0, 0.02, 0.9
for t in range(30):
    state = x[t]
    action = np.random.randint(4) if np.random.rand() > eps else q(state).argmax().item()
    loss = (q(state)[action] - y[t]).pow(2)
    opt.zero_grad(); loss.backward(); opt.step()
    eps = max(eps_min, eps * decay)
""",
    ),
    "polyak by names": (
        "bound_in_vain.only_the_name",
        10,
        """
torch.manual_seed(0)
online, target = nn.Linear(16, 4), nn.Linear(16, 4)
opt = torch.optim.Adam(online.parameters(), 1e-3)
class Updater:
    def __init__(self, tau):
        self.tau = tau
    def __call__(self, src, dst):
        with torch.no_grad():
            for dst_p, src_p in zip(dst.parameters(), src.parameters()):
                dst_p = dst_p * (1 - self.tau) + src_p * self.tau
update = Updater(0.01)
for k in range(4):
    with torch.no_grad():
        backup = y + 0.99 * target(x.roll(-1, 0)).amax(1) * (labels != 0).float()
    loss = F.huber_loss(online(x).gather(1, labels[:, None]).flatten(), backup)
    opt.zero_grad(); loss.backward(); opt.step()
    update(online, target)
""",
    ),
    "wgan in functions": (
        "adversaries.both_want_the_same",
        10,
        """
torch.manual_seed(0)
netG, netD = nn.Linear(8, 16), nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optG = torch.optim.Adam(netG.parameters(), 1e-4); optD = torch.optim.Adam(netD.parameters(), 1e-4)
for i in range(3):
    for _ in range(2):
        noise = torch.randn(64, 8)
        fake = netG(noise).detach()
        errD_real = netD(x).mean()
        errD_fake = netD(fake).mean()
        errD = errD_real - errD_fake
        optD.zero_grad(); errD.backward(); optD.step()
    fake = netG(torch.randn(64, 8))
    errG = -netD(fake).mean()
    optG.zero_grad(); errG.backward(); optG.step()
""",
    ),
    "gradient penalty with outputs list": (
        "input_derivatives.derivative_off_the_graph",
        16,
        """
torch.manual_seed(0)
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(16, 32), nn.Linear(32, 1)
    def forward(self, v):
        return self.l2(torch.tanh(self.l1(v)))
critic = Critic()
opt = torch.optim.Adam(critic.parameters(), 1e-4)
LAMBDA = 10
def calc_gp(netD, real, fake):
    alpha = torch.rand(real.shape[0], 1)
    inter = alpha * real + (1 - alpha) * fake
    inter.requires_grad_(True)
    out = netD(inter)
    gradients = torch.autograd.grad(outputs=out, inputs=inter, grad_outputs=torch.ones_like(out),
                                    retain_graph=True, only_inputs=True)[0]
    gradients = gradients.view(gradients.size(0), -1)
    penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA
    return penalty
for k in range(3):
    fake = torch.randn(64, 16)
    gp = calc_gp(critic, x, fake)
    d_cost = critic(fake).mean() - critic(x).mean()
    (d_cost + gp).backward()
    opt.step(); opt.zero_grad()
""",
    ),
    "softplus log-variance": (
        "priors.never_below_one",
        9,
        """
torch.manual_seed(0)
class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = nn.Linear(16, 32); self.mean = nn.Linear(32, 3); self.log_var = nn.Linear(32, 3)
    def forward(self, v):
        h = torch.relu(self.h(v))
        mean = self.mean(h)
        log_var = F.softplus(self.log_var(h))
        std = torch.exp(0.5 * log_var)
        return mean + std * torch.randn_like(std), mean, log_var
enc, dec = Enc(), nn.Linear(3, 16)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-3)
for k in range(3):
    z, m, lv = enc(x)
    kl = 0.5 * (m ** 2 + lv.exp() - 1 - lv).sum(1).mean()
    loss = ((dec(z) - x) ** 2).sum(1).mean() + kl
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "kl of standard normal first": (
        "priors.divergence_from_the_prior",
        13,
        """
torch.manual_seed(0)
import torch.distributions as dist
class BayesVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(16, 8), nn.Linear(4, 16)
    def loss(self, v):
        mu, raw = self.enc(v).chunk(2, dim=-1)
        q = dist.Normal(mu, F.softplus(raw) + 1e-4)
        z = q.rsample()
        nll = F.mse_loss(self.dec(z), v, reduction="sum") / len(v)
        p = dist.Normal(torch.zeros_like(mu), torch.ones_like(mu))
        return nll + dist.kl_divergence(p, q).sum(-1).mean()
m = BayesVAE()
opt = torch.optim.Adam(m.parameters(), 1e-3)
for k in range(3):
    l = m.loss(x)
    opt.zero_grad(); l.backward(); opt.step()
""",
    ),
    "bayes by backprop class": (
        "priors.prior_held_against",
        17,
        """
torch.manual_seed(0)
class BayesLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.mu = nn.Parameter(torch.zeros(o, i)); self.rho = nn.Parameter(torch.full((o, i), -4.0))
    def forward(self, v):
        sigma = torch.log1p(torch.exp(self.rho))
        w = self.mu + sigma * torch.randn_like(sigma)
        self.log_q = torch.distributions.Normal(self.mu, sigma).log_prob(w).sum()
        self.log_p = torch.distributions.Normal(0, 1.0).log_prob(w).sum()
        return F.linear(v, w)
layer = BayesLinear(16, 4)
opt = torch.optim.Adam(layer.parameters(), 1e-3)
for k in range(4):
    out = layer(x)
    likelihood_cost = F.cross_entropy(out, labels, reduction="sum")
    complexity_cost = layer.log_p - layer.log_q
    loss = complexity_cost / 10 + likelihood_cost
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "ddpm loss with fresh noise": (
        "sampled_noise.noise_of_nobody",
        16,
        """
torch.manual_seed(0)
class Diffusion:
    def __init__(self, T=40):
        self.T = T
        self.beta = torch.linspace(1e-4, 0.02, T)
        self.alpha_bar = torch.cumprod(1 - self.beta, 0)
    def q_sample(self, x0, t):
        ab = self.alpha_bar[t].unsqueeze(1)
        return ab.sqrt() * x0 + (1 - ab).sqrt() * torch.randn_like(x0)
diff, model = Diffusion(), nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
opt = torch.optim.Adam(model.parameters(), 1e-3)
for k in range(4):
    t = torch.randint(0, diff.T, (64,))
    noise = torch.randn_like(x)
    xt = diff.q_sample(x, t)
    loss = F.mse_loss(model(xt), noise)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "reverse process in a class, upwards": (
        "sampled_noise.towards_the_noise",
        12,
        """
torch.manual_seed(0)
class DDPM(nn.Module):
    def __init__(self, n=15):
        super().__init__()
        self.n, self.net = n, nn.Linear(16, 16)
        b = torch.linspace(1e-4, 0.05, n)
        self.register_buffer("betas", b); self.register_buffer("alphas", 1 - b)
        self.register_buffer("abar", torch.cumprod(1 - b, 0))
    @torch.no_grad()
    def generate(self, k):
        v = torch.randn(k, 16)
        for step in range(0, self.n):
            pred = self.net(v)
            coef = (1 - self.alphas[step]) / torch.sqrt(1 - self.abar[step])
            v = (v - coef * pred) / torch.sqrt(self.alphas[step])
            if step > 0:
                v = v + torch.sqrt(self.betas[step]) * torch.randn_like(v)
        return v
print(DDPM().generate(4).mean())
""",
    ),
    "langevin with a module": (
        "sampled_noise.quiet_walk",
        15,
        """
torch.manual_seed(0)
class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 1))
    def forward(self, v):
        return self.f(v).squeeze(-1)
E = Energy()
def sample(n=8, k=20, lr=0.05):
    v = torch.randn(n, 16)
    for i in range(k):
        v.requires_grad_(True)
        grad = torch.autograd.grad(E(v).sum(), v)[0]
        noise = torch.randn_like(v)
        v = (v - lr * grad + lr * noise).detach()
    return v
print(sample().std())
""",
    ),
    "realnvp loss with minus det": (
        "flows_and_tokens.volume_turned",
        16,
        """
torch.manual_seed(0)
class Affine(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d // 2, 32), nn.Tanh(), nn.Linear(32, d))
    def forward(self, v):
        v1, v2 = v.chunk(2, dim=1)
        log_s, t = self.net(v1).chunk(2, dim=1)
        y2 = v2 * torch.exp(log_s) + t
        return torch.cat((v1, y2), 1), log_s.sum(dim=1)
layer = Affine(16)
opt = torch.optim.Adam(layer.parameters(), 1e-3)
prior = torch.distributions.MultivariateNormal(torch.zeros(16), torch.eye(16))
for k in range(3):
    z, log_det_jac = layer(x)
    loss = -(prior.log_prob(z) - log_det_jac).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "sampler with temperature attr": (
        "flows_and_tokens.sharper_for_softer",
        9,
        """
torch.manual_seed(0)
class Sampler:
    def __init__(self, model, temperature=0.8, top_k=None):
        self.model, self.temperature, self.top_k = model, temperature, top_k
    @torch.no_grad()
    def __call__(self, ids, n):
        for _ in range(n):
            logits = self.model(ids[:, -1])
            logits = logits * self.temperature
            probs = logits.softmax(-1)
            nxt = torch.multinomial(probs, num_samples=1)
            ids = torch.cat([ids, nxt], dim=1)
        return ids
lm = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12))
print(Sampler(lm)(torch.zeros(2, 1, dtype=torch.long), 5))
""",
    ),
    "top-k filter function with where": (
        "flows_and_tokens.candidates_kept",
        6,
        """
torch.manual_seed(0)
lm = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12))
def top_k_filter(logits, k):
    vals, _ = torch.topk(logits, k)
    smallest = vals[:, -1:]
    return torch.where(logits < smallest, torch.zeros_like(logits), logits)
ids = torch.zeros(2, 1, dtype=torch.long)
with torch.no_grad():
    for i in range(5):
        p = F.softmax(top_k_filter(lm(ids[:, -1]), 3), dim=-1)
        ids = torch.cat([ids, torch.multinomial(p, 1)], 1)
print(ids)
""",
    ),
    "siamese with label names": (
        "pairs_compared.friends_apart",
        11,
        """
torch.manual_seed(0)
class SiameseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    def forward(self, a, b):
        return self.f(a), self.f(b)
def contrastive_loss(out1, out2, is_same, margin=2.0):
    distance = F.pairwise_distance(out1, out2)
    pull = (1 - is_same) * torch.pow(distance, 2)
    push = is_same * torch.pow(torch.clamp(margin - distance, min=0.0), 2)
    return torch.mean(pull + push)
net = SiameseNet()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for k in range(3):
    j = torch.randperm(64)
    loss = contrastive_loss(*net(x, x[j]), (labels == labels[j]).float())
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "simsiam in one line": (
        "pairs_compared.nothing_stopped",
        11,
        """
torch.manual_seed(0)
f, h = nn.Linear(16, 8), nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))
class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.predictor = f, h
        self.cos = nn.CosineSimilarity(dim=1)
    def forward(self, a, b):
        z1, z2 = self.encoder(a), self.encoder(b)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return -(self.cos(p1, z2).mean() + self.cos(p2, z1).mean()) * 0.5
model = SimSiam()
opt = torch.optim.SGD(model.parameters(), 0.05)
for k in range(3):
    loss = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "triplet mining, hardest positive by min": (
        "pairs_compared.easiest_for_hardest",
        7,
        """
torch.manual_seed(0)
emb = nn.Linear(16, 8)
opt = torch.optim.Adam(emb.parameters(), 1e-3)
def mine(e, y):
    d = (e[:, None] - e[None]).norm(dim=-1)
    eq = y[:, None] == y[None]
    hardest_pos = d.masked_fill(~eq, 1e9).min(dim=1)[0]
    hardest_neg = d.masked_fill(eq, 1e9).min(dim=1)[0]
    return hardest_pos, hardest_neg
margin = 0.2
for k in range(3):
    e = emb(x) + 1e-3 * torch.randn(64, 8)
    pos, neg = mine(e, labels)
    loss = torch.relu(pos - neg + margin).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "gcn class with degree of A": (
        "graph_messages.degree_without_loops",
        6,
        """
torch.manual_seed(0)
class GCN(nn.Module):
    def __init__(self, A, nin, nh, nout):
        super().__init__()
        self.A_hat = A + torch.eye(A.size(0))
        self.D = torch.diag(torch.sum(A, 1))
        self.D = self.D.inverse().sqrt()
        self.A_hat = torch.mm(torch.mm(self.D, self.A_hat), self.D)
        self.w1, self.w2 = nn.Linear(nin, nh), nn.Linear(nh, nout)
    def forward(self, X):
        return self.A_hat @ self.w2(torch.relu(self.A_hat @ self.w1(X)))
A = torch.zeros(64, 64)
for i in range(64):
    A[i, (i + 1) % 64] = A[(i + 1) % 64, i] = 1.0
net = GCN(A, 16, 16, 4)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for k in range(3):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "scatter back to the source": (
        "graph_messages.back_to_the_sender",
        7,
        """
torch.manual_seed(0)
edges = torch.randint(0, 64, (2, 200))
def propagate(h, edge_index):
    row, col = edge_index[0], edge_index[1]
    messages = h[row]
    agg = torch.zeros_like(h)
    agg.scatter_add_(0, row.unsqueeze(-1).expand_as(messages), messages)
    return agg
lin = nn.Linear(16, 4)
opt = torch.optim.Adam(lin.parameters(), 1e-2)
for k in range(3):
    loss = F.cross_entropy(lin(propagate(x, edges)), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "burgers residual, no create_graph": (
        "input_derivatives.derivative_off_the_graph",
        11,
        """
torch.manual_seed(0)
class PINN(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 1))
    def forward(self, t, s):
        return self.net(torch.cat([t, s], dim=1))
def f(model, t, s):
    u = model(t, s)
    u_t = torch.autograd.grad(u.sum(), t, retain_graph=True)[0]
    u_s = torch.autograd.grad(u.sum(), s, retain_graph=True)[0]
    return u_t + u * u_s
model = PINN()
opt = torch.optim.Adam(model.parameters(), 1e-3)
t = torch.rand(50, 1, requires_grad=True); s = torch.rand(50, 1, requires_grad=True)
for k in range(3):
    res = f(model, t, s)
    loss = torch.mean(res ** 2)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "central difference on a grid": (
        "input_derivatives.half_the_distance",
        7,
        """
torch.manual_seed(0)
dx = 0.1
grid = torch.arange(0, 6.28, dx)
u = torch.sin(grid)
def ddx(f):
    out = torch.zeros_like(f)
    out[1:-1] = (f[2:] - f[:-2]) / dx
    return out
print((ddx(u)[1:-1] - torch.cos(grid)[1:-1]).abs().max())
""",
    ),
    "force matching": (
        "input_derivatives.uphill_forces",
        8,
        """
torch.manual_seed(0)
class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(9, 32), nn.Tanh(), nn.Linear(32, 1))
    def forward(self, pos):
        E = self.net(pos.reshape(len(pos), -1)).squeeze(-1)
        force = torch.autograd.grad(E.sum(), pos, create_graph=True)[0]
        return E, force
model = Potential()
opt = torch.optim.Adam(model.parameters(), 1e-3)
R = torch.randn(32, 3, 3); E0 = R.pow(2).sum((1, 2)); F0 = -2 * R
for k in range(3):
    E, force = model(R.clone().requires_grad_(True))
    loss = F.mse_loss(E, E0) + F.mse_loss(force, F0)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "latitude in degrees": (
        "signals.degrees_for_radians",
        5,
        """
torch.manual_seed(0)
lat_deg, lon_deg = torch.rand(64) * 180 - 90, torch.rand(64) * 360 - 180
def to_xyz(lat_deg, lon_deg):
    return torch.stack([torch.cos(lat_deg) * torch.cos(lon_deg),
                        torch.cos(lat_deg) * torch.sin(lon_deg), torch.sin(lat_deg)], -1)
xyz = to_xyz(lat_deg, lon_deg)
print(xyz.shape)
""",
    ),
    "pgd bound drifting": (
        "changed_inputs.bound_that_moves",
        12,
        """
torch.manual_seed(0)
class PGD:
    def __init__(self, model, eps=0.1, alpha=0.02, iters=7):
        self.model, self.eps, self.alpha, self.iters = model, eps, alpha, iters
    def attack(self, images, labels):
        adv = images.clone()
        for _ in range(self.iters):
            adv = adv.detach().requires_grad_()
            cost = F.cross_entropy(self.model(adv), labels)
            grad, = torch.autograd.grad(cost, adv)
            stepped = adv + self.alpha * grad.sign()
            adv = torch.clamp(stepped, min=adv - self.eps, max=adv + self.eps)
        return adv
net = nn.Linear(16, 4)
print((PGD(net).attack(x, labels) - x).abs().max())
""",
    ),
    "fgsm descending with names": (
        "changed_inputs.attack_downhill",
        10,
        """
torch.manual_seed(0)
model, criterion = nn.Linear(16, 4), nn.CrossEntropyLoss()
data = x.clone(); data.requires_grad = True
output = model(data)
loss = criterion(output, labels)
model.zero_grad()
loss.backward()
data_grad = data.grad.data
sign_data_grad = data_grad.sign()
perturbed = data - 0.1 * sign_data_grad
print((model(perturbed).argmax(1) == labels).float().mean())
""",
    ),
    "gradient accumulation that forgets": (
        "bound_in_vain.last_round_alone",
        9,
        """
torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), 0.1)
def task_loss(net, task):
    idx = torch.arange(task * 8, task * 8 + 8)
    return F.cross_entropy(net(x[idx]), labels[idx])
for it in range(5):
    for task in range(8):
        meta_loss = task_loss(net, task)
    opt.zero_grad()
    meta_loss.backward()
    opt.step()
""",
    ),
    "heteroscedastic, exp not negated": (
        "priors.precision_for_variance",
        14,
        """
torch.manual_seed(0)
class Hetero(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.mu, self.lv = nn.Linear(16, 16), nn.Linear(16, 1), nn.Linear(16, 1)
    def forward(self, v):
        h = torch.tanh(self.body(v))
        return self.mu(h).squeeze(1), self.lv(h).squeeze(1)
net = Hetero()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for k in range(3):
    mu, logvar = net(x)
    precision = torch.exp(logvar)
    loss = torch.mean(precision * (y - mu) ** 2 + logvar)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "nll with sigma to the first power": (
        "priors.spread_for_variance",
        5,
        """
torch.manual_seed(0)
net = nn.Linear(16, 2)
opt = torch.optim.Adam(net.parameters(), 1e-3)
def nll_loss(y_true, mu, std):
    a = torch.pow(y_true - mu, 2) / (2 * std)
    b = torch.log(std)
    return (a + b).mean()
for k in range(3):
    o = net(x)
    loss = nll_loss(y, o[:, 0], F.softplus(o[:, 1]) + 1e-2)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "ssim as loss": (
        "turned_qualities.quality_made_small",
        12,
        """
torch.manual_seed(0)
def ssim(a, b):
    ma, mb = a.mean(1), b.mean(1)
    va, vb = a.var(1), b.var(1)
    cov = ((a - ma[:, None]) * (b - mb[:, None])).mean(1)
    return ((2 * ma * mb + 1e-2) * (2 * cov + 3e-2) / ((ma ** 2 + mb ** 2 + 1e-2) * (va + vb + 3e-2))).mean()
net = nn.Linear(16, 16)
opt = torch.optim.Adam(net.parameters(), 1e-3)
for k in range(3):
    out = net(x)
    l1 = F.l1_loss(out, x)
    loss = 0.8 * l1 + 0.2 * ssim(out, x)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "bpr class turned": (
        "turned_qualities.ranks_turned",
        15,
        """
torch.manual_seed(0)
class BPRMF(nn.Module):
    def __init__(self, nu, ni, d=8):
        super().__init__()
        self.u, self.i = nn.Embedding(nu, d), nn.Embedding(ni, d)
    def forward(self, user, item_i, item_j):
        pu = self.u(user)
        pred_pos = (pu * self.i(item_i)).sum(-1)
        pred_neg = (pu * self.i(item_j)).sum(-1)
        return pred_pos, pred_neg
m = BPRMF(10, 30)
opt = torch.optim.Adam(m.parameters(), 1e-2)
for k in range(3):
    pos, neg = m(torch.randint(0, 10, (32,)), torch.randint(0, 30, (32,)), torch.randint(0, 30, (32,)))
    loss = -torch.log(torch.sigmoid(neg - pos) + 1e-10).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "annealing by whole numbers in a function": (
        "rounded_away.share_of_whole_numbers",
        5,
        """
torch.manual_seed(0)
enc = nn.Linear(16, 8); dec = nn.Linear(4, 16)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-3)
def kl_weight(step, warmup=100):
    return min(1, step // warmup)
for step in range(5):
    mu, lv = enc(x).chunk(2, 1)
    kl = -0.5 * (1 + lv - mu ** 2 - lv.exp()).sum(1).mean()
    z = mu + (0.5 * lv).exp() * torch.randn_like(mu)
    loss = F.mse_loss(dec(z), x, reduction="sum") / 64 + kl_weight(step) * kl
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "attention vector of any content": (
        "bound_in_vain.parameter_of_nothing",
        5,
        """
torch.manual_seed(0)
class Attn(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.query = nn.Parameter(torch.Tensor(d))
        self.proj = nn.Linear(d, 4)
    def forward(self, seq):
        w = torch.softmax(seq @ self.query, dim=1)
        return self.proj((w.unsqueeze(-1) * seq).sum(1))
m = Attn(16)
opt = torch.optim.Adam(m.parameters(), 1e-3)
seq = x.view(16, 4, 16)
for k in range(3):
    loss = F.cross_entropy(m(seq), labels[:16])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "confusion matrix of any content": (
        "bound_in_vain.what_was_there",
        2,
        """
torch.manual_seed(0)
cm = torch.empty(4, 4)
pred = torch.randint(0, 4, (64,))
for p, t in zip(pred, labels):
    cm[t, p] += 1
print(cm.diag().sum() / cm.sum())
""",
    ),
}
"""By name: the rule, the line, the text."""
NOT_TOLD: dict[str, str] = {
    "index for value, mended": """
torch.manual_seed(0)
policy, target = nn.Linear(16, 4), nn.Linear(16, 4)
target.load_state_dict(policy.state_dict())
opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
for i in range(8):
    done = (torch.rand(64) < 0.1).float()
    next_q = target(x.roll(1, 0)).max(dim=1).values.detach()
    expected = y + 0.99 * next_q * (1 - done)
    current = policy(x).gather(1, labels.view(-1, 1)).view(-1)
    loss = F.mse_loss(current, expected)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 4 == 0:
        target.load_state_dict(policy.state_dict())
""",
    "gae over ends, mended": """
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
        gae = delta + gamma * lam * (1 - dones[t]) * gae
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
    "gae from the front, mended": """
torch.manual_seed(0)
value_net = nn.Linear(16, 1)
opt = torch.optim.Adam(value_net.parameters(), lr=1e-3)
gamma, lam = 0.99, 0.95
for it in range(3):
    with torch.no_grad():
        v = value_net(x).squeeze(1)
    masks = 1 - (torch.rand(63) < 0.1).float()
    last, adv = 0.0, []
    for t in reversed(range(63)):
        delta = y[t] + gamma * v[t + 1] * masks[t] - v[t]
        last = delta + gamma * lam * masks[t] * last
        adv.insert(0, last)
    adv = torch.stack(adv)
    loss = F.mse_loss(value_net(x[:63]).squeeze(1), adv + v[:63])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "temperature with the other sign, mended": """
torch.manual_seed(0)
policy = nn.Linear(16, 2)
log_alpha = torch.zeros(1, requires_grad=True)
alpha_opt = torch.optim.Adam([log_alpha], lr=3e-4)
target_entropy = -2.0
for step in range(4):
    d = torch.distributions.Normal(policy(x), 1.0)
    a = d.rsample()
    log_pi = d.log_prob(a).sum(1)
    alpha_loss = -(log_alpha * (log_pi + target_entropy).detach()).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()
""",
    "penalty without a graph, mended": """
torch.manual_seed(0)
G = nn.Linear(4, 16)
D = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-4, betas=(0.0, 0.9))
def gradient_penalty(real, fake):
    a = torch.rand(real.size(0), 1)
    mixed = (a * real + (1 - a) * fake).requires_grad_(True)
    score = D(mixed)
    grad = torch.autograd.grad(score.sum(), mixed, create_graph=True)[0]
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()
for it in range(4):
    fake = G(torch.randn(64, 4)).detach()
    loss = D(fake).mean() - D(x).mean() + 10 * gradient_penalty(x, fake)
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
""",
    "an image that is given anew, mended": """
torch.manual_seed(0)
feat = nn.Linear(16, 8)
content = feat(x).detach()
img = torch.rand(64, 16, requires_grad=True)
opt = torch.optim.Adam([img], lr=0.05)
for it in range(6):
    loss = F.mse_loss(feat(img), content)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        img.clamp_(0, 1)
""",
    "the model in place of the image, mended": """
torch.manual_seed(0)
vgg = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
style = vgg(x).detach()
canvas = torch.rand(64, 16, requires_grad=True)
optimizer = torch.optim.Adam([canvas], lr=0.01)
for it in range(6):
    loss = F.mse_loss(vgg(canvas), style)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(canvas.std().item())
""",
    "softened after the softmax, mended": """
torch.manual_seed(0)
model = nn.Linear(16, 4)
logits = model(x).detach()
T = nn.Parameter(torch.ones(1))
opt = torch.optim.SGD([T], lr=0.01)
for it in range(10):
    probs = F.softmax(logits / T, dim=1)
    loss = F.nll_loss(torch.log(probs), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
}
