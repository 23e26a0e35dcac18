"""Which kernel makes an optimizer's step: rows as for ops, C on the CPU and Triton on a GPU, then the reference.

All three are printed from the update's formula. A row takes the numbers and lists of arrays, one entry a parameter, and
changes them in place; a whole group is one call. The step is told to observers as one op, such as ``adamw_step``, of
the phase "update".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from time import perf_counter_ns
from typing import Any

import numpy as np

from .. import backends, native
from ..backends import Kernel, cuda
from ..base.source import here
from ..declare.expr import python_operand, triton_statements
from ..dispatch.emit import emit_op
from ..dispatch.of_values import with_history as values_of
from ..events import observe
from ..tensors.tensor import Tensor, storage_of
from .update import Update, Variant, numpy_source

Lists = Sequence[Sequence[Any]]  # the parameters, their gradients, then each state
Run = Callable[[tuple[float, ...], Lists], str | None]  # gives the reason where it declines after all


# -- C -----------------------------------------------------------------------------------------------------------------


def _c_kernel(v: Variant, params: Sequence[Any]) -> Any:
    """Return the compiled loop, or why there is none."""
    if native.module is None:
        return native.reason
    dtype = params[0].dtype
    found = native.module.updates.get((v.name, dtype.char))
    if found is None and dtype.char not in "fd":
        return f"takes float32 and float64, got {dtype}"
    if found is None or found.digest != v.digest:
        return "changed after the extension was built; pip install -e . prints its kernel"
    return found


# -- Triton ------------------------------------------------------------------------------------------------------------


@cache
def triton_kernel(v: Variant) -> Any:
    """Return the multi-tensor kernel of a form of an update."""
    from triton_kernels import optim
    from triton_kernels.primitives import PRIMITIVES

    results = [(n, python_operand(r, "")) for n, r in zip(v.written, v.results, strict=True)]
    return optim.build(v.name, v.arrays, v.params, triton_statements(v.statements, PRIMITIVES), results)


def _triton_declines(lists: Lists) -> str | None:
    there, reason = cuda.availability()
    if not there:
        return reason
    first = lists[0][0]
    if first.dtype.name not in ("float16", "bfloat16", "float32", "float64"):
        return f"takes floating types, got {first.dtype}"
    if not all(a.flags.c_contiguous for many in lists for a in many):
        return "takes contiguous arrays"
    return None


# -- the reference -----------------------------------------------------------------------------------------------------


@cache
def _reference(v: Variant) -> Callable[..., tuple[Any, ...]]:
    namespace: dict[str, Any] = {}
    exec(numpy_source(v), namespace)
    return namespace["step"]  # type: ignore[no-any-return]


def _on_arrays(xp: Any, v: Variant, numbers: tuple[float, ...], lists: Lists) -> None:
    """One parameter after the other; half precision is computed in float32 and rounded once, as kernels do."""
    formula, places = _reference(v), [v.arrays.index(n) for n in v.written]
    for held in zip(*lists, strict=True):
        working = [a.astype(np.float32) if a.dtype.itemsize < 4 else a for a in held]
        for k, value in zip(places, formula(xp, *working, *numbers), strict=True):
            held[k][...] = value.astype(held[k].dtype)


# -- the choice --------------------------------------------------------------------------------------------------------

_SUFFIX = {"f": "_f32", "d": "_f64"}


def candidates(v: Variant, device_type: str, lists: Lists) -> list[tuple[Kernel, str | None]]:
    """Every kernel of a step with its reason to decline, or None; the last is the reference, which takes everything."""
    params = lists[0]
    xp = backends.array_module(device_type)
    if device_type == "cpu":
        found = _c_kernel(v, params)
        reason = found if isinstance(found, str) else None
        first = Kernel(lambda numbers, many: found(numbers, *many), v.name + _SUFFIX.get(params[0].dtype.char, ""), "C")
    else:
        reason = _triton_declines(lists)
        first = Kernel(lambda numbers, many: triton_kernel(v)(many, numbers), f"{v.name}_kernel", "Triton")
    last = Kernel(lambda numbers, many: _on_arrays(xp, v, numbers, many), f"{v.name}_reference",
                  "NumPy" if xp is np else "CuPy")  # fmt: skip
    return [(first, reason), (last, None)]


def real(lists: Lists) -> tuple[Lists, list[tuple[Any, Any]]]:
    """Complex arrays as real ones of twice the length; what had to be copied for it, to be copied back."""
    copied, out = [], []
    for k, many in enumerate(lists):
        views = []
        for a in many:
            dense = a if a.flags.c_contiguous else np.ascontiguousarray(a)
            if dense is not a and k != 1:
                copied.append((a, dense))
            views.append(dense.reshape(-1).view(a.real.dtype))
        out.append(views)
    return out, copied


def step(op: str, update: Update, on: frozenset[str], tensors: Sequence[Tensor], lists: Lists,
         settings: dict[str, Any]) -> None:  # fmt: skip
    """Run one step over parameters of one kind: the first kernel that accepts; versions move on, observers are told."""
    v = update.variants[on]
    kind = tensors[0]._kind
    copied: list[tuple[Any, Any]] = []
    if kind.dtype.is_complex:
        lists, copied = real(lists)
    start = perf_counter_ns() if observe.observers else 0
    kernel = backends.on_device(run, kind.device)(v, kind.device.type, v.scalars(**settings), lists)
    stop = perf_counter_ns() if observe.observers else 0
    for a, dense in copied:
        a[...] = dense
    _written(op, tensors, settings, kernel, start, stop)


_PLAIN = frozenset((float, int, bool))


def step_tensors(op: str, update: Update, on: frozenset[str], params: list[Tensor], states: dict[Any, Any],
                 names: tuple[str, ...], settings: dict[str, Any]) -> bool:  # fmt: skip
    """Run one step over parameters by the C kernel, which finds gradients and states itself, and let their versions
    move on; False, with nothing changed, where it takes them not."""
    v = update.variants[on]
    found = _c_kernel(v, [params[0]._a])
    if isinstance(found, str) or native.module is None:
        return False
    if not _PLAIN.issuperset(map(type, settings.values())):
        settings = {k: x.item() if isinstance(x, Tensor) else x for k, x in settings.items()}
    numbers = v.scalars(**settings)
    return native.module.step_tensors(found, numbers, params, states, names, (op, here()))


def run(v: Variant, device_type: str, numbers: tuple[float, ...], lists: Lists) -> Kernel:
    """Run the first kernel that accepts; that one."""
    for kernel, reason in candidates(v, device_type, lists):
        if reason is None and kernel.run(numbers, lists) is None:  # what C finds in the layouts is its reason
            break
    return kernel


def one(op: str, p: Tensor, compute: Callable[[Any, Any], None]) -> None:
    """A step of one parameter as a function of its array and its gradient's, on the device's array library."""
    gradient = p._grad
    if gradient is None:  # another thread took it away just now
        return
    a, g = p._a, gradient._a
    xp = backends.array_module(p._kind.device.type)
    start = perf_counter_ns() if observe.observers else 0
    backends.on_device(_wide, p._kind.device)(compute, a, g)
    stop = perf_counter_ns() if observe.observers else 0
    kernel = Kernel(compute, f"{op}_reference", "NumPy" if xp is np else "CuPy")
    _written(op, [p], {}, kernel, start, stop)


def _wide(compute: Callable[[Any, Any], None], a: Any, g: Any) -> None:
    """A step of one array; a half-precision type is computed in float32 and rounded once."""
    if a.dtype.itemsize >= 4:
        compute(a, g)
        return
    wide = a.astype(np.float32)
    compute(wide, g.astype(np.float32))
    a[...] = wide.astype(a.dtype)


def _written(op: str, tensors: Sequence[Tensor], settings: dict[str, Any], kernel: Kernel, start: int,
             stop: int) -> None:  # fmt: skip
    place = here()
    for p in tensors:
        storage_of(p).wrote(op, place)
    if observe.observers:
        grads = values_of(tuple(p._grad for p in tensors if p._grad is not None))  # averages have none
        emit_op(op, (*tensors, *grads), (), settings, kernel, start, stop, None)


def zeros_like(p: Tensor) -> Any:
    """Zeros in the layout of `p`, on its device."""
    return backends.allocated(p._kind.device, lambda xp: xp.zeros_like(p._a))
