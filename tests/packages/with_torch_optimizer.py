"""torch_optimizer: three steps of several optimizers."""

import torch
import torch_optimizer
from told import steps, tell

x = torch.linspace(-1, 1, 12).view(3, 4)
found = {}
for name in ("RAdam", "AdaBound", "DiffGrad", "Lamb", "NovoGrad", "QHAdam", "Yogi", "Ranger"):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = getattr(torch_optimizer, name)(model.parameters(), lr=0.01)
    found[name] = steps(model.parameters(), lambda m=model: m(x).square().mean(), optimizer, 3)
tell(**found)
