"""`DistributedDataParallel` for several processes, and `DataParallel` and its parts, for one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import text
from ..modules.module import Module
from ..modules.older import DataParallel
from .distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate",
           "scatter", "scatter_kwargs"]  # fmt: skip


def data_parallel(module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None,
                  dim: int = 0, module_kwargs: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Call a module as `DataParallel` does, without making one.

    >>> import core
    >>> core.nn.parallel.data_parallel(core.nn.ReLU(), core.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    many = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*many, **(module_kwargs or {}))


def _one(devices: Any, op: str) -> None:
    if isinstance(devices, list | tuple) and len(devices) > 1:
        raise RuntimeError(text("a batch is handed to one device", op=f"nn.parallel.{op}", came=f"{list(devices)}"))


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Return inputs as those of one device, in a list. *Raises*: RuntimeError for several devices."""
    _one(target_gpus, "scatter")
    return [inputs]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Sequence[Any], dim: int = 0) -> tuple[Any, Any]:
    """Return inputs and keywords as those of one device, each in a tuple."""
    _one(target_gpus, "scatter_kwargs")
    return (tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,),), (kwargs or {},)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Return the results of one device. *Raises*: RuntimeError for those of several."""
    _one(outputs, "gather")
    return outputs[0]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Return a module for one device, in a list. *Raises*: RuntimeError for several devices."""
    _one(devices, "replicate")
    return [network]


def parallel_apply(modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[Any] | None = None,
                   devices: Any = None) -> list[Any]:  # fmt: skip
    """Call each module with its inputs, one after the other."""
    many = kwargs_tup or [{}] * len(modules)
    return [m(*(x if isinstance(x, tuple | list) else (x,)), **(k or {}))
            for m, x, k in zip(modules, inputs, many, strict=True)]  # fmt: skip
