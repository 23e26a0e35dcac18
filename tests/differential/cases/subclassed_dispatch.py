# packages: torch
import torch
from torch.utils._pytree import tree_map


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype, requires_grad=data.requires_grad)

    def __init__(self, data):
        self.data_ = data

    def __repr__(self):
        return f"Wrapped({self.data_})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        print(func)
        open_ = lambda t: t.data_ if isinstance(t, cls) else t
        out = func(*tree_map(open_, args), **tree_map(open_, kwargs or {}))
        return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, out)


a = Wrapped(torch.tensor([1.0, 2.0]))
b = a * 2 + a
print(b, b.sum())
