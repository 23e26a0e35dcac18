# packages: torch
# The user patches the library and takes it back: the patch is heard, and nothing of ours is taken for the original.
import torch
from torch import nn

original, calls = torch.Tensor.add, []
torch.Tensor.add = lambda self, *args, **kwargs: (calls.append("add"), original(self, *args, **kwargs))[1]
torch.ones(2).add(1)
torch.Tensor.add = original


class Mine(torch.Tensor):
    pass


t = torch.ones(3).as_subclass(Mine)
print(type(t * 2).__name__, type(t.sum()).__name__)


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


u = torch.ones(3).as_subclass(Logged)
v = (u + 1).sum()
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        calls.append(("mode", func.__name__))
        return func(*args, **(kwargs or {}))


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        calls.append(("dispatch", str(func)))
        return func(*args, **(kwargs or {}))


with Mode():
    torch.ones(2) + 1
w = torch.ones(2, requires_grad=True)
with Dispatch():
    y = (w * 2).sum()
    y.backward()
print(calls)
print(nn.Parameter.__new__ is nn.Parameter.__dict__["__new__"], isinstance(nn.Parameter(torch.ones(1)), nn.Parameter))
