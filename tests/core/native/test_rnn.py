"""The recurrent kernels against the reference in float64: panels that are not full, packed rows, both directions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import core
from core import backends
from core.declare import op as declarations
from core.dispatch.structured import call_operation

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
# steps, batch, inputs, hidden: less than a panel, more than one, a panel and no more, tiles of every height
SHAPES = [(1, 1, 1, 1), (3, 2, 5, 7), (4, 9, 33, 35), (5, 17, 64, 32), (2, 40, 3, 70), (270, 1, 2, 3)]


def _arguments(name: str, lead: tuple[int, ...], batch: int, n_in: int, hidden: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [(*lead, n_in), (GATES[name] * hidden, n_in), (GATES[name] * hidden, hidden)]
    shapes += [(GATES[name] * hidden,)] * 2 + [(batch, hidden)] * (2 if name == "lstm" else 1)
    arrays = [rng.uniform(-0.5, 0.5, s).astype(dtype) for s in shapes]
    return [*arrays, None] if name == "lstm" else arrays


def _both(name: str, arguments: list[Any], params: dict[str, Any], dtype: str) -> None:
    """C in `dtype` and the reference in float64, forward and backward."""
    found = []
    op = declarations.table[name]
    params = {**op.params, **params}
    for d, backend in ((dtype, "C"), ("float64", "NumPy")):
        arrays = [None if a is None else a.astype(d) for a in arguments]
        tensors = [None if a is None else core.from_numpy(a).requires_grad_() for a in arrays]
        if backend == "C":
            assert backends.pick(name, "cpu", tuple(arrays), params).name == f"{name}_forward"  # type: ignore[union-attr]
            outs = call_operation(op, tuple(tensors), params)  # type: ignore[arg-type]
        else:
            forward = backends.of("cpu")[-1].operation(op).run(*arrays, **params)
            outs = [core.from_numpy(a) for a in forward[: op.returns]]
        found.append([o.detach().numpy() for o in outs])
        given = [t for t in tensors if t is not None]
        if backend == "C":
            grads = core.autograd.grad([(o * o).sum() for o in outs], given)
        else:
            with_graph = call_operation(op, tuple(tensors), params)  # type: ignore[arg-type]
            grads = core.autograd.grad([(o * o).sum() for o in with_graph], given, create_graph=True)
        found[-1] += [g.detach().numpy() for g in grads]
    for got, want in zip(*found, strict=True):
        size = np.abs(want).max() + 1
        rtol, atol = (1e-4, 3e-6) if dtype == "f" else (1e-11, 1e-12)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=size * atol)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_against_the_reference(name: str, shape: tuple[int, int, int, int], dtype: str, kernels: ModuleType) -> None:
    steps, batch, n_in, hidden = shape
    for batch_first, reverse in ((False, False), (True, True)):
        lead = (batch, steps) if batch_first else (steps, batch)
        arguments = _arguments(name, lead, batch, n_in, hidden, dtype)
        _both(name, arguments, {"batch_first": batch_first, "reverse": reverse}, dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_packed_rows(name: str, reverse: bool, kernels: ModuleType) -> None:
    sizes = (19, 19, 12, 9, 8, 1, 1)
    arguments = _arguments(name, (sum(sizes),), 19, 6, 34, "f")
    _both(name, arguments, {"sizes": sizes, "reverse": reverse}, "f")


def test_without_biases_and_states_and_with_relu(kernels: ModuleType) -> None:
    for name, extra in (("lstm", {}), ("gru", {}), ("rnn", {"nonlinearity": "relu"})):
        arguments = _arguments(name, (4, 3), 3, 5, 6, "f")
        arguments[3:] = [None] * (len(arguments) - 3)
        _both(name, arguments, extra, "f")


def test_results_do_not_depend_on_the_threads(kernels: ModuleType) -> None:
    arguments = _arguments("lstm", (20, 70), 70, 40, 48, "f")
    before, found = kernels.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            kernels.set_num_threads(threads)
            tensors = [None if a is None else core.from_numpy(a).requires_grad_() for a in arguments]
            y, h, c = call_operation(declarations.table["lstm"], tuple(tensors), declarations.table["lstm"].params)  # type: ignore[arg-type]
            grads = core.autograd.grad((y * y).sum() + h.sum() + c.sum(), [t for t in tensors if t is not None])
            found.append([t.detach().numpy() for t in (y, h, c, *grads)])
    finally:
        kernels.set_num_threads(before)
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_the_gates_in_ulp(dtype: str, kernels: ModuleType) -> None:
    """One unit whose weights leave tanh(x), and a cell that is sigmoid(x), as float64 (or longer) has them."""
    x = np.geomspace(1e-6, 86, 20000).astype(dtype)
    x = np.concatenate([-x[::-1], [0], x]).astype(dtype)
    one, rows = np.ones((1, 1), dtype), x.reshape(1, -1, 1)
    lstm = [rows, np.array([[0], [1], [0], [0]], dtype), np.zeros((4, 1), dtype), None, None,
            np.zeros((x.size, 1), dtype), np.ones((x.size, 1), dtype), None]  # fmt: skip
    plain = [rows, one, 0 * one, None, None, None]
    wide = x.astype(np.longdouble)
    for name, arguments, at, want in (("rnn", plain, 0, np.tanh(wide)), ("lstm", lstm, 2, 1 / (1 + np.exp(-wide)))):
        op, tensors = declarations.table[name], [None if a is None else core.from_numpy(a) for a in arguments]
        got = call_operation(op, tuple(tensors), op.params)[at].numpy().ravel()  # type: ignore[arg-type]
        assert (np.abs(got - want) <= 2.7 * np.spacing(np.abs(want).astype(dtype))).all()


def test_nan_stays_in_its_own_sequence(kernels: ModuleType) -> None:
    for name in ("lstm", "gru", "rnn"):
        arguments = _arguments(name, (3, 9), 9, 2, 5, "f")
        arguments[0][1, 4] = np.nan
        op, tensors = declarations.table[name], [None if a is None else core.from_numpy(a) for a in arguments]
        y = call_operation(op, tuple(tensors), op.params)[0].numpy()  # type: ignore[arg-type]
        assert np.isnan(y[1:, 4]).all()
        y[1:, 4] = 0
        assert np.isfinite(y).all()


@pytest.mark.parametrize(
    ("starts", "sizes", "message"),
    [([0, 3], [3, 3], "takes kind"), ([0, 2], [2, 3], "takes kind"), ([0, -1], [2, 2], "takes kind"),
     ([0], [2, 2], r"the sizes has shape \(2,\), needed is \(1,\)"), ([0, 2], [3, 1], "takes kind")],
)  # fmt: skip
def test_steps_that_leave_the_arrays_are_refused(starts: Any, sizes: Any, message: str, kernels: ModuleType) -> None:
    x, w = np.ones((4, 2), "f"), np.ones((3, 2), "f")
    arrays = (x, None, None, w, np.ones((3, 3), "f"), None, None)
    with pytest.raises((TypeError, ValueError), match=message):
        kernels.kernels["rnn"](2, False, 2, 1, np.array(starts), np.array(sizes), *arrays)


def test_wrong_arrays_are_refused(kernels: ModuleType) -> None:
    x, w, steps = np.ones((4, 2), "f"), np.ones((3, 2), "f"), (np.array([0, 2]), np.array([2, 2]))
    for arrays, message in [((x, None, None, w, np.ones((3, 2), "f"), None, None), "takes kind"),
                            ((x, np.ones((3, 3), "f"), None, w, np.ones((3, 3), "f"), None, None),
                             r"the h0 has shape \(3, 3\), needed is \(2, 3\)"),
                            ((x, None, None, w[:, :1], np.ones((3, 3), "f"), None, None), "the w_ih has shape"),
                            ((x, None, None, w, np.ones((3, 3), "f"), np.ones(3, "f"), None),
                             "takes kind")]:  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            kernels.kernels["rnn"](2, False, 2, 1, *steps, *arrays)
    with pytest.raises(TypeError, match="takes kind"):
        kernels.kernels["rnn"](2, False, 2, 1, *steps, x, None, None, w.astype("d"), np.ones((3, 3), "f"), None, None)
    with pytest.raises(TypeError, match="takes kind"):
        kernels.kernels["rnn"](2)
