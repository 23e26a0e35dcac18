"""PyTorch's names for looking at a program: `symbolic_trace`, `GraphModule`, `Graph`, `Node`. No second graph: a view.

The nodes are those of `core.export`'s program, in order; what is changed is the program. PyTorch's `Proxy` tracing of
functions without inputs is not there: a program is captured from a call, so `symbolic_trace` takes example inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .base.absent import absent_class, absent_function
from .base.errors import text
from .declare import op as declarations
from .export import Program, export
from .export import ir as _ir
from .nn.modules.module import Module

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect",
           "map_arg", "replace_pattern", "symbolic_trace", "wrap"]  # fmt: skip

_CAPTURE = "core.fx.symbolic_trace(model, (x,)), which captures a program from a call"
Proxy = absent_class("Proxy", __name__, "A value of a trace that has none yet.", _CAPTURE)
Tracer = absent_class("Tracer", __name__, "What traces a function without a call.", _CAPTURE)
Interpreter = absent_class("Interpreter", __name__, "What runs a graph node by node.", "GraphModule runs one")
Transformer = absent_class("Transformer", __name__, "What makes a graph from another.", _CAPTURE)
PassBase = absent_class("PassBase", __name__, "A change of a graph.", _CAPTURE)
PassResult = absent_class("PassResult", __name__, "What a change of a graph gave.", _CAPTURE)
GuardOnDataDependentSymNode = type("GuardOnDataDependentSymNode", (RuntimeError,), {"__doc__": "Never raised here."})
replace_pattern = absent_function("replace_pattern", __name__, "Change parts of a graph.", _CAPTURE)
Target = Argument = BaseArgumentTypes = Any  # PyTorch's names of types
graph = graph_module = node = proxy = experimental = passes = sys.modules[__name__]  # PyTorch's files


class Node:
    """A node of the view: `op` is placeholder, get_attr, call_function or output, as in PyTorch.

    name : the value's name. target : the declared op's name, the state's name, or the input's. args, kwargs : its
    inputs (nodes and numbers) and parameters. meta : its shape, dtype and source line.
    """

    def __init__(self, op: str, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                 meta: dict[str, Any]) -> None:  # fmt: skip
        self.op, self.name, self.target, self.args, self.kwargs, self.meta = op, name, target, args, kwargs, meta
        self.users: dict[Node, None] = {}

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the inputs."""
        return [a for a in self.args if isinstance(a, Node)]

    def __repr__(self) -> str:
        return self.name


class Graph:
    """The nodes of a program in order."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.nodes = list(_nodes(program))

    def find_nodes(self, *, op: str, target: Any = None) -> list[Node]:
        """Return the nodes of a kind."""
        return [n for n in self.nodes if n.op == op and target in (None, n.target)]

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def __str__(self) -> str:
        return str(self._program)


def _nodes(program: Program) -> Iterator[Node]:
    made: dict[Any, Node] = {}

    def note(node: Node, value: _ir.Value | None = None) -> Node:
        if value is not None:
            made[value] = node
        for a in node.all_input_nodes:
            a.users[node] = None
        return node

    def meta(value: _ir.Value, line: Any = None) -> dict[str, Any]:
        return {"shape": value.shape, "dtype": value.dtype, "line": line}

    for value in program.inputs:
        yield note(Node("placeholder", value.name, value.name, (), {}, meta(value)), value)
    for name, (value, _) in program.state.items():
        yield note(Node("get_attr", name, name, (), {}, meta(value)), value)
    for node in program.nodes:
        args = tuple(made.get(x, x) if isinstance(x, _ir.Value) else x for x in node.inputs)
        shown = [v for v in node.outputs if v is not None]
        declared = declarations.functions.get(node.op, node.op)
        for k, value in enumerate(shown):
            about = meta(value, node.line) | ({"output": k} if len(shown) > 1 else {})
            yield note(Node("call_function", value.name, declared, args, dict(node.params), about), value)
    yield note(Node("output", "output", "output", tuple(made[v] for v in program.outputs), {}, {}))


class GraphModule(Module):
    """A module whose forward is a program, with its parameters as the program's state."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.graph = Graph(program)

    def forward(self, *args: Any) -> Any:
        """Run the program."""
        return self.program(*args)

    @property
    def code(self) -> str:
        """The program as text."""
        return str(self.program)


def symbolic_trace(root: Any, example_inputs: Sequence[Any] | None = None, dynamic: Any = None) -> GraphModule:
    """Return a module or a function as a program with PyTorch's view of it.

    >>> import core
    >>> traced = core.fx.symbolic_trace(core.nn.Linear(2, 1), (core.ones(3, 2),))
    >>> [node.op for node in traced.graph.nodes]
    ['placeholder', 'get_attr', 'get_attr', 'call_function', 'output']
    """
    if example_inputs is None:
        raise TypeError(text("symbolic_trace needs example inputs here", op="fx.symbolic_trace",
                             needed="the arguments of one call, which a program is captured from",
                             remedy="symbolic_trace(model, (x,))"))  # fmt: skip
    return GraphModule(export(root, tuple(example_inputs), dynamic))


def wrap(fn_or_name: Any) -> Any:
    """Return a function as it is: a call that is captured is heard op by op, also within it."""
    return fn_or_name


def has_side_effect(fn: Any) -> Any:
    """Return a function as it is."""
    return fn


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Return arguments with a function of each node in its place."""
    if isinstance(a, Node):
        return fn(a)
    if isinstance(a, dict):
        return {k: map_arg(x, fn) for k, x in a.items()}
    if isinstance(a, slice):
        return slice(map_arg(a.start, fn), map_arg(a.stop, fn), map_arg(a.step, fn))
    if isinstance(a, tuple) and hasattr(a, "_fields"):
        return type(a)(*(map_arg(x, fn) for x in a))
    return type(a)(map_arg(x, fn) for x in a) if isinstance(a, tuple | list) else a


def statically_known_true(x: Any) -> bool:
    """Return a truth: every size is known."""
    return bool(x)


guard_or_false = guard_or_true = definitely_true = definitely_false = statically_known_true


def free_symbols(val: Any) -> set[Any]:
    """Return the sizes that are open: none."""
    return set()


free_unbacked_symbols = free_symbols


def get_proxy_mode() -> None:
    """Return None: there is no trace without values."""


def is_fx_tracing() -> bool:
    """Return False: a program is captured from a call."""
    return False


is_fx_symbolic_tracing = is_fx_tracing
