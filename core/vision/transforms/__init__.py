"""Transforms of pictures with torchvision's names: ``core.vision.transforms``.

They take tensors (C, H, W), batches (N, C, H, W) and Pillow images; a batch is changed alike in all its pictures. The
random ones draw from core's default generator.
"""

from __future__ import annotations

from . import functional
from .base import Compose, Lambda, RandomApply, RandomChoice, RandomOrder, Transform
from .fixed import (
    CenterCrop,
    ConvertImageDtype,
    FiveCrop,
    Grayscale,
    Normalize,
    Pad,
    PILToTensor,
    Resize,
    TenCrop,
    ToPILImage,
    ToTensor,
)
from .geometry import InterpolationMode
from .mixing import CutMix, MixUp
from .random_colour import (
    ColorJitter,
    GaussianBlur,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from .random_geometry import (
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
)

__all__ = ["CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "CutMix", "FiveCrop", "GaussianBlur",
           "Grayscale", "InterpolationMode", "Lambda", "MixUp", "Normalize", "PILToTensor", "Pad",
           "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice", "RandomCrop",
           "RandomEqualize", "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder",
           "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize", "RandomVerticalFlip", "Resize",
           "TenCrop", "ToPILImage", "ToTensor", "Transform", "functional"]  # fmt: skip
