"""`DataParallel` and `DistributedDataParallel` under PyTorch's path ``nn.parallel``: for one device, one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..base.errors import text
from ..distributed.groups import member
from .modules.module import Module
from .modules.older import DataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate",
           "scatter", "scatter_kwargs"]  # fmt: skip


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over all processes: over one, they are what they are.

    Its keys begin with ``module.``, as PyTorch's do. Settings of how gradients are sent are kept and have no effect.

    Raises
    ------
    ValueError
        Before `core.distributed.init_process_group`.
    RuntimeError
        For a module without a parameter that needs a gradient.

    >>> import core
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> model = core.nn.parallel.DistributedDataParallel(core.nn.Linear(2, 1))
    >>> model(core.ones(3, 2)).shape, list(model.state_dict())
    (core.Size([3, 1]), ['module.weight', 'module.bias'])
    >>> core.distributed.destroy_process_group()
    """

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
                 broadcast_buffers: bool = True, process_group: Any = None, bucket_cap_mb: float | None = None,
                 find_unused_parameters: bool = False, check_reduction: bool = False,
                 gradient_as_bucket_view: bool = False, static_graph: bool = False,
                 **ignored: Any) -> None:  # fmt: skip
        super().__init__()
        member(process_group)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(text("DistributedDataParallel is not needed when a module doesn't have any parameter "
                                    "that requires a gradient.", op="DistributedDataParallel",
                                    remedy="use the module as it is"))  # fmt: skip
        self.module = module
        self.device = next(module.parameters()).device
        self.device_ids, self.output_device, self.dim, self.process_group = (
            device_ids,
            output_device,
            dim,
            process_group,
        )
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose gradients are not averaged: they never are."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(self, *ignored: Any, **more: Any) -> Iterator[None]:
        """A block in which processes wait for those that have more inputs: there is one."""
        yield

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Take a function that would send gradients: nothing is sent, so it is not called."""

    def _set_static_graph(self) -> None:
        self.static_graph = True


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
