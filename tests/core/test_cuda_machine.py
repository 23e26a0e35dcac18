"""`core.cuda` on a machine whose GPU is none: the fake libcuda and the stand-in for CuPy (tests/fake_gpu.py).

Kernels compute nothing there, so what is looked at is what the device is told: streams, events, memory, graphs, faults.
Each script runs once, in a process of its own, and says what it saw as JSON.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fake_gpu import run, script

START = """
import json, gc, timeit, warnings
import cupy, core
lib = cupy.cuda.lib
seen = {}
def said(f):
    try:
        f()
    except Exception as e:
        return [type(e).__name__, str(e)]
    return ["", ""]
"""


@pytest.fixture(scope="module")
def one() -> Any:
    return run(START + """
x = core.ones(64, 128, device="cuda")
seen["count"] = core.cuda.device_count(), core.cuda.current_device(), core.cuda.get_device_capability()
seen["name"] = core.cuda.get_device_name(), core.cuda.get_device_properties().total_memory

# streams and events
s = core.cuda.Stream()
with core.cuda.stream(s):
    seen["inside"] = core.cuda.current_stream() == s, cupy.cuda.get_current_stream().ptr == s.cuda_stream
seen["outside"] = core.cuda.current_stream() == core.cuda.default_stream()
with s:
    seen["with"] = core.cuda.current_stream() == s
lib.fake_hold(1)
start, stop, other = (core.cuda.Event(enable_timing=True) for _ in range(3))
start.record(); y = x + 1; stop.record()
seen["pending"] = start.query(), s.query(), said(lambda: start.elapsed_time(stop))
seen["unrecorded"] = said(lambda: start.elapsed_time(other))
seen["untimed"] = said(lambda: start.elapsed_time(core.cuda.Event()))
stop.synchronize()
seen["done"] = start.query(), start.elapsed_time(stop) >= 0
s.wait_stream(core.cuda.current_stream())

# memory
core.cuda.reset_peak_memory_stats()
before = core.cuda.memory_allocated()
big = core.zeros(1 << 18, device="cuda")
seen["grown"] = core.cuda.memory_allocated() - before
del big
seen["shrunk"] = core.cuda.memory_allocated() - before
seen["peak"] = core.cuda.max_memory_allocated() - before
seen["reserved"] = core.cuda.memory_reserved() - core.cuda.memory_allocated() >= 1 << 20
core.cuda.empty_cache()
seen["emptied"] = core.cuda.memory_reserved() - core.cuda.memory_allocated()
seen["stats"] = core.cuda.memory_stats()["allocated_bytes.all.peak"] - before
seen["summary"] = core.cuda.memory_summary()
seen["info"] = core.cuda.mem_get_info()

# pinned memory
p = core.ones(1024).pin_memory()
waits = lib.fake_waits()
d = p.to("cuda", non_blocking=True)
seen["async"] = lib.fake_waits() - waits, d._a.get().tolist() == [1.0] * 1024
d = p.to("cuda")
seen["blocking"] = lib.fake_waits() - waits
h = d.to("cpu", non_blocking=True)
core.cuda.synchronize()
seen["back"] = h.is_pinned(), h.tolist() == [1.0] * 1024
seen["scalar"] = str(core.tensor(3).to("cuda").device)

# memory that another stream uses
gc.collect()
lib.fake_hold(1)
used = core.cuda.memory_allocated()
lent = core.ones(1 << 14, device="cuda")
lent.record_stream(s)
del lent
seen["lent"] = core.cuda.memory_allocated() - used
core.cuda.synchronize()
core.ones(4).pin_memory().to("cuda", non_blocking=True)  # the next such copy looks at those before
seen["given_back"] = core.cuda.memory_allocated() - used

# graphs
w = core.ones(128, 128, device="cuda", requires_grad=True)
(x * 2).relu()
g, used = core.cuda.CUDAGraph(), core.cuda.memory_allocated()
launches = lambda: lib_last().count
import ctypes
class Launched(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64), ("stream", ctypes.c_uint64), ("rest", ctypes.c_uint32 * 7)]
lib.fake_last_launch.restype = ctypes.POINTER(Launched)
lib_last = lambda: lib.fake_last_launch().contents
first = launches()
with core.cuda.graph(g):
    seen["capturing"] = core.cuda.is_current_stream_capturing()
    out = (x * 2).relu()
seen["captured"] = launches() - first, g.describe(), core.cuda.memory_allocated() - used
pool = cupy.get_default_memory_pool().used_bytes()
g.replay(); g.replay()
seen["replayed"] = launches() - first
out_at = out._a.data.ptr
del out
seen["own_pool"] = (x * 2)._a.data.ptr != out_at
def wrong():
    with core.cuda.graph(core.cuda.CUDAGraph()):
        (x * 2).sum().item()
seen["item"] = said(wrong)
def upload():
    with core.cuda.graph(core.cuda.CUDAGraph()):
        core.ones(3).to("cuda")
seen["upload"] = said(upload)
strange = core.Generator("cuda")
def drawn():
    with core.cuda.graph(core.cuda.CUDAGraph()):
        core.rand(3, device="cuda", generator=strange)
seen["drawn"] = said(drawn)
def default():
    core.cuda.CUDAGraph().capture_begin()
seen["default"] = said(default)
seen["empty"] = said(core.cuda.CUDAGraph().replay)
seen["usable"] = said(lambda: (x + 1).sum())
linear = core.nn.Linear(128, 4).to("cuda")
f = core.cuda.make_graphed_callables(linear, (x,))
o = f(core.ones(64, 128, device="cuda"))
o.sum().backward()
seen["graphed"] = list(o.shape), list(linear.weight.grad.shape), f is linear
seen["wrong_shape"] = said(lambda: f(core.ones(3, 128, device="cuda")))

# the way of a + b
a, b = core.ones(64, 128, device="cuda"), core.ones(64, 128, device="cuda")
us = lambda f: min(timeit.repeat(f, number=50, repeat=200)) / 50 * 1e6
seen["dispatch_us"] = us(lambda: a + b)
first = launches(); a + b; a + 2.0; 2.0 - a; -a
seen["ways"] = launches() - first
import sys
seen["torch"] = "torch" in sys.modules
print(json.dumps(seen))
""", FAKE_PARAMETERS=4)  # fmt: skip


@pytest.mark.by_turns
def test_the_device(one: Any) -> None:
    assert one["count"] == [1, 0, [9, 0]]
    assert one["name"] == ["a fake GPU", 64 << 20]
    assert one["torch"] is False


def test_streams_and_events(one: Any) -> None:
    assert one["inside"] == [True, True]
    assert one["outside"] is one["with"] is True
    assert one["pending"][:2] == [False, False]
    assert one["pending"][2] == ["RuntimeError", "Both events must be completed before calculating elapsed time.\n"
                                 "  remedy: end_event.synchronize() first"]  # fmt: skip
    assert one["unrecorded"] == ["ValueError", "Both events must be recorded before calculating elapsed time."]
    assert one["untimed"][0] == "ValueError"
    assert one["done"] == [True, True]


def test_memory_is_counted(one: Any) -> None:
    assert one["grown"] == one["peak"] == one["stats"] == 1 << 20
    assert one["shrunk"] == one["emptied"] == 0
    assert one["reserved"] is True
    assert one["info"][1] == 64 << 20
    assert "held by:" in one["summary"]
    assert "a tensor (64, 128) float32" in one["summary"]


def test_pinned_memory_is_copied_without_a_wait(one: Any) -> None:
    assert one["async"] == [0, True]
    assert one["blocking"] == 1
    assert one["back"] == [True, True]
    assert one["scalar"] == "cuda:0"


def test_memory_that_another_stream_uses_is_kept_until_it_is_through(one: Any) -> None:
    assert one["lent"] == 1 << 16
    assert one["given_back"] <= 1024


def test_a_graph_captures_and_replays(one: Any) -> None:
    assert one["capturing"] is True
    count, words, grown = one["captured"]
    assert (count, words) == (0, "a CUDA graph of 2 launches (mul_kernel, relu_kernel)")
    assert grown == 64 * 128 * 4  # what is alive of it; its other array went back to its own pool
    assert one["replayed"] == 4
    assert one["own_pool"] is True
    assert one["graphed"] == [[64, 4], [4, 128], True]
    assert "shapes and dtypes of its samples" in one["wrong_shape"][1]


def test_what_a_graph_cannot_hold_is_said(one: Any) -> None:
    assert one["item"][0] == "AcceleratorError"
    assert "no .item()" in one["item"][1]
    assert "unless the CPU tensor is pinned" in one["upload"][1]
    assert "random numbers of a generator that the graph does not know" in one["drawn"][1]
    assert "non-default stream" in one["default"][1]
    assert "without a preceding successful capture" in one["empty"][1]
    assert one["usable"] == ["", ""]


def test_the_dispatch_of_a_sum_is_cheap(one: Any) -> None:
    """Far from the figure, which `python -m lab bench launch` takes; machines that run tests have other work too."""
    assert one["dispatch_us"] < 60
    assert one["ways"] == 4


@pytest.fixture(scope="module")
def two() -> Any:
    return run(
        START
        + """
a, b = core.ones(8, 8, device="cuda:1"), core.ones(8, 8, device="cuda")
where = lambda t: [str(t.device), t._a.data.device_id]
seen["made"] = where(a), where(b), where(a + a), where(a.to("cuda:0")), cupy.cuda.runtime.getDevice()
seen["mixed"] = said(lambda: a + b)
seen["host"] = said(lambda: a + core.ones(8, 8))
w = core.randn(8, 4, device="cuda:1", requires_grad=True)
((a @ w).softmax(-1).to("cuda:0") * 2).sum().backward()
optimizer = core.optim.AdamW([w]); optimizer.step(); optimizer.step()
seen["grad"] = where(w.grad), where(w), cupy.cuda.runtime.getDevice()
with core.no_grad():
    w.mul_(2); w[0] = 1.0
with core.cuda.device(1):
    seen["current"] = core.cuda.current_device(), where(core.zeros(3, device="cuda")), str(core.cuda.Stream().device)
m = core.nn.Linear(8, 8, device="cuda:1")
F = core.nn.functional
seen["ways"] = [where(t) for t in (m(a), F.dropout(a), F.layer_norm(a, (8,)), a.sort().values, a[0], a.cumsum(0),
                                   core.cat([a, a]), core.stack([a, a]), a.std(), core.linalg.norm(a))]
seen["missing"] = said(lambda: core.ones(2, device="cuda:3"))
seen["memory"] = core.cuda.memory_allocated(0) > 0, core.cuda.memory_allocated(1) > core.cuda.memory_allocated(0)
from triton_kernels import runtime
from triton_kernels.elementwise import build
k = build("axpy", ["x", "y"], ["a"], ["t0 = (x * a)", "t1 = (t0 + y)"], "t1")
seen["launch"] = said(lambda: k((a._a, b._a), (1.0,), b._a))
k((a._a, a._a), (1.0,), core.empty(8, 8, device="cuda:1")._a)  # the current device is 0: launched on the array's
seen["after"] = cupy.cuda.runtime.getDevice()
core.cuda.set_device(1)
seen["set"] = where(core.ones(2, device="cuda"))
print(json.dumps(seen))
""",
        FAKE_DEVICES=2,
    )


@pytest.mark.by_turns
def test_two_gpus(two: Any) -> None:
    assert two["made"] == [["cuda:1", 1], ["cuda:0", 0], ["cuda:1", 1], ["cuda:0", 0], 0]
    assert two["grad"] == [["cuda:1", 1], ["cuda:1", 1], 0]
    assert two["current"] == [1, ["cuda:1", 1], "cuda:1"]
    assert two["ways"] == [["cuda:1", 1]] * 10
    assert two["memory"] == [True, True]
    assert (two["after"], two["set"]) == (0, ["cuda:1", 1])


def test_two_gpus_in_one_op_are_refused(two: Any) -> None:
    phrase = "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!"
    assert two["mixed"][0] == "RuntimeError"
    assert two["mixed"][1].startswith(phrase)
    assert "cuda:1 and cpu!" in two["host"][1]
    assert "its arrays are on the devices [0, 1]" in two["launch"][1]
    assert two["missing"][1].startswith("CUDA error: invalid device ordinal")


FAULTS = (
    START
    + """
import triton, triton.language as tl
x = core.ones(8, 8, device="cuda")
@triton.jit
def mine_kernel(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)
@triton.jit
def broken_kernel(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), undefined_thing(B))
fine = lambda: (x + 1).sum()
mine_kernel[(1,)](x, 64, B=64)
seen["compile"] = said(lambda: broken_kernel[(1,)](x, 64, B=64)), said(fine)
lib.fake_inject(b"cuMemAlloc_v2", 2, 0)
seen["retried"] = said(lambda: core.zeros(1 << 20, device="cuda"))
held = core.ones(1 << 20, device="cuda")
seen["memory"] = said(lambda: core.zeros(10**8, device="cuda")), said(fine)
lib.fake_inject(b"cuModuleLoadData", 2, 0)
seen["load"] = said(lambda: core.tan(x)), said(lambda: core.tan(x))
lib.fake_inject(b"cuLaunchKernelEx", 701, 0)
seen["resources"] = said(lambda: core.cos(x)), said(lambda: core.cos(x))
x - 1
lib.fake_inject(b"cuLaunchKernelEx", 700, 0)
seen["access"] = said(lambda: mine_kernel[(1,)](x, 64, B=64)), said(lambda: x + 1), said(core.cuda.synchronize)
seen["cpu"] = (core.ones(2) + 1).tolist()
seen["item"] = said(lambda: x.sum().item()), said(lambda: x.cpu()), said(lambda: repr(x))
print(json.dumps(seen))
"""
)


@pytest.fixture(scope="module")
def faults() -> Any:
    return run(script("faults.py", FAULTS))


@pytest.mark.by_turns
def test_a_users_kernel_that_does_not_compile_leaves_all_usable(faults: Any) -> None:
    (kind, words), after = faults["compile"]
    assert kind == "CompilationError"
    assert "undefined_thing is not defined" in words
    assert after == ["", ""]


def test_out_of_memory_says_who_holds_it_and_leaves_all_usable(faults: Any) -> None:
    assert faults["retried"] == ["", ""]  # the pool gave back what it kept
    (kind, words), after = faults["memory"]
    assert kind == "OutOfMemoryError"
    assert words.startswith("CUDA out of memory. Tried to allocate 381.47 MiB. GPU 0 has a total capacity of 64.00 MiB")
    assert "4.00 MiB: a tensor (1048576,) float32" in words
    assert "remedy: a smaller batch" in words
    assert after == ["", ""]
    assert faults["load"][0][0] == "AcceleratorError"
    assert "kernel tan_kernel[grid=(1, 1, 1)" in faults["load"][0][1]
    assert faults["load"][1] == ["", ""]


def test_a_launch_that_is_refused_names_its_kernel_and_config(faults: Any) -> None:
    (kind, words), after = faults["resources"]
    assert kind == "AcceleratorError"
    assert "kernel cos_kernel[grid=(1, 1, 1), COMPUTE=fp32" in words
    assert "(a_ptr=float32 (8, 8)" in words or "x_ptr=float32 (8, 8)" in words or "float32 (8, 8)" in words
    assert "too many resources" in words
    assert after == ["", ""]


def test_an_illegal_access_says_to_restart_and_which_kernels_ran_last(faults: Any) -> None:
    launch, told, later = faults["access"]
    assert launch == ["", ""]  # CUDA tells of it late
    assert told[0] == "AcceleratorError"
    lines = told[1].splitlines()
    assert lines[0] == "CUDA error: an illegal memory access was encountered"
    newest = lines[lines.index(next(line for line in lines if "newest first" in line)) + 1]
    assert newest == "    kernel mine_kernel[grid=(1, 1, 1)]"
    assert "restart the process (in a notebook: Kernel > Restart)" in told[1]
    assert "CUDA_LAUNCH_BLOCKING=1" in told[1]
    assert "lost its GPU earlier" in later[1]
    assert "kernel mine_kernel" in later[1]
    assert faults["cpu"] == [2.0, 2.0]
    for kind, words in faults["item"]:
        assert kind == "AcceleratorError"
        assert "lost its GPU earlier" in words


@pytest.mark.by_turns
def test_with_blocking_launches_the_kernel_is_named_where_it_fails() -> None:
    seen = run(script("faults.py", FAULTS), CUDA_LAUNCH_BLOCKING=1)
    launch, _, _ = seen["access"]
    assert launch[0] == "AcceleratorError"
    assert "the kernel that did it: kernel mine_kernel[grid=(1, 1, 1)]" in launch[1]
    assert "CUDA_LAUNCH_BLOCKING" not in launch[1]


@pytest.fixture(scope="module")
def lacking() -> Any:
    return run(
        script(
            "lacking.py",
            START
            + """
import lab
a = core.tensor([[4.0, 2.0], [2.0, 3.0]], device="cuda")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with lab.recording() as r:
        for i in range(3):
            y = core.linalg.cholesky(a)
seen["warned"] = [str(w.message) for w in caught]
seen["value"], seen["where"] = y.tolist(), str(y.device)
seen["kernels"] = [(k.kernel, k.backend) for k in r.record.kernels]
seen["findings"] = [f.message for f in r.record.findings if f.kind == "copy"]
with lab.recording() as r:
    x = core.ones(64, 64, device="cuda")
    keep = [x * float(i) for i in range(3)]
    y = x + 1
    seen["memory"] = said(lambda: core.zeros(10**8, device="cuda"))
seen["lines"] = [(row.line, row.peak_bytes) for row in r.record.memory.rows]
print(json.dumps(seen))
""",
        ),
        FAKE_CUPY_LACKS="linalg.cholesky",
    )


@pytest.mark.by_turns
def test_what_cupy_lacks_runs_on_the_cpu_and_says_so(lacking: Any) -> None:
    assert lacking["value"] == [[2.0, 0.0], [1.0, pytest.approx(2**0.5)]]
    assert lacking["where"] == "cuda:0"
    assert len(lacking["warned"]) == 1
    assert lacking["warned"][0].startswith("linalg_cholesky on cuda ran on the CPU, as CuPy cannot do it")
    assert "32 bytes copied there and back" in lacking["warned"][0]
    assert lacking["kernels"] == [["cholesky_reference", "NumPy on the CPU"]]
    (message,) = lacking["findings"]
    assert "leaves the GPU: `core.linalg.cholesky(a)` ran on the CPU 3 times, and 96 bytes were copied" in message


def test_out_of_memory_in_a_recording_names_the_lines(lacking: Any) -> None:
    kind, words = lacking["memory"]
    assert kind == "OutOfMemoryError"
    assert "48.00 KiB: line" in words
    assert ": x * float(i) (x3)" in words
    sizes = [size for _, size in lacking["lines"]]
    assert sizes == [3 * 64 * 64 * 4, 64 * 64 * 4]
