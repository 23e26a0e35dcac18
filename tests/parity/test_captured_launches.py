"""PyTorch's programs under `tune.capture`: their tensors, and a GPU for their wrappers where none is."""

from __future__ import annotations

import pytest
import torch
import triton

from triton_kernels import tune
from triton_kernels.tune import calls

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


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_a_library_s_own_tuner_times_nothing_and_takes_its_first_config():
    stock = triton.testing.do_bench
    with tune.capture():
        times = {c: triton.testing.do_bench(lambda: 1 / 0, quantiles=(0.5, 0.2, 0.8)) for c in (128, 64)}
        assert triton.testing.do_bench(lambda: 1 / 0, rep=40) == 1.0
    assert min(times, key=times.get) == 128
    assert triton.testing.do_bench is stock


def test_half_precision_and_views_of_a_tensor():
    packed = torch.arange(256, dtype=torch.bfloat16).reshape(2, 128)
    with tune.capture() as seen:
        theirs.scaled[(2,)](packed[1], packed[0], 64, 128, 2.0)
    assert torch.equal(packed[0], packed[1])
    view = seen.launches[0].call.arguments["x"]
    assert (view.dtype, view.offset, view.shape) == ("bf16", 256, (128,))
    assert calls.of({"x": view}) == calls.of({"x": packed[1]}) == "x=bfloat16[128]"
    assert calls.of({"x": packed.T}) == "x=bfloat16[128,2]/(2,256)"
