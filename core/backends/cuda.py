"""The rows of the device `cuda`: op name -> Triton kernels. Arrays are CuPy's; NumPy's under Triton's interpreter."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..device import Kind
from ..device import device as Device
from ..expr import Program, triton_lines
from . import Kernel, Row, as_rows

name = "Triton"

_FLOATING = ("float16", "bfloat16", "float32", "float64")


@cache
def availability() -> tuple[bool, str]:
    """Whether the device is there, and why (not), in a sentence."""
    import triton_kernels

    able = triton_kernels.availability()
    if not able.importable:
        return False, able.reason
    if able.interpreted:
        return True, able.reason
    try:
        import cupy
    except ImportError:
        return False, "CuPy, which holds the arrays of a GPU, is not installed; pip install 'gradlab[gpu]'"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as e:
        return False, f"CuPy finds no GPU ({e})"
    if not count:
        return False, "CuPy finds no GPU"
    from triton_kernels import runtime

    runtime.connect(cupy)
    return True, f"{count} GPU(s); {able.reason}"


@cache
def array_library() -> Any:
    """NumPy under the interpreter, CuPy on a GPU."""
    import triton_kernels

    if triton_kernels.interpreting():
        return np
    import cupy

    return cupy


def device_count() -> int:
    """How many devices there are; one under the interpreter."""
    if not availability()[0]:
        return 0
    xp = array_library()
    return 1 if xp is np else int(xp.cuda.runtime.getDeviceCount())


def check(where: Device) -> Device:
    """`where` with its index; RuntimeError with the reason if it is not there."""
    there, reason = availability()
    if not there:
        raise RuntimeError(
            f"No CUDA GPUs are available\n  came: device {str(where)!r}; reason: {reason}; "
            "remedy: use the device 'cpu', or set TRITON_INTERPRET=1 to interpret the kernels"
        )
    index = where.index or 0
    if index >= device_count():
        raise RuntimeError(f"CUDA error: invalid device ordinal\n  came: {where}; devices there are: {device_count()}")
    return Device("cuda", index)


def map(program: Program, kind: Kind) -> Kernel | str:
    """The Triton kernel of a program, or why there is none."""
    there, reason = availability()
    if not there:
        return reason
    conditions = all(k == "bool" for k in program.kinds)
    if kind.dtype.name not in _FLOATING and not (kind.dtype.name == "bool" and conditions):
        return f"takes {', '.join(_FLOATING)}, got {kind.dtype.name}"
    from triton_kernels import elementwise
    from triton_kernels.primitives import PRIMITIVES

    lines, result = triton_lines(program, PRIMITIVES)
    bools = [n for n, k in zip(program.inputs, program.kinds, strict=True) if k == "bool"]
    kernel = elementwise.build(program.name, program.inputs, program.params, lines, result,
                               "bool" if program.is_bool else "same", bools)  # fmt: skip
    n, dtype, xp = len(program.inputs), np.dtype(bool) if program.is_bool else kind.dtype.numpy, array_library()

    def run(*args: Any) -> Any:
        shapes = [a.shape for a in args[:n] if hasattr(a, "shape")]
        shape = shapes[0] if all(s == shapes[0] for s in shapes) else np.broadcast_shapes(*shapes)
        out = xp.empty(shape, dtype)
        kernel(args[:n], args[n:], out)
        return out

    return Kernel(run, f"{program.name}_kernel", name)


def rows(name: str) -> tuple[Row, ...]:
    """The structured kernels that serve `name`."""
    found = _table.get(name)
    return () if found is None or not availability()[0] else (found,)


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    there, reason = availability()
    return "no Triton kernel is written for this op" if there else reason


# -- what rows take ---------------------------------------------------------------------------------------------------


def _floating(*arrays: Any) -> str | None:
    """The reason to decline arrays that are not all of one floating type; None stands for one that was left out."""
    first = arrays[0].dtype
    if first.name not in _FLOATING:
        return f"takes {', '.join(_FLOATING)}, got {first}"
    for a in arrays[1:]:
        if a is not None and a.dtype != first:
            return f"takes one floating type, got {first} and {a.dtype}"
    return None


def _kept(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    return tuple(1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims)


def _empty(shape: tuple[int, ...], dtype: Any) -> Any:
    return array_library().empty(shape, dtype)


def _reduction(kind: str, op: str) -> Row:
    def declines(x: Any, dim: Any, keepdim: bool) -> str | None:
        return _floating(x) or (
            "has no value for an empty tensor" if kind not in ("sum", "mean") and not x.size else None
        )

    def run(x: Any, dim: Any, keepdim: bool) -> Any:
        from triton_kernels import reduce

        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        dims = tuple(d % max(x.ndim, 1) for d in dims if x.ndim)
        out = _empty(_kept(x.shape, dims, keepdim), np.int64 if kind.startswith("arg") else x.dtype)
        reduce.reduce_forward(kind, x, dims, out)
        return out

    return Row("arg_kernel" if kind.startswith("arg") else "reduce_kernel", name, run, declines)


def _along_last(launcher: str, dim: int, *arrays: Any) -> Any:
    """Run a kernel of rows over any dimension: it is moved to the end, and the others made dense before it."""
    from triton_kernels import softmax

    xp, last = array_library(), arrays[0].ndim - 1
    moved = [xp.ascontiguousarray(a if dim in (-1, last) else xp.moveaxis(a, dim, -1)) for a in arrays]
    out = _empty(moved[0].shape, moved[0].dtype)
    getattr(softmax, launcher)(*moved, out)
    return out if dim in (-1, last) else xp.moveaxis(out, -1, dim)


def _rows_only(x: Any, *others: Any) -> str | None:
    return _floating(x, *others) or ("needs a dimension to run over, got a 0-d tensor" if x.ndim == 0 else None)


def _softmax(op: str) -> Row:
    return Row(
        "softmax_kernel", name, lambda x, dim: _along_last(f"{op}_forward", dim, x), lambda x, dim: _rows_only(x)
    )


def _softmax_backward(op: str) -> Row:
    return Row("softmax_backward_kernel", name, lambda g, y, dim: _along_last(f"{op}_backward", dim, g, y),
               lambda g, y, dim: _rows_only(y, g))  # fmt: skip


def _matmul(a: Any, b: Any) -> Any:
    from triton_kernels import matmul

    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = _empty((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    matmul.matmul_forward(a, b, out)
    return out


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    from triton_kernels import matmul

    rows = as_rows(x)
    out = _empty((rows.shape[0], weight.shape[0]), x.dtype)
    matmul.matmul_forward(rows, weight.T, out, bias=bias)
    return out.reshape(*x.shape[:-1], weight.shape[0])


def _cross_entropy_declines(x: Any, target: Any, weight: Any, label_smoothing: float) -> str | None:
    if weight is not None:
        return "takes no class weights"
    return "takes no label smoothing" if label_smoothing else _floating(x)


def _cross_entropy(x: Any, target: Any, weight: Any, ignore_index: int, label_smoothing: float) -> Any:
    from triton_kernels import loss

    xp = array_library()
    valid = (target >= 0) & (target < x.shape[1]) | (target == ignore_index)
    if not bool(valid.all()):
        wrong = int(target[~valid][0])
        raise IndexError(f"Target {wrong} is out of bounds.\n  op: cross_entropy; needed: 0 to {x.shape[1] - 1}")
    losses = _empty((x.shape[0],), x.dtype)
    lse = _empty((x.shape[0],), np.float64 if x.dtype == np.float64 else np.float32)
    loss.cross_entropy_forward(xp.ascontiguousarray(x), xp.ascontiguousarray(target), losses, lse, ignore_index)
    return losses, lse


def _cross_entropy_backward(
    g: Any, x: Any, target: Any, weight: Any, lse: Any, ignore_index: int, label_smoothing: float, **_: Any
) -> Any:
    from triton_kernels import loss

    xp = array_library()
    out = _empty(x.shape, x.dtype)
    dense = xp.ascontiguousarray
    loss.cross_entropy_backward(dense(g), dense(x), lse, dense(target), out, ignore_index)
    return out, None, None


_table: dict[str, Row] = {
    **{op: _reduction(kind, op) for op, kind in [("sum", "sum"), ("mean", "mean"), ("amax", "max"), ("amin", "min"),
                                                 ("argmax", "argmax"), ("argmin", "argmin")]},
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "softmax.backward": _softmax_backward("softmax"),
    "log_softmax.backward": _softmax_backward("log_softmax"),
    "matmul": Row("matmul_kernel", name, _matmul, lambda a, b: _floating(a, b)),
    "linear": Row("matmul_kernel", name, _linear, lambda x, weight, bias: _floating(x, weight, bias)),
    "cross_entropy": Row("cross_entropy_kernel", name, _cross_entropy,
                         lambda x, target, weight, ignore_index, label_smoothing:
                         _cross_entropy_declines(x, target, weight, label_smoothing)),
    "cross_entropy.backward": Row("cross_entropy_backward_kernel", name, _cross_entropy_backward,
                                  lambda g, x, target, weight, label_smoothing, **_:
                                  _cross_entropy_declines(x, target, weight, label_smoothing)),
}  # fmt: skip
