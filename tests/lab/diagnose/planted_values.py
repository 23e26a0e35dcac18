"""Losses of wrong arguments or shapes, values not finite, parameters that no optimizer holds; see planted.py."""

from __future__ import annotations

from .planted_more import Planted

VALUES: dict[str, Planted] = {
    "nll_loss of softmax": Planted(
        "loss",
        (9,),
        """
torch.manual_seed(0)
lstm = nn.GRU(5, 10, batch_first=True)
fc = nn.Linear(10, 4)
opt = torch.optim.Adam(list(lstm.parameters()) + list(fc.parameters()), lr=1e-3)
for i in range(3):
    seq, label = torch.randn(8, 7, 5), torch.randint(0, 4, (8,))
    out, _ = lstm(seq)
    prob = F.softmax(fc(out[:, -1]), dim=1)
    loss = F.nll_loss(prob, label)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "sigmoid before BCEWithLogitsLoss": Planted(
        "loss",
        (13,),
        """
net = nn.Sequential(
    nn.Linear(7, 14),
    nn.ReLU(),
    nn.Linear(14, 1),
    nn.Sigmoid(),
)
loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0]))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
X = torch.randn(80, 7)
y = (X[:, 0] > 0).float()
for _ in range(5):
    y_hat = net(X).squeeze(1)
    loss = loss_fn(y_hat, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "sample weights broadcast": Planted(
        "broadcast",
        (3,),
        """
def weighted_ce(logits, y, w):
    per_sample = F.cross_entropy(logits, y, reduction="none")
    return (per_sample * w).mean()

torch.manual_seed(0)
clf = nn.Linear(5, 3)
opt = torch.optim.Adam(clf.parameters(), lr=1e-2)
X, Y = torch.randn(40, 5), torch.randint(0, 3, (40,))
W = torch.rand(40, 1)
for i in range(5):
    opt.zero_grad()
    loss = weighted_ce(clf(X), Y, W)
    loss.backward()
    opt.step()
""",
    ),
    "a plain tensor as a module attribute": Planted(
        "optimizer",
        (4,),
        """
class PReLU1(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = torch.full((1,), 0.25, requires_grad=True)
        self.lin = nn.Linear(8, 8)
    def forward(self, x):
        h = self.lin(x)
        return torch.where(h > 0, h, self.alpha * h)

torch.manual_seed(0)
m = PReLU1()
opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for i in range(5):
    x = torch.randn(16, 8)
    loss = F.mse_loss(m(x), x.abs())
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "parameters in a plain list": Planted(
        "optimizer",
        (5,),
        """
class Poly(nn.Module):
    def __init__(self, degree):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.coef = [nn.Parameter(torch.randn(1) * 0.1) for _ in range(degree)]
    def forward(self, x):
        out = self.bias
        for k, c in enumerate(self.coef, 1):
            out = out + c * x ** k
        return out

torch.manual_seed(0)
model = Poly(3)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.linspace(-1, 1, 64)
for _ in range(10):
    loss = F.mse_loss(model(x), torch.sin(2 * x))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a layer built anew in forward": Planted(
        "optimizer",
        (7,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3)
    def forward(self, x):
        h = F.relu(self.conv(x)).flatten(1)
        fc = nn.Linear(h.size(1), 3)
        return fc(h)

torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for i in range(4):
    loss = F.cross_entropy(net(torch.randn(8, 2, 10)), torch.randint(0, 3, (8,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "product of likelihoods underflows": Planted(
        "nan",
        (8,),
        """
torch.manual_seed(0)
logits = nn.Parameter(torch.zeros(6))
opt = torch.optim.Adam([logits], lr=0.1)
rolls = torch.randint(0, 6, (300,))
for step in range(2):
    p = torch.softmax(logits, 0)
    likelihood = torch.prod(p[rolls])
    nll = -torch.log(likelihood)
    opt.zero_grad()
    nll.backward()
    opt.step()
    print(step, nll.item())
""",
    ),
    "swapped ce onehot": Planted(
        "loss",
        (5,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
t = F.one_hot(labels, 4).float()
for _ in range(3):
    loss = F.cross_entropy(t, torch.softmax(model(x), 1))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "softmax dim0 attention": Planted(
        "loss",
        (3,),
        """
q, k, v = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 4)
s = q(x) @ k(x).T / 8 ** 0.5
a = torch.softmax(s, dim=0)
loss = F.cross_entropy(a @ v(x), labels)
loss.backward()
""",
    ),
    "kl both probs": Planted(
        "loss",
        (4,),
        """
student, teacher = nn.Linear(16, 4), nn.Linear(16, 4)
p = F.softmax(student(x), dim=1)
with torch.no_grad(): q = F.softmax(teacher(x), dim=1)
loss = F.kl_div(p, q, reduction="batchmean")
loss.backward()
""",
    ),
    "ce all ignored": Planted(
        "nan",
        (3,),
        """
model = nn.Linear(16, 4)
t = torch.full((64,), -100)
loss = F.cross_entropy(model(x), t)
loss.backward()
""",
    ),
    "nan data": Planted(
        "nan",
        (2,),
        """
data = x.clone()
data[5, 3] = float("nan")
model = nn.Linear(16, 4)
loss = F.cross_entropy(model(data), labels)
loss.backward()
""",
    ),
    "softmax dim0 by hand": Planted(
        "loss",
        (4,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    p = model(x).softmax(0)
    loss = -torch.log(p[torch.arange(64), labels] + 1e-8).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "log softmax gather dim0": Planted(
        "loss",
        (4,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    logp = F.log_softmax(model(x), dim=0)
    loss = -logp.gather(1, labels[:, None]).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    "a loader's targets with a dimension too many": Planted(
        "broadcast",
        (8,),
        """
X, Y = torch.randn(60, 2), torch.randn(60, 1)
reg = nn.Linear(2, 1)
opt = torch.optim.SGD(reg.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(X, Y)
for xb, yb in torch.utils.data.DataLoader(data, 30):
    opt.zero_grad()
    pred = reg(xb).squeeze(-1)
    loss = (pred - yb).square().mean()
    loss.backward()
    opt.step()
""",
    ),
    "a penalty that is a number": Planted(
        "cut",
        (6,),
        """
gate = nn.Parameter(torch.ones(16))
lin = nn.Linear(16, 1)
opt = torch.optim.SGD([gate, *lin.parameters()], lr=0.05)
lam = 0.1
for step in range(8):
    loss = F.mse_loss(lin(x * gate).squeeze(1), y) + lam * gate.abs().sum().item()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a penalty added to the loss as a number": Planted(
        "cut",
        (5,),
        """
lin = nn.Linear(16, 1)
opt = torch.optim.SGD(lin.parameters(), lr=0.05)
for step in range(8):
    loss = F.mse_loss(lin(x).squeeze(1), y)
    loss += 0.01 * float(lin.weight.square().sum())
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a binary loss of class numbers": Planted(
        "error",
        (3,),
        """
model = nn.Sequential(nn.Linear(16, 1), nn.Sigmoid())
wanted = (x[:, 0] > 0).long()
loss = nn.BCELoss()(model(x).view(-1), wanted)
loss.backward()
""",
    ),
}
