"""PyTorch's older profiler, ``torch.autograd.profiler``: a block whose events are `core.profiler`'s."""

from __future__ import annotations

from typing import Any, Self

from ..base.absent import absent_class, absent_function
from ..base.errors import text
from ..profiler.events import EventList, FunctionEvent, FunctionEventAvg
from ..profiler.recording import Recorder, record_function

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "load_nvprof", "profile",
           "record_function"]  # fmt: skip

_OURS = "core.profiler.profile records ops by itself"
emit_nvtx = absent_class("emit_nvtx", __name__, "A block whose ops NVIDIA's tools see.", _OURS)
emit_itt = absent_class("emit_itt", __name__, "A block whose ops Intel's tools see.", _OURS)
load_nvprof = absent_function("load_nvprof", __name__, "Read what nvprof wrote.", _OURS)


class profile:
    """Record what runs in a block.

    enabled : False records nothing. record_shapes, with_flops, with_stack, with_modules : as `core.profiler.profile`'s.
    The others are PyTorch's, without effect.

    >>> import core
    >>> with core.autograd.profiler.profile() as prof:
    ...     y = core.ones(2).exp()
    >>> [e.name for e in prof.function_events]
    ['exp']
    """

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None,
                 record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_modules: bool = False, **ignored: Any) -> None:  # fmt: skip
        self.enabled, self.record_shapes, self.profile_memory = enabled, record_shapes, profile_memory
        self._recorder = Recorder(record_shapes, with_stack, with_flops, with_modules)
        self.function_events: EventList | None = None

    def __enter__(self) -> Self:
        if self.enabled:
            self._recorder.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self.enabled:
            self._recorder.stop()
            self.function_events = self._recorder.found()

    def _events(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError(text("Profiler didn't finish running", op="autograd.profiler.profile",
                                    remedy="ask after the block, with enabled=True"))  # fmt: skip
        return self.function_events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **ignored: Any) -> EventList:
        """Return averages of events of one name. *Raises*: RuntimeError within the block."""
        return self._events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """Return the average of all events."""
        return self._events().total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return a table of the events as text."""
        return self._events().table(*args, **kwargs)

    def export_chrome_trace(self, path: Any) -> None:
        """Write a trace that ``chrome://tracing`` and ui.perfetto.dev open."""
        self._events().export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in µs."""
        return self._events().self_cpu_time_total

    def __str__(self) -> str:
        return "<unfinished profile>" if self.function_events is None else str(self.function_events)
