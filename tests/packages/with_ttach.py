"""ttach: test-time augmentation of classifiers and segmenters."""

import torch
import ttach as tta
from told import steps, tell

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3, padding=1), torch.nn.Tanh())
x = torch.linspace(-1, 1, 2 * 3 * 8 * 8).view(2, 3, 8, 8)
several = tta.Compose(
    [tta.HorizontalFlip(), tta.Rotate90(angles=[0, 180]), tta.Scale(scales=[1, 2]), tta.Multiply(factors=[0.9, 1])]
)
segment = tta.SegmentationTTAWrapper(model, several)
classify = tta.ClassificationTTAWrapper(
    torch.nn.Sequential(model, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()), tta.aliases.d4_transform()
)
tell(
    trained=steps(model.parameters(), lambda: segment(x).square().mean()),
    classified=classify(x),
    five=tta.ClassificationTTAWrapper(torch.nn.Flatten(), tta.aliases.five_crop_transform(4, 4))(x),
)
