"""The rarer functions of nn.functional against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

F = core.nn.functional
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 4, 2, 3), (2, 3, 2, 2, 2)])
def test_local_responses(size: int, shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    want = np.zeros(shape)
    for c in range(shape[1]):
        near = [x[:, d] ** 2 for d in range(c - size // 2, c + (size - 1) // 2 + 1) if 0 <= d < shape[1]]
        want[:, c] = x[:, c] / (2.0 + 0.7 * sum(near) / size) ** 0.6
    np.testing.assert_allclose(F.local_response_norm(core.tensor(x), size, 0.7, 0.6, 2.0).numpy(), want, rtol=1e-12)
    with pytest.raises(ValueError, match="Expected 3D or higher dimensionality input"):
        F.local_response_norm(core.ones(2, 3), 2)
    assert F.local_response_norm(core.ones(0, 2, 3), 2).shape == (0, 2, 3)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf"), 0.0])
def test_distances_of_pairs(p: float) -> None:
    x = RNG.normal(size=(5, 3))
    want = [np.linalg.norm(x[i] - x[j], p) for i in range(5) for j in range(i + 1, 5)]
    np.testing.assert_allclose(F.pdist(core.tensor(x), p).numpy(), want, rtol=1e-12)
    with pytest.raises(RuntimeError, match="only supports 2D tensors, got: 1D"):
        F.pdist(core.ones(3))


@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
def test_bilinear(lead: tuple[int, ...]) -> None:
    a, b, w, bias = (RNG.normal(size=s) for s in ((*lead, 2), (*lead, 3), (5, 2, 3), (5,)))
    want = np.einsum("...i,oij,...j->...o", a, w, b)
    given = [core.tensor(x) for x in (a, b, w)]
    np.testing.assert_allclose(F.bilinear(*given).numpy(), want, atol=1e-12)
    np.testing.assert_allclose(F.bilinear(*given, core.tensor(bias)).numpy(), want + bias, atol=1e-12)


def test_bilinear_of_what_does_not_fit() -> None:
    w = core.ones(5, 2, 3)
    for a, b, said in (((4, 2), (3, 3), "batch dimensions do not match"), ((1, 2), (3,), "batch dimensions"),
                       ((4, 3), (4, 3), "input1 size .* got 3 but expected 2"),
                       ((4, 2), (4, 2), "input2 size .* got 2 but expected 3")):  # fmt: skip
        with pytest.raises(RuntimeError, match=said):
            F.bilinear(core.ones(a), core.ones(b), w)


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_draws_of_gumbel_softmax(dim: int) -> None:
    logits = core.tensor(RNG.normal(size=(4, 5)), requires_grad=True)
    core.manual_seed(3)
    soft = F.gumbel_softmax(logits, 0.5, dim=dim)
    np.testing.assert_allclose(soft.sum(dim).detach().numpy(), 1.0)
    core.manual_seed(3)
    hard = F.gumbel_softmax(logits, 0.5, hard=True, dim=dim)
    want = (soft == soft.max(dim, keepdim=True)[0]).double().detach()
    np.testing.assert_allclose(hard.detach().numpy(), want.numpy(), atol=1e-15)
    weight = core.tensor(RNG.normal(size=(4, 5)))
    grads = [core.autograd.grad((y * weight).sum(), logits)[0].numpy() for y in (soft, hard)]
    np.testing.assert_allclose(*grads)
    core.manual_seed(3)
    noise = -np.log(core.empty(4, 5, dtype=core.float64).exponential_().numpy())
    scores = np.exp((logits.detach().numpy() + noise) / 0.5)
    np.testing.assert_allclose(soft.detach().numpy(), scores / scores.sum(dim, keepdims=True), rtol=1e-12)


def test_random_slopes() -> None:
    x = core.tensor(RNG.normal(size=1000))
    y = F.rrelu(x, 0.2, 0.4, training=True)
    slopes = (y / x).numpy()
    below = x.numpy() < 0
    assert (slopes[~below] == 1).all()
    assert 0.2 <= slopes[below].min() < 0.21
    assert 0.39 < slopes[below].max() <= 0.4
    still = F.rrelu(x, 0.2, 0.4)
    np.testing.assert_allclose(still.numpy(), np.where(below, 0.3 * x.numpy(), x.numpy()))
    z = x.clone()
    assert F.rrelu(z, 0.2, 0.4, inplace=True) is z
    np.testing.assert_array_equal(z.numpy(), still.numpy())
    assert F.rrelu(core.tensor([-2.0]), 0.5, 0.5).tolist() == [-1.0]
    with pytest.raises(RuntimeError, match="lower bound must be finite"):
        F.rrelu(x, float("nan"), 1.0)
    with pytest.raises(RuntimeError, match="upper bound must be finite"):
        F.rrelu(x, 0.0, float("inf"))
    with pytest.raises(RuntimeError, match="Lower bound should be less"):
        F.rrelu(x, 0.5, 0.4)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2, -1])
def test_bags(mode: str, padding: Any) -> None:
    table = RNG.normal(size=(5, 3))
    index = np.array([0, 4, 2, 1, 1, 4])
    take = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]

    def bag(places: Any) -> Any:
        kept = [i for i in places if padding is None or i != padding % 5]
        return take(table[kept], axis=0) if kept else np.zeros(3)

    t, w = core.tensor(index), core.tensor(table)
    how: dict[str, Any] = {"mode": mode, "padding_idx": padding}
    rows = F.embedding_bag(t.reshape(2, 3), w, **how)
    np.testing.assert_allclose(rows.numpy(), [bag(index[:3]), bag(index[3:])])
    parts = F.embedding_bag(t, w, core.tensor([0, 1, 1, 4]), **how)
    np.testing.assert_allclose(parts.numpy(), [bag(index[:1]), bag([]), bag(index[1:4]), bag(index[4:])])
    ends = F.embedding_bag(t, w, core.tensor([0, 2, 6]), include_last_offset=True, **how)
    np.testing.assert_allclose(ends.numpy(), [bag(index[:2]), bag(index[2:])])
    if mode == "sum" and padding is None:
        weights = RNG.normal(size=6)
        by = F.embedding_bag(t, w, core.tensor([0, 4]), mode="sum", per_sample_weights=core.tensor(weights))
        scaled = table[index] * weights[:, None]
        np.testing.assert_allclose(by.numpy(), [scaled[:4].sum(0), scaled[4:].sum(0)])


def test_bags_of_nothing_and_wrong_ones() -> None:
    t, w = core.tensor([0, 1]), core.ones(3, 2)
    assert F.embedding_bag(core.zeros(0, 2).long(), w).shape == (0, 2)
    with pytest.raises(ValueError, match="mode has to be one of"):
        F.embedding_bag(t, w, core.tensor([0]), mode="min")
    with pytest.raises(NotImplementedError, match="only supported for mode='sum'"):
        F.embedding_bag(t, w, core.tensor([0]), mode="mean", per_sample_weights=core.ones(2))
    with pytest.raises(ValueError, match="if input is 2D, then offsets has to be None"):
        F.embedding_bag(t.reshape(1, 2), w, core.tensor([0]))
    with pytest.raises(ValueError, match="offsets has to be a 1D Tensor but got None"):
        F.embedding_bag(t, w)


def test_whole_channels_are_dropped_to_where_selu_ends() -> None:
    """Klambauer et al., arXiv 1706.02515: dropped values become alpha', and an affine map keeps mean and variance."""
    p, alpha = 0.3, -1.7580993408473766
    scale = ((alpha**2 * p + 1) * (1 - p)) ** -0.5
    shift = -scale * alpha * p
    x = core.tensor(np.random.default_rng(0).normal(size=(40, 5, 6)))
    y = core.nn.functional.feature_alpha_dropout(x, p, training=True).numpy()
    kept = np.isclose(y, scale * x.numpy() + shift).all(2)
    dropped = np.isclose(y, scale * alpha + shift).all(2)
    assert (kept ^ dropped).all()
    assert 0.15 < dropped.mean() < 0.45
    assert (core.nn.functional.feature_alpha_dropout(x, 1, training=True) == 0).all()
    assert (core.nn.functional.feature_alpha_dropout(x, p, training=False) == x).all()
