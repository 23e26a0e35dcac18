"""Python's ``multiprocessing``, with PyTorch's `spawn` and `start_processes`.

Tensors that go to another process are copied: there is no sharing of their memory, whatever strategy is chosen.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403 - its names are this module's
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from typing import Any

from .distributed import groups

__all__ = [*multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException",
           "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy",
           "set_sharing_strategy", "spawn", "start_processes"]  # fmt: skip

_strategy = ["file_system"]


class ProcessException(Exception):
    """A process that `spawn` started failed: `error_index` and `error_pid` say which."""

    def __init__(self, msg: str, error_index: int, pid: int | None) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process raised: its traceback is the message."""


class ProcessExitedException(ProcessException):
    """A process ended by itself or by a signal."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None, exit_code: int | None,
                 signal_name: str | None = None) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run(function: Callable[..., Any], number: int, args: tuple[Any, ...], told: Any) -> None:
    try:
        function(number, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        told.put((time.monotonic(), traceback.format_exc()))
        groups.abandon()
        sys.exit(1)
    except SystemExit as error:
        if error.code:
            groups.abandon(error.code if isinstance(error.code, int) else 1)
        raise


class ProcessContext:
    """Processes that run the same function, each with its number."""

    def __init__(self, processes: list[BaseProcess], told: list[Any]) -> None:
        self.processes, self._told = processes, told

    def pids(self) -> list[int | None]:
        """Return their numbers in the system."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all have ended, or one has failed: then the others are ended.

        *Raises*: ProcessRaisedException with its traceback; ProcessExitedException where it ended otherwise.
        """
        alive = {p.sentinel: k for k, p in enumerate(self.processes) if p.is_alive()}
        ended = connection.wait(alive, timeout=timeout) if alive else []
        wrong = [k for k, p in enumerate(self.processes) if p.exitcode not in (0, None)]
        if not wrong:
            return all(p.exitcode is not None for p in self.processes) if len(ended) == len(alive) else False
        # that of the first: others may have failed for want of it, and what ended without a word did not
        said = {k: self._told[k].get() for k in wrong if not self._told[k].empty()}
        failed = min(wrong, key=lambda k: said[k][0] if k in said else 0.0)
        for p in self.processes:
            if p.is_alive():
                p.terminate()
            p.join()
        code, pid = self.processes[failed].exitcode, self.processes[failed].pid
        if failed not in said:
            raise ProcessExitedException(f"process {failed} terminated with exit code {code}", failed, pid, code)
        raise ProcessRaisedException(f"\n\n-- Process {failed} terminated with the following error:\n"
                                     f"{said[failed][1]}", failed, pid)  # fmt: skip


SpawnContext = ProcessContext


def start_processes(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
                    daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:  # fmt: skip
    """Call ``fn(number, *args)`` in `nprocs` processes; wait for them with `join`, else return them.

    *Raises*: what `ProcessContext.join` does.
    """
    context: Any = get_context(start_method)
    told = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [context.Process(target=_run, args=(fn, k, args, told[k]), daemon=daemon) for k in range(nprocs)]
    for p in processes:
        p.start()
    found = ProcessContext(processes, told)
    if not join:
        return found
    while not found.join():
        pass
    return None


class _Spawn:
    """`spawn`, which is a function in PyTorch and the name of the file that has it."""

    def __call__(self, fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
                 daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:  # fmt: skip
        """Call ``fn(number, *args)`` in `nprocs` new processes."""
        return start_processes(fn, args, nprocs, join, daemon, start_method)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules[__name__], name)


spawn = _Spawn()


def get_all_sharing_strategies() -> set[str]:
    """Return the ways in which PyTorch shares memory: here it is copied."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """Return the way that was chosen, without effect."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose a way of sharing, without effect: memory is copied. *Raises*: ValueError for an unknown one."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"unknown sharing strategy {new_strategy!r}; needed: one of {get_all_sharing_strategies()}")
    _strategy[0] = new_strategy
