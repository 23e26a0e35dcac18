"""Shapes and dtypes of a graph's values, found by running it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...base.dtypes import dtype
from ...base.shape import Size
from ...tensors.tensor import Tensor
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _metadata(x: Tensor) -> TensorMetadata:
    return TensorMetadata(x.shape, x.dtype, x.requires_grad, tuple(x.stride()), None, False, {})


class ShapeProp(Interpreter):
    """Runs a graph and writes each tensor's shape and dtype into its node's ``meta["tensor_meta"]``.

    >>> import core
    >>> from core.fx.passes.shape_prop import ShapeProp
    >>> traced = core.fx.symbolic_trace(lambda x: x.flatten())
    >>> out = ShapeProp(traced).propagate(core.ones(2, 3))
    >>> [node.meta["tensor_meta"].shape for node in traced.graph.nodes][1]
    core.Size([6])
    """

    def run_node(self, n: Node) -> Any:
        """Return the value of a node, and note what it is."""
        result = super().run_node(n)
        tensors: list[Tensor] = []

        def note(x: Any) -> Any:
            if isinstance(x, Tensor):
                tensors.append(x)
                return _metadata(x)
            return x

        found = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = found
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph with these arguments."""
        return super().run(*args)
