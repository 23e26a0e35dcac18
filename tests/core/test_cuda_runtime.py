"""`core.cuda` under Triton's interpreter: every name is there and does the plain thing, or says what is missing."""

from __future__ import annotations

import gc
import weakref

import pytest

import core
from core import cuda


def test_the_device_says_what_it_is() -> None:
    assert (cuda.device_count(), cuda.current_device()) == (1, 0)
    assert cuda.get_device_name() == "Triton's interpreter"
    assert cuda.get_device_capability("cuda:0") == (0, 0)
    assert cuda.get_device_properties(0).total_memory > 1 << 28
    assert cuda.get_arch_list() == []
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    cuda.set_device(0)
    cuda.set_device(-1)
    with cuda.device(0), cuda.device(None), cuda.device_of(core.ones(2)), cuda.device_of(core.ones(2, device="cuda")):
        assert cuda.current_device() == 0
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.get_device_name("cpu")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cuda.set_device(1)


def test_streams_are_in_order_by_themselves() -> None:
    s = cuda.Stream()
    assert s != cuda.current_stream() == cuda.default_stream()
    with cuda.stream(s):
        y = core.ones(4, device="cuda") * 2
    s.wait_stream(cuda.current_stream())
    assert s.query()
    s.synchronize()
    assert y.tolist() == [2.0] * 4
    with cuda.stream(None):
        cuda.set_stream(None)


def test_events_take_the_clocks_time() -> None:
    start, stop = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(stop)
    start.record()
    core.ones(8, 8, device="cuda").exp()
    stop.record()
    stop.synchronize()
    cuda.synchronize()
    assert start.query()
    assert 0 < start.elapsed_time(stop) < 60_000
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(cuda.Event())


def test_memory_is_that_of_the_arrays_that_live() -> None:
    gc.collect()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    x = core.ones(1024, device="cuda")
    y = x * 2
    assert cuda.memory_allocated() - before == 2 * 4096
    z = y.view(32, 32).t()  # no memory of its own
    moved = core.ones(256).to("cuda")
    drawn = core.rand(256, device="cuda")
    assert cuda.memory_allocated() - before >= 2 * 4096 + 2 * 1024
    here = core.ones(1 << 16)  # the CPU's, which is not counted
    now = cuda.memory_allocated()
    down = x.cpu()
    assert cuda.memory_allocated() == now
    del y
    assert cuda.memory_allocated() == now  # its view lives
    del z, moved, drawn, x
    assert cuda.memory_allocated() == before
    assert cuda.max_memory_allocated() - before >= 2 * 4096 + 2 * 1024
    stats = cuda.memory_stats()
    assert stats["allocated_bytes.all.peak"] == cuda.max_memory_allocated()
    assert stats["allocation.all.allocated"] >= 4
    assert "in use" in cuda.memory_summary()
    cuda.empty_cache()
    assert here.sum() == 1 << 16
    assert down.sum() == 1024


def test_gradients_and_the_state_of_an_optimizer_are_counted() -> None:
    w = core.ones(1000, device="cuda", requires_grad=True)
    before = cuda.memory_allocated()
    (w * 3.0).sum().backward()
    assert cuda.memory_allocated() - before >= 4000
    optimizer = core.optim.AdamW([w])
    optimizer.step()
    assert cuda.memory_allocated() - before >= 3 * 4000


def test_what_the_interpreter_cannot_capture_is_said() -> None:
    with pytest.raises(RuntimeError, match="needs a GPU: Triton's interpreter runs kernels as Python over NumPy"):
        cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="graph_pool_handle needs a GPU"):
        cuda.graph_pool_handle()
    assert not cuda.is_current_stream_capturing()
    linear = core.nn.Linear(4, 2).to("cuda")
    x = core.ones(1, 4, device="cuda")
    graphed = cuda.make_graphed_callables(linear, (x,))
    assert graphed is linear  # as it is, with the same results
    with pytest.raises(TypeError, match="must be tensors"):
        cuda.make_graphed_callables(linear, (1.0,))


def test_pinning_and_copies_without_waiting_are_plain() -> None:
    x = core.ones(4).pin_memory()
    y = x.to("cuda", non_blocking=True)
    assert y.to("cpu", non_blocking=True).tolist() == [1.0] * 4
    assert x.cuda(non_blocking=True).device.type == "cuda"


def test_record_stream_is_for_the_device() -> None:
    core.ones(2, device="cuda").record_stream(cuda.Stream())
    with pytest.raises(RuntimeError, match="record_stream is for tensors of cuda"):
        core.ones(2).record_stream(cuda.Stream())


def test_the_errors_are_runtime_errors() -> None:
    assert issubclass(cuda.OutOfMemoryError, RuntimeError)
    assert issubclass(core.AcceleratorError, RuntimeError)
    assert core.OutOfMemoryError is cuda.OutOfMemoryError
    assert core.AcceleratorError("x", 700).error_code == 700


def test_a_0_d_tensor_goes_there_and_back() -> None:
    assert core.tensor(3).to("cuda").cpu().item() == 3


def test_who_holds_memory_is_asked_of_nobody_elses_objects() -> None:
    """A proxy, a lazy module or an object with a `__class__` of its own ran its code, or raised."""

    class Touchy:
        @property
        def __class__(self) -> type:  # what isinstance() asks
            raise RuntimeError("touched")

    class Gone:
        pass

    gone = Gone()
    others = [Touchy(), weakref.proxy(gone)]
    del gone
    w = core.ones(4096, 3, device="cuda", requires_grad=True)
    loss = w.exp().sum()
    summary = cuda.memory_summary()
    assert "a parameter (4096, 3) float32" in summary
    assert "saved for the graph by exp, (4096, 3) float32" in summary
    loss.backward()
    assert "saved for the graph by exp" not in cuda.memory_summary()
    assert len(others) == 2
