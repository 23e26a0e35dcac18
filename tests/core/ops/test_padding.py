from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck

X = np.arange(24.0).reshape(2, 3, 4)
NUMPY = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", NUMPY)
@pytest.mark.parametrize("pad", [(1, 2), (0, 1, 2, 0)])
def test_as_numpy_with_gradients(mode: str, pad: tuple[int, ...]) -> None:
    x = core.tensor(X, requires_grad=True)
    widths = [(0, 0)] * (3 - len(pad) // 2) + [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]
    np.testing.assert_array_equal(F.pad(x, pad, mode).detach().numpy(), np.pad(X, widths, NUMPY[mode]))
    gradcheck(lambda t: F.pad(t * t, pad, mode), x)
    gradgradcheck(lambda t: F.pad(t * t, pad, mode), x)


def test_cropping_and_a_value() -> None:
    x = core.tensor(X)
    np.testing.assert_array_equal(
        F.pad(x, (-1, 1, 0, -1), value=7).numpy(), np.pad(X[:, :2, 1:], [(0, 0), (0, 0), (0, 1)], constant_values=7)
    )
    assert F.pad(core.tensor([1, 2]), (1, 0), value=9).tolist() == [9, 1, 2]
    assert F.pad(core.tensor([True]), (1, 0)).tolist() == [False, True]


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda x: F.pad(x, (1,)), RuntimeError, "Padding length must be divisible by 2"),
        (lambda x: F.pad(x, (1,) * 8), RuntimeError, "less than or equal to two times the input dimension"),
        (lambda x: F.pad(x, (-5, 0)), RuntimeError, "length must be non-negative"),
        (
            lambda x: F.pad(x, (4, 0), "reflect"),
            RuntimeError,
            "Padding size should be less than the corresponding input dimension",
        ),
        (lambda x: F.pad(x, (5, 0), "circular"), RuntimeError, "wrapping around more than once"),
        (lambda x: F.pad(x, (1, 0), "mirror"), NotImplementedError, "Unrecognised padding mode"),
        (lambda x: F.pad(x, (1, 0), "reflect", 1.0), ValueError, "doesn't take in value argument"),
    ],
)
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call(core.tensor(X))


@pytest.mark.parametrize(("pad", "expected"), [
    ((-1, 2), [1, 2, 3, 4, 1, 2]), ((2, -1), [2, 3, 0, 1, 2, 3]), ((-1, -1), [1, 2, 3]),
    ((2, 1), [3, 4, 0, 1, 2, 3, 4, 0]),
])  # fmt: skip
def test_circular_padding_wraps_what_is_left_of_a_crop(pad: tuple[int, int], expected: list[int]) -> None:
    assert F.pad(core.arange(5.0).reshape(1, 1, 5), pad, mode="circular").flatten().tolist() == expected


def test_circular_padding_of_more_than_is_left() -> None:
    with pytest.raises(RuntimeError, match="Padding value causes wrapping around more than once"):
        F.pad(core.arange(5.0).reshape(1, 1, 5), (-2, 4), mode="circular")
