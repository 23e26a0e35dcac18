"""`AudioFolder`: wav files in one folder a class."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..base.errors import text
from ..nn.functional import pad
from ..tensors.tensor import Tensor
from ..vision.datasets.folder import DatasetFolder
from . import wav
from .functional import resample


class AudioFolder(DatasetFolder):
    """Wav files in one folder a class: (samples, class) in the order of `DatasetFolder`.

    *Shapes*: (channels, frames); one channel with `mono`, the mean of all. sample_rate : all are brought to it; by
    default the first file's, which the others must have. length : samples to cut to, or to fill up to with 0.

    *Raises*: RuntimeError that names the file for another rate, or for what is no wav file.

    >>> import core, tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for k, name in enumerate(("no", "yes")):
    ...     (root / name).mkdir()
    ...     wav.save(root / name / "1.wav", core.full((1, 800), 0.5 * k), 8000)
    >>> data = AudioFolder(root, length=1000)
    >>> sound, label = data[1]
    >>> data.classes, sound.shape, label, data.sample_rate
    (['no', 'yes'], core.Size([1, 1000]), 1, 8000)
    """

    def __init__(self, root: str | os.PathLike[str], sample_rate: int | None = None, *, mono: bool = True,
                 length: int | None = None, transform: Callable[[Any], Any] | None = None,
                 target_transform: Callable[[Any], Any] | None = None,
                 is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False) -> None:  # fmt: skip
        extensions = (".wav", ".wave") if is_valid_file is None else None
        super().__init__(root, self._load, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.mono, self.length, self.asked = mono, length, sample_rate
        self.sample_rate = sample_rate or (wav.info(self.samples[0][0]).sample_rate if self.samples else None)

    def _load(self, path: str) -> Tensor:
        sound, rate = wav.load(path)
        if rate != self.sample_rate:
            if self.asked is None:
                raise RuntimeError(
                    text(f"{path} has another sample rate than {self.samples[0][0]}", op="AudioFolder",
                         came=f"{rate} Hz", needed=f"{self.sample_rate} Hz",
                         remedy=f"AudioFolder(root, sample_rate={self.sample_rate}) resamples")
                )  # fmt: skip
            sound = resample(sound, rate, self.asked)
        if self.mono and sound.shape[0] > 1:
            sound = sound.mean(0, keepdim=True)
        if self.length is not None:
            sound = pad(sound[:, : self.length], (0, max(self.length - sound.shape[1], 0)))
        return sound
