"""Order: against NumPy, at NaN and at ties, empty and 0-d, and where the gradients go."""

from __future__ import annotations

import numpy as np
import pytest

import core

X = np.random.default_rng(0).uniform(-2, 2, (3, 5))
NAN = float("nan")


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_numpys(dim: int, descending: bool) -> None:
    values, indices = core.sort(core.tensor(X), dim, descending)
    want = np.sort(X, dim)
    np.testing.assert_array_equal(values.numpy(), np.flip(want, dim) if descending else want)
    np.testing.assert_array_equal(np.take_along_axis(X, indices.numpy(), dim), values.numpy())


def test_sort_is_stable_both_ways() -> None:
    x = core.tensor([1, 0, 1, 0])
    assert x.sort().indices.tolist() == [1, 3, 0, 2]
    assert x.sort(descending=True).indices.tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize("largest", [False, True])
def test_topk_of_many_is_the_head_of_the_order(largest: bool) -> None:
    x = core.tensor(np.random.default_rng(3).permutation(2000).reshape(4, 500).astype(np.float32))
    x[1, 7] = NAN
    for k in (1, 9, 400):
        values, indices = core.topk(x, k, largest=largest)
        want = core.sort(x, descending=largest)
        assert indices.tolist() == want.indices[:, :k].tolist()
        np.testing.assert_array_equal(values.numpy(), want.values[:, :k].numpy())


def test_nan_is_the_greatest() -> None:
    x = core.tensor([NAN, 1.0, 3.0])
    assert x.sort().indices.tolist() == [1, 2, 0]
    assert x.topk(1).indices.tolist() == [0]
    assert x.topk(1, largest=False).values.tolist() == [1.0]


def test_gradients_return_to_the_places() -> None:
    x = core.tensor(X, requires_grad=True)
    (x.sort(0).values * core.arange(15.0).reshape(3, 5)).sum().backward()
    want = np.zeros_like(X)
    np.put_along_axis(want, np.argsort(X, 0), np.arange(15.0).reshape(3, 5), 0)
    np.testing.assert_array_equal(x.grad.numpy(), want)


def test_median_takes_the_lower_of_two_and_notes_nan() -> None:
    assert core.median(core.tensor([4.0, 1.0, 3.0, 2.0])).item() == 2.0
    assert np.isnan(core.median(core.tensor([1.0, NAN, 0.0])).item())
    found = core.median(core.tensor([[1.0, NAN, 0.0]]), 1)
    assert np.isnan(found.values.item())
    assert found.indices.item() == 1
    assert core.nanmedian(core.tensor([[1.0, NAN, 0.0]]), 1).values.item() == 0.0


def test_the_whole_median_shares_its_gradient_among_ties() -> None:
    x = core.tensor([1.0, 2.0, 2.0, 5.0], requires_grad=True)
    core.median(x).backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5, 0.0]


def test_mode_is_the_least_of_the_most_frequent() -> None:
    values, indices = core.mode(core.tensor([[3, 1, 3, 1, 7]]))
    assert (values.tolist(), indices.tolist()) == ([1], [3])


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantile_is_numpys(interpolation: str) -> None:
    q = np.array([0.0, 0.3, 0.5, 1.0])
    got = core.quantile(core.tensor(X), core.tensor(q), 1, interpolation=interpolation)
    np.testing.assert_allclose(got.numpy(), np.quantile(X, q, 1, method=interpolation), rtol=1e-14)


def test_nanquantile_is_numpys() -> None:
    x = X.copy()
    x[0, 1] = x[2, 3] = x[2, 4] = NAN
    got = core.nanquantile(core.tensor(x), 0.4, 1, True)
    np.testing.assert_allclose(got.numpy(), np.nanquantile(x, 0.4, 1, keepdims=True), rtol=1e-14)
    assert np.isnan(core.quantile(core.tensor(x), 0.4).item())


def test_quantile_has_gradients_to_second_order() -> None:
    x = core.tensor(X, requires_grad=True)
    assert core.autograd.gradcheck(lambda t: core.quantile(t * t, 0.3, 0), (x,))
    assert core.autograd.gradgradcheck(lambda t: core.quantile(t * t, 0.3, 0), (x,))


def test_0d_and_empty() -> None:
    s = core.tensor(3.0)
    assert core.sort(s).values.item() == core.median(s).item() == core.topk(s, 1).values.item() == 3.0
    assert core.sort(core.zeros(0, 3), 0).values.shape == (0, 3)
    assert np.isnan(core.median(core.zeros(0)).item())


def test_errors_say_what_was_needed() -> None:
    x = core.tensor(X)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        core.topk(x, 9)
    with pytest.raises(RuntimeError, match="selected number k out of range"):
        core.kthvalue(x, 0)
    with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
        core.quantile(x, 1.5)
    with pytest.raises(RuntimeError, match="same dtype"):
        core.quantile(x, core.tensor([0.5]))
    with pytest.raises(IndexError, match="out of range"):
        core.sort(x, 2)


def test_quantile_of_a_number_keeps_its_shape_and_gives_q_a_gradient() -> None:
    x = core.tensor(3.0)
    assert core.quantile(x, 0.5, dim=0, keepdim=True).shape == ()
    assert core.nanquantile(x, core.tensor([0.1, 0.9]), dim=0, keepdim=True).shape == (2,)
    q = core.tensor([0.1, 0.6], requires_grad=True)
    core.quantile(core.tensor([0.0, 1.0, 4.0]), q).sum().backward()
    assert q.grad.tolist() == [2.0, 6.0]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("dim", [0, 1])
def test_medians_with_and_without_what_is_no_number(n: int, dim: int) -> None:
    rng = np.random.default_rng(n)
    for missing in range(n + 1):
        x = rng.normal(size=(3, n))
        for row in x:
            row[rng.permutation(n)[:missing]] = np.nan
        t = core.tensor(x if dim else x.T.copy())
        for row, plain, spared, at in zip(x, core.median(t, dim)[0].tolist(), core.nanmedian(t, dim)[0].tolist(),
                                          core.nanmedian(t, dim)[1].tolist(), strict=True):  # fmt: skip
            present = np.sort(row[~np.isnan(row)])
            lower = present[(len(present) - 1) // 2] if len(present) else np.nan
            np.testing.assert_equal(spared, lower)
            np.testing.assert_equal(row[at], lower)
            np.testing.assert_equal(plain, np.nan if missing else lower)
