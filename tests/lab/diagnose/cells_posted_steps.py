"""Training after what people post of their own programs: rates, critics, orders and copies of samples, noise; beside
what mends them."""

from __future__ import annotations

from .planted_more import Planted

_POSTED: dict[str, tuple[str, tuple[int, ...], list[tuple[str, str]], str]] = {
    "a warm-up in each epoch": (
        "learning-rate",
        (13,),
        [("warmup_lr(i, warmup_steps", "warmup_lr(epoch * iters_per_epoch + i, warmup_steps")],
        """
def warmup_lr(step, max_step, optimizer, init_lr, max_lr):
    lr = min(max_lr, init_lr + (max_lr - init_lr) * step / max(max_step, 1))
    for group in optimizer.param_groups:
        group["lr"] = lr


x, y = torch.randn(400, 8), torch.randn(400, 1)
model = nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
iters_per_epoch, warmup_steps = 10, 35
for epoch in range(8):
    for i, idx in enumerate(torch.randperm(400).split(40)):
        warmup_lr(i, warmup_steps, optimizer, 1e-6, 1e-2)
        loss = F.mse_loss(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    "a scheduler of the other optimizer": (
        "learning-rate",
        (7,),
        [
            (
                "d_scheduler = torch.optim.lr_scheduler.StepLR(g_optimizer",
                "d_scheduler = torch.optim.lr_scheduler.StepLR(d_optimizer",
            )
        ],
        """
real = torch.randn(256, 2) * 0.3 + 1
g_model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
d_model = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_optimizer = torch.optim.Adam(g_model.parameters(), 1e-3)
d_optimizer = torch.optim.Adam(d_model.parameters(), 1e-3)
g_scheduler = torch.optim.lr_scheduler.StepLR(g_optimizer, 5, 0.5)
d_scheduler = torch.optim.lr_scheduler.StepLR(g_optimizer, 5, 0.5)
for epoch in range(12):
    for batch in real.split(64):
        fake = g_model(torch.randn(len(batch), 4))
        d_loss = F.softplus(-d_model(batch)).mean() + F.softplus(d_model(fake.detach())).mean()
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()
        g_loss = F.softplus(-d_model(fake)).mean()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
    g_scheduler.step()
    d_scheduler.step()
""",
    ),
    "frozen vectors in the optimizer": (
        "no-gradient",
        (9, 19),
        [("from_pretrained(vectors)", "from_pretrained(vectors, freeze=False)")],
        """
glove = torch.randn(200, 16)
tokens, y = torch.randint(0, 200, (128, 9)), torch.randint(0, 2, (128,))


class TextClassifier(nn.Module):
    def __init__(self, vectors):
        super().__init__()
        # fine-tune the word vectors with the rest
        self.embedding = nn.Embedding.from_pretrained(vectors)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.fc = nn.Linear(16, 2)
    def forward(self, t):
        _, (h, _) = self.lstm(self.embedding(t))
        return self.fc(h[-1])


model = TextClassifier(glove)
opt = torch.optim.Adam([
    {"params": model.embedding.parameters(), "lr": 1e-4},
    {"params": [*model.lstm.parameters(), *model.fc.parameters()], "lr": 1e-3}])
for epoch in range(6):
    loss = F.cross_entropy(model(tokens), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a generator with its critic": (
        "loss",
        (17,),
        [("g_loss.backward(one)", "g_loss.backward(mone)")],
        """
real = torch.randn(256, 2) * 0.3 + 1
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_opt, d_opt = torch.optim.RMSprop(G.parameters(), 5e-5), torch.optim.RMSprop(D.parameters(), 5e-5)
one, mone = torch.tensor(1.0), torch.tensor(-1.0)
for it in range(15):
    for p in D.parameters():
        p.data.clamp_(-0.01, 0.01)
    D.zero_grad()
    d_loss_real = D(real).mean()
    d_loss_real.backward(mone)
    d_loss_fake = D(G(torch.randn(256, 4)).detach()).mean()
    d_loss_fake.backward(one)
    d_opt.step()
    G.zero_grad()
    g_loss = D(G(torch.randn(256, 4))).mean()
    g_loss.backward(one)
    g_opt.step()
""",
    ),
    "a critic that nothing bounds": (
        "loss",
        (9, 12),
        [
            (
                "        opt_C.step()\n",
                (
                    "        opt_C.step()\n"
                    "        for p in critic.parameters():\n"
                    "            p.data.clamp_(-0.05, 0.05)\n"
                ),
            )
        ],
        """
real = torch.randn(512, 2) * 0.3 + 1
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_G = torch.optim.RMSprop(G.parameters(), lr=1e-3)
opt_C = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
for it in range(40):
    for _ in range(3):
        z = torch.randn(512, 4)
        loss_C = critic(G(z).detach()).mean() - critic(real).mean()
        opt_C.zero_grad()
        loss_C.backward()
        opt_C.step()
    loss_G = -critic(G(torch.randn(512, 4))).mean()
    opt_G.zero_grad()
    loss_G.backward()
    opt_G.step()
print(loss_C.item(), loss_G.item())
""",
    ),
    "an encoder across rows": (
        "layout",
        (10, 11, 16),
        [("self.encoder(h)", "self.encoder(h.transpose(0, 1)).transpose(0, 1)")],
        """
rows, cols, d = 40, 7, 12
table = torch.randint(0, 30, (rows, cols))
y = torch.randint(0, 2, (rows,))


class TabFormer(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, d)
        layer = nn.TransformerEncoderLayer(d, 2, 24, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(cols * d, 2)

    def forward(self, t):
        h = self.emb(t)
        h = self.encoder(h)
        return self.head(h.reshape(len(t), -1))


model = TabFormer()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(15):
    loss = F.cross_entropy(model(table), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a teacher of another pass": (
        "data",
        (3, 11, 13, 14, 19, 21),
        [
            (
                "        t_out = teacher_outputs[i]\n",
                ("        with torch.no_grad():\n            t_out = teacher(xb)\n"),
            ),
            (
                (
                    "teacher_outputs = []\n"
                    "with torch.no_grad():\n"
                    "    for xb, _ in loader:\n"
                    "        teacher_outputs.append(teacher(xb))\n"
                ),
                "",
            ),
        ],
        """
x = torch.randn(320, 10)
y = x[:, :4].argmax(1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=40, shuffle=True)
teacher = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 4))
opt = torch.optim.Adam(teacher.parameters(), 1e-2)
for _ in range(4):
    for xb, yb in loader:
        loss = F.cross_entropy(teacher(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
teacher.eval()
teacher_outputs = []
with torch.no_grad():
    for xb, _ in loader:
        teacher_outputs.append(teacher(xb))
student = nn.Linear(10, 4)
optimizer = torch.optim.Adam(student.parameters(), 1e-2)
T, alpha = 4.0, 0.9
for epoch in range(5):
    for i, (xb, yb) in enumerate(loader):
        out = student(xb)
        t_out = teacher_outputs[i]
        kd = F.kl_div(F.log_softmax(out / T, 1), F.softmax(t_out / T, 1), reduction="batchmean") * (alpha * T * T)
        loss = kd + F.cross_entropy(out, yb) * (1 - alpha)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    "a target on a scale of its own": (
        "data",
        (10, 11),
        [("return x, y", "return x, (y - mean) / std")],
        """
class Windows(torch.utils.data.Dataset):
    def __init__(self, series, past=12, ahead=3):
        self.series, self.past, self.ahead = series, past, ahead
    def __len__(self):
        return len(self.series) - self.past - self.ahead
    def __getitem__(self, i):
        x = self.series[i:i + self.past]
        y = self.series[i + self.past:i + self.past + self.ahead]
        mean, std = x.mean(), x.std()
        x = (x - mean) / std
        return x, y


series = 130 + torch.randn(90).cumsum(0)
loader = torch.utils.data.DataLoader(Windows(series), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(2):
    for x, y in loader:
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
""",
    ),
    "noise drawn before the epochs": (
        "data",
        (4, 9, 12),
        [("x0, noise = data[idx], fixed_noise[idx]", "x0, noise = data[idx], torch.randn(len(idx), 6)")],
        """
T = 50
alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.2, T), 0)
data = torch.randn(300, 6) * 0.3 + 1
fixed_noise = torch.randn_like(data)
model = nn.Sequential(nn.Linear(7, 64), nn.SiLU(), nn.Linear(64, 6))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(20):
    for idx in torch.randperm(300).split(50):
        x0, noise = data[idx], fixed_noise[idx]
        t = torch.randint(0, T, (len(idx),))
        a = alpha_bar[t][:, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        loss = F.mse_loss(model(torch.cat([xt, t[:, None] / T], 1)), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    ),
    "states handed out and changed": (
        "alias",
        (7, 10, 20),
        [("return self.state", "return self.state.copy()")],
        """
import random
class Cart:
    def __init__(self):
        self.state = np.zeros(4, dtype=np.float32)
    def reset(self):
        self.state[:] = np.random.uniform(-0.05, 0.05, 4)
        return self.state
    def step(self, action):
        self.state += 0.1 * np.random.randn(4).astype(np.float32) + 0.05 * (2 * action - 1)
        return self.state, 1.0, bool(abs(self.state[0]) > 1)


env, memory = Cart(), []
q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
state = env.reset()
for t in range(300):
    action = random.randrange(2)
    nxt, reward, done = env.step(action)
    memory.append((state, action, reward, nxt, done))
    state = env.reset() if done else nxt
    if len(memory) > 64:
        s, a, r, s2, d = zip(*random.sample(memory, 32))
        s, s2 = torch.from_numpy(np.stack(s)), torch.from_numpy(np.stack(s2))
        with torch.no_grad():
            target = torch.tensor(r) + 0.99 * q(s2).max(1).values * (1 - torch.tensor(d, dtype=torch.float32))
        loss = F.mse_loss(q(s).gather(1, torch.tensor(a)[:, None]).squeeze(1), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    ),
    "noise as the target": (
        "loss",
        (8,),
        [("criterion(output, noisy)", "criterion(output, clean)")],
        """
clean = torch.rand(256, 20)
ae = nn.Sequential(nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 20))
criterion = nn.MSELoss()
opt = torch.optim.Adam(ae.parameters(), lr=1e-2)
for epoch in range(30):
    noisy = clean + 0.3 * torch.randn_like(clean)
    output = ae(noisy)
    loss = criterion(output, noisy)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a vocabulary for each part": (
        "data",
        (7, 11, 18),
        [(("def encode(texts):\n    vocab = {}\n"), ("vocab = {}\n\n\ndef encode(texts):\n"))],
        """
train_texts = ["good film very nice", "bad film very dull", "nice and good", "dull and bad"] * 20
test_texts = ["very bad and dull", "good nice film", "bad dull film", "nice very good"] * 5
train_y, test_y = torch.tensor([1, 0, 1, 0] * 20), torch.tensor([0, 1, 0, 1] * 5)


def encode(texts):
    vocab = {}
    rows = []
    for text in texts:
        for word in text.split():
            vocab.setdefault(word, len(vocab) + 1)
        ids = [vocab[w] for w in text.split()]
        rows.append(ids + [0] * (4 - len(ids)))
    return torch.tensor(rows), len(vocab)


train_x, n_words = encode(train_texts)
test_x, _ = encode(test_texts)
model = nn.Sequential(nn.EmbeddingBag(n_words + 1, 8), nn.Linear(8, 2))
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
for epoch in range(20):
    loss = F.cross_entropy(model(train_x), train_y)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    print((model(test_x).argmax(1) == test_y).float().mean().item())
""",
    ),
    "one time step for a batch": (
        "data",
        (7, 10),
        [("torch.randint(0, T, (1,))", "torch.randint(0, T, (len(data),))")],
        """
T = 100
alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.1, T), 0)
data = torch.randn(256, 4) * 0.2
model = nn.Sequential(nn.Linear(5, 64), nn.SiLU(), nn.Linear(64, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for it in range(60):
    t = torch.randint(0, T, (1,))
    noise = torch.randn_like(data)
    a = alpha_bar[t].view(-1, 1)
    xt = a.sqrt() * data + (1 - a).sqrt() * noise
    inp = torch.cat([xt, (t.float() / T).view(-1, 1).expand(len(xt), 1)], 1)
    loss = F.mse_loss(model(inp), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "one draw for a batch": (
        "broadcast",
        (10, 11),
        [("torch.randn(mu.size(1))", "torch.randn_like(std)")],
        """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(20, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.dec = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 20))
    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        std = torch.exp(0.5 * logvar)
        eps = torch.randn(mu.size(1))
        z = mu + eps * std
        return self.dec(z), mu, logvar


x = torch.rand(128, 20)
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=2e-3)
for k in range(30):
    recon, mu, logvar = vae(x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    loss = F.mse_loss(recon, x, reduction="sum") / len(x) + kl
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
}
PLANTED = {name: Planted(kind, lines, "\n" + text.lstrip("\n")) for name, (kind, lines, _, text) in _POSTED.items()}


def _mended(text: str, changes: list[tuple[str, str]]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


HEALTHY = {f"{name}, mended": _mended(text, changes) for name, (_, _, changes, text) in _POSTED.items()}
