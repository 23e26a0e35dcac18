import torch
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
seen = []
handles = [
    model[0].register_forward_pre_hook(lambda module, given: seen.append(("pre", type(module).__name__, len(given)))),
    model[1].register_forward_hook(lambda module, given, out: out * 2),
    model[2].register_full_backward_hook(lambda module, into, out: seen.append(("backward", len(into), len(out)))),
]
x = torch.randn(3, 4, requires_grad=True)
x.register_hook(lambda g: seen.append(("x", tuple(g.shape))))
h = model[0](x)
h.register_hook(lambda g: g * 3)
h.retain_grad()
out = model[2](model[1](h))
model(x).sum().backward()
out.square().sum().backward()
model[0].weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("step", len(args), len(kwargs))))
optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("stepped"))
model(x).sum().backward()
optimizer.step()
for handle in handles:
    handle.remove()
print(seen)
print(len(model[0]._forward_pre_hooks), len(model[1]._forward_hooks))
