"""What ``distributed.elastic`` gives to programs that are started by ``torchrun``."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["record"]

_F = TypeVar("_F", bound=Callable[..., Any])
multiprocessing = errors = sys.modules[__name__]  # PyTorch's files


def record(fn: _F, error_handler: Any = None) -> _F:
    """Return a program's main function, whose error is written to the file that TORCHELASTIC_ERROR_FILE names.

    >>> from core.distributed.elastic import record
    >>> record(abs)(-2)
    2
    """

    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            path = os.environ.get("TORCHELASTIC_ERROR_FILE")
            if path:
                told = {"message": f"{type(error).__name__}: {error}", "timestamp": str(int(time.time())),
                        "extraInfo": {"py_callstack": traceback.format_exc()}}  # fmt: skip
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"message": told}, file)
            raise

    return recorded  # type: ignore[return-value]
