"""Which kernel makes an optimizer's step: rows as for ops, C on the CPU and Triton on a GPU, then the reference.

A row takes lists of arrays, one entry a parameter, and changes them in place; a whole group is one call. The step is
told to observers as one op, ``adamw_step``, ``adam_step`` or ``sgd_step``, of the phase "update".
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from .. import backends, native, observe
from ..backends import Kernel, Row
from ..source import here
from ..telling import tell
from ..tensor import Tensor, storage_of

Lists = tuple[Sequence[Any], ...]


# -- C -----------------------------------------------------------------------------------------------------------------


def _c_declines(params: Sequence[Any], lists: Lists, settings: dict[str, Any]) -> str | None:
    if native.module is None:
        return native.reason
    kind = params[0].dtype.char
    if kind not in "fd":
        return f"takes float32 and float64, got {params[0].dtype}"
    if settings.get("amsgrad"):
        return "takes no amsgrad"
    for many in (params, *lists[1:]):  # gradients of another layout are copied
        for a in many:
            if not a.flags.c_contiguous:
                return "takes parameters and state that are contiguous"
    return None


def _c_adam(params: Sequence[Any], lists: Lists, s: dict[str, Any]) -> None:
    native.module.adamw_step(params, *lists[:3], s["step"], s["lr"], s["beta1"], s["beta2"], s["eps"],  # type: ignore[union-attr]
                             s["weight_decay"], s["maximize"], s["decoupled"])  # fmt: skip


def _c_sgd(params: Sequence[Any], lists: Lists, s: dict[str, Any]) -> None:
    native.module.sgd_step(params, lists[0], lists[1] if len(lists) > 1 else None, s["lr"], s["momentum"],  # type: ignore[union-attr]
                           s["dampening"], s["weight_decay"], s["nesterov"], s["maximize"], s["first"])  # fmt: skip


# -- Triton ------------------------------------------------------------------------------------------------------------


def _triton_declines(params: Sequence[Any], lists: Lists, settings: dict[str, Any]) -> str | None:
    from ..backends import cuda

    there, reason = cuda.availability()
    if not there:
        return reason
    if settings.get("amsgrad"):
        return "takes no amsgrad"
    if params[0].dtype.name not in ("float16", "bfloat16", "float32", "float64"):
        return f"takes floating types, got {params[0].dtype}"
    for many in (params, *lists):
        for a in many:
            if not a.flags.c_contiguous:
                return "takes contiguous arrays"
    return None


def _triton_adam(params: Sequence[Any], lists: Lists, s: dict[str, Any]) -> None:
    from triton_kernels import optim

    optim.adamw_step(params, *lists[:3], step=s["step"], lr=s["lr"], beta1=s["beta1"], beta2=s["beta2"], eps=s["eps"],
                     weight_decay=s["weight_decay"], decoupled=s["decoupled"], maximize=s["maximize"])  # fmt: skip


def _triton_sgd(params: Sequence[Any], lists: Lists, s: dict[str, Any]) -> None:
    from triton_kernels import optim

    optim.sgd_step(params, lists[0], lists[1] if len(lists) > 1 else None, lr=s["lr"], momentum=s["momentum"],
                   dampening=s["dampening"], weight_decay=s["weight_decay"], nesterov=s["nesterov"],
                   maximize=s["maximize"], first=s["first"])  # fmt: skip


# -- the reference -----------------------------------------------------------------------------------------------------


def zeros_like(a: Any) -> Any:
    """Zeros in the layout of `a`, on its device."""
    return np.zeros_like(a)  # CuPy's arrays answer this themselves


def _working(*arrays: Any) -> tuple[Any, ...]:
    """Half types are computed in float32 and rounded once, as the kernels do."""
    return tuple(a.astype(np.float32) if a.dtype.itemsize < 4 else a for a in arrays)


def _store(target: Any, value: Any) -> None:
    if target is not value:
        target[...] = value.astype(target.dtype)


def reference_adam(params: Sequence[Any], lists: Lists, s: dict[str, Any]) -> None:
    """Adam and AdamW in the order of PyTorch's single-tensor text. Source: arXiv 1412.6980 and 1711.05101."""
    correction1, correction2 = 1 - s["beta1"] ** s["step"], 1 - s["beta2"] ** s["step"]
    for held in zip(params, *lists, strict=True):
        p, g, m, v, *largest = _working(*held)
        if s["maximize"]:
            g = -g
        if s["weight_decay"]:
            if s["decoupled"]:
                p *= 1 - s["lr"] * s["weight_decay"]
            else:
                g = g + p * s["weight_decay"]
        m += (g - m) * (1 - s["beta1"])
        v *= s["beta2"]
        v += g * g * (1 - s["beta2"])
        root = v
        if largest:
            root = np.maximum(largest[0], v)  # which CuPy's arrays answer themselves
            held[4][...] = root.astype(held[4].dtype)
        p -= m / (root**0.5 / correction2**0.5 + s["eps"]) * (s["lr"] / correction1)
        for target, value in zip((held[0], held[2], held[3]), (p, m, v), strict=True):
            _store(target, value)


def reference_sgd(params: Sequence[Any], lists: Lists, s: dict[str, Any]) -> None:
    """Stochastic gradient descent in the order of PyTorch's single-tensor text."""
    for held in zip(params, *lists, strict=True):
        p, g, *momenta = _working(*held)
        if s["maximize"]:
            g = -g
        if s["weight_decay"]:
            g = g + p * s["weight_decay"]
        if momenta:
            b = momenta[0]
            if s["first"]:
                b[...] = g
            else:
                b *= s["momentum"]
                b += g * (1 - s["dampening"])
            g = g + b * s["momentum"] if s["nesterov"] else b
            _store(held[2], b)
        p -= g * s["lr"]
        _store(held[0], p)


# -- the choice --------------------------------------------------------------------------------------------------------

_ROWS: dict[tuple[str, str], Row] = {
    ("adam", "cpu"): Row("adam_step", "C", _c_adam, _c_declines),
    ("sgd", "cpu"): Row("sgd_step", "C", _c_sgd, _c_declines),
    ("adam", "cuda"): Row("adamw_kernel", "Triton", _triton_adam, _triton_declines),
    ("sgd", "cuda"): Row("sgd_kernel", "Triton", _triton_sgd, _triton_declines),
}
_REFERENCE = {"adam": reference_adam, "sgd": reference_sgd}
_SUFFIX = {"f": "_f32", "d": "_f64"}


def candidates(op: str, device_type: str, params: Sequence[Any], lists: Lists,
               settings: dict[str, Any]) -> list[tuple[Kernel, str | None]]:  # fmt: skip
    """Every kernel of a step with its reason to decline, or None; the last is the reference, which takes everything."""
    family = "sgd" if op == "sgd_step" else "adam"
    row = _ROWS[family, device_type]
    suffix = _SUFFIX.get(params[0].dtype.char, "") if row.backend == "C" else ""
    library = "NumPy" if backends.array_module(device_type) is np else "CuPy"
    return [(Kernel(row.run, row.name + suffix, row.backend), row.declines(params, lists, settings)),
            (Kernel(_REFERENCE[family], f"{op}_reference", library), None)]  # fmt: skip


def step(op: str, tensors: Sequence[Tensor], lists: Lists, settings: dict[str, Any]) -> None:
    """Run one step over parameters of one kind: the first kernel that accepts; versions move on, observers are told."""
    params = [p._a for p in tensors]
    where = tensors[0]._kind.device.type
    kernel = next(k for k, reason in candidates(op, where, params, lists, settings) if reason is None)
    watched = bool(observe.observers)
    start = perf_counter_ns() if watched else 0
    kernel.run(params, lists, settings)
    stop = perf_counter_ns() if watched else 0
    place = here()
    for p in tensors:
        storage_of(p).wrote(op, place)
    if watched:
        grads = tuple(p._grad for p in tensors)
        tell(op, (*tensors, *grads), (), settings, kernel, start, stop, None)
