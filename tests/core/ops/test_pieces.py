"""Narrow, select, diagonals, splits and windows against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import core

X = np.arange(24.0).reshape(2, 3, 4)


@given(st.integers(0, 9), st.integers(1, 11), st.integers(0, 1))
def test_split_and_chunk_cover_everything_in_order(n: int, k: int, dim: int) -> None:
    x = core.arange(n * 2).reshape((n, 2) if dim == 0 else (2, n))
    for pieces in (x.split(k, dim), x.chunk(k, dim), x.tensor_split(k, dim)):
        assert core.cat(pieces, dim).tolist() == x.tolist()
        assert all(p._base is x._base for p in pieces)
    assert all(p.shape[dim] == k for p in x.split(k, dim)[:-1])
    assert len(x.tensor_split(k, dim)) == k
    assert len(x.chunk(k, dim)) <= k


@pytest.mark.parametrize("offset", range(-3, 5))
@pytest.mark.parametrize("dims", [(0, 1), (1, 2), (2, 0), (-1, -2)])
def test_diagonal(offset: int, dims: tuple[int, int]) -> None:
    x = core.from_numpy(X)
    y = x.diagonal(offset, *dims)
    np.testing.assert_array_equal(y.numpy(), X.diagonal(offset, *dims))
    assert not y.numel() or np.shares_memory(y._a, X)


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_diag_embed_and_diagonal_undo_each_other(offset: int) -> None:
    x = core.from_numpy(X)
    y = core.diag_embed(x, offset)
    assert y.diagonal(offset, -2, -1).tolist() == x.tolist()
    assert y.sum().item() == x.sum().item()
    assert tuple(core.diag_embed(x, offset, 0, 2).shape) == (4 + abs(offset), 2, 4 + abs(offset), 3)


@pytest.mark.parametrize(("size", "step"), [(1, 1), (2, 1), (3, 2), (4, 1), (0, 1)])
def test_unfold(size: int, step: int) -> None:
    got = core.from_numpy(X).unfold(2, size, step).numpy()
    want = np.lib.stride_tricks.sliding_window_view(X, size, 2)[:, :, ::step] if size else np.zeros((2, 3, 5, 0))
    np.testing.assert_array_equal(got, want)


def test_overlapping_windows_add_their_gradients() -> None:
    x = core.arange(5.0).requires_grad_()
    x.unfold(0, 3, 1).sum().backward()
    assert x.grad.tolist() == [1, 2, 3, 2, 1]


@pytest.mark.parametrize(("call", "error", "phrase"), [
    (lambda x: x.narrow(0, 0, -1), RuntimeError, "length must be non-negative"),
    (lambda x: x.narrow(0, 3, 0), IndexError, "start out of range"),
    (lambda x: x.narrow(0, 1, 2), RuntimeError, "exceeds dimension size (2)"),
    (lambda x: x.select(0, 2), IndexError, "select(): index 2 out of range for tensor of size [2, 3, 4] at"),
    (lambda x: x.split([1], 0), RuntimeError, "to sum exactly to 2"),
    (lambda x: x.split(0), RuntimeError, "split_size can only be 0"),
    (lambda x: x.split(-1), RuntimeError, "split_size be non-negative"),
    (lambda x: x.chunk(0), RuntimeError, "to be greater than 0"),
    (lambda x: x.tensor_split(0), RuntimeError, "must be larger than 0"),
    (lambda x: x.diagonal(0, 1, -2), RuntimeError, "cannot be identical"),
    (lambda x: x.diag(), RuntimeError, "Supports 1D or 2D tensors"),
    (lambda x: x.unfold(2, 5, 1), RuntimeError, "maximum size for tensor at dimension 2 is 4 but size is 5"),
    (lambda x: x.unfold(2, 2, 0), RuntimeError, "must be > 0"),
    (lambda x: x.sum().unbind(), IndexError, "tensor has no dimensions"),
    (lambda x: list(x.sum()), TypeError, "iteration over a 0-d tensor"),
])  # fmt: skip
def test_errors(call: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error) as e:
        call(core.from_numpy(X))
    assert phrase in str(e.value)


def test_iterating_gives_views() -> None:
    rows = list(core.from_numpy(X.copy()))
    assert [tuple(r.shape) for r in rows] == [(3, 4)] * 2
    assert rows[0]._is_view()


@pytest.mark.parametrize("n", [64, 65, 1024, 1025])
def test_many_pieces_and_their_gradients(n: int) -> None:
    a = np.random.default_rng(0).standard_normal((n, 2))
    x = core.tensor(a, requires_grad=True)
    for pieces in (x.unbind(0), x.split(1), x.chunk(n)):
        assert len(pieces) == n
        assert all(np.shares_memory(p._a, x._a) for p in pieces)
        x.grad = None
        (pieces[0].sum() * 2 + pieces[n - 1].sum() * 3).backward()
        assert [x.grad[0, 0].item(), x.grad[n - 1, 1].item(), x.grad.sum().item()] == [2, 3, 10]
