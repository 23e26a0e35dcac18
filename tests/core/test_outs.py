"""``out=`` of the functions that are written without it."""

from __future__ import annotations

import pytest

import core
from core.dispatch import publish
from core.ops import outs


def test_results_are_written_into_what_is_given() -> None:
    a, out = core.arange(4.0).reshape(2, 2), core.empty(0)
    assert core.matmul(a, a, out=out) is out
    assert out.tolist() == (a @ a).tolist()
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        assert core.mean(a, 0, out=out) is out
    assert out.tolist() == [1, 2]
    assert core.linalg.matmul(a, a, out=core.zeros(2, 2)).tolist() == (a @ a).tolist()


def test_several_results() -> None:
    values, indices = core.empty(0), core.empty(0, dtype=core.int64)
    found = core.max(core.tensor([[1.0, 3.0]]), 1, out=(values, indices))
    assert found.values is values
    assert (values.tolist(), indices.tolist()) == ([3.0], [1])


def test_it_is_not_recorded() -> None:
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        core.mm(core.ones(1, 1, requires_grad=True), core.ones(1, 1), out=core.empty(0))


@pytest.mark.parametrize("name", outs.NAMES)
def test_every_name_is_a_function_that_takes_out(name: str) -> None:
    assert publish.namespaces[""][name] is getattr(core, name)
    with pytest.raises((TypeError, RuntimeError, IndexError, AttributeError)):
        getattr(core, name)(out=core.empty(0))


@pytest.mark.parametrize(("dtype", "low", "high"), [
    (core.float32, core.tensor([2.0, 2.0]), core.tensor([3.0, 3.0])),
    (core.float32, core.tensor([2.0, 2.0]), 3.0), (core.float32, 2.0, core.tensor(3.0)), (core.float32, 2, 3),
    (core.int64, 2, 3), (core.int64, core.tensor([2, 2]), 3),
])  # fmt: skip
@pytest.mark.parametrize("form", ["clamp", "clip"])
def test_clamp_writes_what_is_given(form: str, dtype: core.dtype, low: object, high: object) -> None:
    out = core.tensor([9, 9], dtype=dtype)
    assert getattr(core, form)(core.tensor([1, 5], dtype=dtype), low, high, out=out) is out
    assert out.tolist() == [2, 3]
    assert core.clamp(core.tensor([1, 5], dtype=dtype), min=low, out=out).tolist() == [2, 5]
    assert out.tolist() == [2, 5]
    assert core.clamp_max(core.tensor([1, 5], dtype=dtype), high, out=out) is out
    assert out.tolist() == [1, 3]


@pytest.mark.parametrize(("call", "expected"), [
    (lambda out: core.cummax(core.tensor([1.0, 3.0, 2.0]), 0, out=out), ([1, 3, 3], [0, 1, 1])),
    (lambda out: core.cummin(core.tensor([3.0, 1.0, 2.0]), 0, out=out), ([3, 1, 1], [0, 1, 1])),
    (lambda out: core.frexp(core.tensor([6.0, 0.5]), out=out), ([0.75, 0.5], [3, 0])),
])  # fmt: skip
def test_pairs_are_written(call: object, expected: tuple[list[float], list[int]]) -> None:
    out = core.empty(0), core.empty(0, dtype=core.int64)
    found = call(out)  # type: ignore[operator]
    assert found[0] is out[0]
    assert found[1] is out[1]
    assert (out[0].tolist(), out[1].tolist()) == expected


def test_a_histogram_and_extremes_are_written() -> None:
    hist, edges, low, high = (core.empty(0) for _ in range(4))
    core.histogram(core.tensor([1.0, 2.0, 1.0]), 2, range=(0.0, 3.0), out=(hist, edges))
    assert (hist.tolist(), edges.tolist()) == ([2, 1], [0, 1.5, 3])
    core.aminmax(core.tensor([1.0, 2.0, -1.0]), out=(low, high))
    assert (low.item(), high.item()) == (-1, 2)


def test_several_elements_in_one_place_are_not_written() -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        core.add(core.ones(3), 1, out=core.zeros(1).expand(3))


def test_the_type_of_out_must_hold_the_result() -> None:
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        core.clamp(core.ones(2), core.zeros(2), core.ones(2), out=core.zeros(2, dtype=core.int64))
