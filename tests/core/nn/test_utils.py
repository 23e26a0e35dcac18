"""Clipping gradients; parameters as one vector."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core
from core import nn
from core.nn import utils


def with_gradients(*grads: list[float]) -> list[nn.Parameter]:
    params = [nn.Parameter(core.zeros(len(g))) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = core.tensor(g)
    return params


def test_the_norm_is_clipped_over_all_parameters() -> None:
    params = [*with_gradients([3.0], [4.0, 0.0]), nn.Parameter(core.zeros(1))]
    total = utils.clip_grad_norm_(params, max_norm=1.0)
    assert total.item() == 5.0
    np.testing.assert_allclose([params[0].grad.item(), *params[1].grad.tolist()], [0.6, 0.8, 0.0], rtol=1e-6)
    assert utils.clip_grad_norm_(iter(params), 10.0).item() == pytest.approx(1.0)
    assert params[0].grad.item() == pytest.approx(0.6)
    assert utils.clip_grad_norm_(params, 1.0, norm_type=math.inf).item() == pytest.approx(0.8)
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0


def test_a_norm_that_is_not_finite_may_raise() -> None:
    params = with_gradients([math.nan, 1.0])
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert math.isnan(utils.clip_grad_norm_(params, 1.0).item())


def test_values_are_clipped_one_by_one() -> None:
    params = with_gradients([-3.0, 0.25], [9.0])
    utils.clip_grad_value_(params, 0.5)
    assert [p.grad.tolist() for p in params] == [[-0.5, 0.25], [0.5]]
    assert params[0].grad._version == 1


def test_parameters_go_into_a_vector_and_back() -> None:
    a, b = nn.Linear(2, 3), nn.Linear(2, 3)
    v = utils.parameters_to_vector(a.parameters())
    assert v.requires_grad
    utils.vector_to_parameters(v.detach(), b.parameters())
    assert [p.tolist() for p in a.parameters()] == [p.tolist() for p in b.parameters()]
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        utils.vector_to_parameters(v[:-1], b.parameters())
