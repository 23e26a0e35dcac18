# What a program can ask about itself: its frames, its modules, its source, its namespace.
import inspect
import sys
import traceback

import torch


class Loud(torch.nn.Module):
    def forward(self, x):
        frames = [f.name for f in traceback.extract_stack() if f.name in ("forward", "call", "<lambda>")]
        return x * len(frames)


def call(f, x):
    return f(x)


loud = Loud()
print(call(loud, torch.ones(2)), call(lambda t: loud(t), torch.ones(2)))
print(inspect.signature(torch.nn.Linear.forward), inspect.getsource(Loud.forward).count("\n"))
print(sorted(n for n in globals() if n.startswith("lab") or n.startswith("grad")))
print(loud.forward.__name__, torch.nn.functional.relu.__name__, torch.Tensor.backward.__name__)
print(callable(torch.autograd.Function.apply), inspect.ismethod(torch.autograd.Function.apply))
print(torch.nn.Parameter(torch.ones(1)).__class__.__name__, repr(torch.nn.Parameter.__module__))
t = torch.ones(2, requires_grad=True) * 2
print(sorted(k for k in vars(t) if not k.startswith("_")), t.__class__ is torch.Tensor, hash(t) == hash(t))


def caller():
    return sys._getframe(1).f_code.co_name


def hooked(g):
    return g * (caller() != "hooked")


t.register_hook(lambda g: g * 2)
t.sum().backward()
