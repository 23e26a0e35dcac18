"""Modules that are run again in the backward pass, instead of keeping what their ops save: `checkpoint_wrapper`.

>>> import core
>>> from core.distributed.algorithms.checkpoint_wrapper import apply_activation_checkpointing
>>> model = core.nn.Sequential(core.nn.Linear(2, 3), core.nn.Tanh(), core.nn.Linear(3, 1))
>>> apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, core.nn.Linear))
>>> type(model[0]).__name__, list(model.state_dict())
('CheckpointWrapper', ['0.weight', '0.bias', '2.weight', '2.bias'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

from ...base.absent import absent_names
from ...nn.modules.module import Module
from ...utils.checkpoint import checkpoint

__all__ = ["ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "apply_activation_checkpointing",
           "checkpoint_wrapper"]  # fmt: skip

WRAPPED = "_checkpoint_wrapped_module"


class CheckpointImpl(Enum):
    """How a module is run again: see `use_reentrant` of `core.utils.checkpoint.checkpoint`."""

    REENTRANT, NO_REENTRANT = auto(), auto()


class ActivationWrapper(Module):
    """A module around another one; names of parameters and of the state dict are those of that one."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_strip)
        self._register_load_state_dict_pre_hook(_put_back)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """*Raises*: NotImplementedError: a subclass says how the module is called."""
        raise NotImplementedError("Subclasses should implement forward().")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(WRAPPED), name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Yield the parameters by the names that they have in the module."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{WRAPPED}.", ""), p


class CheckpointWrapper(ActivationWrapper):
    """A module that is run again in the backward pass.

    checkpoint_impl : how; the other arguments are those of `checkpoint_fn`, `core.utils.checkpoint.checkpoint` without
        one.
    """

    def __init__(self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
                 checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        self._checkpoint, self._settings = checkpoint_fn or checkpoint, checkpoint_fn_kwargs
        if checkpoint_fn is None:
            self._settings = {"use_reentrant": checkpoint_impl is CheckpointImpl.REENTRANT, **checkpoint_fn_kwargs}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, which is run again in the backward pass."""

        def run(*given: Any) -> Any:
            named = dict(zip(kwargs, given[len(args) :], strict=True))
            return self._checkpoint_wrapped_module(*given[: len(args)], **named)

        return self._checkpoint(run, *args, *kwargs.values(), **self._settings)


def checkpoint_wrapper(module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
                       checkpoint_fn: Callable[..., Any] | None = None,
                       **checkpoint_fn_kwargs: Any) -> CheckpointWrapper:  # fmt: skip
    """Return a module that is run again in the backward pass: see `CheckpointWrapper`."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(model: Module,
                                   checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
                                   check_fn: Callable[[Module], bool] = lambda m: True,
                                   auto_wrap_policy: Callable[..., bool] | None = None) -> None:  # fmt: skip
    """Wrap those modules within a model that a function names, or a policy as of `FullyShardedDataParallel`."""
    for name, child in list(model.named_children()):
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn, auto_wrap_policy)
        chosen = check_fn(child) if auto_wrap_policy is None else auto_wrap_policy(
            module=child, recurse=False, nonwrapped_numel=sum(p.numel() for p in child.parameters()))  # fmt: skip
        if chosen:
            setattr(model, name, checkpoint_wrapper_fn(child))


def _strip(module: Module, state_dict: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    for key in [k for k in state_dict if k.startswith(f"{prefix}{WRAPPED}.")]:
        state_dict[prefix + key.removeprefix(f"{prefix}{WRAPPED}.")] = state_dict.pop(key)


def _put_back(state_dict: dict[str, Any], prefix: str, *ignored: Any) -> None:
    for key in [k for k in state_dict if k.startswith(prefix) and not k.startswith(f"{prefix}{WRAPPED}.")]:
        state_dict[f"{prefix}{WRAPPED}." + key.removeprefix(prefix)] = state_dict.pop(key)


__getattr__ = absent_names(__name__, "checkpoint_wrapper, which keeps nothing in place of moving it")
