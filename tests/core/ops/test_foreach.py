"""``_foreach_*``: for each tensor of a list what its method gives."""

from __future__ import annotations

import pytest

import core
from core.ops.foreach import ALONE, BESIDE, functions


def some():
    return [core.tensor([0.25, 0.5]), core.tensor([[0.75]])]


@pytest.mark.parametrize("name", [n for n in ALONE if n != "zero_"])
def test_of_a_list_alone(name):
    wanted = [getattr(x, name)() for x in some()]
    got, written = functions[f"_foreach_{name}"](some()), some()
    assert functions[f"_foreach_{name}_"](written) is None
    for a, b, c in zip(wanted, got, written, strict=True):
        assert core.equal(a.nan_to_num(), b.nan_to_num())
        assert core.equal(a.nan_to_num(), c.nan_to_num())


@pytest.mark.parametrize("name", [n for n in BESIDE if n not in ("copy_", "lerp", "addcmul", "addcdiv")])
@pytest.mark.parametrize("other", [2.0, "a tensor each", "a number each"])
def test_beside_something(name, other):
    given = {"a tensor each": [core.full_like(x, 2.0) for x in some()], "a number each": [2.0, 2.0]}.get(other, other)
    got = functions[f"_foreach_{name}"](some(), given)
    plain = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(name, name)
    for x, y in zip(some(), got, strict=True):
        assert core.equal(getattr(x, plain)(2.0), y)


def test_products_and_shares():
    x, y = some(), some()
    core._foreach_addcmul_(x, y, y, 0.5)
    for a, b in zip(x, some(), strict=True):
        assert core.equal(a, b + 0.5 * b * b)
    got = core._foreach_addcdiv(some(), y, y, value=2.0)
    assert all(core.equal(g, b + 2) for g, b in zip(got, some(), strict=True))
    got = core._foreach_lerp(some(), [core.zeros(2), core.zeros(1, 1)], 0.5)
    assert all(core.allclose(g, b / 2) for g, b in zip(got, some(), strict=True))
    assert core.equal(core._foreach_add(some(), y, alpha=2)[0], 3 * y[0])


def test_norms_copies_and_zeros():
    x = some()
    assert [float(n) for n in core._foreach_norm(x, 1)] == [0.75, 0.75]
    assert core._foreach_norm(x, dtype=core.float64)[0].dtype is core.float64
    assert [float(m) for m in core._foreach_max(x)] == [0.5, 0.75]
    core._foreach_copy_(x, [core.ones(2), core.ones(1, 1)])
    assert x[0].tolist() == [1, 1]
    core._foreach_zero_(x)
    assert x[1].tolist() == [[0]]


def test_lists_that_do_not_go_together():
    with pytest.raises(RuntimeError, match="Tensor list must have at least one tensor"):
        core._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="must have the same number of tensors"):
        core._foreach_mul(some(), [1.0])
