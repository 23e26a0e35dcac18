"""The observer that fills a profile, and `record_function`, whose blocks all profiles that run are told of."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from ..base.source import describe
from ..events import observe
from ..tensors.tensor import Tensor
from ..utils.flop_counter import flops_of
from .events import EventList, FunctionEvent

__all__ = ["Recorder", "record_function"]

running: list[Recorder] = []


class Recorder(observe.Observer):
    """Hears of ops, of nodes of the graph and of backward passes, and keeps each with its times."""

    def __init__(self, shapes: bool = False, places: bool = False, flops: bool = False, modules: bool = False) -> None:
        self.shapes, self.places, self.flops, self.modules = shapes, places, flops, modules
        self.events: list[FunctionEvent] = []
        self._entered: list[tuple[Any, int]] = []

    def start(self) -> None:
        """Begin to hear."""
        running.append(self)
        observe.add(self)

    def stop(self) -> None:
        """Hear no more."""
        observe.remove(self)
        if self in running:
            running.remove(self)

    def found(self) -> EventList:
        """Return what was heard."""
        return EventList(self.events)._within()

    def keep(self, name: str, start_ns: int, stop_ns: int, kind: str, place: Any = None, **told: Any) -> None:
        """Keep an event."""
        stack = [describe(place)] if self.places and place is not None else []
        self.events.append(FunctionEvent(name, start_ns / 1e3, stop_ns / 1e3, threading.get_ident(), kind, stack=stack,
                                         **told))  # fmt: skip

    def op(self, event: observe.OpEvent) -> None:
        shapes = [list(x.shape) if isinstance(x, Tensor) else [] for x in event.inputs] if self.shapes else None
        flops = flops_of(event.op, event.inputs, event.outputs, event.params) if self.flops else 0
        self.keep(event.op, event.start_ns, event.stop_ns, "cpu_op", event.place, input_shapes=shapes, flops=flops,
                  args={"kernel": event.kernel, "backend": event.backend})  # fmt: skip

    def backward(self, event: observe.BackwardEvent) -> None:
        self.keep(event.node.name(), event.start_ns, event.stop_ns, "cpu_op", event.node.place,
                  args={"kernel": event.kernel})  # fmt: skip

    def span(self, event: observe.SpanEvent) -> None:
        self.keep(event.name, event.start_ns, event.stop_ns, "cpu_op", event.place)

    def update(self, optimizer: Any, parameters: list[Any], before: bool) -> None:
        self._around(optimizer, before, f"Optimizer.step#{type(optimizer).__name__}.step")

    def enter_module(self, module: Any) -> None:
        if self.modules:
            self._around(module, True, "")

    def exit_module(self, module: Any) -> None:
        if self.modules:
            self._around(module, False, f"nn.Module: {type(module).__name__}")

    def _around(self, what: Any, begins: bool, name: str) -> None:
        if begins:
            self._entered.append((what, time.perf_counter_ns()))
        elif self._entered and self._entered[-1][0] is what:
            self.keep(name, self._entered.pop()[1], time.perf_counter_ns(), "user_annotation")


class record_function:
    """A block, or a function's calls, with a name in the profiles that run meanwhile.

    >>> import core
    >>> with core.profiler.profile() as prof, core.profiler.record_function("twice"):
    ...     y = core.ones(2) * 2
    >>> "twice" in [e.key for e in prof.key_averages()]
    True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._told: list[Recorder] = []
        self._start_ns = 0

    def __enter__(self) -> Self:
        self._told, self._start_ns = list(running), time.perf_counter_ns()
        return self

    def __exit__(self, *raised: object) -> None:
        stop_ns = time.perf_counter_ns()
        for recorder in self._told:
            if recorder in running:
                recorder.keep(self.name, self._start_ns, stop_ns, "user_annotation",
                              args={"args": self.args} if self.args else None)  # fmt: skip

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named
