"""Linear layers with weights of 8 and 4 bits: near the layer of floats, gradients, errors, the device cuda."""

import numpy as np
import pytest

import core
from core.nn import functional as F
from core.ops.quantised import (
    int4_embedding,
    int8_conv2d,
    int8_embedding,
    int8_linear,
    quantised_int4,
    quantised_int8,
    weight_int4_linear,
    weight_int8_linear,
)


@pytest.fixture
def layer(rng):
    x, weight, bias = (rng.standard_normal(s).astype("f") for s in ((3, 5, 64), (7, 64), (7,)))
    return core.tensor(x, requires_grad=True), core.tensor(weight), core.tensor(bias, requires_grad=True)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("bits", [8, 4])
def test_near_the_layer_of_floats(bits, where, layer):
    x, weight, bias = (t.detach().to(where).requires_grad_(t.requires_grad) for t in layer)
    if bits == 8:
        packed, scale = quantised_int8(weight)
        y = weight_int8_linear(x, packed, scale, bias)
        off = scale / 2 * 1.001  # how far a weight may be from its own
    else:
        packed, scale, zero = quantised_int4(weight, 16)
        assert packed.shape == (7, 32)
        y = weight_int4_linear(x, packed, scale, zero, bias)
        off = scale.amax(1) / 2 * 1.001
    exact = core.nn.functional.linear(x, weight, bias)
    assert ((y - exact).abs() <= x.abs().sum(-1, keepdim=True) * off + 1e-4).all()
    gx, gb = core.autograd.grad(y.sum(), (x, bias))
    want = core.autograd.grad(exact.sum(), (x, bias))
    assert ((gx - want[0]).abs() <= off.sum() + 1e-4).all()
    assert core.allclose(gb, want[1])


def test_a_row_of_one_value():
    packed, scale, zero = quantised_int4(core.full((2, 4), 3.0), 4)
    y = weight_int4_linear(core.ones(1, 4), packed, scale, zero)
    assert np.allclose(y.numpy(), 12.0, atol=2.0)
    packed, scale = quantised_int8(core.zeros(2, 4))
    assert (weight_int8_linear(core.ones(1, 4), packed, scale) == 0).all()


def test_errors_say_what_came():
    x, packed, scale = core.ones(2, 4), core.ones(3, 4, dtype=core.int8), core.ones(3)
    with pytest.raises(RuntimeError, match=r"a weight of core.int8 in two dimensions"):
        weight_int8_linear(x, packed.float(), scale)
    with pytest.raises(RuntimeError, match="the input has 4 features, the weight 3"):
        weight_int8_linear(x, packed[:, :3], scale)
    with pytest.raises(RuntimeError, match="scales, zeros and bias of the input's dtype"):
        weight_int8_linear(x, packed, scale.double())
    with pytest.raises(TypeError, match="'weight' must be Tensor, not list"):
        weight_int8_linear(x, [1], scale)
    with pytest.raises(RuntimeError, match="a scale and a zero for each group"):
        weight_int4_linear(x, core.ones(3, 2, dtype=core.uint8), core.ones(3, 3), core.ones(3, 3))
    with pytest.raises(RuntimeError, match="a whole number of groups"):
        quantised_int4(core.ones(2, 6), 4)


ACTIVATIONS = {None: lambda t: t, "relu": core.relu, "gelu": F.gelu, "silu": F.silu}


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("step", [None, 0.03])
def test_whole_numbers_near_the_layer_of_floats(step, activation, where, layer):
    x, weight, bias = (t.detach().to(where).requires_grad_(t.requires_grad) for t in layer)
    q, scale = quantised_int8(weight)
    y = int8_linear(x, q, scale, bias, step, 3 if step else None, activation=activation)
    exact = ACTIVATIONS[activation](F.linear(x, q.float() * scale[:, None], bias))
    assert (y - exact).abs().max() < 0.3
    g = core.ones_like(y)
    found, want = (core.autograd.grad(t, (x, bias), g) for t in (y, exact))
    assert core.allclose(found[1], want[1], atol=0.5, rtol=0.1)
    inside = core.ones_like(x) if step is None else ((x / step).round() + 3).abs() <= 127
    if activation is None:
        assert core.allclose(found[0], want[0] * inside, atol=1e-4)
    else:
        assert (found[0] - want[0] * inside).abs().mean() < 0.05 * want[0].abs().max()


def test_the_scale_may_be_a_tensor(layer):
    x, weight, bias = layer
    q, scale = quantised_int8(weight)
    a = int8_linear(x, q, scale, bias, 0.03, -5)
    assert core.equal(a, int8_linear(x, q, scale, bias, core.tensor(0.03), -5))
    assert core.equal(a, int8_linear(x, q, scale, bias, core.tensor([0.03]), -5))
    images = x.reshape(3, 5, 8, 8)
    kernel, one = core.ones(2, 5, 3, 3, dtype=core.int8), core.tensor(0.1)
    y = int8_conv2d(images, kernel, one, None, 2, 1, input_scale=core.tensor(0.05), activation="relu")
    exact = F.relu(F.conv2d(images, kernel.float() * one, None, 2, 1))
    assert (y - exact).abs().max() < 45 * 0.1 * 0.026
    assert core.equal(int8_conv2d(images[0], kernel, one), int8_conv2d(images, kernel, one)[0])


def test_a_convolution_has_the_gradients_of_one(rng):
    x = core.tensor(rng.standard_normal((2, 4, 6, 6)).astype("f"), requires_grad=True)
    bias = core.zeros(6, requires_grad=True)
    q = core.tensor(rng.integers(-128, 128, (6, 2, 3, 3)).astype(np.int8))
    scale = core.tensor(rng.uniform(0.01, 0.02, 6).astype("f"))
    settings = {"stride": 2, "padding": 1, "groups": 2}
    y = int8_conv2d(x, q, scale, bias, **settings)
    exact = F.conv2d(x, q.float() * scale.reshape(-1, 1, 1, 1), bias, **settings)
    g = core.tensor(rng.standard_normal(y.shape).astype("f"))
    for a, b in zip(*(core.autograd.grad(t, (x, bias), g) for t in (y, exact)), strict=True):
        assert core.allclose(a, b, atol=1e-4)


def test_what_is_refused_and_why():
    x, q, scale = core.ones(2, 4), core.ones(3, 4, dtype=core.int8), core.ones(3)
    with pytest.raises(RuntimeError, match="quantised_int8 gives such a weight"):
        int8_linear(x, q.float(), scale)
    with pytest.raises(RuntimeError, match="the input has 4 features, the weight 3"):
        int8_linear(x, q[:, :3], scale)
    with pytest.raises(RuntimeError, match="scale for each of the 3 outputs"):
        int8_linear(x, q, scale[:2])
    with pytest.raises(RuntimeError, match="a number of 8 bits"):
        int8_linear(x, q, scale, None, 0.1, 128)
    with pytest.raises(RuntimeError, match="a zero point without a scale"):
        int8_linear(x, q, scale, None, None, 3)
    with pytest.raises(RuntimeError, match="a scale must be positive"):
        int8_linear(x, q, scale, None, 0.0)
    with pytest.raises(ValueError, match="no such activation"):
        int8_linear(x, q, scale, activation="tanh")
    with pytest.raises(RuntimeError, match="may overflow 32 bits"):
        int8_linear(core.ones(1, 65537), core.ones(1, 65537, dtype=core.int8), core.ones(1))
    with pytest.raises(TypeError, match="'input' must be Tensor, not list"):
        int8_linear([1], q, scale)
    images, kernel = core.ones(1, 4, 5, 5), core.ones(3, 4, 3, 3, dtype=core.int8)
    with pytest.raises(RuntimeError, match="to have 4 channels, but got 3"):
        int8_conv2d(images[:, :3], kernel, scale)
    with pytest.raises(RuntimeError, match="smaller than the kernel"):
        int8_conv2d(images[..., :2], kernel, scale)
    with pytest.raises(RuntimeError, match="must be positive"):
        int8_conv2d(images, kernel, scale, stride=0)
    with pytest.raises(RuntimeError, match="a scale for each row"):
        int8_embedding(core.tensor([0]), q, scale[:2])
    with pytest.raises(RuntimeError, match="one of the following scalar types: Long, Int"):
        int8_embedding(core.ones(1), q, scale)
    few = core.ones(3, 2)
    with pytest.raises(RuntimeError, match="a scale and a zero for each group"):
        int4_embedding(core.tensor([0]), core.ones(3, 5, dtype=core.uint8), core.ones(3, 3), core.ones(3, 3))
    with pytest.raises(RuntimeError, match="scales and zeros of one floating type"):
        int4_embedding(core.tensor([0]), core.ones(3, 4, dtype=core.uint8), few, few.double())
