"""Attention on nested tensors: that of the padded batch with a mask, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import nested

from .test_tensors import J, same, sequences

F = core.nn.functional


def heads(x):
    return x.unflatten(-1, (2, -1)).transpose(1, 2)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("lengths", [(3, 5, 1), (4, 4), (7,), (2, 0, 3), (3, 1, 3, 2, 1, 3)])
def test_it_is_the_padded_batchs_with_a_mask(lengths, is_causal):
    x = nested.nested_tensor(sequences(*lengths, width=24), requires_grad=True, **J)
    y = F.scaled_dot_product_attention(*map(heads, x.chunk(3, -1)), is_causal=is_causal)
    assert y.shape == (len(lengths), 2, x.size(1), 4)
    y.square().sum().backward()

    padded = x.detach().to_padded_tensor(0.0).requires_grad_()
    width = padded.shape[1]
    mask = core.arange(width) < core.tensor(lengths)[:, None]
    allowed = mask[:, None, None, :].expand(-1, 1, width, -1)
    if is_causal:
        allowed = allowed & core.ones(width, width).tril().bool()
    allowed = allowed | core.eye(width).bool()  # a row of padding sees itself, so that it has numbers
    z = F.scaled_dot_product_attention(*map(heads, padded.chunk(3, -1)), attn_mask=allowed)
    (z * mask[:, None, :, None]).square().sum().backward()
    for k, n in enumerate(lengths):
        same(y[k], z[k, :, :n])
        same(x.grad[k], padded.grad[k, :n])


def test_keys_of_other_lengths():
    q = heads(nested.nested_tensor(sequences(2, 3, width=8), **J))
    k, v = (heads(t) for t in nested.nested_tensor(sequences(5, 1, width=16), **J).chunk(2, -1))
    y = F.scaled_dot_product_attention(q, k, v, scale=0.5)
    for b in range(2):
        same(y[b], F.scaled_dot_product_attention(q[b], k[b], v[b], scale=0.5))


def test_rows_in_no_sequence_are_not_seen():
    values = core.tensor(np.random.default_rng(0).normal(size=(7, 8)).astype(np.float32))
    x = heads(nested.nested_tensor_from_jagged(values, core.tensor([0, 3, 7]), core.tensor([2, 3])))
    y = F.scaled_dot_product_attention(x, x, x)
    same(y[1], F.scaled_dot_product_attention(x[1], x[1], x[1]))


def test_what_it_refuses():
    x = heads(nested.nested_tensor(sequences(2, 3, width=8), **J))
    with pytest.raises(ValueError, match=r"Masks are not yet supported![\s\S]*is_causal"):
        F.scaled_dot_product_attention(x, x, x, attn_mask=core.ones(3, 3).bool())
    with pytest.raises(ValueError, match=r"Expected query, key, and value[\s\S]*as_nested_tensor"):
        F.scaled_dot_product_attention(x, x, core.ones(2, 2, 3, 4))
    other = heads(nested.nested_tensor(sequences(2, 3, width=8), **J))
    for three in [(x, x, other), (x.transpose(1, 2),) * 3]:
        with pytest.raises(RuntimeError, match=r"other shapes[\s\S]*transpose\(1, 2\)"):
            F.scaled_dot_product_attention(*three)
    with pytest.raises(RuntimeError, match=r"not supported between[\s\S]*scaled_dot_product_attention"):
        x @ x.transpose(-2, -1)


def test_an_encoder_layer_by_hand_trains():
    core.manual_seed(0)
    nn = core.nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
            self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))

        def forward(self, x):
            y = F.scaled_dot_product_attention(*map(heads, self.qkv(self.norm(x)).chunk(3, -1)), is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(-2))
            return x + self.mlp(x)

    model = nn.Sequential(nn.Embedding(9, 8), Layer(), nn.Linear(8, 9))
    x = nested.nested_tensor([core.tensor([1, 2, 3, 4]), core.tensor([5, 6]), core.tensor([7])], **J)
    optimizer = core.optim.AdamW(model.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(x).values(), x.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
