"""Cells that look for values in lists, and that put batches together from single samples; and those that do not."""

from __future__ import annotations

from .planted_more import Planted

PLANTED: dict[str, Planted] = {
    "values looked for in a list of each user": Planted(
        "slow",
        (7,),
        """
import random
goods = list(range(3000))
bought = {user: random.sample(goods, 400) for user in range(30)}
scores = torch.zeros(30)
for epoch in range(2):
    for user, had in bought.items():
        fresh = [good for good in goods if good not in had]
        scores[user] += len(fresh)
print(scores.sum())
""",
    ),
    "batches put together from single samples": Planted(
        "slow",
        (7, 8),
        """
import random
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
kept = [(torch.randn(1, 4), torch.randn(1, 2)) for k in range(400)]
for step in range(300):
    drawn = random.choices(kept, k=512)
    given = torch.cat([one for one, _ in drawn])
    goals = torch.cat([other for _, other in drawn])
    opt.zero_grad()
    F.mse_loss(net(given), goals).backward()
    opt.step()
""",
    ),
}

HEALTHY: dict[str, str] = {
    "values looked for in a set of each user": """
import random
goods = list(range(3000))
bought = {user: set(random.sample(goods, 400)) for user in range(30)}
scores = torch.zeros(30)
for epoch in range(20):
    for user, had in bought.items():
        fresh = [good for good in goods if good not in had]
        scores[user] += len(fresh)
print(scores.sum())
""",
    "files that are each written once": """
import os
import tempfile
folder = tempfile.mkdtemp()
for k in range(60):
    torch.save({f"part {i}": x[k] * i for i in range(40)}, os.path.join(folder, f"{k}.pt"))
print(len(os.listdir(folder)))
""",
}
