"""A graph: the steps of a program in order, and what changes them."""

from __future__ import annotations

import builtins
import copy
import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import text
from .node import Node, map_arg, shown, target_name
from .printed import PythonCode, located, python_code, qualified, resolve

__all__ = ["CodeGen", "Graph", "PythonCode"]


class Names:
    """The names of a graph's variables: each once, and none that Python or the code uses."""

    TAKEN = frozenset({*keyword.kwlist, *dir(builtins), "inf", "nan", "NoneType", "torch", "device", "self"})

    def __init__(self) -> None:
        self.used: set[str] = set()
        self._last: dict[str, int] = {}

    def create(self, candidate: str) -> str:
        """Return a free name like the one that is wished for: x, x_1, x_2."""
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        found = re.fullmatch(r"(.*)_(\d+)", candidate)
        base, number = (found[1], int(found[2])) if found else (candidate, 0)
        number = number or self._last.get(base, 0)
        while candidate in self.used or candidate in self.TAKEN:
            number += 1
            candidate = f"{base}_{number}"
        self.used.add(candidate)
        self._last[base] = number
        return candidate


def snake_case(name: str) -> str:
    """Return a name in lower case with underscores: LayerNorm is layer_norm."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _wished(op: str, target: Any) -> str:
    name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return name if op == "placeholder" else snake_case(name.replace(".", "_"))


class NodeList:
    """The nodes of a graph in order; while it is gone through, nodes may come and go."""

    def __init__(self, graph: Graph, backward: bool = False) -> None:
        self._graph, self._backward = graph, backward

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        node = root._prev if self._backward else root._next
        while node is not root:
            if not node._erased:
                yield node
            node = node._prev if self._backward else node._next

    def __reversed__(self) -> NodeList:
        return NodeList(self._graph, not self._backward)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class CodeGen:
    """What a graph's code is printed by: the plain one, which takes and gives what the graph does."""

    def process_inputs(self, *args: Any) -> Any:
        """Return the inputs of the graph for the arguments of a call."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return what a call gives for the graph's outputs."""
        return outputs


class Graph:
    """The steps of a program in order.

    >>> import core
    >>> graph = core.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(core.relu, (x,))
    >>> out = graph.output(graph.call_method("sum", (y,)))
    >>> core.fx.GraphModule({}, graph)(core.tensor([-1.0, 2.0]))
    tensor(2.)
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._names = Names()
        self._place: Callable[[Node], None] = self._root.prepend
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self._codegen = CodeGen()

    # -- looking -------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> NodeList:
        """The nodes in order."""
        return NodeList(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """Return the nodes of a kind, of one target where it is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """Return the node that ends the program."""
        return next(iter(reversed(self.nodes)))

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def __str__(self) -> str:
        inputs: list[str] = []
        lines = [line for line in (n.format_node(inputs) for n in self.nodes) if line]
        return "\n    ".join([f"graph({', '.join(inputs)}):", *lines])

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """Return the graph as the text of a function and the names that it needs."""
        return python_code(self.nodes, root_module)

    def lint(self) -> None:
        """Look the graph over.

        *Raises*: RuntimeError where a node is used before its place or stands in another graph, where two have a name,
        and where a target is not in the module.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used.graph is not self:
                    _fails(node, f"Argument '{used}' of Node '{node}' does not belong to this Graph")
                if used not in seen:
                    _fails(node, f"Argument '{used}' of Node '{node}' was used before it has been defined")
            if node.name in names:
                _fails(node, f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("call_module", "get_attr"):
                try:
                    resolve(self.owning_module, node.target)
                except AttributeError:
                    _fails(node, f"Node {node} target {node.target} references nonexistent attribute")

    # -- writing -------------------------------------------------------------------------------------------------------

    def create_node(self, op: str, target: Any, args: tuple[Any, ...] | None = None,
                    kwargs: dict[str, Any] | None = None, name: str | None = None,
                    type_expr: Any = None) -> Node:  # fmt: skip
        """Put a node at the place of writing, and return it."""
        node = Node(self, self._names.create(name or _wished(op, target)), op, target, args or (), kwargs or {},
                    type_expr)  # fmt: skip
        self._place(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Put an argument of the program."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Put an attribute of the module, a parameter or a constant."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Put a call of a module within the module."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Put a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None,
                      type_expr: Any = None, name: str | None = None) -> Node:  # fmt: skip
        """Put a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Put the end: what the program gives."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Put a node like one of another graph; `arg_transform` gives this graph's node for one of that graph."""
        copied = self.create_node(node.op, node.target, map_arg(node.args, arg_transform),
                                  map_arg(node.kwargs, arg_transform), node.name, node.type)  # fmt: skip
        copied.meta = copy.copy(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Put the nodes of another graph but its end; return what it would give. `val_map` is filled."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    @contextmanager
    def _writing(self, place: Callable[[Node], None]) -> Iterator[None]:
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def inserting_before(self, n: Node | None = None) -> Any:
        """Write before a node in the block; without one, at the beginning."""
        return self._writing(self._root.append if n is None else self._mine(n).prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Write behind a node in the block, in order; without one, at the end."""
        return self._writing(self._root.prepend if n is None else self._mine(n)._next.prepend)

    def _mine(self, n: Node) -> Node:
        if n.graph is not self:
            raise AssertionError(text("Node to insert at is not in graph", op="fx.Graph", came=n.name))
        return n

    # -- taking away ---------------------------------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Take a node that nothing uses out of the graph.

        *Raises*: RuntimeError where it is used.
        """
        if to_erase.users:
            raise RuntimeError(
                text(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                     f"{list(to_erase.users)}", op="fx.Graph.erase_node",
                     remedy="node.replace_all_uses_with(other) first"))  # fmt: skip
        if self._mine(to_erase)._erased:
            return
        to_erase._unlink()
        to_erase._erased = True
        to_erase.args, to_erase.kwargs = (), {}

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None, **options: Any) -> bool:
        """Take out the nodes whose values nothing uses and that do nothing besides; return whether there were any."""
        impure = is_impure_node or Node.is_impure
        dead = 0
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                dead += 1
        return bool(dead)

    # -- copies --------------------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        found: dict[Node, Node] = {}
        for node in self.nodes:
            found[node] = memo[id(node)] = made.node_copy(node, found.__getitem__)
            found[node].meta = copy.copy(node.meta)
        return made

    def __getstate__(self) -> list[tuple[Any, ...]]:
        """Return the nodes as tuples, functions by where they are found, nodes among the arguments by their names."""
        put = lambda a: map_arg(a, lambda n: _Named(n.name))
        return [(n.op, n.name, _by_name(n.target), put(n.args), put(n.kwargs), _by_name(n.type)) for n in self.nodes]  # type: ignore[no-untyped-call]

    def __setstate__(self, rows: list[tuple[Any, ...]]) -> None:
        Graph.__init__(self)
        made: dict[str, Node] = {}
        for op, name, target, args, kwargs, kind in rows:
            node = self.create_node(op, target.found(), _named(args, made), _named(kwargs, made), name, kind.found())
            made[name] = node


class _Named(Node):
    """A node by its name, in what is written of a graph."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.users = {}

    def __reduce__(self) -> Any:
        return _Named, (self.name,)


def _named(a: Any, made: dict[str, Node]) -> Any:
    return map_arg(a, lambda n: made[n.name])


class _by_name:
    """A target in what is written of a graph: a function of core's by its public path, anything else as it is."""

    def __init__(self, target: Any) -> None:
        self.path = None if isinstance(target, str) or target is None else qualified(target)
        self.target = None if self.path else target

    def found(self) -> Any:
        return located(self.path) if self.path else self.target


def _fails(node: Node, why: str) -> None:
    line = f"%{node.name} = {node.op}[{target_name(node.target)}]{shown(node.args)}"
    raise RuntimeError(text(why, op="fx.Graph.lint", came=line, needed="nodes in the order of their use"))
