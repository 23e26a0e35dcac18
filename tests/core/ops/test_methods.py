"""Fills, random fills, memory and questions of tensors; lists of indices."""

from __future__ import annotations

import numpy as np
import pytest

import core


def test_fill_diagonal() -> None:
    x = core.zeros(5, 2).fill_diagonal_(1, wrap=True)
    want = np.zeros((5, 2))
    np.fill_diagonal(want, 1, wrap=True)
    np.testing.assert_array_equal(x.numpy(), want)
    y = core.ones(2, 2, requires_grad=True)
    (y * 2).fill_diagonal_(7).sum().backward()
    assert y.grad.tolist() == [[0.0, 2.0], [2.0, 0.0]]
    with pytest.raises(RuntimeError, match="dimensions must larger than 1"):
        core.zeros(3).fill_diagonal_(1)


def test_random_fills_have_their_moments() -> None:
    core.manual_seed(0)
    n = 40_000
    assert core.zeros(n).log_normal_(0.0, 0.25).mean().item() == pytest.approx(np.exp(0.03125), abs=0.01)
    assert core.zeros(n).cauchy_(3.0).median().item() == pytest.approx(3.0, abs=0.05)
    assert core.zeros(n).geometric_(0.25).mean().item() == pytest.approx(4.0, abs=0.1)
    drawn = core.poisson(core.full((n,), 2.5))
    assert drawn.mean().item() == pytest.approx(drawn.var().item(), abs=0.1) == pytest.approx(2.5, abs=0.05)
    with pytest.raises(RuntimeError, match="invalid Poisson rate"):
        core.poisson(core.tensor([-1.0]))
    with pytest.raises(RuntimeError, match=r"p to be in \(0, 1\)"):
        core.zeros(1).geometric_(1.5)


def test_poisson_of_a_single_number_is_one() -> None:
    drawn = core.poisson(core.tensor(2.5))
    assert drawn.shape == ()
    assert drawn.dtype == core.float32


def test_poisson_repeats_with_its_seed() -> None:
    first, second = (core.poisson(core.full((5,), 9.0), core.Generator().manual_seed(3)).tolist() for _ in range(2))
    assert first == second


def test_resize_keeps_what_fits() -> None:
    assert core.arange(6).resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert core.arange(2).resize_(3).tolist()[:2] == [0, 1]
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        core.ones(2, requires_grad=True).resize_(1)


def test_apply_and_map_stay_outside_the_graph() -> None:
    x = core.tensor([1.0, 4.0])
    assert x.apply_(lambda v: v * 2).tolist() == [2.0, 8.0]
    assert x.map_(core.tensor([1.0, 2.0]), lambda a, b: a - b).tolist() == [1.0, 6.0]
    with pytest.raises(RuntimeError, match="Can't call apply_"):
        core.ones(1, requires_grad=True).apply_(abs)


def test_buffers_share_their_memory() -> None:
    room = bytearray(8)
    x = core.frombuffer(room, dtype=core.int32)
    x[0] = 258
    assert room[:2] == b"\x02\x01"
    a = np.zeros(2)
    core.from_dlpack(a)[0] = 5
    assert a[0] == 5
    with pytest.raises(ValueError, match="multiple of element size"):
        core.frombuffer(bytearray(3), dtype=core.int32)


def test_memory_layouts() -> None:
    assert core.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    x = core.empty_permuted((2, 3, 4), (2, 0, 1))
    assert x.shape == (2, 3, 4)
    assert x.dim_order() == (2, 0, 1)


def test_lists_of_indices() -> None:
    assert core.combinations(core.tensor([1, 2, 3]), 2, True).tolist() == [
        [1, 1],
        [1, 2],
        [1, 3],
        [2, 2],
        [2, 3],
        [3, 3],
    ]
    rows, columns = core.unravel_index(core.tensor([5, 0]), (2, 3))
    assert (rows.tolist(), columns.tolist()) == ([1, 0], [2, 0])
    assert core.nonzero_static(core.tensor([0, 4, 5]), size=1).tolist() == [[1]]
    assert core.broadcast_shapes((3, 1), 4) == (3, 4)
    with pytest.raises(RuntimeError, match="must match the size"):
        core.broadcast_shapes((3,), (4,))
