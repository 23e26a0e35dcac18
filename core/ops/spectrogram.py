"""Windows, and Fourier transforms of short pieces of a signal."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.device import device as core_device
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..declare.kinds import Device, Layout
from ..dispatch.publish import namespaces, public
from ..tensors.tensor import Tensor
from .complex import view_as_real
from .creation import zeros
from .padding import pad
from .solving import constant

# -- windows -----------------------------------------------------------------------------------------------------------


def _values(n: int, periodic: bool, formula: Any) -> Any:
    points = n + 1 if periodic else n  # a periodic one is a symmetric one that lacks its last point
    return np.ones(n) if points < 2 or n == 1 else formula(np.arange(points) / (points - 1))[:n]


_kept_values = lru_cache(16)(
    _values
)  # of a formula that is no closure: frames are cut by the same window again and again
_MOST_KEPT = 1 << 14


def _window(name: str, n: int, periodic: bool, formula: Any, dtype: Dtype | None, device: Any, grad: bool,
            kept: bool = False) -> Tensor:  # fmt: skip
    kind = dtype or dtypes.get_default_dtype()
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(text(f"{name} expects floating point dtypes, got: {kind}", op=name, remedy="torch.float32"))
    if n < 0:
        raise RuntimeError(text(f"{name} requires non-negative window_length, got window_length={n}", op=name))
    values = (_kept_values if kept and n <= _MOST_KEPT else _values)(n, bool(periodic), formula)
    return constant(values.astype(kind.numpy), core_device(device or "cpu")).requires_grad_(grad)


def _hann(t: Any) -> Any:
    return 0.5 - 0.5 * np.cos(2 * np.pi * t)


@public(method=False)
def hann_window(window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Layout | None = None,
                device: Device | None = None, requires_grad: bool = False,
                pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``0.5 - 0.5 cos(2 pi k / n)``; a periodic one repeats without a double point.

    >>> import core
    >>> core.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, _hann, dtype, device, requires_grad, kept=True)


@public(method=False)
def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
                   dtype: Dtype | None = None, layout: Layout | None = None, device: Device | None = None,
                   requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``alpha - beta cos(2 pi k / n)``.

    >>> import core
    >>> core.hamming_window(2)
    tensor([0.0800, 1.0000])
    """
    return _window("hamming_window", window_length, periodic, lambda t: alpha - beta * np.cos(2 * np.pi * t), dtype,
                   device, requires_grad)  # fmt: skip


@public(method=False)
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Dtype | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return the window ``0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)``.

    >>> import core
    >>> core.blackman_window(4)[2]
    tensor(1.)
    """

    def formula(t: Any) -> Any:
        return 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t)

    return _window("blackman_window", window_length, periodic, formula, dtype, device, requires_grad)


@public(method=False)
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Dtype | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return the triangular window.

    >>> import core
    >>> core.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("bartlett_window", window_length, periodic, lambda t: 1 - np.abs(2 * t - 1), dtype, device,
                   requires_grad)  # fmt: skip


@public(method=False)
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Dtype | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return the window ``I0(beta sqrt(1 - (2 k / n - 1)^2)) / I0(beta)``, I0 the modified Bessel function.

    >>> import core
    >>> core.kaiser_window(4)[2]
    tensor(1.)
    """

    def formula(t: Any) -> Any:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, formula, dtype, device, requires_grad)


# -- short transforms --------------------------------------------------------------------------------------------------


def _real(x: Tensor) -> Any:
    """Return the NumPy dtype of the real parts."""
    return np.zeros(0, x.dtype.numpy).real.dtype


def _full_window(op: str, window: Tensor | None, win_length: int, n_fft: int, like: Tensor) -> Tensor | None:
    if not 0 < win_length <= n_fft:
        raise RuntimeError(text(f"{op}: expected 0 < win_length <= n_fft, but got win_length={win_length}", op=op))
    if window is None:
        if win_length == n_fft:
            return None
        window = constant(np.ones(win_length, _real(like)), like.device)
    if window.ndim != 1 or window._a.shape[0] != win_length:
        raise RuntimeError(text(f"{op}: expected a 1D window tensor of size equal to win_length={win_length}, but got "
                                f"window with size {list(window._a.shape)}", op=op))  # fmt: skip
    left = (n_fft - win_length) // 2
    return pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window  # type: ignore[no-any-return]


@public()
def stft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
         onesided: bool | None = None, return_complex: bool | None = None,
         align_to_window: bool | None = None) -> Tensor:  # fmt: skip
    """Return the Fourier transforms of the windowed pieces of a signal, one every `hop_length` samples.

    *Shapes*: ``(time)`` or ``(batch, time)`` -> ``(batch?, frequencies, pieces)``; with ``return_complex=False`` real
    and imaginary parts are a last dimension. `center` pads both ends by half a piece, so that piece t is about sample
    ``t * hop_length``.

    >>> import core
    >>> core.stft(core.ones(16), 8, window=core.hann_window(8), return_complex=True).shape
    core.Size([5, 9])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if return_complex is None:
        if not (input.is_complex() or (window is not None and window.is_complex())):
            raise RuntimeError(
                text("stft requires the return_complex parameter be given for real inputs, and will further require "
                     "that return_complex=True in a future PyTorch release.", op="stft", remedy="return_complex=True")
            )  # fmt: skip
        return_complex = True
    if input.dtype.category < 2:
        raise RuntimeError(text("stft expected a tensor of floating point or complex values", op="stft",
                                came=str(input.dtype), remedy="x.float()"))  # fmt: skip
    if input.ndim not in (1, 2):
        raise RuntimeError(text("stft: expected a 1D or 2D tensor", op="stft", came=f"{tuple(input.shape)}"))
    x = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        half = n_fft // 2
        x = pad(x.unsqueeze(1), (half, half), mode=pad_mode).squeeze(1)
    if not 0 < n_fft <= x._a.shape[1]:
        raise RuntimeError(text(f"stft: expected 0 < n_fft <= {x._a.shape[1]}, but got n_fft={n_fft}", op="stft"))
    if hop <= 0:
        raise RuntimeError(text(f"stft: expected hop_length > 0, but got hop_length={hop}", op="stft"))
    w = _full_window("stft", window, win_length, n_fft, x)
    pieces = x.unfold(1, n_fft, hop)  # type: ignore[attr-defined]
    pieces = pieces if w is None else pieces * w
    fft = namespaces["fft"]
    whole = pieces.is_complex()
    if onesided is None:
        onesided = not whole
    norm = "ortho" if normalized else "backward"
    y = fft["rfft"](pieces, norm=norm) if onesided else fft["fft"](pieces, norm=norm)
    y = y.mT if input.ndim == 2 else y.squeeze(0).mT
    if return_complex:
        return y  # type: ignore[no-any-return]
    return view_as_real(y)


@public()
def istft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
          length: int | None = None, return_complex: bool = False) -> Tensor:  # fmt: skip
    """Return the signal of which `stft` with the same arguments gives the input; the least-squares one where there is
    none.

    *Source*: D. W. Griffin and J. S. Lim, "Signal estimation from modified short-time Fourier transform" (1984).

    >>> import core
    >>> window = core.hann_window(8)
    >>> spectrum = core.stft(core.ones(16), 8, window=window, return_complex=True)
    >>> core.istft(spectrum, 8, window=window).shape
    core.Size([16])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(text("istft requires a complex-valued input tensor matching the output from stft with "
                                "return_complex=True.", op="istft", remedy="torch.view_as_complex(x)"))  # fmt: skip
    if input.ndim not in (2, 3):
        raise RuntimeError(text("istft: expected a 2D or 3D tensor", op="istft", came=f"{tuple(input.shape)}"))
    y = input if input.ndim == 3 else input.unsqueeze(0)
    count, pieces = y._a.shape[1:]
    onesided = count != n_fft if onesided is None else onesided
    if count != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(text(f"istft: expected the frequency dimension (3rd to the last) of the input tensor to "
                                f"match n_fft={n_fft}, but got {count}", op="istft"))  # fmt: skip
    w = _full_window("istft", window, win_length, n_fft, y)
    if w is None:
        w = constant(np.ones(n_fft, _real(y)), y.device)
    fft, norm = namespaces["fft"], "ortho" if normalized else "backward"
    if return_complex:
        signal = fft["ifft"](y.mT, norm=norm)
    else:  # of a real signal half the frequencies tell everything
        signal = fft["irfft"](y.mT.narrow(-1, 0, n_fft // 2 + 1), n=n_fft, norm=norm)
    signal = signal * w
    total = n_fft + hop * (pieces - 1)
    at = constant((np.arange(pieces)[:, None] * hop + np.arange(n_fft)).reshape(-1), y.device)
    batch = y._a.shape[0]
    laid = zeros(batch, total, dtype=signal.dtype, device=y.device).index_add(1, at, signal.reshape(batch, -1))  # type: ignore[attr-defined]
    squares = (w * w).expand(pieces, n_fft).reshape(-1)
    envelope = zeros(total, dtype=w.dtype, device=y.device).index_add(0, at, squares)  # type: ignore[attr-defined]
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start if center else total
    kept = min(end, total)
    laid, envelope = laid.narrow(1, start, kept - start), envelope.narrow(0, start, kept - start)
    least = float(envelope.abs().min()) if kept > start else math.inf
    if least <= 1e-11:
        raise RuntimeError(text(f"window overlap add min: {least:g}", op="istft", came="a window that is 0 at some "
                                "samples of every piece", remedy="a smaller hop_length"))  # fmt: skip
    out = laid / envelope
    if end > total:
        out = pad(out, (0, end - total))
    return out if input.ndim == 3 else out.squeeze(0)
