"""Copies that are none, things set up and not used, states that do not fit, figures of something else; and what comes
close to them."""

from __future__ import annotations

from .planted_more import Planted

_BEST = """
import copy
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
best, kept = float("inf"), None
for epoch in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if loss.item() < best:
        best = loss.item()
        kept = {keep}
{use}
"""
_LOAD = "net.load_state_dict(kept)"
_STOPPER = """
import copy
class Stopper:
    def __init__(self):
        self.best, self.state = float("inf"), None
    def __call__(self, loss, model):
        if loss < self.best:
            self.best = loss
            self.state = {keep}

torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
stopper = Stopper()
for epoch in range(6):
    loss = F.cross_entropy(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    stopper(loss.item(), net)
net.load_state_dict(stopper.state)
"""
_REMAP = """
table = torch.tensor([2, 3, 1, 0])
def remap(old):
    new = {new}
    for k in range(4):
        new[old == k] = table[k]
    return new
print(torch.bincount(remap(labels)).tolist())
"""
_Q = """
import random
random.seed(0)
torch.manual_seed(0)
gamma = 0.9
q, late = nn.Linear(4, 2), nn.Linear(4, 2)
late.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
memory = [(torch.randn(4), random.randrange(2), random.random(), torch.randn(4), k % 9 == 0) for k in range(64)]

def learn():
    batch = random.sample(memory, 16)
    state, action = torch.stack([b[0] for b in batch]), torch.tensor([b[1] for b in batch])
    reward, after = torch.tensor([b[2] for b in batch]), torch.stack([b[3] for b in batch])
    done = torch.tensor([b[4] for b in batch]).float()
    with torch.no_grad():
        target = reward + gamma * late(after).max(1)[0]{mask}
    loss = F.mse_loss(q(state).gather(1, action[:, None]).squeeze(1), target)
    opt.zero_grad()
    loss.backward()
    opt.step()

for step in range(12):
    learn()
"""
_FUNCTION = """
class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, gain):
        {keep}
        return {value}
    @staticmethod
    def backward(ctx, g):
        return {back}, None

torch.manual_seed(0)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    loss = F.cross_entropy(Times.apply(net(x), 0.5), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_STATE = """
torch.manual_seed(0)
inner = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
state = {{{key}: v.clone() for k, v in inner.state_dict().items(){some}}}
net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
net.load_state_dict(state, strict=False)
net.eval()
with torch.no_grad():
    print((net(x).argmax(1) == labels).float().mean().item())
"""
_SAMPLER = """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
WeightedRandomSampler = torch.utils.data.WeightedRandomSampler
torch.manual_seed(0)
weight = 1.0 / torch.bincount(labels).float()
sampler = WeightedRandomSampler({weights}, 64)
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    for xb, yb in DataLoader(TensorDataset(x, labels), batch_size=16, sampler=sampler):
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
_TAGS = """
torch.manual_seed(0)
ids = torch.randint(1, 9, (40, 12)) * (torch.arange(12)[None] < torch.randint(3, 12, (40, 1)))
tags = ids % 5 * (ids > 0)
emb, out = nn.Embedding(9, 16), nn.Linear(16, 5)
opt = torch.optim.Adam([*emb.parameters(), *out.parameters()], lr=1e-2)
for step in range(6):
    loss = F.cross_entropy(out(emb(ids)).reshape(-1, 5), tags.reshape(-1), ignore_index=0)
    opt.zero_grad()
    loss.backward()
    opt.step()
with torch.no_grad():
    pred = out(emb(ids)).argmax(-1)
    right = {right}
print(right.item())
"""
_F1 = """
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
def f1_score(pred, target):
    hits = (pred & target).sum().float()
    return (2 * hits / (pred.sum() + target.sum()).clamp(min=1)).item()

torch.manual_seed(0)
net = nn.Linear(16, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
wanted = y > 0
for step in range(6):
    loss = F.binary_cross_entropy_with_logits(net(x).squeeze(1), wanted.float())
    opt.zero_grad()
    loss.backward()
    opt.step()
net.eval()
{judge}
"""
_FOLDS = """
torch.manual_seed(0)
folds = torch.randperm(64).chunk(4)
{before}scores = []
def fit(model, xs, ys):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(5):
        loss = F.cross_entropy(model(xs), ys)
        opt.zero_grad()
        loss.backward()
        opt.step()

for k in range(4):
    {inside}test = folds[k]
    train = torch.cat([folds[j] for j in range(4) if j != k])
    fit(net, x[train], labels[train])
    with torch.no_grad():
        scores.append((net(x[test]).argmax(1) == labels[test]).float().mean().item())
print(sum(scores) / 4)
"""
_CRITIC = """
torch.manual_seed(0)
maker, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
for step in range(6):
    with torch.no_grad():
        fake = maker(torch.randn(32, 4))
    real = torch.randn(32, 2)
    loss = {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
_NET = "net = nn.Linear(16, 4)\n"

PLANTED = {
    "the best weights kept by reference": Planted("alias", (13,), _BEST.format(keep="net.state_dict()", use=_LOAD)),
    "the best weights in a shallow copy": Planted(
        "alias", (13,), _BEST.format(keep="dict(net.state_dict())", use=_LOAD)
    ),
    "the best model by a second name": Planted(
        "alias", (13,), _BEST.format(keep="net", use="print(best_net(x).shape)").replace("kept", "best_net")
    ),
    "an early stopper that keeps references": Planted("alias", (8,), _STOPPER.format(keep="model.state_dict()")),
    "labels that are read while they are written": Planted("alias", (5,), _REMAP.format(new="old")),
    "the end of an episode left out": Planted("unused", (16,), _Q.format(mask="")),
    "a backward that forgets the factor": Planted(
        "gradient", (8,), _FUNCTION.format(keep="ctx.gain = gain", value="t * gain", back="g")
    ),
    "a state whose keys have a prefix": Planted("loading", (5,), _STATE.format(key="'model.' + k", some="")),
    "a sampler with weights of classes": Planted("data", (5,), _SAMPLER.format(weights="weight")),
    "padding that counts as right": Planted("evaluation", (13,), _TAGS.format(right="(pred == tags).float().mean()")),
    "an F1 of batches": Planted(
        "evaluation",
        (19,),
        _F1.format(
            judge="""scores = []
with torch.no_grad():
    for xb, yb in DataLoader(TensorDataset(x, wanted), batch_size=8):
        scores.append(f1_score(net(xb).squeeze(1) > 0, yb))
print(sum(scores) / len(scores))"""
        ),
    ),
    "one model through all folds": Planted("evaluation", (16,), _FOLDS.format(before=_NET, inside="")),
    "a critic with one sign": Planted(
        "loss", (8,), _CRITIC.format(loss="-torch.mean(critic(real) + torch.mean(critic(fake)))")
    ),
}

HEALTHY = {
    "the best weights in a copy": _BEST.format(keep="copy.deepcopy(net.state_dict())", use=_LOAD),
    "the best weights in clones": _BEST.format(keep="{k: v.clone() for k, v in net.state_dict().items()}", use=_LOAD),
    "a state that goes to another model": _BEST.format(
        keep="net.state_dict()",
        use="twin = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))\n"
        "twin.load_state_dict(net.state_dict())",
    ),
    "an early stopper that copies": _STOPPER.format(keep="copy.deepcopy(model.state_dict())"),
    "labels that are written into a copy": _REMAP.format(new="old.clone()"),
    "the end of an episode in the target": _Q.format(mask=" * (1 - done)"),
    "a backward with the factor": _FUNCTION.format(keep="ctx.gain = gain", value="t * gain", back="g * ctx.gain"),
    "a straight-through estimator": _FUNCTION.format(keep="ctx.save_for_backward(t)", value="t.round()", back="g"),
    "a state of another head": _STATE.format(key="k", some=" if not k.startswith('2')"),
    "a sampler with weights of samples": _SAMPLER.format(weights="weight[labels]"),
    "padding that counts for nothing": _TAGS.format(right="(pred == tags)[tags != 0].float().mean()"),
    "an F1 of all batches": _F1.format(
        judge="""found, wants = [], []
with torch.no_grad():
    for xb, yb in DataLoader(TensorDataset(x, wanted), batch_size=8):
        found.append(net(xb).squeeze(1) > 0)
        wants.append(yb)
print(f1_score(torch.cat(found), torch.cat(wants)))"""
    ),
    "a new model for each fold": _FOLDS.format(before="", inside=_NET + "    "),
    "a critic with two signs": _CRITIC.format(loss="critic(fake).mean() - critic(real).mean()"),
}
