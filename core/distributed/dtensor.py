"""`DTensor` for one process: a tensor with a mesh and placements, all of which this process holds.

>>> import core
>>> from core.distributed.tensor import DTensor, Shard, distribute_tensor
>>> mesh = core.distributed.init_device_mesh("cpu", (1,))
>>> x = distribute_tensor(core.ones(2, 2), mesh, [Shard(0)])
>>> (x + 1).full_tensor(), x.placements, x.to_local().shape
(tensor([[2., 2.],
        [2., 2.]]), (Shard(dim=0),), core.Size([2, 2]))
>>> core.distributed.destroy_process_group()
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..base.errors import text
from ..nn.modules.module import Module
from ..ops import creation
from ..random import rand as _rand
from ..random import randn as _randn
from ..tensors import overriding
from ..tensors.tensor import Tensor
from .device_mesh import DeviceMesh

__all__ = ["ColwiseParallel", "DTensor", "ParallelStyle", "Partial", "Placement", "PrepareModuleInput",
           "PrepareModuleInputOutput", "PrepareModuleOutput", "Replicate", "RowwiseParallel", "SequenceParallel",
           "Shard", "context_parallel", "distribute_module", "distribute_tensor", "empty", "full",
           "implicit_replication", "local_map", "loss_parallel", "ones", "parallelize_module", "rand", "randn",
           "zeros"]  # fmt: skip


class Placement:
    """How a tensor would lie on the processes of a dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it would be divided (along `dim`)."""
        return False

    def is_replicate(self) -> bool:
        """Return whether each would hold all of it."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each would hold a summand."""
        return False


@dataclass(frozen=True)
class Shard(Placement):
    """Divided along a dimension."""

    dim: int = 0

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it would be divided (along `dim`)."""
        return dim in (None, self.dim)

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return how long part `rank` of `num_chunks` is, and where it begins: each but the last is as long.

        >>> from core.distributed.tensor import Shard
        >>> Shard.local_shard_size_and_offset(10, 4, 3)
        (1, 9)
        """
        part = -(-curr_local_size // num_chunks)
        begin = min(rank * part, curr_local_size)
        return min(part, curr_local_size - begin), begin


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole on each."""

    def is_replicate(self) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class Partial(Placement):
    """A summand on each."""

    reduce_op: str = "sum"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each would hold a summand (of that kind)."""
        return reduce_op in (None, self.reduce_op)


class DTensor(Tensor):
    """A tensor that is divided among processes: one holds all of it.

    What is computed of one is one, whole on each process of its mesh. Made by `from_local` and `distribute_tensor`.
    """

    _mesh: DeviceMesh
    _places: tuple[Placement, ...]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]
        mesh = next((a._mesh for a in args if isinstance(a, DTensor) and hasattr(a, "_mesh")), None)
        for one in found if isinstance(found, list | tuple) else (found,):
            if isinstance(one, DTensor) and not hasattr(one, "_mesh") and mesh is not None:
                one._mesh, one._places = mesh, (Replicate(),) * mesh.ndim
        return found

    @staticmethod
    def from_local(local_tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Any = None, *,
                   run_check: bool = False, shape: Any = None, stride: Any = None,
                   grad_placements: Any = None) -> DTensor:  # fmt: skip
        """Return what this process holds as the divided tensor: it is all of it."""
        return _placed(local_tensor, device_mesh, placements)

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """Return what this process holds: all of it, on the graph."""
        with overriding.no_class_asked():
            return self.as_subclass(Tensor)  # type: ignore[no-any-return, attr-defined]

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """Return all of it, on the graph."""
        return self.to_local()

    def redistribute(self, device_mesh: DeviceMesh | None = None, placements: Any = None, *, async_op: bool = False,
                     **ignored: Any) -> DTensor:  # fmt: skip
        """Return it with other placements."""
        return _placed(self.to_local(), device_mesh or self._mesh, placements)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The grid of processes: one."""
        return self._mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it would lie in each dimension of the mesh."""
        return self._places

    @property
    def _local_tensor(self) -> Tensor:
        return self.to_local()


def _placed(local: Any, mesh: DeviceMesh | None, placements: Any) -> DTensor:
    mesh = mesh or DeviceMesh(local.device.type, [0])
    found: DTensor = local.as_subclass(DTensor)
    places = tuple(placements) if placements is not None else (Replicate(),) * mesh.ndim
    if len(places) != mesh.ndim:
        raise ValueError(text("`placements` must have the same length as `device_mesh.ndim`!", op="DTensor",
                              came=f"{len(places)} placements", needed=f"{mesh.ndim}"))  # fmt: skip
    for p in places:
        if isinstance(p, Shard) and not -local.ndim <= p.dim < max(local.ndim, 1):
            raise ValueError(text("a placement divides along a dimension that is not there", op="DTensor",
                                  came=f"{p} of {tuple(local.shape)}"))  # fmt: skip
    found._mesh, found._places = (
        mesh,
        tuple(Shard(p.dim % max(local.ndim, 1)) if isinstance(p, Shard) else p for p in places),
    )
    return found


def distribute_tensor(tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Any = None, *,
                      src_data_rank: int | None = 0) -> DTensor:  # fmt: skip
    """Return a leaf with the values of `tensor`, divided over a mesh: this process holds all of it."""
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    found = _placed(tensor.detach(), device_mesh, placements)
    found.requires_grad_(tensor.requires_grad)
    return found


def distribute_module(module: Module, device_mesh: DeviceMesh | None = None, partition_fn: Any = None,
                      input_fn: Any = None, output_fn: Any = None) -> Module:  # fmt: skip
    """Let `partition_fn` divide each module, and `input_fn`, `output_fn` change what goes in and comes out.

    Parameters that `partition_fn` leaves as they are stay tensors.
    """
    mesh = device_mesh or DeviceMesh("cpu", [0])
    for name, part in module.named_modules() if partition_fn is not None else ():
        partition_fn(name, part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, inputs, outputs, mesh))
    return module


def _maker(name: str, make: Callable[..., Any]) -> Callable[..., DTensor]:
    def made(*size: Any, device_mesh: DeviceMesh | None = None, placements: Any = None, **kwargs: Any) -> DTensor:
        return _placed(make(*size, **kwargs), device_mesh, placements)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"Return the tensor that `core.{name}` gives, divided over a mesh."
    return made


zeros, ones, empty, full = (_maker(n, getattr(creation, n)) for n in ("zeros", "ones", "empty", "full"))
rand, randn = _maker("rand", _rand), _maker("randn", _randn)

# -- modules -----------------------------------------------------------------------------------------------------------


class ParallelStyle:
    """How a module is divided among processes: over one it stays as it is."""

    src_data_rank: int | None = 0

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True,
                 **settings: Any) -> None:  # fmt: skip
        self.input_layouts, self.output_layouts = input_layouts, output_layouts
        self.use_local_output, self.settings = use_local_output, settings

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Return the module; what comes out of it is a `DTensor` where the style was told not to give local tensors."""
        if not self.use_local_output:
            places = self.output_layouts if isinstance(self.output_layouts, Placement) else Replicate()
            module.register_forward_hook(lambda m, inputs, output: _placed(output, device_mesh, [places]))
        return module


class ColwiseParallel(ParallelStyle):
    """A linear or embedding layer divided by its outputs: over one process it stays as it is."""


class RowwiseParallel(ParallelStyle):
    """A linear or embedding layer divided by its inputs: over one process it stays as it is."""


class SequenceParallel(ParallelStyle):
    """A norm or dropout on a part of the sequence: over one process on all of it."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__(use_local_output=True, sequence_dim=sequence_dim)


class PrepareModuleInput(ParallelStyle):
    """A module whose inputs are divided: over one process they stay as they are."""


class PrepareModuleOutput(ParallelStyle):
    """A module whose outputs are divided: over one process they stay as they are."""


class PrepareModuleInputOutput(ParallelStyle):
    """A module whose inputs and outputs are divided: over one process they stay as they are."""


def parallelize_module(module: Module, device_mesh: DeviceMesh | None = None, parallelize_plan: Any = None, *,
                       src_data_rank: int | None = 0) -> Module:  # fmt: skip
    """Divide a module by a plan: a style, or styles by the names of its parts, in which ``*`` stands for any.

    >>> import core
    >>> from core.distributed.tensor import ColwiseParallel, parallelize_module
    >>> model = core.nn.Sequential(core.nn.Linear(2, 2))
    >>> parallelize_module(model, core.distributed.init_device_mesh("cpu", (1,)), {"0": ColwiseParallel()}) is model
    True
    >>> core.distributed.destroy_process_group()
    """
    mesh = device_mesh or DeviceMesh("cpu", [0])
    if isinstance(parallelize_plan, ParallelStyle):
        return parallelize_plan._apply(module, mesh)
    for pattern, style in (parallelize_plan or {}).items():
        for name, part in [*module.named_modules()]:
            if name.count(".") == pattern.count(".") and fnmatchcase(name, pattern):
                style._apply(part, mesh)
    return module


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which the loss of divided logits is computed in parts: they are whole."""
    yield


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which tensors stand for ones that each process holds: they always do."""
    yield


@contextlib.contextmanager
def context_parallel(mesh: DeviceMesh, *, buffers: Any = None, buffer_seq_dims: Any = None,
                     no_restore_buffers: Any = None) -> Iterator[None]:  # fmt: skip
    """A block in which sequences are divided among processes: one holds them whole."""
    yield


def local_map(func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: Any = None,
              in_grad_placements: Any = None, device_mesh: DeviceMesh | None = None, *,
              redistribute_inputs: bool = False, track_variable_placements: Any = None) -> Any:  # fmt: skip
    """Return a function of divided tensors that calls `func` with what this process holds of each."""
    if func is None:
        return lambda f: local_map(f, out_placements, in_placements, in_grad_placements, device_mesh)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        mesh = device_mesh or next((a.device_mesh for a in args if isinstance(a, DTensor)), None)
        found = func(*[a.to_local() if isinstance(a, DTensor) else a for a in args], **kwargs)
        if mesh is None:
            return found
        if not isinstance(found, tuple | list):
            return _placed(found, mesh, _one(out_placements)) if isinstance(found, Tensor) else found
        each = out_placements if out_placements and isinstance(out_placements[0], tuple | list | None) else None
        return tuple(_placed(f, mesh, each[k] if each else out_placements) if isinstance(f, Tensor) else f
                     for k, f in enumerate(found))  # fmt: skip

    return mapped


def _one(placements: Sequence[Any] | None) -> Any:
    return placements[0] if placements and isinstance(placements[0], tuple | list) else placements
