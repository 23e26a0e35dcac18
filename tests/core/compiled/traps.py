"""Programs in which something may change between two calls, each with what changes it: a replay that does not notice
gives a wrong answer."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import core
from core import nn
from core.nn import functional as F

TRAPS: dict[str, Callable[[], Trap]] = {}


class Trap(NamedTuple):
    """A function, its arguments at the n-th call, and what happens before that call."""

    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    before: Callable[[int], Any] = lambda n: None
    state: Callable[[], Any] = lambda: ()  # what the program may have changed besides


def trap(make):
    TRAPS[make.__name__] = make
    return make


def one(n, *shape):
    return (core.randn(*(shape or (4, 5))),)


def at(k, do):
    return lambda n: do() if n == k else None


factor = 3.0
W = None


@trap
def global_number():
    global factor
    factor = 3.0

    def change():
        global factor
        factor = 5.0

    return Trap(lambda x: x * factor + 1, one, at(6, change))


@trap
def global_tensor_replaced():
    global W
    W = core.randn(5, 5)

    def change():
        global W
        W = core.randn(5, 5)

    return Trap(lambda x: core.tanh(x @ W) * 2, one, at(6, change))


@trap
def global_tensor_written():
    global W
    W = core.randn(5, 5)
    return Trap(lambda x: core.tanh(x @ W) * 2, one, lambda n: W.mul_(1.5))


@trap
def global_tensor_data_replaced():
    global W
    W = core.randn(5, 5)

    def change():
        W.data = core.randn(5, 5)

    return Trap(lambda x: core.tanh(x * W[0]) * 2, one, at(6, change))


@trap
def global_tensor_other_shape():
    global W
    W = core.randn(5)

    def change():
        W.data = core.randn(4, 1)

    return Trap(lambda x: core.tanh(x * W), one, at(6, change))


@trap
def default_list():
    def f(x, scale=[1.0, 2.0]):  # noqa: B006
        return x * scale[0] + scale[1]

    return Trap(f, one, at(6, lambda: f.__defaults__[0].__setitem__(0, 7.0)))


@trap
def defaults_replaced():
    def f(x, k=2.0):
        return core.exp(x) * k

    return Trap(f, one, at(6, lambda: setattr(f, "__defaults__", (9.0,))))


@trap
def code_replaced():
    def f(x):
        return core.exp(x) * 2

    def g(x):
        return core.exp(x) * 3

    return Trap(lambda x: f(x) + 1, one, at(6, lambda: setattr(f, "__code__", g.__code__)))


@trap
def closure_number():
    k = 1.0

    def f(x):
        return core.sin(x) * k

    def change():
        nonlocal k
        k = 4.0

    return Trap(f, one, at(6, change))


@trap
def closure_counts():
    k = 0

    def f(x):
        nonlocal k
        k += 1
        return core.sin(x) * k

    return Trap(f, one, state=lambda: k)


@trap
def dropout():
    m = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5))
    return Trap(m, one)


@trap
def train_then_eval():
    m = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5))
    m.eval()
    return Trap(lambda x: m(x) * 2, one, lambda n: m.train(n in (6, 7)))


@trap
def functional_dropout_flag():
    def f(x, training):
        return F.dropout(core.exp(x), 0.5, training)

    return Trap(f, lambda n: (*one(n), n > 7))


@trap
def batch_norm_statistics():
    m = nn.BatchNorm1d(5)
    return Trap(m, one, lambda n: m.train(n != 8) and None, lambda: [b.clone() for b in m.buffers()])


@trap
def branch_on_value():
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x * 3

    return Trap(f, one)


@trap
def branch_on_shape():
    def f(x):
        return x * 2 if x.shape[0] > 4 else core.exp(x)

    return Trap(f, lambda n: one(n, 3 + n % 3, 5))


@trap
def item():
    return Trap(lambda x: x * float(x.max()), one)


@trap
def tolist():
    return Trap(lambda x: x * max(x.flatten().tolist()), one)


@trap
def through_numpy():
    return Trap(lambda x: x * core.from_numpy(np.sort(x.detach().numpy())), one)


@trap
def numpy_scalar():
    return Trap(lambda x: x * float(x.detach().numpy().max()), one)


@trap
def random_inside():
    return Trap(lambda x: x + core.rand(4, 5), one)


@trap
def numpy_random():
    return Trap(lambda x: x * np.random.rand(), one)  # noqa: NPY002


@trap
def in_place_on_copy():
    def f(x):
        y = x.clone()
        y += 1
        y *= 2
        return y.tanh()

    return Trap(f, one)


@trap
def in_place_on_part():
    def f(x):
        y = core.exp(x)
        y[1] = 0
        y[:, 2] += 5
        return y * 2

    return Trap(f, one)


@trap
def in_place_on_argument():
    xs: list[Any] = []

    def f(x):
        x.add_(1)
        return core.exp(x) * 2

    def arguments(n):
        xs.append(core.randn(4, 5))
        return (xs[-1],)

    return Trap(f, arguments, state=lambda: xs[-1].clone())


@trap
def argument_of_another_shape():
    return Trap(lambda x: x.reshape(-1) / x.shape[0], lambda n: one(n, 2 + n // 3, 6))


@trap
def argument_of_other_strides():
    return Trap(lambda x: core.exp(x) * 2, lambda n: (core.randn(5, 5).T,) if n % 2 else one(n, 5, 5))


@trap
def argument_of_another_dtype():
    kinds = (core.float32, core.float64, core.int64)
    return Trap(lambda x: core.exp(x) * 2 + x, lambda n: (core.ones(4, 5).to(kinds[n // 3 % 3]) * n,))


@trap
def number_argument():
    return Trap(lambda x, k: core.exp(x) * k, lambda n: (*one(n), n // 3))


@trap
def true_is_not_one():
    return Trap(lambda x, k: core.exp(x) * k if k is True else x, lambda n: (*one(n), True if n // 3 % 2 else 1))


@trap
def minus_zero():
    return Trap(
        lambda x, k: core.full((4, 5), math.copysign(1.0, k)) * x, lambda n: (*one(n), -0.0 if n // 3 % 2 else 0.0)
    )


@trap
def text_argument():
    return Trap(
        lambda x, how: core.relu(x) if how == "relu" else core.tanh(x),
        lambda n: (*one(n), "relu" if n % 4 < 2 else "tanh"),
    )


@trap
def none_argument():
    return Trap(
        lambda x, y: x * 2 if y is None else x * y, lambda n: (*one(n), None if n % 4 < 2 else core.randn(4, 5))
    )


@trap
def list_of_tensors():
    return Trap(lambda xs: sum(core.exp(x) for x in xs), lambda n: ([core.randn(4, 5) for _ in range(1 + n // 3)],))


@trap
def list_that_is_appended_to():
    kept: list[Any] = []

    def f(x):
        kept.append(1)
        return core.exp(x) * 2

    return Trap(f, one, state=lambda: len(kept))


@trap
def prints():
    said: list[str] = []

    def f(x):
        print("called", end="", file=None)
        said.append("called")
        return core.exp(x)

    return Trap(f, one, state=lambda: len(said))


@trap
def same_tensor_twice():
    x = core.randn(4, 5)
    return Trap(lambda a, b: core.exp(a) * b, lambda n: (x, x) if n % 4 < 2 else (x, core.randn(4, 5)))


@trap
def argument_is_a_global():
    global W
    W = core.randn(4, 5)
    return Trap(lambda x: core.exp(x) * W, lambda n: (W,) if n < 5 else one(n))


@trap
def argument_over_a_globals_memory():
    global W
    W = core.randn(4, 5)
    return Trap(lambda x: core.exp(x) * W, lambda n: (W.detach(),) if n < 5 else one(n))


@trap
def result_is_the_argument():
    def f(x, k):
        return x if k else core.exp(x)

    def twice(x, k):
        y = f(x, k)
        return y

    return Trap(twice, lambda n: (*one(n), n % 2 == 0))
