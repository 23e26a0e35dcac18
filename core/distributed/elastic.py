"""What ``distributed.elastic`` gives to programs that are started by ``torchrun``."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

__all__ = ["ChildFailedError", "ProcessFailure", "record"]

_F = TypeVar("_F", bound=Callable[..., Any])
multiprocessing = errors = sys.modules[__name__]  # PyTorch's files


@dataclass
class ProcessFailure:
    """How a rank failed: its process, its exit code or minus the signal's number, and what the launcher said of it."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str = ""
    message: str = ""
    timestamp: int = field(default_factory=lambda: int(time.time()))

    def signal_name(self) -> str:
        """Return the name of the signal that ended it, "<N/A>" where none did."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"

    def timestamp_isoformat(self) -> str:
        """Return when that was."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Ranks of a job failed: `failures` says which, and how.

    >>> from core.distributed.elastic import ChildFailedError, ProcessFailure
    >>> error = ChildFailedError("train.py", {1: ProcessFailure(1, 4242, -9, message="Rank 1 was ended by SIGKILL.")})
    >>> error.get_first_failure()[0], str(error)
    (1, 'train.py failed: Rank 1 was ended by SIGKILL.')
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        super().__init__(f"{name} failed: {self.get_first_failure()[1].message}")

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return the rank that failed first, and how."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]


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
