"""Linear layers with weights of 8 and 4 bits: near the layer of floats, gradients, errors, the device cuda."""

import numpy as np
import pytest

import core
from core.ops.quantised import quantised_int4, quantised_int8, weight_int4_linear, weight_int8_linear


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
