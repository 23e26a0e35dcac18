"""What gradients are at NaN, at ties and where a value does not depend on its inputs: as PyTorch has them."""

from __future__ import annotations

from typing import Any

import pytest

import core

NAN, INF = float("nan"), float("inf")


def grads(f: Any, *values: Any) -> list[Any]:
    xs = [core.tensor(v, requires_grad=True) for v in values]
    f(*xs).sum().backward()
    return [x.grad.tolist() for x in xs]


@pytest.mark.parametrize(
    ("f", "values", "expected"),
    [
        (core.abs, [[NAN, -2.0, 0.0]], [[0.0, -1.0, 0.0]]),
        (core.sign, [[NAN, -2.0]], [[0.0, 0.0]]),
        (core.relu, [[NAN, -2.0, 3.0]], [[1.0, 0.0, 1.0]]),
        (core.maximum, [[NAN, 1.0, 2.0], [1.0, 1.0, 3.0]], [[1.0, 0.5, 0.0], [1.0, 0.5, 1.0]]),
        (core.max, [[NAN, 1.0, NAN]], [[0.5, 0.0, 0.5]]),
        (core.clamp, [[1.0, 5.0], [1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]),
        (lambda a, b: core.div(a, b, rounding_mode="floor"), [[7.0], [2.0]], [[0.0], [0.0]]),
        (lambda a, b: core.div(a, b, rounding_mode="trunc"), [[7.0], [2.0]], [[0.0], [0.0]]),
        (lambda a, b: (a * 1).gt_(b), [[7.0], [2.0]], [[0.0], [0.0]]),
        (core.bernoulli, [[0.5, 1.0]], [[0.0, 0.0]]),
        (core.pow, [[NAN, 2.0], [0.0, 2.0]], [[0.0, 4.0], [NAN, 4 * 0.6931471824645996]]),
    ],
)
def test_gradients(f: Any, values: list[Any], expected: list[Any]) -> None:
    found = grads(f, *values)
    assert repr(core.tensor(found)) == repr(core.tensor(expected))


def test_the_values_beside_them() -> None:
    assert core.sign(core.tensor([NAN, -0.5])).tolist() == [0.0, -1.0]
    assert core.sign(core.tensor([True, False])).tolist() == [True, False]
    assert core.isnan(core.nn.functional.hardshrink(core.tensor(NAN)))
    assert core.isnan(core.nn.functional.threshold(core.tensor(NAN), 0.0, 1.0))
    assert core.isnan(core.tensor(-INF) ** 0.5)


def test_integers_to_negative_powers() -> None:
    assert core.pow(core.tensor([1, -1, -1, 2, 0, 3]), core.tensor([-2, -2, -3, -1, -1, 2])).tolist() == [
        1,
        1,
        -1,
        0,
        0,
        9,
    ]


def test_scaling_keeps_bools_and_integers() -> None:
    t, f = core.tensor([True]), core.tensor([False])
    assert core.add(f, t, alpha=2).dtype is core.bool
    assert core.add(f, t, alpha=0).tolist() == [False]
    ones = core.ones(2, 2, dtype=core.int64)
    assert core.addmm(ones, ones, ones, beta=0.5, alpha=2).tolist() == [[4, 4], [4, 4]]


def test_repeating_an_index() -> None:
    assert core.repeat_interleave(core.tensor([1, 0, 2])).tolist() == [0, 2, 2]


def test_errors_and_edges_of_existing_functions() -> None:
    with pytest.raises(RuntimeError, match="result requires dtype Double"):
        core.ones(2).float_power_(2)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        core.ldexp(core.ones(2), 2)
    with pytest.raises(RuntimeError, match="does not have an identity"):
        core.norm(core.zeros(0, 2), INF, 0)
    i = core.arange(3)
    assert core.addcmul(i, i, i, value=1.5).tolist() == [0, 2, 6]
    assert core.argmax(core.tensor(3.0), -1, True).tolist() == 0
    assert core.angle(core.tensor([INF, -1.0])).tolist() == pytest.approx([0.0, 3.1415927])
    assert grads(lambda x: core.norm(x, INF), [NAN, 1.0]) == [[0.0, 0.0]]
    assert repr(grads(core.logit, [2.0, 0.5])) == "[[nan, 4.0]]"


def test_rounding_to_digits() -> None:
    x = core.tensor([123.456, -0.05], dtype=core.float64)
    assert core.round(x, decimals=1).tolist() == [123.5, 0.0]
    assert core.round(x, decimals=-2).tolist() == [100.0, 0.0]
    assert core.special.round(x, decimals=2).tolist() == [123.46, -0.05]
    with pytest.raises(NotImplementedError, match="round_cpu"):
        core.round(core.arange(3), decimals=1)


def test_whether_inference_mode_is_on() -> None:
    assert not core.is_inference_mode_enabled()
    with core.inference_mode():
        with core.inference_mode(False):
            assert not core.is_inference_mode_enabled()
        assert core.is_inference_mode_enabled()
    assert not core.is_inference_mode_enabled()


@pytest.mark.parametrize("dtype", [core.float16, core.bfloat16])
def test_half_types_stay(dtype: Any) -> None:
    x = core.ones(2, 2, dtype=dtype)
    assert core.ldexp(x, core.tensor([1, 2])).dtype is dtype
    assert core.matrix_exp(x).dtype is dtype
    assert core.nn.functional.soft_margin_loss(x, core.ones(2, 2)).dtype is dtype
    assert (core.nextafter(x, x * 2) > x).all()
