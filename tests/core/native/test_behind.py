"""An activation behind a norm: their gradients are made together, and are bit for bit those that are made apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core
from core import native
from core.nn import functional as F

pytestmark = pytest.mark.skipif(not native.available, reason="the C extension is not built")

SHAPES = [(3, 4, 5, 7), (2, 8, 33), (1, 4, 40, 40), (5, 4, 1), (2, 4, 3, 2, 5)]
NORMS: dict[str, Callable[..., Any]] = {
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b),
}
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu, "relu6": F.relu6, "silu": F.silu, "gelu": F.gelu, "tanh": core.tanh, "sigmoid": core.sigmoid,
    "softplus": F.softplus, "square": core.square, "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "leaky_relu": F.leaky_relu, "elu": F.elu, "ReLU6": lambda x: core.nn.ReLU6()(x),
}  # fmt: skip


def _leaves(shape: tuple[int, ...], dtype: Any, wants: str = "xwb") -> list[Any]:
    rng = np.random.default_rng(len(shape))
    arrays = [rng.standard_normal(s) * 3 for s in (shape, shape[1], shape[1])]
    return [core.tensor(a, dtype=dtype, requires_grad=n in wants) for n, a in zip("xwb", arrays, strict=True)]


def _both(build: Callable[..., Any], leaves: list[Any], g: Any) -> tuple[list[Any], list[Any], bool]:
    """Return the gradients by `backward`, those by `autograd.grad`, which makes each op's, and whether the first were
    made together."""
    wanted = [t for t in leaves if t.requires_grad]
    apart = core.autograd.grad(build(*leaves), wanted, g)
    y = build(*leaves)
    together = "norm_behind" in native.paths_taken(lambda: y.backward(g))[1]
    return [t.grad.numpy() for t in wanted], [a.numpy() for a in apart], together


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_as_apart(norm: str, activation: str) -> None:
    for shape in SHAPES:
        for dtype in (core.float32, core.float64):
            leaves = _leaves(shape, dtype)
            g = core.tensor(np.random.default_rng(9).standard_normal(shape), dtype=dtype)
            got, want, _ = _both(lambda x, w, b: ACTIVATIONS[activation](NORMS[norm](x, w, b)), leaves, g)
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("norm", NORMS)
def test_is_made_together(norm: str) -> None:
    g = core.ones(3, 4, 5, 7)
    for wants in ("xwb", "wb", "x"):
        assert _both(lambda x, w, b: F.relu(NORMS[norm](x, w, b)), _leaves((3, 4, 5, 7), core.float32, wants), g)[2]
    for activation in ("silu", "gelu", "relu6", "ReLU6", "leaky_relu", "hardtanh", "tanh"):
        assert _both(lambda x, w, b, f=ACTIVATIONS[activation]: f(NORMS[norm](x, w, b)),
                     _leaves((3, 4, 5, 7), core.float32), g)[2]  # fmt: skip
    assert not _both(lambda x, w, b: NORMS[norm](x, w, b) * 1.0 + 1.0, _leaves((3, 4, 5, 7), core.float32), g)[2]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("also", ["before", "after", "activation", "hook", "kept", "stretched", "nan"])
def test_what_comes_besides(norm: str, also: str) -> None:
    """Other ways to the norm's result, hooks on it, gradients that lie otherwise, values that are no numbers."""
    heard: list[Any] = []

    def build(x: Any, w: Any, b: Any) -> Any:
        z = NORMS[norm](x, w, b)
        if also == "before":
            other = z * 2.0
            return F.relu(z) + other
        if also == "after":
            y = F.relu(z)
            return y + z * 2.0
        if also == "activation":
            return F.relu(z) * F.silu(z)
        if also == "hook":
            z.register_hook(lambda g: heard.append(g.numpy().copy()))
        if also == "kept":
            z.retain_grad()
            heard.append(z)
        return F.relu(z)

    leaves = _leaves((2, 4, 9, 8), core.float32)
    if also == "nan":
        with core.no_grad():
            leaves[0][0, 1, 2, 3] = float("nan")
    g = core.tensor(np.random.default_rng(9).standard_normal((2, 4, 9, 8)), dtype=core.float32)
    if also == "stretched":
        g = g[:1, :1, :1, :1].expand(2, 4, 9, 8)
    got, want, _ = _both(build, leaves, g)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    if also == "hook":
        np.testing.assert_array_equal(*heard)
    if also == "kept":
        assert (heard[1].grad.numpy() == g.numpy() * (heard[1].detach().numpy() > 0)).all()


def test_twice_and_after_a_write() -> None:
    """The graph may be gone through again; what was written since is an error as ever."""
    leaves = _leaves((2, 4, 9, 8), core.float32)
    y = F.relu(NORMS["batch"](*leaves))
    y.backward(core.ones_like(y), retain_graph=True)
    once = leaves[0].grad.numpy().copy()
    y.backward(core.ones_like(y))
    np.testing.assert_array_equal(leaves[0].grad.numpy(), 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward(core.ones_like(y))
    y = F.relu(NORMS["batch"](*leaves))
    z = y * 1.0
    with core.no_grad():
        y.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward(core.ones_like(z))


def test_threads_do_not_change_it(kernels: Any) -> None:
    found = []
    for threads in (1, 2):
        kernels.set_num_threads(threads)
        leaves = _leaves((2, 8, 64, 63), core.float32)
        y = F.silu(NORMS["group"](F.relu(NORMS["batch"](*leaves)), *leaves[1:]))
        y.backward(core.ones_like(y) * 0.5)
        found.append([t.grad.numpy() for t in leaves])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
