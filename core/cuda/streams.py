"""Streams and events. Under Triton's interpreter work is done when it is asked for: streams are in order by themselves,
an event is done when it is recorded, and its time is the clock's."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from ..backends.cuda import devices as _devices
from ..backends.cuda import faults as _faults
from ..backends.cuda.shared import retell
from ..base.device import device as Device
from .devices import index_of, library


class Stream:
    """Work that a GPU does in order; work of different streams may run side by side.

    device : on which one; the current one if None. priority : -1 for a stream that goes first.

    >>> import core
    >>> if core.cuda.is_available():
    ...     s = core.cuda.Stream()
    ...     with core.cuda.stream(s):
    ...         y = core.ones(2, device="cuda") + 1
    ...     core.cuda.current_stream().wait_stream(s)
    """

    _count = 0

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        index, cupy = index_of(device, "Stream"), library()
        self.device = Device("cuda", index)
        self._told: Any = None
        if cupy is None:
            Stream._count += 1
            self._number = Stream._count
            return
        with _devices.on(self.device):
            try:
                self._told = cupy.cuda.Stream(non_blocking=True, priority=priority)
            except RuntimeError as error:
                retell(error)

    @classmethod
    def _of(cls, told: Any, index: int) -> Stream:
        """Return a stream of CuPy's; None for the only one of the interpreter."""
        out = object.__new__(cls)
        out.device, out._told, out._number = Device("cuda", index), told, 0
        return out

    @property
    def cuda_stream(self) -> int:
        """CUDA's handle; 0 is the default stream."""
        return int(self._told.ptr) if self._told is not None else self._number

    stream_id = cuda_stream

    @property
    def device_index(self) -> int:
        return self.device.index or 0

    @property
    def device_type(self) -> int:
        """PyTorch's number of the kind of device."""
        return 1

    @property
    def priority(self) -> int:
        return int(getattr(self._told, "priority", 0)) if self._told is not None and self._told.ptr else 0

    def query(self) -> bool:
        """Return whether all of its work is done."""
        return True if self._told is None else _ask(lambda: bool(self._told.done))

    def synchronize(self) -> None:
        """Wait until all of its work is done."""
        if self._told is not None:
            _ask(self._told.synchronize)
        _faults.waited()

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after the work that the stream has so far."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What comes later in this stream waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What comes later in this stream waits for what `stream` has so far."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.cuda_stream, self.device) == (other.cuda_stream, other.device)

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __enter__(self) -> Stream:
        self._around = stream(self)
        self._around.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._around.__exit__(*error)

    def __repr__(self) -> str:
        return f"<core.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A mark in a stream: whether it was reached, waiting for it, the time between two.

    enable_timing : needed for `elapsed_time`. blocking : `synchronize` sleeps instead of spinning. device : said
    by programs that choose one by name; that of the stream counts.

    >>> import core
    >>> if core.cuda.is_available():
    ...     start, stop = (core.cuda.Event(enable_timing=True) for _ in range(2))
    ...     start.record()
    ...     y = core.ones(2, device="cuda") + 1
    ...     stop.record()
    ...     core.cuda.synchronize()
    ...     assert start.elapsed_time(stop) >= 0
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 external: bool = False, *, device: Any = None) -> None:  # fmt: skip
        self._timed, self._given = enable_timing, (blocking, not enable_timing, interprocess)
        self._told: Any = None
        self._device: Device | None = None
        self._ns = 0

    @property
    def cuda_event(self) -> int:
        """CUDA's handle; 0 before the first `record`."""
        return int(self._told.ptr) if self._told is not None else 0

    def record(self, stream: Stream | None = None) -> None:
        """Mark the place after the work that the stream (the current one if None) has so far."""
        cupy = library()
        if cupy is None:
            self._ns, self._device = perf_counter_ns(), Device("cuda", 0)
            return
        stream = current_stream() if stream is None else stream
        with _devices.on(stream.device):
            if self._told is None:
                self._device, self._told = stream.device, cupy.cuda.Event(*self._given)
            if self._device is not stream.device:
                raise RuntimeError(f"Event device {self._device} does not match recording stream's device "
                                   f"{stream.device}.")  # fmt: skip
            _ask(lambda: self._told.record(stream._told))

    def wait(self, stream: Stream | None = None) -> None:
        """What comes later in the stream (the current one if None) waits for this event."""
        if self._told is None:
            return
        waits = current_stream() if stream is None else stream
        with _devices.on(waits.device):
            _ask(lambda: waits._told.wait_event(self._told))

    def query(self) -> bool:
        """Return whether all the work before it is done; true for an event that was never recorded."""
        return True if self._told is None else _ask(lambda: bool(self._told.done))

    def synchronize(self) -> None:
        """Wait until the work before it is done."""
        if self._told is not None:
            _ask(self._told.synchronize)
        _faults.waited()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`.

        *Raises*: ValueError where an event was not made with ``enable_timing=True`` or not recorded; RuntimeError
        where one is not reached yet.
        """
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._device is None or end_event._device is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.\n"
                               "  remedy: end_event.synchronize() first")  # fmt: skip
        cupy = library()
        if cupy is None:
            return (end_event._ns - self._ns) / 1e6
        return _ask(lambda: float(cupy.cuda.get_elapsed_time(self._told, end_event._told)))

    def __repr__(self) -> str:
        return f"<core.cuda.Event {self.cuda_event:#x}>" if self._told is not None else "<core.cuda.Event>"


def _ask(call: Any) -> Any:
    """Ask CUDA; its errors in words."""
    try:
        return call()
    except RuntimeError as error:
        retell(error)


class stream:
    """A block whose work goes into `stream`, on its device; None changes nothing. `StreamContext` in PyTorch."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: tuple[int, Any] | None = None

    def __enter__(self) -> stream:
        if self.stream is not None and self.stream._told is not None:
            self._before = (_devices.current(), library().cuda.get_current_stream(self.stream.device_index))
            _devices.make_current(self.stream.device_index)
            self.stream._told.use()
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None and self.stream is not None:
            index, before = self._before
            _devices.make_current(self.stream.device_index)
            before.use()
            _devices.make_current(index)
            self._before = None


StreamContext = stream


def set_stream(stream: Stream | None) -> None:
    """Make `stream` the current one, and its device; None changes nothing. `with core.cuda.stream(s)` is better."""
    if stream is not None and stream._told is not None:
        _devices.make_current(stream.device_index)
        stream._told.use()


def current_stream(device: Any = None) -> Stream:
    """Return the stream that new work of a device (the current one if None) goes into."""
    index, cupy = index_of(device, "current_stream"), library()
    return Stream._of(None if cupy is None else cupy.cuda.get_current_stream(index), index)


def default_stream(device: Any = None) -> Stream:
    """Return the stream that work goes into where no other was chosen."""
    index, cupy = index_of(device, "default_stream"), library()
    return Stream._of(None if cupy is None else cupy.cuda.Stream.null, index)


def synchronize(device: Any = None) -> None:
    """Wait until a device (the current one if None) has done what it was told.

    *Raises*: `core.AcceleratorError` for what went wrong there in the meantime; an IndexError and its like for what a
    kernel has noted.

    >>> import core
    >>> if core.cuda.is_available():
    ...     core.cuda.synchronize()
    """
    index, cupy = index_of(device, "synchronize"), library()
    if cupy is not None:
        with _devices.on(Device("cuda", index)):
            _ask(cupy.cuda.runtime.deviceSynchronize)
    _faults.waited()
