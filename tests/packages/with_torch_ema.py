"""torch-ema: averages of parameters, stored and restored."""

import torch
from told import steps, tell
from torch_ema import ExponentialMovingAverage

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
x = torch.linspace(-1, 1, 20).view(5, 4).sin()
ema = ExponentialMovingAverage(net.parameters(), decay=0.9)
trained = steps(net.parameters(), lambda: net(x).pow(3).mean())
ema.update()
with torch.no_grad(), ema.average_parameters():
    inside = net(x).detach()
ema2 = ExponentialMovingAverage([p.detach().clone().requires_grad_() for p in net.parameters()], decay=0.5)
ema2.load_state_dict(ema.state_dict())
ema2.copy_to(net.parameters())
tell(trained=trained, inside=inside, after=list(net.parameters()))
