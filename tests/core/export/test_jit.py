"""PyTorch's names for programs, as other people's code uses them: decorated helpers, scripted and saved models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core
from core import jit, nn


@jit.script
def scaled_tanh(x: core.Tensor, by: float = 2.0) -> core.Tensor:
    return x.tanh() * by


def test_a_scripted_function_inside_an_export():
    program = core.export(lambda x: scaled_tanh(x) + scaled_tanh(x * 2, by=3.0), (core.randn(3, 5),))
    x = core.randn(3, 5)
    assert core.equal(program(x), x.tanh() * 2 + (x * 2).tanh() * 3)


def test_a_scripted_function_takes_names_and_gives_gradients():
    x = core.randn(3, requires_grad=True)
    scaled_tanh(x, by=3.0).sum().backward()
    assert core.allclose(x.grad, 3 * (1 - x.detach().tanh() ** 2))


def test_what_no_program_can_say_runs_and_is_told_when_the_program_is_asked_for():
    @jit.script
    def noisy(x):
        return x + core.rand_like(x)

    core.manual_seed(0)
    first = noisy(core.zeros(3))
    assert not core.equal(first, noisy(core.zeros(3)))
    with pytest.raises(jit.Error, match="draws random numbers"):
        _ = noisy.graph


def test_a_scripted_module_trains_and_has_its_layers():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    scripted = jit.script(model)
    scripted(core.randn(2, 4)).sum().backward()
    assert [name for name, _ in scripted.named_parameters()] == ["0.weight", "0.bias"]
    assert model[0].bias.grad is not None
    scripted.eval()
    x = core.randn(2, 4)
    with core.no_grad():
        model[0].weight.zero_()
    assert core.equal(scripted(x), model[0].bias.expand(2, 3))
    assert list(scripted.state_dict()) == ["0.weight", "0.bias"]


def test_saved_and_loaded(tmp_path: Path):
    @jit.script
    def clipped(x):
        if x.sum() > 0:
            return x
        return x * 0

    with pytest.raises(RuntimeError, match="no program yet"):
        clipped.save(tmp_path / "m.gl")
    clipped(core.ones(3))
    jit.save(clipped, tmp_path / "m.gl")
    loaded = jit.load(tmp_path / "m.gl")
    np.testing.assert_array_equal(loaded(-core.ones(3)).numpy(), np.zeros(3))
    np.testing.assert_array_equal(loaded(core.ones(3)).numpy(), np.ones(3))
    assert "if" in clipped.code


def test_traced():
    traced = jit.trace(lambda x: x.relu() * 2, core.ones(3))
    assert core.equal(traced(core.tensor([-1.0, 0.0, 1.0])), core.tensor([0.0, 0.0, 2.0]))
    with pytest.raises(AttributeError):
        _ = traced.weight
