"""Sound as functions: resampling, spectrograms, mel scale, decibels; all differentiable. torchaudio's names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base.dtypes import float32
from ..base.errors import text
from ..nn import functional as F
from ..nn.functional import pad as fill_up
from ..ops.complex import view_as_real
from ..ops.creation import tensor
from ..ops.spectrogram import stft
from ..tensors.tensor import Tensor

__all__ = ["amplitude_to_DB", "create_dct", "melscale_fbanks", "resample", "spectrogram"]


def resample(waveform: Tensor, orig_freq: int, new_freq: int, lowpass_filter_width: int = 6, rolloff: float = 0.99,
             resampling_method: str = "sinc_interp_hann", beta: float | None = None) -> Tensor:  # fmt: skip
    """Return the same sound at another sample rate, by a windowed sinc whose cut-off is below the lower rate's half.

    *Shapes*: (..., time) -> (..., ceil(new_freq * time / orig_freq)). lowpass_filter_width : zero crossings on either
    side. rolloff : the cut-off as a share of the highest possible frequency. resampling_method : "sinc_interp_hann" or
    "sinc_interp_kaiser" (with `beta`).

    *Source*: J. O. Smith, "Digital audio resampling home page" (2002), polyphase form.

    >>> import core
    >>> resample(core.ones(1, 100), 16000, 8000).shape
    core.Size([1, 50])
    """
    if int(orig_freq) != orig_freq or int(new_freq) != new_freq or orig_freq <= 0 or new_freq <= 0:
        raise ValueError(text("Original frequency and desired frequency should be positive integers", op="resample",
                              came=f"{orig_freq}, {new_freq}"))  # fmt: skip
    if not waveform.dtype.is_floating_point:
        raise TypeError(text(f"Expected floating point type for waveform tensor, but received {waveform.dtype}.",
                             op="resample"))  # fmt: skip
    if orig_freq == new_freq:
        return waveform
    common = math.gcd(int(orig_freq), int(new_freq))
    old, new = int(orig_freq) // common, int(new_freq) // common
    bank, width = _sinc_bank(old, new, lowpass_filter_width, rolloff, resampling_method, beta)
    shape = tuple(waveform.shape)
    x = F.pad(waveform.reshape(-1, 1, shape[-1]), (width, width + old))
    kernel = tensor(bank, dtype=waveform.dtype, device=waveform.device).unsqueeze(1)  # type: ignore[attr-defined]
    y = F.conv1d(x, kernel, stride=old).transpose(1, 2).reshape(-1, 1)  # type: ignore[attr-defined]
    length = -(-new * shape[-1] // old)
    return y.reshape(math.prod(shape[:-1]), -1)[:, :length].reshape(*shape[:-1], length)  # type: ignore[no-any-return]


def _sinc_bank(old: int, new: int, zeros: int, rolloff: float, method: str, beta: float | None) -> tuple[Any, int]:
    """Return a filter for each of the `new` phases, and how far it reaches to the left."""
    if zeros <= 0:
        raise ValueError(text("Low pass filter width should be positive.", op="resample", came=str(zeros)))
    cutoff = min(old, new) * rolloff
    width = math.ceil(zeros * old / cutoff)
    at = np.arange(-width, width + old)[None] / old - np.arange(new)[:, None] / new
    t = (at * cutoff).clip(-zeros, zeros)
    if method == "sinc_interp_hann":
        window = np.cos(t * math.pi / zeros / 2) ** 2
    elif method == "sinc_interp_kaiser":
        b = 14.769656459379492 if beta is None else float(beta)
        window = np.i0(b * np.sqrt(np.maximum(1 - (t / zeros) ** 2, 0))) / np.i0(b)
    else:
        raise ValueError(text(f"Invalid resampling method: {method}", op="resample",
                              needed="sinc_interp_hann or sinc_interp_kaiser"))  # fmt: skip
    return np.sinc(t) * window * (cutoff / old), width


def spectrogram(waveform: Tensor, pad: int, window: Tensor, n_fft: int, hop_length: int, win_length: int,
                power: float | None, normalized: bool | str = False, center: bool = True, pad_mode: str = "reflect",
                onesided: bool = True) -> Tensor:  # fmt: skip
    """Return the strength of every frequency over time: ``|stft| ** power``, or the complex transform when `power` is
    None.

    *Shapes*: (..., time) -> (..., n_fft // 2 + 1, frames). normalized : divided by the window's norm ("window", True),
    or by the square root of its length ("frame_length").

    >>> import core
    >>> w = core.hann_window(8)
    >>> spectrogram(core.ones(2, 40), 0, w, 8, 4, 8, 2.0).shape
    core.Size([2, 5, 11])
    """
    if pad > 0:
        waveform = fill_up(waveform, (pad, pad))
    shape = tuple(waveform.shape)
    s = stft(waveform.reshape(-1, shape[-1]), n_fft, hop_length, win_length, window, center, pad_mode,
             normalized == "frame_length", onesided, return_complex=True)  # fmt: skip
    s = s.reshape(*shape[:-1], *tuple(s.shape)[-2:])
    if normalized in (True, "window"):
        s = s / window.pow(2.0).sum().sqrt()  # type: ignore[attr-defined]
    if power is None:
        return s
    if power == 1.0:
        return s.abs()  # type: ignore[attr-defined, no-any-return]
    squares = view_as_real(s).pow(2.0).sum(-1)  # type: ignore[attr-defined] # a gradient of 0 where |s| is 0
    return squares if power == 2.0 else squares.pow(power / 2)  # type: ignore[no-any-return]


def _mel(frequency: Any, scale: str) -> Any:
    if scale == "htk":
        return 2595.0 * np.log10(1.0 + np.asarray(frequency) / 700.0)
    f = np.asarray(frequency, np.float64)
    return np.where(f < 1000, 3 * f / 200, 15 + np.log(np.maximum(f, 1000) / 1000) * 27 / math.log(6.4))


def _hertz(mel: Any, scale: str) -> Any:
    if scale == "htk":
        return 700.0 * (10.0 ** (np.asarray(mel) / 2595.0) - 1.0)
    m = np.asarray(mel, np.float64)
    return np.where(m < 15, 200 * m / 3, 1000 * np.exp(math.log(6.4) / 27 * (np.maximum(m, 15) - 15)))


def melscale_fbanks(n_freqs: int, f_min: float, f_max: float, n_mels: int, sample_rate: int, norm: str | None = None,
                    mel_scale: str = "htk") -> Tensor:  # fmt: skip
    """Triangles over the frequencies, evenly spaced in mel: what a spectrogram is multiplied with.

    *Shapes*: -> (n_freqs, n_mels). norm : "slaney" gives every triangle the same area. mel_scale : "htk" or "slaney".

    *Raises*: ValueError for a scale or norm not known. *Source*: S. S. Stevens, J. Volkmann, E. B. Newman (1937); the
    HTK book; M. Slaney, "Auditory toolbox" (1998).

    >>> melscale_fbanks(201, 0.0, 8000.0, 40, 16000).shape
    core.Size([201, 40])
    """
    if norm not in (None, "slaney"):
        raise ValueError(text('norm must be one of None or "slaney"', op="melscale_fbanks", came=repr(norm)))
    if mel_scale not in ("htk", "slaney"):
        raise ValueError(
            text('mel_scale should be one of "htk" or "slaney".', op="melscale_fbanks", came=repr(mel_scale))
        )
    if not 0 <= f_min < f_max:
        raise ValueError(text(f"Require f_min: {f_min} <= f_max: {f_max}", op="melscale_fbanks"))
    every = np.linspace(0, sample_rate // 2, n_freqs)[:, None]
    corners = _hertz(np.linspace(_mel(f_min, mel_scale), _mel(f_max, mel_scale), n_mels + 2), mel_scale)
    rising = (every - corners[:-2]) / np.diff(corners)[:-1]
    falling = (corners[2:] - every) / np.diff(corners)[1:]
    bank = np.maximum(0.0, np.minimum(rising, falling))
    if norm == "slaney":
        bank = bank * 2.0 / (corners[2:] - corners[:-2])
    return tensor(bank, dtype=float32)


def create_dct(n_mfcc: int, n_mels: int, norm: str | None = "ortho") -> Tensor:
    """Return the cosine transform (type II) that makes cepstral coefficients of mel bands.

    *Shapes*: -> (n_mels, n_mfcc). norm : "ortho", or None.

    >>> create_dct(2, 2).tolist()[0][0]
    0.7071067690849304
    """
    if norm not in (None, "ortho"):
        raise ValueError(text('norm must be either "ortho" or None', op="create_dct", came=repr(norm)))
    table = np.cos(math.pi / n_mels * (np.arange(n_mels)[:, None] + 0.5) * np.arange(n_mfcc)[None])
    if norm is None:
        table *= 2.0
    else:
        table[:, 0] *= math.sqrt(0.5)
        table *= math.sqrt(2.0 / n_mels)
    return tensor(table, dtype=float32)


def amplitude_to_DB(x: Tensor, multiplier: float, amin: float, db_multiplier: float,
                    top_db: float | None = None) -> Tensor:  # fmt: skip
    """``multiplier log10(max(x, amin)) - multiplier db_multiplier``, in decibels.

    top_db : how far below its loudest value a spectrogram (..., channels, frequencies, frames) may fall.

    >>> import core
    >>> amplitude_to_DB(core.tensor([[1.0, 100.0]]), 10.0, 1e-10, 0.0)
    tensor([[ 0., 20.]])
    """
    y = x.clamp(min=amin).log10() * multiplier - multiplier * db_multiplier  # type: ignore[attr-defined]
    if top_db is None:
        return y  # type: ignore[no-any-return]
    shape = tuple(y.shape)
    packed = y.reshape(-1, shape[-3] if y.ndim > 2 else 1, *shape[-2:])
    least = packed.amax((-3, -2, -1)) - top_db
    return packed.maximum(least.reshape(-1, 1, 1, 1)).reshape(*shape)  # type: ignore[no-any-return]
