"""Launches on the fake libcuda, run by test_launch.py in a process of its own: prints what arrived there as JSON."""

import ctypes
import json
import struct
import sys
import time

import numpy as np

from triton_kernels import mode, notes, runtime
from triton_kernels.elementwise import build
from triton_kernels.loss import cross_entropy_forward
from triton_kernels.matmul import matmul_forward
from triton_kernels.optim import build as build_update
from triton_kernels.softmax import softmax_forward


class Launched(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64), ("stream", ctypes.c_uint64), ("grid", ctypes.c_uint32 * 3),
                ("block", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint32),
                ("parameters", ctypes.c_uint64 * 24)]  # fmt: skip


class Array:
    """A device array that is an address and a layout."""

    def __init__(self, address, like):
        self.address, self.shape, self.strides, self.dtype = address, like.shape, like.strides, like.dtype
        self.ndim, self.size, self.itemsize, self.flags = like.ndim, like.size, like.itemsize, like.flags


class Host:
    stream = 0x77
    waits = 0

    def __init__(self):
        self.uploaded = []

    def current_device(self):
        return 0

    def set_device(self, device):
        pass

    def current_stream(self, device):
        return self.stream

    def capability(self, device):
        return 9, 0

    def name(self, device):
        return "a fake GPU"

    def pointer(self, array):
        if not isinstance(array, Array):
            raise TypeError(f"a CUDA launch needs device arrays, got {type(array).__name__}")
        return array.address

    def empty(self, shape, dtype):
        return Array(0x7F00_0000_0000, np.empty(shape, dtype))

    def upload(self, array):
        self.uploaded.append(array)
        return Array(0x7E00_0000_0000 + 0x1000 * len(self.uploaded), array)

    def shared(self, n, dtype):
        self.notes = np.zeros(n, dtype)
        return self.notes, Array(0x7D00_0000_0000, self.notes)

    def synchronize(self, device):
        self.waits += 1


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


def fault(host, x):
    """A class out of range: the launch waits for nothing and raises nothing; a later look tells it, once."""
    slot = notes.slot("a test's", lambda i: IndexError(f"{i} is no class"))
    vectors = [Array(0xB000 + 0x1000 * i, np.empty(64, dtype)) for i, dtype in enumerate(["i8", "f4", "f4"])]
    cross_entropy_forward(x, *vectors, fault=slot)
    notes.check()
    host.notes[slot] = 201  # as the kernel notes the class 200
    cross_entropy_forward(x, *vectors, fault=slot)
    told = []
    for _ in range(2):
        try:
            notes.check()
        except IndexError as error:
            told.append([str(error), *error.__notes__])
    return {"told": told, "waits": host.waits}


def main():
    result = {"before": mode()}
    host = Host()
    runtime.connect(host)
    result["after"] = mode()
    library = ctypes.CDLL("libcuda.so.1")
    library.fake_last_launch.restype = ctypes.POINTER(Launched)

    def last():
        seen = library.fake_last_launch().contents
        return {"count": seen.count, "stream": seen.stream, "grid": list(seen.grid), "block": list(seen.block),
                "parameters": list(seen.parameters)}  # fmt: skip

    like = np.zeros((64, 128), np.float32)
    x, y, out = (Array(0x1000 + 0x10000 * i, like) for i in range(3))
    kernel = build("axpy", ["x", "y"], ["a"], ["t0 = (x * a)", "t1 = (t0 + y)"], "t1")
    kernel((x, y), (0.1,), out)
    result["axpy"] = last()
    result["float"] = struct.unpack("<d", struct.pack("<Q", result["axpy"]["parameters"][3]))[0]
    host.stream = 0x99
    kernel((y, x), (0.2,), out)
    result["again"] = last()
    plans = next(iter(kernel._launches.values()))._plans
    result["plans_aligned"] = len(plans)
    kernel((Array(0x1004, like), x), (0.1,), out)
    result["plans_unaligned"] = len(plans)
    result["unaligned"] = last()

    matmul_forward(x, Array(0x9000, np.zeros((128, 32), np.float32)), Array(0xA000, np.zeros((64, 32), np.float32)))
    result["matmul"] = last()
    softmax_forward(x, out)
    result["softmax"] = last()
    result["fault"] = fault(host, x)
    descent = build_update("descent", ["p", "g"], ["lr"], ["t0 = (p - g * lr)"], [("p", "t0")])
    before = last()["count"]
    descent(([x, out], [y, y]), (0.5,))
    result["update"] = {**last(), "launches": last()["count"] - before, "uploads": len(host.uploaded)}
    descent(([x, out], [y, y]), (0.25,))
    result["update_again"] = {**last(), "uploads": len(host.uploaded)}
    before = last()["count"]
    empty = Array(0, np.zeros((0, 3), np.float32))
    kernel((empty, empty), (1.0,), empty)
    result["empty_launches"] = last()["count"] - before
    try:
        kernel((like, y), (0.1,), out)
    except TypeError as error:
        result["error"] = str(error)

    def cost_us(function, n=3000):
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(n):
                function()
            best = min(best, (time.perf_counter() - start) / n)
        return best * 1e6

    plan = next(iter(plans.values()))
    frozen = next(iter(kernel._launches.values()))
    result["plan_us"] = cost_us(lambda: plan(0x77, (0x1000, 0x2000, 0x3000), (0.1,)))
    result["launch_us"] = cost_us(lambda: frozen((x, y, out), (0.1,)))
    result["elementwise_us"] = cost_us(lambda: kernel((x, y), (0.1,), out))
    result["softmax_us"] = cost_us(lambda: softmax_forward(x, out))
    result["tuned"] = tuned(host, kernel, softmax_forward, x, y, out, last)
    result["torch"] = "torch" in sys.modules
    print(json.dumps(result))


if __name__ == "__main__":
    main()
