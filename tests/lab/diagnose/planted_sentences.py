"""Further mistakes, one for each sentence that no other planted cell brings about; see test_sentences.py."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "a harmless cut before the one that costs": """
net, head = nn.Linear(16, 4), nn.Linear(1, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.01)
z = net(x)
p = torch.softmax(z - z.max(1, keepdim=True).values.detach(), 1)
loss = (head(p.argmax(1).float().unsqueeze(1)).squeeze(1) - y).square().mean()
loss.backward()
optimizer.step()
""",
    "one cut behind another": """
a, b, c = nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 4)
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters(), *c.parameters()], lr=0.1)
first = torch.relu(a(x)).detach()
second = torch.relu(b(first))
loss = F.cross_entropy(c(second.detach()), labels)
loss.backward()
optimizer.step()
""",
    "a codebook that only detach reads": """
encode, book, decode = nn.Linear(16, 4), nn.Embedding(8, 4), nn.Linear(4, 16)
optimizer = torch.optim.Adam([*encode.parameters(), *book.parameters(), *decode.parameters()], lr=1e-3)
z = encode(x)
q = book(torch.cdist(z, book.weight).argmin(1))
q = z + (q - z).detach()
loss = F.mse_loss(decode(q), x) + F.mse_loss(z, q.detach())
loss.backward()
optimizer.step()
""",
    "a name bound anew under no_grad": """
w = torch.zeros(16, requires_grad=True)
for i in range(3):
    loss = (x @ w - y).square().mean()
    loss.backward()
    with torch.no_grad():
        w = w - 0.1 * w.grad
""",
    "new tensors in place of the parameters": """
w, b = torch.zeros(16, requires_grad=True), torch.zeros(1, requires_grad=True)
for i in range(2):
    (x @ w + b - y).square().mean().backward()
    if i == 0:
        w = w.data - 0.1 * w.grad
""",
    "an accumulation that nothing divides": """
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
for step in range(8):
    optimizer.zero_grad()
    for i in range(16):
        loss = F.mse_loss(model(x[4 * i : 4 * i + 4]).squeeze(1), 9 * y[4 * i : 4 * i + 4] + 6)
        loss.backward()
    optimizer.step()
""",
    "NaN in a figure alone": """
model = nn.Linear(16, 4)
F.cross_entropy(model(x), labels).backward()
hits, seen = torch.zeros(5), torch.zeros(5)
seen[:4] = 16
shares = hits / seen
""",
    "a mask that hides a whole row": """
scores = nn.Linear(16, 3)(x[:2])
hidden = torch.tensor([[True, True, True], [False, False, False]])
masked = scores.masked_fill(hidden, float("-inf"))
F.softmax(masked, dim=-1).sum().backward()
""",
    "NaN in the data": """
x = x.clone().detach()
data = torch.tensor([[float("nan")] * 16, [1.0] * 16])
model = nn.Linear(16, 4)
model(data).sum().backward()
""",
    "NaN in the weights": """
model = nn.Linear(16, 4)
model.weight.data.fill_(float("nan"))
out = model(x)
out.sum().backward()
""",
    "a recurrence that grows until it overflows": """
w = torch.nn.Parameter(torch.eye(16) * 40.0)
h = x
for t in range(40):
    h = h @ w
loss = h.square().mean()
loss.backward()
""",
    "retain_graph without need": """
model = nn.Linear(16, 4)
loss = F.cross_entropy(model(x), labels)
loss.backward(retain_graph=True)
""",
    "kl_div of logarithms": """
model, teacher = nn.Linear(16, 4), nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.no_grad():
    target = F.log_softmax(teacher(x), dim=1)
loss = F.kl_div(F.log_softmax(model(x), dim=1), target, reduction="batchmean")
loss.backward()
optimizer.step()
""",
    "relu before cross_entropy": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "run under no_grad and held by the optimizer": """
encode, head = nn.Linear(16, 8), nn.Linear(16, 4)
optimizer = torch.optim.SGD([*encode.parameters(), *head.parameters()], lr=0.1)
with torch.no_grad():
    code = encode(x)
loss = F.cross_entropy(head(x), labels)
loss.backward()
optimizer.step()
""",
    "losses copied into a new leaf": """
layers = [nn.Linear(16, 4) for _ in range(2)]
losses = []
for layer in layers:
    value = F.cross_entropy(layer(x), labels)
    losses.append(value)
total = torch.tensor(losses, requires_grad=True).sum()
total.backward()
""",
    "a gradient of another shape": """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2
    @staticmethod
    def backward(ctx, g):
        return g.sum(0)
w = torch.ones(4, 3, requires_grad=True)
Double.apply(w).sum().backward()
""",
    "an error of Python's own": """
model = nn.Linear(16, 4)
out = model(x)
settings = {"lr": 0.1}
print(settings["momentum"])
""",
    "dropout that judges too": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)
    def forward(self, x):
        return self.b(F.dropout(torch.relu(self.a(x)), 0.5))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    loss = F.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    accuracy = (model(x).argmax(1) == labels).float().mean().item()
""",
    "detached and left": """
model, head = nn.Linear(16, 4), nn.Linear(16, 1)
seen = model(x)
kept = seen.detach()
head(x).sum().backward()
""",
    "thousands of small ops": """
total = torch.zeros(())
for i in range(6000):
    total = total + 1.0
""",
}
