"""Folders of files: one folder a class, the classes in alphabetical order."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...base.errors import text
from ..images import pillow
from .base import Transform, VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
Path_ = str | os.PathLike[str]


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Return whether a name ends so, in capitals or not.

    >>> has_file_allowed_extension("cat.JPG", IMG_EXTENSIONS)
    True
    """
    return filename.lower().endswith(extensions)


def find_classes(directory: Path_) -> tuple[list[str], dict[str, int]]:
    """Return the names of the folders in `directory`, sorted, and their numbers.

    *Raises*: FileNotFoundError when there is none.
    """
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(
            text(f"Couldn't find any class folder in {directory}.", op="find_classes", needed="one folder a class",
                 remedy=f"{Path(directory, 'cat', '1.png')}, {Path(directory, 'dog', '1.png')}, ...")
        )  # fmt: skip
    return classes, {name: k for k, name in enumerate(classes)}


def make_dataset(directory: Path_, class_to_idx: dict[str, int] | None = None,
                 extensions: str | tuple[str, ...] | None = None, is_valid_file: Callable[[str], bool] | None = None,
                 allow_empty: bool = False) -> list[tuple[str, int]]:  # fmt: skip
    """Return the files under `directory` with their class's number: class by class, in each sorted by folder and name.

    *Raises*: ValueError unless exactly one of `extensions` and `is_valid_file` is given; FileNotFoundError for classes
    without a file.
    """
    if class_to_idx is None:
        class_to_idx = find_classes(directory)[1]
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    if is_valid_file is None:
        allowed = extensions if isinstance(extensions, str) else tuple(extensions or ())
        is_valid_file = lambda name: has_file_allowed_extension(name, allowed)
    samples: list[tuple[str, int]] = []
    empty = []
    for name in sorted(class_to_idx):
        before = len(samples)
        for folder, _, files in sorted(os.walk(os.path.join(os.path.expanduser(directory), name), followlinks=True)):
            paths = (os.path.join(folder, file) for file in sorted(files))
            samples += [(path, class_to_idx[name]) for path in paths if is_valid_file(path)]
        if len(samples) == before:
            empty.append(name)
    if empty and not allow_empty:
        allowed = extensions if isinstance(extensions, str) else ", ".join(extensions or ())
        raise FileNotFoundError(
            text(f"Found no valid file for the classes {', '.join(empty)}.", op="make_dataset",
                 needed=f"supported extensions are: {allowed}" if allowed else "files that is_valid_file takes",
                 remedy="allow_empty=True lets classes be empty")
        )  # fmt: skip
    return samples


def default_loader(path: Path_) -> Any:
    """Return a picture file as a Pillow image in RGB.

    *Raises*: RuntimeError that names the file when it is no picture, or not a whole one.
    """
    Image = pillow("default_loader")
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise RuntimeError(
            text(f"{os.fspath(path)} cannot be read as a picture", op="default_loader", came=str(error).split(" '")[0],
                 remedy="remove the file, or leave it out by is_valid_file")
        ) from error  # fmt: skip


class DatasetFolder(VisionDataset):
    """Files in one folder a class: ``root/cat/1.ext``, ``root/dog/deeper/2.ext``.

    loader : makes a sample of a path. extensions or is_valid_file : which files count. allow_empty : classes without
    one are kept.

    *Raises*: FileNotFoundError for no class or an empty one.

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("dog", "cat"):
    ...     (root / name).mkdir()
    ...     _ = (root / name / "1.txt").write_text(name * 2)
    >>> data = DatasetFolder(root, loader=lambda path: open(path).read(), extensions=(".txt",))
    >>> data.classes, data.targets, data[0]
    (['cat', 'dog'], [0, 1], ('catcat', 0))
    """

    def __init__(self, root: Path_, loader: Callable[[str], Any], extensions: tuple[str, ...] | None = None,
                 transform: Transform | None = None, target_transform: Transform | None = None,
                 is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(directory: Path_, class_to_idx: dict[str, int], extensions: tuple[str, ...] | None = None,
                     is_valid_file: Callable[[str], bool] | None = None,
                     allow_empty: bool = False) -> list[tuple[str, int]]:  # fmt: skip
        """Return which files there are; to be overridden for other layouts."""
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: Path_) -> tuple[list[str], dict[str, int]]:
        """Return which classes there are; to be overridden for other layouts."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self.transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Pictures in one folder a class, opened by Pillow in RGB.

    >>> import tempfile, pathlib
    >>> from PIL import Image
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "red").mkdir()
    >>> Image.new("RGB", (4, 3), "red").save(root / "red" / "1.png")
    >>> image, label = ImageFolder(root)[0]
    >>> image.size, image.getpixel((0, 0)), label
    ((4, 3), (255, 0, 0), 0)
    """

    def __init__(self, root: Path_, transform: Transform | None = None, target_transform: Transform | None = None,
                 loader: Callable[[str], Any] = default_loader, is_valid_file: Callable[[str], bool] | None = None,
                 allow_empty: bool = False) -> None:  # fmt: skip
        super().__init__(root, loader, IMG_EXTENSIONS if is_valid_file is None else None, transform, target_transform,
                         is_valid_file, allow_empty)  # fmt: skip
        self.imgs = self.samples
