"""Control flow over tensors in programs: what the function does on any data, from one capture."""

from __future__ import annotations

import numpy as np
import pytest

import core as torch
from core.export import ExportError, ScriptError, export, script

WEIGHT = torch.tensor(np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32))


def numbers(n: int, factor: float = 1.0, seed: int = 0) -> torch.Tensor:
    return torch.tensor((np.random.default_rng(seed).standard_normal((n, 4)) * factor).astype(np.float32))


@script
def branch(x):
    if x.sum() > 0:
        y = x @ WEIGHT
    else:
        y = x.tanh() * 2
    for i in range(2):
        y = y + i
    return y


@script
def chain(x):
    if x.mean() > 1:
        kind = 2.0
    elif x.mean() > 0:
        kind = 1.0
    else:
        kind = -1.0
    return x * kind


@script
def root(x):
    a = x.abs() + 0.1
    r = a * 0.5
    while (r * r - a).abs().max() > 1e-4:
        r = 0.5 * (r + a / r)
    return r


@script
def early(x):
    if x.sum() > 10:
        return x * 2
    y = x + 1
    if not (y.mean() > 0 and y.max() < 3):
        return y
    return y - 1


@script
def counted(x):
    k = 0
    while x.abs().max() > 1 and k < 20:
        x = x / 2
        k += 1
        if x.sum() > 100:
            continue
        if x.mean() < -3:
            break
        x = x * 1.1
    return x, k


@script
def rows(x):
    h = torch.zeros(4)
    for row in x:
        h = torch.tanh(h + row)
    return h


@script
def rows_until(x):
    h = torch.zeros(4)
    for row in x:
        if h.abs().max() > 2:
            break
        h = h + row.abs()
    return h


@script
def either(x):
    factor = 1.0 if x.sum() > 0 else -1.0
    return x * factor if x.numel() > 2 else x


@script
def nested(x):
    steps = 0
    while x.abs().sum() > 1:
        inner = 0
        while x.abs().max() > 0.5 and inner < 3:
            x = x * 0.7
            inner = inner + 1
        x = x * 0.9
        steps = steps + inner
    return x, steps


@script
def python_decides(x, flag=True):
    if flag:
        y = x + 1
    else:
        y = x - 1
    k = 0
    while k < 3:
        y = y * 2
        k += 1
    return y


class Gate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        if y.mean() > 0:
            return y.relu()
        return -y


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        for _ in range(2):
            x = self.gate(x)
        return x


FUNCTIONS = [branch, chain, root, early, counted, rows, rows_until, either, nested, python_decides]


def agree(function, program) -> None:
    for n in (1, 2, 7, 11):
        for factor in (0.1, 1.0, 30.0):
            for sign in (0.0, 1.0, -1.0):
                x = numbers(n, factor, n) + sign * factor
                a, b = function(x.clone()), program(x.clone())
                pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
                for u, v in pairs:
                    u, v = (np.asarray(t.detach() if isinstance(t, torch.Tensor) else t) for t in (u, v))
                    np.testing.assert_allclose(v, u, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(function):
    program = export(function, (numbers(5),), dynamic={"x": {0: "n"}})
    agree(function, program)


@pytest.mark.parametrize("model", [Gate(), Outer()], ids=["own", "inner"])
def test_modules(model):
    with pytest.raises(ExportError, match="decides by a tensor's value"):
        export(model, (numbers(5),))
    agree(model, export(script(model), (numbers(5),), dynamic={"x": {0: "n"}}))
    assert "forward" not in vars(model)


def test_a_scripted_function_does_what_it_did():
    x = numbers(3)
    assert torch.equal(python_decides(x, flag=False), (x - 1) * 8)
    assert python_decides.__name__ == "python_decides"


def test_a_closure_and_its_globals():
    factor = torch.tensor(3.0)

    @script
    def scaled(x):
        if x.sum() > 0:
            return x * factor
        return x @ WEIGHT

    agree(scaled, export(scaled, (numbers(5),), dynamic={"x": {0: "n"}}))


def test_the_program_reads_like_the_source():
    text = str(export(root, (numbers(5),)))
    assert "= while (" in text
    assert "test (" in text
    assert "test_script.py:" in text


def shapes_differ(x):
    if x.sum() > 0:
        y = x.sum()
    else:
        y = x
    return y


def grows(x):
    while x.sum() < 100:
        x = torch.cat([x, x])
    return x


def writes_outside(x):
    y = torch.zeros(4)
    if x.sum() > 0:
        y += 1
    return y


@pytest.mark.parametrize(
    ("function", "said"),
    [(shapes_differ, "gives y as float32 of shape"), (grows, "changes x in a loop"), (writes_outside, "in place")],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_refused_when_it_is_exported(function, said):
    with pytest.raises(ExportError, match=rf"test_script.py line [\s\S]*{said}"):
        export(script(function), (numbers(5),))


def returns_from_a_loop(x):
    for _ in range(3):
        if x.sum() > 0:
            return x
    return -x


def yields(x):
    yield x


def returns_from_a_with(x):
    with torch.no_grad():
        return x


@pytest.mark.parametrize("function", [returns_from_a_loop, yields, returns_from_a_with], ids=lambda f: f.__name__)
def test_refused_when_it_is_scripted(function):
    with pytest.raises(ScriptError, match=r"test_script.py line \d+, column \d+"):
        script(function)
