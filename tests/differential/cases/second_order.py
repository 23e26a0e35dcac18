import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))
x = torch.randn(5, 2, requires_grad=True)
(g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
penalty = ((g.norm(dim=1) - 1) ** 2).mean()
penalty.backward()
w = torch.tensor([1.0, 2.0], requires_grad=True)
y = (w**3).sum()
(a,) = torch.autograd.grad(y, w, create_graph=True)
(b,) = torch.autograd.grad(a.sum(), w, create_graph=True)
(c,) = torch.autograd.grad(b.sum(), w)
u = torch.autograd.grad(y, [w], grad_outputs=torch.tensor(2.0), retain_graph=True, allow_unused=True)
fast = [p - 0.1 * q for p, q in zip(net.parameters(), torch.autograd.grad(net(x).sum(), net.parameters()))]
y.backward(retain_graph=True, inputs=[w])
y.backward()
print(penalty, a, b, c, u, w.grad)
