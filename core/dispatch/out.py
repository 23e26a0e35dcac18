"""Writing a result into the tensor that was given as ``out=``."""

from __future__ import annotations

import sys

from ..base.errors import text
from ..base.modes import state as mode
from ..base.source import here, warn
from ..events import observe
from ..graph.versions import storage_of
from ..tensors.tensor import Tensor


def into(out: Tensor | None, result: Tensor, name: str = "") -> Tensor:
    """Copy a result into ``out=`` where one was given. `name` is the op's; left out, the calling function's."""
    if out is None:
        return result
    name = name or sys._getframe(1).f_code.co_name
    if mode.enabled and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            text(f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                 "arguments requires grad.", op=name, remedy="leave out= away, or do it under core.no_grad()")
        )  # fmt: skip
    have, want = result._kind.dtype, out._kind.dtype
    if want.category < have.category:
        raise RuntimeError(
            text(f"result type {have.scalar_type} can't be cast to the desired output type {want.scalar_type}", op=name,
                 came=f"out= of {want}", needed=f"{have} or higher")
        )  # fmt: skip
    if out._a.shape != result._a.shape:
        if out._a.size:
            warn(
                f"An output with one or more elements was resized since it had shape {list(out._a.shape)}, which does "
                f"not match the required output shape {list(result._a.shape)}. This behavior is deprecated, and in a "
                "future PyTorch release outputs will not be resized unless they have zero elements.",
            )
        out._a = result._a.astype(want.numpy)
    elif (
        out._a.size > 1
        and 0 in out._a.strides
        and any(s == 0 and n > 1 for s, n in zip(out._a.strides, out._a.shape, strict=True))
    ):
        raise RuntimeError(
            text("unsupported operation: more than one element of the written-to tensor refers to a single memory "
                 "location. Please clone() the tensor before performing the operation.", op=name,
                 came=f"an expanded tensor of shape {tuple(out._a.shape)}", remedy="clone() it first")
        )  # fmt: skip
    else:
        if observe.observers:
            written = observe.WriteEvent(f"{name}(out=)", out, result, here(2))
            observe.notify(observe.listening(), "write", written)
        out._a[...] = result._a
    storage_of(out).wrote(f"{name}(out=)", here(2))
    return out
