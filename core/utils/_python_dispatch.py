"""PyTorch's ``utils._python_dispatch``, as far as packages ask it: no class here runs ops by itself."""

from __future__ import annotations

from typing import Any

from ..base.absent import absent_class

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]

TorchDispatchMode = absent_class("TorchDispatchMode", __name__, "A block that is told of every op.",
                                 "core.events.observe.Observer hears of every op")  # fmt: skip


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Return whether a tensor is made of others, as ``__tensor_flatten__`` says of its class."""
    return hasattr(type(t), "__tensor_flatten__") and hasattr(type(t), "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether tensors of a class are made of others."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def _get_current_dispatch_mode() -> None:
    """Return None: there is none."""


def _disable_current_modes() -> list[Any]:
    """Return the blocks that were left: none."""
    return []
