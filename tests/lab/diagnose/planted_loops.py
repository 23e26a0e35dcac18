"""Training loops with one mistake each: what an optimizer holds, when it steps, how far; see planted.py."""

from __future__ import annotations

from .planted_more import Planted

LOOPS: dict[str, Planted] = {
    "trainer no zero_grad": Planted(
        "zero-grad",
        (14,),
        """
class Trainer:
    def __init__(self, model, lr=1e-2):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.loss_fn = nn.CrossEntropyLoss()
        self.history = []
    def fit(self, x, y, epochs=5):
        for epoch in range(epochs):
            self.step(x, y)
    def step(self, x, y):
        self.model.train()
        out = self.model(x)
        loss = self.loss_fn(out, y)
        loss.backward()
        self.opt.step()
        self.history.append(loss.item())
t = Trainer(nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4)))
t.fit(x, labels)
""",
    ),
    "zero_grad once before loop": Planted(
        "zero-grad",
        (7,),
        """
def main():
    net = nn.Linear(16, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    opt.zero_grad()
    for i in range(20):
        loss = ((net(x).squeeze(1) - y) ** 2).mean()
        loss.backward()
        opt.step()
main()
""",
    ),
    "zero_grad on the wrong model": Planted(
        "zero-grad",
        (8,),
        """
teacher = nn.Linear(16, 4)
student = nn.Linear(16, 4)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
for i in range(6):
    teacher.zero_grad()
    with torch.no_grad(): target = teacher(x)
    loss = F.mse_loss(student(x), target)
    loss.backward()
    opt.step()
""",
    ),
    "zero_grad between, with clipping": Planted(
        "zero-grad",
        (7,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
for epoch in range(5):
    out = model(x)
    loss = F.cross_entropy(out, labels)
    loss.backward()
    model.zero_grad()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
""",
    ),
    "zero_grad set_to_none False between": Planted(
        "zero-grad",
        (7,),
        """
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
crit = nn.CrossEntropyLoss()
for e in range(5):
    loss = crit(net(x), labels)
    loss.backward()
    opt.zero_grad(set_to_none=False)
    opt.step()
""",
    ),
    "accumulate never zeroed": Planted(
        "zero-grad",
        (6,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for i in range(16):
    xb, yb = x[4*i:4*i+4], labels[4*i:4*i+4]
    loss = F.cross_entropy(model(xb), yb) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
""",
    ),
    "step in the outer loop": Planted(
        "zero-grad",
        (9,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    for i in range(0, 64, 16):
        opt.zero_grad()
        loss = F.cross_entropy(model(x[i:i+16]), labels[i:i+16])
        loss.backward()
    # one step an epoch
    opt.step()
""",
    ),
    "step before backward": Planted(
        "optimizer",
        (6,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    opt.step()
    loss.backward()
""",
    ),
    "step before backward no zero": Planted(
        "optimizer",
        (5,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    loss = F.cross_entropy(model(x), labels)
    opt.step()
    loss.backward()
    opt.zero_grad()
""",
    ),
    "optimizer of a deepcopy": Planted(
        "optimizer",
        (9,),
        """
import copy
base = nn.Linear(16, 4)
model = copy.deepcopy(base)
opt = torch.optim.Adam(base.parameters(), lr=1e-3)
for _ in range(5):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "optimizer inside the loop, adam": Planted(
        "optimizer",
        (4,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
losses = []
for i in range(10):
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "model re-created in the loop": Planted(
        "optimizer",
        (9,),
        """
opt = None
for epoch in range(5):
    model = nn.Linear(16, 4)
    if opt is None:
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "only the encoder in the optimizer": Planted(
        "optimizer",
        (9,),
        """
class AE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(16, 8), nn.ReLU())
        self.dec = nn.Linear(8, 16)
    def forward(self, x):
        return self.dec(self.enc(x))
ae = AE()
opt = torch.optim.Adam(ae.enc.parameters(), lr=1e-3)
for i in range(5):
    loss = F.mse_loss(ae(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "two models one optimizer": Planted(
        "optimizer",
        (3,),
        """
encoder = nn.Linear(16, 8)
decoder = nn.Linear(8, 16)
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for epoch in range(5):
    recon = decoder(torch.tanh(encoder(x)))
    loss = F.mse_loss(recon, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "frozen then unfrozen but not in optimizer": Planted(
        "optimizer",
        (6,),
        """
model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
for p in model[0].parameters(): p.requires_grad = False
opt = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)
for epoch in range(6):
    if epoch == 2:
        for p in model[0].parameters(): p.requires_grad = True
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "lr 10 class": Planted(
        "learning-rate",
        (13,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    def forward(self, x):
        return self.net(x)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=10)
for epoch in range(20):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 5 == 0: print(epoch, loss.item())
""",
    ),
    "lr 1e-9": Planted(
        "learning-rate",
        (7,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=1e-9)
for epoch in range(20):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "adam lr 1": Planted(
        "learning-rate",
        (7,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters(), lr=1.0)
for epoch in range(20):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "momentum 1.5": Planted(
        "learning-rate",
        (7,),
        """
model = nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=1.5)
for epoch in range(30):
    loss = F.mse_loss(model(x).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "weight decay 10": Planted(
        "weight-decay",
        (7,),
        """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=10.0)
for epoch in range(30):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "scheduler kills lr": Planted(
        "learning-rate",
        (9,),
        """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.01)
for epoch in range(12):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
""",
    ),
    "negative direction by hand": Planted(
        "learning-rate",
        (6,),
        """
w = torch.zeros(16, requires_grad=True)
for i in range(30):
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w += 0.3 * w.grad
        w.grad.zero_()
""",
    ),
    "sgd by hand lr huge": Planted(
        "learning-rate",
        (6,),
        """
w = torch.zeros(16, 1, requires_grad=True)
for i in range(10):
    loss = ((x @ w).squeeze(1) - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 50 * w.grad
        w.grad = None
""",
    ),
    "loss negated": Planted(
        "loss",
        (4,),
        """
model = nn.Linear(16, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(60):
    loss = -F.mse_loss(model(x).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
}
