"""Parametrizations and the other helpers of `core.nn.utils`; tests/parity/test_parametrize.py has the values."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core import nn
from core.autograd import gradcheck
from core.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x: Any) -> Any:
        return x.triu()


class Doubled(nn.Module):
    calls = 0

    def forward(self, x: Any) -> Any:
        Doubled.calls += 1
        return 2 * x

    def right_inverse(self, x: Any) -> Any:
        return x / 2


def layer() -> Any:
    return parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())


def test_the_weight_is_computed() -> None:
    m = layer()
    assert isinstance(m, nn.Linear)
    np.testing.assert_array_equal(m.weight.detach().numpy(), m.weight.mT.detach().numpy())
    g = core.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    (m.weight * g).sum().backward()
    np.testing.assert_allclose(m.parametrizations.weight.original.grad.numpy(), [[1, 6, 10], [0, 5, 14], [0, 0, 9]])
    optimizer = core.optim.SGD(m.parameters(), 0.1)
    before = m.weight.detach().clone()
    optimizer.step()
    assert not core.equal(m.weight, before)


def test_several_in_a_row() -> None:
    m = layer()
    parametrize.register_parametrization(m, "weight", Doubled())
    m.weight = core.ones(3, 3)
    assert core.equal(m.weight, core.ones(3, 3))
    assert m.parametrizations.weight.original.tolist() == [[0.5, 0.5, 0.5], [0, 0.5, 0.5], [0, 0, 0.5]]
    with parametrize.cached():
        Doubled.calls = 0
        assert m.weight is m.weight
        assert Doubled.calls == 1


def test_the_original_is_the_same_object() -> None:
    m = nn.Linear(3, 3)
    weight = m.weight
    parametrize.register_parametrization(m, "weight", Symmetric())
    assert m.parametrizations.weight.original is weight
    parametrize.remove_parametrizations(m, "weight")
    assert m.weight is weight
    assert type(m) is nn.Linear


def test_copies_lead_their_own_lives() -> None:
    m = layer()
    parametrize.register_parametrization(m, "bias", Doubled())
    other = copy.deepcopy(m)
    assert type(other) is type(m)
    parametrize.remove_parametrizations(other, "weight")
    assert parametrize.is_parametrized(other)
    assert not parametrize.is_parametrized(other, "weight")
    assert core.equal(m.weight, other.weight)  # the first still computes its own
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(m)


def test_transfer() -> None:
    m, other = layer(), nn.Linear(3, 3)
    parametrize.transfer_parametrizations_and_params(m, other)
    assert core.equal(m.weight, other.weight)
    assert parametrize.type_before_parametrizations(other) is nn.Linear


@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal_weights_stay_so(how: str, shape: tuple[int, int]) -> None:
    m = parametrizations.orthogonal(nn.Linear(*shape).double(), orthogonal_map=how)
    optimizer = core.optim.SGD(m.parameters(), 0.5)
    for _ in range(5):
        optimizer.zero_grad()
        m(core.ones(2, shape[0], dtype=core.float64)).square().sum().backward()
        optimizer.step()
    w = m.weight.detach()
    one = w @ w.mT if shape[1] <= shape[0] else w.mT @ w
    np.testing.assert_allclose(one.numpy(), np.eye(min(shape)), atol=1e-9)


def test_the_largest_singular_value_is_one() -> None:
    m = parametrizations.spectral_norm(nn.Linear(6, 4).double())
    for _ in range(200):
        m(core.ones(1, 6, dtype=core.float64))
    assert abs(float(core.linalg.matrix_norm(m.weight, 2).detach()) - 1) < 1e-6
    before = m.eval().state_dict()["parametrizations.weight.0._u"].clone()
    m(core.ones(1, 6, dtype=core.float64))
    assert core.equal(before, m.state_dict()["parametrizations.weight.0._u"])


def test_gradients() -> None:
    m = parametrizations._WeightNorm(0)
    gradcheck(m, (core.rand(3, 1, dtype=core.float64).requires_grad_(),
                  core.rand(3, 4, dtype=core.float64).requires_grad_()))  # fmt: skip


def test_nothing_is_drawn() -> None:
    core.manual_seed(0)
    want = core.rand(3)
    core.manual_seed(0)
    m = nn.utils.skip_init(nn.Linear, 4, 5, dtype=core.float64)
    assert m.weight.dtype is core.float64
    assert core.equal(core.rand(3), want)


def test_older_names_warn() -> None:
    for call in (lambda: nn.init.uniform(core.empty(2)), lambda: nn.utils.weight_norm(nn.Linear(2, 2)),
                 lambda: nn.utils.clip_grad_norm(nn.Linear(2, 2).parameters(), 1.0),
                 lambda: nn.utils.stateless.functional_call(nn.Linear(2, 2), {}, core.ones(2))):  # fmt: skip
        with pytest.warns(FutureWarning, match="deprecated"):
            call()
