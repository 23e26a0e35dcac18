"""Ops that are written out are known by their parts, whatever time they take."""

from __future__ import annotations

from typing import Any

import pytest

import core
from lab.diagnose.speed import slow_handmade
from lab.recorder.cell_trace import Trace

CELL = """
import math
x = torch.randn(6, 8, requires_grad=True)
q = torch.randn(2, 3, 5, 4, requires_grad=True)
y = {code}
"""
CODES = {
    "(x - x.mean(-1, keepdim=True)) / torch.sqrt(((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True) + 1e-5)":
        ("layer_norm", 8),
    "(x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)": ("layer_norm", 5),
    "(x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, unbiased=False, keepdim=True) + 1e-5)": ("layer_norm", 6),
    "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)": ("rms_norm", 5),
    "torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)": None,  # two powers: neither is the other's sum
    "(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(x - x.max(-1, keepdim=True)[0]))": ("softmax", 5),
    "(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(x))": ("softmax", 3),
    "(lambda e: e / e.sum())(torch.exp(x))": None,  # over all values
    "0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))": ("gelu", 8),
    "x * 0.5 * (1.0 + torch.erf(x / 2 ** 0.5))": ("gelu", 5),
    "0.5 * x * (1 + torch.tanh(x))": None,  # a sigmoid of 2 x
    "0.5 * x * (1 + torch.tanh(q.sum() * 0.1))": None,  # of another tensor
    "x * torch.sigmoid(x)": ("silu", 2),
    "torch.sigmoid(x) * x": ("silu", 2),
    "(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(x - x.amax(-1, keepdim=True)))": ("softmax", 5),
    "(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(x - 3.0))": ("softmax", 3),
    "(lambda e: e / e.sum(-1))(torch.exp(x[:6, :6]))": None,  # the sums lie along the other dimension
    "x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)": ("rms_norm", 5),
    "x / torch.sqrt(x.abs().mean(-1, keepdim=True) + 1e-6)": None,
    "x * torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6)": None,
    "(x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)": ("layer_norm", 4),
    "(x - 3.0) / x.std(-1, keepdim=True)": None,
    "(x - (2 * x).mean(-1, keepdim=True)) / x.std(-1, keepdim=True)": None,
    "x * torch.sigmoid(2 * x)": None,
    "torch.softmax(q @ q.transpose(-2, -1) / 2.0, -1) @ q": ("scaled_dot_product_attention", 4),
    "(q @ q.transpose(-2, -1) / 2.0) @ q": None,  # attention without a softmax
    "(x - x.mean(0, keepdim=True)) / (x.std(0, keepdim=True) + 1e-6)": None,  # over the samples
    "(x - x.mean()) / (x.std() + 1e-6)": None,
}  # fmt: skip


@pytest.mark.parametrize("code", CODES)
def test_parts(code: str, cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[Trace] = []
    found = slow_handmade.parts
    monkeypatch.setattr(Trace, "consumers", _kept(Trace.consumers, traces))
    cell(CELL.format(code=code).lstrip("\n") + "y.sum().backward()\n", {"torch": core})
    wholes = found(traces[0].rows)
    assert [(whole.op, len(whole.rows)) for whole in wholes.values()] == ([CODES[code]] if CODES[code] else [])


def _kept(method: Any, traces: list[Trace]) -> Any:
    def consumers(trace: Trace) -> Any:
        traces.append(trace)
        return method(trace)

    return consumers
