"""What happens beside an op: other threads' gradients, a thread's last finalisers, other classes' operators."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import core


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("kind", ["C", "Python", "both"])
def test_the_first_gradients_of_several_threads_are_all_added(quick_switches: None, kind: str) -> None:
    for _ in range(60):
        x = core.ones(300, 300, requires_grad=True)  # so large that the copy of a gradient lets other threads run
        ready = threading.Barrier(4)

        def run(k: int, x: Any = x, ready: threading.Barrier = ready) -> None:
            y = x.sum()
            ready.wait()
            if kind == "C" or (kind == "both" and k % 2):
                y.backward()
            else:
                core.autograd.backward([y])

        threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert x.grad[0, 0].item() == x.grad[-1, -1].item() == 4


def test_what_a_thread_lets_go_of_last_may_run_ops() -> None:
    seen = []
    own = threading.local()

    class Last:
        def __del__(self) -> None:
            x = core.ones(3, requires_grad=True)
            (x * 2).sum().backward()
            with core.no_grad():
                y = x + 1
            seen.append((x.grad.tolist(), (x + 1).requires_grad, y.requires_grad))

    def run(first: bool) -> None:
        if first:
            (core.ones(2, requires_grad=True) * 2).sum().backward()
        own.last = Last()
        with core.no_grad():
            assert not (core.ones(2, requires_grad=True) * 2).requires_grad

    for k in range(20):
        thread = threading.Thread(target=run, args=(k % 2 == 0,))
        thread.start()
        thread.join()
    assert seen == [([2.0, 2.0, 2.0], True, False)] * 20


NAMES = ["add", "sub", "mul", "truediv", "pow", "matmul"]


class Other:
    pass


for name in NAMES:
    setattr(Other, f"__r{name}__", lambda self, other, name=name: (name, other))


@pytest.mark.skipif(core.native.module is None, reason="the C operators ask")
@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_knows_tensors_is_asked(name: str) -> None:
    x = core.ones(3)
    assert getattr(operator, name)(x, Other()) == (name, x)


@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_knows_nothing_is_refused(name: str) -> None:
    with pytest.raises(TypeError):
        getattr(operator, name)(core.ones(3), object())


def test_plus_a_tensor_is_the_tensor() -> None:
    x = core.ones(3)
    assert +x is x
    with pytest.raises(RuntimeError, match="bool"):
        _ = +(x > 0)


def test_a_gradient_is_deleted() -> None:
    x = core.ones(3, requires_grad=True)
    x.sum().backward()
    del x.grad
    assert x.grad is None


def test_a_number_to_the_power_of_integers_is_of_the_default_dtype() -> None:
    core.set_default_dtype(core.float64)
    try:
        assert (2.5 ** core.tensor([1, 2])).dtype is core.float64
    finally:
        core.set_default_dtype(core.float32)


def test_a_long_chain_of_gradients_is_let_go_of() -> None:
    last = core.ones(1, requires_grad=True)
    for _ in range(200_000):
        first = core.ones(1, requires_grad=True)
        first.grad = last
        last = first
    del first, last


def test_an_array_kept_for_the_next_op_has_the_usual_strides() -> None:
    x = core.ones(1, 4)
    for _ in range(40):
        strange = np.empty((1, 4), np.float32, order="F")  # contiguous as C has it, too: its first axis has one item
        t = core.from_numpy(strange)
        del strange, t
        assert (x + 1).stride() == (4, 1)
