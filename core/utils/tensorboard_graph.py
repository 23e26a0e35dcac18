"""A model's ops as the graph that TensorBoard draws, folded by the modules whose parameters they take."""

from __future__ import annotations

from typing import Any

from ..export.capture import export
from ..export.ir import Node, values_in

_DTYPES = {"float16": "DT_HALF", "float32": "DT_FLOAT", "float64": "DT_DOUBLE", "int8": "DT_INT8", "int16": "DT_INT16",
           "int32": "DT_INT32", "int64": "DT_INT64", "uint8": "DT_UINT8", "bool": "DT_BOOL",
           "bfloat16": "DT_BFLOAT16"}  # fmt: skip


def graph_of(model: Any, args: tuple[Any, ...]) -> Any:
    """Return the GraphDef of a call of a module or function, captured by `core.export` as it is in evaluation.

    A node is named by the module whose parameters it takes (``layer1/0/conv1/conv2d``), or else by its op alone, and
    tells its parameters, its line and its results' shapes.

    *Raises*: ExportError, with the line, for what cannot be captured.

    >>> import core
    >>> [node.name for node in graph_of(core.nn.Sequential(core.nn.Linear(2, 1)), (core.ones(3, 2),)).node]
    ['input', '0/weight', '0/bias', '0/linear', 'output']
    """
    from tensorboardX.proto.graph_pb2 import GraphDef
    from tensorboardX.proto.versions_pb2 import VersionDef

    modes = [(m, m.training) for m in model.modules()] if hasattr(model, "modules") else []
    try:
        for m, _ in modes:
            m.training = False
        program = export(model, args)
    finally:
        for m, training in modes:
            m.training = training
    names: dict[int, str] = {}
    nodes = []
    for value in program.inputs:
        names[id(value)] = value.name
        nodes.append(_node(value.name, "Placeholder", [], (value,)))
    for path, (value, _) in program.state.items():
        names[id(value)] = path.replace(".", "/")
        nodes.append(_node(names[id(value)], "VariableV2", [], (value,)))
    for node in program.nodes:
        made = [value for value in node.outputs if value is not None]
        taken = list(values_in(node))
        given = [names[id(value)] for value in taken if id(value) in names]
        path = next((value.name for value in taken if value.name in program.state), "")
        scope = path.rpartition(".")[0].replace(".", "/")
        name = f"{scope}/{made[0].name}" if scope else made[0].name
        names |= {id(value): f"{name}:{k}" if k else name for k, value in enumerate(made)}
        nodes.append(_node(name, node.op, given, made, node))
    for k, value in enumerate(program.outputs):
        name = "output" if len(program.outputs) == 1 else f"output_{k}"
        nodes.append(_node(name, "Identity", [names[id(value)]] if id(value) in names else [], (value,)))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _node(name: str, op: str, inputs: list[str], made: Any, node: Node | None = None) -> Any:
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.node_def_pb2 import NodeDef
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

    sizes = [[d if isinstance(d, int) else -1 for d in value.shape] for value in made]
    shapes = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=d) for d in each]) for each in sizes]
    told = {"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=shapes))}
    if made and made[0].dtype in _DTYPES:
        told["dtype"] = AttrValue(type=_DTYPES[made[0].dtype])
    if node is not None and node.params:
        said = ", ".join(f"{n}={v}" for n, v in node.params.items())
        told["parameters"] = AttrValue(s=said.encode())
    if node is not None and node.line is not None:
        told["line"] = AttrValue(s=str(node.line).encode())
    return NodeDef(name=name, op=op, input=inputs, attr=told)
