# packages: torch
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


model = Net()
compiled = torch.compile(model, backend="eager", fullgraph=True)
x = torch.randn(5, 4)
out = compiled(x)
out.sum().backward()


@torch.compile(backend="aot_eager")
def f(x, y):
    if x.sum() > 0:
        return torch.sin(x) * y
    return torch.cos(x) + y


a = torch.randn(3, requires_grad=True)
z = f(a, torch.ones(3))
z.sum().backward()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    compiled(x).square().mean().backward()
    optimizer.step()
torch._dynamo.reset()
print(out, z, a.grad)
# %%
counter = torch._dynamo.testing.CompileCounter()
g = torch.compile(lambda t: t.sin() + 1, backend=counter, fullgraph=True)
g(torch.ones(3))
g(torch.ones(3))
print(counter.frame_count, counter.op_count)
