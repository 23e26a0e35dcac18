"""`FakeData`: random pictures, the same ones every time."""

from __future__ import annotations

from typing import Any

from ...random import randint, randn
from ...rng.generator import fork
from ..transforms.conversion import to_pil_image
from .base import Transform, VisionDataset


class FakeData(VisionDataset):
    """Pictures of noise with random labels, made from their index alone; what to try a training loop with.

    >>> data = FakeData(size=10, image_size=(3, 8, 8), num_classes=4)
    >>> image, label = data[3]
    >>> len(data), image.size, label == data[3][1], 0 <= label < 4
    (10, (8, 8), True, True)
    """

    def __init__(self, size: int = 1000, image_size: tuple[int, ...] = (3, 224, 224), num_classes: int = 10,
                 transform: Transform | None = None, target_transform: Transform | None = None,
                 random_offset: int = 0) -> None:  # fmt: skip
        super().__init__(None, transform=transform, target_transform=target_transform)
        self.size, self.image_size = size, image_size
        self.num_classes, self.random_offset = num_classes, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not 0 <= index < self.size:
            raise IndexError(f"{type(self).__name__} index out of range: came {index}, needed 0 to {self.size - 1}")
        numbers = fork(index + self.random_offset)
        image = randn(*self.image_size, generator=numbers)
        target = int(randint(0, self.num_classes, size=(1,), generator=numbers)._a[0])
        return self.transformed(to_pil_image(image), target)

    def __len__(self) -> int:
        return self.size
