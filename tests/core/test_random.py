"""Random tensors: shapes, dtypes, distributions, PyTorch's numbers, errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import core
from core.ops import sampling
from core.rng import mt19937


@pytest.fixture(autouse=True)
def _seeded() -> None:
    core.manual_seed(0)


@pytest.mark.parametrize("dtype", [core.float16, core.bfloat16, core.float32, core.float64])
def test_rand_lies_in_its_range_and_randn_has_its_moments(dtype: Any) -> None:
    u, z = core.rand(200, 200, dtype=dtype), core.randn(200, 200, dtype=dtype)
    assert u.dtype is z.dtype is dtype
    assert 0 <= u.double().min() < 0.01
    assert 0.98 < u.double().max() < 1
    assert abs(u.double().mean() - 0.5) < 0.01
    assert abs(z.double().numpy().std() - 1) < 0.02


def test_pytorch_s_own_numbers() -> None:
    core.manual_seed(0, kind="torch")
    np.testing.assert_allclose(core.rand(3), [0.49625658988952637, 0.7682217955589294, 0.08847743272781372], rtol=0)
    core.manual_seed(0, kind="torch")
    np.testing.assert_allclose(core.randn(3), [1.5409960746765137, -0.293428897857666, -2.1787893772125244], rtol=0)
    core.manual_seed(0, kind="torch")
    assert core.randperm(10).tolist() == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]
    core.manual_seed(0, kind="torch")
    assert core.randint(10, (5,)).tolist() == [4, 9, 3, 0, 3]


@pytest.mark.parametrize(("span", "numbers", "after"), [
    (2**28 - 1, [180483115], 0.2793108820915222), (2**28, [256344299], 0.40306925773620605),
    (2**31, [2135392491], 0.40306925773620605), (2**32 + 1, [2491780294], 0.40306925773620605),
])  # fmt: skip
def test_pytorch_draws_two_words_for_a_span_from_2_to_the_28_up(span: int, numbers: list[int], after: float) -> None:
    core.manual_seed(1, kind="torch")
    assert core.randint(0, span, (1,)).tolist() == numbers
    assert core.rand(1).item() == after


def test_the_vectorised_normal_draw_is_near_the_exact_one() -> None:
    twister = mt19937.Mersenne(1)
    u = mt19937.Mersenne(1).uniform(np, 4000).astype(np.float64).reshape(-1, 2, 8)
    radius, angle = np.sqrt(-2 * np.log(1 - u[:, 0])), 2 * np.pi * u[:, 1]
    want = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)
    np.testing.assert_allclose(twister.normal(np, 4000), want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kind", ["philox", "torch"])
def test_integers_and_permutations(kind: str) -> None:
    core.manual_seed(1, kind=kind)
    a = core.randint(-3, 4, (1000,))
    assert sorted(set(a.tolist())) == list(range(-3, 4))
    assert core.randint_like(core.zeros(2, 2), 5).dtype is core.float32
    assert set(core.randint_like(core.zeros(50), high=2).tolist()) == {0.0, 1.0}
    assert set(core.randint(high=2, size=(50,)).tolist()) == {0, 1}
    for n in (0, 1, 2, 100):
        assert sorted(core.randperm(n).tolist()) == list(range(n))
    assert core.randperm(3, dtype=core.int32).dtype is core.int32
    assert core.empty((), dtype=core.int64).random_().item() >= 0
    core.manual_seed(0)


def test_fills() -> None:
    x = core.empty(10000)
    assert (x.uniform_(2, 3).min() >= 2, x.max() < 3) == (True, True)
    assert abs(x.normal_(5, 2).mean() - 5) < 0.1
    assert abs(x.std() - 2) < 0.1
    assert abs(x.exponential_(4).mean() - 0.25) < 0.02
    assert x.min() > 0
    assert set(x.bernoulli_(0.3).tolist()) == {0, 1}
    assert abs(x.mean() - 0.3) < 0.03
    assert set(x.random_(2, 4).tolist()) == {2, 3}
    assert set(core.empty(100, dtype=core.bool).random_().tolist()) == {True, False}
    assert x._version == 5
    assert core.zeros(2).bernoulli_(core.tensor([0.0, 1.0])).tolist() == [0, 1]
    assert core.zeros(4).uniform_(**{"from": 3, "to": 3}).tolist() == [3] * 4


def test_a_fill_cuts_the_history_with_a_gradient_of_zero() -> None:
    x = core.ones(3, requires_grad=True)
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.normal_()
    with core.no_grad():
        x.normal_()


def test_normal_takes_numbers_and_tensors() -> None:
    assert tuple(core.normal(0.0, 1.0, (2, 3)).shape) == (2, 3)
    assert core.normal(core.tensor([1.0, 2.0]), core.zeros(2)).tolist() == [1, 2]
    assert tuple(core.normal(core.zeros(2, 1), core.ones(3)).shape) == (2, 3)
    assert core.normal(3.0, core.zeros(2)).tolist() == [3, 3]


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_by_weight(replacement: bool) -> None:
    weights = core.tensor([[1.0, 2.0, 0.0, 5.0]]).expand(4000, 4)
    drawn = core.multinomial(weights, 1, replacement).reshape(-1).numpy()
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4000, [1 / 8, 2 / 8, 0, 5 / 8], atol=0.03)
    three = core.multinomial(weights, 3, replacement).numpy()
    assert 2 not in three
    assert replacement or all(sorted(row) == [0, 1, 3] for row in three)
    assert tuple(core.multinomial(core.ones(5), 2).shape) == (2,)


@pytest.mark.parametrize(("call", "error", "phrase"), [
    (lambda: core.rand(2, dtype=core.int64), NotImplementedError, "not implemented for 'Long'"),
    (lambda: core.randint(3, 3, (2,)), RuntimeError, "random_ expects 'from' to be less than 'to', but got from=3 >="),
    (lambda: core.randint(3), TypeError, "missing argument 'size'"),
    (lambda: core.randperm(-1), RuntimeError, "n must be non-negative"),
    (lambda: core.normal(0.0, -1.0, (2,)), RuntimeError, "normal expects std >= 0.0"),
    (lambda: core.normal(0.0, 1.0), TypeError, "missing argument 'size'"),
    (lambda: core.bernoulli(core.tensor([2.0])), RuntimeError, "Expected p_in >= 0 && p_in <= 1"),
    (lambda: core.bernoulli(core.tensor([1])), RuntimeError, "expects a floating tensor"),
    (lambda: core.zeros(1).bernoulli_(2.0), RuntimeError, "expects p to be in [0, 1]"),
    (lambda: core.zeros(1).uniform_(2, 1), RuntimeError, "expects to return a [from, to) range"),
    (lambda: core.zeros(1).normal_(0, -1), RuntimeError, "std >= 0.0"),
    (lambda: core.zeros(1).exponential_(0), RuntimeError, "expects lambda > 0.0"),
    (lambda: core.zeros(1, dtype=core.int64).uniform_(), NotImplementedError, "not implemented for 'Long'"),
    (lambda: core.multinomial(core.ones(2), 3), RuntimeError, "cannot sample n_sample > prob_dist.size(-1)"),
    (lambda: core.multinomial(core.ones(2), 0), RuntimeError, "cannot sample n_sample <= 0"),
    (lambda: core.multinomial(-core.ones(2), 1), RuntimeError, "contains either `inf`, `nan` or element < 0"),
    (lambda: core.multinomial(core.zeros(2), 1), RuntimeError, "sum of probabilities <= 0"),
    (lambda: core.multinomial(core.tensor([1.0, 0.0]), 2), RuntimeError, "not enough non-negative category"),
    (lambda: core.multinomial(core.ones(2, dtype=core.int64), 1), RuntimeError, "only supports floating-point dtypes"),
    (lambda: core.multinomial(core.ones(1, 1, 1), 1), RuntimeError, "prob_dist must be 1 or 2 dim"),
])  # fmt: skip
def test_errors(call: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error) as e:
        call()
    assert phrase in str(e.value)


def test_on_the_device_cuda() -> None:
    for x in (core.rand(2, device="cuda"), core.randn_like(core.zeros(2, device="cuda")),
              core.randperm(3, device="cuda"),
              core.randint(3, (2,), device="cuda"), core.zeros(3, device="cuda").normal_()):  # fmt: skip
        assert x.is_cuda


def test_numbers_are_spread_with_one_rounding() -> None:
    """As a fused multiply-add gives them: the nearest to the exact value, by fractions."""
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.random(400), [0.0, 1.0, 2.0**-53, 1 - 2.0**-53]])
    for width, low in (
        (1 / 3, -0.1),
        (7.3, 1e3),
        (2 * 0.0883883476483184, -0.0883883476483184),
        (1e-3, 5e2),
        (1e10 / 3, 0.7),
    ):
        exact = [Fraction(float(v)) * Fraction(width) + Fraction(low) for v in u]
        assert sampling.scaled(u, width, low).tolist() == [float(v) for v in exact]
        narrow = u.astype(np.float32)
        near = sampling.scaled(narrow, width, low)
        assert near.dtype == np.float32
        wide = narrow.astype(np.float64) * float(np.float32(width)) + float(np.float32(low))
        assert (near == wide.astype(np.float32)).all()
