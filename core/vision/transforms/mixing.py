"""`MixUp` and `CutMix`: a batch mixed with itself, pictures and labels alike; to be called on what a loader gives."""

from __future__ import annotations

import math
from typing import Any

from ...base.dtypes import get_default_dtype
from ...base.errors import text
from ...distributions import Beta
from ...nn.functional import one_hot
from ...tensors.tensor import Tensor
from . import drawing
from .base import Transform


class _Mix(Transform):
    said = ("alpha", "num_classes")

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__()
        if alpha <= 0:
            raise ValueError(text("alpha must be positive", op=type(self).__name__, came=str(alpha)))
        self.alpha, self.num_classes = float(alpha), num_classes

    def mixed(self, images: Tensor, others: Tensor, share: float) -> tuple[Tensor, float]:
        raise NotImplementedError

    def forward(self, images: Any, labels: Any = None) -> tuple[Tensor, Tensor]:
        """Return (pictures, labels as shares of every class) of a batch; a pair may come as one argument."""
        name = type(self).__name__
        if labels is None and isinstance(images, tuple | list) and len(images) == 2:
            images, labels = images
        if not isinstance(images, Tensor) or not isinstance(labels, Tensor):
            raise TypeError(text(f"{name} mixes a batch of tensors with its labels", op=name,
                                 remedy="call it on what the DataLoader gives: mix(images, labels)"))  # fmt: skip
        if images.ndim < 4 or not images.dtype.is_floating_point:
            raise ValueError(text(f"{name} takes a batch of floating images", op=name, needed="(N, C, H, W)",
                                  came=f"{tuple(images.shape)} of {images.dtype}"))  # fmt: skip
        if len(labels) != len(images):
            raise ValueError(text("as many labels as images are needed", op=name,
                                  came=f"{len(labels)} labels of {len(images)} images"))  # fmt: skip
        if labels.ndim == 1 and not labels.dtype.is_floating_point:
            if self.num_classes is None:
                raise ValueError(text("num_classes must be passed if the labels are index-based", op=name))
            labels = one_hot(labels.long(), self.num_classes)  # type: ignore[attr-defined]
        labels = labels.to(get_default_dtype()) if not labels.dtype.is_floating_point else labels
        share = float(Beta(self.alpha, self.alpha).sample(()))  # type: ignore[no-untyped-call, unused-ignore]
        mixed, share = self.mixed(images, images.roll(1, 0), share)  # type: ignore[attr-defined]
        return mixed, labels * share + labels.roll(1, 0) * (1.0 - share)


class MixUp(_Mix):
    """Every picture of a batch and its neighbour, mixed in shares l and 1 - l, l of Beta(alpha, alpha).

    *Source*: H. Zhang et al., "mixup: beyond empirical risk minimization" (2018).

    >>> import core
    >>> images, labels = MixUp(num_classes=3)(core.rand(4, 1, 2, 2), core.tensor([0, 1, 2, 0]))
    >>> images.shape, labels.shape, bool(core.allclose(labels.sum(1), core.ones(4)))
    (core.Size([4, 1, 2, 2]), core.Size([4, 3]), True)
    """

    def mixed(self, images: Tensor, others: Tensor, share: float) -> tuple[Tensor, float]:
        """Return the weighted sum."""
        return images * share + others * (1.0 - share), share


class CutMix(_Mix):
    """A rectangle of every picture of a batch taken from its neighbour; labels by the area, of Beta(alpha, alpha).

    *Source*: S. Yun et al., "CutMix" (2019).

    >>> import core
    >>> images, labels = CutMix(num_classes=2)((core.rand(4, 3, 8, 8), core.tensor([0, 1, 1, 0])))
    >>> images.shape, labels.shape
    (core.Size([4, 3, 8, 8]), core.Size([4, 2]))
    """

    def mixed(self, images: Tensor, others: Tensor, share: float) -> tuple[Tensor, float]:
        """Return the patched pictures, and the share that the patch left."""
        h, w = tuple(images.shape)[-2:]
        x, y, half = drawing.integer(w), drawing.integer(h), 0.5 * math.sqrt(1.0 - share)
        left, right = max(x - int(half * w), 0), min(x + int(half * w), w)
        top, bottom = max(y - int(half * h), 0), min(y + int(half * h), h)
        out = images.clone()  # type: ignore[attr-defined]
        out[..., top:bottom, left:right] = others[..., top:bottom, left:right]
        return out, 1.0 - (right - left) * (bottom - top) / (h * w)
