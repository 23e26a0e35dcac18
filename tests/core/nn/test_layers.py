"""Layers on their own, without another library to compare with."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import nn


def test_a_linear_map_is_a_product_and_a_sum(rng: np.random.Generator) -> None:
    layer = nn.Linear(3, 2, dtype=core.float64)
    x = rng.normal(size=(2, 4, 3))
    y = layer(core.tensor(x))
    expected = x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(y.detach().numpy(), expected)
    assert float(layer.weight.abs().max()) <= 1 / np.sqrt(3)
    assert nn.Linear(3, 2, bias=False).bias is None


def test_a_bilinear_map_is_a_product_from_both_sides(rng: np.random.Generator) -> None:
    layer = nn.Bilinear(3, 4, 2, dtype=core.float64)
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 4))
    y = layer(core.tensor(a), core.tensor(b)).detach().numpy()
    expected = np.einsum("ni,oij,nj->no", a, layer.weight.detach().numpy(), b) + layer.bias.detach().numpy()
    np.testing.assert_allclose(y, expected)


def test_the_padding_row_is_zero_and_stays_so() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.padding_idx == 4
    assert layer.weight[4].tolist() == [0.0] * 3
    layer(core.tensor([4, 0])).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0] * 3] + [[0.0] * 3] * 4
    frozen = nn.Embedding.from_pretrained(core.eye(3))
    assert not frozen.weight.requires_grad
    assert frozen(core.tensor(1)).tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(5, 3, padding_idx=5)


def test_dropout_drops_in_training_alone() -> None:
    core.manual_seed(0)
    m, x = nn.Dropout(0.25), core.ones(10_000)
    y = m(x)
    assert set(y.tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert 0.72 < float((y != 0).float().mean()) < 0.78
    assert m.eval()(x) is x or m(x).tolist() == x.tolist()
    with pytest.raises(ValueError, match=r"has to be between 0 and 1, but got -0\.1"):
        nn.Dropout(-0.1)


@pytest.mark.parametrize("make", [nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SiLU, nn.Hardtanh, nn.ReLU6])
def test_an_activation_in_place_overwrites_its_input(make: type[nn.Module]) -> None:
    x = core.tensor([-2.0, 0.5, 8.0])
    expected = make()(x).tolist()
    assert x.tolist() == [-2.0, 0.5, 8.0]
    y = make(inplace=True)(x)  # type: ignore[call-arg]
    assert y is x
    assert x.tolist() == expected


def test_older_spellings_of_a_reduction_warn() -> None:
    for options, expected in [
        ({"size_average": False}, "sum"),
        ({"reduce": False}, "none"),
        ({"reduce": True}, "mean"),
    ]:
        with pytest.warns(UserWarning, match="will be deprecated, please use reduction"):
            assert nn.MSELoss(**options).reduction == expected  # type: ignore[arg-type]


def test_linear_of_no_features_is_its_bias() -> None:
    layer = core.nn.Linear(3, 2)
    empty = core.nn.Parameter(core.empty(2, 0))
    x = core.empty(4, 5, 0, requires_grad=True)
    y = core.nn.functional.linear(x, empty, layer.bias)
    assert y.shape == (4, 5, 2)
    y.sum().backward()
    assert x.grad.shape == (4, 5, 0)
    assert empty.grad.shape == (2, 0)
    assert layer.bias.grad.tolist() == [20.0, 20.0]
    assert core.nn.functional.linear(core.empty(0, 0), empty, layer.bias).shape == (0, 2)
