"""Philox against its published numbers and against Triton's own generator, run by its interpreter."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from core import native
from core.rng import philox
from triton_kernels import runtime


class OtherLibrary:
    """NumPy under another name: it takes the path of a library that is not NumPy, which does all counters at once."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@triton.jit
def draw(uniform_ptr, normal_ptr, word_ptr, offset_ptr, seed_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    seed = tl.load(seed_ptr)
    offset = tl.load(offset_ptr + i)
    tl.store(uniform_ptr + i, tl.rand(seed, offset))
    tl.store(normal_ptr + i, tl.randn(seed, offset))
    tl.store(word_ptr + i, tl.randint(seed, offset).to(tl.int32, bitcast=True))


def test_known_answers() -> None:
    # Random123's kat_vectors: Philox 4x32, 10 rounds, counter and key 0
    assert [int(w[0]) for w in philox.words(np, 0, 0, 1, 4)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (42, 7), (2**40 + 3, 2**20), (123, 2**32 - 50)])
def test_equal_to_triton(seed: int, offset: int) -> None:
    n = 128
    uniform, normal = np.empty(n, np.float32), np.empty(n, np.float32)
    word, places = np.empty(n, np.int32), np.arange(offset, offset + n, dtype=np.int64)
    runtime.launch(draw, (1,), (uniform, normal, word, places, np.array([seed])), (), {"N": n})
    np.testing.assert_array_equal(philox.words(np, seed, offset, n)[0].view(np.int32), word)
    np.testing.assert_array_equal(philox.uniform(np, seed, offset, n), uniform)
    np.testing.assert_allclose(philox.normal(np, seed, offset, n), normal, rtol=5e-7, atol=5e-7)  # polynomials


def test_any_part_of_a_draw_can_be_made_by_itself() -> None:
    whole = philox.uniform(np, 5, 0, 40000)  # more than a chunk
    np.testing.assert_array_equal(philox.uniform(np, 5, 39000, 1000), whole[39000:])
    np.testing.assert_array_equal(philox.uniform(OtherLibrary(), 5, 0, 40000), whole)
    assert philox.uniform(np, 5, 3, 0).shape == (0,)


@pytest.mark.parametrize("draw", [philox.uniform, philox.uniform64])
def test_uniform_numbers_spread_evenly(draw: Any) -> None:
    u = draw(np, 1, 0, 100_000)
    assert u.min() >= 0
    assert u.max() < 1
    counts = np.histogram(u, 20, (0, 1))[0]
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8  # chi-squared, 19 degrees of freedom, 0.1 %


@pytest.mark.parametrize("draw", [philox.normal, philox.normal64])
def test_normal_numbers_have_their_moments(draw: Any) -> None:
    z = draw(np, 1, 0, 100_000).astype(np.float64)
    assert abs(z.mean()) < 0.013  # four standard errors
    assert abs(z.var() - 1) < 0.018
    assert abs((z**3).mean()) < 0.05
    assert abs((z**4).mean() - 3) < 0.13


def test_a_stream_sets_its_numbers_aside() -> None:
    stream = philox.Philox(9)
    assert stream.take(5) == (9, 0)
    np.testing.assert_array_equal(stream.uniform(np, 3), philox.uniform(np, 9, 5, 3))
    assert stream.offset == 8


@pytest.mark.parametrize("span", [1, 7, 2**31, 2**32, 2**32 + 1, 2**40, 2**63, 2**64])
def test_integers_stay_in_their_range(span: int) -> None:
    a = philox.Philox(3).integers(np, 2000, span)
    if span < 2**64:
        assert a.min() >= 0
        assert int(a.max()) < span
    if span > 1000:
        assert np.unique(a).size > 1900


def test_a_few_made_one_by_one_are_those_of_arrays():
    for seed, offset in ((0, 0), (2**64 - 1, 2**32 - 2), (0x123456789ABCDEF, 2**40 + 7)):
        many = philox.words(np, seed, offset, 40, 4)
        for n in range(6):
            few = philox.words(np, seed, offset, n, 4)
            assert all(f.dtype == np.uint32 and (f == m[:n]).all() for f, m in zip(few, many, strict=True))


@pytest.mark.skipif(native.module is None, reason="the C kernels are not built")
@pytest.mark.parametrize("n", [5, 63, 64, 65, 1000, 70_001])
@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (7, 123), (2**63 + 5, 2**32 - 10), (2**64 - 1, 2**40)])
def test_the_c_kernel_makes_the_same_words(n: int, seed: int, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = philox.words(np, seed, offset, n, 4)
    monkeypatch.setattr(native, "module", None)
    for mine, reference in zip(made, philox.words(np, seed, offset, n, 4), strict=True):
        np.testing.assert_array_equal(mine, reference)
