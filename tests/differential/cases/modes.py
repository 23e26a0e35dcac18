import torch
from torch import nn

x = torch.ones(2, requires_grad=True)
torch.set_grad_enabled(False)
y = x * 2
torch.set_grad_enabled(True)
with torch.no_grad():
    with torch.enable_grad():
        z = x * 3
    u = x * 4
with torch.set_grad_enabled(False):
    v = x * 5


@torch.no_grad()
def f(t):
    return t * 6


@torch.enable_grad()
def g(t):
    return t * 7


print([t.requires_grad for t in (y, z, u, v, f(x), g(x))])
torch.set_default_dtype(torch.float64)
d = torch.ones(2) * 0.1
torch.set_default_dtype(torch.float32)
net = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2))
net.eval()
print(d.dtype, net(torch.ones(3, 2)), net.training)
with torch.autocast("cpu", dtype=torch.bfloat16):
    h = torch.ones(2, 3) @ torch.ones(3, 2)
print(h.dtype)
torch.set_printoptions(precision=2)
print(d)
torch.set_printoptions(profile="default")
torch.set_grad_enabled(False)
# %%
print((x * 2).requires_grad)
torch.set_grad_enabled(True)
