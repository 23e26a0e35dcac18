"""A program as text that reads like code."""

from __future__ import annotations

from typing import Any

from ..declare import op as declarations
from .ir import Block, Line, Node, Sized, Value
from .sizes import written

_SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
          "int16": "i16", "int8": "i8", "uint8": "u8", "complex64": "c64", "complex128": "c128"}  # fmt: skip
_COLUMN = 72
Said = tuple[str, Line | None]


def program_text(program: Any) -> str:
    """Return the program as text: a header with its inputs, a line for each op with the source line it came from.

    >>> import core
    >>> def f(x):
    ...     return (x * 2).relu()
    >>> print(core.export(f, (core.ones(3, 2),), dynamic={"x": {0: "n"}}))  # doctest: +ELLIPSIS
    def f(x: f32[n, 2]) -> f32[n, 2]:
        mul = mul(x, 2)...
        relu = relu(mul)...
        return relu
    """
    return "\n".join(said if line is None else _placed(said, line) for said, line in program_lines(program))


def program_lines(program: Any) -> list[Said]:
    """Return the lines of a program's text, each with the line of the source that it came from."""
    given = ", ".join(_typed(v) for v in program.inputs)
    gives = ", ".join(_type(v) for v in program.outputs)
    head = [f"def {program.name}({given}) -> {gives if len(program.outputs) == 1 else f'({gives})'}:"]
    head += [f"    # state {_typed(v)}" for v, _ in program.state.values()]
    head += [f"    # where {guard}" for guard in program.guards]
    end = [f"    {_name(old)} <- {_name(new)}" for old, new in program.updates]
    end.append(f"    return {', '.join(_name(v) for v in program.outputs)}")
    return [*((said, None) for said in head), *_nodes(program.nodes, 1), *((said, None) for said in end)]


def _nodes(nodes: tuple[Node, ...], depth: int) -> list[Said]:
    lines: list[Said] = []
    for node in nodes:
        lines += _node(node, depth)
    return lines


def _node(node: Node, depth: int) -> list[Said]:
    pad = "    " * depth
    to = ", ".join("_" if v is None else _name(v) for v in node.outputs)
    if node.op == "if":
        then, other = node.blocks
        return [(f"{pad}{to} = if {_name(node.inputs[0])}:", node.line), *_block(then, depth + 1, "yield"),
                (f"{pad}else:", None), *_block(other, depth + 1, "yield")]  # fmt: skip
    if node.op == "while":
        test, body = node.blocks
        bound = ", ".join(f"{_name(a)} = {_name(v)}" for a, v in zip(body.inputs, node.inputs, strict=True))
        tested = ", ".join(_name(a) for a in test.inputs)
        head = [(f"{pad}{to} = while ({bound}):", node.line), (f"{pad}    test ({tested}):", None)]
        inside = [*_block(test, depth + 2, "yield"), (f"{pad}    do:", None), *_block(body, depth + 2, "next")]
        return [*head, *inside]
    if node.op == "gradient":
        return [(f"{pad}{to} = {node.params['of']}.backward({', '.join(map(_operand, node.inputs))})", node.line)]
    declared = declarations.table.get(node.op)
    defaults = declared.params if declared is not None else {}
    inputs = list(node.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    given = [_operand(x) for x in inputs]
    given += [f"{k}={_operand(v)}" for k, v in node.params.items() if k not in defaults or v != defaults[k]]
    return [(f"{pad}{to} = {node.op}({', '.join(given)})", node.line)]


def _block(block: Block, depth: int, word: str) -> list[Said]:
    given = ", ".join(_name(v) for v in block.outputs)
    return [*_nodes(block.nodes, depth), (f"{'    ' * depth}{word} {given}", None)]


def _placed(said: str, line: Line) -> str:
    file = line.file.replace("\\", "/").rpartition("/")[2]
    return f"{said:{_COLUMN}}  # {file}:{line.number}"


def _type(v: Value) -> str:
    return f"{_SHORT.get(v.dtype, v.dtype)}[{', '.join(written(d, _name) for d in v.shape)}]"


def _typed(v: Value) -> str:
    return f"{v.name}: {_type(v)}"


def _name(x: Any) -> str:
    return x.name if isinstance(x, Value) else str(x)


def _operand(x: Any) -> str:
    """Return an input or a parameter as text."""
    if isinstance(x, Value):
        return x.name
    if isinstance(x, Sized):
        return written(x.formula, _name)
    if isinstance(x, tuple):
        inside = ", ".join(_operand(v) for v in x)
        return f"({inside},)" if len(x) == 1 else f"({inside})"
    if isinstance(x, slice):
        parts = ["" if v is None else _operand(v) for v in (x.start, x.stop)]
        return ":".join(parts) + ("" if x.step is None else f":{_operand(x.step)}")
    if x is Ellipsis:
        return "..."
    return repr(x)
