"""The C kernels of Fourier transforms beside NumPy's in double precision: lengths, layouts, what is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import native

pytestmark = pytest.mark.skipif(native.module is None, reason="the kernels are in the extension")

RNG = np.random.default_rng(0)
LENGTHS = (*range(1, 14), 15, 16, 26, 27, 30, 49, 64, 100, 121, 128, 169, 210, 256, 1001, 1024, 4096)
NEAR = {np.float32: 3e-7, np.float64: 1e-15}


def _numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def _is_near(mine: Any, right: Any, dtype: Any) -> None:
    mine = mine.numpy()
    assert mine.shape == right.shape
    assert mine.real.dtype == dtype
    assert np.abs(mine - right).max(initial=0) <= NEAR[dtype] * max(1.0, np.abs(right).max(initial=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n: int, dtype: Any) -> None:
    rows = 18 if n < 300 else 3
    z, x = _numbers(rows, n), RNG.standard_normal((rows, n))
    z, x = z.astype(np.result_type(dtype, np.complex64)), x.astype(dtype)
    wide, real = z.astype(complex), x.astype(float)
    _is_near(core.fft.fft(core.from_numpy(z)), np.fft.fft(wide), dtype)
    _is_near(core.fft.ifft(core.from_numpy(z), norm="ortho"), np.fft.ifft(wide, norm="ortho"), dtype)
    _is_near(core.fft.fft(core.from_numpy(x)), np.fft.fft(real), dtype)
    _is_near(core.fft.ifft(core.from_numpy(x)), np.fft.ifft(real), dtype)
    _is_near(core.fft.rfft(core.from_numpy(x)), np.fft.rfft(real), dtype)
    half = z[:, : n // 2 + 1].copy()
    _is_near(core.fft.irfft(core.from_numpy(half), n=n), np.fft.irfft(half.astype(complex), n=n), dtype)


@pytest.mark.parametrize("n", [12, 15])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft"])
def test_gradients_are_the_adjoint(name: str, n: int) -> None:
    x = core.tensor(RNG.standard_normal((3, n)), requires_grad=True)
    y = getattr(core.fft, name)(x)
    g = _numbers(*y.shape)
    y.backward(core.from_numpy(g))
    step = np.eye(n)
    columns = getattr(np.fft, name)(step)  # row j: the transform of the j-th unit vector
    np.testing.assert_allclose(x.grad.numpy(), (g[:, None, :] * columns.conj()[None]).sum(-1).real, atol=1e-12)


def test_any_one_dimension() -> None:
    z = _numbers(5, 6, 33)
    for a, x in ((z, core.from_numpy(z)), (z.swapaxes(0, 2), core.from_numpy(z).transpose(0, 2))):
        for d in range(3):
            np.testing.assert_allclose(core.fft.fft(x, dim=d).numpy(), np.fft.fft(a, axis=d), atol=1e-12)


@pytest.mark.parametrize("n", [8, 9])
def test_rows_do_not_meet(n: int) -> None:
    x = RNG.standard_normal((20, n)).astype(np.float32)
    x[3] *= 1e30
    x[7, 2] = np.nan
    x[8, 1] = np.inf
    for name in ("fft", "rfft"):
        y = getattr(core.fft, name)(core.from_numpy(x)).numpy()
        assert not np.isfinite(y[7]).any()
        assert not np.isfinite(y[8]).all()
        rest = [k for k in range(20) if k not in (3, 7, 8)]
        np.testing.assert_allclose(y[rest], getattr(np.fft, name)(x[rest].astype(float)), atol=2e-5)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0, 4)])
def test_nothing(shape: Any) -> None:
    assert core.fft.fft(core.zeros(*shape)).shape == shape
    assert core.fft.rfft(core.zeros(*shape)).shape == (*shape[:-1], shape[-1] // 2 + 1)


def test_exact_numbers() -> None:
    y = core.fft.fft(core.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])).numpy()
    assert (y == 1).all()
    z = core.fft.fft(core.tensor([0.0, 1.0, 0.0, 0.0])).numpy()
    assert (z == np.array([1, -1j, -1, 1j])).all()


def test_other_lengths_are_numpys() -> None:
    x = RNG.standard_normal((2, 34))  # 2 * 17
    np.testing.assert_allclose(core.fft.fft(core.from_numpy(x)).numpy(), np.fft.fft(x), atol=1e-12)


def test_threads_give_the_same_bits() -> None:
    x = core.from_numpy(RNG.standard_normal((512, 256)).astype(np.float32))
    threads = core.get_num_threads()
    try:
        found = []
        for n in (1, 2):
            core.set_num_threads(n)
            found.append(core.fft.fft(x).numpy().tobytes())
        assert found[0] == found[1]
    finally:
        core.set_num_threads(threads)
