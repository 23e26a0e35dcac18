"""Where a program's time goes: PyTorch's profiler, on core's observers.

Every op, node of the graph, backward pass, optimizer's step and named block is an event with its time. The times are
those of the calls in Python's thread; what a GPU does meanwhile is not measured here.

>>> import core
>>> with core.profiler.profile() as prof:
...     y = core.ones(2).exp().sum()
>>> sorted(e.key for e in prof.key_averages())
['exp', 'sum']
"""

from __future__ import annotations

import enum
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from ..base.errors import text
from .events import EventList, FunctionEvent, FunctionEventAvg
from .recording import Recorder, record_function

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerAction", "ProfilerActivity", "kineto_available",
           "profile", "record_function", "schedule", "supported_activities", "tensorboard_trace_handler"]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """What could be profiled; CPU is."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


class ProfilerAction(enum.Enum):
    """What a profile does in a step: nothing, warm up, record, or record and tell what it has."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be profiled: the CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Return False: PyTorch's own library of tracing is not here."""
    return False


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """Return what to do by the number of the step: rounds of `wait`, `warmup` and `active` steps.

    repeat : how many rounds, 0 for as many as come. skip_first : steps before the first round. skip_first_wait : other
        than 0, the first round has no `wait`.

    *Raises*: AssertionError for numbers below 0, or no active step.

    >>> from core.profiler import schedule
    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(k).name for k in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        at = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first:
            return ProfilerAction.NONE
        rounds, at = divmod(at, wait + warmup + active)
        if (repeat and rounds >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == wait + warmup + active - 1 else ProfilerAction.RECORD

    return action


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Record every step."""
    return ProfilerAction.RECORD


class profile:
    """Record what runs in a block, or between `start` and `stop`; with a schedule in the steps that it says.

    activities : the CPU is profiled, whatever is asked for.
    schedule : from the number of a step to what is done in it; `step` tells that one has ended.
    on_trace_ready : called with the profile when a round has ended.
    record_shapes, with_stack, with_flops, with_modules : keep inputs' shapes, the user's line, floating-point
        operations (of products, convolutions and attention), blocks of modules.
    profile_memory : without effect: `core.cuda.memory` and ``%%check`` tell of memory.

    Raises
    ------
    RuntimeError
        For results that are asked for before anything was recorded.
    """

    def __init__(self, *, activities: Iterable[Any] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, acc_events: bool = False, **ignored: Any) -> None:  # fmt: skip
        self.activities = set(activities) if activities else supported_activities()
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.acc_events = with_flops, with_modules, acc_events
        self.schedule, self.on_trace_ready = schedule or _default_schedule_fn, on_trace_ready
        self._steps = schedule is not None
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder: Recorder | None = None
        self._found: EventList | None = None
        self._step: record_function | None = None
        self._metadata: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @property
    def _recording(self) -> bool:
        return self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def start(self) -> None:
        """Begin."""
        self.start_ns = time.perf_counter_ns()
        self._turn(None)

    def stop(self) -> None:
        """End; a round that was being recorded is told."""
        self._end_step()
        if self._recorder is not None:
            self._end_round()

    def step(self) -> None:
        """Tell that a step has ended: the next one is done as the schedule says."""
        self._end_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        self._turn(before)

    def _turn(self, before: ProfilerAction | None) -> None:
        if self._recorder is not None and (before is ProfilerAction.RECORD_AND_SAVE or not self._recording):
            self._end_round()
        if self._recording and self._recorder is None:
            self._recorder = Recorder(self.record_shapes, self.with_stack, self.with_flops, self.with_modules)
            self._recorder.start()
        if self._steps and self._recording:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _end_round(self) -> None:
        assert self._recorder is not None
        self._recorder.stop()
        earlier = self._found or EventList() if self.acc_events else EventList()
        for e in earlier:
            e.cpu_children, e.cpu_parent = [], None
        self._found, self._recorder = EventList([*earlier, *self._recorder.events])._within(), None
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def events(self) -> EventList:
        """Return the events. *Raises*: RuntimeError where nothing was recorded."""
        if self._found is None:
            raise RuntimeError(text("Profiler didn't finish running", op="profiler.profile",
                                    needed="the end of the block, or a step that the schedule records",
                                    remedy="ask after the block, or in on_trace_ready"))  # fmt: skip
        return self._found

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **ignored: Any) -> EventList:
        """Return averages of events of one name."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: Any) -> None:
        """Write a trace that ``chrome://tracing`` and ui.perfetto.dev open."""
        self.events().export_chrome_trace(path)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write the time of each place of the program; ``with_stack=True`` keeps the places."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Keep a text with the profile."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep what a JSON text says with the profile."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Keep what a JSON text says with the profile."""
        self.add_metadata_json(key, value)


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None,
                              use_gzip: bool = False,
                              use_python_export: bool = False) -> Callable[[profile], None]:  # fmt: skip
    """Return what writes each round's trace into a folder, for `on_trace_ready`; Python writes it, always."""

    def handle(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        who = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{who}.{time.time_ns()}.pt.trace.json{'.gz' * use_gzip}"))

    return handle
