"""Low-rank adaptation (Hu 2021): a network trained on digits reads them upside down with 3 % more parameters."""

import math
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.nn as nn
import core.nn.functional as F
import core.nn.utils.parametrize as parametrize

digits: Any = load_digits()
images = torch.from_numpy((digits.images / 16.0).astype(np.float32))
labels = torch.from_numpy(digits.target.astype(np.int64))
x_train, y_train, x_test, y_test = images[:1500], labels[:1500], images[1500:], labels[1500:]


class LoRAParametrization(nn.Module):
    """weight -> weight + B A * alpha / rank; B begins at zero, so that nothing changes at first."""

    def __init__(self, features_in, features_out, rank=2, alpha=4):
        super().__init__()
        self.lora_A = nn.Parameter(torch.zeros((rank, features_out)))
        self.lora_B = nn.Parameter(torch.zeros((features_in, rank)))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scale = alpha / rank
        self.enabled = True

    def forward(self, original_weights):
        if not self.enabled:
            return original_weights
        return original_weights + torch.matmul(self.lora_B, self.lora_A) * self.scale


def base_network(hidden=256):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10)
    )


def add_lora(model):
    for p in model.parameters():
        p.requires_grad = False
    for layer in model:
        if isinstance(layer, nn.Linear):
            features_in, features_out = layer.weight.shape
            lora = LoRAParametrization(features_in, features_out)
            parametrize.register_parametrization(layer, "weight", lora)


def set_lora(model, enabled):
    for layer in model:
        if parametrize.is_parametrized(layer, "weight"):
            layer.parametrizations["weight"][0].enabled = enabled


def train(model, x, steps, lr, batch_size=64):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    model.train()
    for _ in range(steps):
        batch = torch.randint(len(x), (batch_size,))
        loss = F.cross_entropy(model(x[batch]), y_train[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def turned(x):
    return torch.rot90(x, 2, dims=(1, 2))


def losses(steps):
    """Half of the steps teach the network, the other half the adapter."""
    torch.manual_seed(0)
    model = base_network()
    history = list(train(model, x_train, steps // 2, lr=1e-3))
    add_lora(model)
    return history + list(train(model, turned(x_train), steps - steps // 2, lr=1e-2))


@torch.no_grad()
def accuracy(model, x):
    return (model(x).argmax(dim=1) == y_test).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = base_network()
    for step, loss in enumerate(train(model, x_train, 300, lr=1e-3)):
        if step % 60 == 0:
            print(f"base  step {step:4d}  loss {loss:.4f}")
    add_lora(model)
    frozen = {k: v.clone() for k, v in model.state_dict().items() if k.endswith("original")}
    before = accuracy(model, turned(x_test))
    for step, loss in enumerate(train(model, turned(x_train), 300, lr=1e-2)):
        if step % 60 == 0:
            print(f"lora  step {step:4d}  loss {loss:.4f}")
    after = accuracy(model, turned(x_test))
    set_lora(model, False)
    upright = accuracy(model, x_test)
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in frozen.items())
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    share = trained / sum(p.numel() for p in model.parameters())
    print(
        f"Upside down {before:.1%} before, {after:.1%} after training {share:.1%} of it; upright still {upright:.1%}."
    )
