# ruff: noqa: E501 - the cases are read better in long rows
"""Where PyTorch's result is contiguous, so that ``.view`` takes it, ours is: of inputs in any order. What lies in
channels_last stays so where PyTorch's does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

torch = pytest.importorskip("torch")

INPUTS = {
    "contiguous": "x", "permuted": "x.permute(0, 2, 3, 1)", "reversed": "x.transpose(0, 3)", "of the middle": "x.transpose(1, 2)",
    "channels_last": "x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)", "sliced": "x[:, :, 1:].transpose(1, 3)", "expanded": "x[:, :1].expand(2, 3, 4, 5)",
}  # fmt: skip
ALONG = """
x.sum(d) | x.sum(d, keepdim=True) | x.mean(d) | x.amax(d) | x.amin(d) | x.prod(d) | x.std(d) | x.var(d) | x.logsumexp(d) | x.norm(dim=d) | x.norm(3, dim=d) | x.nansum(d) | x.nanmean(d)
(x > 0).any(d) | (x > 0).all(d) | (x > 0).sum(d) | x.count_nonzero(d) | x.long().sum(d) | x.int().sum(d) | x.long().amax(d) | x.half().sum(d) | x.bfloat16().mean(d) | x.double().mean(d) | x.long().prod(d)
x.argmax(d) | x.max(d)[0] | x.max(d)[1] | x.median(d)[0] | x.median(d)[1] | x.nanmedian(d)[0] | x.kthvalue(1, d)[0] | x.mode(d)[0] | x.aminmax(dim=d)[0] | torch.std_mean(x, d)[1] | torch.trapezoid(x, dim=d) | torch.linalg.vecdot(x, x, dim=d)
x.softmax(d) | x.log_softmax(d) | x.half().softmax(d) | x.softmax(d, dtype=torch.float64) | F.softmin(x, d) | F.cosine_similarity(x, x * 2, d) | torch.vmap(lambda row: row.sum(d - 1))(x)
x.cumsum(d) | x.cumprod(d) | x.cummax(d)[0] | x.cummin(d)[1] | x.logcumsumexp(d) | x.long().cumsum(d) | x.half().cumsum(d) | x.sort(d)[0] | x.sort(d)[1] | x.topk(1, d)[0] | torch.fft.fft(x, dim=d) | torch.fft.rfft(x, dim=d)
"""
WHOLE = """
x.masked_fill(x > 0, 0.0) | x.masked_fill(torch.ones(x.shape[-1]).bool(), 0.0) | x.masked_fill(x > 0, torch.tensor(0.0)) | x.long().masked_fill(x > 0, 0) | x[:1].contiguous().masked_fill(x > 0, 0.0) | x.half().masked_fill(x > 0, 0.0)
F.batch_norm(x, None, None, training=True) | F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])) | F.batch_norm(x, None, None, torch.ones(x.shape[1]), torch.ones(x.shape[1]), True) | F.layer_norm(x, x.shape[-1:]) | F.rms_norm(x, x.shape[-1:]) | F.group_norm(x, 1) | F.batch_norm(x, None, None, training=True).chunk(2)[0]
x.sum((0, 2)) | x.mean((2, 3)) | x.amax((1, 2)) | x.var((0, 2)) | x.sum((0, 2), keepdim=True) | F.adaptive_avg_pool2d(x, 1) | F.avg_pool2d(x, 2, 1) | x.roll(1, 1) | x.roll((1, 1), (0, 1)) | x.tril() | x.renorm(2, 0, 1.0) | F.rrelu(x) | torch.cross(x[:, :3], x[:, :3], 1)
x @ x.transpose(-1, -2) | x @ torch.ones(x.shape[-1]) | F.linear(x, torch.ones(3, x.shape[-1])) | torch.einsum("abij->jab", x) | torch.einsum("abij,acij->abc", x, x) | torch.einsum("abij->ba", x) | torch.linalg.det(x @ x.transpose(-1, -2)) | x.gather(1, (x * 0).long()) | F.one_hot((x * 0).long(), 3) | F.scaled_dot_product_attention(x, x, x)
x.double() | x.long() | x.half() | F.multilabel_soft_margin_loss(x, x.sigmoid(), reduction="none") | torch.fft.fftshift(x) | torch.fft.fft2(x)
"""


def _cases(text: str) -> list[str]:
    return [c.strip() for line in text.strip().splitlines() for c in line.split(" | ")]


def _results(module: Any, case: str, given: str) -> list[Any]:
    x = module.tensor(np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("f"))
    known = {"torch": module, "F": module.nn.functional, "x": x}
    known["x"] = eval(given, known)
    return [
        eval(case, {**known, "d": d}) for d in (range(1, 4) if "d - 1" in case else range(4) if "d" in case else (0,))
    ]


@pytest.mark.parametrize("case", _cases(ALONG) + _cases(WHOLE))
def test_contiguous_where_pytorch_s_is(case: str) -> None:
    for name, given in INPUTS.items():
        if "cross" in case and name in ("reversed", "sliced"):
            continue  # has no 3 there
        for d, (ours, theirs) in enumerate(zip(_results(core, case, given), _results(torch, case, given), strict=True)):
            assert ours.shape == theirs.shape
            assert ours.is_contiguous() or not theirs.is_contiguous(), (
                f"{name}, the {d}th: {ours.stride()} instead of {theirs.stride()}"
            )


@pytest.mark.parametrize(
    "case",
    [c for c in _cases(WHOLE) if c.startswith(("F.batch_norm(", "F.rms_norm(", "x.roll((", "torch.fft.fftshift("))],
)
def test_channels_last_stays(case: str) -> None:
    given = INPUTS["channels_last"]
    assert _results(core, case, given)[0].stride() == _results(torch, case, given)[0].stride()


GRADIENTS = [
    "x.sum()",
    "(x * x.mT.contiguous().mT).sum()",
    "x.transpose(1, 3).softmax(1).amax(2).sum()",
    "x.masked_fill(x.mT.contiguous().mT > 0, 0.0).sum()",
]


@pytest.mark.parametrize("case", GRADIENTS)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 40, 50)])
def test_the_gradient_of_a_contiguous_leaf_is(case: str, shape: tuple[int, ...]) -> None:
    x = core.randn(*shape, requires_grad=True)
    eval(case, {"x": x}).backward()
    assert x.grad is not None
    assert x.grad.is_contiguous()
