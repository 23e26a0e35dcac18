"""lion-pytorch: three steps, with decay, and the cautious variant."""

import torch
from lion_pytorch import Lion
from told import steps, tell

x = torch.linspace(-1, 1, 12).view(3, 4)
found = {}
for name, more in (("plain", {}), ("decay", {"weight_decay": 0.1}), ("betas", {"betas": (0.8, 0.9)})):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    found[name] = steps(
        model.parameters(), lambda m=model: m(x).square().mean(), Lion(model.parameters(), lr=0.01, **more), 3
    )
tell(**found)
