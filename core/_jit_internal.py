"""PyTorch's names of what its scripting is told, in ``torch._jit_internal``: decorators that change nothing."""

from __future__ import annotations

from typing import Any

from .jit import Final, export, ignore, is_scripting, unused

__all__ = ["Final", "_copy_to_script_wrapper", "_overload", "_overload_method", "boolean_dispatch", "export", "ignore",
           "is_scripting", "unused", "weak_module", "weak_script_method"]  # fmt: skip


def _copy_to_script_wrapper(fn: Any) -> Any:
    """Return a function as it is."""
    return fn


_overload = _overload_method = weak_module = weak_script_method = _copy_to_script_wrapper


def boolean_dispatch(arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, module_name: str,
                     func_name: str) -> Any:  # fmt: skip
    """Return a function that calls one of two by an argument's truth."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    return fn
