"""Samples that are made: adversaries, latent spaces, diffusion, flows: each runs and raises nothing."""

from __future__ import annotations

from .mended_cells import Mistake, mended, planted

MISTAKES = {
    "critic and generator agree": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
G, D = nn.Linear(4, 16), nn.Linear(16, 1)
opt_g = torch.optim.RMSprop(G.parameters(), lr=5e-5)
opt_d = torch.optim.RMSprop(D.parameters(), lr=5e-5)
for it in range(4):
    z = torch.randn(64, 4)
    d_loss = D(x).mean() - D(G(z).detach()).mean()
    opt_d.zero_grad(); d_loss.backward(); opt_d.step()
    for p in D.parameters():
        p.data.clamp_(-0.01, 0.01)
    g_loss = -D(G(torch.randn(64, 4))).mean()
    opt_g.zero_grad(); g_loss.backward(); opt_g.step()
""",
        (("D(x).mean() - D(G(z).detach()).mean()", "D(G(z).detach()).mean() - D(x).mean()"),),
    ),
    "penalty without a graph": Mistake(
        "cut",
        9,
        """
torch.manual_seed(0)
G = nn.Linear(4, 16)
D = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-4, betas=(0.0, 0.9))
def gradient_penalty(real, fake):
    a = torch.rand(real.size(0), 1)
    mixed = (a * real + (1 - a) * fake).requires_grad_(True)
    score = D(mixed)
    grad = torch.autograd.grad(score.sum(), mixed)[0]
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()
for it in range(4):
    fake = G(torch.randn(64, 4)).detach()
    loss = D(fake).mean() - D(x).mean() + 10 * gradient_penalty(x, fake)
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
""",
        (),
    ),
    "hinge turned": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
gen, dis = nn.Linear(4, 16), nn.Linear(16, 1)
g_opt, d_opt = torch.optim.Adam(gen.parameters(), 1e-4), torch.optim.Adam(dis.parameters(), 4e-4)
for it in range(3):
    fake = gen(torch.randn(64, 4))
    real_out, fake_out = dis(x), dis(fake.detach())
    d_loss = F.relu(1 + real_out).mean() + F.relu(1 - fake_out).mean()
    d_opt.zero_grad(); d_loss.backward(); d_opt.step()
    g_loss = -dis(gen(torch.randn(64, 4))).mean()
    g_opt.zero_grad(); g_loss.backward(); g_opt.step()
""",
        (("1 + real_out", "1 - real_out"), ("1 - fake_out", "1 + fake_out")),
    ),
    "a log-variance that cannot be negative": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(16, 32)
        self.fc_mu, self.fc_logvar = nn.Linear(32, 2), nn.Linear(32, 2)
        self.dec = nn.Linear(2, 16)
    def encode(self, inp):
        h = F.relu(self.enc(inp))
        return self.fc_mu(h), F.relu(self.fc_logvar(h))
    def forward(self, inp):
        mu, logvar = self.encode(inp)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.dec(z), mu, logvar
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=1e-3)
for e in range(4):
    out, mu, logvar = vae(x)
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1).mean()
    loss = F.mse_loss(out, x, reduction="none").sum(1).mean() + kld
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("F.relu(self.fc_logvar(h))", "self.fc_logvar(h)"),),
    ),
    "divergence the other way": Mistake(
        "loss",
        11,
        """
torch.manual_seed(0)
Normal, kl_divergence = torch.distributions.Normal, torch.distributions.kl_divergence
enc, dec = nn.Linear(16, 8), nn.Linear(4, 16)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-3)
prior = Normal(torch.zeros(4), torch.ones(4))
for it in range(4):
    m, s = enc(x).chunk(2, 1)
    posterior = Normal(m, F.softplus(s))
    z = posterior.rsample()
    recon = ((dec(z) - x) ** 2).sum(1).mean()
    kl = kl_divergence(prior, posterior).sum(1).mean()
    loss = recon + kl
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("kl_divergence(prior, posterior)", "kl_divergence(posterior, prior)"),),
    ),
    "prior minus posterior": Mistake(
        "loss",
        11,
        """
torch.manual_seed(0)
mu = nn.Parameter(torch.zeros(16)); rho = nn.Parameter(torch.full((16,), -3.0))
opt = torch.optim.Adam([mu, rho], lr=1e-2)
normal = torch.distributions.Normal
for it in range(4):
    sigma = F.softplus(rho)
    w = mu + sigma * torch.randn(16)
    log_prior = normal(0.0, 1.0).log_prob(w).sum()
    log_post = normal(mu, sigma).log_prob(w).sum()
    nll = ((x @ w - y) ** 2).sum()
    loss = nll + (log_prior - log_post)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("(log_prior - log_post)", "(log_post - log_prior)"),),
    ),
    "dropout that sleeps": Mistake(
        "evaluation",
        10,
        """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for it in range(4):
    loss = F.mse_loss(model(x).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
model.eval()
def mc_predict(net, inputs, n_samples=20):
    with torch.no_grad():
        preds = torch.stack([net(inputs) for _ in range(n_samples)])
    return preds.mean(0), preds.std(0)
mean, uncertainty = mc_predict(model, x)
print(uncertainty.mean().item())
""",
        (("model.eval()", "model.train()"),),
    ),
    "another noise than was added": Mistake(
        "loss",
        12,
        """
torch.manual_seed(0)
T = 50
beta = torch.linspace(1e-4, 0.02, T)
abar = torch.cumprod(1 - beta, 0)
net = nn.Linear(17, 16)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(4):
    t = torch.randint(0, T, (64,))
    a = abar[t][:, None]
    xt = a.sqrt() * x + (1 - a).sqrt() * torch.randn_like(x)
    pred = net(torch.cat([xt, t[:, None] / T], 1))
    loss = F.mse_loss(pred, torch.randn_like(x))
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            ("    t = torch.randint", "    noise = torch.randn_like(x)\n    t = torch.randint"),
            ("torch.randn_like(x)\n    pred", "noise\n    pred"),
            ("F.mse_loss(pred, torch.randn_like(x))", "F.mse_loss(pred, noise)"),
        ),
    ),
    "backwards in the wrong direction": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
timesteps = 20
betas = torch.linspace(5e-3, 0.6, timesteps)
alphas = 1 - betas
alpha_bars = torch.cumprod(alphas, dim=0)
model = nn.Linear(16, 16)
@torch.no_grad()
def sample(n):
    img = torch.randn(n, 16)
    for t in range(timesteps):
        eps = model(img)
        mean = (img - betas[t] / (1 - alpha_bars[t]).sqrt() * eps) / alphas[t].sqrt()
        img = mean + betas[t].sqrt() * torch.randn_like(img) if t > 0 else mean
    return img
print(sample(8).std().item())
""",
        (("in range(timesteps)", "in reversed(range(timesteps))"),),
    ),
    "product of the betas": Mistake(
        "loss",
        3,
        """
torch.manual_seed(0)
betas = torch.linspace(1e-4, 0.02, 100)
alphas_cumprod = torch.cumprod(betas, dim=0)
net = nn.Linear(16, 16)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(3):
    t = torch.randint(0, 100, (64,))
    a, noise = alphas_cumprod[t].view(-1, 1), torch.randn_like(x)
    loss = F.mse_loss(net(a.sqrt() * x + (1 - a).sqrt() * noise), noise)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("torch.cumprod(betas", "torch.cumprod(1 - betas"),),
    ),
    "score with the other sign": Mistake(
        "loss",
        9,
        """
torch.manual_seed(0)
score_net = nn.Sequential(nn.Linear(16, 64), nn.Softplus(), nn.Linear(64, 16))
opt = torch.optim.Adam(score_net.parameters(), lr=1e-3)
sigma = 0.5
for it in range(4):
    noise = torch.randn_like(x) * sigma
    noisy = x + noise
    target = noise / sigma ** 2
    loss = 0.5 * ((score_net(noisy) - target) ** 2).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    z = torch.randn(8, 16)
    for k in range(10):
        z = z + 0.01 * score_net(z) + (2 * 0.01) ** 0.5 * torch.randn_like(z)
""",
        (("target = noise", "target = -noise"),),
    ),
    "noise of a step's own size": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
score = nn.Linear(16, 16)
def langevin(n, steps=50, step_size=0.01):
    s = torch.randn(n, 16)
    for _ in range(steps):
        with torch.no_grad():
            s = s + step_size * score(s) + step_size * torch.randn_like(s)
    return s
print(langevin(4).std().item())
""",
        (("step_size * torch.randn_like(s)", "(2 * step_size) ** 0.5 * torch.randn_like(s)"),),
    ),
    "log-determinant with the other sign": Mistake(
        "loss",
        10,
        """
torch.manual_seed(0)
class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.s, self.t = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, v):
        a, b = v.chunk(2, 1)
        s = torch.tanh(self.s(a))
        b = b * torch.exp(s) + self.t(a)
        return torch.cat([a, b], 1), -s.sum(1)
flow = Coupling()
opt = torch.optim.Adam(flow.parameters(), lr=1e-3)
base = torch.distributions.Normal(0.0, 1.0)
for it in range(4):
    z, log_det = flow(x)
    nll = -(base.log_prob(z).sum(1) + log_det).mean()
    opt.zero_grad(); nll.backward(); opt.step()
""",
        (("-s.sum(1)", "s.sum(1)"),),
    ),
    "log-determinant of the whole batch": Mistake(
        "loss",
        8,
        """
torch.manual_seed(0)
scale_net, shift_net = nn.Linear(8, 8), nn.Linear(8, 8)
opt = torch.optim.Adam([*scale_net.parameters(), *shift_net.parameters()], lr=1e-3)
def f(v):
    v1, v2 = v[:, :8], v[:, 8:]
    log_s = torch.tanh(scale_net(v1))
    z2 = v2 * log_s.exp() + shift_net(v1)
    return torch.cat([v1, z2], dim=1), log_s.sum()
prior = torch.distributions.Normal(torch.zeros(16), torch.ones(16))
for it in range(4):
    z, logdet = f(x)
    loss = -(prior.log_prob(z).sum(1) + logdet).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("log_s.sum()", "log_s.sum(1)"),),
    ),
    "a mask that is put on once": Mistake(
        "unused",
        6,
        """
torch.manual_seed(0)
class MaskedLinear(nn.Linear):
    def __init__(self, n):
        super().__init__(n, n)
        mask = torch.tril(torch.ones(n, n), -1)
        self.weight.data *= mask
    def forward(self, inp):
        return F.linear(inp, self.weight, self.bias)
made = nn.Sequential(MaskedLinear(16), nn.ReLU(), MaskedLinear(16))
opt = torch.optim.Adam(made.parameters(), lr=1e-3)
for it in range(4):
    loss = F.mse_loss(made(x), x)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (
            ("        self.weight.data *= mask", '        self.register_buffer("mask", mask)'),
            ("F.linear(inp, self.weight, self.bias)", "F.linear(inp, self.weight * self.mask, self.bias)"),
        ),
    ),
    "times the temperature": Mistake(
        "loss",
        8,
        """
torch.manual_seed(0)
lm = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
@torch.no_grad()
def generate(start, length=10, temperature=0.7):
    out = [start]
    for _ in range(length):
        logits = lm(torch.tensor([out[-1]]))[0]
        probs = F.softmax(logits * temperature, dim=-1)
        out.append(torch.multinomial(probs, 1).item())
    return out
print(generate(3))
""",
        (("logits * temperature", "logits / temperature"),),
    ),
    "top k with zeros": Mistake(
        "loss",
        7,
        """
torch.manual_seed(0)
lm = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
@torch.no_grad()
def next_token(tok, k=5):
    logits = lm(tok)[0]
    kth = torch.topk(logits, k).values[-1]
    logits[logits < kth] = 0
    return torch.multinomial(F.softmax(logits, -1), 1)
tok = torch.tensor([1])
for i in range(8):
    tok = next_token(tok)
""",
        (("logits[logits < kth] = 0", "logits[logits < kth] = -1e9"),),
    ),
    "softmax over the batch": Mistake(
        "layout",
        6,
        """
torch.manual_seed(0)
lm = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
with torch.no_grad():
    tok = torch.randint(0, 20, (8,))
    for i in range(5):
        p = torch.softmax(lm(tok), dim=0)
        tok = torch.multinomial(p, 1).squeeze(1)
print(tok)
""",
        (("dim=0", "dim=1"),),
    ),
}
PLANTED = planted(MISTAKES)
HEALTHY = mended(MISTAKES)
