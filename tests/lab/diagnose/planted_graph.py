"""Graphs that are cut, and parameters that no gradient reaches; see planted.py."""

from __future__ import annotations

from .planted_more import Planted

GRAPH: dict[str, Planted] = {
    "GAN: generator step with detached fakes": Planted(
        "cut",
        (15,),
        """
torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 2))
netD = nn.Sequential(nn.Linear(2, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3)
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for it in range(4):
    real = torch.randn(16, 2) * 0.5 + 1
    fake = netG(torch.randn(16, 3))
    netD.zero_grad()
    errD = criterion(netD(real), torch.ones(16, 1)) + criterion(netD(fake.detach()), torch.zeros(16, 1))
    errD.backward()
    optimizerD.step()
    netG.zero_grad()
    errG = criterion(netD(fake.detach()), torch.ones(16, 1))
    errG.backward()
    optimizerG.step()
""",
    ),
    "custom Function forgets the weight's gradient": Planted(
        "no-gradient",
        (16,),
        """
class MyLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, None

class Layer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i) * 0.1)
    def forward(self, x):
        return MyLinear.apply(x, self.weight)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), Layer(6, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(model(torch.randn(10, 5)), torch.randint(0, 3, (10,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "all frozen, the new head too": Planted(
        "no-gradient",
        (17,),
        """
class Pretrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, 20), nn.ReLU())
        self.fc = nn.Linear(20, 100)
    def forward(self, x):
        return self.fc(self.features(x))

torch.manual_seed(0)
model = Pretrained()
model.fc = nn.Linear(20, 2)
for param in model.parameters():
    param.requires_grad = False
optimizer = torch.optim.SGD(model.fc.parameters(), lr=1e-2)
x, y = torch.randn(8, 10), torch.randint(0, 2, (8,))
loss = F.cross_entropy(model(x), y)
loss.backward()
optimizer.step()
""",
    ),
    "ranking loss by argsort": Planted(
        "cut",
        (2,),
        """
def spearman_loss(pred, target):
    rank_p = torch.argsort(torch.argsort(pred)).float()
    rank_t = torch.argsort(torch.argsort(target)).float()
    return ((rank_p - rank_t) ** 2).mean()

torch.manual_seed(0)
ranker = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
opt = torch.optim.Adam(ranker.parameters(), lr=1e-3)
x, rel = torch.randn(16, 6), torch.rand(16)
opt.zero_grad()
l = spearman_loss(ranker(x).squeeze(-1), rel)
l.backward()
opt.step()
""",
    ),
    "nn.Parameter made in forward": Planted(
        "cut",
        (7,),
        """
class Attn(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.key = nn.Linear(d, d)
        self.value = nn.Linear(d, d)
    def forward(self, x):
        scores = nn.Parameter(torch.softmax(self.key(x) @ x.transpose(1, 2), dim=-1))
        return scores @ self.value(x)

torch.manual_seed(0)
attn = Attn(6)
opt = torch.optim.SGD(attn.parameters(), lr=0.05)
for it in range(3):
    x = torch.randn(2, 4, 6)
    loss = F.mse_loss(attn(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "student inside the teacher's no_grad": Planted(
        "cut",
        (8,),
        """
torch.manual_seed(0)
teacher, student = nn.Linear(8, 4), nn.Linear(8, 4)
opt = torch.optim.SGD(student.parameters(), lr=0.1)

def distill(x, T=2.0):
    with torch.no_grad():
        t = F.softmax(teacher(x) / T, dim=1)
        s = F.log_softmax(student(x) / T, dim=1)
    return F.kl_div(s, t, reduction="batchmean") * T * T

for step in range(3):
    opt.zero_grad()
    loss = distill(torch.randn(16, 8))
    loss.backward()
    opt.step()
""",
    ),
    "set_grad_enabled(False) left behind": Planted(
        "no-gradient",
        (13,),
        """
torch.manual_seed(0)
net = nn.Linear(6, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)

def validate():
    torch.set_grad_enabled(False)
    return F.cross_entropy(net(torch.randn(10, 6)), torch.randint(0, 3, (10,))).item()

try:
    for epoch in range(2):
        opt.zero_grad()
        loss = F.cross_entropy(net(torch.randn(20, 6)), torch.randint(0, 3, (20,)))
        loss.backward()
        opt.step()
        validate()
finally:
    torch.set_grad_enabled(True)
""",
    ),
    "bernoulli sample in the middle": Planted(
        "cut",
        (6,),
        """
torch.manual_seed(0)
gate_net, body = nn.Linear(9, 9), nn.Linear(9, 1)
opt = torch.optim.Adam([*gate_net.parameters(), *body.parameters()], lr=1e-3)
for i in range(4):
    x = torch.randn(32, 9)
    keep = torch.bernoulli(torch.sigmoid(gate_net(x)))
    loss = F.mse_loss(body(x * keep), x.sum(1, keepdim=True))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "log probabilities stored as numbers": Planted(
        "cut",
        (9,),
        """
torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
log_probs, rewards = [], []
for t in range(15):
    s = torch.randn(3)
    logp = F.log_softmax(policy(s), dim=0)
    a = int(torch.multinomial(logp.exp(), 1))
    log_probs.append(logp[a].item())
    rewards.append(float(a == 1))
policy_loss = torch.tensor([-lp * r for lp, r in zip(log_probs, rewards)], requires_grad=True).sum()
optimizer.zero_grad()
policy_loss.backward()
optimizer.step()
""",
    ),
    "VAE sampled with torch.normal": Planted(
        "cut",
        (7,),
        """
torch.manual_seed(0)
enc_mu, enc_ls = nn.Linear(10, 2), nn.Linear(10, 2)
dec = nn.Linear(2, 10)
opt = torch.optim.Adam([*enc_mu.parameters(), *enc_ls.parameters(), *dec.parameters()], lr=1e-3)
for i in range(3):
    x = torch.randn(16, 10)
    z = torch.normal(enc_mu(x), enc_ls(x).exp())
    loss = F.mse_loss(dec(z), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "loss between input and target": Planted(
        "no-gradient",
        (10,),
        """
torch.manual_seed(0)
ae = nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 12))
opt = torch.optim.Adam(ae.parameters(), lr=1e-3)
for epoch in range(2):
    batch = torch.randn(16, 12)
    noisy = batch + 0.1 * torch.randn_like(batch)
    recon = ae(noisy)
    loss = F.mse_loss(noisy, batch)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "detach_": Planted(
        "cut",
        (4,),
        """
a = nn.Linear(16, 8)
b = nn.Linear(8, 4)
h = torch.relu(a(x))
h.detach_()
loss = F.cross_entropy(b(h), labels)
loss.backward()
""",
    ),
    "frozen and forgotten": Planted(
        "no-gradient",
        (4,),
        """
enc = nn.Linear(16, 8)
head = nn.Linear(8, 4)
for p in enc.parameters():
    p.requires_grad = False
opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], lr=0.1)
for _ in range(3):
    opt.zero_grad()
    F.cross_entropy(head(torch.relu(enc(x))), labels).backward()
    opt.step()
""",
    ),
    "custom function returns None": Planted(
        "no-gradient",
        (9,),
        """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        return v * 2
    @staticmethod
    def backward(ctx, g):
        return None
model = nn.Linear(16, 4)
h = Scale.apply(model(x))
head = nn.Linear(4, 4)
loss = F.cross_entropy(head(h), labels)
loss.backward()
""",
    ),
    "numpy loss in method": Planted(
        "cut",
        (8,),
        """
class Fit:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
        self.opt = torch.optim.Adam(self.net.parameters())
    def predict(self, v):
        return self.net(v).squeeze(-1)
    def loss(self, p):
        p = p.detach().cpu().numpy()
        return np.mean((p - y.numpy()) ** 2)
    def fit(self, n):
        for _ in range(n):
            self.opt.zero_grad()
            l = torch.tensor(self.loss(self.predict(x)), requires_grad=True)
            l.backward()
            self.opt.step()
Fit().fit(3)
""",
    ),
    "topk indices": Planted(
        "cut",
        (4,),
        """
gate, e = nn.Linear(16, 4), nn.Embedding(4, 8)
head = nn.Linear(8, 4)
opt = torch.optim.Adam([*gate.parameters(), *e.parameters(), *head.parameters()])
idx = gate(x).topk(1, dim=1).indices.squeeze(1)
loss = F.cross_entropy(head(e(idx)), labels)
opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "multinomial sample policy": Planted(
        "cut",
        (5,),
        """
policy, value = nn.Linear(16, 4), nn.Linear(4, 1)
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()])
for _ in range(3):
    p = torch.softmax(policy(x), -1)
    a = torch.multinomial(p, 1).squeeze(1)
    r = value(F.one_hot(a, 4).float()).mean()
    opt.zero_grad(); (-r).backward(); opt.step()
""",
    ),
    "set_grad_enabled false": Planted(
        "cut",
        (4,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.set_grad_enabled(False):
    out = model(x)
    loss = F.cross_entropy(out, labels)
loss.backward()
""",
    ),
}
