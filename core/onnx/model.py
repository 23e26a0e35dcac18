"""An ONNX model as a module: its float initializers are parameters, the others buffers; its nodes run in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.errors import text
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..tensors.tensor import Tensor
from .reading import Graph, Node
from .table import TAKE_FOREIGN, Call, OnnxError

_RUNNING = {"BatchNormalization": (3, 4)}  # inputs that are statistics, which no gradient moves


class OnnxModule(Module):
    """What `core.onnx.load` gives.

    Attributes
    ----------
    inputs, outputs : the names of the graph's inputs (without those that it holds itself) and results, in order.
    properties : the model's metadata by name.
    """

    def __init__(self, graph: Graph, properties: dict[str, str]) -> None:
        super().__init__()
        self.graph, self.properties = graph, properties
        self.inputs, self.outputs = graph.inputs, graph.outputs
        self._places: dict[str, tuple[Module, str]] = {}
        self._foreign: dict[str, Any] = {}
        statistics = {node.inputs[k] for node in graph.nodes for k in _RUNNING.get(node.op, ()) if k < len(node.inputs)}
        for name, value in graph.initializers.items():
            self._hold(name, value, name not in statistics)

    def _hold(self, name: str, value: Any, trains: bool) -> None:
        """Keep an initializer; the parts of a dotted name are modules inside one another, as where it came from."""
        if not isinstance(value, Tensor):
            self._foreign[name] = value
            return
        *path, leaf = [part or "_" for part in name.split(".")]
        owner: Module = self
        for part in path:
            child = owner._modules.get(part)
            if child is None:
                part = part if not hasattr(owner, part) else f"{part}_"
                child = owner._modules.get(part) or Module()
                owner.add_module(part, child)
            owner = child
        while hasattr(owner, leaf):
            leaf += "_"
        if trains and value.is_floating_point():
            owner.register_parameter(leaf, Parameter(value))
        else:
            owner.register_buffer(leaf, value)
        self._places[name] = (owner, leaf)

    def forward(self, *args: Any, **named: Any) -> Any:
        """Run the graph on inputs in its order, or by their names; return its result, or a tuple of them.

        Raises
        ------
        TypeError
            For inputs that are missing or that it has not.
        OnnxError
            For a node that cannot be run on what came, with its name.
        """
        given = dict(zip(self.inputs, args, strict=False))
        known = {*self.inputs, *self.graph.initializers}
        unknown = [n for n in named if n not in known]
        missing = [n for n in self.inputs if n not in given and n not in named]
        if len(args) > len(self.inputs) or unknown or missing:
            raise TypeError(text("the inputs are not those of the model", op="forward",
                                 came=f"{len(args)} in order, {', '.join(named) or 'none'} by name",
                                 needed=", ".join(self.inputs)))  # fmt: skip
        values = {name: getattr(owner, leaf) for name, (owner, leaf) in self._places.items()}
        values.update(self._foreign)
        values.update(given)
        values.update(named)
        results = _run(self.graph, values)
        return results[0] if len(results) == 1 else results

    def extra_repr(self) -> str:
        """Return how many nodes there are, and the names of inputs and results."""
        return f"{len(self.graph.nodes)} nodes, ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})"


def _run(graph: Graph, values: dict[str, Any]) -> tuple[Any, ...]:
    """Run a graph; `values` has what its nodes see, and gets what they give."""

    def inside(part: Graph, inputs: Iterable[Any]) -> tuple[Any, ...]:
        seen = {**values, **part.initializers}
        seen.update(zip(part.inputs, inputs, strict=True))
        return _run(part, seen)

    for node in graph.nodes:
        given = [values[name] if name else None for name in node.inputs]
        results = _result(node, given, inside)
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                values[name] = value
    return tuple([values[name] for name in graph.outputs])


def _result(node: Node, given: list[Any], inside: Any) -> tuple[Any, ...]:
    if node.function is not None:
        seen = dict(node.function.initializers)
        padded = [*given, *[None] * (len(node.function.inputs) - len(given))]
        seen.update(zip(node.function.inputs, padded, strict=True))
        return _run(node.function, seen)
    if node.row not in TAKE_FOREIGN:
        other = next((x for x in given if x is not None and not isinstance(x, Tensor)), None)
        if other is not None:
            raise OnnxError(text(f"the node {node} takes a dtype that core has not", op=node.op, came=str(other.dtype),
                                 remedy="cast it to a type of core before"))  # fmt: skip
    call = Call(node.op, node.version, len(node.outputs), inside)
    try:
        found = node.row(call, *given, **node.attributes)
    except OnnxError as error:
        raise OnnxError(f"the node {node}: {error}") from error
    return found if isinstance(found, tuple) else (found,)
