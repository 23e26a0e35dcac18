"""A neural ODE (Chen 2018) classifies breast tumours: Runge-Kutta, gradients by the adjoint equation."""

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

import core as torch
import core.nn as nn

data: Any = load_breast_cancer()
scaled = (data.data - data.data.mean(0)) / data.data.std(0)
order = np.random.default_rng(0).permutation(len(scaled))
x = torch.tensor(scaled[order], dtype=torch.float32)
y = torch.tensor(data.target[order], dtype=torch.float32)
x_train, y_train, x_test, y_test = x[:400], y[:400], x[400:], y[400:]


def rk4_step(f, t, dt, state):
    k1 = f(t, state)
    k2 = f(t + dt / 2, tuple(s + dt / 2 * k for s, k in zip(state, k1)))
    k3 = f(t + dt / 2, tuple(s + dt / 2 * k for s, k in zip(state, k2)))
    k4 = f(t + dt, tuple(s + dt * k for s, k in zip(state, k3)))
    return tuple(s + dt / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4))


def integrate(f, state, t0, t1, steps):
    dt = (t1 - t0) / steps
    for i in range(steps):
        state = rk4_step(f, t0 + i * dt, dt, state)
    return state


class OdeintAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, z0, steps, *params):
        with torch.no_grad():
            (z1,) = integrate(lambda t, s: (func(t, s[0]),), (z0,), 0.0, 1.0, steps)
        ctx.func, ctx.steps = func, steps
        ctx.save_for_backward(z1, *params)
        return z1

    @staticmethod
    def backward(ctx, grad_z1):
        z1, *params = ctx.saved_tensors
        func = ctx.func

        def augmented(t, state):
            z, a = state[0], state[1]
            with torch.enable_grad():
                z = z.detach().requires_grad_(True)
                dz = func(t, z)
                vjp_z, *vjp_params = torch.autograd.grad(dz, (z, *params), -a, allow_unused=True)
            return (dz.detach(), vjp_z, *(torch.zeros_like(p) if v is None else v for v, p in zip(vjp_params, params)))

        state = (z1, grad_z1, *(torch.zeros_like(p) for p in params))
        _, grad_z0, *grad_params = integrate(augmented, state, 1.0, 0.0, ctx.steps)
        return None, grad_z0, None, *grad_params


class ODEFunc(nn.Module):
    def __init__(self, dim, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, hidden), nn.Tanh(), nn.Linear(hidden, dim))
        self.evaluations = 0
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, z):
        self.evaluations += 1
        time = torch.full_like(z[:, :1], t)
        return self.net(torch.cat([z, time], dim=1))


class Classifier(nn.Module):
    def __init__(self, features=30, augment=2, steps=4):
        super().__init__()
        self.augment, self.steps = augment, steps
        self.func = ODEFunc(features + augment)
        self.head = nn.Linear(features + augment, 1)

    def forward(self, x):
        z0 = torch.nn.functional.pad(x, (0, self.augment))
        z1 = OdeintAdjoint.apply(self.func, z0, self.steps, *self.func.parameters())
        return self.head(z1).squeeze(-1)


def train(model, steps, batch_size=64):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(steps):
        batch = torch.randint(0, len(x_train), (batch_size,))
        loss = criterion(model(x_train[batch]), y_train[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(Classifier(), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Classifier()
    for step, loss in enumerate(train(model, 100)):
        if step % 10 == 0:
            print(f"step {step:4d}  loss {loss:.4f}  evaluations of the field so far {model.func.evaluations}")
    with torch.no_grad():
        right = ((model(x_test) > 0) == (y_test > 0.5)).float().mean().item()
    print(f"{right:.1%} of {len(y_test)} unseen tumours are told apart, benign from malignant.")
