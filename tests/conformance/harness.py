"""What the conformance tests share: inputs by layout, running on a device, comparing with a float64 reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import core
from core.backends import reference, special
from core.base.device import device
from core.base.device import kind as kind_of
from core.declare import op as declarations
from core.declare.op import Elementwise, Operation
from core.dispatch.elementwise import call_map
from core.dispatch.structured import call_operation
from core.events import observe
from core.tensors.tensor import Tensor, wrap

MAPS = [o for o in declarations.table.values() if isinstance(o, Elementwise)]
OPERATIONS = [o for o in declarations.table.values() if isinstance(o, Operation) and o.name != "view_scatter"]
LAYOUTS = ("contiguous", "transposed", "sliced", "broadcast", "0-d", "empty")
CPU, CUDA = device("cpu"), device("cuda", 0)

# How far a result may be from the float64 one, relative to its size, with inputs of about 1.
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 3e-3, "bfloat16": 2e-2}


class Watch(observe.Observer):
    """Remembers which kernel ran for each op."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str, str]] = []

    def op(self, event: observe.OpEvent) -> None:
        self.ran.append((event.op, event.backend, event.kernel))


def shapes_of(layout: str, n: int) -> list[tuple[int, ...]]:
    """A shape for each of `n` inputs."""
    if layout == "broadcast":
        return [(3, 1), (4,), (3, 4)][:n] if n > 1 else [(3, 1)]
    return [{"0-d": (), "empty": (0, 3)}.get(layout, (5, 7))] * n


def laid_out(a: Any, layout: str) -> Any:
    """The same values in another memory layout."""
    if layout == "transposed" and a.ndim > 1:
        return np.ascontiguousarray(a.T).T
    if layout == "sliced" and a.ndim:
        room = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
        room[..., ::2] = a
        return room[..., ::2]
    if layout == "broadcast" and a.ndim == 2 and a.shape[1] == 1:
        return np.broadcast_to(a, (a.shape[0], 4))
    return a


def map_inputs(o: Elementwise, layout: str, dtype: str, rng: Any) -> list[Any]:
    """Arrays for an elementwise op, sampled from its domain and rounded to `dtype`."""
    d = getattr(core, dtype).numpy
    out = []
    for name, (low, high), shape in zip(o.inputs, o.domain, shapes_of(layout, len(o.inputs)), strict=True):
        if name in o.bools:
            out.append(laid_out(np.asarray(rng.random(shape) < 0.5), layout))
        else:
            out.append(laid_out(np.asarray(rng.uniform(low, high, shape)).astype(d), layout))
    return out


def wide(o: Elementwise, arrays: list[Any]) -> Any:
    """The float64 reference of an elementwise op."""
    program = o.program
    raised = [a if a.dtype == bool else a.astype(np.float64) for a in arrays]
    with np.errstate(all="ignore"):
        y = reference.compiled(program)(np, special, *raised, *o.params.values())
    return np.broadcast_to(y, np.broadcast_shapes(*(a.shape for a in arrays)))


def to_tensor(a: Any, where: device, dtype: str | None = None, grad: bool = False) -> Tensor:
    """A tensor over the array itself, so that its layout is kept."""
    t = wrap(a, kind_of(core.base.dtypes.from_numpy(a.dtype), where))
    return t.requires_grad_() if grad and t.dtype.category >= 2 else t


def run_map(o: Elementwise, arrays: list[Any], where: device, grad: bool = False) -> tuple[Tensor, list[Tensor], str]:
    """Run an elementwise op: output, inputs, the backend that ran it."""
    tensors = [to_tensor(a, where, grad=grad) for a in arrays]
    watch = Watch()
    with observe.observing(watch):
        y = call_map(o, tuple(tensors), tuple(o.params.values()))
    return y, tensors, watch.ran[-1][1]


def run_operation(
    o: Operation, arrays: Any, params: dict[str, Any], where: device, grad: bool = False
) -> tuple[Any, list[Any], tuple[str, str]]:
    """Run a structured op: outputs, inputs, (backend, kernel)."""
    tensors = [None if a is None else to_tensor(np.asarray(a), where, grad=grad) for a in arrays]
    watch = Watch()
    with observe.observing(watch):
        y = call_operation(o, tuple(tensors), {**o.params, **params})
    return y, tensors, watch.ran[-1][1:]


def outputs(y: Any) -> list[Tensor]:
    """The outputs as a list."""
    return list(y) if isinstance(y, tuple) else [y]


def cast(a: Any, dtype: str) -> Any:
    """Floating arrays in another type; others as they are."""
    if a is None:
        return None
    a = np.asarray(a)
    if a.dtype.kind == "c":
        return a.astype(np.complex64 if dtype == "float32" else np.complex128)
    return a.astype(getattr(core, dtype).numpy) if a.dtype.kind == "f" else a


def close(got: Any, want: Any, dtype: str, scale: float = 1.0) -> None:
    """Assert that two arrays agree as `dtype` allows."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if got.dtype == bool or got.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want)
        return
    tolerance = TOLERANCE[dtype] * scale
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)


def gradients_agree(function: Callable[..., Any], tensors: list[Tensor], second: bool = True) -> None:
    """Gradients against finite differences to first and second order, tight enough to catch an error of 0.05 %."""
    core.autograd.gradcheck(function, tensors, eps=1e-6, atol=1e-7, rtol=1e-4)
    if second:
        core.autograd.gradgradcheck(function, tensors, eps=1e-6, atol=1e-7, rtol=1e-4)


VECTORS = {("eigh", 1): -2, ("svd", 0): -2, ("svd", 2): -1}  # along which dimension; either direction is right


def turned(op: str, k: int, got: Any, want: Any) -> Any:
    """Return vectors in the direction of those that are wanted, of which each may be the opposite one."""
    if (op, k) not in VECTORS or got.shape != want.shape:
        return got
    along = (got * want.astype(got.dtype)).sum(VECTORS[op, k], keepdims=True)
    return got * np.where(along < 0, -1, 1).astype(got.dtype)
