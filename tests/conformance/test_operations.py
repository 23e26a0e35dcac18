"""Every structured op on its declaration's samples: rows against the reference, layouts, gradients to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import backends
from core.declare.op import Operation
from core.dispatch.structured import call_operation

from . import harness as h

# The hot paths: these rows must be there and must run on a plain float32 argument.
HOT = ["sum", "mean", "amax", "amin", "softmax", "log_softmax", "layer_norm", "cross_entropy", "embedding",
       "rms_norm", "group_norm", "batch_norm", "batch_norm_eval"]  # fmt: skip
HOT_CUDA = ["sum", "mean", "amax", "amin", "matmul", "softmax", "log_softmax", "cross_entropy", "linear", "embedding",
            "embedding_backward", "index", "index_backward", "index_put", "gather", "gather_backward",
            "scatter_add", "scatter", "one_hot_rows", "nll_loss", "class_weight", "sort", "topk", "kthvalue",
            "median", "conv", "conv_transpose", "conv_weight", "max_pool", "adaptive_max_pool", "window_sum",
            "window_spread", "im2col", "col2im", "resample", "resample_transposed", "lstm", "gru", "rnn",
            "layer_norm", "rms_norm", "group_norm", "batch_norm", "batch_norm_eval", "cumsum", "cumprod", "cummax",
            "cummin", "logcumsumexp", "dropout", "prod", "any", "all", "count_nonzero", "vector_norm", "max_dim",
            "min_dim", "var", "std", "logsumexp", "argmax", "argmin", "attention", "counted_targets",
            "weight_int8_linear", "weight_int4_linear"]  # fmt: skip
BACKWARD = ["softmax.backward", "log_softmax.backward", "layer_norm.backward", "cross_entropy.backward"]

CASES = [(o, i) for o in h.OPERATIONS if o.samples for i in range(len(o.samples(np.random.default_rng(0))))]
ids = [f"{o.name}-{i}" for o, i in CASES]
SMOOTH = [(o, i) for o, i in CASES if o.differentiable]
BY_DIFFERENCES = [(o, i) for o, i in SMOOTH if not o.straight_through]


def sample(o: Operation, i: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return o.samples(np.random.default_rng(0))[i]  # type: ignore[no-any-return]


def test_every_structured_op_has_samples() -> None:
    without = [o.name for o in h.OPERATIONS if not o.samples and o.differentiable]
    assert without == ["sparse_embedding"]  # its gradient is a sparse tensor: tests/core/sparse


def expected(o: Operation, arrays: Any, params: dict[str, Any]) -> list[Any]:
    wide = [None if a is None else np.asarray(a) for a in arrays]
    y = backends.of("cpu")[-1].operation(o).run(*wide, **{**o.params, **params})
    many = list(y) if isinstance(y, tuple) else [y]
    return many[: len(many) if o.returns == 0 else o.returns]


LAYOUTS = ("contiguous", "transposed", "sliced")
FORWARD = [(where, dtype, layout) for where, dtype in (("cpu", "float32"), ("cpu", "float64"), ("cpu", "bfloat16"),
                                                       ("cuda", "float32")) for layout in LAYOUTS]  # fmt: skip
# Layouts are settled before a kernel knows its type: the half-precision types of the interpreted device share them out.
FORWARD += [("cuda", "float16", "transposed"), ("cuda", "bfloat16", "contiguous"), ("cuda", "bfloat16", "sliced")]


@pytest.mark.parametrize(("where", "dtype", "layout"), FORWARD)
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
    for k, (got, want) in enumerate(zip(h.outputs(y), wants, strict=True)):
        h.close(h.turned(o.name, k, got._a, want), want, dtype, scale=10)


@pytest.mark.parametrize(("o", "i"), BY_DIFFERENCES, ids=[f"{o.name}-{i}" for o, i in BY_DIFFERENCES])
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


def _aimed(op: str, k: int, t: Any, seed: Any) -> Any:
    """Return the weights of vectors turned with them, so that their direction is the same to the gradients."""
    if (op, k) not in h.VECTORS:
        return seed
    first = np.take(np.asarray(t.detach().cpu().numpy()), [0], h.VECTORS[op, k])
    return seed * np.where(first < 0, -1, 1).astype(seed.dtype)


def _gradients(o: Operation, arrays: Any, params: dict[str, Any], place: Any, order: int, graph: bool) -> list[Any]:
    """The gradients of the inputs; with order 2 those of the gradients, each weighed by numbers of its own."""
    y, tensors, _ = h.run_operation(o, arrays, params, place, grad=True)
    leaves = [t for t in tensors if t is not None and t.requires_grad]
    rng, outs = np.random.default_rng(5), [t for t in h.outputs(y) if t.requires_grad]
    for k in range(1, order + 1):
        seeds = [np.asarray(rng.uniform(0.5, 1.5, t.shape)).astype("bfloat16").astype(t._a.dtype) for t in outs]
        if k == 1 and len(outs) == len(h.outputs(y)):
            seeds = [_aimed(o.name, j, t, s) for j, (t, s) in enumerate(zip(outs, seeds, strict=True))]
        found = core.autograd.grad(outs, leaves, [h.to_tensor(s, place) for s in seeds], allow_unused=True,
                                   create_graph=graph or k < order)  # fmt: skip
        outs = [t for t in found if t is not None and t.requires_grad]
        if not outs and k < order:
            return [None] * len(leaves)
    return list(found)


def _gradients_agree(o: Operation, i: int, device: Any, dtype: str, order: int = 1, scale: float = 50) -> None:
    arrays, params = sample(o, i)
    mine = [h.cast(a, dtype) for a in arrays]
    got = _gradients(o, mine, params, device, order, False)
    wants = _gradients(o, [h.cast(a, "float64") for a in mine], params, h.CPU, order, True)
    for one, want in zip(got, wants, strict=True):
        assert (one is None) == (want is None)
        if one is not None:
            h.close(one._a, want._a, dtype, scale=scale)


@pytest.mark.parametrize(("where", "dtype"), [("cpu", "float32"), ("cpu", "bfloat16"), ("cuda", "float32")])
@pytest.mark.parametrize(("o", "i"), SMOOTH, ids=[f"{o.name}-{i}" for o, i in SMOOTH])
def test_backward_rows(o: Operation, i: int, where: str, dtype: str) -> None:
    """The gradient as rows compute it agrees with the float64 gradient run as ops."""
    _gradients_agree(o, i, h.CUDA if where == "cuda" else h.CPU, dtype, scale=50 if dtype == "float32" else 5)


ON_CUDA = [(o, i) for o, i in SMOOTH if backends.rows(o.name, "cuda") or backends.rows(o.name + ".backward", "cuda")]


@pytest.mark.parametrize(("o", "i"), ON_CUDA, ids=[f"{o.name}-{i}" for o, i in ON_CUDA])
def test_backward_rows_on_cuda_in_bfloat16(o: Operation, i: int) -> None:
    _gradients_agree(o, i, h.CUDA, "bfloat16", scale=5)


@pytest.mark.parametrize(("o", "i"), ON_CUDA, ids=[f"{o.name}-{i}" for o, i in ON_CUDA])
def test_second_order_on_cuda(o: Operation, i: int) -> None:
    """The gradient of the gradient, where kernels of cuda compute the first pass."""
    _gradients_agree(o, i, h.CUDA, "float32", order=2)


@pytest.mark.parametrize("name", HOT)
def test_hot_paths_run_in_c(name: str) -> None:
    assert _backend(name, h.CPU) == "C"


@pytest.mark.parametrize("name", HOT_CUDA)
def test_hot_paths_run_in_triton(name: str) -> None:
    assert _backend(name, h.CUDA) == "Triton"


@pytest.mark.parametrize("name", BACKWARD)
def test_fused_gradients_are_rows(name: str) -> None:
    assert [r.backend for r in backends.rows(name, "cpu")] == ["C", "C"]  # floats, half-precision types


def _backend(name: str, device: Any) -> str:
    o = next(o for o in h.OPERATIONS if o.name == name)
    arrays, params = sample(o, 0)
    _, _, (backend, _) = h.run_operation(o, [h.cast(a, "float32") for a in arrays], params, device)
    return backend
