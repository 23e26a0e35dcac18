"""Saving and loading what a module holds: `state_dict` and `load_state_dict`, with PyTorch's keys and messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...base.modes import no_grad
from ...base.shape import Size
from ...base.source import warn
from ...dispatch.sparse import SparseTensor
from ...graph.node import RemovableHandle
from ...tensors.tensor import Tensor, storage_of, wrap
from ..parameter import Parameter, is_lazy

_EXTRA = "_extra_state"
_HOOKS = ("_state_dict_hooks", "_state_dict_pre_hooks", "_state_dict_hooks_replacing", "_load_state_dict_pre_hooks",
          "_load_state_dict_post_hooks")  # fmt: skip


class _Without:
    """A hook that is not told which module calls it."""

    def __init__(self, hook: Callable[..., None]) -> None:
        self.hook = hook

    def __call__(self, module: Any, *args: Any) -> None:
        self.hook(*args)


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find, and what it had no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"


class State:
    """The part of `Module` that saves and loads."""

    _version = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: dict[int, Any]
    _state_dict_pre_hooks: dict[int, Any]
    _state_dict_hooks_replacing: dict[int, bool]
    _load_state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_post_hooks: dict[int, Any]

    def _init_state_hooks(self, put: Callable[[str, Any], None]) -> None:
        for name in _HOOKS:
            put(name, {})

    # -- what subclasses may write -------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """Return what to save beyond parameters and buffers; a subclass that has such state writes this and the
        next."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after the module's own state was collected."""
        return RemovableHandle(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As `register_state_dict_post_hook`; what the hook returns replaces the state dict."""
        handle = RemovableHandle(self._state_dict_hooks, hook)
        self._state_dict_hooks_replacing[handle.id] = True
        return handle

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state is collected."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``
        before this module loads."""
        return RemovableHandle(self._load_state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., None],
                                           with_module: bool = False) -> RemovableHandle:  # fmt: skip
        """As `register_load_state_dict_pre_hook`; the hook gets the module only `with_module`."""
        return RemovableHandle(self._load_state_dict_pre_hooks, hook if with_module else _Without(hook))

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the two lists."""
        return RemovableHandle(self._load_state_dict_post_hooks, hook)

    # -- saving --------------------------------------------------------------------------------------------------------

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        own = [*self._parameters.items(),
               *((n, b) for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set)]  # fmt: skip
        for name, t in own:
            if t is not None:
                destination[prefix + name] = t if keep_vars or is_lazy(t) else _values(t)
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:  # fmt: skip
        """Every parameter and persistent buffer by its path; they share the module's memory.

        >>> import core
        >>> list(core.nn.Sequential(core.nn.Linear(2, 3)).state_dict())
        ['0.weight', '0.bias']
        """
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for "
                "details.",
                FutureWarning,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination)
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for key, hook in self._state_dict_hooks.items():
            found = hook(self, destination, prefix, local_metadata)
            if found is not None:
                if key not in self._state_dict_hooks_replacing:
                    raise RuntimeError("state_dict post-hook must return None")
                destination = found
        return destination  # type: ignore[no-any-return]

    # -- loading -------------------------------------------------------------------------------------------------------

    def _load_one(self, name: str, key: str, mine: Tensor, theirs: Any, assign: bool, errors: list[str]) -> None:
        if is_lazy(mine) and is_lazy(theirs):
            return
        if not isinstance(theirs, Tensor):
            errors.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                          'object from '
                          f"checkpoint but received {type(theirs)}")  # fmt: skip
            return
        if mine.ndim == 0 and tuple(theirs.shape) == (1,):
            theirs = theirs.reshape(())  # type: ignore[attr-defined]
        if theirs.shape != mine.shape:
            errors.append(f"size mismatch for {key}: copying a param with shape {_size(theirs.shape)} from "
                          "checkpoint, the "
                          f"shape in current model is {_size(mine.shape)}.")  # fmt: skip
            return
        with no_grad():
            if not assign:
                mine.copy_(theirs)  # type: ignore[attr-defined]
            elif isinstance(mine, Parameter):
                if isinstance(theirs, Parameter):
                    theirs.requires_grad_(mine.requires_grad)
                else:
                    theirs = Parameter(theirs, requires_grad=mine.requires_grad)
                setattr(self, name, theirs)
            else:
                setattr(self, name, theirs)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, local_metadata: dict[str, Any],
                              strict: bool, missing_keys: list[str], unexpected_keys: list[str],
                              error_msgs: list[str]) -> None:  # fmt: skip
        """Load this module's own parameters and buffers; a subclass may write its own for older checkpoints."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        buffers = {n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set}
        local = {n: t for n, t in (self._parameters | buffers).items() if t is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, mine in local.items():
            if prefix + name in state_dict:
                self._load_one(name, prefix + name, mine, state_dict[prefix + name], assign, error_msgs)
            elif strict:
                missing_keys.append(prefix + name)
        extra = prefix + _EXTRA
        if type(self).set_extra_state is not State.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in (self._modules if dot else local):
                        unexpected_keys.append(key)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy the values of a state dict into the module (with `assign`, take its tensors as they are).

        Raises
        ------
        RuntimeError
            With every key that is missing, unexpected (both only if `strict`) or of another shape.

        >>> import core
        >>> a, b = core.nn.Linear(2, 2), core.nn.Linear(2, 2)
        >>> b.load_state_dict(a.state_dict())
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}."
                            f"{' remedy: its state_dict()' if hasattr(state_dict, 'state_dict') else ''}")  # fmt: skip
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None) or {}
        everything: Any = OrderedDict(state_dict)
        if metadata:
            everything._metadata = metadata

        def load(module: Any, given: Any, prefix: str) -> None:
            local = dict(metadata.get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(given, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    path = f"{prefix}{name}."
                    load(child, {k: v for k, v in given.items() if k.startswith(path)}, path)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, _IncompatibleKeys(missing, unexpected)) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, everything, "")
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    errors.insert(0, f"{what} key(s) in state_dict: " + ", ".join(f'"{k}"' for k in keys) + ". ")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)


def _values(t: Tensor) -> Tensor:
    """As `detach`; saving is no leaving of the graph that observers should hear of."""
    if isinstance(t, SparseTensor) or hasattr(t, "full_tensor"):  # one that is divided among processes stays so
        return t.detach()  # type: ignore[attr-defined, no-any-return]
    out = wrap(t._a, t._kind)
    out._storage = storage_of(t)
    return out


def _size(shape: Size) -> str:
    return f"torch.Size({list(shape)})"
