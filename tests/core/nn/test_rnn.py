"""Recurrent layers and cells: what holds without PyTorch beside them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core import nn
from core.nn.utils import rnn as R

CUDA = "cuda"


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_layer_is_its_cell_step_by_step(kind: str) -> None:
    layer, cell = getattr(nn, kind)(3, 5), getattr(nn, kind + "Cell")(3, 5)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    x, state, outs = core.randn(6, 2, 3), None, []
    for step in x:
        state = cell(step, state)
        outs.append(state[0] if kind == "LSTM" else state)
    y, last = layer(x)
    assert core.allclose(y, core.stack(outs), atol=1e-6)
    assert core.allclose(last[0], outs[-1].unsqueeze(0), atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_rows_are_each_sequence_alone(kind: str) -> None:
    layer = getattr(nn, kind)(3, 4, 2, bidirectional=True)
    parts = [core.randn(n, 3) for n in (2, 5, 3)]
    y, hidden = layer(R.pack_sequence(parts, enforce_sorted=False))
    h = hidden[0] if kind == "LSTM" else hidden
    for i, (part, got) in enumerate(zip(parts, R.unpack_sequence(y), strict=True)):
        alone, last = layer(part)
        assert core.allclose(got, alone, atol=1e-6)
        assert core.allclose(h[:, i], last[0] if kind == "LSTM" else last, atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_gradient_penalty_trains(kind: str) -> None:
    """Gradients of gradients pass through a layer, and agree with finite differences."""
    layer = getattr(nn, kind)(2, 3).double()
    x = core.randn(3, 2, 2, dtype=core.float64, requires_grad=True)

    def penalty() -> core.Tensor:
        (g,) = core.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        return (g.norm() - 1) ** 2

    penalty().backward()
    w = layer.weight_hh_l0
    found = w.grad[1, 2].item()
    values = []
    for step in (1e-6, -2e-6):
        with core.no_grad():
            w[1, 2] += step
        values.append(penalty().item())
    assert found == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_on_the_device_cuda(kind: str) -> None:
    """The same numbers and gradients by the reference as by the C kernels."""
    here = getattr(nn, kind)(3, 4, 2, bidirectional=True, batch_first=True)
    there = copy.deepcopy(here).to(CUDA)
    x = core.randn(2, 5, 3)
    found = []
    for layer, data in ((here, x.clone()), (there, x.to(CUDA))):
        data.requires_grad_()
        y, h = layer(data)
        (y.square().sum() + (h[0] if kind == "LSTM" else h).sum()).backward()
        assert y.device.type == data.device.type
        found.append([t.detach().cpu().numpy() for t in (y, data.grad, *(p.grad for p in layer.parameters()))])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    packed = R.pack_sequence([core.randn(3, 3), core.randn(2, 3)]).to(CUDA)
    assert there(packed)[0].is_cuda


@pytest.mark.parametrize("dtype", [core.float16, core.bfloat16])
def test_half_types(dtype: Any) -> None:
    layer, x = nn.LSTM(3, 4), core.randn(5, 2, 3)
    want = layer(x)[0]
    y, (h, _) = copy.deepcopy(layer).to(dtype)(x.to(dtype))
    assert y.dtype is dtype
    assert h.dtype is dtype
    assert core.allclose(y.float(), want, atol=0.03)


def test_autocast_runs_in_the_lower_type() -> None:
    layer = nn.GRU(3, 4)
    with core.autocast("cpu", dtype=core.bfloat16):
        y, _ = layer(core.randn(5, 2, 3))
    assert y.dtype is core.bfloat16
    y.float().sum().backward()
    assert layer.weight_hh_l0.grad.dtype is core.float32


def test_saved_copied_pickled() -> None:
    layer = nn.LSTM(3, 4, 2, bidirectional=True)
    x = core.randn(5, 2, 3)
    want = layer(x)[0]
    again = nn.LSTM(3, 4, 2, bidirectional=True)
    again.load_state_dict(layer.state_dict())
    for other in (again, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert core.equal(other(x)[0], want)
    assert len(layer.all_weights) == 4
    assert layer.all_weights[1][0] is layer.weight_ih_l0_reverse
    layer.flatten_parameters()


def test_a_weight_may_be_computed() -> None:
    """As weight dropping and weight norm do: the layer takes what stands under the name."""
    layer = nn.LSTM(3, 4)
    raw = nn.Parameter(layer.weight_hh_l0.detach().clone())
    del layer.weight_hh_l0
    layer.weight_hh_l0 = raw * 0.5
    plain = nn.LSTM(3, 4)
    plain.load_state_dict(layer.state_dict() | {"weight_hh_l0": raw.detach() * 0.5})
    x = core.randn(5, 2, 3)
    for rnn in (layer, plain):
        y, _ = rnn(x)
        y.sum().backward()
    np.testing.assert_allclose(raw.grad.numpy(), 0.5 * plain.weight_hh_l0.grad.numpy(), rtol=1e-6)


def test_frozen_weights_and_inputs() -> None:
    layer = nn.LSTM(3, 4)
    layer.weight_hh_l0.requires_grad_(False)
    x = core.randn(5, 2, 3, requires_grad=True)
    layer(x)[0].sum().backward()
    assert layer.weight_hh_l0.grad is None
    frozen, x.grad = x.grad, None
    layer.requires_grad_()
    layer(x)[0].sum().backward()
    assert core.equal(x.grad, frozen)
    layer.weight_hh_l0.requires_grad_(False)
    with core.no_grad():
        assert not layer(x)[0].requires_grad


def test_the_two_biases_have_gradients_of_their_own() -> None:
    layer = nn.LSTM(3, 4)
    layer(core.randn(5, 2, 3))[0].sum().backward()
    before = layer.bias_hh_l0.grad.clone()
    layer.bias_ih_l0.grad.mul_(2)
    assert core.equal(layer.bias_hh_l0.grad, before)


def test_one_node_a_layer() -> None:
    y, _ = nn.LSTM(3, 4)(core.randn(5, 2, 3))
    assert y.grad_fn.name() == "LstmBackward0"
    assert y.grad_fn.op.name == "lstm"


def test_per_sample_gradients() -> None:
    """vmap over grad, through a layer."""
    layer = nn.GRU(2, 3)
    names = [n for n, _ in layer.named_parameters()]
    weights = [p.detach() for p in layer.parameters()]
    x = core.randn(4, 5, 2)

    def loss(one: core.Tensor, *given: core.Tensor) -> core.Tensor:
        y, _ = core.func.functional_call(layer, dict(zip(names, given, strict=True)), (one,))
        return y.square().sum()

    many = core.vmap(core.func.grad(loss, argnums=1), in_dims=(0, *(None,) * 4))(x, *weights)
    for i in range(4):
        assert core.allclose(many[i], core.func.grad(loss, argnums=1)(x[i], *weights), atol=1e-5)


def test_an_empty_batch() -> None:
    y, (h, c) = nn.LSTM(3, 4)(core.zeros(2, 0, 3))
    assert y.shape == (2, 0, 4)
    assert h.shape == c.shape == (1, 0, 4)


def test_a_changed_output_is_noticed() -> None:
    y, _ = nn.GRU(3, 4)(core.randn(5, 2, 3))
    with core.no_grad():
        y[0] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_packed_sequences_travel() -> None:
    packed = R.pack_sequence([core.ones(1, 2), core.ones(3, 2)], enforce_sorted=False)
    assert packed.cpu() is packed
    assert packed.cuda().is_cuda
    assert packed.cuda().sorted_indices.is_cuda  # type: ignore[union-attr]
    assert not packed.cuda().batch_sizes.is_cuda
    assert packed.half().data.dtype is core.float16
    assert packed.int().data.dtype is core.int32
    again = pickle.loads(pickle.dumps(packed))
    assert core.equal(again.data, packed.data)
    with pytest.raises(ValueError, match="batch_sizes should always be on CPU"):
        R.PackedSequence(packed.data, packed.batch_sizes.to(CUDA))
    with pytest.raises(RuntimeError, match="at most 2, the steps"):
        R.pack_padded_sequence(core.ones(2, 2, 3), [3, 1])
