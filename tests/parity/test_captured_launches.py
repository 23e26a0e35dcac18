"""PyTorch's programs under `tune.capture`: their tensors, and a GPU for their wrappers where none is."""

from __future__ import annotations

import pytest
import torch
import triton

from triton_kernels import tune
from triton_kernels.tune import calls
from triton_kernels.tune.arguments import Regions, Unreadable

from ..triton_kernels.tune import adopted_kernels as theirs


def wrapper(x):
    """As libraries have them: for a GPU alone."""
    assert x.is_cuda
    assert torch.cuda.get_device_capability(x.device)[0] >= 8
    out = torch.empty(x.shape, device="cuda", dtype=x.dtype)
    with torch.cuda.device(x.device):
        theirs.scaled[(triton.cdiv(x.numel(), 64),)](x, out, 64, x.numel(), 4.0)
    return out


class Doubled(torch.autograd.Function):
    """A kernel forward and backward, in PyTorch's graph."""

    @staticmethod
    def forward(ctx, x):
        return wrapper(x)

    @staticmethod
    def backward(ctx, g):
        return wrapper(g.contiguous())


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_a_gpu_is_pretended_and_nothing_of_it_stays():
    before = torch.zeros, torch.Tensor.to, torch.cuda.is_available
    with tune.capture() as seen:
        x = torch.ones(100, device="cuda").cuda().requires_grad_()
        Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 100
    assert [launch.call.grid for launch in seen] == [(2,)]
    assert seen.launches[0].count == 2
    assert (torch.zeros, torch.Tensor.to, torch.cuda.is_available) == before
    assert not torch.ones(1).is_cuda
    assert "_cuda_getCurrentRawStream" not in vars(torch._C)


def doubled(x: torch.Tensor) -> torch.Tensor:
    assert x.device == torch.device("cuda", 0) == torch.empty(1).cuda().device
    assert (x.device.type, x.get_device()) == ("cuda", 0)
    out = torch.empty(x.shape, device=x.device, dtype=x.dtype, pin_memory=False)
    theirs.scaled[(triton.cdiv(x.numel(), 64),)](x, out, 64, x.numel(), 4.0)
    return out


def plus_one_in_place(x: torch.Tensor) -> None:
    x.add_(1.0)


_library = torch.library.Library("captured_before", "FRAGMENT")
_library.define("doubled(Tensor x) -> Tensor")
_library.impl("doubled", doubled, "CUDA")
_before = torch.library.custom_op("captured_before::plus", mutates_args={"x"}, device_types="cuda")(plus_one_in_place)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_operators_with_a_kernel_for_gpus_alone_run_it():
    x = torch.arange(3.0)
    with tune.capture() as seen:
        after = torch.library.custom_op("captured_after::doubled", mutates_args=(), device_types="cuda")(doubled)
        library = torch.library.Library("captured_since", "FRAGMENT")
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", doubled, "CUDA")
        _before(x)
        found = [f(x) for f in (torch.ops.captured_before.doubled, torch.ops.captured_since.doubled, after)]
        library.impl("doubled", lambda x: 3 * x, "CPU")  # its own takes the place of what was lent to it
        assert torch.ops.captured_since.doubled(x).tolist() == [3.0, 6.0, 9.0]
    assert [each.tolist() for each in found] == [[2.0, 4.0, 6.0]] * 3
    assert seen.launches[0].count == 3
    for operator in (torch.ops.captured_before.doubled, after, _before):
        with pytest.raises(NotImplementedError, match="'CPU' backend"):
            operator(x)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_operators_that_a_program_replaces_on_gpus_are_replaced_while_it_is_captured():
    library = torch.library.Library("aten", "IMPL")
    x = torch.ones(2)
    with tune.capture():
        library.impl("sinc", lambda x: x + 7, "CUDA")
        assert torch.sinc(x).tolist() == [8.0, 8.0]
        library.impl("sub.Tensor", lambda x, other, alpha=1: x.neg() * isinstance(other, torch.Tensor), "CUDA")
        assert (x - 3).tolist() == [-1.0, -1.0]  # a number where it takes a tensor
    assert torch.sinc(x).tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    library._destroy()


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_streams_events_and_versions_are_pretended():
    before = torch.Tensor.device, torch.cuda.Stream, torch.library.Library.impl
    with tune.capture():
        stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(stream), torch.cuda.device(0):
            event.record()
        torch.cuda.current_stream().wait_stream(stream)
        assert event.query()
        assert event.elapsed_time(torch.cuda.Event()) > 0
        torch.ones(1).record_stream(stream)
        torch.cuda.nvtx.range_push("a")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            found = doubled(torch.ones(2))
        graph.replay()
        assert found.tolist() == [2.0, 2.0]
        assert torch.version.cuda >= "12"
        assert torch.accelerator.current_accelerator().type == "cuda"
        assert torch.empty(1, device="meta").device.type == "meta"
    assert torch.version.cuda is None
    assert (torch.Tensor.device, torch.cuda.Stream, torch.library.Library.impl) == before
    assert torch.ones(1).device.type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_what_is_asked_for_on_the_cpu_stays_there():
    with tune.capture():
        x = torch.arange(3.0, device="cuda", requires_grad=True)
        for here in (x.cpu(), x.to("cpu"), x.to(device=torch.device("cpu")), torch.zeros(2, device="cpu")):
            assert here.device == torch.device("cpu")
            assert not here.is_cuda
            assert here.cuda().is_cuda
        assert x.is_cuda
        x.cpu().sum().backward()
        assert x.grad.tolist() == [1.0, 1.0, 1.0]
        drawn = torch.rand(3, generator=torch.Generator(device=x.device).manual_seed(0), device=x.device)
        assert isinstance(torch.Generator(), torch.Generator)
        with torch.device("cuda"):
            assert torch.ones(2).is_cuda
        assert torch.nn.Linear(2, 3, device="cuda").to("cuda:0").weight.is_cuda
    assert drawn.tolist() == torch.rand(3, generator=torch.Generator().manual_seed(0)).tolist()
    assert isinstance(torch.Generator(), torch.Generator)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_compiled_functions_run_as_they_are_written():
    with tune.capture() as seen:
        compiled = torch.compile(doubled, fullgraph=True)
        assert compiled(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert len(seen) == 1
    with tune.capture() as seen:
        compiled(torch.ones(3))
    assert len(seen) == 1
    assert torch.compiler.is_compiling() is False


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_a_library_s_own_tuner_times_nothing_and_takes_its_first_config():
    stock = triton.testing.do_bench
    with tune.capture():
        times = {c: triton.testing.do_bench(lambda: 1 / 0, quantiles=(0.5, 0.2, 0.8)) for c in (128, 64)}
        assert triton.testing.do_bench(lambda: 1 / 0, rep=40) == 1.0
    assert min(times, key=times.get) == 128
    assert triton.testing.do_bench is stock


def test_what_a_benchmark_times_runs_once():
    with tune.capture() as seen:
        times = [triton.testing.do_bench(lambda n=n: wrapper(torch.ones(n)), return_mode="all") for n in (5, 70)]
    assert times == [[1.0], [1.0]]
    assert [launch.call.arguments["n"] for launch in seen] == [5]


def test_half_precision_and_views_of_a_tensor():
    packed = torch.arange(256, dtype=torch.bfloat16).reshape(2, 128)
    with tune.capture() as seen:
        theirs.scaled[(2,)](packed[1], packed[0], 64, 128, 2.0)
    assert torch.equal(packed[0], packed[1])
    view = seen.launches[0].call.arguments["x"]
    assert (view.dtype, view.offset, view.shape) == ("bf16", 256, (128,))
    assert calls.of({"x": view}) == calls.of({"x": packed[1]}) == "x=bfloat16[128]"
    assert calls.of({"x": packed.T}) == "x=bfloat16[128,2]/(2,256)"


class Strided:
    """A library's own view of a tensor, from another place on and of another shape; it is where the tensor says."""

    def __init__(self, base, size, offset):
        self.base_, self.shape, self.offset, self.dtype, self.device = base, (size,), offset, base.dtype, base.device

    def stride(self):
        return (1,)

    def data_ptr(self):
        return self.base_.data_ptr() + self.offset * self.dtype.itemsize

    def untyped_storage(self):
        return self.base_.untyped_storage()


class Bare:
    """A library's own address, of no size that is known."""

    dtype, untyped_storage = torch.float32, lambda self: self

    def data_ptr(self):
        return 64


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_a_library_s_own_views_of_tensors_and_bare_addresses():
    x, out = torch.arange(10.0), torch.zeros(4)
    with tune.capture() as seen:
        theirs.scaled[(1,)](Strided(x, 4, 3), Strided(out, 4, 0), 64, 4, 2.0)
        with pytest.raises(Unreadable, match="x is a Bare, whose memory cannot be found"):
            Regions().plain("x", Bare())
    assert out.tolist() == [3.0, 4.0, 5.0, 6.0]
    assert seen.launches[0].roles == {"x": "in", "out": "out"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_a_gpu_s_random_state_is_a_seed_and_an_offset():
    with tune.capture():
        (generator,) = torch.cuda.default_generators
        state = generator.get_state()
        seed, offset = state.view(torch.int64)
        offset += 4  # what a kernel has drawn
        generator.set_state(state)
        assert generator.get_offset() == 4
        assert torch.cuda.initial_seed() == int(seed)
        assert torch.equal(torch.cuda.get_rng_state(), state)
        generator.manual_seed(5).set_offset(8)
        assert generator.get_state().view(torch.int64).tolist() == [5, 8]


@torch.library.triton_op("captured_launches::quadrupled", mutates_args={})
def quadrupled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(theirs.scaled)[(2,)](x, out, 64, x.numel(), 8.0)
    return out


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_an_operator_of_pytorch_s_around_a_kernel():
    with tune.capture() as seen:
        assert quadrupled(torch.ones(100)).tolist() == [4.0] * 100
    assert [(launch.name, launch.roles) for launch in seen] == [("scaled", {"x": "in", "out": "out"})]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_a_default_device_is_pretended_too():
    with tune.capture() as seen:
        x = torch.ones(100, device=triton.runtime.driver.active.get_active_torch_device())
        before = torch.get_default_device()
        torch.set_default_device(x.device)
        try:
            assert wrapper(x).tolist() == [2.0] * 100
        finally:
            torch.set_default_device(before)
    assert seen.launches[0].roles == {"x": "in", "out": "out"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_what_else_programs_ask_of_a_gpu():
    before = torch.cuda.FloatTensor, torch.cuda.MemPool, torch.cuda.memory_stats
    with tune.capture():
        assert torch.cuda.FloatTensor([1.0, 2.0]).is_cuda
        assert torch.cuda.cudart().cudaProfilerStart() == 0
        assert torch.cuda.memory_stats()["active_bytes.all.peak"] == 0
        state = torch.cuda.get_rng_state()
        torch.cuda.default_generators[0].set_offset(8)
        torch.cuda.set_rng_state(state)
        assert torch.cuda.default_generators[0].get_offset() == 0
        with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
            assert torch.cuda.make_graphed_callables(wrapper, (torch.ones(2),)) is wrapper
        assert torch.cuda.get_device_properties(0).clock_rate > 0
        assert torch.cuda.Stream.priority_range() == (0, -5)
        torch.cuda._sleep(1000)
        torch.cuda.profiler.start()
    assert (torch.cuda.FloatTensor, torch.cuda.MemPool, torch.cuda.memory_stats) == before
