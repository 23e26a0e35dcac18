"""Cells whose batches, targets, layers or draws are other than they seem."""

from __future__ import annotations

from .planted_more import Planted

BATCHES: dict[str, Planted] = {
    "inputs and targets shuffled apart": Planted(
        "loop",
        (7,),
        """
torch.manual_seed(0)
X = torch.randn(64, 4); y = (X[:, 0] > 0).long()
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for ep in range(5):
    Xs = X[torch.randperm(64)]
    ys = y[torch.randperm(64)]
    loss = F.cross_entropy(net(Xs), ys)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "the first batch in every step": Planted(
        "loop",
        (7,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 4), torch.randn(64, 1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=8)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    xb, yb = next(iter(loader))
    loss = F.mse_loss(net(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a return inside the loop over batches": Planted(
        "loop",
        (12,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 4), torch.randn(64, 1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=8)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def train_epoch():
    total = 0.
    for xb, yb in loader:
        loss = F.mse_loss(net(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
        total += loss.item()
        return total / len(loader)
for e in range(5): print(train_epoch())
""",
    ),
    "logits against -1 and 1": Planted(
        "loss",
        (6,),
        """
torch.manual_seed(0)
X = torch.randn(64, 4); y = torch.sign(X[:, :1])
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(30):
    loss = F.binary_cross_entropy_with_logits(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "logits against pixels": Planted(
        "loss",
        (6,),
        """
torch.manual_seed(0)
X = torch.randint(0, 256, (32, 64)).float()
net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 64))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for i in range(5):
    loss = F.binary_cross_entropy_with_logits(net(X / 255), X)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "one layer three times": Planted(
        "layer",
        (2,),
        """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), *([nn.Linear(16, 16), nn.ReLU()] * 3), nn.Linear(16, 3))
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for i in range(5):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a scheduler that nothing steps": Planted(
        "learning-rate",
        (5,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.1)
for ep in range(10):
    loss = F.cross_entropy(net(X), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a schedule stepped for every batch": Planted(
        "learning-rate",
        (10,),
        """
torch.manual_seed(0)
X, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
for ep in range(5):
    for i in range(0, 64, 4):
        loss = F.cross_entropy(net(X[i:i+4]), y[i:i+4])
        opt.zero_grad(); loss.backward(); opt.step()
        sched.step()
""",
    ),
    "sample() in place of rsample()": Planted(
        "cut",
        (12,),
        """
class VAE(nn.Module):
    def __init__(self, d=16, z=3):
        super().__init__()
        self.enc = nn.Linear(d, 32)
        self.mu, self.logvar = nn.Linear(32, z), nn.Linear(32, z)
        self.dec = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        q = torch.distributions.Normal(mu, torch.exp(0.5 * logvar))
        z = q.sample()
        return self.dec(z), mu, logvar

def elbo(recon, x, mu, logvar):
    rec = F.mse_loss(recon, x, reduction="sum") / x.shape[0]
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec + kl

x = torch.randn(64, 3) @ torch.randn(3, 16)
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=1e-3)
for epoch in range(8):
    recon, mu, logvar = vae(x)
    loss = elbo(recon, x, mu, logvar)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a loss that is only logged": Planted(
        "no-gradient",
        (21,),
        """
class FaceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(40, 32), nn.ReLU())
        self.age_head = nn.Linear(32, 1)
        self.gender_head = nn.Linear(32, 2)

    def forward(self, batch):
        h = self.trunk(batch["x"])
        return {"age": self.age_head(h).squeeze(1), "gender": self.gender_head(h)}

torch.manual_seed(3)
feats = torch.randn(60, 40)
batch = {"x": feats, "age": feats[:, 0] * 0.5 + 0.1, "gender": (feats[:, 1] > 0).long()}
face = FaceNet()
optimizer = torch.optim.AdamW(face.parameters(), lr=1e-3)
log = []
for step in range(10):
    optimizer.zero_grad()
    out = face(batch)
    loss_age = F.l1_loss(out["age"], batch["age"])
    loss_gender = F.cross_entropy(out["gender"], batch["gender"])
    loss = loss_gender
    loss.backward()
    optimizer.step()
    log.append((loss_age.item(), loss_gender.item()))
""",
    ),
    "a scored sample, and a constant of its log-probabilities": Planted(
        "cut",
        (25,),
        """
class Policy(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, 32), nn.Tanh(), nn.Linear(32, n_act))

    def forward(self, s):
        return torch.distributions.Categorical(logits=self.body(s))

policy = Policy(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
gamma = 0.95
for episode in range(4):
    state, log_probs, rewards = torch.randn(4), [], []
    for t in range(8):
        dist = policy(state)
        a = dist.sample()
        log_probs.append(dist.log_prob(a))
        rewards.append(1.0 if a.item() == int(state[0].item() > 0) else 0.0)
        state = torch.randn(4)
    G, returns = 0.0, []
    for r in rewards[::-1]:
        G = r + gamma * G
        returns.insert(0, G)
    returns = torch.tensor(returns)
    logp = torch.tensor(log_probs, requires_grad=True)
    loss = -(logp * (returns - returns.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "a softmax over a dimension of size 1": Planted(
        "loss",
        (9,),
        """
class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.proj = nn.Linear(hidden, hidden)
        self.energy = nn.Linear(hidden, 1)

    def forward(self, enc):
        e = self.energy(torch.tanh(self.proj(enc)))
        weights = F.softmax(e, dim=-1)
        return (weights * enc).sum(dim=1), weights

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(10, 24, batch_first=True)
        self.attn = Attention(24)
        self.fc = nn.Linear(24, 2)

    def forward(self, x):
        enc, _ = self.rnn(x)
        ctx, w = self.attn(enc)
        return self.fc(ctx)

seqs, labels = torch.randn(16, 9, 10), torch.arange(16) % 2
clf = Classifier()
opt = torch.optim.Adam(clf.parameters(), lr=2e-3)
for step in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(clf(seqs), labels)
    loss.backward()
    opt.step()
""",
    ),
    "an optimizer of the target network": Planted(
        "optimizer",
        (19,),
        """
def q_net():
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))

policy_net, target_net = q_net(), q_net()
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.AdamW(target_net.parameters(), lr=1e-3)
memory = [(torch.randn(4), i % 2, float(i % 3), torch.randn(4)) for i in range(128)]

def optimize(batch, gamma=0.99):
    s, a, r, s2 = zip(*batch)
    s, s2 = torch.stack(s), torch.stack(s2)
    a, r = torch.tensor(a), torch.tensor(r)
    q = policy_net(s).gather(1, a.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        q_next = target_net(s2).max(1)[0]
    loss = F.smooth_l1_loss(q, r + gamma * q_next)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

for k in range(4):
    optimize(memory[k * 32:(k + 1) * 32])
""",
    ),
    "messages added where indices repeat": Planted(
        "indexing",
        (10,),
        """
class GraphConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out)

    def forward(self, h, edge_index):
        src, dst = edge_index
        msg = self.lin(h)[src]
        agg = torch.zeros(h.shape[0], msg.shape[1])
        agg[dst] += msg
        return agg

n_nodes, n_edges = 20, 90
h = torch.randn(n_nodes, 8)
edge_index = torch.randint(0, n_nodes, (2, n_edges))
labels = torch.randint(0, 3, (n_nodes,))
conv1, conv2 = GraphConv(8, 16), GraphConv(16, 3)
opt = torch.optim.Adam(list(conv1.parameters()) + list(conv2.parameters()), lr=1e-2)
for epoch in range(8):
    out = conv2(torch.relu(conv1(h, edge_index)), edge_index)
    loss = F.cross_entropy(out, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
}
