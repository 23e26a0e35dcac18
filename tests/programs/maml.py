"""Model-agnostic meta-learning (Finn 2017): few examples, gradients through gradient steps."""

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.nn as nn
import core.nn.functional as F
from core.func import functional_call

digits: Any = load_digits()
images = torch.from_numpy((digits.data / 16.0).astype(np.float32))
# A digit turned by 90, 180 or 270 degrees is a class of its own: 28 to learn from, 12 to be tried on.
classes = [
    torch.rot90(images[torch.from_numpy(digits.target == d)].view(-1, 8, 8), turn, dims=(1, 2)).flatten(1)
    for d in range(10)
    for turn in range(4)
]
TRAIN, TEST = classes[:28], classes[28:]


def sample_task(classes, ways=5, shots=2, queries=10):
    """A support set and a query set of `ways` classes, numbered anew each time."""
    support, query = [], []
    for i in torch.randperm(len(classes))[:ways].tolist():
        rows = classes[i][torch.randperm(len(classes[i]))[: shots + queries]]
        support.append(rows[:shots])
        query.append(rows[shots:])
    labels = torch.arange(ways)
    return (
        (torch.cat(support), labels.repeat_interleave(shots)),
        (torch.cat(query), labels.repeat_interleave(queries)),
    )


class Learner(nn.Module):
    def __init__(self, hidden=64, ways=5):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(64, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, ways)
        )

    def forward(self, x):
        return self.net(x)


def adapt(model, support, inner_steps, inner_lr, create_graph):
    x, y = support
    params = dict(model.named_parameters())
    for _ in range(inner_steps):
        loss = F.cross_entropy(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, tuple(params.values()), create_graph=create_graph)
        params = {name: p - inner_lr * g for (name, p), g in zip(params.items(), grads)}
    return params


def train(model, steps, tasks=4, inner_steps=3, inner_lr=0.2):
    meta_optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        meta_optimizer.zero_grad()
        total = 0.0
        for _ in range(tasks):
            support, (x, y) = sample_task(TRAIN)
            params = adapt(model, support, inner_steps, inner_lr, create_graph=True)
            loss = F.cross_entropy(functional_call(model, params, (x,)), y) / tasks
            loss.backward()
            total += loss.item()
        meta_optimizer.step()
        yield total


def losses(steps):
    torch.manual_seed(0)
    return list(train(Learner(), steps))


def accuracy(model, tasks=50, inner_steps=3, inner_lr=0.2):
    right = []
    for _ in range(tasks):
        support, (x, y) = sample_task(TEST)
        params = adapt(model, support, inner_steps, inner_lr, create_graph=False)
        with torch.no_grad():
            right.append((functional_call(model, params, (x,)).argmax(dim=1) == y).float().mean())
    return torch.stack(right).mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Learner()
    before = accuracy(model)
    for step, loss in enumerate(train(model, 400)):
        if step % 40 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    print(f"Two examples of five new classes: {before:.1%} right without meta-learning, {accuracy(model):.1%} with it.")
