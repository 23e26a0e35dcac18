"""Checkpoints of one process: `get_model_state_dict` and its kin are the state dicts themselves.

`save` and `load` write and read a folder with this process's part, which is all there is; PyTorch's own folders are
refused with the remedy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..base.absent import absent_names
from ..nn.modules.module import Module
from .checkpoint_folder import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
    Metadata,
    TensorStorageMetadata,
    async_save,
    dcp_to_torch_save,
    load,
    load_sharded_optimizer_state_dict,
    load_state_dict,
    save,
    save_state_dict,
    torch_save_to_dcp,
)

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "Metadata",
           "StateDictOptions", "TensorStorageMetadata", "async_save", "dcp_to_torch_save", "get_model_state_dict",
           "get_optimizer_state_dict", "get_state_dict", "load", "load_sharded_optimizer_state_dict", "load_state_dict",
           "save", "save_state_dict", "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
           "torch_save_to_dcp"]  # fmt: skip

state_dict = filesystem = default_planner = optimizer = format_utils = state_dict_loader = metadata = planner = (
    sys.modules[__name__]
)
_FILE = "core.save(state, 'checkpoint.pt') and core.load"


@dataclass
class StateDictOptions:
    """How a state would be gathered from processes; `strict` is that of `load_state_dict`."""

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
    found = dict(model.state_dict())
    if options is not None and options.ignore_frozen_params:
        frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
        found = {name: x for name, x in found.items() if name not in frozen}
    return {name: x.cpu() for name, x in found.items()} if options is not None and options.cpu_offload else found


def set_model_state_dict(model: Module, model_state_dict: dict[str, Any], *,
                         options: StateDictOptions | None = None) -> Any:  # fmt: skip
    """Load a state dict into a module; return the keys that were missing and unexpected."""
    return model.load_state_dict(model_state_dict, strict=True if options is None else options.strict)


def _names(model: Module, optimizer: Any) -> list[str]:
    """Return the names of an optimizer's parameters in the order of its state dict's numbers."""
    names = {id(p): name for name, p in model.named_parameters()}
    return [names[id(p)] for group in optimizer.param_groups for p in group["params"]]


def get_optimizer_state_dict(model: Module, optimizers: Any, *, submodules: Any = None,
                             options: StateDictOptions | None = None) -> dict[str, Any]:  # fmt: skip
    """Return the state of an optimizer (of several) by the parameters' names instead of numbers."""
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in optimizers if isinstance(optimizers, Iterable) else (optimizers,):
        names, state = _names(model, optimizer), optimizer.state_dict()
        found["state"].update({names[k]: x for k, x in state["state"].items()})
        found["param_groups"] += [{**g, "params": [names[k] for k in g["params"]]} for g in state["param_groups"]]
    return found


def optimizer_state_to_load(model: Module, optimizer: Any, optim_state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return what `get_optimizer_state_dict` gave as the optimizer's own `load_state_dict` takes it."""
    groups = {frozenset(g["params"]): g for g in optim_state_dict["param_groups"]}
    names = _names(model, optimizer)
    number, own = {name: k for k, name in enumerate(names)}, optimizer.state_dict()["param_groups"]
    chosen = [groups[frozenset(names[k] for k in g["params"])] for g in own]
    return {
        "state": {number[n]: x for n, x in optim_state_dict["state"].items() if n in number},
        "param_groups": [{**g, "params": mine["params"]} for g, mine in zip(chosen, own, strict=True)],
    }  # fmt: skip


def set_optimizer_state_dict(model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *,
                             options: StateDictOptions | None = None) -> None:  # fmt: skip
    """Load what `get_optimizer_state_dict` gave."""
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


__getattr__ = absent_names(__name__, _FILE)
