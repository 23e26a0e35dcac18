from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck
from core.ops.dropout import _dropout
from core.rng import philox


def test_the_mask_is_philox_and_the_backward_replays_it() -> None:
    core.manual_seed(5)
    x = core.ones(3, 7, requires_grad=True)
    y = F.dropout(x, 0.4)
    want = (philox.uniform(np, 5, 0, 21).reshape(3, 7) >= np.float32(0.4)) / np.float32(0.6)
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-6)
    assert y.grad_fn.saved == ()  # the mask is not kept
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())


def test_each_call_draws_anew_and_a_seed_repeats() -> None:
    x = core.ones(64)
    core.manual_seed(1)
    a, b = F.dropout(x), F.dropout(x)
    core.manual_seed(1)
    assert a.tolist() == F.dropout(x).tolist() != b.tolist()


def test_gradients_to_second_order() -> None:
    x = core.tensor(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)
    gradcheck(lambda t: _dropout(t * t, p=0.5, seed=3, offset=2), x)
    gradgradcheck(lambda t: _dropout(t * t, p=0.5, seed=3, offset=2), x)


def test_share_and_mean() -> None:
    core.manual_seed(0)
    y = F.dropout(core.ones(100_000), 0.3)
    assert abs((y == 0).float().mean().item() - 0.3) < 0.01
    assert abs(y.mean().item() - 1) < 0.01


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_nothing_to_do_gives_the_input_itself(p: float) -> None:
    x = core.ones(3)
    assert F.dropout(x, p, training=False) is x
    assert F.dropout(x, 0.0) is x


def test_all_dropped() -> None:
    x = core.tensor([1.0, float("inf")], requires_grad=True)
    y = F.dropout(x, 1.0)
    y.sum().backward()
    assert y.tolist() == x.grad.tolist() == [0, 0]


def test_in_place() -> None:
    core.manual_seed(0)
    x = core.ones(8)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    leaf = core.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        F.dropout(leaf, 0.5, inplace=True)


def test_with_pytorchs_numbers_the_mask_is_kept() -> None:
    core.manual_seed(0, kind="torch")
    x = core.ones(50, requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    assert set(y.tolist()) == {0.0, 2.0}
    assert x.grad.tolist() == y.tolist()
    core.manual_seed(0)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (F.dropout1d, (4, 9, 5)),
        (F.dropout2d, (4, 9, 5, 2)),
        (F.dropout3d, (4, 9, 2, 2, 2)),
        (F.dropout1d, (9, 5)),
        (F.dropout2d, (9, 5, 2)),
    ],
)
def test_whole_channels(function: Any, shape: tuple[int, ...]) -> None:
    core.manual_seed(0)
    y = function(core.ones(*shape))
    axes = tuple(range(1 if (function, len(shape)) in ((F.dropout1d, 2), (F.dropout3d, 4)) else 2, len(shape)))
    low, high = y.amin(axes), y.amax(axes)
    assert low.tolist() == high.tolist()
    assert set(high.flatten().tolist()) == {0.0, 2.0}


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    core.manual_seed(0)
    y = F.alpha_dropout(core.randn(100_000), 0.2, training=True)
    assert abs(y.mean().item()) < 0.02
    assert abs(y.std().item() - 1) < 0.02
    assert F.alpha_dropout(core.ones(2), 1.0, training=True).tolist() == [0, 0]


@pytest.mark.parametrize(("call", "error", "phrase"), [
    (lambda: F.dropout(core.ones(2), 1.5), ValueError, "dropout probability has to be between 0 and 1, but got 1.5"),
    (lambda: F.dropout(core.ones(2, dtype=core.int64)), RuntimeError, "can't be cast to the desired output type Long"),
    (lambda: F.dropout1d(core.ones(2)), RuntimeError, "Expected 2D or 3D input, but received a 1D"),
])  # fmt: skip
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call()


def test_a_number_in_half_precision_is_dropped_by_pytorchs_generator() -> None:
    core.manual_seed(0, kind="torch")
    for p in (0.5, 1.0):
        x = core.tensor(2.0, dtype=core.bfloat16)
        assert core.nn.functional.dropout(x, p).item() in (0.0, 4.0)
    core.manual_seed(0)
