"""timm: a ResNet, a ViT and a ConvNeXt, two steps each."""

import timm
import torch
from told import steps, tell

x, y = torch.linspace(-1, 1, 2 * 3 * 64 * 64).view(2, 3, 64, 64), torch.tensor([1, 3])
found = {}
for name, more in (("resnet18", {}), ("vit_tiny_patch16_224", {"img_size": 64}), ("convnext_atto", {})):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=5, **more)
    model.eval() if name == "convnext_atto" else model.train()
    found[name] = steps(model.parameters(), lambda m=model: torch.nn.functional.cross_entropy(m(x), y))
tell(**found)
