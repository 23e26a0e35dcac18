"""How weights start: bounds, spreads and shapes of the distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core
from core import nn
from core.nn import init


@pytest.fixture(autouse=True)
def seeded() -> None:
    core.manual_seed(0)


def spread(t: core.Tensor) -> float:
    return float(t.detach().numpy().std())


def test_fans_count_what_an_element_is_made_of() -> None:
    assert init._calculate_fan_in_and_fan_out(core.empty(3, 5)) == (5, 3)
    assert init._calculate_fan_in_and_fan_out(core.empty(4, 2, 3, 3)) == (18, 36)


@pytest.mark.parametrize(("fill", "std", "bound"), [
    (lambda w: init.xavier_uniform_(w, 2.0), 2 * math.sqrt(2 / 500), 2 * math.sqrt(6 / 500)),
    (lambda w: init.xavier_normal_(w), math.sqrt(2 / 500), None),
    (lambda w: init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(2 / 300), math.sqrt(6 / 300)),
    (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="linear"), math.sqrt(1 / 200), None),
    (lambda w: init.uniform_(w, -2, 2), 4 / math.sqrt(12), 2.0),
    (lambda w: init.normal_(w, 0, 3.0), 3.0, None),
])  # fmt: skip
def test_a_distribution_has_its_spread_and_bound(fill: object, std: float, bound: float | None) -> None:
    w = nn.Parameter(core.empty(200, 300))
    assert fill(w) is w  # type: ignore[operator]
    assert abs(spread(w) / std - 1) < 0.02
    assert abs(float(w.detach().mean())) < 0.02 * std * 3
    if bound is not None:
        assert 0.99 * bound < float(w.detach().abs().max()) <= bound
    assert w.requires_grad
    assert w.grad_fn is None


@pytest.mark.parametrize(("a", "b"), [(-2.0, 2.0), (-0.5, 1.0), (1.5, 4.0), (2.0, 2.5)])
def test_a_truncated_normal_stays_inside_and_keeps_its_shape(a: float, b: float) -> None:
    w = init.trunc_normal_(core.empty(40_000), a=a, b=b).numpy()
    assert a <= w.min()
    assert w.max() <= b
    density = lambda x: math.exp(-x * x / 2)
    below = (w < (a + b) / 2).mean()
    grid = np.linspace(a, b, 2001)
    heights = np.array([density(x) for x in grid])
    assert abs(below - heights[:1000].sum() / heights.sum()) < 0.01


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (2, 3, 4)])
def test_an_orthogonal_matrix_is_orthogonal(shape: tuple[int, ...]) -> None:
    w = init.orthogonal_(core.empty(*shape, dtype=core.float64), gain=2.0).numpy().reshape(shape[0], -1)
    small = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)


def test_numbers_and_gains() -> None:
    assert init.ones_(core.empty(2)).tolist() == [1.0, 1.0]
    assert init.zeros_(nn.Parameter(core.ones(1))).tolist() == [0.0]
    assert init.eye_(core.empty(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    with pytest.raises(ValueError, match="negative_slope True not a valid number"):
        init.calculate_gain("leaky_relu", True)
    with pytest.raises(ValueError, match="Mode x not supported"):
        init.kaiming_normal_(core.empty(2, 2), mode="x")
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(core.empty(0, 2))
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(core.empty(2), mean=5.0)
