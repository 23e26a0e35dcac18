"""Cells that raise: errors of ops, of backward() and of optimizers; see planted.py."""

from __future__ import annotations

from .planted_calls import CALLS
from .planted_more import Planted

ERRORS: dict[str, Planted] = {
    "parameters() generator consumed": Planted(
        "error",
        (5,),
        """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
params = model.parameters()
print("parameters:", sum(p.numel() for p in params))
optimizer = torch.optim.SGD(params, lr=0.1)
loss = F.cross_entropy(model(torch.randn(4, 8)), torch.tensor([0, 1, 0, 1]))
loss.backward()
optimizer.step()
""",
    ),
    "a target without a dimension": Planted(
        "error",
        (2,),
        """
rnn, head = nn.RNN(16, 8), nn.Linear(8, 4)
F.cross_entropy(head(rnn(x[None, :1])[0][-1]), labels[0])
""",
    ),
    "GAN: backward after D was stepped": Planted(
        "error",
        (16,),
        """
torch.manual_seed(0)
gen = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
disc = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
optG = torch.optim.SGD(gen.parameters(), lr=0.01)
optD = torch.optim.SGD(disc.parameters(), lr=0.01)
loss_fn = nn.BCELoss()
for i in range(3):
    z = torch.randn(16, 4)
    fake = gen(z)
    d_fake = disc(fake)
    d_real = disc(torch.randn(16, 2))
    d_loss = loss_fn(d_real, torch.ones(16, 1)) + loss_fn(d_fake, torch.zeros(16, 1))
    g_loss = loss_fn(d_fake, torch.ones(16, 1))
    optD.zero_grad()
    d_loss.backward(retain_graph=True)
    optD.step()
    optG.zero_grad()
    g_loss.backward()
    optG.step()
""",
    ),
    "RNN state carried without detach": Planted(
        "error",
        (20,),
        """
class CharRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.fc = nn.Linear(16, 8)
    def forward(self, x, hidden):
        out, hidden = self.rnn(x, hidden)
        return self.fc(out), hidden

torch.manual_seed(0)
model = CharRNN()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
hidden = (torch.zeros(1, 4, 16), torch.zeros(1, 4, 16))
for step in range(5):
    x = torch.randn(4, 6, 8)
    y = torch.randint(0, 8, (4, 6))
    optimizer.zero_grad()
    logits, hidden = model(x, hidden)
    loss = F.cross_entropy(logits.reshape(-1, 8), y.reshape(-1))
    loss.backward()
    optimizer.step()
""",
    ),
    "backward of a number": Planted(
        "error",
        (9,),
        """
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
running = 0.0
for x in torch.randn(5, 8, 4):
    loss = F.mse_loss(model(x), x[:, :1]).item()
    running += loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "state buffer written in place": Planted(
        "error",
        (6,),
        """
torch.manual_seed(0)
A_mat = nn.Parameter(torch.randn(3, 3) * 0.3)
states = torch.zeros(6, 3)
states[0] = torch.randn(3)
for t in range(1, 6):
    states[t] = torch.tanh(A_mat @ states[t - 1])
loss = states.pow(2).sum()
loss.backward()
""",
    ),
    "BCELoss on logits": Planted(
        "error",
        (9,),
        """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
criterion = nn.BCELoss()
opt = torch.optim.Adam(net.parameters())
x = torch.randn(30, 6)
y = (x.sum(1, keepdim=True) > 0).float()
for epoch in range(2):
    out = net(x)
    loss = criterion(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "nonleaf in optimizer": Planted(
        "error",
        (2,),
        """
w = torch.randn(16, 4, requires_grad=True).double().float()
opt = torch.optim.SGD([w], lr=0.1)
loss = F.cross_entropy(x @ w, labels)
loss.backward()
""",
    ),
    "in place weights between": Planted(
        "error",
        (6,),
        """
a = nn.Linear(16, 8); b = nn.Linear(8, 4)
opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
out = b(a(x))
l1 = F.cross_entropy(out, labels)
l1.backward(retain_graph=True)
opt.step()
l2 = out.square().mean()
l2.backward()
""",
    ),
    "inplace relu after": Planted(
        "error",
        (5,),
        """
l1, l2 = nn.Linear(16, 8), nn.Linear(8, 4)
h = torch.sigmoid(l1(x))
out = l2(h)
act = nn.ReLU(inplace=True)
act(h.sub_(0.5))
F.cross_entropy(out, labels).backward()
""",
    ),
    "grad none zero_": Planted(
        "error",
        (4,),
        """
w = torch.randn(16, 4, requires_grad=True)
for _ in range(3):
    loss = F.cross_entropy(x @ w, labels)
    w.grad.zero_()
    loss.backward()
""",
    ),
    "super init": Planted(
        "error",
        (3,),
        """
class Net(nn.Module):
    def __init__(self):
        self.fc1 = nn.Linear(16, 8)
    def forward(self, v):
        return self.fc1(v)
out = Net()(x)
""",
    ),
    "ce target column": Planted(
        "error",
        (2,),
        """
model = nn.Linear(16, 4)
loss = F.cross_entropy(model(x), labels[:, None])
loss.backward()
""",
    ),
    "bn one sample": Planted(
        "error",
        (2,),
        """
net = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8))
out = net(x[:1])
""",
    ),
    "outside loop": Planted(
        "error",
        (7,),
        """
enc = nn.Linear(16, 8)
head = nn.Linear(8, 4)
opt = torch.optim.SGD(head.parameters(), lr=0.1)
z = torch.tanh(enc(x))
for i in range(3):
    loss = F.cross_entropy(head(z), labels)
    loss.backward()
    opt.step()
""",
    ),
    "total loss": Planted(
        "error",
        (6,),
        """
model = nn.Linear(16, 4)
total = 0
for i in range(4):
    loss = F.cross_entropy(model(x[i*16:i*16+16]), labels[i*16:i*16+16])
    total = total + loss
    total.backward()
""",
    ),
    "shared trunk": Planted(
        "error",
        (5,),
        """
body = nn.Linear(16, 8); h1 = nn.Linear(8, 4); h2 = nn.Linear(8, 1)
f = torch.tanh(body(x))
l1, l2 = F.cross_entropy(h1(f), labels), F.mse_loss(h2(f).squeeze(1), y)
l1.backward()
l2.backward()
""",
    ),
    "metrics inside functions": Planted(
        "error",
        (12,),
        """
class Trainer:
    def __init__(self):
        self.m = nn.Linear(16, 16)
        self.mem = torch.zeros(64, 16)
        self.opt = torch.optim.SGD(self.m.parameters(), lr=0.1)
    def step(self):
        self.opt.zero_grad()
        self.mem = torch.relu(self.m(x) + 0.5 * self.mem)
        loss = (self.mem - x).pow(2).mean()
        self.finish(loss)
    def finish(self, loss):
        loss.backward()
        self.opt.step()
t = Trainer()
for _ in range(3): t.step()
""",
    ),
}

ERRORS |= CALLS
