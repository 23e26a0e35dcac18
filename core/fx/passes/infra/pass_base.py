"""A pass: a change of a module's graph."""

from __future__ import annotations

from typing import NamedTuple

from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module after a pass, and whether the pass changed it."""

    graph_module: GraphModule
    modified: bool


class PassBase:
    """A pass; a subclass writes `call`, and `requires` and `ensures` where something must hold before or after it."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change the module."""
        raise NotImplementedError(f"{type(self).__name__} has no call")

    def requires(self, graph_module: GraphModule) -> None:
        """Look at the module before the pass."""

    def ensures(self, graph_module: GraphModule) -> None:
        """Look at the module after the pass."""
