"""What hooks put off to the end of the backward pass that runs: PyTorch's ``Variable._execution_engine``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import text
from ..base.modes import state as mode


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call `callback` when the backward pass that runs in this thread has served all leaves, after those queued before.

    *Raises*: RuntimeError where none runs.

    >>> import core
    >>> from core.autograd.put_off import queue_callback
    >>> x = core.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: queue_callback(lambda: print("all there:", x.grad.tolist())))
    >>> x.sum().backward()
    all there: [1.0, 1.0]
    """
    task = mode.task
    if task is None:
        raise RuntimeError(
            text("Final callbacks can only be installed during backward pass.", op="queue_callback",
                 came="no backward pass in this thread", remedy="queue it in a hook of a tensor or of a node")
        )  # fmt: skip
    waiting = mode.__dict__.setdefault("callbacks", [])
    waiting.append((task, callback))


def finish() -> None:
    """Run what was put off to the end of this thread's pass, and what these put off in turn."""
    waiting = mode.__dict__.get("callbacks")
    while waiting:
        found = next((k for k, (task, _) in enumerate(waiting) if task is mode.task), None)
        if found is None:
            return
        waiting.pop(found)[1]()
    mode.__dict__.pop("callbacks", None)


class Engine:
    """PyTorch's name for what runs backward passes, as far as packages call it."""

    queue_callback = staticmethod(queue_callback)
