"""Networks for pictures with torchvision's names, arguments and keys: ``from core.vision import models``.

``models.resnet18(weights="resnet18.pth")`` reads a file with torchvision's weights, ``.pth`` or ``.safetensors``.
Nothing is ever downloaded.
"""

from __future__ import annotations

from .mobilenetv2 import MobileNetV2, mobilenet_v2
from .mobilenetv3 import MobileNetV3, mobilenet_v3_large, mobilenet_v3_small
from .resnet import ResNet, resnet18, resnet34, resnet50, resnet101
from .unet import UNet, unet
from .vision_transformer import VisionTransformer, vit_b_16, vit_b_32

__all__ = ["MobileNetV2", "MobileNetV3", "ResNet", "UNet", "VisionTransformer", "mobilenet_v2", "mobilenet_v3_large",
           "mobilenet_v3_small", "resnet18", "resnet34", "resnet50", "resnet101", "unet", "vit_b_16",
           "vit_b_32"]  # fmt: skip
