"""Cells with one mistake each: modes, start values, saturation, graphs that stay alive, dtypes; see planted.py."""

from __future__ import annotations

from .planted_more import Planted

SCALES: dict[str, Planted] = {
    "eval forgotten in validate loader": Planted(
        "mode",
        (5,),
        """
def evaluate(model, loader):
    correct, total = 0, 0
    for xb, yb in loader:
        with torch.no_grad():
            out = model(xb)
        correct += (out.argmax(1) == yb).sum().item()
        total += len(yb)
    return correct / total
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
ds = torch.utils.data.TensorDataset(x, labels)
loader = torch.utils.data.DataLoader(ds, batch_size=16)
for epoch in range(2):
    for xb, yb in loader:
        loss = F.cross_entropy(model(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
    print(evaluate(model, loader))
""",
    ),
    "train forgotten after validation (class)": Planted(
        "mode",
        (12,),
        """
class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
    @torch.no_grad()
    def validate(self):
        self.model.eval()
        return (self.model(x).argmax(1) == labels).float().mean().item()
    def fit(self, epochs):
        self.model.train()
        for epoch in range(epochs):
            loss = F.cross_entropy(self.model(x), labels)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.validate()
Trainer().fit(5)
""",
    ),
    "eval at the start only": Planted(
        "mode",
        (4,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.ReLU(), nn.Linear(32, 4)).eval()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in range(4):
    out = model(x)
    loss = F.cross_entropy(out, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "F.dropout default in forward, eval": Planted(
        "mode",
        (6,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 32); self.b = nn.Linear(32, 4)
    def forward(self, x):
        return self.b(F.dropout(torch.relu(self.a(x)), p=0.3))
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for e in range(3):
    net.train()
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    net.eval()
    with torch.no_grad():
        val = F.cross_entropy(net(x), labels).item()
""",
    ),
    "prediction in training mode": Planted(
        "mode",
        (3,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 4))
with torch.no_grad():
    probs = F.softmax(model(x), dim=1)
    preds = probs.argmax(dim=1)
print((preds == labels).float().mean())
""",
    ),
    "no_grad forgotten in validation": Planted(
        "memory",
        (11,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    model.train()
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    model.eval()
    val_loss = 0
    for i in range(0, 64, 16):
        out = model(x[i:i+16])
        val_loss += F.cross_entropy(out, labels[i:i+16])
    print(val_loss / 4)
""",
    ),
    "deep sigmoid mlp": Planted(
        "vanishing",
        (8,),
        """
class DeepNet(nn.Module):
    def __init__(self, depth=15):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(depth)])
        self.out = nn.Linear(16, 4)
    def forward(self, x):
        for l in self.layers:
            x = torch.sigmoid(l(x))
        return self.out(x)
model = DeepNet()
loss = F.cross_entropy(model(x), labels)
loss.backward()
for n, p in model.named_parameters():
    print(n, p.grad.norm())
""",
    ),
    "deep sigmoid functional": Planted(
        "vanishing",
        (9,),
        """
def mlp(depth):
    layers = []
    for i in range(depth):
        layers += [nn.Linear(16, 16), nn.Sigmoid()]
    return nn.Sequential(*layers, nn.Linear(16, 4))
net = mlp(14)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "init zeros, hidden": Planted(
        "vanishing",
        (4,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
for m in model:
    if isinstance(m, nn.Linear):
        nn.init.zeros_(m.weight); nn.init.zeros_(m.bias)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward(); opt.step()
""",
    ),
    "init ones": Planted(
        "initialisation",
        (3,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
for p in model.parameters():
    p.data.fill_(1.0)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(10):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "init constant": Planted(
        "initialisation",
        (5,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 1)
        for l in (self.a, self.b): nn.init.constant_(l.weight, 0.1)
    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for i in range(5):
    loss = F.mse_loss(net(x).squeeze(1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "N(0,1) wide": Planted(
        "exploding",
        (6, 7),
        """
torch.manual_seed(0)
W1 = torch.randn(16, 512, requires_grad=True)
W2 = torch.randn(512, 512, requires_grad=True)
W3 = torch.randn(512, 512, requires_grad=True)
W4 = torch.randn(512, 1, requires_grad=True)
h = torch.relu(torch.relu(torch.relu(x @ W1) @ W2) @ W3)
loss = ((h @ W4).squeeze(1) - y).pow(2).mean()
loss.backward()
""",
    ),
    "N(0,1) tanh saturated": Planted(
        "vanishing",
        (8,),
        """
torch.manual_seed(0)
W1 = torch.randn(16, 256, requires_grad=True)
W2 = torch.randn(256, 256, requires_grad=True)
W3 = torch.randn(256, 256, requires_grad=True)
W4 = torch.randn(256, 256, requires_grad=True)
W5 = torch.randn(256, 4, requires_grad=True)
h = x
for W in (W1, W2, W3, W4): h = torch.tanh(h @ W)
loss = F.cross_entropy(h @ W5, labels)
loss.backward()
""",
    ),
    "normal_ init std 1 module": Planted(
        "vanishing",
        (7,),
        """
model = nn.Sequential(nn.Linear(16, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 4))
for m in model.modules():
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "inputs 0..255": Planted(
        "learning-rate",
        (7,),
        """
torch.manual_seed(0)
img = torch.randint(0, 256, (64, 28 * 28)).float()
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for e in range(5):
    loss = F.cross_entropy(model(img), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "dead relus by bias": Planted(
        "vanishing",
        (5,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
nn.init.constant_(model[0].bias, -50.0)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for e in range(5):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "dead relu mid": Planted(
        "vanishing",
        (8,),
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)
        self.b.bias.data -= 100
    def forward(self, x):
        h = F.relu(self.a(x))
        h = F.relu(self.b(h))
        return self.c(h)
m = M()
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
for i in range(5):
    loss = F.cross_entropy(m(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "tiny init": Planted(
        "vanishing",
        (6,),
        """
model = nn.Sequential(*[l for _ in range(6) for l in (nn.Linear(16, 16), nn.Tanh())], nn.Linear(16, 4))
for p in model.parameters():
    if p.ndim > 1: nn.init.normal_(p, std=1e-3)
    else: nn.init.zeros_(p)
for i in range(3):
    loss = F.cross_entropy(model(x), labels)
    model.zero_grad()
    loss.backward()
""",
    ),
    "running loss kept, function": Planted(
        "memory",
        (10,),
        """
def train_epoch(model, opt, crit):
    running = 0.0
    n = 0
    for i in range(0, 64, 8):
        opt.zero_grad()
        out = model(x[i:i+8])
        loss = crit(out, labels[i:i+8])
        loss.backward()
        opt.step()
        running += loss
        n += 1
    return running / n
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    print(train_epoch(model, opt, nn.CrossEntropyLoss()))
""",
    ),
    "outputs in list, function": Planted(
        "memory",
        (8,),
        """
def run():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.Adam(model.parameters())
    outputs = []
    for i in range(0, 64, 8):
        out = model(x[i:i+8])
        loss = F.cross_entropy(out, labels[i:i+8])
        outputs.append(out)
        opt.zero_grad(); loss.backward(); opt.step()
    return torch.cat(outputs)
preds = run()
""",
    ),
    "losses appended, function": Planted(
        "memory",
        (9,),
        """
def fit(epochs):
    model = nn.Linear(16, 4)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    hist = []
    for e in range(epochs):
        loss = F.cross_entropy(model(x), labels)
        opt.zero_grad(); loss.backward()
        opt.step()
        hist.append(loss)
    return hist
hist = fit(6)
""",
    ),
    "total = total + loss": Planted(
        "memory",
        (7,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
epoch_loss = torch.tensor(0.0)
for i in range(8):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    epoch_loss = epoch_loss + loss
print(epoch_loss.item() / 8)
""",
    ),
    "ema of the loss with history": Planted(
        "memory",
        (8,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
ema = None
for i in range(10):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad(); loss.backward(); opt.step()
    if ema is None: ema = loss
    else: ema = 0.9 * ema + 0.1 * loss
print(float(ema))
""",
    ),
    "hidden state, retain_graph": Planted(
        "memory",
        (6,),
        """
rnn = nn.GRU(4, 8, batch_first=True); head = nn.Linear(8, 1)
seq = x.reshape(64, 4, 4)
h = torch.zeros(1, 16, 8)
for i in range(4):
    # carry the state over
    out, h = rnn(seq[16*i:16*i+16], h)
    loss = F.mse_loss(head(out[:, -1]).squeeze(1), y[16*i:16*i+16])
    loss.backward(retain_graph=True)
""",
    ),
    "float64 numpy dataset": Planted(
        "error",
        (6,),
        """
data = np.random.randn(64, 16)
target = np.random.randn(64)
X, T = torch.tensor(data), torch.tensor(target)
model = nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
loss = F.mse_loss(model(X).squeeze(), T)
loss.backward()
""",
    ),
    "float64 weights by hand": Planted(
        "dtype",
        (5,),
        """
w = torch.tensor(np.random.randn(16, 1) * 0.1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
X64 = torch.from_numpy(np.random.randn(64, 16))
for i in range(3):
    pred = X64 @ w + b
    loss = (pred.squeeze(1) - y).pow(2).mean()
    loss.backward()
    w.grad = None; b.grad = None
""",
    ),
    "target in float64": Planted(
        "dtype",
        (5,),
        """
targets = torch.tensor(np.random.rand(64))
model = nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(3):
    loss = ((model(x).squeeze(1) - targets) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "int matmul": Planted(
        "error",
        (3,),
        """
ids = torch.randint(0, 10, (8, 16))
model = nn.Linear(16, 4)
out = model(ids)
""",
    ),
}
