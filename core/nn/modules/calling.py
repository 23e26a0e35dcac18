"""Calling a module: forward, the hooks around it, and telling observers which module an op belongs to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...autograd.function import Function
from ...base.modes import state as mode
from ...base.source import warn
from ...events import observe
from ...graph.node import RemovableHandle
from ...tensors.tensor import Tensor, storage_of, wrap
from . import everywhere

_HOOKS = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks", "_forward_hooks_with_kwargs",
          "_forward_hooks_always_called", "_backward_pre_hooks", "_backward_hooks")  # fmt: skip


class Calling:
    """The part of `Module` that calls `forward`."""

    _forward_pre_hooks: dict[int, Any]
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _forward_hooks: dict[int, Any]
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _backward_pre_hooks: dict[int, Any]
    _backward_hooks: dict[int, Any]
    _is_full_backward_hook: bool | None

    def _init_hooks(self, put: Callable[[str, Any], None]) -> None:
        for name in _HOOKS:
            put(name, {})
        put("_is_full_backward_hook", None)
        self._init_state_hooks(put)  # type: ignore[attr-defined]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module computes; every subclass writes its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if observe.observers:
            return self._observed(args, kwargs)
        if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks or \
                everywhere.calls:  # fmt: skip
            return self._hooked(args, kwargs)
        return self.forward(*args, **kwargs)

    def _observed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        watching = observe.listening()
        try:
            observe.notify(watching, "enter_module", self)
            return self._hooked(args, kwargs)
        finally:
            observe.notify(watching, "exit_module", self)

    def _forward_entries(self) -> list[tuple[int, everywhere.Entry]]:
        """Return the hooks after forward, those of all modules first."""
        own = [(key, everywhere.Entry("forward", hook, key in self._forward_hooks_with_kwargs,
                                      key in self._forward_hooks_always_called))
               for key, hook in tuple(self._forward_hooks.items())]  # fmt: skip
        return everywhere.of("forward") + own

    def _hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        result = None
        try:
            args, kwargs = self._before(args, kwargs)
            pre = [*(e.hook for _, e in everywhere.of("backward_pre")), *self._backward_pre_hooks.values()]
            hooks = [*(e.hook for _, e in everywhere.of("backward")),
                     *(self._backward_hooks.values() if self._is_full_backward_hook is not False else ())]  # fmt: skip
            watch = _BackwardWatch(self, hooks, pre) if pre or hooks else None
            if watch is not None:
                args = watch.inputs(args)
            result = self.forward(*args, **kwargs)
            for key, entry in self._forward_entries():
                called.add(key)
                result = self._after(entry, args, kwargs, result)
            if self._backward_hooks and self._is_full_backward_hook is False:
                _watch_node(self, result)
            return result if watch is None else watch.outputs(result)
        except Exception:
            for key, entry in self._forward_entries():
                if entry.always_call and key not in called:
                    try:
                        result = self._after(entry, args, kwargs, result)
                    except Exception as e:
                        what = "global module" if key in everywhere.calls else "module"
                        warn(
                            f"{what} forward hook with ``always_call=True`` raised an exception that was silenced as "
                            f"another error was raised in forward: {e}",
                        )
            raise

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for _, entry in everywhere.of("forward_pre"):
            changed = entry.hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        for key, hook in tuple(self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                            f"{changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _after(self, entry: everywhere.Entry, args: Any, kwargs: Any, result: Any) -> Any:
        changed = entry.hook(self, args, kwargs, result) if entry.with_kwargs else entry.hook(self, args, result)
        return result if changed is None else changed

    # -- registering ---------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:  # fmt: skip
        """Call ``hook(module, args)`` (or, `with_kwargs`, also kwargs) before forward; its result replaces them."""
        handle = RemovableHandle(self._forward_pre_hooks, hook, first=prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:  # fmt: skip
        """Call ``hook(module, args, output)`` after forward; what it returns replaces the output.

        With `always_call` also when forward raised.
        """
        handle = RemovableHandle(self._forward_hooks, hook, first=prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the outputs are there; a tuple replaces them."""
        return RemovableHandle(self._backward_pre_hooks, hook, first=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are there; a tuple replaces
        `grad_input`."""
        self._one_kind(True)
        return RemovableHandle(self._backward_hooks, hook, first=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` for the last op of forward alone.

        `register_full_backward_hook` tells the gradients of the module's own inputs.
        """
        self._one_kind(False)
        return RemovableHandle(self._backward_hooks, hook)

    def _one_kind(self, full: bool) -> None:
        if self._is_full_backward_hook not in (None, full):
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on a single Module. "
                               "Please use only one of them.")  # fmt: skip
        put = super().__setattr__  # no attribute of the user's
        put("_is_full_backward_hook", full)


def _watch_node(module: Calling, result: Any) -> None:
    """Have the hooks of `register_backward_hook` hear of the node that made the first tensor in a result."""
    while not isinstance(result, Tensor):
        many = list(result.values()) if isinstance(result, dict) else result
        if not isinstance(many, tuple | list) or not many:
            return
        result = next((v for v in many if isinstance(v, Tensor)), many[0])
    if result.grad_fn is not None:
        for hook in module._backward_hooks.values():
            result.grad_fn.register_hook(functools.partial(hook, module))


class BackwardHookFunction(Function):
    """Hands tensors and gradients through: a node that hooks can watch."""

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        outs = []
        for a in args:
            out = wrap(a._a, a._kind)
            out._storage = storage_of(a)
            outs.append(out)
        ctx.mark_non_differentiable(*(o for o, a in zip(outs, args, strict=True) if not a.requires_grad))
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class _BackwardWatch:
    """The backward hooks of one call: a node before the module and one behind it tell them the gradients."""

    def __init__(self, module: Calling, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.in_places: list[int] | None = None
        self.out_places: list[int] | None = None
        self.n_in = self.n_out = 0

    def _tie(self, values: tuple[Any, ...], hook: Callable[..., Any]) -> tuple[tuple[Any, ...], list[int] | None]:
        places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        if not mode.enabled or not any(values[i].requires_grad for i in places):
            return values, None
        tied = BackwardHookFunction.apply(*(values[i] for i in places))
        next(t for t in tied if t.grad_fn is not None).grad_fn.register_hook(hook)
        many = list(values)
        for i, t in zip(places, tied, strict=True):
            many[i] = t
        return tuple(many), places

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.n_in = len(args)
        args, self.in_places = self._tie(args, self._inputs_arrived)
        return args

    def outputs(self, result: Any) -> Any:
        many = result if isinstance(result, tuple) else (result,)
        self.n_out = len(many)
        many, self.out_places = self._tie(many, self._outputs_arrived)
        return many if isinstance(result, tuple) else many[0]

    def _spread(self, places: list[int], values: tuple[Any, ...], n: int) -> tuple[Any, ...]:
        full: list[Any] = [None] * n
        for i, v in zip(places, values, strict=True):
            full[i] = v
        return tuple(full)

    def _outputs_arrived(self, _: Any, grads: tuple[Any, ...]) -> Any:
        places = self.out_places
        assert places is not None
        gs = self._spread(places, grads, self.n_out)
        for hook in self.pre_hooks:
            changed = hook(self.module, gs)
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(gs):
                    raise RuntimeError("Backward pre hook returned an invalid number of grad_output, "
                                       f"got {len(changed)}, but expected {len(gs)}")  # fmt: skip
                gs = changed
        self.grad_outputs = gs
        if self.in_places is None:  # no input requires a gradient: the hooks hear of the outputs alone
            for hook in self.hooks:
                found = hook(self.module, (None,) * self.n_in, gs)
                if found is not None and not (isinstance(found, tuple) and all(f is None for f in found)):
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should "
                                       "always return "
                                       "None or None for all gradients.")  # fmt: skip
            self.grad_outputs = None
        return tuple(gs[i] for i in places)

    def _inputs_arrived(self, grads: tuple[Any, ...], _: Any) -> Any:
        if self.grad_outputs is None:  # the gradient came round the module's output
            return None
        assert self.in_places is not None
        gs = self._spread(self.in_places, grads, self.n_in)
        for hook in self.hooks:
            changed = hook(self.module, gs, self.grad_outputs)
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(gs):
                    raise RuntimeError("Backward hook returned an invalid number of grad_input, "
                                       f"got {len(changed)}, but expected {len(gs)}")  # fmt: skip
                gs = changed
        self.grad_outputs = None
        return tuple(gs[i] for i in self.in_places)
