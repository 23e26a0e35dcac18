"""The operands of an op: on one device, and brought to one kind by PyTorch's promotion rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends
from ..base import dtypes
from ..base.device import Kind, device
from ..base.device import kind as kind_of
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.modes import state as mode
from ..declare import op as declarations
from ..declare.op import Elementwise
from ..declare.signature import public_name
from ..events.lineage import note
from ..graph.versions import storage_of
from ..tensors.tensor import Tensor, from_array, wrap


def _number(x: Any) -> Any:
    """Return a Python number as kernels take it; None if it is not a number."""
    if type(x) is float or type(x) is int:
        return x
    if isinstance(x, bool | np.bool_):
        return int(x)
    if isinstance(x, int | float):
        return float(x) if isinstance(x, float) else int(x)
    if isinstance(x, np.number):
        return x.item()
    return None


def same_device(op: str, tensors: Sequence[Any]) -> device:
    """Return the one device of all tensors; RuntimeError where they differ. 0-d CPU tensors go anywhere."""
    found: Tensor | None = None
    for t in tensors:
        if isinstance(t, Tensor):
            if found is None or (found._kind.device is not t._kind.device and found._a.ndim == 0 and not found.is_cuda):
                found = t
            elif t._kind.device is not found._kind.device and (t._a.ndim or t.is_cuda):
                raise RuntimeError(
                    text(
                        "Expected all tensors to be on the same device, but found at least two devices, "
                        f"{found._kind.device} and {t._kind.device}!",
                        op=op,
                        came=", ".join(
                            f"{tuple(x._a.shape)} on {x._kind.device}" for x in tensors if isinstance(x, Tensor)
                        ),
                        remedy="move one with .to(device)",
                    )
                )
    assert found is not None
    return found._kind.device


def need_tensors(op: str, names: Sequence[str], args: Sequence[Any]) -> None:
    """TypeError where one of the first arguments, which `names` tells, is no tensor."""
    for k, name in enumerate(names):
        if not isinstance(args[k], Tensor):
            raise TypeError(
                text(f"{op}(): argument {name!r} (position {k + 1}) must be Tensor, not {type(args[k]).__name__}",
                     op=op, came=repr(args[k])[:80], needed="a tensor", remedy=f"core.tensor({name})")
            )  # fmt: skip


def _operand(a: Any) -> Tensor:
    """Return a NumPy array among the operands, in its own memory; its origin is not lost."""
    t = from_array(a.view(np.ndarray))
    note(t, a)
    return t


def promote(op: Elementwise, args: tuple[Any, ...]) -> tuple[Kind, tuple[Any, ...]]:
    """Bring the inputs of an elementwise op to one kind by PyTorch's rules, through differentiable casts."""
    args = tuple([_operand(a) if isinstance(a, np.ndarray) else a for a in args])
    if not any(isinstance(a, Tensor) for a in args):
        came = ", ".join(type(a).__name__ for a in args)
        raise TypeError(f"{op.label}(): argument must be Tensor, not {came}\n  remedy: core.tensor(value)")
    where = same_device(op.label, args)
    dimmed: list[Dtype] = []
    zero: list[Dtype] = []
    numbers: list[Dtype] = []
    for k, (name, a) in enumerate(zip(op.inputs, args, strict=True)):
        if name in op.bools:
            continue
        if isinstance(a, Tensor):
            (dimmed if a._a.ndim else zero).append(a._kind.dtype)
        elif isinstance(a, complex) or _number(a) is not None:
            numbers.append(dtypes.of_number(a))
        else:
            raise TypeError(
                text(
                    f"{op.label}(): argument {public_name(name)!r} (position {k + 1}) must be Tensor or Number, not "
                    f"{type(a).__name__}",
                    op=op.label,
                )
            )
    found = dtypes.result_type(dimmed, zero, numbers) if dimmed or zero or numbers else dtypes.bool_
    if op.out == "float" and found.category < 2:
        found = dtypes.get_default_dtype()
    elif op.out == "number" and found.category == 0:
        found = dtypes.int64
    kind = kind_of(found, where)
    out: list[Any] = []
    for name, a in zip(op.inputs, args, strict=True):
        if name in op.bools:
            if not isinstance(a, Tensor):
                a = wrap(backends.array_module(where.type).asarray(bool(a)), kind.boolean)
            elif a._kind is not kind.boolean:
                a = convert(a, kind_of(a._kind.dtype, where)) != 0
        elif isinstance(a, Tensor):
            a = a if a._kind is kind else _promoted(a, kind)
        else:
            a = a if isinstance(a, complex) else _number(a)
        out.append(a)
    return kind, tuple(out)


def _promoted(t: Tensor, kind: Kind) -> Tensor:
    """Return an operand as its op's kind. A write to `t` is one to what the op saves of it, as where nothing is
    converted."""
    out = convert(t, kind)
    if mode.enabled:
        out._storage = storage_of(t)
    return out


def convert(t: Tensor, kind: Kind) -> Tensor:
    """`t` as another kind, on the graph."""
    return t if t._kind is kind else declarations.functions["to"](t, kind)
