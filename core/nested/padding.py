"""Between nested tensors and dense ones: padded batches, and dense tensors spread over the rows of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import text
from .of_sequences import NestedTensor, made
from .structure import Structure


def padded(x: NestedTensor, padding: Any, width: int | None = None) -> Any:
    """Return a dense ``(B, *, width, *)``, `padding` where a sequence has ended; the longest one's length by default.

    A smaller width leaves out what is behind it.
    """
    x = x.compacted()
    s, dim = x._structure, x._ragged - 1
    width = s.longest if width is None else width
    rows: Any = x._held.movedim(dim, 0)  # type: ignore[attr-defined]
    places = s.places(width)
    if width < s.longest:
        kept = s.index((s.step < width).nonzero()[0])
        rows, places = rows.index_select(0, kept), places[kept]  # type: ignore[index]
    whole = rows.new_full((s.batch * width, *rows.shape[1:]), padding).index_copy(0, places, rows)
    return whole.unflatten(0, (s.batch, width)).movedim(1, dim + 1)


def unpadded(whole: Any, structure: Structure, ragged: int) -> NestedTensor:
    """Return the sequences of a dense ``(B, *, width, *)``."""
    width = whole.shape[ragged]
    rows = whole.movedim(ragged, 1).flatten(0, 1).index_select(0, structure.places(width))
    return made(rows.movedim(0, ragged - 1), structure, ragged)


def spread(t: Any, like: NestedTensor, op: str) -> Any:
    """Return a dense tensor as one that broadcasts with the values of `like`, which have no rows beside sequences.

    It broadcasts with the batch as if that were padded: its size for the ragged dimension is 1, or the longest one's.
    """
    n, s, r = like.ndim, like._structure, like._ragged
    if t.ndim > n:
        raise NotImplementedError(
            text(f"{op}(): a dense tensor of more dimensions does not broadcast with NestedTensor",
                 op=op, came=f"shapes {tuple(like.shape)} and {tuple(t.shape)}",
                 needed=f"at most {n} dimensions"))  # fmt: skip
    sizes = (1,) * (n - t.ndim) + tuple(t.shape)
    if sizes[0] == sizes[r] == 1:
        return t.squeeze(0) if t.ndim == n else t
    if sizes[0] not in (1, s.batch) or sizes[r] not in (1, s.longest):
        raise RuntimeError(
            text(f"cannot call binary pointwise function {op} with inputs of shapes {tuple(like.shape)} and "
                 f"{tuple(t.shape)}", op=op, needed=f"1 or {s.batch} for the batch, 1 or the longest sequence's "
                 f"{s.longest} for {s.size!r}"))  # fmt: skip
    t = t.reshape(sizes)
    if sizes[r] == 1:
        return t.squeeze(r).index_select(0, s.index(s.sequence)).movedim(0, r - 1)
    return unpadded(t.expand(s.batch, *sizes[1:]), s, r)._held


def to_padded_tensor(input: NestedTensor, padding: float, output_size: Sequence[int] | None = None) -> Any:
    """Return a dense tensor: `core.nested.to_padded_tensor`."""
    width, r = None, input._ragged
    if output_size is not None:
        sizes: list[Any] = list(input.shape)
        if len(output_size) == len(sizes):
            width = sizes[r] = output_size[r]
        if list(output_size) != sizes:
            raise RuntimeError(
                text("to_padded_tensor(): output_size changes a size that is not ragged", op="to_padded_tensor",
                     came=f"{tuple(output_size)} for {tuple(input.shape)}", needed="the same other sizes",
                     remedy="nn.functional.pad of the result"))  # fmt: skip
    return padded(input, padding, width)
