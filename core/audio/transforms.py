"""Sound as modules: `Spectrogram`, `MelSpectrogram`, `MFCC`, `Resample` and the like, with torchaudio's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..base.errors import text
from ..nn.modules.module import Module
from ..ops.spectrogram import hann_window
from ..tensors.tensor import Tensor
from . import functional as F

__all__ = ["MFCC", "AmplitudeToDB", "MelScale", "MelSpectrogram", "Resample", "Spectrogram"]


class Spectrogram(Module):
    """The strength of every frequency over time.

    *Shapes*: (..., time) -> (..., n_fft // 2 + 1, frames). hop_length : by default half of `win_length`, which is
    `n_fft`. power : 2 for energy, 1 for magnitude, None for the complex transform.

    >>> import core
    >>> Spectrogram(n_fft=64)(core.zeros(1, 640)).shape
    core.Size([1, 33, 21])
    """

    window: Tensor

    def __init__(self, n_fft: int = 400, win_length: int | None = None, hop_length: int | None = None, pad: int = 0,
                 window_fn: Callable[..., Tensor] = hann_window, power: float | None = 2.0,
                 normalized: bool | str = False, wkwargs: dict[str, Any] | None = None, center: bool = True,
                 pad_mode: str = "reflect", onesided: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.n_fft, self.win_length = n_fft, n_fft if win_length is None else win_length
        self.hop_length = self.win_length // 2 if hop_length is None else hop_length
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))
        self.pad, self.power, self.normalized = pad, power, normalized
        self.center, self.pad_mode, self.onesided = center, pad_mode, onesided

    def forward(self, waveform: Tensor) -> Tensor:
        """Return the spectrogram."""
        return F.spectrogram(waveform, self.pad, self.window, self.n_fft, self.hop_length, self.win_length, self.power,
                             self.normalized, self.center, self.pad_mode, self.onesided)  # fmt: skip


class MelScale(Module):
    """Frequencies gathered into mel bands.

    *Shapes*: (..., n_stft, frames) -> (..., n_mels, frames).

    >>> import core
    >>> MelScale(n_mels=20, n_stft=201)(core.ones(1, 201, 3)).shape
    core.Size([1, 20, 3])
    """

    fb: Tensor

    def __init__(self, n_mels: int = 128, sample_rate: int = 16000, f_min: float = 0.0, f_max: float | None = None,
                 n_stft: int = 201, norm: str | None = None, mel_scale: str = "htk") -> None:  # fmt: skip
        super().__init__()
        self.n_mels, self.sample_rate, self.f_min = n_mels, sample_rate, f_min
        self.f_max = float(sample_rate // 2) if f_max is None else f_max
        self.norm, self.mel_scale = norm, mel_scale
        if f_min > self.f_max:
            raise ValueError(text(f"Require f_min: {f_min} <= f_max: {self.f_max}", op="MelScale"))
        self.register_buffer("fb", F.melscale_fbanks(n_stft, f_min, self.f_max, n_mels, sample_rate, norm, mel_scale))

    def forward(self, specgram: Tensor) -> Tensor:
        """Return the mel bands."""
        return (specgram.mT @ self.fb).mT  # type: ignore[no-any-return]


class MelSpectrogram(Module):
    """The strength of every mel band over time.

    *Shapes*: (..., time) -> (..., n_mels, frames).

    >>> import core
    >>> MelSpectrogram(16000, n_fft=400, n_mels=40)(core.zeros(2, 1600)).shape
    core.Size([2, 40, 9])
    """

    def __init__(self, sample_rate: int = 16000, n_fft: int = 400, win_length: int | None = None,
                 hop_length: int | None = None, f_min: float = 0.0, f_max: float | None = None, pad: int = 0,
                 n_mels: int = 128, window_fn: Callable[..., Tensor] = hann_window, power: float = 2.0,
                 normalized: bool | str = False, wkwargs: dict[str, Any] | None = None, center: bool = True,
                 pad_mode: str = "reflect", onesided: bool | None = None, norm: str | None = None,
                 mel_scale: str = "htk") -> None:  # fmt: skip
        super().__init__()
        self.sample_rate, self.n_fft, self.n_mels = sample_rate, n_fft, n_mels
        self.spectrogram = Spectrogram(n_fft, win_length, hop_length, pad, window_fn, power, normalized, wkwargs,
                                       center, pad_mode)  # fmt: skip
        self.win_length, self.hop_length = self.spectrogram.win_length, self.spectrogram.hop_length
        self.mel_scale = MelScale(n_mels, sample_rate, f_min, f_max, n_fft // 2 + 1, norm, mel_scale)

    def forward(self, waveform: Tensor) -> Tensor:
        """Return the mel spectrogram."""
        return self.mel_scale(self.spectrogram(waveform))  # type: ignore[no-any-return]


class AmplitudeToDB(Module):
    """Energies ("power") or amplitudes ("magnitude") in decibels, at most `top_db` below the loudest.

    >>> import core
    >>> AmplitudeToDB("power", top_db=30)(core.tensor([[[1.0, 1e-9]]]))
    tensor([[[  0., -30.]]])
    """

    def __init__(self, stype: str = "power", top_db: float | None = None) -> None:
        super().__init__()
        if top_db is not None and top_db < 0:
            raise ValueError(text("top_db must be positive value", op="AmplitudeToDB", came=str(top_db)))
        if stype not in ("power", "magnitude"):
            raise ValueError(text("stype is power or magnitude", op="AmplitudeToDB", came=repr(stype)))
        self.stype, self.top_db = stype, top_db
        self.multiplier, self.amin = 10.0 if stype == "power" else 20.0, 1e-10
        self.db_multiplier = math.log10(max(self.amin, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        """Return the decibels."""
        return F.amplitude_to_DB(x, self.multiplier, self.amin, self.db_multiplier, self.top_db)


class MFCC(Module):
    """Mel-frequency cepstral coefficients.

    *Shapes*: (..., time) -> (..., n_mfcc, frames). log_mels : the logarithm of the bands instead of decibels.
    melkwargs : for `MelSpectrogram`.

    *Source*: S. Davis, P. Mermelstein, "Comparison of parametric representations ..." (1980).

    >>> import core
    >>> MFCC(n_mfcc=13, melkwargs={"n_mels": 40})(core.zeros(1, 1600)).shape
    core.Size([1, 13, 9])
    """

    dct_mat: Tensor

    def __init__(self, sample_rate: int = 16000, n_mfcc: int = 40, dct_type: int = 2, norm: str | None = "ortho",
                 log_mels: bool = False, melkwargs: dict[str, Any] | None = None) -> None:  # fmt: skip
        super().__init__()
        if dct_type != 2:
            raise ValueError(text(f"DCT type not supported: {dct_type}", op="MFCC", needed="2"))
        self.MelSpectrogram = MelSpectrogram(sample_rate, **(melkwargs or {}))
        if n_mfcc > self.MelSpectrogram.n_mels:
            raise ValueError(text("Cannot select more MFCC coefficients than # mel bins", op="MFCC",
                                  came=f"{n_mfcc} of {self.MelSpectrogram.n_mels}"))  # fmt: skip
        self.amplitude_to_DB = AmplitudeToDB("power", 80.0)
        self.register_buffer("dct_mat", F.create_dct(n_mfcc, self.MelSpectrogram.n_mels, norm))
        self.n_mfcc, self.log_mels = n_mfcc, log_mels

    def forward(self, waveform: Tensor) -> Tensor:
        """Return the coefficients."""
        bands = self.MelSpectrogram(waveform)
        bands = (bands + 1e-6).log() if self.log_mels else self.amplitude_to_DB(bands)
        return (bands.mT @ self.dct_mat).mT  # type: ignore[no-any-return]


class Resample(Module):
    """The same sound at another sample rate; see `functional.resample`.

    >>> import core
    >>> Resample(44100, 16000)(core.zeros(1, 441)).shape
    core.Size([1, 160])
    """

    def __init__(self, orig_freq: int = 16000, new_freq: int = 16000, resampling_method: str = "sinc_interp_hann",
                 lowpass_filter_width: int = 6, rolloff: float = 0.99, beta: float | None = None) -> None:  # fmt: skip
        super().__init__()
        self.orig_freq, self.new_freq = orig_freq, new_freq
        self.settings = (lowpass_filter_width, rolloff, resampling_method, beta)

    def forward(self, waveform: Tensor) -> Tensor:
        """Return the resampled sound."""
        return F.resample(waveform, self.orig_freq, self.new_freq, *self.settings)
