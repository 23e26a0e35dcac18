"""``python -m tests.core.nn.shrink.figures [mlp] [resnet] [narrow] [gpt]``: what shrinking saves, and what it costs.

Each model is trained, half of its channels are removed, and it is trained a little more. Printed are parameters,
operations (`core.utils.flop_counter`) and the time of a forward pass before and after, side by side in one run, and the
accuracy on held-out data (digits of scikit-learn; of the GPT the loss on held-out characters). One thread:
``OMP_NUM_THREADS=1``.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import core
from core import nn
from core.nn import functional as F
from core.nn.utils import shrink
from core.utils.flop_counter import FlopCounterMode

from .convolutional import ResNet
from .sequences import GPT, Config

RUNS = 40


def digits():
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    x, y = core.tensor(data.images[order].astype("float32") / 16), core.tensor(data.target[order])
    return (x[:1300], y[:1300]), (x[1300:], y[1300:])


def characters():
    text = (Path(__file__).parents[4] / "CONTRIBUTING.md").read_text()
    letters = sorted(set(text))
    ids = core.tensor([letters.index(c) for c in text])
    return ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :], len(letters)


def train(model, batches, loss_of, rate):
    optimizer = core.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()
    return model.eval()


def classes(data, epochs, shape, seed):
    x, y = data
    for epoch in range(epochs):
        order = np.random.default_rng(seed + epoch).permutation(len(y))
        for k in range(0, len(order), 64):
            at = order[k : k + 64].tolist()
            yield x[at].reshape(-1, *shape), y[at]


def windows(ids, steps, length, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        starts = rng.integers(0, len(ids) - length - 1, 16).tolist()
        yield (
            core.stack([ids[s : s + length] for s in starts]),
            core.stack([ids[s + 1 : s + length + 1] for s in starts]),
        )


def cross_entropy(model, x, y):
    out = model(x)
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def accuracy(model, data, shape):
    with core.no_grad():
        return 100 * float((model(data[0].reshape(-1, *shape)).argmax(-1) == data[1]).float().mean())


def times(models, x):
    """Return the medians of forward passes in turn, in ms of the processor: others may be running."""
    found = [[] for _ in models]
    with core.no_grad():
        for run in range(RUNS + 3):
            for model, taken in zip(models, found, strict=True):
                start = time.process_time()
                model(x)
                if run > 2:
                    taken.append(1e3 * (time.process_time() - start))
    return [statistics.median(t) for t in found]


def operations(model, x):
    with core.no_grad(), FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops()


def compare(name, model, x, measure, more, rate):
    """Print a model's row, whole and with half of its channels."""
    whole = copy.deepcopy(model)
    first = measure(model)
    plan = shrink.shrink(model, x[:1], amount=0.5)
    cut = measure(model)
    train(model, more, cross_entropy, rate)
    before, after = times([whole, model], x)
    ops = operations(model, x) / operations(whole, x)
    share = plan.parameters_after / plan.parameters
    print(
        f"{name}: parameters {plan.parameters:,} -> {plan.parameters_after:,} ({share:.3f}), operations {ops:.3f}, "
        f"time {before:.2f} -> {after:.2f} ms ({after / before:.3f}); "
        f"{first} -> {cut} without training -> {measure(model)} with",
        flush=True,
    )
    return after / before


def mlp():
    core.manual_seed(0)
    data, held = digits()
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    train(model, classes(data, 12, (64,), 0), cross_entropy, 1e-3)
    return compare(
        "MLP",
        model,
        held[0].reshape(-1, 64)[:64],
        lambda m: f"{accuracy(m, held, (64,)):.2f} %",
        classes(data, 6, (64,), 100),
        5e-4,
    )


class OneColour(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.net = ResNet(widths)

    def forward(self, x):
        return self.net(x.expand(-1, 3, -1, -1))


def resnet(*widths):
    core.manual_seed(0)
    data, held = digits()
    model = train(OneColour(widths), classes(data, 4, (1, 8, 8), 0), cross_entropy, 2e-3)
    return compare(
        f"ResNet {widths}",
        model,
        held[0].reshape(-1, 1, 8, 8)[:32],
        lambda m: f"{accuracy(m, held, (1, 8, 8)):.2f} %",
        classes(data, 3, (1, 8, 8), 100),
        1e-3,
    )


def gpt():
    core.manual_seed(0)
    ids, held, letters = characters()
    model = GPT(Config(block_size=64, vocab_size=letters, n_layer=2, n_head=8, n_embd=256))
    for table in (model.wte, model.wpe):
        nn.init.normal_(table.weight, std=0.02)
    train(model, windows(ids, 110, 64, 0), cross_entropy, 1e-3)
    test = list(windows(held, 4, 64, 7))

    def loss(m):
        with core.no_grad():
            return f"loss {statistics.mean(float(cross_entropy(m, x, y)) for x, y in test):.3f}"

    return compare("GPT", model, test[0][0][:8], loss, windows(ids, 80, 64, 50), 1e-3)


ALL = {"mlp": mlp, "resnet": partial(resnet, 64, 128, 256), "narrow": partial(resnet, 32, 64, 128), "gpt": gpt}

if __name__ == "__main__":
    ratios = [ALL[name]() for name in (sys.argv[1:] or ALL)]
    sys.exit(max(ratios) > 0.45)
