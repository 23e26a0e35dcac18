"""What one request may ask for."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Bounds that are checked before anything of that size is made."""

    body: int = 16 << 20
    """Bytes of a request's body."""
    tensors: int = 64
    """Tensors in a request."""
    elements: int = 1 << 22
    """Elements of a tensor in a request; and no size of it is larger, of an empty one either."""
    made: int = 1 << 28
    """Elements of the largest value that the program makes at the sizes of a request."""
    queue: int = 256
    """Requests that wait for a model."""
    body_s: float = 30.0
    """Seconds that a body may take to arrive."""
