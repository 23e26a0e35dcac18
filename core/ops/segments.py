"""Reductions of successive pieces of the first dimension."""

from __future__ import annotations

import itertools
from typing import Any

from ..base.errors import text
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .creation import full, zeros
from .joining import stack


@public(method=False)
def segment_reduce(data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
                   offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False,
                   initial: float | None = None) -> Tensor:  # fmt: skip
    """Return the sum, mean, max, min or prod of successive pieces along the first dimension.

    The pieces have the `lengths`, or start and end at the `offsets`; one that is empty gives `initial`, or what leaves
    the others as they are. *Raises*: RuntimeError where the pieces do not cover the data.

    >>> import core
    >>> core.segment_reduce(core.tensor([1.0, 2.0, 5.0]), "sum", lengths=core.tensor([2, 1]))
    tensor([3., 5.])
    """
    empties = {"sum": 0.0, "mean": float("nan"), "prod": 1.0, "max": -float("inf"), "min": float("inf")}
    if reduce not in empties:
        raise RuntimeError(text(f"Invalid argument {reduce}", op="segment_reduce", needed=", ".join(empties)))
    if (lengths is None) == (offsets is None) or axis != 0:
        raise RuntimeError(text("segment_reduce(): Either lengths or offsets must be defined.", op="segment_reduce"))
    if offsets is not None:
        ends = offsets.tolist()
    else:
        assert lengths is not None
        ends = [0, *itertools.accumulate(lengths.tolist())]
    if not unsafe and lengths is not None and ends[-1] != data.shape[0]:
        raise RuntimeError(text("segment_reduce(): Expected all rows of lengths along axis to sum to "
                                "data.size(lengths.dim()-1) when !unsafe.", op="segment_reduce"))  # fmt: skip
    rest = tuple(data.shape[1:])
    pieces = [_one_segment(data[a:b], reduce, initial, empties[reduce]) for a, b in itertools.pairwise(ends)]
    return stack(pieces) if pieces else zeros(0, *rest, dtype=data.dtype, device=data.device)


def _one_segment(piece: Any, reduce: str, initial: float | None, nothing: float) -> Any:
    n = piece.shape[0]
    if not n:
        return full(tuple(piece.shape[1:]), nothing if initial is None else initial, dtype=piece.dtype,
                    device=piece.device)  # fmt: skip
    if reduce in ("max", "min"):
        y = piece.amax(0) if reduce == "max" else piece.amin(0)
        return y if initial is None else y.clamp(min=initial) if reduce == "max" else y.clamp(max=initial)
    if reduce == "prod":
        return piece.prod(0) * (1 if initial is None else initial)
    y = piece.sum(0) + (0 if initial is None else initial)
    return y / n if reduce == "mean" else y
