"""Gradients of structured ops in programs: one op each, run by a kernel of core, and written for others in ops."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import nn
from core.export.program import Program


def lstm():
    return nn.LSTM(3, 4, batch_first=True), (5, 3), (5, 4)


def norm():
    return nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 2)), (3,), (2,)


def encoder():
    return nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (5, 4), (5, 4)


def convolution():
    layers = nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2)
    return nn.Sequential(*layers), (2, 4, 4), (2,)


def step_of(model):
    """A training step with momentum."""
    optimizer = core.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = ((out[0] if isinstance(out, tuple) else out) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.parametrize(("make", "of"), [(lstm, {"lstm"}), (norm, {"layer_norm", "linear"}), (convolution, {"linear"}),
                                          (encoder, {"attention", "layer_norm", "linear"})])  # fmt: skip
def test_a_training_step_has_one_op_for_each(make, of, tmp_path):
    core.manual_seed(3)
    model, into, out = make()
    step = step_of(model)

    def data(n):
        return core.randn(n, *into), core.randn(n, *out)

    step(*data(2))
    program = core.export(step, data(4), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    assert of <= {node.params["of"] for node in program.nodes if node.op == "gradient"}
    assert all(f"{name}.backward(" in str(program) for name in of)
    program.save(tmp_path / "step.gl")
    loaded = core.export.load(tmp_path / "step.gl")
    assert not [node for node in loaded.nodes if node.op == "gradient"]
    for n in (4, 7, 1):
        given = data(n)
        losses = [float(p(*given)) for p in (program, loaded)]
        np.testing.assert_allclose(losses, float(step(*given)), rtol=1e-5)
    first = next(iter(model.state_dict().values()))
    mine = next(a for name, (_, a) in program.state.items() if name.startswith("model."))
    np.testing.assert_allclose(mine, first.numpy(), rtol=1e-5, atol=1e-6)


def slope(x):
    w = x.detach().requires_grad_()
    (found,) = core.autograd.grad(nn.functional.layer_norm(w, (4,)).exp().sum(), w)
    return found * x


def test_a_gradient_through_it_goes_through_its_ops():
    x = core.randn(3, 4)
    program = core.export(slope, (x,), dynamic={"x": {0: "n"}})
    assert "layer_norm" in {node.params["of"] for node in program.nodes if node.op == "gradient"}
    np.testing.assert_allclose(program(x).numpy(), slope(x).numpy(), rtol=1e-5)
    found = []
    for p in (program, program.in_ops()):
        given = core.tensor(x.numpy()).requires_grad_()
        p(given).sum().backward()
        found.append(given.grad.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    assert np.abs(found[0]).max() > 0.01


def test_gradients_of_gradients_stay_apart():
    def f(x):
        w = x.detach().requires_grad_()
        (g,) = core.autograd.grad(nn.functional.softmax(w, -1).square().sum(), w, create_graph=True)
        (h,) = core.autograd.grad(g.square().sum(), w)
        return h

    x = core.randn(3, 4)
    program = core.export(f, (x,), dynamic={"x": {0: "n"}})
    for n in (1, 6):
        x = core.randn(n, 4)
        np.testing.assert_allclose(program(x).numpy(), f(x).numpy(), rtol=1e-4, atol=1e-6)


def test_what_no_kernel_takes_runs_in_ops(monkeypatch):
    x = core.randn(3, 4)
    program: Program = core.export(slope, (x,))
    monkeypatch.setattr("core.export.running.gradient_by_row", lambda *given: None)
    np.testing.assert_allclose(program(x).numpy(), slope(x).numpy(), rtol=1e-5)
