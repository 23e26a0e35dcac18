"""Results of 16 MB and more are written by streaming stores: the same bits as without, with any threads."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import native
from core.nn import functional as F

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")

ITEMS = (4 << 20) + 77


@pytest.fixture(autouse=True, params=[1, 2])
def threads(request):
    before = core.get_num_threads()
    core.set_num_threads(request.param)
    yield
    core.set_num_threads(before)


def both_ways(f, g, *inputs):
    """The result and the gradients of f for the incoming gradient g."""
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    y = f(*inputs)
    y.backward(g)
    return [y.detach(), *(x.grad for x in inputs if x.requires_grad)]


def same_in_parts(f, part, g, *inputs):
    """Whether the whole is, bit by bit, what `part` rows at a time give."""
    whole = both_ways(f, g, *inputs)
    for begin in range(0, len(g), part):
        piece = slice(begin, begin + part)
        for one, of_part in zip(whole, both_ways(f, g[piece], *(x[piece] for x in inputs)), strict=True):
            np.testing.assert_array_equal(one[piece].numpy(), of_part.numpy())


FUNCTIONS = {
    "add": (lambda a, b: a + b, 2),
    "number": (lambda a: a * 2.0, 1),
    "relu": (core.relu, 1),
    "gelu": (F.gelu, 1),
    "tanh": (core.tanh, 1),
    "where": (lambda a, b: core.where(a > 0.5, a, b), 2),
    "clamp": (lambda a: a.clamp(-0.5, 0.5), 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("offset", [0, 1])
def test_elementwise(name, offset):
    f, count = FUNCTIONS[name]
    core.manual_seed(0)
    inputs = [core.randn(ITEMS)[offset:] for _ in range(count)]
    same_in_parts(f, 1 << 20, core.randn(ITEMS)[offset:], *inputs)


def test_conditions():
    core.manual_seed(0)
    a, b = core.randn(17 << 20), core.randn(17 << 20)
    np.testing.assert_array_equal((a < b).numpy(), a.numpy() < b.numpy())


@pytest.mark.parametrize(("rows", "n"), [(8200, 512), (4100, 1027), (70000, 65), (1000, 5000)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm"])
def test_rows(name, rows, n):
    def f(x):
        return F.layer_norm(x, (n,)) if name == "layer_norm" else getattr(core, name)(x, -1)

    core.manual_seed(0)
    same_in_parts(f, rows // 4, core.randn(rows, n), core.randn(rows, n))


def test_result_in_an_input():
    core.manual_seed(0)
    x = core.randn(ITEMS)
    wanted = np.maximum(x.numpy(), 0)
    assert x.relu_() is x
    np.testing.assert_array_equal(x.numpy(), wanted)
