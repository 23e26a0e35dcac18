"""More cells with one mistake each, in the styles of forums: classes, loaders, loops in functions; see planted.py."""

from __future__ import annotations

from typing import NamedTuple


class Planted(NamedTuple):
    """One cell: the finding that comes first, the lines that are right, and the text."""

    kind: str
    lines: tuple[int, ...]
    text: str


MORE: dict[str, Planted] = {
    "a loader without zero_grad": Planted(
        "zero-grad",
        (11,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.fc2 = nn.Linear(32, 4)
    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))
def train(model, loader, optimizer, criterion):
    for xb, yb in loader:
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
net = Net()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=16, shuffle=True)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(2):
    train(net, loader, opt, nn.CrossEntropyLoss())
""",
    ),
    "a number in the middle of a model": Planted(
        "cut",
        (7,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 1)
        self.out = nn.Linear(16, 4)
    def forward(self, x):
        g = torch.sigmoid(self.gate(x)).mean().item()
        return self.out(x * g)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
""",
    ),
    "an int cast in a model": Planted(
        "cut",
        (8,),
        """
class Quant(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(16, 8)
        self.dec = nn.Linear(8, 16)
    def forward(self, x):
        code = self.enc(x)
        code = (code * 10).int()
        return self.dec(code.float() / 10)
model = Quant()
opt = torch.optim.Adam(model.parameters())
for i in range(3):
    opt.zero_grad()
    loss = nn.MSELoss()(model(x), x)
    loss.backward()
    opt.step()
""",
    ),
    "a prediction made anew of its values": Planted(
        "cut",
        (5,),
        """
w = torch.randn(16, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
opt = torch.optim.SGD([w, b], lr=0.01)
for i in range(4):
    pred = torch.tensor((x @ w + b).tolist())
    loss = F.mse_loss(pred.squeeze(1) + b, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "layers in a plain list": Planted(
        "optimizer",
        (4,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(16, 16) for _ in range(3)]
        self.out = nn.Linear(16, 4)
    def forward(self, x):
        for l in self.layers:
            x = torch.relu(l(x))
        return self.out(x)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for i in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
""",
    ),
    "a hidden state kept over batches": Planted(
        "error",
        (10,),
        """
rnn = nn.RNN(4, 8, batch_first=True)
head = nn.Linear(8, 1)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-3)
seq = x.reshape(64, 4, 4)
h = torch.zeros(1, 16, 8)
for i in range(4):
    out, h = rnn(seq[16*i:16*i+16], h)
    loss = F.mse_loss(head(out[:, -1]).squeeze(1), y[16*i:16*i+16])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "an assignment into a softmax": Planted(
        "error",
        (3,),
        """
model = nn.Linear(16, 4)
p = torch.softmax(model(x), dim=1)
p[:, 0] = 0
loss = -(p[torch.arange(64), labels] + 1e-6).log().mean()
loss.backward()
""",
    ),
    "a column without spread": Planted(
        "nan",
        (3,),
        """
data = x.clone()
data[:, 3] = 1.0
data = (data - data.mean(0)) / data.std(0)
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    loss = F.cross_entropy(model(data), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "kl_div of probabilities": Planted(
        "loss",
        (7,),
        """
student, teacher = nn.Linear(16, 4), nn.Linear(16, 4)
kl = nn.KLDivLoss(reduction="batchmean")
opt = torch.optim.Adam(student.parameters(), lr=1e-3)
for i in range(3):
    with torch.no_grad():
        target = F.softmax(teacher(x), dim=1)
    loss = kl(F.softmax(student(x), dim=1), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "dropout in every mode": Planted(
        "mode",
        (7,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 4)
    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.dropout(x, 0.5)
        return self.fc2(x)
model = Net()
opt = torch.optim.Adam(model.parameters())
for i in range(3):
    opt.zero_grad()
    F.cross_entropy(model(x), labels).backward()
    opt.step()
model.eval()
with torch.no_grad():
    acc = (model(x).argmax(1) == labels).float().mean().item()
""",
    ),
    "a head replaced after the optimizer": Planted(
        "optimizer",
        (3,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model[2] = nn.Linear(32, 4)
for i in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
""",
    ),
    "the gradients of one of two optimizers cleared": Planted(
        "zero-grad",
        (7,),
        """
enc, dec = nn.Linear(16, 8), nn.Linear(8, 16)
opt_e = torch.optim.Adam(enc.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(dec.parameters(), lr=1e-3)
for i in range(5):
    opt_e.zero_grad()
    loss = F.mse_loss(dec(enc(x)), x)
    loss.backward()
    opt_e.step()
    opt_d.step()
""",
    ),
    "losses kept in a list while it trains": Planted(
        "memory",
        (9,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters())
history = []
for i in range(0, 64, 8):
    opt.zero_grad()
    loss = nn.CrossEntropyLoss()(model(x[i:i+8]), labels[i:i+8])
    loss.backward()
    opt.step()
    history.append(loss)
""",
    ),
    "outputs kept in evaluation, with their graphs": Planted(
        "memory",
        (5,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model.eval()
outputs = []
for i in range(0, 64, 8):
    outputs.append(model(x[i:i+8]))
preds = torch.cat(outputs).argmax(1)
""",
    ),
    "a sign in the middle": Planted(
        "vanishing",
        (5,),
        """
model = nn.Linear(16, 8)
head = nn.Linear(8, 1)
opt = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
for i in range(3):
    b = torch.sign(model(x))
    loss = F.mse_loss(head(b).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "accuracy as the loss": Planted(
        "cut",
        (3,),
        """
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pred = model(x).argmax(dim=1)
loss = 1 - (pred == labels).float().mean()
loss.requires_grad = True
loss.backward()
optimizer.step()
""",
    ),
    "a leaf changed while the graph is on": Planted(
        "error",
        (5,),
        """
w = torch.randn(16, 1, requires_grad=True)
for i in range(3):
    loss = ((x @ w).squeeze(1) - y).square().mean()
    loss.backward()
    w -= 0.01 * w.grad
""",
    ),
    "a softmax over the batch": Planted(
        "loss",
        (4, 5),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    p = torch.softmax(model(x), dim=0)
    loss = F.nll_loss(torch.log(p), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a metric of NumPy's as the loss": Planted(
        "cut",
        (2,),
        """
def dice(pred, target):
    pred = pred.detach().numpy() > 0.5
    target = target.numpy() > 0.5
    return 1 - 2 * np.logical_and(pred, target).sum() / (pred.sum() + target.sum())
model = nn.Linear(16, 1)
opt = torch.optim.Adam(model.parameters())
for i in range(3):
    opt.zero_grad()
    loss = torch.tensor(dice(torch.sigmoid(model(x)).squeeze(1), y), requires_grad=True)
    loss.backward()
    opt.step()
""",
    ),
    "torch.tensor of what must train": Planted(
        "cut",
        (4,),
        """
nets = [nn.Linear(16, 1) for _ in range(3)]
opt = torch.optim.Adam([p for n in nets for p in n.parameters()])
for i in range(3):
    outs = torch.tensor([n(x).mean() for n in nets], requires_grad=True)
    loss = outs.square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "an optimizer that never steps": Planted(
        "optimizer",
        (6,),
        """
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
""",
    ),
    "steps by hand that clear nothing": Planted(
        "zero-grad",
        (4,),
        """
w = torch.zeros(16, 4, requires_grad=True)
for i in range(6):
    loss = F.cross_entropy(x @ w, labels)
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
""",
    ),
    "steps by .data that clear nothing": Planted(
        "zero-grad",
        (4,),
        """
W = torch.randn(16, 4, requires_grad=True)
for i in range(6):
    loss = F.cross_entropy(x @ W, labels)
    loss.backward()
    W.data -= 0.1 * W.grad.data
""",
    ),
    "a softmax over one class": Planted(
        "loss",
        (4,),
        """
model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softmax(dim=1))
opt = torch.optim.Adam(model.parameters())
for i in range(3):
    p = model(x).squeeze(1)
    loss = F.binary_cross_entropy(p, (y > 0).float())
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a likelihood by hand of two shapes": Planted(
        "broadcast",
        (4,),
        """
model = nn.Linear(16, 1)
p = torch.sigmoid(model(x))
t = (y > 0).float()
loss = -(t * torch.log(p + 1e-6) + (1 - t) * torch.log(1 - p + 1e-6)).mean()
loss.backward()
""",
    ),
    "judged in training mode in a function": Planted(
        "mode",
        (8,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters())
crit = nn.CrossEntropyLoss()
def validate():
    total = 0
    with torch.no_grad():
        for i in range(0, 64, 16):
            total += crit(model(x[i:i+16]), labels[i:i+16]).item()
    return total / 4
for e in range(3):
    loss = crit(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(validate())
""",
    ),
    "losses kept in a dictionary": Planted(
        "memory",
        (9,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters())
history = {"loss": []}
for i in range(0, 64, 8):
    opt.zero_grad()
    loss = F.cross_entropy(model(x[i:i+8]), labels[i:i+8])
    loss.backward()
    opt.step()
    history["loss"].append(loss)
""",
    ),
    "losses kept by an object": Planted(
        "memory",
        (12,),
        """
class T:
    def __init__(self):
        self.net = nn.Linear(16, 4)
        self.losses = []
    def fit(self):
        opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        for i in range(5):
            loss = F.cross_entropy(self.net(x), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            self.losses.append(loss)
t = T()
t.fit()
""",
    ),
    "class numbers as floats": Planted(
        "error",
        (2,),
        """
model = nn.Linear(16, 4)
loss = F.cross_entropy(model(x), labels.float())
loss.backward()
""",
    ),
    "shapes that do not fit": Planted(
        "error",
        (2,),
        """
model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(16, 4))
out = model(x)
""",
    ),
    "a vector of zeros normalised": Planted(
        "nan",
        (5,),
        """
emb = nn.Embedding(10, 8, padding_idx=0)
ids = torch.randint(0, 10, (32,))
ids[0] = 0
v = emb(ids)
v = v / v.norm(dim=1, keepdim=True)
loss = (v @ v.T).mean()
loss.backward()
""",
    ),
}
