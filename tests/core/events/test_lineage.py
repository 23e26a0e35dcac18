"""The way of a value through NumPy: kept while an observer wants it, told where backward() finds the graph cut."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.events import lineage, observe
from core.events.lineage import Traced


class Wants(observe.Observer):
    wants = frozenset({"lineage"})

    def __init__(self) -> None:
        self.came_back: list[observe.ReturnEvent] = []

    def returned(self, event):
        self.came_back.append(event)


@pytest.fixture
def wants():
    observer = Wants()
    with observe.observing(observer):
        yield observer


X = core.ones(3, requires_grad=True)


def steps(a) -> list[str]:
    return [what for _, what in (a.origin if isinstance(a, Traced) else lineage.origin(a))]


def test_plain_arrays_without_an_observer_that_wants_it():
    assert type(X.detach().numpy()) is np.ndarray
    with observe.observing(observe.Observer()):
        assert type(X.detach().numpy()) is np.ndarray


def test_through_ufuncs_and_functions(wants):
    a = X.detach().numpy()
    b = np.concatenate([np.exp(a) + 1, a[1:]])
    assert steps(b) == [".numpy()", "np.exp", "np.add", "np.concatenate"]
    t = core.from_numpy(b)
    assert steps(t)[-1] == "back into a tensor, as a constant"
    assert type(t._a) is np.ndarray
    (event,) = wants.came_back
    assert event.tensor is t
    assert [s.shape for s in event.sources] == [(3,)]


def test_memory_is_shared_and_values_are_numpys(wants):
    t = core.arange(6).reshape(2, 3)
    a = t.numpy()
    assert np.shares_memory(a, t._a)
    for f in (np.sum, np.mean, np.argsort, lambda a: a.T @ a, lambda a: a > 2, lambda a: np.add.reduce(a, 1),
              lambda a: a[a > 1], lambda a: np.where(a > 1, a, 0), lambda a: np.maximum.accumulate(a),
              lambda a: np.linalg.norm(a), str, repr):  # fmt: skip
        plain, got = f(np.asarray(t._a)), f(a)
        np.testing.assert_array_equal(got, plain) if not isinstance(plain, str) else None
        if not isinstance(plain, np.ndarray | str):
            assert type(got) is type(plain)


def test_out_keeps_its_identity(wants):
    a = X.detach().numpy()
    buffer = np.zeros(3, np.float32)
    assert np.add(a, 1, out=buffer) is buffer
    assert type(buffer) is np.ndarray
    b = a.copy()
    before = b
    b += 1
    assert b is before
    assert steps(b)[-1] == "np.add"
    assert np.multiply(buffer, 2, out=b) is b
    assert b.tolist() == [4, 4, 4]


def test_several_results(wants):
    whole, part = np.divmod(X.detach().numpy(), 0.3)
    assert steps(whole) == steps(part) == [".numpy()", "np.divmod"]
    pieces = np.split(X.detach().numpy(), 3)
    assert [steps(p) for p in pieces] == [[".numpy()", "np.split"]] * 3
    q = np.linalg.qr(np.outer(X.detach().numpy(), [1, 2, 3]))
    assert steps(q.Q)[-1] == "np.qr"


def test_two_sources(wants):
    a, b = (X * 2).detach().numpy(), (X * 3).detach().numpy()
    t = core.tensor(np.stack([a, b]))
    assert steps(t).count(".numpy()") == 2
    assert len(wants.came_back[0].sources) == 2


def test_a_where_argument_and_an_array_as_operand(wants):
    a = X.detach().numpy()
    assert steps(np.add([1, 2, 3], 1, where=a > 0, out=np.zeros(3).view(Traced)))[:2] == [".numpy()", "np.greater"]
    y = X.detach() * np.exp(a)
    assert steps(y) == [".numpy()", "np.exp", "back into a tensor, as a constant"]
    assert type(y._a) is np.ndarray


def test_backward_tells_the_whole_way(wants):
    def loss():
        h = (X * 2).detach().numpy()
        z = core.from_numpy(np.square(h))
        return (z * 3 + 1).sum()

    start = loss.__code__.co_firstlineno
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn") as caught:
        loss().backward()
    message = str(caught.value)
    assert f".numpy() at test_lineage.py line {start + 1}" in message
    assert f"np.square at test_lineage.py line {start + 2} (np.square(h))" in message
    assert (
        f"back into a tensor, as a constant at test_lineage.py line {start + 2} (core.from_numpy(np.square(h)))"
        in message
    )


def test_a_tensor_that_did_not_come_from_numpy():
    assert lineage.origin(core.ones(3)) == ()
    assert lineage.story(core.ones(3)) == ""


def test_nothing_is_held_after_the_tensor():
    import gc
    import weakref

    gc.disable()
    try:
        with observe.observing(Wants()):
            t = core.from_numpy(np.exp(X.detach().numpy()))
        ref = weakref.ref(t)
        del t
        assert ref() is None
    finally:
        gc.enable()
