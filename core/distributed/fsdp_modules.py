"""`FullyShardedDataParallel` and `fully_shard` for one process, which holds all parameters: nothing is divided.

The wrapped module computes as it is. What is refused is what would change its numbers: parameters in another dtype.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from ..base.errors import text
from ..nn.modules.module import Module
from ..nn.utils import clip_grad_norm_
from .checkpoint import get_optimizer_state_dict, optimizer_state_to_load
from .fsdp_settings import StateDictSettings, StateDictType
from .groups import member

__all__ = ["FSDPModule", "FullyShardedDataParallel", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]

INNER = "_fsdp_wrapped_module"


def _same_dtype(op: str, policy: Any) -> None:
    if getattr(policy, "param_dtype", None) is not None:
        raise NotImplementedError(text("parameters are not kept in a second dtype", op=op,
                                       came=f"param_dtype={policy.param_dtype}", needed="None",
                                       remedy="core.autocast around the forward pass"))  # fmt: skip


def _plain(name: str) -> str:
    return name.replace(f"{INNER}.", "")


def _strip(module: Module, state_dict: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    for key in [k for k in state_dict if k.startswith(f"{prefix}{INNER}.")]:
        state_dict[prefix + key.removeprefix(f"{prefix}{INNER}.")] = state_dict.pop(key)


def _put_back(state_dict: dict[str, Any], prefix: str, *ignored: Any) -> None:
    for key in [k for k in state_dict if k.startswith(prefix) and not k.startswith(f"{prefix}{INNER}.")]:
        state_dict[f"{prefix}{INNER}." + key.removeprefix(prefix)] = state_dict.pop(key)


class FullyShardedDataParallel(Module):
    """A module whose parameters are divided over all processes: over one, it holds them all.

    State dicts, and the names of parameters, are those of the module itself. Strategies, wrapping policies, prefetching
    and offloading are kept and have no effect.

    Raises
    ------
    ValueError
        Before `core.distributed.init_process_group`.
    NotImplementedError
        For mixed precision of the parameters.

    >>> import core
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> model = core.distributed.fsdp.FullyShardedDataParallel(core.nn.Linear(2, 1))
    >>> model(core.ones(3, 2)).shape, list(model.state_dict())
    (core.Size([3, 1]), ['weight', 'bias'])
    >>> core.distributed.destroy_process_group()
    """

    def __init__(self, module: Module, process_group: Any = None, sharding_strategy: Any = None,
                 cpu_offload: Any = None, auto_wrap_policy: Any = None, backward_prefetch: Any = None,
                 mixed_precision: Any = None, ignored_modules: Any = None, param_init_fn: Any = None,
                 device_id: Any = None, sync_module_states: bool = False, forward_prefetch: bool = False,
                 limit_all_gathers: bool = True, use_orig_params: bool = False, ignored_states: Any = None,
                 device_mesh: Any = None) -> None:  # fmt: skip
        super().__init__()
        _same_dtype("FullyShardedDataParallel", mixed_precision)
        if not isinstance(process_group, tuple):
            member(process_group)
        self._fsdp_wrapped_module = module
        self.process_group, self.sharding_strategy, self.cpu_offload = process_group, sharding_strategy, cpu_offload
        self.mixed_precision = mixed_precision
        self.rank, self.world_size = 0, 1
        self._register_state_dict_hook(_strip)
        self._register_load_state_dict_pre_hook(_put_back)

    @property
    def module(self) -> Module:
        """The module itself."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(INNER), name)

    def __getitem__(self, key: int) -> Any:
        return self.module[key]  # type: ignore[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Yield the parameters by the names that they have in the module."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield _plain(name), p

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Yield the buffers by the names that they have in the module."""
        for name, b in super().named_buffers(*args, **kwargs):
            yield _plain(name), b

    def check_is_root(self) -> bool:
        """Return True: it is divided by itself."""
        return True

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale the gradients down to a norm; return the norm that they had."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose gradients are not averaged: they never are."""
        yield

    # -- of any module that holds one --------------------------------------------------------------------------------

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return those of a module's modules that are such; with `root_only` those that no other holds."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inner = {id(m) for f in found for m in f.modules() if m is not f}
        return [m for m in found if id(m) not in inner] if root_only else found

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
                           offload_to_cpu: bool = False, with_grads: bool = False) -> Iterator[None]:  # fmt: skip
        """A block in which each process holds all parameters: it always does."""
        yield

    @staticmethod
    def set_state_dict_type(module: Module, state_dict_type: Any, state_dict_config: Any = None,
                            optim_state_dict_config: Any = None) -> Any:  # fmt: skip
        """Say in which form state dicts are: they are whole. Return the settings that stood before."""
        before = getattr(module, "_state_dict_settings", None)
        new = StateDictSettings(state_dict_type, state_dict_config, optim_state_dict_config)
        object.__setattr__(module, "_state_dict_settings", new)
        return before or StateDictSettings(StateDictType.FULL_STATE_DICT, None, None)  # type: ignore[arg-type]

    @staticmethod
    def get_state_dict_type(module: Module) -> Any:
        """Return what `set_state_dict_type` said."""
        whole = StateDictSettings(StateDictType.FULL_STATE_DICT, None, None)  # type: ignore[arg-type]
        return getattr(module, "_state_dict_settings", None) or whole

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module: Module, state_dict_type: Any, state_dict_config: Any = None,
                        optim_state_dict_config: Any = None) -> Iterator[None]:  # fmt: skip
        """A block with another form of state dicts; they are whole in each."""
        cls = FullyShardedDataParallel
        before = cls.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            object.__setattr__(module, "_state_dict_settings", before)

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        """Return an optimizer's state by the names of the parameters."""
        state = get_optimizer_state_dict(model, optim)
        return _renamed(state, _plain)

    full_optim_state_dict = sharded_optim_state_dict = optim_state_dict

    @staticmethod
    def optim_state_dict_to_load(model: Module, optim: Any, optim_state_dict: dict[str, Any],
                                 is_named_optimizer: bool = False, load_directly: bool = False,
                                 group: Any = None) -> dict[str, Any]:  # fmt: skip
        """Return a state by names as the optimizer's own `load_state_dict` takes it; load it with `load_directly`."""
        found = optimizer_state_to_load(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict: Any, model: Module, optim_input: Any = None,
                                      optim: Any = None, group: Any = None) -> dict[str, Any]:  # fmt: skip
        """Return a whole state as this process's: all of it."""
        return optimizer_state_to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict: Any, model: Module, optim_input: Any = None,
                                    optim: Any = None) -> dict[str, Any]:  # fmt: skip
        """Return a whole state as this process's: all of it."""
        return optimizer_state_to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict: dict[str, Any], optim_state_key_type: Any, model: Module,
                               optim_input: Any = None, optim: Any = None) -> dict[str, Any]:  # fmt: skip
        """Return an optimizer's state by the parameters' numbers instead of names, or the other way.

        The numbers are those of the optimizer, or of the module's parameters where it is not given.
        """
        params = [p for g in optim.param_groups for p in g["params"]] if optim is not None else [*model.parameters()]
        by_id = {id(p): _plain(name) for name, p in model.named_parameters()}
        names = [by_id[id(p)] for p in params]
        if getattr(optim_state_key_type, "name", "") == "PARAM_NAME":
            return _renamed(optim_state_dict, lambda k: names[k] if isinstance(k, int) else k)
        number = {name: k for k, name in enumerate(names)}
        return _renamed(optim_state_dict, lambda k: number.get(k, k))


def _renamed(state: dict[str, Any], new: Any) -> dict[str, Any]:
    return {
        **state, "state": {new(k): x for k, x in state["state"].items()},
        "param_groups": [{**g, "params": [new(k) for k in g["params"]]} for g in state["param_groups"]],
    }  # fmt: skip


class UnshardHandle:
    """What waits until parameters were gathered: they are there."""

    def wait(self) -> None:
        """Return at once."""


class FSDPModule:
    """What `fully_shard` adds to a module's class: PyTorch's methods that gather parameters, which are there."""

    def reshard(self) -> None:
        """Nothing: all parameters stay."""

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Return what waits for the parameters, with `async_op`: they are there."""
        return UnshardHandle() if async_op else None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Nothing: no gradient is sent."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Nothing: no gradient is sent."""

    set_requires_all_reduce = set_requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Nothing: all parameters stay."""

    set_reshard_after_backward = set_reshard_after_forward

    def set_modules_to_forward_prefetch(self, modules: Any) -> None:
        """Nothing: no parameter is gathered."""

    set_modules_to_backward_prefetch = set_modules_to_forward_prefetch

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Take how gradients of several processes are averaged. *Raises*: RuntimeError for a number other than 1."""
        if factor != 1:
            raise RuntimeError(text("gradients of one process are not divided", op="set_gradient_divide_factor",
                                    came=f"{factor}", needed="1"))  # fmt: skip


_classes: dict[type, type] = {}


def fully_shard(module: Any, *, mesh: Any = None, reshard_after_forward: Any = None, shard_placement_fn: Any = None,
                mp_policy: Any = None, offload_policy: Any = None, ignored_params: Any = None,
                dp_mesh_dims: Any = None) -> Any:  # fmt: skip
    """Divide the parameters of a module, or of several, over all processes: one holds them all. Return the module.

    Its class becomes one with `FSDPModule` among its bases. *Raises*: NotImplementedError for parameters in a second
    dtype.

    >>> import core
    >>> model = core.distributed.fsdp.fully_shard(core.nn.Linear(2, 1))
    >>> isinstance(model, core.distributed.fsdp.FSDPModule), type(model).__name__
    (True, 'FSDPLinear')
    """
    _same_dtype("fully_shard", mp_policy)
    for m in module if isinstance(module, Iterable) and not isinstance(module, Module) else (module,):
        cls = type(m)
        if not issubclass(cls, FSDPModule):
            if cls not in _classes:
                _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})
            m.__class__ = _classes[cls]
    return module


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Name a method before which parameters are gathered: they are there."""
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
