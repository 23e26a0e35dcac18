"""Fourier transforms: their inverses, what windows are, errors. Gradients are checked from the table."""

from __future__ import annotations

import numpy as np
import pytest

import core

F = core.fft
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("n", [4, 5])
def test_inverses(n: int, norm: str | None) -> None:
    x = core.tensor(RNG.uniform(-1, 1, (3, 4, n)))
    for there, back in ((F.fft, F.ifft), (F.fft2, F.ifft2), (F.fftn, F.ifftn)):
        np.testing.assert_allclose(back(there(x, norm=norm), norm=norm).real.numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(F.irfft(F.rfft(x, norm=norm), n, norm=norm).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(F.irfftn(F.rfftn(x, norm=norm), x.shape, norm=norm).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(F.hfft(F.ihfft(x, norm=norm), n, norm=norm).numpy(), x.numpy(), atol=1e-12)
    assert core.equal(F.ifftshift(F.fftshift(x)), x)


def test_single_precision_stays() -> None:
    x = core.ones(4)
    assert F.fft(x).dtype is core.complex64
    assert F.irfft(F.rfft(x)).dtype is core.float32
    assert F.fft(core.arange(3)).dtype is core.complex64
    assert F.fft(x.double()).dtype is core.complex128


def test_gradients_through_padding_and_cutting() -> None:
    x = core.tensor(RNG.uniform(-1, 1, (2, 5)), requires_grad=True)
    z = core.tensor(RNG.uniform(-1, 1, (2, 4)) + 1j * RNG.uniform(-1, 1, (2, 4)), requires_grad=True)
    for function, given in [
        (lambda t: F.rfft(t, 3, norm="ortho"), x),
        (lambda t: F.rfftn(t, (3, 6)), x),
        (lambda t: F.irfft(t, 5), z),
        (lambda t: F.hfft2(t, (3, 4)), z),
        (lambda t: F.ifft(t, 6), z),
    ]:
        assert core.autograd.gradcheck(function, given)
        assert core.autograd.gradgradcheck(function, given)


def test_short_transforms() -> None:
    signal = core.tensor(RNG.uniform(-1, 1, 32), requires_grad=True)
    window = core.hann_window(8, dtype=core.float64)
    spectrum = core.stft(signal, 8, 2, window=window, return_complex=True)
    assert spectrum.shape == (5, 17)
    again = core.istft(spectrum, 8, 2, window=window)
    np.testing.assert_allclose(again.detach().numpy(), signal.detach().numpy(), atol=1e-12)
    (g,) = core.autograd.grad(again.sum(), signal)
    np.testing.assert_allclose(g.numpy(), 1, atol=1e-12)


def test_windows_are_numpys() -> None:
    for ours, theirs in (
        (core.hann_window, np.hanning),
        (core.hamming_window, np.hamming),
        (core.blackman_window, np.blackman),
        (core.bartlett_window, np.bartlett),
        (lambda n, p, dtype: core.kaiser_window(n, p, 5.0, dtype=dtype), lambda n: np.kaiser(n, 5.0)),
    ):
        np.testing.assert_allclose(ours(7, False, dtype=core.float64).numpy(), theirs(7), atol=1e-12)
        np.testing.assert_allclose(ours(6, True, dtype=core.float64).numpy(), theirs(7)[:6], atol=1e-12)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match=r"Invalid number of data points \(0\) specified"):
        F.fft(core.ones(3), 0)
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor, but got ComplexFloat"):
        F.rfft(core.ones(3) * 1j)
    how = {"window": core.hann_window(8), "center": False}
    spectrum = core.stft(core.ones(32), 8, 8, return_complex=True, **how)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        core.istft(spectrum, 8, 8, **how)


def test_an_inverse_longer_than_its_pieces_ends_with_zeros() -> None:
    x = core.tensor(np.random.default_rng(5).uniform(-1, 1, (2, 20)))
    window = core.hann_window(8, dtype=core.float64)
    spectrum = core.stft(x, 8, 2, window=window, return_complex=True)
    short, long = (core.istft(spectrum, 8, 2, window=window, length=n) for n in (20, 29))
    np.testing.assert_allclose(short.numpy(), x.numpy(), atol=1e-12)
    assert long.shape == (2, 29)
    assert core.equal(long[:, :20], short)
    assert not long[:, 24:].any()  # what the last piece holds beyond the signal ends there
