"""Names and orders of arguments that PyTorch takes besides those of its documentation's headers."""

from __future__ import annotations

import pytest

import core

x, y = core.tensor([1.0, 2.0]), core.tensor([3.0, 5.0])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (lambda: core.lerp(x, end=y, weight=0.5), [2, 3.5]),
        (lambda: x.lerp(end=y, weight=0.5), [2, 3.5]),
        (lambda: core.heaviside(x, values=y), [1, 1]),
        (lambda: core.hsplit(core.stack([x, y]), sections=2)[0], [[1], [3]]),
        (lambda: core.hsplit(core.stack([x, y]), indices=[1])[1], [[2], [5]]),
        (lambda: core.vsplit(core.stack([x, y]), sections=2)[1], [[3, 5]]),
        (lambda: core.cholesky_solve(x[:, None], input2=core.eye(2)), [[1], [2]]),
        (lambda: core.split_with_sizes(x, split_sizes=[1, 1])[0], [1]),
        (lambda: core.linalg.norm(input=y - 0 * x, ord=1), 8),
    ],
)
def test_names(given, wanted):
    assert given().tolist() == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (lambda: core.add(x, 2, y), [7, 12]),
        (lambda: x.clone().add_(2, y), [7, 12]),
        (lambda: core.sub(y, 2, x), [1, 1]),
        (lambda: core.addcmul(x, 0.5, y, y), [5.5, 14.5]),
        (lambda: x.clone().addcmul_(0.5, y, y), [5.5, 14.5]),
        (lambda: x.addcdiv(2, y, y), [3, 4]),
    ],
)
def test_a_factor_in_second_place(given, wanted):
    assert given().tolist() == wanted


def test_what_was_no_order_at_any_time():
    with pytest.raises(TypeError, match="positional arguments"):
        core.addcmul(x, y, y, y)
    with pytest.raises(TypeError, match="positional arguments"):
        core.mul(x, 2, y)


def test_a_condition_in_bytes():
    with pytest.warns(UserWarning, match="uint8 condition"):
        assert core.where(core.tensor([1, 0], dtype=core.uint8), x, y).tolist() == [1, 5]
