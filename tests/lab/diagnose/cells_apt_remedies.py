"""Causes that a nearer remedy would only hide, and work in a loop that is wanted once: what draws from a deque or looks
through all labels, a judge in each turn, an argmax that picks from a table, the slope of a tanh that was scaled, the
variance of large numbers; and what comes close to them."""

from __future__ import annotations

from .planted_more import Planted

_TRAINS = "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"

_SONGS = """
import random
from collections import deque
class Heard:
    def __init__(self, n):
        self.songs = deque(range(n), maxlen=n)
    def some(self, n):
        return random.sample(self.songs, n)
heard = Heard(600000)
rank, taste = nn.Embedding(1000, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*rank.parameters(), *taste.parameters()], lr=0.1)
for step in range(60):
    songs = torch.tensor(heard.some(256)) % 1000
    loss = taste(rank(songs)).pow(2).mean()
"""

_VOICES = """
import numpy as np
voices = np.arange(4000) % 200
fit = nn.Linear(16, 8)
opt = torch.optim.SGD(fit.parameters(), lr=0.01)
sound = torch.randn(4000, 16)
def partners(voices):
    found = []
    for voice in voices:
        alike = np.flatnonzero(voices == voice)
        found.append(np.random.choice(alike))
    return np.array(found)
for epoch in range(3):
    other = torch.from_numpy(partners(voices))
    loss = (fit(sound) - fit(sound[other])).pow(2).mean()
"""

_WORDS = """
torch.manual_seed(0)
def pages(n):
    words = torch.randint(0, 50, (n, 12))
    return list(zip(words.split(64), (words[:, 0] > 24).long().split(64)))
train, held = pages(512), pages(2048)
net = nn.Sequential(nn.Embedding(50, 64), nn.Flatten(), nn.Linear(768, 256), nn.ReLU(), nn.Linear(256, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
def fit(words, kind):
    loss = F.cross_entropy(net(words), kind)
    opt.zero_grad()
    loss.backward()
    opt.step()
@torch.no_grad()
def wrong(words, kind):
    return (net(words).argmax(1) != kind).float().mean().item()
for epoch in range(3):
    for words, kind in train:
        fit(words, kind)
        missed = 0.0
        for page, its in held:
            missed += wrong(page, its)
    print(epoch, missed / len(held))
"""

_LEVELS = """
levels = torch.linspace(0.0, 2.0, 5)
ear = nn.Linear(16, 5)
opt = torch.optim.SGD(ear.parameters(), lr=0.1)
for step in range(3):
    scores = ear(x)
    level = torch.argmax(scores, dim=1)
    loss = (levels[level] - y.view(-1)).pow(2).mean()
"""

_TORQUE = """
torch.manual_seed(0)
hand = nn.Linear(16, 2)
opt = torch.optim.Adam(hand.parameters(), lr=1e-3)
for step in range(3):
    turn = torch.distributions.Normal(hand(x), 1.0)
    free = turn.rsample()
    torque = 3 * torch.tanh(free)
    surprise = turn.log_prob(free) - torch.log(1 - torque ** 2 + 1e-6)
    loss = (surprise.sum(1) + torque.pow(2).sum(1)).mean()
"""

_SPREAD = """
torch.manual_seed(0)
prices = 20000 + 0.05 * torch.randn(64, 16)
net = nn.Linear(16, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for step in range(3):
    mean, squares = prices.mean(0), prices.pow(2).mean(0)
    scaled = (prices - mean) / torch.sqrt(squares - mean ** 2)
    loss = net(scaled).pow(2).mean()
"""

_TUNES = """
torch.manual_seed(0)
tunes = torch.randn(512, 6) @ torch.randn(6, 40)
class Tunes(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.play = nn.Linear(40, 8), nn.Linear(4, 40)
    def forward(self, tune):
        mu, logvar = self.read(tune).chunk(2, 1)
        return self.play(mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)), mu, logvar
net = Tunes()
opt = torch.optim.Adam(net.parameters(), lr=0.02)
for step in range(200):
    tune = tunes[torch.randint(0, 512, (32,))]
    played, mu, logvar = net(tune)
    apart = F.mse_loss(played, tune)
    told = -0.5 * torch.sum(1 + logvar - mu ** 2 - torch.exp(logvar))
    loss = apart + told
"""

PLANTED: dict[str, Planted] = {
    "songs drawn from a deque": Planted("slow", (7,), _SONGS + _TRAINS),
    "a partner for each voice, looked for in all": Planted("slow", (10,), _VOICES + _TRAINS),
    "pages judged after each batch": Planted("slow", (20,), _WORDS),
    "a level that argmax picks from a table": Planted("cut", (6,), _LEVELS + _TRAINS),
    "the slope of a tanh that was scaled": Planted("nan", (8,), _TORQUE + _TRAINS),
    "tunes told by a sum over the batch": Planted("loss", (15,), _TUNES + _TRAINS),
    "a spread of prices by squares": Planted("nan", (7,), _SPREAD + _TRAINS),
}

_PAGES_ONCE = _WORDS.replace(
    """        missed = 0.0
        for page, its in held:
            missed += wrong(page, its)
""",
    """    missed = 0.0
    for page, its in held:
        missed += wrong(page, its)
""",
)

HEALTHY: dict[str, str] = {
    "songs drawn from a list": _SONGS.replace("deque(range(n), maxlen=n)", "list(range(n))") + _TRAINS,
    "pages judged after each epoch": _PAGES_ONCE,
    "a level as the mean of a table": _LEVELS.replace(
        "    level = torch.argmax(scores, dim=1)\n    loss = (levels[level]",
        "    loss = (torch.softmax(scores, dim=1) @ levels",
    )
    + _TRAINS,
    "the slope of a tanh before it is scaled": _TORQUE.replace("1 - torque ** 2", "1 - torch.tanh(free) ** 2")
    + _TRAINS,
    "tunes told by a sum beside a sum": _TUNES.replace("(played, tune)", "(played, tune, reduction='sum')") + _TRAINS,
    "a body copied from a model that is run no more": """
torch.manual_seed(0)
old = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
net[0].load_state_dict(old[0].state_dict())
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    loss = F.cross_entropy(net(x), labels)
"""
    + _TRAINS,
    "a spread of prices by differences": _SPREAD.replace(
        "torch.sqrt(squares - mean ** 2)", "(prices - mean).pow(2).mean(0).sqrt()"
    )
    + _TRAINS,
}
