"""PyTorch's helpers for saying how its own exporter writes an op: that exporter is not here, and asks nobody.

`core.export.onnx_ops.row` says how an op of core is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.absent import absent_names

__all__ = ["parse_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """Return a decorator that leaves its function as it is: nobody calls it."""

    def decorate(fn: Any) -> Any:
        return fn

    return decorate


__getattr__ = absent_names(__name__, "core.export.onnx_ops.row says how an op is written")
