import warnings

import torch
from torch import nn

warnings.simplefilter("error")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
y = model(torch.randn(5, 3))
y.square().sum().backward()
z = y * 2
z.requires_grad, z.is_leaf, z.data.sum().item()
nan = torch.tensor([1.0, float("nan"), float("inf")])
bad = (nan * 2).log().sum()
empty = torch.zeros(0, 3)
total = empty.sum(), (empty * 2).sum(0)
half = torch.tensor([70000.0]).half()
big = torch.full((3,), 1e38) * 100
whole = torch.tensor([1, 2, 3]) // 2
flags = torch.tensor([True, False]) | torch.tensor([False, False])
print(bad, total, half, big, whole, flags)
for p in model.parameters():
    p.grad = None
c = torch.tensor([1 + 2j, 3 - 1j]) if hasattr(torch, "complex64") else None
print(None if c is None else (c * c.conj()).abs())
# %%
warnings.warn("the user's own", UserWarning)
