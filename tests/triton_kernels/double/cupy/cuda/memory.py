"""The stand-in's memory: a pool over the fake libcuda's, blocks kept by their size as CuPy keeps them."""

import contextlib
import ctypes
import gc
import weakref

from . import runtime
from .runtime import CUDARuntimeError, check, lib


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        self._size, self._total, self._limit = size, total, limit
        limited = f", limit set to: {limit:,} bytes" if limit else ""
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes{limited}).")


class _Block:
    __slots__ = ("buffer", "device_id", "ptr", "size")

    def __init__(self, size):
        self.size = self.ptr = 0
        made = ctypes.c_uint64()
        if size:
            check(lib.cuMemAlloc_v2(ctypes.byref(made), size))
        self.ptr, self.size, self.device_id = made.value, size, runtime.getDevice()
        self.buffer = (ctypes.c_char * size).from_address(self.ptr) if size else bytearray(8)

    def __del__(self):
        if self.ptr and lib is not None:  # at the interpreter's end nothing is left to ask
            lib.cuMemFree_v2(self.ptr)


class _Memory:
    """A block in use; it goes back to its pool, if that is still there."""

    __slots__ = ("_pool", "block", "buffer", "device_id", "ptr", "size")

    def __init__(self, block, pool):
        self.block, self._pool = block, pool
        self.buffer, self.device_id, self.ptr, self.size = block.buffer, block.device_id, block.ptr, block.size

    def __del__(self):
        pool = self._pool()
        if pool is not None:
            pool.give_back(self.block)


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr, self.size, self.owner = ptr, size, owner
        self.device_id = runtime.getDevice() if device_id < 0 else device_id
        self.buffer = (ctypes.c_char * size).from_address(ptr)


class MemoryPointer:
    __slots__ = ("device_id", "mem", "offset", "ptr")

    def __init__(self, mem, offset):
        self.mem, self.offset, self.ptr, self.device_id = mem, offset, mem.ptr + offset, mem.device_id

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.offset + offset)

    def copy_from_host_async(self, source, size, stream=None):
        check(lib.fake_copy(self.ptr, source, size, _stream(stream), 0))

    def copy_to_host_async(self, target, size, stream=None):
        check(lib.fake_copy(target, self.ptr, size, _stream(stream), 0))

    def copy_from_device_async(self, source, size, stream=None):
        check(lib.fake_copy(self.ptr, source.ptr, size, _stream(stream), 0))

    def memset_async(self, value, size, stream=None):
        ctypes.memset(self.ptr, value, size)


def _stream(stream):
    from . import get_current_stream

    return (stream or get_current_stream()).ptr


class MemoryPool:
    def __init__(self, allocator=None):
        self._free, self._used, self._total = {}, {}, {}
        self._weakref = weakref.ref(self)

    def malloc(self, size):
        size = (size + 511) // 512 * 512
        device = runtime.getDevice()
        kept = self._free.get((device, size))
        block = kept.pop() if kept else self._new(size)
        self._used[device] = self._used.get(device, 0) + size
        return MemoryPointer(_Memory(block, self._weakref), 0)

    def _new(self, size):
        for attempt in range(3):
            try:
                block = _Block(size)
                self._total[block.device_id] = self._total.get(block.device_id, 0) + size
                return block
            except CUDARuntimeError as error:
                if error.status != runtime.errorMemoryAllocation:
                    raise
                if attempt == 1:
                    gc.collect()
                self.free_all_blocks()
        raise OutOfMemoryError(size, self.total_bytes())

    def give_back(self, block):
        self._used[block.device_id] -= block.size
        self._free.setdefault((block.device_id, block.size), []).append(block)

    def free_all_blocks(self, stream=None):
        for (device, size), blocks in self._free.items():
            self._total[device] -= size * len(blocks)
        self._free.clear()

    def used_bytes(self):
        return self._used.get(runtime.getDevice(), 0)

    def total_bytes(self):
        return self._total.get(runtime.getDevice(), 0)

    def free_bytes(self):
        return self.total_bytes() - self.used_bytes()

    def n_free_blocks(self):
        return sum(map(len, self._free.values()))

    def get_limit(self):
        return 0


default = MemoryPool()
_current = default.malloc
_local = None


def alloc(size):
    return (_local or _current)(size)


def get_allocator():
    return _local or _current


def set_allocator(allocator=None):
    global _current
    _current = allocator


@contextlib.contextmanager
def using_allocator(allocator=None):
    global _local
    before, _local = _local, allocator
    try:
        yield
    finally:
        _local = before


class PinnedMemoryPointer(bytearray):
    """Page-locked memory, which only its type tells from any other."""

    @property
    def ptr(self):
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


def alloc_pinned_memory(size):
    return PinnedMemoryPointer(max(size, 1))
