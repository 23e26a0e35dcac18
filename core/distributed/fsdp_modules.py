"""`FullyShardedDataParallel` and `fully_shard`: modules whose parameters are divided among processes.

In a world of one process nothing is divided, and a module computes as it is, or in the dtypes that are asked for.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from ..base.errors import text
from ..nn.modules.module import Module
from ..nn.utils import clip_grad_norm_
from .algorithms.checkpoint_wrapper import WRAPPED
from .checkpoint import StateDictOptions, get_optimizer_state_dict, optimizer_state_to_load
from .device_mesh import DeviceMesh
from .dtensor import DTensor
from .flat import broadcast_coalesced
from .fsdp_settings import MixedPrecision, MixedPrecisionPolicy, StateDictSettings, StateDictType
from .groups import get_rank, get_world_size, init_process_group, is_initialized, member
from .placements import Shard
from .sharding import Unit, computed, gathered, is_sharded, shard, units_of

__all__ = ["FSDPModule", "FullyShardedDataParallel", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]

INNER = "_fsdp_wrapped_module"


def _policy(given: MixedPrecision | None, outermost: bool) -> MixedPrecisionPolicy:
    """Return in which dtypes a module computes. *Raises*: NotImplementedError for gradients in a narrow dtype."""
    if given is None:
        return MixedPrecisionPolicy()
    if given.keep_low_precision_grads:
        raise NotImplementedError(text("gradients are of the parameters' dtype", op="FullyShardedDataParallel",
                                       came="keep_low_precision_grads=True", needed="False",
                                       remedy="p.grad = p.grad.to(dtype) after the backward pass"))  # fmt: skip
    casts = given.cast_forward_inputs or (outermost and given.cast_root_forward_inputs)
    return MixedPrecisionPolicy(given.param_dtype, given.reduce_dtype, None, casts)


def _cast_buffers(module: Module, given: MixedPrecision) -> None:
    for m in module.modules():
        for name, b in m._buffers.items() if not isinstance(m, tuple(given._module_classes_to_ignore)) else ():
            if b is not None and b.is_floating_point():
                m._buffers[name] = b.to(given.buffer_dtype)


def _plain(name: str) -> str:
    return name.replace(f"{INNER}.", "").replace(f"{WRAPPED}.", "")


def _strip(module: Module, state_dict: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    settings = FullyShardedDataParallel.get_state_dict_type(module)
    whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
    alone = whole and getattr(settings.state_dict_config, "rank0_only", False)
    for key in [k for k in state_dict if k.startswith(f"{prefix}{INNER}.")]:
        value = state_dict.pop(key)
        if whole and isinstance(value, DTensor):
            value = value.full_tensor()
        if not (alone and get_rank()):
            state_dict[prefix + key.removeprefix(f"{prefix}{INNER}.")] = value


def _put_back(state_dict: dict[str, Any], prefix: str, *ignored: Any) -> None:
    for key in [k for k in state_dict if k.startswith(prefix) and not k.startswith(f"{prefix}{INNER}.")]:
        state_dict[f"{prefix}{INNER}." + key.removeprefix(prefix)] = state_dict.pop(key)


class FullyShardedDataParallel(Module):
    """A module whose parameters are divided over all processes: gathered while it computes, let go of afterwards.

    Parameters that no `FullyShardedDataParallel` within has divided are this one's. `parameters` gives this process's
    rows of them (`DTensor`), which an optimizer steps. Names are those of the module itself, and state dicts are whole
    on each process unless `state_dict_type` says else. All processes call the same methods.

    sharding_strategy : SHARD_GRAD_OP and HYBRID_SHARD's kin keep parameters from the forward to the backward pass.
    auto_wrap_policy : which modules within are wrapped on their own.
    ignored_modules, ignored_states : what is not divided, nor are its gradients summed up.
    sync_module_states : whether parameters and buffers begin as those of rank 0.
    device_mesh : processes in one dimension, or in two: copies times parts.
    mixed_precision : the dtypes in which it computes: `MixedPrecision`.
    forward_prefetch : whether, while a module computes, what came next in the pass before is gathered.
    cpu_offload, backward_prefetch, limit_all_gathers, use_orig_params : of no effect.

    Raises
    ------
    ValueError
        Before `core.distributed.init_process_group`.
    NotImplementedError
        For gradients in a narrow dtype.

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
        if not isinstance(process_group, tuple):
            member(process_group)
        self._fsdp_wrapped_module = module
        self.process_group, self.sharding_strategy, self.cpu_offload = process_group, sharding_strategy, cpu_offload
        self.mixed_precision = mixed_precision
        mesh = device_mesh or _mesh_of(process_group)
        self.rank, self.world_size = mesh.get_local_rank(mesh.ndim - 1), mesh.size(mesh.ndim - 1)
        ignored = [*(ignored_modules or ()), *(ignored_states or ())]
        loose = [p for x in ignored for p in (x.parameters() if isinstance(x, Module) else [x])]
        if sync_module_states and mesh.size() > 1:
            broadcast_coalesced([*module.parameters(), *module.buffers()], 0, mesh.get_group(mesh.ndim - 1))
        if auto_wrap_policy is not None:
            inner = {"process_group": process_group, "sharding_strategy": sharding_strategy, "device_mesh": mesh,
                     "ignored_states": loose, "mixed_precision": mixed_precision,
                     "forward_prefetch": forward_prefetch}  # fmt: skip
            _wrap(module, auto_wrap_policy, inner, {id(m) for m in ignored})
        kept = getattr(sharding_strategy, "name", "") in ("SHARD_GRAD_OP", "NO_SHARD", "_HYBRID_SHARD_ZERO2")
        policy = _policy(mixed_precision, True)
        for inner_one in FullyShardedDataParallel.fsdp_modules(module):
            inner_one.__dict__["_policy"] = _policy(inner_one.mixed_precision, False)
        wide = () if mixed_precision is None else tuple(mixed_precision._module_classes_to_ignore)
        shard(self, [module], mesh, False if kept else None, loose, policy, wide)
        if mixed_precision is not None and mixed_precision.buffer_dtype is not None:
            _cast_buffers(module, mixed_precision)
        for unit in self.__dict__["_units"]:
            unit.in_order = forward_prefetch
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
        """Call the module with its whole parameters."""
        return computed(self, self.module, args, kwargs)

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
        """A block whose gradients are only added up, whole on each process; the first pass after it averages them."""
        units = units_of(self)
        before = [unit.sync for unit in units]
        for unit in units:
            unit.sync = False
        try:
            yield
        finally:
            for unit, was in zip(units, before, strict=True):
                unit.sync = was

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
        """A block in which the modules have whole parameters; with `writeback` this process's rows of them are kept."""
        units = units_of(module) if recurse else list(module.__dict__.get("_units", ()))
        for unit in units:
            unit.coming = None
            unit.unshard(unit.flat.dtype)
            unit.put(True)
        try:
            yield
        finally:
            for unit in units:
                if writeback:
                    unit.keep()
                unit.put(False)
                unit.reshard()

    @staticmethod
    def set_state_dict_type(module: Module, state_dict_type: Any, state_dict_config: Any = None,
                            optim_state_dict_config: Any = None) -> Any:  # fmt: skip
        """Say in which form state dicts are: whole, or this process's part. Return the settings that stood before."""
        before = FullyShardedDataParallel.get_state_dict_type(module)
        new = StateDictSettings(state_dict_type, state_dict_config, optim_state_dict_config)
        for m in (module, *FullyShardedDataParallel.fsdp_modules(module)):
            object.__setattr__(m, "_state_dict_settings", new)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> Any:
        """Return what `set_state_dict_type` said: whole ones without it."""
        whole = StateDictSettings(StateDictType.FULL_STATE_DICT, None, None)  # type: ignore[arg-type]
        return getattr(module, "_state_dict_settings", None) or whole

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module: Module, state_dict_type: Any, state_dict_config: Any = None,
                        optim_state_dict_config: Any = None) -> Iterator[None]:  # fmt: skip
        """A block with another form of state dicts."""
        cls = FullyShardedDataParallel
        before = cls.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            cls.set_state_dict_type(module, before.state_dict_type, before.state_dict_config,
                                    before.optim_state_dict_config)  # fmt: skip

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        """Return an optimizer's state by the names of the parameters, in the form that `state_dict_type` says."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        config = settings.optim_state_dict_config
        alone = bool(getattr(config, "rank0_only", False)) and whole
        options = StateDictOptions(full_state_dict=whole, cpu_offload=alone)
        return _renamed(get_optimizer_state_dict(model, optim, options=options), _plain)

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
    """What waits until parameters were gathered."""

    def __init__(self, module: FSDPModule) -> None:
        self._module = module

    def wait(self) -> None:
        """Wait until the module has its whole parameters."""
        self._module.unshard()


class FSDPModule:
    """What `fully_shard` adds to a module's class: it computes with its whole parameters, which are gathered before."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute as the module does, with its whole parameters."""
        return computed(self, super().forward, args, kwargs)  # type: ignore[misc]

    def _own_units(self, recurse: bool = False) -> list[Unit]:
        return units_of(self) if recurse else list(self.__dict__.get("_units", ()))

    def reshard(self) -> None:
        """Let go of the whole parameters."""
        for unit in self._own_units():
            unit.put(False)
            unit.reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the whole parameters, which the module has until `reshard`.

        async_op : whether that is only begun; the forward pass, or the handle's `wait`, then waits for it.
        """
        for unit in self._own_units():
            unit.begin()
        if async_op:
            return UnshardHandle(self)
        for unit in self._own_units():
            unit.unshard()
            unit.put(True)
        return None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Nothing: every backward pass ends what it began."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Say whether backward passes average gradients over the processes, or only add them up."""
        for unit in self._own_units(recurse):
            unit.sync = requires_gradient_sync

    set_requires_all_reduce = set_requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Say whether whole parameters are let go of between the forward and the backward pass."""
        for unit in self._own_units(recurse):
            unit.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, recurse: bool = True) -> None:
        """Nothing: whole parameters are let go of after the backward pass."""

    def set_modules_to_forward_prefetch(self, modules: Iterable[FSDPModule]) -> None:
        """Say of which modules the parameters begin to be gathered while this one computes its forward pass."""
        for unit in self._own_units():
            unit.next = [u for m in modules for u in m._own_units()]

    def set_modules_to_backward_prefetch(self, modules: Iterable[FSDPModule]) -> None:
        """Say of which modules the parameters begin to be gathered while this one computes its backward pass.

        Without it that is what came before it in the forward pass.
        """
        for unit in self._own_units():
            unit.before = [u for m in modules for u in m._own_units()]

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide sums of gradients by a number other than that of the processes.

        *Raises*: RuntimeError for one other than 1 where nothing is divided.
        """
        units = self._own_units(True)
        if factor != 1 and not units:
            raise RuntimeError(text("gradients of one process are not divided", op="set_gradient_divide_factor",
                                    came=f"{factor}", needed="1"))  # fmt: skip
        for unit in units:
            unit.divisor = factor


_classes: dict[type, type] = {}


def fully_shard(module: Any, *, mesh: Any = None, reshard_after_forward: Any = None, shard_placement_fn: Any = None,
                mp_policy: Any = None, offload_policy: Any = None, ignored_params: Any = None,
                dp_mesh_dims: Any = None) -> Any:  # fmt: skip
    """Divide the parameters of a module, or of several, over all processes, by rows. Return the module.

    Those that `fully_shard` has divided within stay with their modules: call it on the inner ones first. Parameters
    become `DTensor`s, and the module's class one with `FSDPModule` among its bases. All processes call it on equal
    modules.

    mesh : processes in one dimension, or in two: copies times parts.
    reshard_after_forward : whether whole parameters are let go of between the forward and the backward pass; without it
        those of all but the outermost module are.
    mp_policy : the dtypes in which it computes: `MixedPrecisionPolicy`.
    ignored_params : what is not divided, nor are its gradients summed up.

    Of what `parallelize_module` has divided over ``mesh['tp']`` each process's part is divided over ``mesh['dp']``;
    such parameters have the dimensions "tp" and "dp" in this order.

    *Raises*: NotImplementedError for parameters divided along another dimension than the first.

    >>> import core
    >>> model = core.distributed.fsdp.fully_shard(core.nn.Linear(2, 1))
    >>> isinstance(model, core.distributed.fsdp.FSDPModule), type(model).__name__
    (True, 'FSDPLinear')
    """
    if dp_mesh_dims is not None:
        raise NotImplementedError(text("dimensions of a mesh are chosen by their names", op="fully_shard",
                                       came=f"dp_mesh_dims={dp_mesh_dims}", remedy="mesh=mesh['dp']"))  # fmt: skip
    policy = mp_policy or MixedPrecisionPolicy()
    many = list(module) if isinstance(module, Iterable) and not isinstance(module, Module) else [module]
    for p in [p for m in many for p in m.parameters()] if shard_placement_fn is not None else ():
        if shard_placement_fn(p) not in (None, Shard(0)):
            raise NotImplementedError(text("parameters are divided along their first dimension", op="fully_shard",
                                           came=f"{shard_placement_fn(p)}",
                                           remedy="shard_placement_fn=None"))  # fmt: skip
    for m in many:
        cls = type(m)
        if not issubclass(cls, FSDPModule):
            if cls not in _classes:
                _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})
            m.__class__ = _classes[cls]
    if mesh is not None or is_initialized() or policy.param_dtype is not None:
        keep = None if reshard_after_forward is None else bool(reshard_after_forward)
        shard(many[0], many, mesh or _mesh_of(None), keep, list(ignored_params or ()), policy)
    many[0].__dict__.update(_policy=policy)
    for m in many[1:]:
        m.__dict__.update({k: many[0].__dict__[k] for k in ("_units", "_policy") if k in many[0].__dict__})
    return module


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let a method, too, compute with whole parameters."""
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with gathered(module):
            return method(*args, **kwargs)

    if isinstance(module, FSDPModule):
        object.__setattr__(module, method_name, wrapped)


def _mesh_of(group: Any) -> DeviceMesh:
    """Return the processes of a group, or all, as a mesh; of two groups, the second one's copies."""
    if isinstance(group, tuple):
        raise NotImplementedError(text("a pair of groups is given as a mesh", op="FullyShardedDataParallel",
                                       remedy="device_mesh=init_device_mesh('cpu', (copies, parts))"))  # fmt: skip
    if group is None:
        if not is_initialized():
            init_process_group()
        return DeviceMesh("cpu", list(range(get_world_size())))
    return DeviceMesh.from_group(group, "cpu")


def _wrap(module: Module, policy: Any, settings: dict[str, Any], ignored: set[int]) -> None:
    """Wrap those modules within another that a policy names, the inner ones first."""
    for name, child in list(module.named_children()):
        if id(child) in ignored or isinstance(child, FullyShardedDataParallel):
            continue
        _wrap(child, policy, settings, ignored)
        rest = sum(p.numel() for p in child.parameters() if not is_sharded(p))
        if policy(module=child, recurse=False, nonwrapped_numel=rest):
            setattr(module, name, FullyShardedDataParallel(child, **settings))
