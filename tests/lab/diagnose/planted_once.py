"""Cells that the card once got wrong: what people post, one mistake each; see planted.py."""

from __future__ import annotations

from .planted_more import Planted

ONCE: dict[str, Planted] = {
    "layers kept in a plain list": Planted(
        "optimizer",
        (5,),
        """
class DeepNet(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.inp = nn.Linear(6, width)
        self.hidden = [nn.Linear(width, width) for _ in range(depth)]
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.tanh(self.inp(x))
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.out(x)

torch.manual_seed(0)
model = DeepNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
X = torch.randn(128, 6)
Y = X.sum(1, keepdim=True)
for epoch in range(10):
    optimizer.zero_grad()
    loss = F.mse_loss(model(X), Y)
    loss.backward()
    optimizer.step()
""",
    ),
    "layers in a plain dict": Planted(
        "optimizer",
        (5,),
        """
class MultiHead(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.trunk = nn.Linear(10, 16)
        self.heads = {t: nn.Linear(16, 1) for t in tasks}
    def forward(self, x):
        h = F.relu(self.trunk(x))
        return {t: head(h).squeeze(1) for t, head in self.heads.items()}

def main():
    torch.manual_seed(0)
    net = MultiHead(["age", "income"])
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    x = torch.randn(50, 10)
    y = {"age": torch.randn(50), "income": torch.randn(50)}
    for _ in range(5):
        out = net(x)
        loss = sum(F.mse_loss(out[t], y[t]) for t in out)
        opt.zero_grad()
        loss.backward()
        opt.step()
main()
""",
    ),
    "GAN: D's optimizer given G's parameters": Planted(
        "optimizer",
        (13,),
        """
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_G = torch.optim.Adam(G.parameters(), lr=2e-4)
opt_D = torch.optim.Adam(G.parameters(), lr=2e-4)
bce = nn.BCEWithLogitsLoss()
real = torch.randn(32, 2) + 3
for step in range(5):
    opt_D.zero_grad()
    fake = G(torch.randn(32, 4))
    loss_D = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1))
    loss_D.backward()
    opt_D.step()
    opt_G.zero_grad()
    loss_G = bce(D(fake), torch.ones(32, 1))
    loss_G.backward()
    opt_G.step()
""",
    ),
    "float64 by accident": Planted(
        "dtype",
        (4,),
        """
rng = np.random.default_rng(0)
data = rng.normal(size=(256, 20))
target = data[:, :1] * 2
X = torch.from_numpy(data)
Y = torch.from_numpy(target)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1)).double()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    opt.zero_grad()
    loss = F.mse_loss(model(X), Y)
    loss.backward()
    opt.step()
""",
    ),
    "python loop over elements": Planted(
        "overhead",
        (5,),
        """
def total_variation(img):
    tv = 0.0
    for i in range(1, img.shape[0]):
        for j in range(1, img.shape[1]):
            tv = tv + (img[i, j] - img[i - 1, j]).abs() + (img[i, j] - img[i, j - 1]).abs()
    return tv

torch.manual_seed(0)
img = torch.rand(20, 20, requires_grad=True)
noisy = torch.rand(20, 20)
opt = torch.optim.SGD([img], lr=0.01)
for i in range(2):
    opt.zero_grad()
    loss = ((img - noisy) ** 2).sum() + 0.1 * total_variation(img)
    loss.backward()
    opt.step()
""",
    ),
    "slow __getitem__": Planted(
        "data-loader",
        (8,),
        """
class Slow(torch.utils.data.Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, 8)
        self.y = torch.randint(0, 2, (n,))
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        __import__("time").sleep(0.01)  # decode a jpeg
        return self.x[i], self.y[i]

torch.manual_seed(0)
model = nn.Linear(8, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for xb, yb in torch.utils.data.DataLoader(Slow(128), batch_size=16):
    opt.zero_grad()
    loss = F.cross_entropy(model(xb), yb)
    loss.backward()
    opt.step()
""",
    ),
    "zero_grad in every micro-batch of an accumulation": Planted(
        "zero-grad",
        (7,),
        """
torch.manual_seed(0)
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
accum_steps, data = 4, torch.utils.data.TensorDataset(torch.randn(128, 10), torch.randint(0, 2, (128,)))
loader = torch.utils.data.DataLoader(data, batch_size=8)
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y) / accum_steps
    loss.backward()
    if (i + 1) % accum_steps == 0:
        optimizer.step()
""",
    ),
    "all weights zero": Planted(
        "vanishing",
        (4,),
        """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 3))
for p in model.parameters():
    nn.init.zeros_(p)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(50, 10), torch.randint(0, 3, (50,))
for i in range(10):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
""",
    ),
    "loss summed with a mean's learning rate": Planted(
        "learning-rate",
        (11,),
        """
torch.manual_seed(0)
X = torch.randn(512, 10)
y = X @ torch.randn(10, 1) + 0.1 * torch.randn(512, 1)
lin = nn.Linear(10, 1)
criterion = nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(lin.parameters(), lr=0.01)
for epoch in range(12):
    optimizer.zero_grad()
    loss = criterion(lin(X), y)
    loss.backward()
    optimizer.step()
""",
    ),
    "scheduler stepped every batch": Planted(
        "learning-rate",
        (12,),
        """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sched, data = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1), (torch.randn(160, 10), torch.randint(0, 2, (160,)))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=8)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        sched.step()
""",
    ),
    "clipping after the step": Planted(
        "optimizer",
        (10,),
        """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in range(6):
    x = torch.randn(16, 10) * 5
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True) * 3)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
    ),
    "optimizer.step without parentheses": Planted(
        "optimizer",
        (10,),
        """
def train(epochs):
    torch.manual_seed(0)
    model = nn.Linear(6, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    X, Y = torch.randn(32, 6), torch.randint(0, 2, (32,))
    for e in range(epochs):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step
    return model

model = train(6)
""",
    ),
    "manual update of a loop variable": Planted(
        "optimizer",
        (12,),
        """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
lr = 0.1
X = torch.randn(40, 3)
y = X.sum(1, keepdim=True)
for epoch in range(6):
    loss = F.mse_loss(model(X), y)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p = p - lr * p.grad
""",
    ),
    "recurrence that explodes": Planted(
        "exploding",
        (7,),
        """
torch.manual_seed(0)
Wh = (torch.randn(16, 16) * 0.8).requires_grad_()
Wx = (torch.randn(4, 16) * 0.5).requires_grad_()
def rnn(xs):
    h = torch.zeros(xs.size(1), 16)
    for x in xs:
        h = F.relu(x @ Wx + h @ Wh)
    return h
out = rnn(torch.randn(40, 8, 4))
loss = out.pow(2).mean()
loss.backward()
print(Wh.grad.norm())
""",
    ),
    "targets in the millions": Planted(
        "learning-rate",
        (12,),
        """
torch.manual_seed(0)
area = torch.rand(60, 1) * 300
rooms = torch.randint(1, 8, (60, 1)).float()
X = torch.cat([area, rooms], 1)
price = area * 5000 + rooms * 20000
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.mse_loss(model(X), price)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
""",
    ),
    "replay buffer keeps graphs": Planted(
        "memory",
        (7,),
        """
class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.memory = []
    def act(self, s):
        q = self.q(s)
        self.memory.append((s, q))
        return int(q.argmax())

torch.manual_seed(0)
agent = Agent()
for t in range(40):
    a = agent.act(torch.randn(4))
print(len(agent.memory))
""",
    ),
    "one sample at a time": Planted(
        "overhead",
        (9,),
        """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
X, Y = torch.randn(400, 10), torch.randint(0, 2, (400,))
for epoch in range(2):
    opt.zero_grad()
    loss = 0
    for i in range(len(X)):
        out = model(X[i].unsqueeze(0))
        loss = loss + F.cross_entropy(out, Y[i].unsqueeze(0)) / len(X)
    loss.backward()
    opt.step()
""",
    ),
    "results kept in evaluation by an object": Planted(
        "memory",
        (8,),
        """
class Inferencer:
    def __init__(self, net):
        self.net = net.eval()
        self.outputs = []
    def run(self, batches):
        for b in batches:
            scores = self.net(b)
            self.outputs.append(scores)
        return torch.cat(self.outputs)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
everything = Inferencer(net).run([x[i : i + 8] for i in range(0, 64, 8)])
""",
    ),
    "forty steps that come to nothing": Planted(
        "learning-rate",
        (7,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.SGD(model.parameters(), lr=1e-7)
for i in range(40):
    loss = F.mse_loss(model(x).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "pixels that nobody scaled": Planted(
        "learning-rate",
        (7,),
        """
pixels = torch.randint(0, 256, (64, 144)).float()
net = nn.Sequential(nn.Linear(144, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), lr=5.0)
for i in range(8):
    loss = F.mse_loss(net(pixels).squeeze(1), y)
    opt.zero_grad(); loss.backward()
    opt.step()
""",
    ),
}
