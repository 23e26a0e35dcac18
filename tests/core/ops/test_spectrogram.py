"""Windows by their formulas, and transforms of short pieces against NumPy's of one piece at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

WINDOWS: dict[str, Any] = {
    "hann": lambda t: 0.5 - 0.5 * np.cos(2 * np.pi * t),
    "hamming": lambda t: 0.54 - 0.46 * np.cos(2 * np.pi * t),
    "blackman": lambda t: 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t),
    "bartlett": lambda t: 1 - np.abs(2 * t - 1),
    "kaiser": lambda t: np.i0(12 * np.sqrt(np.clip(1 - (2 * t - 1) ** 2, 0, 1))) / np.i0(12.0),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    make = getattr(core, f"{name}_window")
    for n in (0, 1, 2, 3, 6):
        for periodic in (True, False):
            got = make(n, periodic, dtype=core.float64)
            last = n if periodic else n - 1
            want = np.ones(n) if n < 2 else WINDOWS[name](np.arange(n) / last)
            np.testing.assert_allclose(got.numpy(), want, atol=1e-15)
            assert not got.requires_grad
    assert make(3, requires_grad=True).requires_grad
    assert make(3).dtype is core.float32
    with pytest.raises(RuntimeError, match=f"{name}_window expects floating point dtypes"):
        make(3, dtype=core.int64)
    with pytest.raises(RuntimeError, match="non-negative window_length, got window_length=-1"):
        make(-1)


def test_windows_with_numbers_of_their_own() -> None:
    t = np.arange(5) / 5
    got = core.hamming_window(5, True, 0.3, 0.6, dtype=core.float64)
    np.testing.assert_allclose(got.numpy(), 0.3 - 0.6 * np.cos(2 * np.pi * t))
    got = core.kaiser_window(5, False, 3.0, dtype=core.float64)
    np.testing.assert_allclose(got.numpy(), np.kaiser(5, 3.0), rtol=1e-14)


def pieces(x: Any, n: int, hop: int, window: Any, center: bool, mode: str, whole: bool) -> Any:
    """Each piece's transform, one a column."""
    if center:
        x = np.pad(x, n // 2, mode=mode)
    left = (n - len(window)) // 2
    full = np.zeros(n)
    full[left : left + len(window)] = window
    transform = np.fft.fft if whole else np.fft.rfft
    return np.stack([transform(x[i : i + n] * full) for i in range(0, len(x) - n + 1, hop)], 1)


SETTINGS = [
    (n, hop, size, center, mode, whole, normalized)
    for n, hop, size in ((8, 2, 8), (8, None, 8), (7, 3, 4), (6, 6, 3))
    for center, mode in ((True, "reflect"), (True, "constant"), (False, "reflect"))
    for whole in (False, True)
    for normalized in (False, True)
]


@pytest.mark.parametrize(("n", "hop", "size", "center", "mode", "whole", "normalized"), SETTINGS)
def test_one_piece_at_a_time(
    n: int, hop: Any, size: int, center: bool, mode: str, whole: bool, normalized: bool
) -> None:
    rng = np.random.default_rng(0)
    x, window = rng.normal(size=(2, 23)), rng.uniform(0.5, 1, size)
    scale = np.sqrt(n) if normalized else 1.0
    want = np.stack([pieces(row, n, hop or n // 4, window, center, mode, whole) for row in x]) / scale
    how = {"window": core.tensor(window), "center": center, "pad_mode": mode, "normalized": normalized,
           "onesided": not whole}  # fmt: skip
    got = core.stft(core.tensor(x), n, hop, size, return_complex=True, **how)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    one = core.stft(core.tensor(x[1]), n, hop, size, return_complex=False, **how)
    np.testing.assert_allclose(one.numpy(), np.stack([want[1].real, want[1].imag], -1), atol=1e-12)


@pytest.mark.parametrize(("n", "hop", "size"), [(8, 2, 8), (7, 3, 5), (8, None, None)])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("onesided", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_there_and_back(
    n: int, hop: Any, size: Any, center: bool, onesided: bool, normalized: bool, given: bool
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 24))
    window = core.tensor(rng.uniform(0.5, 1, size or n)) if given else None
    how = {"window": window, "center": center, "normalized": normalized, "onesided": onesided}
    spectrum = core.stft(core.tensor(x), n, hop, size, return_complex=True, **how)
    step = hop or n // 4
    reached = (spectrum.shape[-1] - 1) * step + (n - 2 * (n // 2) if center else n)
    first = (n - (size or n)) // 2 if not center else 0  # before the window begins nothing can be told
    if first:
        with pytest.raises(RuntimeError, match="window overlap add min: 0"):
            core.istft(spectrum, n, hop, size, **how)
        return
    back = core.istft(spectrum, n, hop, size, **how)
    assert tuple(back.shape) == (2, reached)
    np.testing.assert_allclose(back.numpy(), x[:, :reached], atol=1e-12)
    np.testing.assert_allclose(core.istft(spectrum[1], n, hop, size, **how).numpy(), x[1, :reached], atol=1e-12)
    for length in (10, reached + 3) if size in (n, None) else (10,):  # beyond its end a shorter window is 0
        cut = core.istft(spectrum, n, hop, size, length=length, **how).numpy()
        assert cut.shape == (2, length)
        np.testing.assert_allclose(cut[:, : min(length, reached)], x[:, : min(length, reached)], atol=1e-12)
    if not onesided:
        whole = core.istft(spectrum, n, hop, size, return_complex=True, **how)
        np.testing.assert_allclose(whole.numpy(), x[:, :reached] + 0j, atol=1e-12)


def test_of_complex_signals_all_frequencies() -> None:
    x = core.tensor(np.random.default_rng(0).normal(size=(16, 2)).view(np.complex128)[:, 0])
    spectrum = core.stft(x, 4)  # return_complex need not be said
    assert tuple(spectrum.shape) == (4, 17)
    np.testing.assert_allclose(core.istft(spectrum, 4, return_complex=True).numpy(), x.numpy(), atol=1e-14)


X, Y = core.ones(16), core.ones(5, 9, dtype=core.complex64)
WRONG = [
    (lambda: core.stft(X, 8), "return_complex parameter be given"),
    (lambda: core.stft(X, 8, hop_length=0, return_complex=True), "expected hop_length > 0, but got hop_length=0"),
    (lambda: core.stft(X, 0, 1, center=False, return_complex=True), "n_fft=0"),
    (lambda: core.stft(X, 17, center=False, return_complex=True), "n_fft <= 16, but got n_fft=17"),
    (lambda: core.stft(X, 8, win_length=0, return_complex=True), "win_length <= n_fft, but got win_length=0"),
    (lambda: core.stft(X, 8, win_length=9, return_complex=True), "win_length <= n_fft, but got win_length=9"),
    (lambda: core.stft(X, 8, window=core.ones(7), return_complex=True), r"equal to win_length=8.*size \[7\]"),
    (lambda: core.stft(X, 8, window=core.ones(8, 1), return_complex=True), r"size \[8, 1\]"),
    (lambda: core.istft(core.ones(5, 9), 8), "requires a complex-valued input"),
    (lambda: core.istft(Y[0], 8), "expected a 2D or 3D tensor"),
    (lambda: core.istft(Y.reshape(1, 1, 5, 9), 8), "expected a 2D or 3D tensor"),
    (lambda: core.istft(Y, 8, onesided=False), "to match n_fft=8, but got 5"),
    (lambda: core.istft(Y, 6), "to match n_fft=6, but got 5"),
    (lambda: core.istft(Y, 8, window=core.hann_window(8), center=False), "window overlap add min: 0"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_does_not_fit(call: Any, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        call()


def test_a_window_of_one_and_a_piece_as_long_as_the_signal() -> None:
    assert core.stft(X, 8, win_length=1, return_complex=True).shape == (5, 9)
    assert core.stft(X, 16, center=False, return_complex=True).shape == (9, 1)
