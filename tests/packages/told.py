"""What a program of this folder tells: two steps of training, and other numbers, as a line of JSON."""

from __future__ import annotations

import json
from typing import Any

import torch


def steps(parameters: Any, loss: Any, optimizer: Any = None, count: int = 2) -> dict[str, list[float]]:
    """Train for some steps and return the losses and, of the first step, each gradient's sum of squares."""
    parameters = [p for p in parameters if p.requires_grad]
    optimizer = optimizer or torch.optim.SGD(parameters, lr=0.01)
    losses: list[float] = []
    gradients: list[float] = []
    for k in range(count):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        losses.append(float(value.detach()))
        if not k:
            gradients = [float(p.grad.double().pow(2).sum()) for p in parameters if p.grad is not None]
        optimizer.step()
    return {"losses": losses, "gradients": gradients}


def numbers(x: Any) -> list[float]:
    """Return the elements of tensors, arrays and numbers in lists, tuples and dicts."""
    if isinstance(x, dict):
        return [n for v in x.values() for n in numbers(v)]
    if isinstance(x, list | tuple):
        return [n for v in x for n in numbers(v)]
    if isinstance(x, torch.Tensor):
        return [float(n) for n in x.detach().reshape(-1).double().tolist()]
    return [float(x)]


def tell(**found: Any) -> None:
    """Print the numbers, by name."""
    flat: dict[str, list[float]] = {}
    for name, x in found.items():
        if isinstance(x, dict) and "losses" in x:
            flat.update({f"{name} {part}": values for part, values in x.items()})
        else:
            flat[name] = numbers(x)
    print("told", json.dumps(flat))
