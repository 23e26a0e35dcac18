"""Losses of pictures, with torchvision's names and its place, ``torchvision.ops``: focal loss, and Dice beside it.

They stand here and not in `core.nn.functional`, which has PyTorch's names and no others.
"""

from __future__ import annotations

from .dice import dice_loss
from .focal import sigmoid_focal_loss

__all__ = ["dice_loss", "sigmoid_focal_loss"]
