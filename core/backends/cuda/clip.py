"""Clipping by the common norm: all gradients of a GPU in three launches."""

from __future__ import annotations

from typing import Any

from .devices import on
from .shared import FLOATING, availability, empty


def _declines(tensors: Any) -> str | None:
    """Why tensors are left to the array library."""
    there, reason = availability()
    if not there:
        return reason
    if len({t._kind.device for t in tensors}) != 1:
        return "takes the tensors of one GPU"
    if any(t._a.dtype.name not in FLOATING for t in tensors):
        return f"takes {', '.join(FLOATING)}"
    return None if all(t._a.flags.c_contiguous for t in tensors) else "takes contiguous arrays"


def total(tensors: Any, p: float) -> Any:
    """Return the norm of order `p` of all tensors as a 0-d array of the first one's type; None where it is not for
    this."""
    from triton_kernels import clip

    if p not in clip.NORMS or _declines(tensors):
        return None
    with on(tensors[0]._kind.device):
        out = empty((), tensors[0]._a.dtype)
        clip.total_norm([t._a for t in tensors], p, out)
    return out


def scale(tensors: Any, norm: Any, most: float) -> bool:
    """Multiply all tensors by ``min(1, most / (norm + 1e-6))``; False, and nothing done, where it is not for this."""
    from triton_kernels import clip

    if not tensors or _declines([*tensors, norm]):
        return False
    with on(tensors[0]._kind.device):
        clip.scale_by_norm([t._a for t in tensors], norm._a, most)
    return True
