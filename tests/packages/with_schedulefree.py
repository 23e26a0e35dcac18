"""schedulefree: two steps of AdamWScheduleFree and the averaged weights."""

import schedulefree
import torch
from told import steps, tell

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=0.01, foreach=False)
optimizer.train()
x = torch.linspace(-1, 1, 12).view(3, 4)
trained = steps(model.parameters(), lambda: model(x).square().mean(), optimizer, 3)
optimizer.eval()
tell(trained=trained, weights=list(model.parameters()))
