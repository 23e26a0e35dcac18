"""Handles of hooks, under PyTorch's path ``utils.hooks``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.source import warn
from ..graph.node import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a hook that is not meant to be saved with its tensor.

    >>> import core
    >>> core.utils.hooks.unserializable_hook(print) is print
    True
    """
    try:
        f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    except AttributeError:  # what is written in C takes no attributes
        return f
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of hooks of a tensor that saving it loses.

    Hooks that `unserializable_hook` marked are passed over.
    """
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn(f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                 "function with @torch.utils.hooks.unserializable_hook to suppress this warning")  # fmt: skip
