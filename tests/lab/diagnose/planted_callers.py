"""Planted mistakes whose op runs in one place and whose cause stands in another: a caller, an earlier line or step."""

from __future__ import annotations

from .planted_more import Planted

CALLERS: dict[str, Planted] = {
    "no_grad in a function around the model": Planted(
        "cut",
        (11,),
        """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
    def forward(self, x):
        return F.relu(self.conv2(F.relu(self.conv1(x)))).mean((2, 3))

def extract(encoder, x):
    with torch.no_grad():
        return encoder(x)

def train(encoder, head, batches, opt):
    for x, y in batches:
        opt.zero_grad()
        loss = F.cross_entropy(head(extract(encoder, x)), y)
        loss.backward()
        opt.step()

encoder, head = Encoder(), nn.Linear(16, 5)
opt = torch.optim.Adam(list(encoder.parameters()) + list(head.parameters()), lr=1e-3)
batches = [(torch.randn(8, 3, 16, 16), torch.randint(0, 5, (8,))) for _ in range(4)]
train(encoder, head, batches, opt)
""",
    ),
    "a loop over rows in a function around the model": Planted(
        "overhead",
        (11,),
        """
class Scorer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, 16), nn.Linear(16, 1)
    def forward(self, row):
        return self.fc2(torch.relu(self.fc1(row)))

def batch_loss(model, X, y):
    loss = 0.0
    for i in range(len(X)):
        pred = model(X[i])
        loss = loss + (pred - y[i]) ** 2
    return loss.mean() / len(X)

X, y = torch.randn(256, 7), torch.randn(256, 1)
model = Scorer(7)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    opt.zero_grad()
    loss = batch_loss(model, X, y)
    loss.backward()
    opt.step()
""",
    ),
    "weights and data in float64": Planted(
        "dtype",
        (3,),
        """
rng = np.random.RandomState(0)
data = rng.randn(256, 10)
X = torch.tensor(data)
y = torch.tensor(data[:, :1] * 2.0 - data[:, 1:2])
W1 = torch.tensor(rng.randn(10, 64) * 0.3, requires_grad=True)
W2 = torch.tensor(rng.randn(64, 1) * 0.1, requires_grad=True)
opt = torch.optim.SGD([W1, W2], lr=0.05)
for step in range(20):
    h = torch.tanh(X @ W1)
    pred = h @ W2
    loss = ((pred - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a stack of sigmoids that has settled": Planted(
        "vanishing",
        (10,),
        """
layers = []
for k in range(10):
    layers += [nn.Linear(32, 32), nn.Sigmoid()]
G = nn.Sequential(*layers, nn.Linear(32, 2))
X = torch.randn(128, 32)
y = (X[:, 0] > 0).long()
opt = torch.optim.SGD(G.parameters(), lr=0.1)

for step in range(20):
    logits = G(X)
    loss = F.cross_entropy(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "Adam with a learning rate of 1": Planted(
        "learning-rate",
        (13,),
        """
torch.manual_seed(1)
actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
opt = torch.optim.Adam(actor.parameters(), lr=1.0)
for it in range(25):
    s = torch.randn(128, 4)
    logp = F.log_softmax(actor(s), dim=1)
    a = torch.multinomial(logp.exp().detach(), 1)
    reward = torch.where(a.squeeze(1) == (s[:, 0] > 0).long(), torch.ones(128), -torch.ones(128))
    chosen = logp.gather(1, a).squeeze(1)
    loss = -(chosen * reward).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, reward.mean().item())
""",
    ),
    "an optimizer without the embedding": Planted(
        "optimizer",
        (5,),
        """
vocab = 50
emb = nn.Embedding(vocab, 16)
lstm = nn.LSTM(16, 32, batch_first=True)
fc = nn.Linear(32, 2)
opt = torch.optim.Adam(list(lstm.parameters()) + list(fc.parameters()), lr=1e-3)
criterion = nn.CrossEntropyLoss()

x = torch.randint(0, vocab, (64, 12))
y = (x[:, 0] > 24).long()
for epoch in range(10):
    out, (hn, cn) = lstm(emb(x))
    logits = fc(hn[-1])
    loss = criterion(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
""",
    ),
    "a NaN that a draw trips over": Planted(
        "nan",
        (12,),
        """
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(6):
    states = torch.randn(20, 4)
    logits = policy(states)
    logp_all = F.log_softmax(logits, dim=1)
    actions = torch.multinomial(logp_all.exp().detach(), 1)
    logp = logp_all.gather(1, actions).squeeze(1)
    # sparse reward: only the end of the episode counts
    final = 1.0 if episode % 2 == 0 else 0.0
    returns = torch.full((20,), final)
    adv = (returns - returns.mean()) / returns.std()
    loss = -(logp * adv).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(episode, loss.item())
""",
    ),
}
