"""Shapes: sizes, broadcasting, dimensions and shape rules, with what they say when they do not fit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.shape import Size, as_shape, broadcast_shapes, normalize_dim, normalize_dims, parse_rule

shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


def test_size_is_a_tuple_that_counts():
    size = Size((2, 3, 4))
    assert size == (2, 3, 4)
    assert size.numel() == 24
    assert Size(()).numel() == 1
    assert repr(size) == "core.Size([2, 3, 4])"
    assert size[1] == 3
    assert size[1:].numel() == 12
    assert isinstance(size[:-1] + (7,), Size)
    assert {size: 1}[2, 3, 4] == 1
    assert copy.deepcopy(size) == pickle.loads(pickle.dumps(size)) == size
    a, *rest = size
    assert (a, rest) == (2, [3, 4])


@given(st.lists(shapes, max_size=3))
def test_broadcasting_is_numpys(some):
    try:
        expected = np.broadcast_shapes(*some)
    except ValueError:
        with pytest.raises(RuntimeError, match="must match the size of tensor b"):
            broadcast_shapes(*some)
    else:
        assert broadcast_shapes(*some) == expected


def test_a_mismatch_shows_shapes_dimension_and_place():
    with pytest.raises(RuntimeError) as caught:
        broadcast_shapes((5, 2, 3), (4, 3), op="add")
    message = str(caught.value)
    assert message.startswith(
        "The size of tensor a (2) must match the size of tensor b (4) at non-singleton dimension 1"
    )
    assert "op: add" in message
    assert "(5, 2, 3) and (4, 3)" in message
    rows = message.splitlines()
    a, b, caret = rows[2:5]
    assert caret.index("^") == a.index("2") == b.index("4")


@pytest.mark.parametrize(
    ("dim", "ndim", "expected"), [(0, 3, 0), (-1, 3, 2), (np.int64(1), 3, 1), (0, 0, 0), (-1, 0, 0)]
)
def test_dimensions(dim, ndim, expected):
    assert normalize_dim(dim, ndim) == expected


@pytest.mark.parametrize(("dim", "ndim"), [(3, 3), (-4, 3), (1, 0), (-2, 0)])
def test_dimensions_out_of_range(dim, ndim):
    with pytest.raises(IndexError, match="Dimension out of range") as caught:
        normalize_dim(dim, ndim, "sum")
    assert "op: sum" in str(caught.value)


def test_several_dimensions():
    assert normalize_dims(None, 3) == (0, 1, 2)
    assert normalize_dims((), 2) == (0, 1)
    assert normalize_dims([-1, 0], 3) == (0, 2)
    assert normalize_dims(np.int64(1), 3) == (1,)
    assert normalize_dims(0, 0) == ()
    with pytest.raises(RuntimeError, match="dim 1 appears multiple times in the list of dims"):
        normalize_dims((1, -1), 2)
    with pytest.raises(TypeError, match="argument 'dim' must be int, not float"):
        normalize_dims(1.0, 2, "sum")


def test_shapes_as_they_are_given():
    assert as_shape((2, 3)) == as_shape(((2, 3),)) == as_shape(([2, 3],)) == as_shape((Size((2, 3)),)) == (2, 3)
    assert as_shape((np.int64(4),)) == (4,)
    assert as_shape(()) == ()
    with pytest.raises(TypeError, match="float"):
        as_shape((2.5, 2))


RULE = parse_rule("(m,k),(k,n)->(m,n)")


def test_a_rule_gives_the_sizes():
    assert RULE.check("matmul", ("a", "b"), [(5, 2, 3), (3, 4)]) == {"m": 2, "k": 3, "n": 4}
    assert parse_rule("(n),()->(n)").check("f", ("x", "y"), [(3,), ()]) == {"n": 3}
    assert RULE.check("matmul", ("a", "b"), [(2, 3), None]) == {"m": 2, "k": 3}


@pytest.mark.parametrize(
    ("rule", "given_shapes", "says"),
    [
        ("(m,k),(k,n)->(m,n)", [(2, 3), (4, 5)], "disagree on size k: 3 and 4"),
        ("(m,k),(k,n)->(m,n)", [(3,), (3, 5)], "a needs at least 2 dimension"),
        ("(n,3)->(n)", [(5, 4)], "a needs size 3, got 4"),
        ("(m,k),(k,n)->(m,n)", [(2, 2, 3), (5, 3, 4)], "size of tensor a .2. must match the size of tensor b .5."),
    ],
)
def test_a_rule_that_is_broken(rule, given_shapes, says):
    with pytest.raises(RuntimeError, match=says) as caught:
        parse_rule(rule).check("f", ("a", "b"), given_shapes)
    assert "f" in str(caught.value)
    assert rule in str(caught.value)


def test_what_is_no_rule():
    with pytest.raises(ValueError, match="a shape rule reads"):
        parse_rule("(n)")
