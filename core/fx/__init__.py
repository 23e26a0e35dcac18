"""PyTorch's graphs of programs: `symbolic_trace`, `Graph`, `Node`, `GraphModule`, `Interpreter`, `replace_pattern`.

A module's forward is run once on values that have none (`Proxy`), which write down what is done with them; the graph is
changed, printed as Python and run. It knows names and arguments, no shapes; `core.export` captures a program with its
shapes from a call.
"""

from __future__ import annotations

from . import _symbolic_trace as _symbolic_trace
from . import experimental, graph, graph_module, immutable_collections, interpreter, node, passes, proxy
from . import subgraph_rewriter as subgraph_rewriter
from ._symbolic_trace import PH, Tracer, is_fx_tracing, symbolic_trace, wrap
from .experimental import (
    GuardOnDataDependentSymNode,
    definitely_false,
    definitely_true,
    free_symbols,
    free_unbacked_symbols,
    get_proxy_mode,
    guard_or_false,
    guard_or_true,
    statically_known_true,
)
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Argument, BaseArgumentTypes, Node, Target, has_side_effect, map_aggregate, map_arg
from .passes.infra import pass_base as pass_base
from .passes.infra.pass_base import PassBase, PassResult
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = ["PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer",
           "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap"]  # fmt: skip

is_fx_symbolic_tracing = is_fx_tracing
