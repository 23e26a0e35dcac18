"""Graphs of `core.fx` beside PyTorch's: of the same source, the same ops and names, in the same order; same outputs."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
import torch

import core

from ..programs import source

MODELS = '''
import math
import operator
LIB
class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.relu, self.conv2 = nn.ReLU(inplace=True), nn.Conv2d(c, c, 3, padding=1)
        self.down = None
    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.conv2(out)
        if self.down is not None:
            identity = self.down(x)
        out += identity
        return self.relu(out)
class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Residual(4), Residual(4))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 3)
    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))
class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(7, 2, 1)
    def forward(self, x):
        y = torch.cat([x, F.relu(self.a(x), inplace=True)], 1)
        return F.avg_pool2d(F.dropout(self.b(y), p=0.0, training=self.training), 2).mean([2, 3])
class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 1, groups=2)
    def forward(self, x):
        x = torch.cat((x, x), dim=1)
        b, c, h, w = x.size()
        x = self.conv(x).view(b, 2, c // 2, h, w)
        x = torch.transpose(x, 1, 2).contiguous().view(b, c, h, w)
        x1, x2 = x.chunk(2, dim=1)
        return F.pixel_unshuffle(x1 * torch.sigmoid(x2), 2)
class Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(3, 2, 1), nn.Conv2d(2, 3, 1)
        self.register_buffer("mean", torch.zeros(1, 3, 1, 1))
    def forward(self, x):
        x = (x - self.mean) / math.sqrt(2.0)
        s = F.adaptive_avg_pool2d(x, 1)
        s = F.hardsigmoid(self.fc2(F.silu(self.fc1(s))))
        return F.interpolate(x * s, scale_factor=2.0, mode="nearest") + x.new_zeros(1)
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.scale = nn.Linear(8, 24), nn.Parameter(torch.ones(()))
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
    def forward(self, x):
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        n, s, d = x.shape
        q, k, v = self.qkv(x).reshape(n, s, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q @ k.transpose(-2, -1)) * self.scale
        a = F.softmax(a, dim=-1)
        y = F.scaled_dot_product_attention(q, k, v)
        return torch.einsum("nhst,nhtd->nhsd", a, v).sum() + y.norm() ** 2, x[:, 0], {"a": a.argmax(dim=-1)}
class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(8))
    def forward(self, x):
        y = F.layer_norm(x, (8,), weight=self.w)
        y = torch.where(y > 0, y, torch.zeros_like(y)) & ~torch.isnan(y) if False else y.clamp(min=0.1).log()
        return -y[..., 1:] + abs(y[..., :-1]), F.cross_entropy(y.mean((2, 3)), torch.tensor([0, 1]))
'''  # fmt: skip


def written(package: str, text: str) -> dict[str, Any]:
    """Return the names of a program with `package` in the place of LIB."""
    module = types.ModuleType(f"models_on_{package}")
    head = f"import {package} as torch, {package}.nn.functional as F\nfrom {package} import nn\n"
    exec(compile(text.replace("LIB", head), module.__name__, "exec"), module.__dict__)
    return module.__dict__


ours, theirs = written("core", MODELS), written("torch", MODELS)
SHAPES = {"ResNet": (2, 3, 16, 16), "Dense": (2, 3, 4, 4), "Shuffle": (2, 3, 4, 4), "Squeeze": (2, 3, 4, 4),
          "Attention": (2, 8, 2, 2), "Norms": (2, 8, 4, 8), "Residual": (2, 4, 4, 4)}  # fmt: skip


def listed(graph: Any) -> list[tuple[str, str, str]]:
    """Return op, target and name of each node; an operator with a tensor on its left is a method's call in PyTorch."""
    rows = []
    for n in graph.nodes:
        target = n.target if isinstance(n.target, str) else n.target.__name__
        op = "call" if n.op in ("call_function", "call_method") else n.op
        rows.append((op, target, n.name))
    return rows


def numbers(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [n for v in x.values() for n in numbers(v)]
    return [n for v in x for n in numbers(v)] if isinstance(x, list | tuple) else [x.detach().numpy()]


@pytest.mark.parametrize("name", SHAPES)
def test_graphs_and_outputs_are_pytorchs(name: str) -> None:
    args = (4,) if name == "Residual" else ()
    mine, reference = ours[name](*args).eval(), theirs[name](*args).eval()
    mine.load_state_dict({k: core.from_numpy(v.numpy()) for k, v in reference.state_dict().items()})
    traced, expected = core.fx.symbolic_trace(mine), torch.fx.symbolic_trace(reference)
    assert listed(traced.graph) == listed(expected.graph)
    x = np.linspace(-1, 1, int(np.prod(SHAPES[name])), dtype=np.float32).reshape(SHAPES[name])
    a, b = numbers(traced(core.from_numpy(x.copy()))), numbers(expected(torch.from_numpy(x.copy())))
    assert len(a) == len(b)
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    again = numbers(core.fx.Interpreter(traced).run(core.from_numpy(x.copy())))
    for one, other in zip(again, a, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


PROGRAMS = [("vit", "Attention", (16,)), ("vit", "FeedForward", (16, 8)), ("unet", None, ()), ("vae", None, ()),
            ("gan_gradient_penalty", "Generator", ()), ("gan_gradient_penalty", "Critic", ()), ("maml", "Learner", ()),
            ("resnet", None, ()), ("text_classifier", None, ()), ("word2vec", None, ()), ("flow", "Coupling", ()),
            ("actor_critic", "ActorCritic", ())]  # fmt: skip


@pytest.mark.parametrize(("program", "cls", "args"), PROGRAMS, ids=[f"{p}-{c}" for p, c, _ in PROGRAMS])
def test_modules_of_programs_are_traced_or_refused_as_by_pytorch(program: str, cls: str | None, args: Any) -> None:
    found = []
    for package in ("core", "torch"):
        module: dict[str, Any] = {"__name__": f"{program}_{package}"}
        lines = source(program, package)
        exec(compile(lines, f"{program}.py", "exec"), module)
        base = core.nn.Module if package == "core" else torch.nn.Module
        names = [cls] if cls else [k for k, v in module.items() if isinstance(v, type) and issubclass(v, base)
                                   and v.__module__ == module["__name__"]]  # fmt: skip
        fx = core.fx if package == "core" else torch.fx
        rows = []
        for name in names:
            try:
                rows.append((name, listed(fx.symbolic_trace(module[name](*args)).graph)))
            except (TypeError, ValueError, RuntimeError, NameError) as error:
                rows.append((name, [(type(error).__name__, "", "")]))
        found.append(rows)
    assert found[0] == found[1]
