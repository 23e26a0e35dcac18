"""Reading and writing with brackets: NumPy is the reference where the two agree, PyTorch's words where it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import core
from core.autograd import gradcheck, gradgradcheck

X = np.arange(60.0).reshape(3, 4, 5)
basic = hnp.basic_indices((3, 4, 5), allow_newaxis=True).filter(
    lambda k: all(
        not isinstance(i, slice) or i.step is None or i.step > 0 for i in (k if isinstance(k, tuple) else (k,))
    )
)


def key_of(index: Any) -> Any:
    """The same index with tensors for arrays."""
    if isinstance(index, tuple):
        return tuple(key_of(i) for i in index)
    return core.from_numpy(index) if isinstance(index, np.ndarray) else index


@given(basic)
def test_basic_indices_are_views(index: Any) -> None:
    x = core.from_numpy(X.copy())
    y = x[index]
    np.testing.assert_array_equal(y.numpy(), X[index])
    assert y._is_view()
    assert not y.numel() or np.shares_memory(y._a, x._a)
    y.fill_(-1)
    want = X.copy()
    want[index] = -1
    np.testing.assert_array_equal(x.numpy(), want)


@given(basic, st.data())
def test_basic_writes(index: Any, data: Any) -> None:
    want, x = X.copy(), core.from_numpy(X.copy())
    shape = X[index].shape
    value = np.asarray(
        np.arange(float(np.prod(shape, dtype=int))).reshape(shape) * data.draw(st.sampled_from([1.0, -2.0]))
    )
    want[index] = value
    x[index] = core.from_numpy(value)
    np.testing.assert_array_equal(x.numpy(), want)


@given(
    hnp.integer_array_indices((3, 4, 5), result_shape=hnp.array_shapes(max_dims=2, max_side=3), dtype=np.int64),
    st.integers(0, 2),
)
def test_index_tensors(index: tuple[Any, ...], drop: int) -> None:
    index = index[: 3 - drop]
    x = core.from_numpy(X.copy())
    np.testing.assert_array_equal(x[key_of(index)].numpy(), X[index])
    want = X.copy()
    want[index] = 7
    x[key_of(index)] = 7
    np.testing.assert_array_equal(x.numpy(), want)


@given(hnp.arrays(bool, st.sampled_from([(3,), (3, 4), (3, 4, 5)])))
def test_masks(mask: Any) -> None:
    x = core.from_numpy(X.copy()).requires_grad_()
    y = x[core.from_numpy(mask)]
    np.testing.assert_array_equal(y.detach().numpy(), X[mask])
    y.sum().backward()
    np.testing.assert_array_equal(
        x.grad.numpy(), np.broadcast_to(mask.reshape(mask.shape + (1,) * (3 - mask.ndim)), X.shape)
    )


K, J = np.array([0, 2, 0]), np.array([[1], [3]])
MIXED = [
    (slice(None), K % 4), (K, slice(None), K), (slice(None), J, K), (Ellipsis, K), (K, None, J),
    (slice(0, 2), K, slice(1, None, 2)),
    ([0, 1], [1, 2]), (X[..., 0] > 10, slice(1, 3)), (slice(None), X[0] > 3), (K,), (J % 3, J),
]  # fmt: skip


@pytest.mark.parametrize("index", MIXED, ids=range(len(MIXED)))
def test_mixed(index: Any) -> None:
    x = core.from_numpy(X.copy())
    np.testing.assert_array_equal(x[key_of(index)].numpy(), X[index])
    value = np.cos(X[index])
    want = X.copy()
    want[index] = value
    x[key_of(index)] = core.from_numpy(value)
    np.testing.assert_array_equal(x.numpy(), want)


def test_a_number_beside_an_index_tensor_is_taken_first() -> None:
    # NumPy would count the 0 as an index array, and move the dimension of the indices to the front.
    assert tuple(core.from_numpy(X)[0, :, core.tensor([1, 2, 3])].shape) == (4, 3)
    assert X[0, :, [1, 2, 3]].shape == (3, 4)


@pytest.mark.parametrize("index", MIXED, ids=range(len(MIXED)))
def test_gradients_to_second_order(index: Any) -> None:
    x = core.tensor(np.sin(X), requires_grad=True)
    value = core.tensor(np.cos(X[index]), requires_grad=True)
    assert gradcheck(lambda x: x[key_of(index)].square(), (x,))
    assert gradgradcheck(lambda x: x[key_of(index)].square(), (x,))

    def written(x: Any, value: Any) -> Any:
        y = x * 1
        y[key_of(index)] = value * 2
        return y.square().sum()

    places = np.arange(60).reshape(X.shape)[index]
    if np.unique(places).size == places.size:  # of equal places the last one stays: no gradient to speak of
        assert gradcheck(written, (x, value))
        assert gradgradcheck(written, (x, value))


def test_equal_places_add_their_gradients() -> None:
    x = core.zeros(3, requires_grad=True)
    (x[core.tensor([0, 0, 2])] * core.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [11, 0, 100]


def test_the_sum_of_equal_places_has_the_same_bits_every_time(rng: np.random.Generator) -> None:
    i = core.from_numpy(rng.integers(0, 5, 4000))
    g = core.from_numpy(rng.normal(size=(4000, 3)).astype(np.float32))
    first = core.zeros(5, 3).index_add(0, i, g).numpy()
    for _ in range(3):
        assert core.zeros(5, 3).index_add(0, i, g).numpy().tobytes() == first.tobytes()
    np.testing.assert_allclose(
        first, [g.numpy()[i.numpy() == k].sum(0, np.float64) for k in range(5)], rtol=1e-4, atol=1e-4
    )


def test_booleans_and_scalar_tensors() -> None:
    x = core.from_numpy(X)
    assert tuple(x[True].shape) == (1, 3, 4, 5)
    assert tuple(x[False].shape) == (0, 3, 4, 5)
    assert x[core.tensor(1)]._is_view()
    assert x[np.int64(1), -1, core.tensor(2)].item() == X[1, -1, 2]


@pytest.mark.parametrize(("index", "error", "phrase"), [
    (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    ((0, -5), IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
    (slice(None, None, -1), ValueError, "step must be greater than zero"),
    ([0, 3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    (([0, 1], [0, 1, 2]), IndexError, "indexing tensors could not be broadcast together with shapes [2], [3]"),
    (1.5, IndexError, "only integers, slices"),
    ("a", TypeError, "invalid data type 'str'"),
    (np.zeros(3), IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    (np.ones(4, bool), IndexError, "The shape of the mask [4] at index 0 does not match the shape of the indexed"),
    (slice("a"), TypeError, "slice indices must be integers"),
])  # fmt: skip
def test_errors(index: Any, error: Any, phrase: str) -> None:
    x = core.from_numpy(X.copy())
    for attempt in (lambda: x[index], lambda: x.__setitem__(index, 1.0)):
        with pytest.raises(error) as e:
            attempt()
        assert phrase in str(e.value)
    np.testing.assert_array_equal(x.numpy(), X)


def test_a_value_of_the_wrong_shape() -> None:
    x = core.zeros(3, 4)
    with pytest.raises(
        RuntimeError, match=r"value tensor of shape \[3\] cannot be broadcast to indexing result of shape \[2, 4\]"
    ):
        x[[0, 1]] = core.ones(3)
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x[0] = core.ones(3)
    x[0] = core.ones(1, 1, 4)
    assert x[0].tolist() == [1, 1, 1, 1]


def test_byte_masks_warn() -> None:
    with pytest.warns(UserWarning, match=r"uint8 is now deprecated"):
        assert core.arange(3)[core.tensor([1, 0, 1], dtype=core.uint8)].tolist() == [0, 2]


def test_an_empty_index_on_a_number() -> None:
    x = core.tensor(2.0)
    assert x[()].item() == x[...].item() == 2
    assert tuple(x[None].shape) == (1,)
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        x[0]


@pytest.mark.parametrize(("shape", "fits"), [
    ((), True), ((1,), True), ((3,), True), ((2, 3), True), ((2, 1), True), ((1, 2, 3), True), ((1, 1, 1, 3), True),
    ((2,), False), ((3, 3), False), ((3, 2), False), ((2, 2, 3), False), ((2, 1, 2, 3), False), ((0,), False),
])  # fmt: skip
def test_values_that_fit_into_what_an_index_chooses(shape: tuple[int, ...], fits: bool) -> None:
    x, rows = np.zeros((4, 3)), np.array([2, 0])
    values = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
    t = core.from_numpy(x.copy())
    if not fits:
        with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
            t[core.tensor(rows)] = core.from_numpy(values)
        with pytest.raises(RuntimeError, match=r"shape mismatch|cannot be broadcast"):
            t.index_put((core.tensor(rows),), core.from_numpy(values))
        return
    x[rows] = values.reshape(values.shape[-2:]) if values.ndim > 2 else values
    t[core.tensor(rows)] = core.from_numpy(values)
    np.testing.assert_array_equal(t.numpy(), x)
    again = core.zeros(4, 3, dtype=core.float64).index_put((core.tensor(rows),), core.from_numpy(values))
    np.testing.assert_array_equal(again.numpy(), x)
