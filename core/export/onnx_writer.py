"""A program as an ONNX model, by the package onnx alone: nodes name the source lines that they come from.

What ONNX cannot say is refused with the op, its line and a remedy. Sizes that decided what was captured (`guards`) are
checked by the model itself: it fails, at a node of that name, where one does not hold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from ..declare import op as declarations
from ..declare.op import Elementwise
from . import onnx_layers, onnx_losses, onnx_quantised  # noqa: F401 # their rows
from .ir import Block, ExportError, Node, Sized, Value, values_in
from .onnx_elementwise import write_elementwise
from .onnx_graph import IR_VERSION, OPSET, Graph, element, is_real, onnx_package, refused, tensor_of
from .onnx_ops import ROWS
from .onnx_views import VIEWS, write_put, write_view
from .sizes import leaves, written

_INLINE = 2**31 - 2**20  # bytes; a protobuf message holds 2 GB


def to_onnx(program: Any, path: str | os.PathLike[str], opset: int = OPSET) -> None:
    """Write a program as an ONNX file; weights beyond 2 GB go to a file of the same name and ``.data`` beside it.

    Inputs, outputs and initializers (the state) have the names of the program's; a size that may vary has its name as
    `dim_param`. What the program writes of its state or its inputs are further outputs, ``<name>.next``.

    What a runtime makes of the model is the runtime's: ONNX Runtime has no kernels for some ops in float64 and most in
    bfloat16, which it says, and its ReduceMax, ArgMax and MaxPool pass over NaN, where core gives NaN.

    Raises
    ------
    ExportError
        For an op that ONNX cannot say, with its line.
    ImportError
        Where the package onnx is not there.
    """
    onnx = onnx_package()
    if opset < OPSET:
        raise ValueError(f"to_onnx() writes opset {OPSET} and later, got {opset}")
    model = onnx_model(program, opset)
    where = os.fspath(path)
    if program.weight_bytes() > _INLINE:
        onnx.save(model, where, save_as_external_data=True, location=os.path.basename(where) + ".data")
        onnx.checker.check_model(where, full_check=True)
        return
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, where)


def onnx_model(program: Any, opset: int = OPSET) -> Any:
    """Return a program as an onnx.ModelProto, which is not checked."""
    onnx = onnx_package()
    helper = onnx.helper
    program = program.in_ops()
    used = {*program.outputs, *(new for _, new in program.updates), *values_in(program.nodes)}
    g = Graph(program.inputs, program.sizes, _names(program), used)
    for value in (*program.inputs, *(v for v, _ in program.state.values())):
        g.bind(value, value.name)
    checked = _checks(g, program)
    _nodes(g, program.nodes)
    g.node = None
    results = [(v, v.name) for v in program.outputs] + [(new, f"{old.name}.next") for old, new in program.updates]
    outputs, given = [], set()
    for k, (value, wanted) in enumerate(results):
        source = g.name(value)
        if checked and k == 0:
            source = _held(g, source, value, checked)
        name = wanted if wanted not in g.names.taken else g.names.fresh(f"{wanted}.output")
        name = name if name not in given else g.names.fresh(name)
        given.add(name)
        g.names.taken.add(name)
        g.scopes[-1].nodes.append(helper.make_node("Identity", [source], [name], name=name))
        outputs.append(_typed(g, value, name))
    initializers = [tensor_of(a, v.dtype, v.name) for v, a in program.state.values()]
    used = set(_used(g.scopes[0].nodes))
    constants = [helper.make_node("Constant", [], [c.name], name=c.name, value=c)
                 for c in g.constants.values() if c.name in used]  # fmt: skip
    graph = helper.make_graph([*constants, *g.scopes[0].nodes], program.name,
                              [_typed(g, v, v.name) for v in program.inputs], outputs, initializers,
                              doc_string=str(program))  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION,
                              producer_name="gradlab")  # fmt: skip
    said = {"source": program.name, "result": repr(program.result)}
    if program.updates:
        said["updates"] = json.dumps({old.name: o.name for (old, _), o in
                                      zip(program.updates, outputs[len(program.outputs) :], strict=True)})  # fmt: skip
    if program.guards:
        said["guards"] = "; ".join(map(str, program.guards))
    helper.set_model_props(model, said)
    return model


def _names(program: Any) -> set[str]:
    """Return the names that are given to inputs and state: results of nodes get others."""
    return {v.name for v in program.inputs} | set(program.state)


def _used(nodes: Any) -> Iterator[str]:
    """Yield the names that nodes take, those of the graphs in their attributes too."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _used(attribute.g.node)


def _typed(g: Graph, value: Value, name: str) -> Any:
    shape = [d if isinstance(d, int | str) else None if d[0] == "size" else written(d, _said) for d in value.shape]
    return g.helper.make_tensor_value_info(name, element(value.dtype), shape)


def _said(x: Any) -> str:
    return x.name if isinstance(x, Value) else str(x)


# -- checks ------------------------------------------------------------------------------------------------------------


def _checks(g: Graph, program: Any) -> str:
    """Return the name of a one that is computed only where the inputs' sizes and the guards are as they have to be."""
    wanted = []
    first = set(program.sizes.values())
    for k, value in enumerate(program.inputs):
        for axis, d in enumerate(value.shape):
            if not isinstance(d, int) and (k, axis) not in first:
                wanted.append(
                    (f"{value.name}.shape[{axis}] == {written(d, _said)}", "==", ("size", value, axis), d, True)
                )
    for guard in program.guards:
        if all(isinstance(leaf, str) for leaf in _leaves(guard)):
            said = f"{guard}, {guard.line}" if guard.line is not None else str(guard)
            wanted.append((said, guard.comparison, guard.left, guard.right, guard.truth))
    one = ""
    for said, symbol, left, right, truth in wanted:
        real = is_real(left) or is_real(right)
        a, b = ((g._as_real(f) if real else g.sized(f)) for f in (left, right))
        holds = g({"==": "Equal", "!=": "Equal", "<": "Less", "<=": "LessOrEqual", ">": "Greater",
                   ">=": "GreaterOrEqual"}[symbol], a, b)  # fmt: skip
        at = (0, 2) if (symbol != "!=") == truth else (2, 0)
        where = g("Where", holds, g.ints(at[0]), g.ints(at[1]))
        found = g("Gather", g.ints(1), where, axis=0)  # there is no element 2
        g.scopes[-1].nodes[-1].name = f"needed: {said}"
        one = g("Mul", one, found) if one else found
    return one


def _leaves(guard: Any) -> set[Any]:
    return leaves(guard.left) | leaves(guard.right)


def _held(g: Graph, name: str, value: Value, one: str) -> str:
    """Return a result that is not computed where the checks do not hold."""
    if value.shape:
        return g("Expand", name, one)
    return g("Squeeze", g("Expand", name, one), g.ints(0))


# -- ops ---------------------------------------------------------------------------------------------------------------


def _nodes(g: Graph, nodes: tuple[Node, ...]) -> None:
    for node in nodes:
        before, g.node = g.node, node
        for value in node.outputs:
            if value in g.used:
                element(value.dtype)  # which refuses complex numbers
        found = _written(g, node)
        names = found if isinstance(found, list) else [found]
        for k, value in enumerate(node.outputs):
            if value not in g.used:
                continue
            if k >= len(names) or not names[k]:
                raise refused(f"its result number {k} is not written", node, "use the others alone")
            g.bind(value, names[k])
        g.node = before


def _written(g: Graph, node: Node) -> Any:
    if node.op in _FORMS:
        return _FORMS[node.op](g, node)
    if isinstance(declarations.table.get(node.op), Elementwise):
        return write_elementwise(g, node)
    if node.op in VIEWS:
        return write_view(g, node)
    if node.op in ROWS:
        return ROWS[node.op](g, *_inputs(node), **node.params)
    raise refused("ONNX has no op for it", node,
                  "compute it outside of the program, or write it by other ops")  # fmt: skip


def _inputs(node: Node) -> list[Any]:
    """Return an op's inputs, None for each that it may have and has not."""
    declared = declarations.table[node.op]
    missing = [] if declared.variadic else [None] * (len(declared.inputs) - len(node.inputs))
    return [*node.inputs, *missing]


def _full(g: Graph, node: Node) -> str:
    p = node.params
    return g("Expand", g.scalar(p["value"], p["dtype"]), g.ints(*p["shape"]))


def _arange(g: Graph, node: Node) -> str:
    """Numbers from 0 on, times the step, plus the start: in float64 where they are floats, as core computes them."""
    p, (out,) = node.params, node.outputs
    assert out is not None
    whole = not any(is_real(n.formula if isinstance(n, Sized) else n) for n in (p["start"], p["end"], p["step"]))
    kind = "int64" if whole else "float64"
    start, end, step = (g.scalar(p[n], kind) for n in ("start", "end", "step"))
    if whole:
        return g.cast(g("Range", start, end, step), p["dtype"], kind)
    count = g("Cast", g("Ceil", g("Div", g("Sub", end, start), step)), to=element("int64"))
    k = g("Range", g.constant(0, "int64"), count, g.constant(1, "int64"))
    return g.cast(g("Add", g("Mul", g("Cast", k, to=element(kind)), step), start), p["dtype"], kind)


# -- control flow ------------------------------------------------------------------------------------------------------


def _block(g: Graph, block: Block, given: list[str]) -> list[str]:
    """Write a block's ops here, with these names for its inputs, and return the names of its outputs."""
    for value, name in zip(block.inputs, given, strict=True):
        g.bind(value, name)
    _nodes(g, block.nodes)
    return [g.name(v) for v in block.outputs]


def _subgraph(g: Graph, title: str, nodes: list[Any], inputs: list[Any], names: list[str], dtypes: list[str]) -> Any:
    """Return a graph of nodes; its outputs are its own, whatever they were called outside."""
    own = [g("Identity", name) for name in names]
    info = g.helper.make_tensor_value_info
    outputs = [info(n, element(d), None) for n, d in zip(own, dtypes, strict=True)]
    return g.helper.make_graph(nodes, g.names.fresh(title), inputs, outputs)


def _if(g: Graph, node: Node) -> list[str]:
    branches = {}
    dtypes = [v.dtype for v in node.blocks[0].outputs]
    for key, block in zip(("then_branch", "else_branch"), node.blocks, strict=True):
        with g.scope() as nodes:
            branches[key] = _subgraph(g, key, nodes, [], _block(g, block, []), dtypes)
    condition = g("Reshape", g.cast(node.inputs[0], "bool"), g.ints())
    return g.several("If", condition, outputs=len(dtypes), **branches)


def _while(g: Graph, node: Node) -> list[str]:
    """The test is written twice: before the loop, and at the end of its body on the new values."""
    test, body = node.blocks
    values = [v for v in node.inputs if v is not None]
    given = [g.name(v) if isinstance(v, Value) else g.scalar(v, b.dtype)
             for v, b in zip(values, body.inputs, strict=True)]  # fmt: skip
    dtypes = [v.dtype for v in body.inputs]
    info, flag = g.helper.make_tensor_value_info, element("bool")
    g.scopes.append(type(g.scopes[-1])())  # the test's names, which the body has for itself
    (begins,) = _block(g, test, given)
    begins = g("Reshape", g.cast(begins, "bool", test.outputs[0].dtype), g.ints())
    ahead = g.scopes.pop()
    g.scopes[-1].nodes.extend(ahead.nodes)
    with g.scope() as nodes:
        turn, goes = g.names.fresh("turn"), g.names.fresh("goes")
        carried = [g.names.fresh(v.name) for v in body.inputs]
        after = _block(g, body, carried)
        (again,) = _block(g, test, after)
        again = g("Reshape", g.cast(again, "bool", test.outputs[0].dtype), g.ints())
        inputs = [info(turn, element("int64"), []), info(goes, flag, []),
                  *(info(n, element(d), None) for n, d in zip(carried, dtypes, strict=True))]  # fmt: skip
        graph = _subgraph(g, "body", nodes, inputs, [again, *after], ["bool", *dtypes])
    return g.several("Loop", None, begins, *given, outputs=len(dtypes), body=graph)


_FORMS = {"full": _full, "arange": _arange, "put": write_put, "if": _if, "while": _while}

__all__ = ["ExportError", "onnx_model", "to_onnx"]
