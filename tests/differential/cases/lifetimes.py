# What dies when: by count, by collection, by weakref.
import gc
import weakref

import torch
from torch import nn

gone = []
t = torch.ones(3) * 2
weakref.finalize(t, gone.append, "t")
r = weakref.ref(t)
del t
print("after del", r() is None, gone)
w = torch.ones(3, requires_grad=True)
y = (w * 2).exp()
s = weakref.ref(y)
y.sum().backward()
del y
print("after backward", s() is None)


class Node:
    pass


n = Node()
n.me, n.t = n, torch.ones(2).exp()
inner = weakref.ref(n.t)
del n
print("cycle", inner() is None)
gc.collect()
print("collected", inner() is None)
model = nn.Linear(3, 2)
kept = weakref.WeakKeyDictionary({p: i for i, p in enumerate(model.parameters())})
model(torch.ones(1, 3)).sum().backward()
optimizer = torch.optim.Adam(model.parameters())
optimizer.step()
o = weakref.ref(optimizer)
del model, optimizer
gc.collect()
print("model", len(kept), o() is None)


class Tracked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        weakref.finalize(ctx, gone.append, "ctx")
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


z = Tracked.apply(w)
z.sum().backward()
del z
gc.collect()
print(gone)


def local():
    big = torch.ones(1000)
    return weakref.ref(big), (big * 2).sum()


ref, value = local()
print("local", ref() is None)
views = torch.ones(4, 4)
row = weakref.ref(views)
part = views[0]
del views
print("base", part.sum().item())
print(gc.get_threshold(), gc.isenabled())
