"""PyTorch's remote calls, for programs that import them whether or not they use them: there is one process here."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ..base.errors import text

__all__ = ["api", "init_rpc", "is_available", "rpc_async", "rpc_sync", "shutdown"]
api = sys.modules[__name__]  # PyTorch's file below it


def is_available() -> bool:
    """Return whether functions can be called in other processes: no."""
    return False


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise RuntimeError: there is no other process to call."""
    raise RuntimeError(text("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.",
                            op="distributed.rpc", needed="several processes, which are not here",
                            remedy="call the function itself"))  # fmt: skip


init_rpc = rpc_async = rpc_sync = shutdown = _all_gather = get_worker_info = remote = _refuse


def _require_initialized(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises as the others do."""

    @functools.wraps(func)
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse()

    return refused
