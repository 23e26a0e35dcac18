"""Running a graph node by node: to compute, to look on, or to write another graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import text
from ..nn.modules.module import Module
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate, map_arg
from .printed import resolve
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node; a subclass that overrides `call_function` and its like sees and changes each step.

    module : a GraphModule, or a module with `graph` beside it. garbage_collect_values : let go of a value after its
    last use. graph : the graph, where it is not the module's own.

    >>> import core
    >>> class Names(core.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         print(target.__name__)
    ...         return super().call_function(target, args, kwargs)
    >>> Names(core.fx.symbolic_trace(lambda x: core.relu(x) + 1)).run(core.tensor(2.0))
    relu
    add
    tensor(3.)
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module, self.submodules = module, dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph  # type: ignore[assignment]
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        last: dict[Node, Node] = {}
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in last:
                    last[used] = node
                    self.user_to_last_uses.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: Mapping[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph with these arguments and return what it gives; values in `initial_env` are not computed.

        *Raises*: what a node raises, with a note that names the node.
        """
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and hasattr(error, "add_note"):
                    error.add_note(f"While executing {node.format_node()}")
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    self.env.pop(used, None)
            if node.op == "output":
                return self.env[node]
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph with the arguments of a list, which is emptied so that nothing else holds them."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """Return the value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument, or its default."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(text(f"Expected positional argument for parameter {target}, but one was not passed in!",
                                    op="fx.Interpreter.run")) from None  # fmt: skip

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the first argument."""
        first, *rest = args
        return getattr(first, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module within the module."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the program gives."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return an attribute of the module by its path.

        *Raises*: RuntimeError where there is none.
        """
        try:
            return resolve(self.module, target)
        except AttributeError as error:
            raise RuntimeError(text(f"Node referenced nonexistent target {target}", op="fx.Interpreter",
                                    came=str(error))) from error  # fmt: skip

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Any, Any]:
        """Return a node's arguments with values in the place of nodes."""
        args, kwargs = self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return arguments with values in the place of nodes."""

        def value(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(text(f"Node {n} referenced nonexistent value {used}", op="fx.Interpreter",
                                        remedy="graph.lint()"))  # fmt: skip
            return self.env[used]

        return _plain(map_arg(args, value))


def _plain(a: Any) -> Any:
    """Return arguments with lists and dicts that may be changed."""
    if isinstance(a, tuple) and not hasattr(a, "_fields"):
        return tuple(map(_plain, a)) if type(a) is tuple else a
    if isinstance(a, list):
        return list(map(_plain, a))
    return {k: _plain(x) for k, x in a.items()} if isinstance(a, dict) else a


class _Rewriter(Tracer):
    """Writes the graph of a Transformer: every module is a leaf."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Runs a graph on values of a trace, which makes another: a subclass overrides the steps that are to change.

    >>> import core
    >>> class Softer(core.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(core.tanh if target is core.relu else target, args, kwargs)
    >>> print(Softer(core.fx.symbolic_trace(lambda x: core.relu(x))).transform().code.strip())
    def forward(self, x):
        tanh = torch.tanh(x);  x = None
        return tanh
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = _Rewriter(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Write an argument."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Write the read of an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Write the call of a module."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Write the call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the module of the new graph."""
        result = super().run(enable_io_processing=False)
        self.new_graph.output(map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x))
        return GraphModule(self.module, self.new_graph)
