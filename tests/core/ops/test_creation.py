"""Making tensors: values, dtypes, devices, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import core
from core.base.source import locate
from core.events import observe


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-4, 4).filter(bool))
def test_arange_of_ints(start: int, end: int, step: int) -> None:
    if (end - start) * step < 0:
        with pytest.raises(RuntimeError, match="inconsistent with step sign"):
            core.arange(start, end, step)
        return
    assert core.arange(start, end, step).tolist() == list(range(start, end, step))


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 100])
@pytest.mark.parametrize("dtype", [core.float32, core.float64])
def test_linspace_and_logspace(steps: int, dtype: Any) -> None:
    x = core.linspace(-1.5, 3, steps, dtype=dtype).numpy()
    np.testing.assert_allclose(x, np.linspace(-1.5, 3, steps), rtol=1e-6, atol=1e-6)
    if steps > 1:
        assert (x[0], x[-1]) == (-1.5, 3)
    np.testing.assert_allclose(
        core.logspace(0, 2, steps, 3, dtype=dtype).numpy(), np.logspace(0, 2, steps, base=3), rtol=1e-6
    )


@pytest.mark.parametrize(("make", "dtype"), [
    (lambda: core.zeros(2), core.float32), (lambda: core.ones(2, dtype=int), core.int64),
    (lambda: core.arange(3), core.int64),
    (lambda: core.arange(3.0), core.float32), (lambda: core.full((2,), 1), core.int64),
    (lambda: core.full((2,), 1.0), core.float32),
    (lambda: core.full((2,), True), core.bool), (lambda: core.eye(2), core.float32),
    (lambda: core.scalar_tensor(1), core.float32),
    (lambda: core.zeros_like(core.ones(2, dtype=core.int8)), core.int8),
    (lambda: core.linspace(0, 1, 2), core.float32),
    (lambda: core.tril_indices(2, 2), core.int64), (lambda: core.full_like(core.ones(2), 3), core.float32),
])  # fmt: skip
def test_dtypes(make: Any, dtype: Any) -> None:
    assert make().dtype is dtype


def test_shapes_in_every_form() -> None:
    for x in (core.zeros(2, 3), core.zeros((2, 3)), core.zeros([2, 3]), core.zeros(size=(2, 3)),
              core.zeros(core.Size([2, 3])),
              core.zeros(core.tensor(2), np.int64(3))):  # fmt: skip
        assert tuple(x.shape) == (2, 3)
    assert tuple(core.zeros(()).shape) == ()


def test_out_takes_the_result() -> None:
    out = core.empty(0)
    assert core.zeros(3, out=out) is out
    assert out.tolist() == [0, 0, 0]
    assert core.arange(2, out=core.empty(2)).dtype is core.float32


def test_on_the_device_cuda() -> None:
    for x in (
        core.zeros(2, device="cuda"),
        core.arange(2, device="cuda:0"),
        core.tensor([1], device="cuda"),
        core.eye(2, device="cuda"),
    ):
        assert x.is_cuda
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        core.zeros(2, device="cuda:7")


@pytest.mark.parametrize(("make", "error", "phrase"), [
    (lambda: core.zeros(), TypeError, 'missing 1 required positional arguments: "size"'),
    (lambda: core.zeros(2.5), TypeError, "argument 'size' must be tuple of ints, but found element of type float"),
    (lambda: core.zeros(-1), RuntimeError, "Dimension size must be non-negative"),
    (lambda: core.zeros(2, nonsense=1), TypeError, "unexpected keyword argument 'nonsense'"),
    (lambda: core.zeros(2, dtype=np.float32), TypeError, "argument 'dtype' must be torch.dtype, not type"),
    (lambda: core.full(2, 3), TypeError, "must be tuple of ints, not int"),
    (lambda: core.arange(0, 3, 0), RuntimeError, "step must be nonzero"),
    (lambda: core.arange(0, float("inf")), RuntimeError, "unsupported range: 0 -> inf"),
    (lambda: core.arange(3, dtype=core.bool), NotImplementedError, "not implemented for 'Bool'"),
    (lambda: core.linspace(0, 1, -1), RuntimeError, "number of steps must be non-negative"),
    (lambda: core.eye(-1), RuntimeError, "n must be greater or equal to 0, got -1"),
    (lambda: core.zeros_like(3), TypeError, "must be Tensor, not int"),
    (lambda: core.ones(2, dtype=core.int64, requires_grad=True), RuntimeError, "can require gradients"),
])  # fmt: skip
def test_errors(make: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error) as e:
        make()
    assert phrase in str(e.value)


class Made(observe.Observer):
    """Notes what was made, how, and on which line."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def made(self, event: observe.MadeEvent) -> None:
        where = locate(*event.place)
        self.heard.append((event.how, event.given, event.tensor.shape, where.line, where.code))


def test_an_observer_is_told_how_a_tensor_was_made_and_on_which_line() -> None:
    with observe.observing(Made()) as listen:
        core.full((2, 1), 3.0)
        core.rand(3)
        core.zeros(2)
        core.arange(1, 5, 2)
    assert [(how, given, shape, code) for how, given, shape, _, code in listen.heard] == [
        ("full", ((2, 1), 3.0), (2, 1), "core.full((2, 1), 3.0)"), ("random", (), (3,), "core.rand(3)"),
        ("full", ((2,), 0), (2,), "core.zeros(2)"), ("arange", (1, 5, 2), (2,), "core.arange(1, 5, 2)")]  # fmt: skip
    first = listen.heard[0][3]
    assert [line for _, _, _, line, _ in listen.heard] == [first, first + 1, first + 2, first + 3]


class Ops(Made):
    """Wants everything as ops."""

    wants = frozenset({"as ops"})


@pytest.mark.parametrize("sizes", [(2,), (2, 3), (3, 2), (2, None), (0, 2)])
def test_an_identity_that_is_made_op_by_op_is_the_same(sizes: tuple[Any, ...]) -> None:
    plain = core.eye(*sizes)
    with observe.observing(Ops()):
        y = core.eye(*sizes, requires_grad=True)
    assert y.requires_grad
    assert (y.dtype, y.shape, y.tolist()) == (plain.dtype, plain.shape, plain.tolist())
    assert plain.tolist() == np.eye(*sizes).tolist()


@pytest.mark.parametrize("given", [(0, 1, 5), (3, -1, 4), (0.5, 2, 1), (0, 1, 0), (-2, 2, 2), (1, 1, 3)])
def test_even_steps_that_are_made_op_by_op_are_the_same(given: tuple[Any, ...]) -> None:
    for kind in (core.float32, core.float64):
        plain = core.linspace(*given, dtype=kind)
        np.testing.assert_allclose(plain.numpy(), np.linspace(*given), rtol=1e-6)
        with observe.observing(Ops()):
            y = core.linspace(*given, dtype=kind)
            z = core.linspace(*given, dtype=kind, requires_grad=True)
        assert (y.dtype, y.shape, y.requires_grad, z.requires_grad) == (kind, plain.shape, False, True)
        np.testing.assert_allclose(y.numpy(), plain.numpy(), rtol=1e-6, atol=1e-7)
