"""Healthy cells after programs that people published, of which a rule once said something; see test_healthy.py."""

from __future__ import annotations

PUBLISHED = {
    "a view that has the shape already": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.RNN(4, 8, batch_first=True), nn.Linear(8, 4)
    def forward(self, x):
        x.view(x.size(0), 4, 4)
        return self.out(self.rnn(x)[0][:, -1])
net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    loss = F.cross_entropy(net(x.reshape(64, 4, 4)), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "gradients cleared in a function of one's own": """
enc, dec = nn.Linear(16, 4), nn.Linear(4, 16)
disc = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
opt_e = torch.optim.Adam(enc.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(dec.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)
def reset_grad():
    enc.zero_grad()
    dec.zero_grad()
    disc.zero_grad()
for step in range(4):
    F.mse_loss(dec(enc(x)), x).backward()
    opt_c.step()
    opt_e.step()
    reset_grad()
    real, fake = disc(torch.randn(64, 4)), disc(enc(x))
    d_loss = -torch.mean(torch.log(real + 1e-8) + torch.log(1 - fake + 1e-8))
    d_loss.backward()
    opt_d.step()
    reset_grad()
    g_loss = -torch.mean(torch.log(disc(enc(x)) + 1e-8))
    g_loss.backward()
    opt_e.step()
    reset_grad()
""",
    "two networks from small weights at their own rates": """
torch.manual_seed(0)
data = x[:, :2] @ torch.tensor([[1.0, 2.0], [-0.1, 0.5]]) + torch.tensor([1.0, 2.0])
net_G, net_D = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))
for w in [*net_D.parameters(), *net_G.parameters()]:
    nn.init.normal_(w, 0, 0.02)
trainer_D = torch.optim.Adam(net_D.parameters(), lr=0.05)
trainer_G = torch.optim.Adam(net_G.parameters(), lr=0.005)
bce = nn.BCEWithLogitsLoss(reduction="sum")
for epoch in range(25):
    for i in range(0, 64, 8):
        trainer_D.zero_grad()
        made, real = net_G(torch.randn(8, 2)), net_D(data[i : i + 8])
        fake = net_D(made.detach())
        ((bce(real, torch.ones(8, 1)) + bce(fake, torch.zeros(8, 1))) / 2).backward()
        trainer_D.step()
        trainer_G.zero_grad()
        bce(net_D(net_G(torch.randn(8, 2))), torch.ones(8, 1)).backward()
        trainer_G.step()
""",
    "one sequence whose steps are made rows for a layer": """
class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.reg = nn.LSTM(2, 4, 2), nn.Linear(4, 1)
    def forward(self, x):
        x, _ = self.rnn(x)
        s, b, h = x.shape
        x = self.reg(x.view(s * b, h))
        return x.view(s, b, -1)
net = Regressor()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
series = torch.sin(torch.arange(64.0) / 4)
windows = torch.stack([series[:-2], series[1:-1]], 1).reshape(-1, 1, 2)
for step in range(4):
    loss = F.mse_loss(net(windows), series[2:].reshape(-1, 1, 1))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a decoder that shows samples between the epochs": """
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.decoder = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 16))
    def forward(self, x):
        return self.decoder(self.encoder(x))
net = Both()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(3):
    net.train()
    for i in range(0, 64, 16):
        loss = F.mse_loss(net(x[i : i + 16]), x[i : i + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    shown = net.decoder(torch.randn(16, 8)).detach()
""",
    "a mask of saturated noise beside the layers": """
class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(-2.0))
        self.a, self.b, self.c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
    def drop(self, h):
        p, noise = torch.sigmoid(self.p), torch.rand_like(h)
        logit = torch.log(p + 1e-7) - torch.log(1 - p + 1e-7) + torch.log(noise + 1e-7) - torch.log(1 - noise + 1e-7)
        return h * (1 - torch.sigmoid(logit / 0.1)) / (1 - p)
    def forward(self, x):
        h = F.relu(self.a(self.drop(x)))
        h = F.relu(self.b(self.drop(h)))
        return self.c(self.drop(h))
net = Dropped()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "averages of batch norm renewed by passes that nobody takes": """
net = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(8):
    net.train()
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    net[1].reset_running_stats()
    net.train()
    for part in x.split(16):
        net(part)
    net.eval()
    share = (net(x).argmax(1) == labels).float().mean().item()
""",
    "the derivative of a solution that is known": """
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
t = torch.linspace(0, 1, 32)[:, None].requires_grad_()
slope = torch.autograd.grad(torch.sin(3 * t).sum(), t)[0]
for k in range(8):
    u = net(t)
    u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    loss = (u_t - slope).square().mean() + u[0].square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "dropout alone left on, to draw several predictions": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
net.eval()
for m in net.modules():
    if isinstance(m, nn.Dropout):
        m.train()
total = torch.zeros(64, 4)
with torch.no_grad():
    for k in range(20):
        total += net(x).softmax(1)
share = (total.argmax(1) == labels).float().mean().item()
""",
    "one sentence, its time turned to the front": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.out = nn.Embedding(20, 8), nn.LSTM(8, 8), nn.Linear(8, 3)
    def forward(self, words):
        x = self.words(words).permute(1, 0, 2)
        x, _ = self.rnn(x)
        return self.out(x.view(-1, 8))
net = Tagger()
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
for k in range(4):
    sentence, tags = torch.randint(0, 20, (1, 7)), torch.randint(0, 3, (7,))
    loss = F.cross_entropy(net(sentence), tags)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "sentences of their own lengths, one by one": """
words, rnn, out = nn.Embedding(20, 8), nn.LSTM(8, 8), nn.Linear(8, 3)
opt = torch.optim.SGD([*words.parameters(), *rnn.parameters(), *out.parameters()], lr=1e-2)
for n in (7, 4, 5, 7, 4, 5):
    sentence, tags = torch.randint(0, 20, (n,)), torch.randint(0, 3, (n,))
    read, _ = rnn(words(sentence).view(n, 1, -1))
    loss = F.cross_entropy(out(read.view(n, -1)), tags)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "learning rates tried from small to large": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=1e-5)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda it: (1 / 1e-5) ** (it / 39))
history = []
for it in range(40):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    sched.step()
    history.append(loss.item())
""",
    "target networks of one class that follow, and whose gradients nobody takes": """
class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 16), nn.Linear(16, 1)
    def forward(self, s):
        return self.fc2(F.relu(self.fc1(s)))
class Agent:
    def __init__(self):
        self.critic, self.target = Q(), Q()
        self.target.load_state_dict(self.critic.state_dict())
        self.opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
    def follow(self, net, target_net):
        for t, p in zip(target_net.parameters(), net.parameters()):
            t.data.copy_(t.data * 0.95 + p.data * 0.05)
    def update(self, s, r):
        wanted = r + 0.9 * self.target(s.roll(1, 0))
        loss = torch.mean(F.mse_loss(self.critic(s), wanted))
        self.opt.zero_grad(); loss.backward(); self.opt.step()
        self.follow(self.critic, self.target)
agent = Agent()
for k in range(6):
    agent.update(x, y[:, None])
""",
    "pseudo-labels of which the model is sure": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(8):
    weak, strong = net(x + 0.05 * torch.randn_like(x)), net(x + 0.3 * torch.randn_like(x))
    sure, told = torch.softmax(weak.detach(), dim=-1).max(-1)
    mask = sure.ge(0.35).float()
    loss = F.cross_entropy(net(x[:8]), labels[:8]) + (F.cross_entropy(strong, told, reduction="none") * mask).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the loss of what is ignored set to 0": """
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
target = labels.clone()
target[::5] = 255
for k in range(6):
    ignore = target == 255
    loss = F.cross_entropy(net(x), target.masked_fill(ignore, 0), reduction="none")
    loss = loss.clone()
    loss[ignore] = 0
    loss = loss.sum() / (ignore == 0).sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a diffusion whose function gives the noise back": """
data = torch.randn(64, 2) * 0.2 + labels[:, None] * 2.0 - 1
kept = torch.cumprod(1 - torch.linspace(1e-3, 0.2, 30), 0)
def noise_images(x, t):
    e = torch.randn_like(x)
    return kept[t].sqrt()[:, None] * x + (1 - kept[t]).sqrt()[:, None] * e, e
net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
for k in range(8):
    t = torch.randint(1, 30, (64,))
    x_t, noise = noise_images(data, t)
    told = net(torch.cat([x_t, t[:, None] / 30], 1))
    loss = F.mse_loss(noise, told)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "an array that is made a table, and another weight": """
import numpy as np
values = np.random.default_rng(0).normal(size=(30, 16))
table = nn.Embedding(30, 16)
table.weight = nn.Parameter(torch.FloatTensor(values), requires_grad=False)
class Head(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.weight = nn.Parameter(torch.FloatTensor(start))
    def forward(self, nodes):
        return table(nodes) @ self.weight.t()
net = Head(values[:4] * 0.1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(6):
    loss = F.cross_entropy(net(torch.arange(64) % 30), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "batch norm by hand, its scales one at first": """
class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(1, n)), nn.Parameter(torch.zeros(1, n))
    def forward(self, x):
        mean, var = x.mean(0, keepdim=True), ((x - x.mean(0)) ** 2).mean(0, keepdim=True)
        return self.gamma * (x - mean) / torch.sqrt(var + 1e-5) + self.beta
net = nn.Sequential(nn.Linear(16, 32), Norm(32), nn.ReLU(), nn.Linear(32, 16), Norm(16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a divergence whose power is an attribute": """
class Code(nn.Module):
    def __init__(self):
        super().__init__()
        self.two, self.enc, self.dec = 2, nn.Linear(16, 8), nn.Linear(4, 16)
    def loss(self, x):
        mu, log_var = self.enc(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * log_var).exp()
        kl = -0.5 * (1 + log_var - mu.pow(self.two) - log_var.exp()).sum(1)
        return (F.mse_loss(self.dec(z), x, reduction="none").sum(1) + kl).mean()
net = Code()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for k in range(6):
    loss = net.loss(x)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "memory of anything, written next": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(16, 8), nn.Linear(8, 4)
    def forward(self, x, hidden):
        return self.out(self.rnn(x[None], hidden)[0][0])
    def first(self, n):
        weight = next(self.parameters()).data
        return weight.new(1, n, 8).zero_(), weight.new(1, n, 8).zero_()
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(6):
    loss = F.cross_entropy(net(x, net.first(64)), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "advantages over the ends, by a loop's own name": """
pi, v = nn.Linear(16, 4), nn.Linear(16, 1)
opt = torch.optim.Adam([*pi.parameters(), *v.parameters()], lr=1e-2)
done = (torch.arange(64) % 20 == 19).float()
for k in range(4):
    d = torch.distributions.Categorical(logits=pi(x))
    a = d.sample()
    r = (a == labels).float()
    with torch.no_grad():
        vs = v(x).squeeze(1)
        deltas = r + 0.99 * (1 - done) * vs.roll(-1) - vs
        adv, gae = [], 0
        for delta, ended in zip(reversed(deltas.tolist()), reversed(done.tolist())):
            gae = delta + 0.99 * 0.95 * gae * (1.0 - ended)
            adv.insert(0, gae)
        adv = torch.tensor(adv)
        goal = adv + vs
    loss = -(d.log_prob(a) * adv).mean() + 0.5 * F.mse_loss(v(x).squeeze(1), goal)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a second derivative of one column, and columns of the data": """
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
points = torch.rand(64, 2)
px = points[:, 0:1].clone().requires_grad_()
pt = points[:, 1:2].clone().requires_grad_()
for k in range(4):
    u = net(torch.cat([px, pt], 1))
    u_t = torch.autograd.grad(u, pt, grad_outputs=torch.ones_like(u), create_graph=True)[0]
    u_x = torch.autograd.grad(u, px, grad_outputs=torch.ones_like(u), create_graph=True)[0]
    u_xx = torch.autograd.grad(u_x, px, grad_outputs=torch.ones_like(u_x), create_graph=True)[0]
    loss = (u_t - 0.1 * u_xx).square().mean() + (u - torch.sin(3 * px)).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "half weights beside whole ones": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).bfloat16()
whole = [p.detach().clone().float().requires_grad_() for p in net.parameters()]
opt = torch.optim.SGD(whole, lr=0.1)
for k in range(5):
    loss = F.cross_entropy(net(x.bfloat16()).float(), labels)
    net.zero_grad()
    (loss * 64.0).backward()
    for p, w in zip(net.parameters(), whole):
        w.grad = p.grad.float() / 64.0
    opt.step()
    for p, w in zip(net.parameters(), whole):
        p.data.copy_(w.data)
""",
    "targets of one class that load the state now and then": """
class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 16), nn.Linear(16, 1)
    def forward(self, s):
        return self.fc2(F.relu(self.fc1(s)))
class DQN:
    def __init__(self):
        self.q_net, self.target_q_net = Q(), Q()
        self.optimizer, self.count = torch.optim.Adam(self.q_net.parameters(), lr=1e-3), 0
    def update(self, s, r):
        goal = r + 0.9 * self.target_q_net(s.roll(1, 0))
        loss = torch.mean(F.mse_loss(self.q_net(s), goal))
        self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
        if self.count % 3 == 0:
            self.target_q_net.load_state_dict(self.q_net.state_dict())
        self.count += 1
agent = DQN()
for k in range(8):
    agent.update(x, y[:, None])
""",
    "samples moved against the model, and trained on": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for k in range(6):
    xb = x.clone().requires_grad_(True)
    opt.zero_grad()
    F.cross_entropy(net(xb), labels).backward(retain_graph=True)
    x_adv = xb.detach() + 0.05 * torch.sign(xb.grad)
    F.cross_entropy(net(x_adv), labels).backward()
    opt.step()
""",
    "weights of the samples by a look ahead": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for k in range(4):
    eps = torch.zeros(48, requires_grad=True)
    cost = F.cross_entropy(net(x[:48]), labels[:48], reduction="none")
    grads = torch.autograd.grad((cost * eps).sum(), list(net.parameters()), create_graph=True)
    w1, b1, w2, b2 = [p - 0.1 * g for p, g in zip(net.parameters(), grads)]
    ahead = F.linear(F.relu(F.linear(x[48:], w1, b1)), w2, b2)
    by = torch.autograd.grad(F.cross_entropy(ahead, labels[48:]), eps)[0]
    w = torch.clamp(-by, min=0)
    w = w / w.sum().clamp(min=1e-8)
    loss = (F.cross_entropy(net(x[:48]), labels[:48], reduction="none") * w).sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "gradients of two goals, taken one by one": """
net, a, b = nn.Linear(16, 8), nn.Linear(8, 4), nn.Linear(8, 1)
params = [*net.parameters(), *a.parameters(), *b.parameters()]
opt = torch.optim.Adam(params, lr=1e-2)
def taken(loss):
    opt.zero_grad()
    loss.backward(retain_graph=True)
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in params]
for k in range(6):
    h = torch.relu(net(x))
    one, two = taken(F.cross_entropy(a(h), labels)), taken(F.mse_loss(b(h), y[:, None]))
    for p, g1, g2 in zip(params, one, two):
        dot = (g1 * g2).sum()
        p.grad = g1 + g2 if dot >= 0 else g1 + g2 - dot * g2 / g2.square().sum().clamp(min=1e-12)
    opt.step()
""",
    "heads of a published model that the loss leaves out": """
class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.state, self.action = nn.Linear(16, 8), nn.Linear(8, 16), nn.Linear(8, 4)
    def forward(self, x):
        h = torch.relu(self.body(x))
        state = self.state(h)
        return state, self.action(h)
net = Sequence()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for k in range(4):
    _, action = net(x)
    loss = F.cross_entropy(action, labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "the forward algorithm of a Markov chain": """
start, moves, emits = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4, 4))
opt = torch.optim.Adam([start, moves, emits], lr=0.05)
seen = labels.reshape(16, 4)
def moved(log_alpha):
    log_moves = F.log_softmax(moves, dim=0)
    return torch.logsumexp(log_moves.unsqueeze(0) + log_alpha.unsqueeze(1), dim=2)
for k in range(4):
    log_emits = F.log_softmax(emits, dim=1)
    log_alpha = F.log_softmax(start, dim=0) + log_emits[:, seen[:, 0]].t()
    for t in range(1, 4):
        log_alpha = log_emits[:, seen[:, t]].t() + moved(log_alpha)
    loss = -torch.logsumexp(log_alpha, dim=1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "outputs put together for a step by given gradients": """
net = nn.Linear(16, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for k in range(4):
    grads, outs = [], []
    for i in range(6):
        out = net(x[i * 10:i * 10 + 10])
        outs.append(out)
        with torch.no_grad():
            grads.append(out.sigmoid() - (labels[i * 10:i * 10 + 10, None] > 1).float())
        if len(outs) == 3:
            for g, o in zip(grads, outs):
                o.backward(g / 3)
            opt.step(); opt.zero_grad()
            grads, outs = [], []
""",
}
