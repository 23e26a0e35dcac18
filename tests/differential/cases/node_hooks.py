# packages: torch
import torch

w = torch.ones(3, requires_grad=True)
y = (w * 2).exp()
node = y.grad_fn
print(node.name(), node.metadata, len(node.next_functions))
node.register_hook(lambda into, out: print("hook", [None if g is None else tuple(g.shape) for g in into]))
node.register_prehook(lambda out: print("prehook", len(out)))
node.metadata["mine"] = 1
y.sum().backward()
print(sorted(k for k in node.metadata if k == "mine"))
with torch.autograd.graph.saved_tensors_hooks(lambda t: (print("pack", tuple(t.shape)), t)[1], lambda t: t):
    (w.sin() * w).sum().backward()
with torch.autograd.graph.save_on_cpu():
    w.exp().sum().backward()
counted = torch.autograd.graph.register_multi_grad_hook([w], lambda gs: print("multi", len(gs)))
w.cos().sum().backward()
counted.remove()
print(w.grad)
