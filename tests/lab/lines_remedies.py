"""The slow cells of tests/lab/diagnose/cells_slow.py with the remedy of their finding applied, by hand."""

from __future__ import annotations

REMEDIED: dict[str, str] = {
    "a bank grown by cat": """
model = nn.Linear(16, 128)
parts = []
with torch.no_grad():
    for k in range(400):
        parts.append(model(x))
    bank = torch.cat(parts)
print(bank.shape)
""",
    "one-hot rows times a matrix": """
table = nn.Embedding(8000, 64)
words = torch.arange(256) * 31
total = 0.0
for k in range(50):
    v = table(words)
    total += v.sum().item()
print(total)
""",
    "a filter of thousands of taps": """
signal = torch.randn(4, 1, 30000)
taps = torch.randn(1, 1, 6000)
outs = []
for k in range(24):
    n = 30000
    out = torch.fft.irfft(torch.fft.rfft(signal, n) * torch.fft.rfft(taps.flip(-1), n), n)
    outs.append(out[..., 5999:])
print(len(outs))
""",
    "svd in full": """
data = torch.randn(1600, 12)
found = []
for k in range(24):
    U, S, Vh = torch.linalg.svd(data + k, full_matrices=False)
    found.append(S[0].item())
print(found)
""",
    "pairs of rows, spread out": """
a, b = torch.randn(600, 64), torch.randn(500, 64)
found = []
for k in range(12):
    d = torch.cdist(a, b) ** 2
    found.append(d.min().item())
print(found)
""",
    "a hook in each call": """
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
kept = {}
def keep(module, given, made):
    kept["out"] = made
    kept["size"] = made.detach().pow(2).mean().sqrt()
for layer in net[:1]:
    layer.register_forward_hook(keep)
def look(batch):
    with torch.no_grad():
        net(batch)
    return kept["size"]
sizes = [look(x) for k in range(250)]
print(len(sizes))
""",
    "the search for NaN left on": """
model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for k in range(220):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
""",
    "a frozen part in each epoch": """
data = torch.randn(256, 256)
kinds = (data[:, 0] > 0).long()
base = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 512))
base.requires_grad_(False)
head = nn.Linear(512, 2)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
with torch.no_grad():
    features = base(data)
for epoch in range(25):
    order = torch.randperm(256)
    for part in order.split(64):
        loss = F.cross_entropy(head(features[part]), kinds[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "a prefix that grows": """
table, layer, head = nn.Embedding(30, 32), nn.GRU(32, 96, batch_first=True), nn.Linear(96, 30)
@torch.no_grad()
def write(ids, n):
    given, state = torch.tensor(ids).unsqueeze(0), None
    for _ in range(n):
        out, state = layer(table(given), state)
        ids.append(int(torch.argmax(head(out[0, -1]))))
        given = torch.tensor([[ids[-1]]])
    return ids
print(len(write([1, 2, 3], 400)))
""",
    "one sample in each step": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(6):
    for i in range(0, 64, 32):
        batch, kind = x[i : i + 32], labels[i : i + 32]
        loss = F.cross_entropy(model(batch), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "a line that takes most of the time": """
values = torch.randn(400000)
found = []
for k in range(25):
    found.append(torch.topk(values + k, 11, largest=False)[0][10].item())
print(len(found))
""",
    "a GRU written out": """
net = nn.GRU(6, 32, batch_first=True)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
series = torch.randn(16, 80, 6)
for k in range(60):
    loss = (net(series)[0] - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "the same product in each step": """
graph = torch.randn(600, 600)
weight = nn.Linear(600, 4)
optimizer = torch.optim.SGD(weight.parameters(), lr=1e-6)
marks = torch.arange(600) % 4
spread = graph @ graph
for k in range(40):
    loss = F.cross_entropy(weight(spread[:64]), marks[:64])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
}
