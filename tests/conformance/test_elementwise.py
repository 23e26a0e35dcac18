"""Every elementwise op × backend × dtype × layout against float64, from the op table alone; and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import backends
from core.base.device import kind as kind_of
from core.declare.expr import s
from core.declare.op import Elementwise
from core.dispatch.elementwise import call_map

from . import harness as h

BACKENDS = [
    ("cpu", "C", "float32"), ("cpu", "C", "float64"), ("cpu", "C", "float16"), ("cpu", "C", "bfloat16"),
    ("cuda", "Triton", "float32"), ("cuda", "Triton", "float64"), ("cuda", "Triton", "float16"),
    ("cuda", "Triton", "bfloat16"),
]  # fmt: skip
names = [o.name for o in h.MAPS]


def check_forward(o: Elementwise, where: Any, backend: str, dtype: str, layout: str) -> None:
    arrays = h.map_inputs(o, layout, dtype, np.random.default_rng(0))
    y, _, ran = h.run_map(o, arrays, where)
    assert ran == backend
    want = h.wide(o, arrays)
    if o.out != "bool" or o.program.is_bool is False:
        assert y.dtype is getattr(core, dtype) or all(n in o.bools for n in o.inputs)
    h.close(y._a, want, dtype)


@pytest.mark.parametrize("layout", h.LAYOUTS)
@pytest.mark.parametrize(("where", "backend", "dtype"), BACKENDS)
@pytest.mark.parametrize("o", h.MAPS, ids=names)
def test_forward(o: Elementwise, where: str, backend: str, dtype: str, layout: str) -> None:
    conditions_only = all(n in o.bools for n in o.inputs)
    if conditions_only and dtype != "float32":
        return  # no floating input: one type says it all
    if conditions_only and backend == "NumPy":
        return
    check_forward(o, h.CUDA if where == "cuda" else h.CPU, backend, dtype, layout)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("o", h.MAPS, ids=names)
def test_reference_on_cpu(o: Elementwise, dtype: str) -> None:
    """The row that serves where no compiler was."""
    conditions_only = all(n in o.bools for n in o.inputs)
    kind = kind_of(core.bool if conditions_only else getattr(core, dtype), h.CPU)
    arrays = h.map_inputs(o, "broadcast", dtype, np.random.default_rng(1))
    y = backends.of("cpu")[-1].map(o.program, kind).run(*arrays, *o.params.values())
    h.close(y, h.wide(o, arrays), dtype)


@pytest.mark.parametrize("o", [o for o in h.MAPS if o.differentiable], ids=lambda o: o.name)
def test_gradients(o: Elementwise) -> None:
    arrays = h.map_inputs(o, "broadcast", "float64", np.random.default_rng(2))
    tensors = [h.to_tensor(np.array(a), h.CPU, grad=o.vjps[i] is not None) for i, a in enumerate(arrays)]
    h.gradients_agree(lambda *ts: call_map(o, ts, tuple(o.params.values())), tensors)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "broadcast"])
@pytest.mark.parametrize(("where", "dtype"), [("cpu", "float32"), ("cuda", "float32"), ("cuda", "bfloat16")])
@pytest.mark.parametrize("o", [o for o in h.MAPS if o.differentiable], ids=lambda o: o.name)
def test_fused_gradients(o: Elementwise, where: str, dtype: str, layout: str) -> None:
    """The gradient as one kernel of its own agrees with the same gradient run as float64 ops on the reference."""
    device = h.CUDA if where == "cuda" else h.CPU
    arrays = h.map_inputs(o, layout, dtype, np.random.default_rng(3))
    y, tensors, _ = h.run_map(o, arrays, device, grad=True)
    y.backward(h.to_tensor(np.ones(y.shape, y._a.dtype), device))
    exact = [np.array(a.astype(np.float64) if a.dtype != bool else a) for a in arrays]
    z, wide, _ = h.run_map(o, exact, h.CPU, grad=True)
    z.sum().backward()
    for v, t, w in zip(o.vjps, tensors, wide, strict=True):
        if v is not None:
            assert t.grad is not None
            assert w.grad is not None
            h.close(t.grad._a, w.grad._a, dtype, scale=20)


def test_a_slightly_wrong_gradient_is_caught() -> None:
    """A gradient that is wrong by 0.05 % fails, in first and in second order."""
    from core.declare import op as declarations
    from core.dispatch.declare import elementwise

    try:
        elementwise("wrong_tanh", lambda x: s.tanh(x), vjp=lambda g, y: g * (1.0005 * (1.0 - y * y)), public=False)
        wrong = declarations.table["wrong_tanh"]
        x = core.tensor([0.3, -0.4], dtype=core.float64, requires_grad=True)
        with pytest.raises(core.autograd.gradcheck.__globals__["GradcheckError"]):
            h.gradients_agree(lambda t: call_map(wrong, (t,)), [x])
    finally:
        declarations.table.pop("wrong_tanh", None)
        declarations.functions.pop("wrong_tanh", None)
