"""CIFAR-10 and CIFAR-100, from the pickled batches (read without running them) or from the binary ones.

*Source*: A. Krizhevsky, "Learning multiple layers of features from tiny images" (2009), and its file formats.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import text
from .base import Transform, VisionDataset, missing, picture
from .idx import contents
from .plain_pickle import read_pickle

PIXELS = 3 * 32 * 32
THINGS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
NUMBERS = [str(k) for k in range(100)]


class CIFAR10(VisionDataset):
    """Small colour pictures of ten kinds of things, 32×32.

    Read from ``root/cifar-10-batches-py`` (pickled, never run), ``root/cifar-10-batches-bin`` (binary) or `root`
    itself. A sample is a Pillow image and an int; ``as_tensor=True`` gives a uint8 tensor (3, 32, 32) instead and needs
    no Pillow. `data` is an array (N, 32, 32, 3), `targets` a list.

    *Raises*: RuntimeError for missing, truncated or foreign files, with the file and the byte.

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "test_batch.bin").write_bytes((bytes([6]) + bytes(3072)) * 2)
    >>> data = CIFAR10(root, train=False, as_tensor=True)
    >>> len(data), data[0][0].shape, data.classes[data[0][1]]
    (2, core.Size([3, 32, 32]), 'frog')
    """

    base_folder = "cifar-10-batches-py"
    binary_folder = "cifar-10-batches-bin"
    train_list: tuple[str, ...] = tuple(f"data_batch_{k}" for k in range(1, 6))
    test_list: tuple[str, ...] = ("test_batch",)
    names_file, names_key = "batches.meta", "label_names"
    names_text = "batches.meta.txt"
    label_key, label_bytes = "labels", 1
    standard = THINGS

    def __init__(self, root: str | os.PathLike[str], train: bool = True, transform: Transform | None = None,
                 target_transform: Transform | None = None, download: bool = False, *,
                 as_tensor: bool = False) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train, self.as_tensor = train, as_tensor
        names = self.train_list if train else self.test_list
        folder, binary = self._folder(names, download)
        parts = [self._binary(folder / f"{n}.bin") if binary else self._pickled(folder / n) for n in names]
        self.data = np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.targets: list[int] = [label for _, labels in parts for label in labels]
        self.classes = self._names(folder)
        self.class_to_idx = {name: k for k, name in enumerate(self.classes)}
        if self.targets and not 0 <= max(self.targets) < len(self.classes):
            raise RuntimeError(
                text("Dataset not found or corrupted.", op=type(self).__name__, came=f"the label {max(self.targets)}",
                     needed=f"0 to {len(self.classes) - 1}")
            )  # fmt: skip

    def _folder(self, names: tuple[str, ...], download: bool) -> tuple[Path, bool]:
        """Return where the batches are, and whether they are binary."""
        for folder in (self.base_folder, self.binary_folder, ""):
            for ending in ("", ".bin"):
                if all(Path(self.root, folder, n + ending).is_file() for n in names):
                    return Path(self.root, folder), ending == ".bin"
        also = f" (pickled), or {names[0]}.bin ... (binary) in {Path(self.root, self.binary_folder)}"
        raise missing(self, names, Path(self.root, self.base_folder), download, also)

    def _pickled(self, path: Path) -> tuple[Any, list[int]]:
        batch = read_pickle(path)
        absent = [key for key in ("data", self.label_key) if key not in batch]
        if absent:
            raise self._broken(
                path, f"a dict of {', '.join(batch) or 'nothing'}", f"the keys data and {self.label_key}"
            )
        pixels, labels = np.asarray(batch["data"]), [int(k) for k in batch[self.label_key]]
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), PIXELS):
            came = f"data of {pixels.dtype}{pixels.shape} with {len(labels)} labels"
            raise self._broken(path, came, f"uint8 ({len(labels)}, {PIXELS})")
        return pixels, labels

    def _binary(self, path: Path) -> tuple[Any, list[int]]:
        data, size = contents(path), self.label_bytes + PIXELS
        if len(data) % size:
            at = len(data) - len(data) % size
            raise self._broken(path, f"{len(data) % size} bytes at byte {at}", f"whole records of {size} bytes")
        records = np.frombuffer(data, np.uint8).reshape(-1, size)
        return records[:, self.label_bytes :], records[:, self.label_bytes - 1].tolist()

    def _names(self, folder: Path) -> list[str]:
        if (folder / self.names_file).is_file():
            return [str(name) for name in read_pickle(folder / self.names_file)[self.names_key]]
        if (folder / self.names_text).is_file():
            return (folder / self.names_text).read_text().split()
        return list(self.standard)

    def _broken(self, path: Path, came: str, needed: str) -> RuntimeError:
        return RuntimeError(
            text(f"Dataset not found or corrupted. {path} is broken", op=type(self).__name__, came=came, needed=needed,
                 remedy="copy the file anew")
        )  # fmt: skip

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.transformed(picture(self.data[index], self.as_tensor), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """Small colour pictures of a hundred kinds of things; the labels are the fine ones.

    Read as `CIFAR10`, from ``root/cifar-100-python`` or ``root/cifar-100-binary``. Without the file of names the
    classes are called by their numbers.

    >>> CIFAR100.train_list
    ('train',)
    """

    base_folder, binary_folder = "cifar-100-python", "cifar-100-binary"
    train_list, test_list = ("train",), ("test",)
    names_file, names_key, names_text = "meta", "fine_label_names", "fine_label_names.txt"
    label_key, label_bytes = "fine_labels", 2
    standard = NUMBERS
