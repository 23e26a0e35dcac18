"""Transformer layers and the ways of attention; tests/parity/test_transformer.py holds them against PyTorch."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core import nn
from core.autograd import gradcheck
from core.nn import functional as F
from core.nn.attention import SDPBackend, sdpa_kernel


def r(*shape: int, seed: int = 0) -> Any:
    return core.tensor(np.random.default_rng(seed).uniform(-1, 1, shape))


def test_a_layer_by_hand() -> None:
    layer = nn.TransformerEncoderLayer(4, 1, 6, dropout=0.0, dtype=core.float64)
    x = r(5, 4)
    q, k, v = F.linear(x, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias).chunk(3, -1)
    y = layer.self_attn.out_proj(F.softmax(q @ k.mT / math.sqrt(4), -1) @ v)
    y = layer.norm1(x + y)
    want = layer.norm2(y + layer.linear2(F.relu(layer.linear1(y))))
    np.testing.assert_allclose(layer(x).detach().numpy(), want.detach().numpy(), rtol=1e-10)


def test_a_causal_mask_hides_the_future() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)
    x = r(1, 5, 8).float()
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    changed = x.clone()
    changed[:, 3:] += 1.0
    a, b = model(x, mask=mask), model(changed, mask=mask)
    np.testing.assert_array_equal(a[:, :3].detach().numpy(), b[:, :3].detach().numpy())
    assert not core.allclose(a[:, 3:], b[:, 3:])


def test_gradients_of_a_decoder_layer() -> None:
    layer = nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, activation="gelu", dtype=core.float64)
    gradcheck(layer, (r(3, 2, 4).requires_grad_(), r(2, 2, 4, seed=1).requires_grad_()))


def test_copies_are_their_own() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 6)
    stack = nn.TransformerEncoder(layer, 3)
    assert len({id(p) for p in [*stack.parameters(), *layer.parameters()]}) == 4 * len(list(layer.parameters()))
    for other in (copy.deepcopy(stack).eval(), pickle.loads(pickle.dumps(stack)).eval()):
        np.testing.assert_array_equal(other(core.ones(2, 1, 4)).detach().numpy(),
                                      stack.eval()(core.ones(2, 1, 4)).detach().numpy())  # fmt: skip


def test_ways_of_attention_agree() -> None:
    q, k, v = r(2, 3, 5, 4), r(2, 3, 6, 4, seed=1), r(2, 3, 6, 4, seed=2)
    for kwargs in ({}, {"is_causal": True}, {"attn_mask": r(5, 6) > 0}, {"attn_mask": r(2, 1, 5, 6)}, {"scale": -2.0}):
        with sdpa_kernel(SDPBackend.MATH):
            want = F.scaled_dot_product_attention(q, k, v, **kwargs)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            got = F.scaled_dot_product_attention(q, k, v, **kwargs)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9)


def test_what_no_way_serves() -> None:
    q = core.ones(1, 2, 3, 4)
    for ways, p in (([SDPBackend.FLASH_ATTENTION], 0.5), ([SDPBackend.CUDNN_ATTENTION], 0.0), ([], 0.0)):
        with sdpa_kernel(ways), pytest.raises(RuntimeError, match="No viable backend"):
            F.scaled_dot_product_attention(q, q, q, dropout_p=p)
    with pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"), sdpa_kernel("math"):  # type: ignore[arg-type]
        pass


def test_the_preferred_way_goes_first() -> None:
    q = core.ones(1, 2, 3, 4, requires_grad=True)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert "ScaledDotProductAttention" in F.scaled_dot_product_attention(q, q, q).grad_fn.name()
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert "Matmul" in F.scaled_dot_product_attention(q, q, q).grad_fn.name()


def test_a_batch_of_masks() -> None:
    q = r(3, 2, 5, 4)
    masks = r(3, 5, 5, seed=1) > 0
    got = core.vmap(lambda x, m: F.scaled_dot_product_attention(x, x, x, attn_mask=m))(q, masks)
    want = F.scaled_dot_product_attention(q, q, q, attn_mask=masks[:, None])
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9)


@pytest.mark.parametrize("dtype", [core.float16, core.bfloat16])
def test_half_types(dtype: Any) -> None:
    q = r(2, 5, 4).to(dtype).requires_grad_()
    y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    y.sum().backward()
    x = q.detach().double().requires_grad_()
    want = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    want.sum().backward()
    assert y.dtype is dtype
    assert q.grad.dtype is dtype
    np.testing.assert_allclose(y.double().detach().numpy(), want.detach().numpy(), atol=2e-2)
    np.testing.assert_allclose(q.grad.double().numpy(), x.grad.numpy(), atol=5e-2)
