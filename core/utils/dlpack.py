"""Exchange of tensors with other libraries, under PyTorch's path ``utils.dlpack``."""

from __future__ import annotations

from typing import Any

from ..dispatch.publish import namespaces

__all__ = ["from_dlpack", "to_dlpack"]

from_dlpack = namespaces[""]["from_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """Return a capsule of a tensor, which another library's `from_dlpack` takes once.

    >>> import core
    >>> type(core.utils.dlpack.to_dlpack(core.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()
