import torch
from torch import nn

torch.manual_seed(0)
m, emb = nn.Linear(3, 2), nn.Embedding(4, 3)
with torch.no_grad():
    m.weight[0] *= 0.5
    m.weight[:, 1] = 0
    m.bias.add_(1).mul_(2)
    for row in emb.weight:
        row /= row.norm()
    half = m.weight[1:]
    half -= 1
    m.weight.view(-1)[2:4].fill_(7)
    m.weight.T[0].zero_()
    for part in m.weight.chunk(2):
        part += 1
    for part in m.weight.unbind(0):
        part.mul_(2)
    emb.weight.data[0] = 3
x = torch.randn(4, 3)
x[x > 0] = 0
x[1:3] += 1
x[:, 0].copy_(torch.arange(4.0))
buffer = torch.empty(4, 2)
torch.matmul(x, m.weight.detach().t(), out=buffer)
with torch.no_grad():
    viewed = m.weight[0]
print(m.weight, emb.weight, x, buffer)
m(x).sum().backward()
print(m.weight.grad)
# %%
with torch.inference_mode():
    inner = x * 2
    inner[0] = 1
print(inner.is_inference() if hasattr(inner, "is_inference") else None)
# %%
y = m.weight * 2
z = y.exp()
y[0] = 0
z.sum().backward()
# %%
z += 1
# %%
m.weight[0] *= 2
