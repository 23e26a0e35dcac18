"""Launches on the fake libcuda, run by test_launch.py in a process of its own: prints what arrived there as JSON."""

import ctypes
import json
import struct
import sys
import timeit

import cupy
import numpy as np
import triton
import triton.language as tl

from triton_kernels import mode, notes, runtime
from triton_kernels.elementwise import build
from triton_kernels.loss import cross_entropy_forward
from triton_kernels.optim import build as build_update
from triton_kernels.softmax import softmax_forward


class Launched(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64), ("stream", ctypes.c_uint64), ("grid", ctypes.c_uint32 * 3),
                ("block", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint32),
                ("parameters", ctypes.c_uint64 * 24)]  # fmt: skip


@triton.jit
def mixed_kernel(x_ptr, wide: tl.float64, narrow, small, one, large, out_ptr_offset, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x_ptr + i) + wide.to(tl.float32) + narrow + small + one + large.to(tl.float32)
    tl.store(x_ptr + i + out_ptr_offset, value)


def tuned(host, kernel, softmax_forward, x, y, out, last):
    """What is launched once results are stored: of the same text, of another, and one that the space forbids."""
    from triton_kernels.softmax import softmax_kernel
    from triton_kernels.tune.sources import source_of
    from triton_kernels.tune.store import Store

    def store(name, source, shape, config):
        key = {"kernel": name, "source": source, "device": runtime.device_name(), "shape": shape, "dtype": "float32",
               "mode": "cuda"}  # fmt: skip
        with Store() as kept:
            kept.win(key, kept.begin(key, {}, "random"), {"config": config, "ratio": 0.5, "low": 0.4, "high": 0.6})

    store("axpy_kernel", source_of(kernel.kernel((), frozenset(), 0)), [8192], {"BLOCK": 2048, "num_warps": 4})
    store("softmax_kernel", "the hash of another text", [64, 128], {"BLOCK": 4096, "ROWS": 1, "num_warps": 8})
    kernel((x, y), (0.1,), out)
    seen = {"axpy": last()}
    softmax_forward(x, out)
    seen["stale"] = last()
    store("softmax_kernel", source_of(softmax_kernel), [64, 128], {"BLOCK": 256, "ROWS": 4, "num_warps": 8})
    softmax_forward(x, out)
    seen["illegal"] = last()
    store("softmax_kernel", source_of(softmax_kernel), [64, 128], {"BLOCK": 1024, "ROWS": 1, "num_warps": 8})
    softmax_forward(x, out)
    return {**seen, "softmax": last(), "device": runtime.device_name()}


def fault(library, x):
    """A class out of range: the launch waits for nothing and raises nothing; a later look tells it, once."""
    slot = notes.slot("a test's", lambda i: IndexError(f"{i} is no class"))
    vectors = [cupy.empty((64,), dtype) for dtype in ("i8", "f4", "f4")]
    waits = library.fake_waits()
    cross_entropy_forward(x, *vectors, fault=slot)
    notes.check()
    ((seen, _),) = notes._notes.values()
    seen[slot] = 201  # as the kernel notes the class 200
    cross_entropy_forward(x, *vectors, fault=slot)
    told = []
    for _ in range(2):
        try:
            notes.check()
        except IndexError as error:
            told.append([str(error), *error.__notes__])
    return {"told": told, "waits": library.fake_waits() - waits}


def main():
    result = {"before": mode()}
    from core import native  # its plan in C is lent to the launches

    runtime.planner = native.module.Plan
    runtime.connect(cupy)
    result["after"] = mode()
    library = ctypes.CDLL("libcuda.so.1")
    library.fake_last_launch.restype = ctypes.POINTER(Launched)

    def last():
        seen = library.fake_last_launch().contents
        return {"count": seen.count, "stream": seen.stream, "grid": list(seen.grid), "block": list(seen.block),
                "shared_bytes": seen.shared_bytes, "parameters": list(seen.parameters)}  # fmt: skip

    streams = cupy.cuda.Stream(), cupy.cuda.Stream()
    streams[0].use()
    x, y, out = (cupy.empty((64, 128), np.float32) for _ in range(3))
    result["addresses"] = [a.data.ptr for a in (x, y, out)]
    result["stream"], result["other_stream"] = (s.ptr for s in streams)
    kernel = build("axpy", ["x", "y"], ["a"], ["t0 = (x * a)", "t1 = (t0 + y)"], "t1")
    kernel((x, y), (0.1,), out)
    result["axpy"] = last()
    result["float"] = struct.unpack("<d", struct.pack("<Q", result["axpy"]["parameters"][3]))[0]
    streams[1].use()
    kernel((y, x), (0.2,), out)
    result["again"] = last()
    launch = next(iter(kernel._launches.values()))
    result["plans_aligned"] = len(launch._plans)
    room = cupy.empty((8193,), np.float32)
    shifted = cupy.ndarray((64, 128), np.float32, room.data.__class__(room.data.mem, 4))
    kernel((shifted, x), (0.1,), out)
    result["plans_unaligned"] = len(launch._plans)
    result["unaligned"] = last()
    result["unaligned"]["parameters"][0] += result["addresses"][0] - room.data.ptr

    softmax_forward(x, out)
    result["softmax"] = last()

    def both(planner):
        runtime.planner = planner
        one = runtime.Launch(mixed_kernel, (3, 2), (7, 1, 2**40, 4096), {"N": 128}, num_warps=2)
        one((x,), (0.1, 0.25))
        result["kind_of_plan"] = type(next(iter(one._plans.values()))).__name__
        return last()

    result["by_triton"], result["in_c"] = both(None), both(native.module.Plan)

    uploads = []
    host = runtime.host()
    upload, host.upload = host.upload, lambda array: uploads.append(array) or upload(array)
    descent = build_update("descent", ["p", "g"], ["lr"], ["t0 = (p - g * lr)"], [("p", "t0")])
    before = last()["count"]
    descent(([x, out], [y, y]), (0.5,))
    result["update"] = {**last(), "launches": last()["count"] - before, "uploads": len(uploads)}
    descent(([x, out], [y, y]), (0.25,))
    result["update_again"] = {**last(), "uploads": len(uploads)}
    before = last()["count"]
    empty = cupy.empty((0, 3), np.float32)
    kernel((empty, empty), (1.0,), empty)
    result["empty_launches"] = last()["count"] - before
    try:
        kernel((np.zeros((64, 128), np.float32), y), (0.1,), out)
    except TypeError as error:
        result["error"] = str(error)

    def cost_us(function):
        return min(timeit.repeat(function, number=50, repeat=200)) / 50 * 1e6

    result["launch_us"] = cost_us(lambda: launch((x, y, out), (0.1,)))
    result["elementwise_us"] = cost_us(lambda: kernel((x, y), (0.1,), out))
    result["softmax_us"] = cost_us(lambda: softmax_forward(x, out))
    result["fault"] = fault(library, x)
    result["tuned"] = tuned(host, kernel, softmax_forward, x, y, out, last)
    result["torch"] = "torch" in sys.modules
    print(json.dumps(result))


if __name__ == "__main__":
    main()
