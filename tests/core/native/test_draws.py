"""Random numbers by the C kernels are those of NumPy's formulas, wherever a draw begins."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.rng import philox


class Another:
    """NumPy under another name: the formulas, not the kernels."""

    def __getattr__(self, name: str) -> object:
        return getattr(np, name)


@pytest.mark.parametrize("n", [0, 1, 5, 64, 65, 1000])
@pytest.mark.parametrize("offset", [0, 7, (1 << 32) - 40, (1 << 40) + 3])
def test_numbers_are_those_of_the_formulas(n: int, offset: int) -> None:
    seed = 0x123456789ABCDEF
    for count in (1, 4):
        for mine, right in zip(
            philox.words(np, seed, offset, n, count), philox.words(Another(), seed, offset, n, count), strict=True
        ):
            np.testing.assert_array_equal(mine, right)
    np.testing.assert_array_equal(philox.uniform(np, seed, offset, n), philox.uniform(Another(), seed, offset, n))
    np.testing.assert_allclose(philox.normal(np, seed, offset, n), philox.normal(Another(), seed, offset, n), atol=2e-6)
    engines = [philox.Philox(seed), philox.Philox(seed)]
    for span in (1, 10, 1 << 32):
        mine, right = (e.integers(xp, n, span) for e, xp in zip(engines, (np, Another()), strict=True))
        np.testing.assert_array_equal(mine, right)


def test_normal_numbers_are_normal() -> None:
    z = np.sort(philox.normal(np, 3, 0, 100_000).astype(np.float64))
    for sigma, share in ((0, 0.5), (1, 0.8413), (2, 0.9772), (-3, 0.00135)):
        assert abs(np.searchsorted(z, sigma) / z.size - share) < 0.004
    assert np.isfinite(z).all()


def test_a_small_draw_is_the_beginning_of_a_large_one() -> None:
    for draw in (core.rand, core.randn):
        core.manual_seed(4)
        small = draw(100)
        core.manual_seed(4)
        np.testing.assert_array_equal(draw(300_000)[:100].numpy(), small.numpy())


def test_ranges() -> None:
    for steps in (1, 2, 3, 10, 1001, 200_000):
        for low, high in ((0, 1), (-2.5, 7), (3.0, 3.0), (1e30, -1e30)):
            y = core.linspace(low, high, steps).numpy()
            assert y[0] == np.float32(low)
            assert steps == 1 or y[-1] == np.float32(high)
            np.testing.assert_allclose(y, np.linspace(low, high, steps), rtol=2e-6, atol=2e-6 * abs(high - low))
    for given in ((0, 10, 0.5), (5.0,), (1.5, -3, -0.25), (0.0, 1.0, 0.1), (3, 3.0), (0, 100_000, 2.0)):
        np.testing.assert_array_equal(core.arange(*given).numpy(), np.arange(*given).astype(np.float32))
    assert core.arange(200_000).tolist()[-1] == 199_999
    with pytest.raises(RuntimeError, match="upper bound"):
        core.arange(0.0, 3.0, -1.0)
    with pytest.raises(RuntimeError, match="unsupported range"):
        core.arange(float("inf"))
