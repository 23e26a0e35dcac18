"""PyTorch's functions by the names that the card and the findings use."""

from __future__ import annotations

from typing import Any

OPERATORS = {"__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "sub", "rsub": "sub", "__mul__": "mul",
             "__rmul__": "mul", "multiply": "mul", "__truediv__": "div",
             "__rtruediv__": "reciprocal", "__rdiv__": "reciprocal", "true_divide": "div",
             "__matmul__": "matmul", "__rmatmul__": "matmul", "mm": "matmul", "bmm": "matmul", "__pow__": "pow",
             "__rpow__": "pow", "square": "pow", "__neg__": "neg", "negative": "neg", "absolute": "abs", "__eq__": "eq",
             "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__and__": "bitwise_and",
             "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__ipow__": "pow_",
             "__getitem__": "getitem", "__setitem__": "setitem_", "__abs__": "abs", "subtract": "sub",
             "divide": "div"}  # fmt: skip
CUTS = {"detach": "detach", "detach_": "detach", "numpy": "numpy", "__array__": "numpy", "item": "item",
        "__float__": "item", "__int__": "item", "tolist": "tolist", "data": "data", "tensor": "tensor",
        "as_tensor": "tensor", "int": "cast", "long": "cast", "bool": "cast"}  # fmt: skip
"""Functions by which values leave the graph, and the kind of cut."""
VIEWS = {"view", "reshape", "transpose", "permute", "t", "T", "mT", "squeeze", "unsqueeze", "expand", "flatten",
         "getitem", "chunk", "split", "unbind", "select", "narrow", "view_as", "expand_as", "swapaxes", "movedim",
         "unflatten", "contiguous", "diagonal", "tensor_split"}  # fmt: skip
SHAPED = {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like", "new_zeros",
          "new_ones", "new_empty", "new_full", "new_tensor"}  # fmt: skip
"""Functions that take a tensor's shape and dtype alone: what they give is made from nothing, as in core."""
SILENT = {"requires_grad_", "size", "dim", "numel", "is_floating_point", "__bool__", "__len__", "__repr__",
          "__format__", "__hash__", "__contains__", "retain_grad", "register_hook", "is_complex", "stride",
          "storage_offset", "data_ptr", "zero_", "__get__", "__set__", "__delete__", "is_contiguous", "element_size",
          "nelement", "get_device", "untyped_storage", "share_memory_", "set_", "__deepcopy__", "__reduce_ex__",
          "is_same_size", "uniform_", "normal_", "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_",
          "xavier_normal_",
          "trunc_normal_", "ones_", "zeros_", "constant_", "fill_", "_is_view", "apply_", "map_",
          "register_post_accumulate_grad_hook", "manual_seed", "__iter__", "__dir__", "__setstate__"}  # fmt: skip
"""Questions, starts of values and bookkeeping: no ops of anybody's model."""
ASKING = {"__bool__": "bool", "__repr__": "print", "__format__": "print"}
"""Of these, the ones that need a tensor's values: Python waits for those of a GPU."""
_PROPERTIES = {"data": "data", "T": "t", "mT": "t", "H": "t", "real": "real", "imag": "imag"}


def label(function: Any) -> str:
    """Return what an op is called: "add" for ``Tensor.__add__``, the property's name for a property that is an op.

    >>> label(len)
    'len'
    """
    name = str(getattr(function, "__name__", "") or type(function).__name__)
    if name == "__get__":
        return _PROPERTIES.get(getattr(getattr(function, "__self__", None), "__name__", ""), "__get__")
    return OPERATORS.get(name, name)
