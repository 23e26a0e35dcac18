"""A normalising flow, RealNVP (Dinh 2017), learns the density of wines from their chemistry (scikit-learn's)."""

from typing import Any

import numpy as np
from sklearn.datasets import load_wine

import core as torch
import core.nn as nn
from core import distributions as D

bunch: Any = load_wine()
wine = bunch.data
wine = (wine - wine.mean(0)) / wine.std(0)
order = np.random.default_rng(0).permutation(len(wine))
x_train = torch.tensor(wine[order[:140]], dtype=torch.float32)
x_test = torch.tensor(wine[order[140:]], dtype=torch.float32)
DIM = x_train.shape[1]


class Coupling(nn.Module):
    def __init__(self, dim, hidden, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.scale_net = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, dim), nn.Tanh())
        self.shift_net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.scale = nn.Parameter(torch.full((dim,), 0.5))

    def parts(self, kept):
        scale = self.scale_net(kept) * self.scale * (1 - self.mask)
        return scale, self.shift_net(kept) * (1 - self.mask)

    def forward(self, x):
        kept = x * self.mask
        scale, shift = self.parts(kept)
        return kept + (1 - self.mask) * (x * torch.exp(scale) + shift), scale.sum(dim=-1)

    def inverse(self, z):
        kept = z * self.mask
        scale, shift = self.parts(kept)
        return kept + (1 - self.mask) * (z - shift) * torch.exp(-scale)


class Rotation(nn.Module):
    """An invertible linear map, P (L + I) (U + diag(s)), whose log-determinant is the sum of log |s| (Glow)."""

    def __init__(self, dim):
        super().__init__()
        q, _ = torch.linalg.qr(torch.randn(dim, dim))
        p, lower, upper = torch.linalg.lu(q)
        self.register_buffer("p", p)
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.register_buffer("sign", torch.sign(torch.diagonal(upper)))
        self.log_s = nn.Parameter(torch.log(torch.abs(torch.diagonal(upper))))

    def weight(self):
        eye = torch.eye(self.p.shape[0])
        return self.p @ (self.lower.tril(-1) + eye) @ (self.upper.triu(1) + torch.diag(self.sign * self.log_s.exp()))

    def forward(self, x):
        return x @ self.weight().T, self.log_s.sum().expand(x.shape[0])

    def inverse(self, z):
        return torch.linalg.solve(self.weight(), z.T).T


class RealNVP(nn.Module):
    def __init__(self, dim, hidden=16, layers=2):
        super().__init__()
        self.register_buffer("loc", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        alternating = (torch.arange(dim) % 2).float()
        parts = []
        for i in range(layers):
            parts += [Coupling(dim, hidden, alternating if i % 2 == 0 else 1 - alternating), Rotation(dim)]
        self.parts = nn.ModuleList(parts)

    @property
    def base(self):
        return D.Independent(D.Normal(self.loc, self.scale), 1)

    def log_prob(self, x):
        log_det = torch.zeros(x.shape[0])
        for part in self.parts:
            x, term = part(x)
            log_det = log_det + term
        return self.base.log_prob(x) + log_det

    @torch.no_grad()
    def sample(self, n):
        z = self.base.sample((n,))
        for part in reversed(self.parts):
            z = part.inverse(z)
        return z


def train(model, steps, batch_size=70):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100, gamma=0.5)
    for _ in range(steps):
        noise = 0.3 * torch.randn(batch_size, DIM)
        batch = x_train[torch.randperm(len(x_train))[:batch_size]] + noise
        loss = -model.log_prob(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(RealNVP(DIM), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = RealNVP(DIM)
    for step, loss in enumerate(train(model, 300)):
        if step % 30 == 0:
            print(f"step {step:4d}  loss {loss:.3f}")
    gaussian = D.MultivariateNormal(x_train.mean(0), torch.cov(x_train.T) + 0.01 * torch.eye(DIM))
    with torch.no_grad():
        flow, normal = -model.log_prob(x_test).mean().item(), -gaussian.log_prob(x_test).mean().item()
    far = (model.sample(1000).mean(0) - x_train.mean(0)).abs().max().item()
    print(f"Unseen wines cost {flow:.2f} nats under the flow, {normal:.2f} under one Gaussian.")
    print(f"The mean of 1000 sampled wines is within {far:.2f} standard deviations of the real one.")
