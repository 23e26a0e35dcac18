"""`DataParallel` under PyTorch's path ``nn.parallel``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .modules.module import Module
from .modules.older import DataParallel


def data_parallel(module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None,
                  dim: int = 0, module_kwargs: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Call a module as `DataParallel` does, without making one.

    >>> import core
    >>> core.nn.parallel.data_parallel(core.nn.ReLU(), core.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    many = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*many, **(module_kwargs or {}))


__all__ = ["DataParallel", "data_parallel"]
