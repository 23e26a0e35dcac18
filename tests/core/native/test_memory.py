"""The cache of blocks: reuse, bounds, and that nothing leaks."""

from __future__ import annotations

import gc
import resource
import sys
from types import ModuleType

import numpy as np
import pytest


def test_large_blocks_are_used_again(kernels: ModuleType) -> None:
    kernels.release_memory()
    a = kernels.empty((512, 512), np.float32)
    where = a.ctypes.data
    assert where % 64 == 0
    assert a.flags.writeable
    assert a.flags.c_contiguous
    view = a[3:5]
    del a
    assert kernels.memory_stats()["cached_blocks"] == 0  # the view keeps it
    del view
    stats = kernels.memory_stats()
    assert stats["cached_blocks"] == 1
    assert stats["cached_bytes"] >= 512 * 512 * 4
    b = kernels.empty(512 * 512, "f")
    assert b.ctypes.data == where
    assert kernels.memory_stats()["hits"] == stats["hits"] + 1
    kernels.release_memory()


def test_small_arrays_are_left_to_numpy(kernels: ModuleType) -> None:
    before = kernels.memory_stats()
    x = kernels.empty((100,), np.float64)
    assert x.base is None
    assert kernels.memory_stats() == before
    assert kernels.empty((), np.int64).shape == ()
    assert kernels.empty((0, 3), bool).size == 0
    assert kernels.empty(70000, object)[0] is None


def test_the_cache_is_bounded(kernels: ModuleType) -> None:
    limit = kernels.memory_stats()["limit_bytes"]
    kernels.release_memory()
    try:
        kernels.set_memory_limit(1 << 20)
        arrays = [kernels.empty(n, np.uint8) for n in range(65536, 65536 + 300 * 4096, 4096)]
        live = kernels.memory_stats()["live_bytes"]
        assert live >= sum(a.nbytes for a in arrays)
        del arrays
        stats = kernels.memory_stats()
        assert stats["cached_bytes"] <= 1 << 20
        assert stats["live_bytes"] < live
        kernels.set_memory_limit(0)
        assert kernels.memory_stats()["cached_blocks"] == 0
    finally:
        kernels.set_memory_limit(limit)
    with pytest.raises(ValueError, match="bytes"):
        kernels.set_memory_limit(-1)
    with pytest.raises(ValueError, match="negative"):
        kernels.empty((-3, 5), np.float32)


def test_references_are_returned(kernels: ModuleType) -> None:
    x, y = np.ones((8, 8), "f"), np.ones((8, 8), "f")
    target = np.zeros(8, np.int64)
    numbers, counter = (0.5,) * 9, np.zeros((), "f")
    calls = [
        lambda: kernels.maps["add", "f"](x, y),
        lambda: kernels.maps["add", "f"](x.T, 2.0),
        lambda: kernels.maps["add", "f"].into(x, x, y),
        lambda: kernels.sum(x, (0,), True),
        lambda: kernels.argmax(x, 1),
        lambda: kernels.stats(x),
        lambda: kernels.softmax(x),
        lambda: kernels.softmax_backward(x, y),
        lambda: kernels.layer_norm(x, y[0], None, 1e-5),
        lambda: kernels.cross_entropy(x, target),
        lambda: kernels.embedding(x, target),
        lambda: kernels.embedding_backward(x, target, 8),
        lambda: kernels.updates["adam_step", "f"](numbers, [x], [y.T], [y.copy()], [y.copy()]),
        lambda: kernels.updates["adam_step", "f"](numbers, [x], [y], [y.T], [y.copy()]),
        lambda: kernels.count_up([counter]),
        lambda: kernels.updates["adagrad_step", "f"]((1.0,) * 5, [x], [y], [y.copy()]),
    ]
    bad = [
        lambda: kernels.maps["add", "f"](x, y.astype("d")),
        lambda: kernels.maps["add", "f"](x, "text"),
        lambda: kernels.sum(x, (5,)),
        lambda: kernels.softmax_backward(x, y[:3]),
        lambda: kernels.layer_norm(x, y, None, 1e-5),
        lambda: kernels.cross_entropy(x, target + 9),
        lambda: kernels.embedding(x, target - 1),
        lambda: kernels.updates["adam_step", "f"](numbers, [x], [y[:2]], [y], [y]),
        lambda: kernels.updates["adam_step", "f"](numbers, [x], [y.T, y], [y, 3], [y, y]),
        lambda: kernels.count_up([counter, 3]),
    ]

    def run() -> None:
        for call in calls:
            call()
        for call in bad:
            with pytest.raises((TypeError, ValueError, IndexError)):
                call()

    run()
    gc.collect()
    before = [sys.getrefcount(o) for o in (x, y, target, np.dtype("f"), np.dtype("d"), np.dtype("i8"))]
    for _ in range(50):
        run()
    gc.collect()
    after = [sys.getrefcount(o) for o in (x, y, target, np.dtype("f"), np.dtype("d"), np.dtype("i8"))]
    assert all(b - a < 20 for a, b in zip(before, after, strict=True)), (before, after)


def test_memory_does_not_grow(kernels: ModuleType) -> None:
    small, large = np.ones((30, 40), "f"), np.ones((300, 400), "f")

    def work(times: int) -> int:
        for _ in range(times):
            for x in (small, large):
                kernels.maps["add", "f"](x, x.T.copy().T)
                kernels.sum(x, (1,))
                kernels.layer_norm_backward(x, x, *kernels.layer_norm(x, None, None, 1e-5)[1:], None)
                kernels.stats(x)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KiB on Linux

    work(50)
    before = work(50)
    assert work(1000) - before < 4096
