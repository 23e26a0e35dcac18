"""Functions that few programs call, beside PyTorch: masked reductions, quantised numbers, ops by ATen's names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 - which registers quantized_decomposed

import core

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
M = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 0]], bool)
G = np.random.default_rng(1).normal(size=(2, 3, 6, 6)).astype(np.float32)
W = np.random.default_rng(2).normal(size=(4, 3, 3, 3)).astype(np.float32)


def q(t: Any) -> Any:
    return t.ops.quantized_decomposed


CASES = [
    *[lambda t, x, n=n, k=k: getattr(t.masked, n)(x, 1, mask=t.tensor(M), **k)
      for n, k in (("sum", {}), ("mean", {}), ("prod", {}), ("amax", {}), ("amin", {}), ("var", {}), ("std", {}),
                   ("logsumexp", {}), ("softmax", {}), ("log_softmax", {}), ("softmin", {}), ("cumsum", {}),
                   ("cumprod", {}), ("argmax", {}), ("argmin", {}), ("var", {"unbiased": False}),
                   ("mean", {"keepdim": True}))],
    lambda t, x: t.masked.norm(x, 2.0, 1, mask=t.tensor(M)),
    lambda t, x: t.masked.mean(x),
    lambda t, x: t.masked.std(x, (0, 1), True, mask=t.tensor(M)),
    lambda t, x: t.range(1, 2, 0.25),
    lambda t, x: t.fake_quantize_per_tensor_affine(x, 0.1, 2, -8, 7),
    lambda t, x: t.fake_quantize_per_channel_affine(x, t.tensor([0.1, 0.2, 0.3]), t.tensor([0, 1, 2]).int(), 0, -8, 7),
    lambda t, x: q(t).quantize_per_tensor(x, 0.1, 3, -128, 127, t.int8),
    lambda t, x: q(t).dequantize_per_tensor(t.tensor([1, 5, -9]).to(t.int8), 0.1, 3, -128, 127, t.int8),
    lambda t, x: q(t).quantize_per_channel(x, t.tensor([0.1, 0.2, 0.3]), t.tensor([0, 1, 2]), 0, -128, 127, t.int8),
    lambda t, x: q(t).choose_qparams(x, -128, 127, 1e-6, t.int8),
    lambda t, x: q(t).choose_qparams_per_token_asymmetric(x, t.int8),
    lambda t, x: q(t).quantize_per_token(x, t.ones(3, 1) / 10, t.zeros(3, 1).long(), -128, 127, t.int8),
    lambda t, x: q(t).quantize_per_channel_group(x, t.ones(3, 2) / 9, t.zeros(3, 2).int(), -8, 7, t.int8, 2),
    lambda t, x: t.ops.aten.convolution(t.tensor(G), t.tensor(W), None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
    lambda t, x: t.ops.aten.convolution(t.tensor(G), t.tensor(W.swapaxes(0, 1).copy()), None, [2, 2], [1, 1], [1, 1],
                                        True, [1, 1], 1),
    lambda t, x: t.ops.aten.convolution_backward(t.ones(2, 4, 4, 4), t.tensor(G), t.tensor(W), [4], [1, 1], [0, 0],
                                                 [1, 1], False, [0, 0], 1, [True, True, True]),
    lambda t, x: t.ops.aten.native_layer_norm(x, [4], t.ones(4) * 2, t.ones(4), 1e-5),
    lambda t, x: t.ops.aten.native_batch_norm(t.tensor(G), t.ones(3), t.zeros(3), None, None, True, 0.1, 1e-5),
    lambda t, x: t.ops.aten.slice_copy(x, 1, 1, 9, 2),
    lambda t, x: t.ops.aten.silu_backward(x, x),
    lambda t, x: t.ops.aten.gelu_backward(x, x, approximate="tanh"),
    lambda t, x: t.ops.aten.threshold_backward(x, x, 0.5),
    lambda t, x: t.ops.aten.embedding_dense_backward(x, t.tensor([0, 2, 0]), 3, -1, False),
    lambda t, x: t.ops.aten.embedding_dense_backward(x, t.tensor([0, 2, 0]), 3, 2, True),
    lambda t, x: t.ops.aten.max_pool2d_with_indices_backward(
        t.ones(2, 3, 3, 3), t.tensor(G), [2, 2], [2, 2], [0, 0], [1, 1], False,
        t.nn.functional.max_pool2d(t.tensor(G), 2, return_indices=True)[1]),
    lambda t, x: t.ops.aten.upsample_bilinear2d(t.tensor(G), [4, 9], False),
    lambda t, x: t.ops.aten.constant_pad_nd(x, [1, 2], 3.0),
    lambda t, x: t.distributed.tensor.Shard.local_shard_size_and_offset(10, 4, 3),
    lambda t, x: t.distributed.tensor.Shard.local_shard_size_and_offset(3, 4, 3),
    lambda t, x: t.while_loop(lambda i: i < 3, lambda i: (i + 1,), (t.tensor(0),)),
]  # fmt: skip


def told(found: Any) -> Any:
    if isinstance(found, tuple | list):
        return [told(f) for f in found]
    return np.asarray(found.tolist()) if hasattr(found, "tolist") else found


@pytest.mark.parametrize("call", CASES)
def test_they_give_what_pytorch_gives(call: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch.distributed.tensor

        theirs, ours = told(call(torch, torch.tensor(X))), told(call(core, core.tensor(X)))
    if isinstance(theirs, list):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
