"""Sound: wav files by the standard library alone, resampling, spectrograms that have gradients; torchaudio's names.

``from core.audio import load, save, transforms``. Nothing is ever downloaded.
"""

from __future__ import annotations

from . import functional, transforms
from .folder import AudioFolder
from .wav import AudioMetaData, info, load, save

__all__ = ["AudioFolder", "AudioMetaData", "functional", "info", "load", "save", "transforms"]
