"""Questions about sizes that are open in a trace: here every size is a number, and every question has its answer."""

from __future__ import annotations

from typing import Any

from ..base.absent import absent_names

__all__ = ["definitely_false", "definitely_true", "free_symbols", "free_unbacked_symbols", "get_proxy_mode",
           "guard_or_false", "guard_or_true", "statically_known_true"]  # fmt: skip

GuardOnDataDependentSymNode = type("GuardOnDataDependentSymNode", (RuntimeError,), {"__doc__": "Never raised here."})


def statically_known_true(x: Any) -> bool:
    """Return a truth: every size is known."""
    return bool(x)


guard_or_false = guard_or_true = definitely_true = statically_known_true


def definitely_false(x: Any) -> bool:
    """Return whether something is false: every size is known."""
    return not x


def free_symbols(val: Any) -> set[Any]:
    """Return the sizes that are open: none."""
    return set()


free_unbacked_symbols = free_symbols


def get_proxy_mode() -> None:
    """Return None: values of a trace are heard by `__torch_function__`, without a mode."""


__getattr__ = absent_names(__name__, "core.export captures a program from a call, core.fx.symbolic_trace without one")
