"""What gathering kernels share: which elements of a tile the lanes of a warp take, and what lies on the padding."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from . import runtime


@triton.jit
def within(place, size):
    """Whether a place is in a dimension: one comparison, since a negative place is a huge one without its sign."""
    return place.to(tl.uint32, bitcast=True) < tl.cast(size, tl.uint32)


@triton.jit
def together(offset, YES: tl.constexpr):
    """The offsets of places, if `YES` said to lie side by side, so that neighbouring lanes take neighbouring places.

    The compiler cannot see that they do, as rows of images end anywhere, and would as soon give a warp the channels,
    which lie far apart. A zero that it does not know as one keeps it from making wider loads of what it is told.
    """
    if YES:
        offset = tl.max_contiguous(offset + tl.program_id(2), 2)
    return offset


def is_first(a: Any, width: int, even: bool) -> bool:
    """Return whether lanes are to take neighbouring places of an array: where its channels are not what lies side by
    side, and the compiler does not see the places do: rows of a multiple of 16, in steps of one (`even`)."""
    steps = runtime.element_strides(a)
    return steps[1] != 1 and not (even and steps[-1] == 1 and width % 16 == 0)
