"""``Tensor(...)``, PyTorch's older way to make a tensor: of numbers in the default dtype, or of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import creation, dtypes
from .errors import text
from .shape import Size
from .tensor import Tensor


def filled(target: Tensor, *given: Any) -> None:
    """Make `target`, which holds nothing yet, what ``Tensor(*given)`` is.

    >>> import core
    >>> core.Tensor([1, 2]), core.Tensor(2, 3).shape
    (tensor([1., 2.]), core.Size([2, 3]))
    """
    dtype = dtypes.get_default_dtype()
    if len(given) == 1 and isinstance(given[0], Tensor):
        if given[0].dtype != dtype:
            raise TypeError(text(f"expected {dtype} (got {given[0].dtype})", op="Tensor", came=f"a tensor of "
                                 f"{given[0].dtype}", remedy="x.float(), or core.tensor"))  # fmt: skip
        made = given[0].detach()
    elif len(given) == 1 and isinstance(given[0], list | tuple | np.ndarray) and not isinstance(given[0], Size):
        made = creation.tensor(given[0], dtype=dtype)
    else:
        sizes = given[0] if len(given) == 1 and isinstance(given[0], Size) else given
        if not all(isinstance(n, int) for n in sizes):
            raise TypeError(text("Tensor() takes a list of numbers, an array, or sizes", op="Tensor",
                                 came=", ".join(type(g).__name__ for g in given),
                                 remedy="core.tensor(data), which keeps the dtype of any data"))  # fmt: skip
        made = creation.empty(*(sizes or (0,)), dtype=dtype)
    target._a, target._kind = made._a, made._kind
