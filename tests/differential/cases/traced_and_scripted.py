# packages: torch
import torch
from torch import fx, nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)

    def forward(self, x):
        return torch.relu(self.a(x)).sum(1)


net, x = Net(), torch.randn(2, 3)
graph = fx.symbolic_trace(net)
print(graph.graph)
print(graph(x))
traced = torch.jit.trace(net, x)
print(traced(x))
scripted = torch.jit.script(net)
print(scripted(x), scripted.code)
exported = torch.export.export(net, (x,))
print(exported.graph_module.code)
from torch.utils.checkpoint import checkpoint

y = checkpoint(net, x.requires_grad_(), use_reentrant=False)
y.sum().backward()
z = checkpoint(net, x, use_reentrant=True)
z.sum().backward()
print(x.grad)
from torch.utils.flop_counter import FlopCounterMode

with FlopCounterMode(display=False) as counter:
    net(x)
print(counter.get_total_flops())
meta = torch.ones(3, device="meta") * 2
print(meta.shape, meta.device)
from torch._subclasses.fake_tensor import FakeTensorMode

with FakeTensorMode():
    fake = torch.ones(2, 3) @ torch.ones(3, 4)
print(fake.shape)
