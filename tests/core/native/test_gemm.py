"""The C kernel for matrix products: any shape, layout and stack; special values; the same bits for any threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core import native

c: Any = native.module
SIZES = [(1, 1, 1), (2, 3, 5), (8, 32, 16), (9, 33, 257), (7, 16, 300), (40, 17, 31), (130, 70, 513), (65, 200, 64)]
ULPS = {"f": 2.0**-24, "d": 2.0**-53}


def layouts(rng: Any, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    """The same numbers contiguous, transposed, every other of a larger array, and backwards."""
    x = rng.standard_normal(shape).astype(dtype)
    wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
    wide[..., ::2] = x
    return {
        "rows": x,
        "columns": np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
        "strided": wide[..., ::2],
        "backwards": np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
    }


def close(got: Any, a: Any, b: Any, bias: Any = None) -> None:
    wide = a.astype("d") @ b.astype("d") + (0 if bias is None else bias)
    scale = np.abs(a).astype("d") @ np.abs(b).astype("d") + (0 if bias is None else np.abs(bias))
    assert got.dtype == a.dtype
    assert got.flags.c_contiguous
    assert (np.abs(got - wide) <= (a.shape[-1] + 2) * ULPS[a.dtype.char] * scale + 1e-300).all()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_every_layout(m: int, n: int, k: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    bias = rng.standard_normal(n).astype(dtype)
    left, right = layouts(rng, (m, k), dtype), layouts(rng, (k, n), dtype)
    for a in left.values():
        for b in right.values():
            close(c.kernels["gemm"](a, b, None), a, b)
            close(c.kernels["gemm"](a, b, bias), a, b, bias)


def test_the_error_of_long_sums_is_that_of_short_ones() -> None:
    """Summed in one chain, these were off by 2.4e-6 and 5.5e-6 of the largest; in blocks by less than 5e-7."""
    rng = np.random.default_rng(5)
    for k in (4608, 16384):
        a, b = rng.standard_normal((40, k), np.float32), rng.standard_normal((k, 64), np.float32)
        exact = a.astype("d") @ b.astype("d")
        assert np.abs(c.kernels["gemm"](a, b, None) - exact).max() < 8e-7 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 5, 7), (3, 7, 4)), ((2, 3, 5, 7), (7, 4)), ((5, 7), (2, 3, 7, 4)), ((2, 1, 5, 7), (1, 3, 7, 4)),
     ((9, 20, 8), (1, 8, 20)), ((0, 4, 3), (3, 2)), ((4, 0, 3), (3, 2)), ((2, 4, 0), (2, 0, 3))],
)  # fmt: skip
def test_stacks(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    for x in layouts(rng, a, "f").values():
        for y in layouts(rng, b, "f").values():
            got = c.kernels["gemm"](x, y, None)
            assert got.shape == (x @ y).shape
            close(got, x, y)
    swapped = np.swapaxes(rng.standard_normal((a[0], 6, *a[1:])).astype("f"), 0, 1)
    if len(a) == len(b) == 3:
        close(
            c.kernels["gemm"](swapped, np.broadcast_to(y, (6, *y.shape)), None),
            swapped,
            np.broadcast_to(y, (6, *y.shape)),
        )


def test_a_bias_where_there_is_nothing_to_add_up() -> None:
    bias = np.array([1.0, np.nan, -3.0], "f")
    np.testing.assert_array_equal(c.kernels["gemm"](np.ones((2, 0), "f"), np.ones((0, 3), "f"), bias), [bias, bias])


def test_special_values_stay_in_their_rows_and_columns() -> None:
    a, b = np.ones((11, 40), "f"), np.ones((40, 37), "f")
    a[3, 5], a[9, 0], b[7, 35], b[39, 2] = np.nan, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(c.kernels["gemm"](a, b, None), a @ b)


@pytest.mark.parametrize(("m", "n", "k"), [(300, 90, 520), (16, 700, 300), (2000, 8, 40), (6, 6, 6)])
def test_the_same_bits_for_any_number_of_threads(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((3, m, k)).astype("f"), rng.standard_normal((k, n)).astype("f")
    before, found = c.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            c.set_num_threads(threads)
            found.append([c.kernels["gemm"](x, b, None) for x in (a[0], a, a.copy()[::2])])
    finally:
        c.set_num_threads(before)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert one.tobytes() == two.tobytes()


def test_a_row_is_the_same_among_many_and_few() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((100, 300)).astype("f"), rng.standard_normal((300, 50)).astype("f")
    whole = c.kernels["gemm"](a, b, None)
    for rows in (slice(0, 2), slice(13, 50), slice(96, 100)):
        assert c.kernels["gemm"](a[rows], b, None).tobytes() == whole[rows].tobytes()


def test_what_it_refuses() -> None:
    x = np.ones((2, 3), "f")
    for wrong in [
        (x, x, None),
        (np.ones((2, 4, 3), "f"), np.ones((3, 3, 2), "f"), None),
        (x, x.T, np.ones(3, "f")),
        (x, np.ones(3, "f"), None),
        (x, x.T.astype("d"), None),
        (x.astype("i"), x.T, None),
        (x, 3, None),
        (x, x.T),
    ]:
        with pytest.raises(TypeError, match="gemm takes a: real"):
            c.kernels["gemm"](*wrong)
