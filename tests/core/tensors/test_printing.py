"""How tensors print. tests/parity compares many more with PyTorch's own text."""

from __future__ import annotations

from typing import Any

import pytest

import core


@pytest.mark.parametrize(("data", "text"), [
    (1.5, "tensor(1.5000)"), (2.0, "tensor(2.)"), (3, "tensor(3)"), (True, "tensor(True)"), ([], "tensor([])"),
    ([1.0, 2.5], "tensor([1.0000, 2.5000])"), ([1.0, -20.0], "tensor([  1., -20.])"),
    ([True, False], "tensor([ True, False])"),
    ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"), ([1e9, 1.0], "tensor([1.0000e+09, 1.0000e+00])"),
    ([1.0, float("nan"), float("inf")], "tensor([1., nan, inf])"),
    ([[1, 2], [3, 40]], "tensor([[ 1,  2],\n        [ 3, 40]])"),
    ([[], []], "tensor([], size=(2, 0))"), (1 - 2j, "tensor(1.-2.j)"),
])  # fmt: skip
def test_text(data: Any, text: str) -> None:
    assert repr(core.tensor(data)) == str(core.tensor(data)) == text


def test_notes() -> None:
    x = core.ones(2, dtype=core.float64, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], dtype=core.float64, requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], dtype=core.float64, grad_fn=<MulBackward0>)"
    assert repr(core.ones(1, device="cuda")) == "tensor([1.], device='cuda:0')"
    assert repr(core.zeros(0, dtype=core.int64)) == "tensor([], dtype=core.int64)"


def test_only_the_corners_of_what_is_large() -> None:
    assert repr(core.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert repr(core.arange(1000)).count("\n") > 50
    assert repr(core.zeros(200, 200)).splitlines()[3] == "        ...,"


def test_options() -> None:
    x = core.tensor([1 / 3, 2.0, 3.0])
    try:
        core.set_printoptions(precision=2)
        assert repr(x) == "tensor([0.33, 2.00, 3.00])"
        core.set_printoptions(sci_mode=True, precision=1)
        assert repr(x) == "tensor([3.3e-01, 2.0e+00, 3.0e+00])"
        core.set_printoptions(profile="default", threshold=2, edgeitems=1)
        assert repr(x) == "tensor([0.3333,  ..., 3.0000])"
        core.set_printoptions(profile="default", linewidth=20)
        assert repr(x) == "tensor([0.3333,\n        2.0000,\n        3.0000])"
        with pytest.raises(ValueError, match="unknown profile 'x'"):
            core.set_printoptions(profile="x")
    finally:
        core.set_printoptions(profile="default")
    assert repr(x) == "tensor([0.3333, 2.0000, 3.0000])"
