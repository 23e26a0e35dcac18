"""What the data sets share: a root folder, the transforms of picture and target, and how missing files are told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ...base.dtypes import int64
from ...base.errors import text
from ...ops import creation
from ...tensors.tensor import Tensor
from ...utils.data.dataset import Dataset
from ..transforms.conversion import channels_first, to_pil_image

Transform = Callable[[Any], Any]


class VisionDataset(Dataset[Any]):
    """Base of data sets of pictures: keeps `root` and the transforms, and says what it is.

    transforms : one callable of (picture, target); or separately transform and target_transform.

    *Raises*: ValueError when both ways are given.

    >>> VisionDataset("photos").root
    'photos'
    """

    _repr_indent = 4

    def __init__(self, root: str | os.PathLike[str] | None = None, transforms: Callable[..., Any] | None = None,
                 transform: Transform | None = None, target_transform: Transform | None = None) -> None:  # fmt: skip
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform, self.target_transform, self.transforms = transform, target_transform, transforms

    def transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """Return a picture and its target after the transforms."""
        if self.transforms is not None:
            return self.transforms(image, target)  # type: ignore[no-any-return]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must say its length: write __len__")

    def extra_repr(self) -> str:
        """Return a line more for what `repr` says."""
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        for name in ("transforms", "transform", "target_transform"):
            if (given := getattr(self, name)) is not None:
                body.append(f"{name}: {given!r}")
        return "\n".join([f"Dataset {type(self).__name__}", *(" " * self._repr_indent + line for line in body)])


def picture(pixels: Any, as_tensor: bool) -> Any:
    """One stored picture (H, W) or (H, W, C): a Pillow image, or a uint8 tensor (C, H, W)."""
    if not as_tensor:
        return to_pil_image(pixels)
    return channels_first(pixels)


def found(root: Any, folders: Iterable[str], name: str) -> Path | None:
    """Return the file `name` or `name`.gz in the first of the folders under `root` that has it."""
    for folder in folders:
        for ending in ("", ".gz"):
            path = Path(root, folder, name + ending)
            if path.is_file():
                return path
    return None


def missing(dataset: Any, names: Sequence[str], folder: Path, download: bool, also: str = "") -> RuntimeError:
    """Return the error that says which files are wanted and where to put them."""
    kind = type(dataset).__name__
    said = "download=True: gradlab downloads nothing." if download else ""
    return RuntimeError(
        text(
            " ".join(filter(None, ["Dataset not found or corrupted.", said])),
            op=kind,
            came=f"no {', '.join(names)} under {Path(dataset.root)}",
            needed=f"the files {', '.join(names)}{also}",
            remedy=f"put them in {folder}",
        )
    )


def label_tensor(values: Any) -> Tensor:
    """Labels as int64."""
    return creation.as_tensor(values).to(int64)
