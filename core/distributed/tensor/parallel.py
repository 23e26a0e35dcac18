"""Modules divided by a plan: `parallelize_module` and the styles that say how a layer, its inputs and outputs lie.

>>> import core
>>> from core.distributed.tensor import ColwiseParallel, RowwiseParallel, parallelize_module
>>> mesh = core.distributed.init_device_mesh("cpu", (1,))
>>> model = core.nn.Sequential(core.nn.Linear(2, 4), core.nn.ReLU(), core.nn.Linear(4, 2))
>>> parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}) is model
True
>>> core.distributed.destroy_process_group()
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ...base.errors import text
from ...nn.modules.linear import Linear
from ...nn.modules.module import Module
from ...nn.modules.sparse import Embedding
from ...tensors.tensor import Tensor
from .. import divided_layers
from ..device_mesh import DeviceMesh
from ..dtensor import DTensor, DTensorParameter, distribute_tensor, placed
from ..groups import get_world_size, is_initialized
from ..placements import Placement, Replicate, Shard

_ = divided_layers  # registers how layers are computed in parts
__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
           "RowwiseParallel", "SequenceParallel", "context_parallel", "implicit_replication", "local_map",
           "loss_parallel", "parallelize_module"]  # fmt: skip


def _many(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def _moved(values: Any, mesh: DeviceMesh, now: Any, then: Any, local: bool) -> Any:
    """Return tensors that lie as `now` says (None: leave them) as `then` says: `DTensor`s, or this process's parts."""

    def one(x: Any, now: Any, then: Any) -> Any:
        if now is None or not isinstance(x, Tensor):
            return x
        made = x if isinstance(x, DTensor) else placed(x, mesh, [now])
        made = made if then is None else made.redistribute(placements=[then])
        return made.to_local() if local else made

    many, now, then = _many(values), _many(now), _many(then)
    if len(now) == 1 and len(many) > 1:
        now, then = now + (None,) * (len(many) - 1), then + (None,) * (len(many) - 1)
    found = tuple(one(x, a, b) for x, a, b in zip(many, now, then or now, strict=True))
    return found if isinstance(values, tuple) else list(found) if isinstance(values, list) else found[0]


class ParallelStyle:
    """How a module is divided among processes."""

    src_data_rank: int | None = 0

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Divide the module over a mesh of one dimension; return it."""
        raise NotImplementedError


def _divide(module: Module, mesh: DeviceMesh, places: Callable[[str], Placement], source: int | None) -> None:
    for name, p in list(module._parameters.items()):
        if p is not None and not isinstance(p, DTensor):
            divided = distribute_tensor(p, mesh, [places(name)], src_data_rank=source)
            module._parameters[name] = DTensorParameter(divided, p.requires_grad)


class _LayerParallel(ParallelStyle):
    """A linear or embedding layer with divided weights."""

    _input: Placement | None = Replicate()
    _output: Placement = Shard(-1)

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True) -> None:
        self.input_layouts, self.output_layouts = input_layouts or self._input, output_layouts or self._output
        self.use_local_output = use_local_output

    def _places(self, module: Module, name: str) -> Placement:
        raise NotImplementedError

    def _wanted(self, module: Module) -> Placement:
        return Replicate()

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if not isinstance(module, Linear | Embedding):
            raise NotImplementedError(text(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!",
                                           op="parallelize_module", came=type(module).__name__))  # fmt: skip
        _divide(module, device_mesh, lambda name: self._places(module, name), self.src_data_rank)
        layout = Replicate() if isinstance(module, Embedding) and self.input_layouts is self._input else (
            self.input_layouts)  # fmt: skip
        wanted = self._wanted(module)

        def before(m: Module, inputs: tuple[Any, ...]) -> Any:
            return _moved(inputs, device_mesh, layout, wanted, False)

        def after(m: Module, inputs: Any, output: Any) -> Any:
            return _moved(output, device_mesh, Replicate(), self.output_layouts, self.use_local_output)

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


class ColwiseParallel(_LayerParallel):
    """A linear or embedding layer of which each process has some of the outputs.

    input_layouts : how the input lies, whole on each by default.
    output_layouts : how the output shall lie, divided along its last dimension by default.
    use_local_output : whether each process gets its part as a tensor, rather than a `DTensor`.
    """

    def _places(self, module: Module, name: str) -> Placement:
        return Shard(1 if isinstance(module, Embedding) else 0)


class RowwiseParallel(_LayerParallel):
    """A linear layer of which each process has some of the inputs, or an embedding of which it has some of the rows.

    input_layouts : how the input lies: of a linear layer divided along its last dimension by default.
    output_layouts : how the output shall lie, whole on each by default.
    use_local_output : whether each process gets a tensor, rather than a `DTensor`.
    """

    _input, _output = Shard(-1), Replicate()

    def _places(self, module: Module, name: str) -> Placement:
        return Shard(0) if isinstance(module, Embedding) else Replicate() if name == "bias" else Shard(1)

    def _wanted(self, module: Module) -> Placement:
        return Replicate() if isinstance(module, Embedding) else Shard(-1)


class SequenceParallel(ParallelStyle):
    """A norm or dropout of which each process computes a part of the sequence; the weights are whole on each.

    sequence_dim : the dimension that is divided.
    use_local_output : whether what comes out is this process's part as a tensor, rather than a `DTensor`.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim, self.use_local_output = sequence_dim, use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        _divide(module, device_mesh, lambda name: Replicate(), self.src_data_rank)
        place = Shard(self.sequence_dim)
        module.register_forward_pre_hook(lambda m, inputs: _moved(inputs, device_mesh, place, place, False))
        module.register_forward_hook(
            lambda m, inputs, out: _moved(out, device_mesh, place, place, self.use_local_output)
        )
        return module


class PrepareModuleInput(ParallelStyle):
    """A module whose inputs are moved: from `input_layouts` to `desired_input_layouts`, each one of the inputs or None.

    input_kwarg_layouts, desired_input_kwarg_layouts : the same of inputs by name.
    use_local_output : whether the module gets this process's parts as tensors, rather than `DTensor`s.
    """

    def __init__(self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: Any = None,
                 desired_input_kwarg_layouts: Any = None, use_local_output: bool = False) -> None:  # fmt: skip
        self.input_layouts, self.desired_input_layouts = input_layouts, desired_input_layouts
        self.named, self.desired_named = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def before(m: Module, inputs: Any, named: Any) -> Any:
            inputs = _moved(inputs, device_mesh, self.input_layouts, self.desired_input_layouts, self.use_local_output)
            moved = {k: _moved(x, device_mesh, self.named.get(k), self.desired_named.get(k), self.use_local_output)
                     for k, x in named.items()}  # fmt: skip
            return inputs, moved

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """A module whose outputs are moved: from `output_layouts` to `desired_output_layouts`."""

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self.output_layouts, self.desired_output_layouts = output_layouts, desired_output_layouts
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(lambda m, inputs, out: _moved(
            out, device_mesh, self.output_layouts, self.desired_output_layouts, self.use_local_output))  # fmt: skip
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """A module whose inputs and outputs are moved: see `PrepareModuleInput` and `PrepareModuleOutput`."""

    def __init__(self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: Any = None,
                 desired_input_kwarg_layouts: Any = None, use_local_input: bool = False, output_layouts: Any,
                 desired_output_layouts: Any, use_local_output: bool = True) -> None:  # fmt: skip
        self.before = PrepareModuleInput(input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
                                         input_kwarg_layouts=input_kwarg_layouts, use_local_output=use_local_input,
                                         desired_input_kwarg_layouts=desired_input_kwarg_layouts)  # fmt: skip
        self.after = PrepareModuleOutput(output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
                                         use_local_output=use_local_output)  # fmt: skip

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return self.after._apply(self.before._apply(module, device_mesh), device_mesh)


def parallelize_module(module: Module, device_mesh: DeviceMesh | None = None, parallelize_plan: Any = None, *,
                       src_data_rank: int | None = 0) -> Module:  # fmt: skip
    """Divide a module by a plan: a style, or styles by the names of its parts, in which ``*`` stands for any.

    device_mesh : processes in one dimension; all of them without it.
    src_data_rank : whose values the parameters get; None where they are equal already.

    *Raises*: ValueError for a mesh of several dimensions.
    """
    mesh = device_mesh or _all_processes()
    if mesh.ndim != 1:
        raise ValueError(text(f"Cannot parallelize a module over a mesh of {mesh.ndim} dimensions",
                              op="parallelize_module", remedy="mesh['model'], one of its dimensions"))  # fmt: skip
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    for pattern, style in (parallelize_plan or {}).items():
        for name, part in [*module.named_modules()]:
            if name.count(".") == pattern.count(".") and fnmatchcase(name, pattern):
                style.src_data_rank = src_data_rank
                style._apply(part, mesh)
    return module


def _all_processes() -> DeviceMesh:
    return DeviceMesh("cpu", list(range(get_world_size() if is_initialized() else 1)))


# -- blocks and functions ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which the loss of divided logits may be computed in parts: here it is computed of the whole."""
    yield


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which tensors stand for ones that each process holds: they always do."""
    yield


@contextlib.contextmanager
def context_parallel(mesh: DeviceMesh, *, buffers: Any = None, buffer_seq_dims: Any = None,
                     no_restore_buffers: Any = None) -> Iterator[None]:  # fmt: skip
    """A block in which sequences are divided among processes. *Raises*: NotImplementedError for more than one."""
    if mesh.size() > 1:
        raise NotImplementedError(text("attention over divided sequences is not here", op="context_parallel",
                                       came=f"{mesh}", remedy="RowwiseParallel and ColwiseParallel"))  # fmt: skip
    yield


def local_map(func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: Any = None,
              in_grad_placements: Any = None, device_mesh: DeviceMesh | None = None, *,
              redistribute_inputs: bool = False, track_variable_placements: Any = None) -> Any:  # fmt: skip
    """Return a function of divided tensors that calls `func` with what this process holds of each."""
    if func is None:
        return lambda f: local_map(f, out_placements, in_placements, in_grad_placements, device_mesh,
                                   redistribute_inputs=redistribute_inputs)  # fmt: skip

    def mapped(*args: Any, **kwargs: Any) -> Any:
        mesh = device_mesh or next((a.device_mesh for a in args if isinstance(a, DTensor)), None)
        places = in_placements or (None,) * len(args)
        args = tuple(a.redistribute(placements=p) if redistribute_inputs and p is not None and isinstance(a, DTensor)
                     else a for a, p in zip(args, places, strict=True))  # fmt: skip
        found = func(*[a.to_local() if isinstance(a, DTensor) else a for a in args], **kwargs)
        if mesh is None:
            return found
        if not isinstance(found, tuple | list):
            return placed(found, mesh, _one(out_placements)) if isinstance(found, Tensor) else found
        each = out_placements if out_placements and isinstance(out_placements[0], tuple | list | None) else None
        return tuple(placed(f, mesh, each[k] if each else out_placements) if isinstance(f, Tensor) else f
                     for k, f in enumerate(found))  # fmt: skip

    return mapped


def _one(placements: Sequence[Any] | None) -> Any:
    return placements[0] if placements and isinstance(placements[0], tuple | list) else placements
