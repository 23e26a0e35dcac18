"""MNIST and the data sets that share its files: FashionMNIST, KMNIST, EMNIST."""

from __future__ import annotations

import os
import string
from pathlib import Path
from typing import Any

from ...base.errors import text
from ...ops.creation import as_tensor as tensor_of
from ...tensors.tensor import Tensor
from .base import Transform, VisionDataset, found, label_tensor, missing, picture
from .idx import read_idx

DIGITS = ["0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven", "8 - eight",
          "9 - nine"]  # fmt: skip
CLOTHES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
KANA = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class MNIST(VisionDataset):
    """Handwritten digits, 28×28, from the four idx files, plain or gzip.

    They are looked for in ``root/MNIST/raw`` (torchvision's place), ``root/raw`` and ``root``. A sample is a Pillow
    image of mode "L" and an int; ``as_tensor=True`` gives a uint8 tensor (1, 28, 28) instead and needs no Pillow.

    train : 60,000 pictures of the training files, otherwise 10,000 of the t10k files. download : never done; the error
    names the files and their folder.

    *Raises*: RuntimeError for missing, truncated or mismatched files, with the file and the byte.

    >>> import tempfile, pathlib, struct
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> images = struct.pack(">4I", 0x803, 2, 28, 28) + bytes(2 * 784)
    >>> _ = (root / "train-images-idx3-ubyte").write_bytes(images)
    >>> _ = (root / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 2) + bytes([5, 0]))
    >>> data = MNIST(root, as_tensor=True)
    >>> data.data.shape, data.targets, data[1][1], data.classes[5]
    (core.Size([2, 28, 28]), tensor([5, 0]), 0, '5 - five')
    """

    classes: list[str] = DIGITS

    def __init__(self, root: str | os.PathLike[str], train: bool = True, transform: Transform | None = None,
                 target_transform: Transform | None = None, download: bool = False, *,
                 as_tensor: bool = False) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train, self.as_tensor = train, as_tensor
        self.data, self.targets = self._load(download)

    def _names(self) -> tuple[str, str]:
        part = "train" if self.train else "t10k"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"

    @property
    def raw_folder(self) -> str:
        """Where torchvision keeps the files."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """From a class's name to its number."""
        return {name: k for k, name in enumerate(self.classes)}

    def _load(self, download: bool) -> tuple[Tensor, Tensor]:
        names = self._names()
        folders = (os.path.join(type(self).__name__, "raw"), type(self).__name__, "raw", "")
        images, labels = (found(self.root, folders, name) for name in names)
        if images is None or labels is None:
            raise missing(self, names, Path(self.raw_folder), download, " (plain or .gz)")
        pixels = read_idx(images, (None, 28, 28))
        numbers = read_idx(labels, (None,))
        if len(pixels) != len(numbers):
            raise RuntimeError(
                text(f"Dataset not found or corrupted. {labels} does not belong to {images}", op=type(self).__name__,
                     came=f"{len(numbers)} labels and {len(pixels)} pictures", needed="as many")
            )  # fmt: skip
        if len(numbers) and int(numbers.max()) >= len(self.classes):
            at = int(numbers.argmax())
            raise RuntimeError(
                text(f"Dataset not found or corrupted. {labels} is broken at byte {8 + at}", op=type(self).__name__,
                     came=f"the label {numbers.max()}", needed=f"0 to {len(self.classes) - 1}")
            )  # fmt: skip
        return tensor_of(pixels), label_tensor(numbers)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.transformed(picture(self.data._a[index], self.as_tensor), int(self.targets._a[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """Pictures of clothes in MNIST's files, in ``root/FashionMNIST/raw``, ``root/raw`` or ``root``.

    >>> FashionMNIST.classes[1]
    'Trouser'
    """

    classes = CLOTHES


class KMNIST(MNIST):
    """Handwritten kana in MNIST's files, in ``root/KMNIST/raw``, ``root/raw`` or ``root``.

    >>> KMNIST.classes[:3]
    ['o', 'ki', 'su']
    """

    classes = KANA


_ALL = set(string.digits + string.ascii_letters)
_MERGED = sorted(_ALL - set("cijklmopsuvwxyz"))  # those whose small letters look like the capital
LETTERS: dict[str, list[str]] = {
    "byclass": sorted(_ALL),
    "bymerge": _MERGED,
    "balanced": _MERGED,
    "letters": ["N/A", *string.ascii_lowercase],
    "digits": list(string.digits),
    "mnist": list(string.digits),
}


class EMNIST(MNIST):
    """Handwritten letters and digits in MNIST's files: ``emnist-<split>-train-images-idx3-ubyte`` and so on.

    split : "byclass", "bymerge", "balanced", "letters", "digits" or "mnist". As stored, a picture is transposed; the
    labels of "letters" begin at 1.

    *Raises*: ValueError for another split.

    >>> EMNIST.classes_split_dict["letters"][:3]
    ['N/A', 'a', 'b']
    """

    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    classes_split_dict = LETTERS

    def __init__(self, root: str | os.PathLike[str], split: str, **kwargs: Any) -> None:
        if split not in self.splits:
            raise ValueError(
                text(f"Unknown value '{split}' for argument split.", op="EMNIST", needed=", ".join(self.splits))
            )
        self.split = split
        self.classes = self.classes_split_dict[split]
        super().__init__(root, **kwargs)

    def _names(self) -> tuple[str, str]:
        part = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
