"""Elementwise kernels on every layout, with numbers in place of arrays, in place, and on several threads."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import broadcastable_shapes

from core import native

Array = np.ndarray

LAYOUTS = {
    "contiguous": lambda r, s: r(s),
    "transposed": lambda r, s: r(s[::-1]).T,
    "sliced": lambda r, s: r(tuple(2 * n for n in s))[tuple(slice(None, None, 2) for _ in s)],
    "reversed": lambda r, s: r(s)[tuple(slice(None, None, -1) for _ in s)],
    "broadcast": lambda r, s: np.broadcast_to(r(s[-1:]), s),
}


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (7,), (300,), (5, 7), (1, 9, 1), (3, 4, 5), (2, 3, 4, 65)])
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_layouts(
    first: str, second: str, shape: tuple[int, ...], dtype: str, kernels: ModuleType, rng: np.random.Generator
) -> None:
    a = LAYOUTS[first](lambda s: rng.standard_normal(s).astype(dtype), shape)
    b = LAYOUTS[second](lambda s: rng.standard_normal(s).astype(dtype), shape)
    y = kernels.maps["add", dtype](a, b)
    np.testing.assert_array_equal(y, np.add(a, b))
    assert y.dtype == dtype
    if "broadcast" not in (first, second) and "reversed" not in (first, second):
        assert y.strides == np.add(a, b).strides  # NumPy's order 'K'


@settings(deadline=None, max_examples=60)
@given(
    shapes=st.integers(1, 4).flatmap(
        lambda n: broadcastable_shapes((2, 3, 4)[:n], max_dims=4).map(lambda s: ((2, 3, 4)[:n], s))
    )
)
def test_broadcasting(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    assert native.module is not None, native.reason
    a, b = (np.arange(np.prod(s, dtype=int), dtype="f").reshape(s) + 1 for s in shapes)
    np.testing.assert_array_equal(native.module.maps["mul", "f"](a, b), a * b)


def test_numbers_in_place_of_arrays(kernels: ModuleType) -> None:
    add = kernels.maps["add", "f"]
    x = np.arange(600, dtype="f").reshape(20, 30)
    for number in (2, 2.5, True, np.float32(2.5)):
        y = add(x.T, number)
        np.testing.assert_array_equal(y, x.T + np.float32(number))
        assert y.dtype == np.float32
        assert y.flags.f_contiguous
    assert add(1, 2).shape == ()
    assert add(1, 2) == 3
    with pytest.raises(OverflowError):
        add(x, 10**400)
    with pytest.raises(TypeError, match="float64"):  # as in NumPy, its scalars have a type of their own
        add(x, np.float64(2))


def test_conditions(kernels: ModuleType, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 40, 50)).astype("f")
    less = kernels.maps["lt", "f"](a, b)
    assert less.dtype == bool
    np.testing.assert_array_equal(less, a < b)
    chosen = kernels.maps["where", "f"](less.T, a.T, 0)
    np.testing.assert_array_equal(chosen, np.where(a < b, a, 0).T)


def test_refusals_name_the_kernel(kernels: ModuleType) -> None:
    add = kernels.maps["add", "f"]
    x = np.ones((2, 3), "f")
    with pytest.raises(TypeError, match=r"add_f32 takes an array of float32, got float64"):
        add(x, x.astype("d"))
    with pytest.raises(TypeError, match=r"add_f32 takes an array of float32, got .*list"):
        add(x, [1.0])
    with pytest.raises(TypeError, match=r"add_f32 takes 2 arrays and 0 numbers, got 1 arguments"):
        add(x)
    with pytest.raises(TypeError, match=r"no keyword"):
        add(x, x, out=x)
    with pytest.raises(ValueError, match=r"add_f32: the arrays do not broadcast.* 2 items where another has 3"):
        add(x, np.ones((2, 2), "f"))
    with pytest.raises(ValueError, match="does not fit"):
        add.into(np.ones(3, "f"), x, x)
    with pytest.raises(ValueError, match="read-only"):
        add.into(np.broadcast_to(np.float32(1), (2, 3)), x, x)
    with pytest.raises(TypeError, match="float32"):
        add.into(x.astype("d"), x, x)


def test_swapped_and_unaligned_arrays_are_copied(kernels: ModuleType) -> None:
    x = np.arange(5, dtype="f")
    swapped = x.astype(">f4")
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("f")
    np.testing.assert_array_equal(kernels.maps["add", "f"](swapped, unaligned), 2 * x)


def test_into_writes_any_layout(kernels: ModuleType, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 30, 40)).astype("f")
    for out in (np.empty((30, 40), "f"), np.empty((40, 30), "f").T, np.empty((60, 80), "f")[::2, ::-2]):
        assert kernels.maps["add", "f"].into(out, a, b) is out
        np.testing.assert_array_equal(out, a + b)
    wide = np.empty((3, 30, 40), "f")
    kernels.maps["add", "f"].into(wide, a, b)
    np.testing.assert_array_equal(wide, np.broadcast_to(a + b, wide.shape))


@pytest.mark.parametrize("n", [5, 1000, 300000])
def test_overlap(n: int, kernels: ModuleType, rng: np.random.Generator) -> None:
    add = kernels.maps["add", "f"]
    base = rng.standard_normal(n + 8).astype("f")
    for out, a, b in [
        (slice(0, n), slice(0, n), slice(0, n)),
        (slice(1, n + 1), slice(0, n), slice(0, n)),
        (slice(0, n), slice(3, n + 3), slice(1, n + 1)),
        (slice(0, n), slice(n - 1, None, -1), slice(0, n)),
    ]:
        x = base.copy()
        expected = x[a] + x[b]
        add.into(x[out], x[a], x[b])
        np.testing.assert_array_equal(x[out], expected)
    square = rng.standard_normal((64, 64)).astype("f")
    expected = square + square.T
    np.testing.assert_array_equal(add.into(square, square, square.T), expected)


@pytest.mark.parametrize("name", ["add", "exp", "tanh", "pow_tensor"])
def test_threads_do_not_change_a_bit(name: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    m = kernels.maps[name, "f"]
    inputs = [np.abs(rng.standard_normal((1500, 601)).astype("f")) for _ in m.in_types]
    for args in (inputs, [inputs[0].T, *inputs[1:2]] if len(inputs) == 1 else [inputs[0], inputs[1][:1]]):
        kernels.set_num_threads(1)
        one = m(*args)
        kernels.set_num_threads(3)
        three = m(*args)
        assert one.tobytes() == three.tobytes()


def test_a_map_says_what_it_is(kernels: ModuleType) -> None:
    m = kernels.maps["where", "d"]
    assert (m.name, m.op, m.in_types, m.out_type, m.n_params) == ("where_f64", "where", "?dd", "d", 0)
    assert repr(m) == "<C kernel where_f64 (?dd)->d>"
