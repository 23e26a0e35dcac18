"""States of modules and optimizers, by names and in the form asked for: `get_model_state_dict` and its kin.

`save` and `load` write and read a folder, to which each process gives its part; see `checkpoint_folder`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..base.absent import absent_names
from ..nn.modules.module import Module
from ..nn.parallel.distributed import DistributedDataParallel
from ..tensors.tensor import Tensor
from .algorithms.checkpoint_wrapper import WRAPPED
from .checkpoint_folder import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
    async_save,
    dcp_to_torch_save,
    load,
    load_sharded_optimizer_state_dict,
    load_state_dict,
    save,
    save_state_dict,
    torch_save_to_dcp,
)
from .checkpoint_parts import Metadata, Stateful, TensorStorageMetadata
from .divided_states import begun, divided_alike, own_state, own_state_dict
from .dtensor import DTensor, distribute_tensor
from .groups import get_rank, get_world_size, is_initialized
from .objects import all_gather_object, broadcast_object_list
from .zero import ZeroRedundancyOptimizer

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "Metadata",
           "StateDictOptions", "Stateful", "TensorStorageMetadata", "async_save", "dcp_to_torch_save",
           "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "load",
           "load_sharded_optimizer_state_dict", "load_state_dict", "save", "save_state_dict", "set_model_state_dict",
           "set_optimizer_state_dict", "set_state_dict", "torch_save_to_dcp"]  # fmt: skip

_here = sys.modules[__name__]  # PyTorch's files, whose names stand here
state_dict = filesystem = default_planner = optimizer = format_utils = state_dict_loader = state_dict_saver = _here
metadata = planner = stateful = _here
_FILE = "core.save(state, 'checkpoint.pt') and core.load"


@dataclass
class StateDictOptions:
    """How a state is gathered from processes: whole with `full_state_dict`, on rank 0 alone with `cpu_offload`, too.

    `broadcast_from_rank0` says that only rank 0 has a whole state to load; `strict` is that of `load_state_dict`.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def get_model_state_dict(model: Module, *, submodules: Any = None,
                         options: StateDictOptions | None = None) -> dict[str, Any]:  # fmt: skip
    """Return a module's state dict; without parameters that need no gradient where the options say so.

    >>> import core
    >>> list(core.distributed.checkpoint.get_model_state_dict(core.nn.Linear(1, 1)))
    ['weight', 'bias']
    """
    options, prefix = options or StateDictOptions(), _prefix(model)
    frozen = (
        {name for name, p in model.named_parameters() if not p.requires_grad} if options.ignore_frozen_params else ()
    )
    found = {name.removeprefix(prefix): x for name, x in model.state_dict().items() if name not in frozen}
    return _gathered(found, options)


def _prefix(model: Module) -> str:
    return "module." if isinstance(model, DistributedDataParallel) else ""


def _gathered(found: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """Return entries as the options say: whole tensors of divided ones, on rank 0 alone, on the CPU."""

    def one(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: one(v) for k, v in x.items()}
        x = x.full_tensor() if options.full_state_dict and isinstance(x, DTensor) else x
        return x.cpu() if options.cpu_offload and isinstance(x, Tensor) else x

    found = {name: one(x) for name, x in found.items()}
    alone = options.full_state_dict and options.cpu_offload and is_initialized() and get_rank()
    return {} if alone else found


def set_model_state_dict(model: Module, model_state_dict: dict[str, Any], *,
                         options: StateDictOptions | None = None) -> Any:  # fmt: skip
    """Load a state dict into a module; return the keys that were missing and unexpected.

    Whole tensors are divided as the module's parameters are. A module on the device "meta" gets its memory.
    """
    options, prefix = options or StateDictOptions(), _prefix(model)
    given = {prefix + name: x for name, x in _sent(model_state_dict, options).items()}
    bare = any(p.device.type == "meta" for p in model.parameters())
    if bare:
        own = model.state_dict()
        given = {name: _divided_as(own.get(name), x) for name, x in given.items()}
    return model.load_state_dict(given, strict=options.strict, assign=bare)


def _divided_as(own: Any, x: Any) -> Any:
    """Return a whole tensor divided as another one is."""
    if not isinstance(own, DTensor) or isinstance(x, DTensor):
        return x
    return distribute_tensor(x, own.device_mesh, own.placements, src_data_rank=None)


def _sent(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """Return the state that rank 0 has, where the options say that only it has one."""
    if not (options.broadcast_from_rank0 and is_initialized() and get_world_size() > 1):
        return state
    told = [state if get_rank() == 0 else None]
    broadcast_object_list(told, src=0)
    return told[0]  # type: ignore[return-value]


def _names(model: Module, optimizer: Any) -> list[str]:
    """Return the names of an optimizer's parameters in the order of its state dict's numbers."""
    prefix = _prefix(model)
    names = {id(p): n.removeprefix(prefix).replace(f"{WRAPPED}.", "") for n, p in model.named_parameters()}
    return [names[id(p)] for group in optimizer.param_groups for p in group["params"]]


def get_optimizer_state_dict(model: Module, optimizers: Any, *, submodules: Any = None,
                             options: StateDictOptions | None = None) -> dict[str, Any]:  # fmt: skip
    """Return the state of an optimizer (of several) by the parameters' names instead of numbers.

    What it keeps of a divided parameter is divided alike, or gathered with `full_state_dict`. An optimizer without a
    state gets one first, from a step that changes nothing: so that there is something to load into. What
    `ZeroRedundancyOptimizer` has dealt out is this process's, or gathered.
    """
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in optimizers if isinstance(optimizers, Iterable) else (optimizers,):
        begun(optimizer)
        names, state = _names(model, optimizer), own_state_dict(optimizer)
        if (options or StateDictOptions()).full_state_dict and isinstance(optimizer, ZeroRedundancyOptimizer):
            every: list[Any] = [None] * optimizer.world_size
            all_gather_object(every, state["state"], optimizer.process_group)
            state = {**state, "state": {k: x for part in every for k, x in part.items()}}
        params = [p for g in optimizer.param_groups for p in g["params"]]
        found["state"].update({names[k]: divided_alike(params[k], x) for k, x in state["state"].items()})
        found["param_groups"] += [{**g, "params": [names[k] for k in g["params"]]} for g in state["param_groups"]]
    state = _gathered(found["state"], options or StateDictOptions())
    return {**found, "state": state} if state or not found["state"] else {}


def optimizer_state_to_load(model: Module, optimizer: Any, optim_state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return what `get_optimizer_state_dict` gave as the optimizer's own `load_state_dict` takes it."""
    groups = {frozenset(g["params"]): g for g in optim_state_dict["param_groups"]}
    names = _names(model, optimizer)
    params = dict(zip(names, (p for g in optimizer.param_groups for p in g["params"]), strict=True))
    number, own = {name: k for k, name in enumerate(names)}, own_state_dict(optimizer)["param_groups"]
    chosen = [groups[frozenset(names[k] for k in g["params"])] for g in own]
    return {
        "state": {number[n]: own_state(params[n], x) for n, x in optim_state_dict["state"].items() if n in number},
        "param_groups": [{**g, "params": mine["params"]} for g, mine in zip(chosen, own, strict=True)],
    }  # fmt: skip


def set_optimizer_state_dict(model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *,
                             options: StateDictOptions | None = None) -> None:  # fmt: skip
    """Load what `get_optimizer_state_dict` gave."""
    optim_state_dict = _sent(optim_state_dict, options or StateDictOptions())
    for optimizer in optimizers if isinstance(optimizers, Iterable) else (optimizers,):
        optimizer.load_state_dict(optimizer_state_to_load(model, optimizer, optim_state_dict))


def get_state_dict(model: Module, optimizers: Any, *, submodules: Any = None,
                   options: StateDictOptions | None = None) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Return a module's state dict and its optimizers'."""
    return get_model_state_dict(model, options=options), get_optimizer_state_dict(model, optimizers, options=options)


def set_state_dict(model: Module, optimizers: Any, *, model_state_dict: dict[str, Any],
                   optim_state_dict: dict[str, Any], options: StateDictOptions | None = None) -> Any:  # fmt: skip
    """Load what `get_state_dict` gave."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


_init_optim_state = begun  # by which programs give an optimizer a state to load into
__getattr__ = absent_names(__name__, _FILE)
