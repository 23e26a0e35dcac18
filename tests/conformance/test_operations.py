"""Every structured op on its declaration's samples: rows against the reference, layouts, gradients to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import backends
from core.dispatch import call_operation
from core.op import Operation

from . import harness as h

# The hot paths: these rows must be there and must run on a plain float32 argument. Products stay with NumPy's BLAS.
HOT = ["sum", "mean", "amax", "amin", "softmax", "log_softmax", "layer_norm", "cross_entropy", "embedding"]
HOT_CUDA = ["sum", "mean", "amax", "amin", "matmul", "softmax", "log_softmax", "cross_entropy", "linear"]
BACKWARD = ["softmax.backward", "log_softmax.backward", "layer_norm.backward", "cross_entropy.backward"]

CASES = [(o, i) for o in h.OPERATIONS if o.samples for i in range(len(o.samples(np.random.default_rng(0))))]
ids = [f"{o.name}-{i}" for o, i in CASES]
SMOOTH = [(o, i) for o, i in CASES if o.differentiable]


def sample(o: Operation, i: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return o.samples(np.random.default_rng(0))[i]  # type: ignore[no-any-return]


def test_every_structured_op_has_samples() -> None:
    assert [o.name for o in h.OPERATIONS if not o.samples and o.differentiable] == []


def expected(o: Operation, arrays: Any, params: dict[str, Any]) -> list[Any]:
    wide = [None if a is None else np.asarray(a) for a in arrays]
    y = backends.of("cpu")[-1].operation(o).run(*wide, **{**o.params, **params})
    many = list(y) if isinstance(y, tuple) else [y]
    return many[: len(many) if o.returns == 0 else o.returns]


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
@pytest.mark.parametrize(
    ("where", "dtype"),
    [("cpu", "float32"), ("cpu", "float64"), ("cpu", "bfloat16"), ("cuda", "float32"), ("cuda", "float16")],
)
@pytest.mark.parametrize(("o", "i"), CASES, ids=ids)
def test_forward(o: Operation, i: int, where: str, dtype: str, layout: str) -> None:
    arrays, params = sample(o, i)
    if o.view:
        layout = "contiguous"  # whether a layout allows the view is decided above the op
    device = h.CUDA if where == "cuda" else h.CPU
    rounded = [h.cast(a, dtype) for a in arrays]
    placed = [None if a is None else h.laid_out(a, layout) for a in rounded]
    y, tensors, (backend, kernel) = h.run_operation(o, placed, params, device)
    told = backends.explain(o.name, None, next(t for t in tensors if t is not None)._kind,
                            tuple(None if t is None else t._a for t in tensors), {**o.params, **params})  # fmt: skip
    assert (kernel, backend) == next(r[:2] for r in told if r[2] is None)
    wants = expected(o, [h.cast(a, "float64") for a in rounded], params)
    for got, want in zip(h.outputs(y), wants, strict=True):
        h.close(got._a, want, dtype, scale=10)


@pytest.mark.parametrize(("o", "i"), SMOOTH, ids=[f"{o.name}-{i}" for o, i in SMOOTH])
def test_gradients(o: Operation, i: int) -> None:
    arrays, params = sample(o, i)
    tensors = [None if a is None else h.to_tensor(np.array(a), h.CPU, grad=_wanted(o, k)) for k, a in enumerate(arrays)]

    def function(*ts: Any) -> Any:
        given = iter(ts)
        full = [None if a is None else next(given) for a in arrays]
        return call_operation(o, tuple(full), {**o.params, **params})

    given = [t for t in tensors if t is not None]
    if any(y.is_floating_point() and y.dtype.itemsize < 8 for y in h.outputs(function(*given))):
        return  # a cast: finite differences see its rounding; test_backward_rows sees its gradient
    h.gradients_agree(function, given)


def _wanted(o: Operation, k: int) -> bool:
    return o.joint or (k < len(o.vjps) and o.vjps[k] is not None)


@pytest.mark.parametrize(("where", "dtype"), [("cpu", "float32"), ("cpu", "bfloat16"), ("cuda", "float32")])
@pytest.mark.parametrize(("o", "i"), SMOOTH, ids=[f"{o.name}-{i}" for o, i in SMOOTH])
def test_backward_rows(o: Operation, i: int, where: str, dtype: str) -> None:
    """The gradient as rows compute it agrees with the float64 gradient run as ops."""
    arrays, params = sample(o, i)
    device = h.CUDA if where == "cuda" else h.CPU
    grads = []
    for place, d, graph in ((device, dtype, False), (h.CPU, "float64", True)):
        y, tensors, _ = h.run_operation(o, [h.cast(a, d) for a in arrays], params, place, grad=True)
        outs = [t for t in h.outputs(y) if t.requires_grad]
        leaves = [t for t in tensors if t is not None and t.requires_grad]
        rng = np.random.default_rng(5)
        seeds = [h.to_tensor(np.asarray(rng.uniform(0.5, 1.5, t.shape)).astype(t._a.dtype), place) for t in outs]
        grads.append(core.autograd.grad(outs, leaves, seeds, create_graph=graph, allow_unused=True))
    for got, want in zip(*grads, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            h.close(got._a, want._a, dtype, scale=50)


@pytest.mark.parametrize("name", HOT)
def test_hot_paths_run_in_c(name: str) -> None:
    assert _backend(name, h.CPU) == "C"


@pytest.mark.parametrize("name", HOT_CUDA)
def test_hot_paths_run_in_triton(name: str) -> None:
    assert _backend(name, h.CUDA) == "Triton"


@pytest.mark.parametrize("name", BACKWARD)
def test_fused_gradients_are_rows(name: str) -> None:
    assert [r.backend for r in backends.rows(name, "cpu")] == ["C", "C"]  # floats, half types


def _backend(name: str, device: Any) -> str:
    o = next(o for o in h.OPERATIONS if o.name == name)
    arrays, params = sample(o, 0)
    _, _, (backend, _) = h.run_operation(o, [h.cast(a, "float32") for a in arrays], params, device)
    return backend
