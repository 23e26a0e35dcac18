"""The stand-in's `cupy.cuda`: devices, streams, events, graphs and memory, all told to the fake libcuda."""

import ctypes

from . import runtime
from .runtime import CUDARuntimeError, check, lib

__all__ = ["CUDARuntimeError", "check", "lib", "memory", "runtime"]


class Device:
    def __init__(self, device=None):
        self.id = runtime.getDevice() if device is None else int(device)
        self._before = []

    def __int__(self):
        return self.id

    def __eq__(self, other):
        return int(self) == int(other)

    def __enter__(self):
        self._before.append(runtime.getDevice())
        runtime.setDevice(self.id)
        return self

    def __exit__(self, *error):
        runtime.setDevice(self._before.pop())

    def use(self):
        runtime.setDevice(self.id)

    def synchronize(self):
        with self:
            check(lib.cuCtxSynchronize())

    compute_capability = "90"
    mem_info = property(lambda self: runtime.memGetInfo())


class Stream:
    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        made = ctypes.c_void_p()
        if not null:
            check(lib.cuStreamCreateWithPriority(ctypes.byref(made), 1, priority or 0))
        self.ptr, self.priority = made.value or 0, priority or 0
        self.device_id = -1 if null else runtime.getDevice()
        self._before = []

    def __del__(self):
        if self.ptr:
            lib.cuStreamDestroy_v2(self.ptr)

    def __eq__(self, other):
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self):
        return self.ptr

    def use(self):
        device = runtime.getDevice()
        if self.device_id not in (-1, device):
            raise RuntimeError(f"The device that the stream is created on ({self.device_id}) does not match with the "
                               f"current device ({device})")  # fmt: skip
        _streams[device] = self
        return self

    def __enter__(self):
        self._before.append(get_current_stream())
        return self.use()

    def __exit__(self, *error):
        _streams[runtime.getDevice()] = self._before.pop()

    done = property(lambda self: runtime.streamQuery(self.ptr) == 0)

    def synchronize(self):
        runtime.streamSynchronize(self.ptr)

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        check(lib.cuStreamWaitEvent(self.ptr, event.ptr, 0))

    def begin_capture(self, mode=None):
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        check(lib.cuStreamBeginCapture_v2(self.ptr, 2))

    def end_capture(self):
        made = ctypes.c_void_p()
        check(lib.cuStreamEndCapture(self.ptr, ctypes.byref(made)))
        return Graph(made.value)

    def is_capturing(self):
        return runtime.streamIsCapturing(self.ptr)


Stream.null = Stream(null=True)
_streams = {}


def get_current_stream(device_id=-1):
    return _streams.get(runtime.getDevice() if device_id == -1 else device_id, Stream.null)


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        made = ctypes.c_void_p()
        check(lib.cuEventCreate(ctypes.byref(made), 0))
        self.ptr = made.value

    def __del__(self):
        lib.cuEventDestroy_v2(self.ptr)

    done = property(lambda self: runtime.eventQuery(self.ptr) == 0)

    def record(self, stream=None):
        check(lib.cuEventRecord(self.ptr, (stream or get_current_stream()).ptr))

    def synchronize(self):
        check(lib.cuEventSynchronize(self.ptr))


def get_elapsed_time(start, end):
    ms = ctypes.c_float()
    check(lib.cuEventElapsedTime(ctypes.byref(ms), start.ptr, end.ptr))
    return ms.value


class Graph:
    def __init__(self, ptr):
        self.ptr = ptr

    def __del__(self):
        lib.cuGraphDestroy(self.ptr)

    def launch(self, stream=None):
        check(lib.cuGraphLaunch(self.ptr, (stream or get_current_stream()).ptr))

    def upload(self, stream=None):
        pass

    def debug_dot_str(self, flags=0):
        return f"digraph {{ {lib.fake_nodes(self.ptr)} }}"


from . import memory  # noqa: E402 - it stands on the streams
from .memory import (  # noqa: E402
    MemoryPointer,
    MemoryPool,
    UnownedMemory,
    alloc,
    alloc_pinned_memory,
    get_allocator,
    set_allocator,
    using_allocator,
)
