"""Grad modes: as contexts, as decorators of functions and generators, by thread, nested."""

from __future__ import annotations

import threading

import pytest

import core
from core import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled


def recorded() -> bool:
    return (core.ones(1, requires_grad=True) * 2).requires_grad


def test_nesting_and_restoring():
    assert is_grad_enabled()
    with no_grad():
        assert not recorded()
        with enable_grad():
            assert recorded()
            with inference_mode():
                assert not recorded()
            assert recorded()
        assert not recorded()
    assert recorded()


def test_an_error_restores():
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert is_grad_enabled()


def test_one_instance_may_be_entered_twice():
    mode = no_grad()
    with mode:
        with mode:
            assert not is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_set_grad_enabled_as_context_and_as_function():
    with set_grad_enabled(False):
        assert not is_grad_enabled()
    assert is_grad_enabled()
    set_grad_enabled(False)
    assert not is_grad_enabled()
    with set_grad_enabled(True):
        assert is_grad_enabled()
    assert not is_grad_enabled()
    set_grad_enabled(True)
    assert is_grad_enabled()


def test_inference_mode_takes_a_mode():
    with inference_mode(False):
        assert is_grad_enabled()
    with inference_mode(mode=True):
        assert not is_grad_enabled()


@pytest.mark.parametrize(
    ("decorator", "inside"),
    [
        (lambda: no_grad(), False),
        (lambda: no_grad, False),
        (lambda: enable_grad(), True),
        (lambda: enable_grad, True),
        (lambda: inference_mode(), False),
        (lambda: inference_mode, False),
        (lambda: inference_mode(False), True),
        (lambda: set_grad_enabled(False), False),
    ],
)
def test_decorators(decorator, inside):
    @decorator()
    def f(a: int, *, b: int = 2) -> tuple[bool, int]:
        """The doc."""
        return is_grad_enabled(), a + b

    assert is_grad_enabled()
    assert f(1, b=3) == (inside, 4)
    assert (f.__name__, f.__doc__) == ("f", "The doc.")
    assert is_grad_enabled()
    with no_grad():
        assert f(1)[0] is inside
        assert not is_grad_enabled()


def test_a_decorated_function_may_call_itself():
    @no_grad()
    def f(n: int) -> bool:
        return f(n - 1) if n else is_grad_enabled()

    assert f(3) is False
    assert is_grad_enabled()


def test_generators_keep_their_mode_and_leave_the_callers_alone():
    seen = []

    @no_grad()
    def numbers():
        sent = None
        try:
            for i in range(3):
                seen.append(is_grad_enabled())
                sent = yield (i, sent)
        except KeyError:
            seen.append(is_grad_enabled())
            yield "caught"
        finally:
            seen.append(is_grad_enabled())
        return "done"

    run = numbers()
    assert next(run) == (0, None)
    assert is_grad_enabled()
    assert run.send("x") == (1, "x")
    assert run.throw(KeyError()) == "caught"
    with pytest.raises(StopIteration) as stop:
        next(run)
    assert stop.value.value == "done"
    assert seen == [False] * 4
    run = numbers()
    next(run)
    run.close()
    assert seen[-1] is False
    assert [x for x, _ in numbers()] == [0, 1, 2]
    assert is_grad_enabled()


def test_threads_have_their_own():
    seen = []

    def look() -> None:
        seen.append(is_grad_enabled())
        with no_grad():
            seen.append(is_grad_enabled())

    with no_grad():
        t = threading.Thread(target=look)
        t.start()
        t.join()
        assert not is_grad_enabled()
    assert seen == [True, False]


def test_what_no_grad_does_not_stop():
    with no_grad():
        w = core.ones(2, requires_grad=True)
        assert w.requires_grad
        assert w.is_leaf
        w += 1
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2, 2]


def test_backward_runs_in_no_grad():
    w = core.ones(2, requires_grad=True)
    y = (w * w).sum()
    with no_grad():
        y.backward()
    assert w.grad.tolist() == [2, 2]
    assert not w.grad.requires_grad
