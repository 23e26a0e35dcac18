"""Modules for programs that were written for several devices, or long ago."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.device import device as Device
from ...base.source import warn
from .loss import NLLLoss
from .module import Module


class DataParallel(Module):
    """A module over several devices. There is one, so inputs are handed through; the keys begin with ``module.``.

    *Raises*: RuntimeError for several `device_ids`.

    >>> import core
    >>> list(core.nn.DataParallel(core.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
                 dim: int = 0) -> None:  # fmt: skip
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise RuntimeError(f"DataParallel hands a batch to one device, got device_ids={list(device_ids)}\n  "
                               "remedy: device_ids=None, or one of them")  # fmt: skip
        self.module, self.dim = module, dim
        self.device_ids = [Device("cuda", i).index if isinstance(i, int) else Device(i).index
                           for i in device_ids or ()]  # fmt: skip
        self.output_device = output_device if output_device is not None else next(iter(self.device_ids), None)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class Container(Module):
    """A module that is given its children by name; write a `Module` instead.

    >>> import core, warnings
    >>> warnings.simplefilter("ignore")
    >>> core.nn.Container(a=core.nn.ReLU())
    Container(
      (a): ReLU()
    )
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warn(
            "`torch.nn.Container` is deprecated. All of its functionality is now implemented in "
            "`torch.nn.Module`. Subclass that instead.",
            FutureWarning,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class NLLLoss2d(NLLLoss):
    """As `NLLLoss`, which is its newer name.

    >>> import core, warnings
    >>> warnings.simplefilter("ignore")
    >>> core.nn.NLLLoss2d()(core.zeros(1, 2, 1, 1), core.zeros(1, 1, 1, dtype=core.int64))
    tensor(-0.)
    """

    def __init__(self, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        warn("`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.", FutureWarning)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a module hands on to the functions that make its tensors: `device`, `dtype` and `memory_format`.

    *Raises*: TypeError for anything else, and for what stands both here and in ``kwargs["factory_kwargs"]``.

    >>> import core
    >>> core.nn.factory_kwargs({"device": "cpu"})
    {'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    known = ("device", "dtype", "memory_format")
    unexpected = set(kwargs) - {*known, "factory_kwargs"}
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in known:
        if name in kwargs:
            if name in found:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            found[name] = kwargs[name]
    return found
