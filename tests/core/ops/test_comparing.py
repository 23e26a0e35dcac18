"""The lesser elementwise functions: at NaN, at infinity and at ties, and closeness."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core

INF, NAN = math.inf, math.nan


def test_fmax_and_fmin_pass_nan_over() -> None:
    a, b = core.tensor([1.0, NAN, NAN]), core.tensor([NAN, 2.0, NAN])
    assert core.fmax(a, b).tolist()[:2] == core.fmin(a, b).tolist()[:2] == [1.0, 2.0]
    assert math.isnan(core.fmax(a, b)[2].item())


def test_logaddexp_at_infinities() -> None:
    a, b = core.tensor([-INF, INF, 1000.0]), core.tensor([-INF, -INF, 1000.0])
    assert core.logaddexp(a, b).tolist() == pytest.approx([-INF, INF, 1000 + math.log(2)])
    assert core.logaddexp2(a, b).tolist() == [-INF, INF, 1001.0]


def test_xlogy_and_sinc_at_0() -> None:
    x = core.tensor([0.0, 0.0], requires_grad=True)
    core.xlogy(x, core.tensor([0.0, 2.0])).sum().backward()
    assert x.grad.tolist() == pytest.approx([0.0, math.log(2)])
    y = core.tensor([0.0, 1.0], requires_grad=True)
    core.sinc(y).sum().backward()
    assert y.grad.tolist() == pytest.approx([0.0, -1.0])


def test_signs() -> None:
    x = core.tensor([0.0, -0.0, INF, -INF, NAN])
    assert core.signbit(x).tolist()[:4] == [False, True, False, True]
    assert core.isposinf(x).tolist() == [False, False, True, False, False]
    assert core.isneginf(x).tolist() == [False, False, False, True, False]
    assert core.heaviside(x, core.tensor(0.5)).tolist() == [0.5, 0.5, 1.0, 0.0, 0.0]


def test_nan_to_num_takes_the_limits_of_the_dtype() -> None:
    for d in (core.float16, core.bfloat16, core.float32, core.float64):
        x = core.tensor([NAN, INF, -INF], dtype=d)
        top = core.finfo(d).max
        assert core.nan_to_num(x).tolist() == [0.0, top, -top]
    assert core.nan_to_num(core.tensor([NAN]), nan=2).tolist() == [2.0]


def test_logit_clamps_with_eps_only() -> None:
    x = core.tensor([0.0, 1.0, 0.5])
    assert core.logit(x).tolist() == [-INF, INF, 0.0]
    assert core.logit(x, 0.25).tolist() == pytest.approx([-math.log(3), math.log(3), 0.0])


def test_round_to_decimals() -> None:
    x = core.tensor([0.125, 15.5], dtype=core.float64)
    assert core.round(x, decimals=2).tolist() == [0.12, 15.5]
    assert core.round(x, decimals=-1).tolist() == [0.0, 20.0]
    with pytest.raises(NotImplementedError, match="round_cpu"):
        core.round(core.tensor([12]), decimals=-1)


def test_products_added() -> None:
    x, a, b = core.tensor([1.0, 2.0]), core.tensor([[2.0], [4.0]]), core.tensor([8.0, 4.0])
    want = x.numpy() + 0.5 * a.numpy() * b.numpy()
    np.testing.assert_array_equal(core.addcmul(x, a, b, value=0.5).numpy(), want)
    assert core.addcdiv(x, x, b).tolist() == [1.125, 2.5]
    with pytest.raises(RuntimeError, match="Integer division with addcdiv"):
        core.addcdiv(x, core.tensor([1]), core.tensor([2]))


def test_frexp_and_ldexp_are_inverse() -> None:
    x = core.tensor([6.0, -0.3, 0.0], requires_grad=True)
    m, e = core.frexp(x)
    assert e.dtype is core.int32
    y = core.ldexp(m, e)
    np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy())
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_closeness() -> None:
    a = core.tensor([1.0, INF, NAN, 1.0])
    b = core.tensor([1.0 + 1e-6, INF, NAN, 2.0])
    assert core.isclose(a, b).tolist() == [True, True, False, False]
    assert core.isclose(a, b, equal_nan=True).tolist() == [True, True, True, False]
    assert not core.allclose(a, b)
    assert core.equal(core.tensor([1, 2]), core.tensor([1, 2]))
    assert not core.equal(core.tensor([NAN]), core.tensor([NAN]))
    assert not core.equal(core.ones(2), core.ones(3))
    with pytest.raises(RuntimeError, match="Float did not match Double"):
        core.isclose(a, a.double())
    with pytest.raises(RuntimeError, match="greater than or equal to zero"):
        core.isclose(a, b, atol=-1)


@pytest.mark.parametrize("name", [
    "atan2", "fmax", "fmin", "maximum", "minimum", "logical_and", "logical_or", "logical_xor", "logaddexp",
    "logaddexp2", "heaviside", "hypot", "gcd", "lcm", "igamma", "igammac", "nextafter", "isclose", "ldexp",
])  # fmt: skip
def test_what_takes_tensors_alone_refuses_numbers(name: str) -> None:
    x, f = core.tensor([2, 3]), getattr(core, name)
    with pytest.raises(TypeError, match=rf"{name}\(\): argument '\w+' \(position 2\) must be Tensor, not int"):
        f(x, 2)
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        f(2, x)
    with pytest.raises(TypeError, match="must be Tensor, not float"):
        f(2.5, x)


@pytest.mark.parametrize(
    "name", ["eq", "ne", "lt", "le", "gt", "ge", "fmod", "copysign", "rsub", "clamp_min", "clamp_max"]
)
def test_what_takes_a_number_second_refuses_it_first(name: str) -> None:
    x, f = core.tensor([2, 3]), getattr(core, name)
    assert f(x, 2).shape == (2,)
    with pytest.raises(TypeError, match="argument 'input' \\(position 1\\) must be Tensor, not int"):
        f(2, x)


def test_powers_of_two_numbers_are_no_tensors() -> None:
    for f in (core.pow, core.float_power):
        assert f(2, core.tensor([3])).item() == 8
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            f(2, 3)


@pytest.mark.parametrize(("code", "want"), [("y //= 2", [2, 3]), ("y %= 2", [1, 1]), ("y[:1] %= 4", [1, 7])])
def test_quotients_and_remainders_are_written_in_place(code: str, want: list[int]) -> None:
    x = core.tensor([5, 7])
    names = {"y": x}
    exec(code, names)
    assert names["y"] is x
    assert x.tolist() == want
