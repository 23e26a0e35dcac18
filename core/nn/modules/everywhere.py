"""Hooks of all modules: those that `nn.modules.module.register_module_...` registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...graph.node import RemovableHandle


class Entry(NamedTuple):
    """A hook of all modules: of which kind, and how it is called."""

    kind: str
    hook: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


calls: dict[int, Entry] = {}  # around forward and backward; asked for its truth at every call of a module
registrations: dict[int, Entry] = {}


def of(kind: str, among: dict[int, Entry] = calls) -> list[tuple[int, Entry]]:
    """Return the hooks of one kind, in their order."""
    return [(key, e) for key, e in tuple(among.items()) if e.kind == kind] if among else []


class Hooks(Mapping[int, Callable[..., Any]]):
    """The hooks of one kind by their numbers: what packages read as ``_global_forward_hooks`` and its like."""

    def __init__(self, kind: str, among: dict[int, Entry]) -> None:
        self._kind, self._among = kind, among

    def __getitem__(self, key: int) -> Callable[..., Any]:
        return dict(of(self._kind, self._among))[key].hook

    def __iter__(self) -> Iterator[int]:
        return (key for key, _ in of(self._kind, self._among))

    def __len__(self) -> int:
        return len(of(self._kind, self._among))


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """Return what is registered in the place of `value`, after the hooks have seen it."""
    for _, e in of(kind, registrations):
        changed = e.hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def _add(among: dict[int, Entry], kind: str, hook: Callable[..., Any], *flags: bool) -> RemovableHandle:
    handle = RemovableHandle(among, hook)
    among[handle.id] = Entry(kind, hook, *flags)
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every module's forward, ahead of its own hooks; what it returns replaces args.

    >>> import core
    >>> from core.nn.modules.module import register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(module)):
    ...     core.nn.Tanh()(core.zeros(1))
    Tanh()
    tensor([0.])
    """
    return _add(calls, "forward_pre", hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False,
                                 always_call: bool = False) -> RemovableHandle:  # fmt: skip
    """Call ``hook(module, args, output)`` after every module's forward, ahead of its own hooks.

    The flags are those of `Module.register_forward_hook`.
    """
    return _add(calls, "forward", hook, with_kwargs, always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` for every module when the gradients of its outputs are there."""
    return _add(calls, "backward_pre", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` for every module when the gradients of its inputs are there."""
    return _add(calls, "backward", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As `register_module_full_backward_hook`, which is its newer name."""
    return register_module_full_backward_hook(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a parameter is registered; what it returns is registered instead."""
    return _add(registrations, "parameter", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a buffer is registered; what it returns is registered instead."""
    return _add(registrations, "buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, child)`` when a child is registered; what it returns is registered instead."""
    return _add(registrations, "module", hook)
