# A hook of the user's raises inside backward().
import torch

w = torch.ones(3, requires_grad=True)
y = w * 2


def broken(g):
    raise ValueError(f"a hook of shape {tuple(g.shape)}")


y.register_hook(broken)
y.sum().backward()
