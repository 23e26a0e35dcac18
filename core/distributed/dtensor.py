"""`DTensor`: a tensor that is divided among the processes of a mesh.

Each process holds its part. Elementwise ops of tensors that are divided alike, and the layers of
`core.distributed.divided_layers`, are computed in parts; for any other op each process gathers the whole and computes
all of it.

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

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import text
from ..base.modes import no_grad
from ..base.shape import Size
from ..declare.op import Elementwise, table
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..ops import creation
from ..ops.view_ops import _view
from ..random import rand as _rand
from ..random import randn as _randn
from ..tensors import overriding
from ..tensors.tensor import Tensor
from .collectives import broadcast
from .device_mesh import DeviceMesh
from .placements import Partial, Placement, Replicate, Shard
from .redistributing import moved, spread

__all__ = ["DTensor", "DTensorParameter", "distribute_module", "distribute_tensor", "empty", "full", "local_of",
           "mapped", "ones", "placed", "rand", "randn", "zeros"]  # fmt: skip

# what is computed of each part alone, beside the elementwise ops: how a tensor is held, and Python's names of these ops
_ALIKE = {"detach", "clone", "contiguous", "float", "double", "half", "bfloat16", "cpu", "cuda", "to", "type",
          "zero_", "fill_", "zeros_like", "ones_like", "empty_like", "full_like", "multiply", "subtract", "div",
          "divide", "truediv", "pow", "clamp", "gelu", "dropout", "abs", "neg", "copy_"}  # fmt: skip
_ASKED = {"backward", "requires_grad_", "detach_", "register_hook", "register_post_accumulate_grad_hook",
          "retain_grad", "is_floating_point", "is_complex", "element_size", "dim", "data_ptr", "_version", "__hash__",
          "__deepcopy__"}  # fmt: skip
_TURNED = {id(c.__dict__[n]) for n in ("T", "mT", "H", "mH") for c in Tensor.__mro__ if n in c.__dict__}  # properties
layers: dict[str, Callable[..., Any]] = {}  # layers that are computed in parts, by name: see divided_layers


class DTensor(Tensor):
    """A tensor that is divided among processes, each of which holds its part.

    What is computed of one is one. Made by `from_local` and `distribute_tensor`; its shape is that of the whole.
    """

    _mesh: DeviceMesh
    _places: tuple[Placement, ...]
    _whole: tuple[int, ...]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [a for a in _flat((args, kwargs)) if isinstance(a, DTensor) and hasattr(a, "_mesh")]
        name = _name(func)
        if not given:
            return overriding.torch_function(DTensor, func, (), args, kwargs)
        first = given[0]
        if name in _ASKED:
            return _as_before(func, args, kwargs, first)
        if name in layers:
            found = layers[name](func, *args, **kwargs)
            if found is not NotImplemented:
                return found
        if name == "copy_" and isinstance(args[0], DTensor) and not isinstance(args[1], DTensor):
            whole = (Replicate(),) * first._mesh.ndim
            with no_grad(), overriding.no_class_asked():
                local_of(first).copy_(moved(args[1].detach(), first._mesh, whole, first._places, first._whole))
            return first
        if name in _ALIKE and _alike(given, args):
            with overriding.no_class_asked():
                found = func(*_localized(args), **_localized(kwargs))
            if name.endswith("_") or name == "__set__":
                return first if isinstance(found, Tensor) else found
            return placed(found, first._mesh, first._places, first._whole) if isinstance(found, Tensor) else found
        if name in ("__get__", "__set__") or first._mesh.size() == 1:
            return _as_before(func, args, kwargs, first)
        return _whole_op(func, name, args, kwargs, first)

    @staticmethod
    def from_local(local_tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Any = None, *,
                   run_check: bool = False, shape: Any = None, stride: Any = None,
                   grad_placements: Any = None) -> DTensor:  # fmt: skip
        """Return what each process holds as the divided tensor, on the graph.

        shape : that of the whole, where its parts are not equal.
        """
        return placed(local_tensor.view_as(local_tensor), device_mesh, placements, shape)  # type: ignore[attr-defined]

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """Return what this process holds, on the graph. With `grad_placements` of `Partial` the gradients of the
        processes are summed up: each computes something else with it."""
        local = local_of(self)
        for k, p in enumerate(grad_placements or ()):
            if isinstance(p, Partial) and isinstance(self._places[k], Replicate):
                local = spread(local, self._mesh.get_group(k))
        return local  # type: ignore[no-any-return]

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """Return all of it, on the graph. All processes of the mesh call this."""
        whole = (Replicate(),) * self._mesh.ndim
        return moved(local_of(self), self._mesh, self._places, whole, self._whole)  # type: ignore[no-any-return]

    def redistribute(self, device_mesh: DeviceMesh | None = None, placements: Any = None, *, async_op: bool = False,
                     **ignored: Any) -> DTensor:  # fmt: skip
        """Return it with other placements. All processes of the mesh call this."""
        mesh = device_mesh or self._mesh
        if mesh != self._mesh:
            raise NotImplementedError(text("redistribution to another mesh", op="DTensor.redistribute",
                                           came=f"{mesh}", needed=f"{self._mesh}",
                                           remedy="distribute_tensor(x.full_tensor(), mesh, placements)"))  # fmt: skip
        then = _checked(placements, mesh, self._whole)
        return placed(moved(local_of(self), mesh, self._places, then, self._whole), mesh, then, self._whole)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The grid of processes."""
        return self._mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies in each dimension of the mesh."""
        return self._places

    @property
    def _local_tensor(self) -> Tensor:
        return local_of(self)

    def as_parameter(self, requires_grad: bool = True) -> DTensorParameter:
        """Return it as a parameter: what `nn.Parameter` gives for it."""
        return DTensorParameter(self, requires_grad)

    # -- the whole's shape ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """The shape of the whole."""
        return Size(self.__dict__.get("_whole", self._a.shape))

    def size(self, dim: int | None = None) -> Any:  # type: ignore[override]
        """Return the shape of the whole, or the size of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """Return how many elements the whole has."""
        return math.prod(self.shape)

    nelement = numel

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def grad(self) -> Any:  # type: ignore[override]
        """The gradient, which is divided as the tensor is."""
        g = self._grad
        if g is not None and not isinstance(g, DTensor):
            g = self._grad = placed(g, self._mesh, self._places, self._whole)
        return g

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and tuple(value._a.shape) != tuple(self._a.shape):
            raise RuntimeError(text("assigned grad is of another size than this process's part", op="DTensor.grad",
                                    came=f"{tuple(value._a.shape)}", needed=f"{tuple(self._a.shape)}"))  # fmt: skip
        self._grad = value

    def __repr__(self) -> str:  # type: ignore[override]
        if not hasattr(self, "_mesh") or self._mesh.size() == 1:
            return super().__repr__()
        return f"DTensor(local_tensor={local_of(self)!r}, device_mesh={self._mesh}, placements={self._places})"


class DTensorParameter(DTensor, Parameter):  # type: ignore[misc]
    """A parameter that is divided among processes."""

    def __new__(cls, data: DTensor, requires_grad: bool = True) -> DTensorParameter:
        made = Tensor.__new__(cls)
        made._a, made._kind, made._storage = data._a, data._kind, data._storage
        made._mesh, made._places, made._whole = data._mesh, data._places, data._whole
        with overriding.no_class_asked():
            made.requires_grad_(requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        with no_grad(), overriding.no_class_asked():
            copied = placed(local_of(self).detach().clone(), self._mesh, self._places, self._whole)  # type: ignore[attr-defined]
        memo[id(self)] = made = DTensorParameter(copied, self._requires_grad)
        return made


# -- how an op is computed ---------------------------------------------------------------------------------------------


def local_of(x: Any) -> Any:
    """Return what this process holds of a tensor, on the graph; other values as they are."""
    if not isinstance(x, DTensor):
        return x
    with overriding.no_class_asked():
        return _view(x, shape=x._a.shape)


def _flat(values: Any) -> list[Any]:
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [x for v in values for x in _flat(v)]
    return [values]


def mapped(values: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested dicts, lists and tuples with each value in them changed by a function."""
    if isinstance(values, dict):
        return {k: mapped(v, change) for k, v in values.items()}
    if type(values) in (list, tuple):
        return type(values)(mapped(v, change) for v in values)
    return change(values)


def _localized(values: Any) -> Any:
    return mapped(values, local_of)


def _name(func: Any) -> str:
    """Return a function's name without Python's underscores: ``__radd__`` is "add"; a property's is "__get__"."""
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__"):
        return "transposed" if id(func.__self__) in _TURNED else name
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
        short = name[1:] if name[:1] in "ri" and name[1:] in _OPERATORS else name
        return short + "_" * (name[:1] == "i" and short != name)
    return str(name)


_OPERATORS = {"add", "sub", "mul", "truediv", "pow", "floordiv", "mod"}
_ALIKE |= {n for n, op in table.items() if isinstance(op, Elementwise)}
_ALIKE |= {f"{n}_" for n in [*_ALIKE] if not n.endswith("_")}


def _alike(given: Sequence[DTensor], args: Any) -> bool:
    """Return whether all tensors are divided alike, so that an op of their elements is one of their parts."""
    first = given[0]
    if any(isinstance(p, Partial) for p in first._places):
        return False
    if any((x._mesh, x._places, x._whole) != (first._mesh, first._places, first._whole) for x in given):
        return False
    return not any(isinstance(x, Tensor) and not isinstance(x, DTensor) and x.ndim for x in _flat(args))


def _as_before(func: Any, args: Any, kwargs: Any, first: DTensor) -> Any:
    """Compute of this process's part; new tensors are divided as the first one is, in a mesh of one whole."""
    found = overriding.torch_function(DTensor, func, (), args, kwargs)
    for x in found if isinstance(found, list | tuple) else (found,):
        if isinstance(x, DTensor) and "_mesh" not in x.__dict__:
            same = x._a.shape == first._a.shape and first._mesh.size() > 1
            x._mesh, x._whole = first._mesh, first._whole if same else tuple(x._a.shape)
            x._places = first._places if same else (Replicate(),) * first._mesh.ndim
    return found


def _whole_op(func: Any, name: str, args: Any, kwargs: Any, first: DTensor) -> Any:
    """Compute of the whole tensors; what is changed in place is written into the parts."""
    full: dict[int, Any] = {id(x): x.full_tensor() for x in _flat((args, kwargs)) if isinstance(x, DTensor)}
    args_, kwargs_ = (mapped(v, lambda x: full.get(id(x), x)) for v in (args, kwargs))
    with overriding.no_class_asked():
        found = func(*args_, **kwargs_)
    whole = (Replicate(),) * first._mesh.ndim
    if (name.endswith("_") or name in ("setitem", "setitem_")) and isinstance(args[0], DTensor):
        target = args[0]
        with no_grad(), overriding.no_class_asked():
            local_of(target).copy_(moved(full[id(target)].detach(), first._mesh, whole, target._places, target._whole))
        return target if isinstance(found, Tensor) else found
    return mapped(found, lambda x: placed(x, first._mesh, whole) if isinstance(x, Tensor) else x)


# -- making them -------------------------------------------------------------------------------------------------------


def _checked(placements: Any, mesh: DeviceMesh, shape: Sequence[int]) -> tuple[Placement, ...]:
    ndim = len(shape)
    places = tuple(placements) if placements is not None else (Replicate(),) * mesh.ndim
    if len(places) != mesh.ndim:
        raise ValueError(text("`placements` must have the same length as `device_mesh.ndim`!", op="DTensor",
                              came=f"{len(places)} placements", needed=f"{mesh.ndim}"))  # fmt: skip
    for p in places:
        if isinstance(p, Shard) and not -ndim <= p.dim < max(ndim, 1):
            raise ValueError(text("a placement divides along a dimension that is not there", op="DTensor",
                                  came=f"{p} of {tuple(shape)}"))  # fmt: skip
    return tuple(Shard(p.dim % max(ndim, 1)) if isinstance(p, Shard) else p for p in places)


def placed(local: Any, mesh: DeviceMesh | None, placements: Any, whole: Sequence[int] | None = None) -> DTensor:
    """Return a tensor's memory, on its graph, as this process's part of a divided one of shape `whole`."""
    mesh = mesh or DeviceMesh(local.device.type, [0])
    places = _checked(placements, mesh, local._a.shape)
    with overriding.no_class_asked():
        found: DTensor = local.as_subclass(DTensor)
    if whole is None:
        shape = list(local._a.shape)
        for k, p in enumerate(places):
            if isinstance(p, Shard):
                shape[p.dim] *= mesh.size(k)
        whole = shape
    found._mesh, found._places, found._whole = mesh, places, tuple(whole)
    return found


def distribute_tensor(tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Any = None, *,
                      src_data_rank: int | None = 0) -> DTensor:  # fmt: skip
    """Return a leaf with the values that `tensor` has on the first process of the mesh, divided over it.

    src_data_rank : None where all processes have the same values already: nothing is sent then.
    """
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    mesh = device_mesh or DeviceMesh(tensor.device.type, [0])
    values: Any = tensor.detach()
    if src_data_rank is not None and mesh.size() > 1:
        values = values.clone()
        for group in mesh.get_all_groups():
            broadcast(values, group=group, group_src=src_data_rank)
    whole, then = (Replicate(),) * mesh.ndim, _checked(placements, mesh, tensor.shape)
    with no_grad():
        found = placed(moved(values, mesh, whole, then, tuple(tensor.shape)), mesh, then, tensor.shape)
    with overriding.no_class_asked():
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
        return distribute_tensor(make(*size, **kwargs), device_mesh, placements)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"Return the tensor that `core.{name}` gives, divided over a mesh."
    return made


zeros, ones, empty, full = (_maker(n, getattr(creation, n)) for n in ("zeros", "ones", "empty", "full"))
rand, randn = _maker("rand", _rand), _maker("randn", _randn)
