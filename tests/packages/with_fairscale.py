"""fairscale: checkpointed, flattened and mixture-of-experts layers, its optimizers."""

import torch
from fairscale.nn import FlattenParamsWrapper, checkpoint_wrapper
from fairscale.nn.moe import Top2Gate
from fairscale.optim import AdaScale
from told import steps, tell

x = torch.linspace(-1, 1, 20).view(5, 4).sin()


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))


found = {}
kept = checkpoint_wrapper(net())
found["checkpointed"] = steps(kept.parameters(), lambda: kept(x.clone().requires_grad_()).square().mean())
flat = FlattenParamsWrapper(net())
found["flat"] = steps(flat.parameters(), lambda: flat(x).square().mean())
scaled = net()
ada = AdaScale(torch.optim.SGD(scaled.parameters(), lr=0.01), world_size=1, num_gradients_to_accumulate=2)
for _ in range(2):
    (scaled(x).square().mean() / 2).backward()
    (scaled(x * 2).square().mean() / 2).backward()
    ada.step()
    ada.zero_grad()
torch.manual_seed(0)
gate = Top2Gate(4, 5)
loss, combine, mask = gate(x.clone())
tell(
    **found,
    adascale=list(scaled.parameters()),
    gain=ada.gain(),
    gate=[loss, mask.float().sum()],
    keys=[len(flat.state_dict())],
)
