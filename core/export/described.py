"""A program as a file: a zip archive with its structure as JSON, its text for people, and its state as safetensors.

`restored` reads it. Nothing in the file is code: ops are told by their names.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..serialization import safetensors
from ..serialization.atomic import replacing
from ..serialization.zipped import Writer
from .ir import Block, ExportError, Line, Names, Node, Sized, Tree, Value
from .printing import program_text

FORMAT, VERSION = "gradlab program", 1
PROGRAM, TEXT, STATE = "program.json", "program.txt", "state.safetensors"


def write_archive(program: Any, path: Any) -> None:
    """Write a program to a file, which is replaced in one step. *Raises*: ExportError for what no file can hold."""
    said = json.dumps(described(program), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    entries = [_entry(name, np.asarray(array, order="C")) for name, (_, array) in program.state.items()]
    with replacing(path) as file:
        archive = Writer(file)
        archive.record(PROGRAM, said)
        archive.record(TEXT, program_text(program.in_ops()).encode("utf-8", "replace"))
        state = _Bytes()
        safetensors.write(state, entries)  # type: ignore[arg-type]
        archive.record(STATE, b"".join(state.parts))
        archive.close()


class _Bytes:
    """Gathers what is written."""

    def __init__(self) -> None:
        self.parts: list[Any] = []

    def write(self, data: Any) -> None:
        self.parts.append(data)


def _entry(name: str, array: Any) -> safetensors.Entry:
    found = safetensors.NAMES.get(array.dtype)
    if found is None:  # complex128, which the format lacks, as pairs
        if array.dtype != np.complex128:
            raise ExportError(text(f"{name} has the dtype {array.dtype}, which no file holds", op="save"))
        array = array.view(np.float64).reshape(*array.shape, 2)
        found = "F64"
    return safetensors.Entry(name, found, array.shape, lambda: array.reshape(-1).view(np.uint8))


def described(program: Any) -> dict[str, Any]:
    """Return the structure of a program as what JSON can say.

    >>> import core
    >>> found = described(core.export(core.nn.ReLU(), (core.ones(3, 2),), dynamic={"input": {0: "n"}}))
    >>> found["inputs"], found["nodes"][0]["op"], found["nodes"][0]["inputs"]
    ([{'name': 'input', 'dtype': 'float32', 'shape': ['n', 2]}], 'relu', [{'value': 'input'}])
    """
    return _Description(program.in_ops()).whole()


class _Description:
    """Describes one program; each value gets a name that no other has, each line of the source a number."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.names: dict[Value, str] = {}
        self.taken = Names()
        self.lines: dict[Line, int] = {}

    def whole(self) -> dict[str, Any]:
        """Return the description."""
        program = self.program
        for name, (value, _) in program.state.items():
            self.names[value] = name
            self.taken.fresh(name)
        inputs = [self._value(v) for v in program.inputs]
        state = [self._value(v) for v, _ in program.state.values()]
        nodes = [self._node(node) for node in program.nodes]
        guards = [
            {"comparison": g.comparison, "left": self._formula(g.left), "right": self._formula(g.right),
             "truth": g.truth, "line": self._line(g.line)} for g in program.guards
        ]  # fmt: skip
        return {
            "format": FORMAT, "version": VERSION, "name": program.name, "parameters": list(program.parameters),
            "inputs": inputs, "state": state, "nodes": nodes, "outputs": [self.names[v] for v in program.outputs],
            "updates": [[self.names[old], self.names[new]] for old, new in program.updates],
            "sizes": {name: [k, axis] for name, (k, axis) in program.sizes.items()}, "guards": guards,
            "arguments": self._tree(program.arguments), "result": self._tree(program.result),
            "lines": [[_file(line), line.number, line.text] for line in self.lines],
        }  # fmt: skip

    def _value(self, value: Value) -> dict[str, Any]:
        if value not in self.names:
            self.names[value] = self.taken.fresh(value.name)
        shape = [self._formula(d) for d in value.shape]
        return {"name": self.names[value], "dtype": value.dtype, "shape": shape}

    def _line(self, line: Line | None) -> int | None:
        return None if line is None else self.lines.setdefault(line, len(self.lines))

    def _node(self, node: Node) -> dict[str, Any]:
        found: dict[str, Any] = {"op": node.op, "inputs": [self._said(x, node) for x in node.inputs]}
        found["params"] = {name: self._said(v, node) for name, v in node.params.items()}
        if node.blocks:
            found["blocks"] = [self._block(block) for block in node.blocks]
        found["outputs"] = [None if v is None else self._value(v) for v in node.outputs]
        found["line"] = self._line(node.line)
        return found

    def _block(self, block: Block) -> dict[str, Any]:
        inputs = [self._value(v) for v in block.inputs]
        nodes = [self._node(node) for node in block.nodes]
        return {"inputs": inputs, "nodes": nodes, "outputs": [self.names[v] for v in block.outputs]}

    def _formula(self, formula: Any) -> Any:
        if not isinstance(formula, tuple):
            return _number(formula) if isinstance(formula, float) else formula
        if formula[0] == "size":
            return ["size", self.names[formula[1]], formula[2]]
        return [formula[0], *(self._formula(part) for part in formula[1:])]

    def _said(self, x: Any, node: Node) -> Any:
        """Return an operand or a parameter: what JSON has not is an object with one key."""
        if x is None or isinstance(x, bool | str) or type(x) is int:
            return x
        if isinstance(x, float):
            return _number(x)
        if isinstance(x, complex):
            return {"complex": [_number(x.real), _number(x.imag)]}
        if isinstance(x, Value):
            return {"value": self.names[x]}
        if isinstance(x, Sized):
            return {"sized": self._formula(x.formula)}
        if x is Ellipsis:
            return {"ellipsis": True}
        if isinstance(x, Dtype):
            return {"dtype": x.name}
        if isinstance(x, slice):
            return {"slice": [self._said(v, node) for v in (x.start, x.stop, x.step)]}
        if type(x) is tuple:
            return {"tuple": [self._said(v, node) for v in x]}
        raise ExportError(text(f"the op {node.op} has a parameter that no file holds", op="save",
                               came=f"{x!r:.80}{f', {node.line}' if node.line else ''}",
                               needed="numbers, texts, dtypes, slices, and tuples of them"))  # fmt: skip

    def _tree(self, tree: Tree) -> dict[str, Any]:
        if tree.kind == "tensor":
            return {"kind": "tensor"}
        if tree.kind == "value":
            return {"kind": "value", "value": _number(tree.value) if isinstance(tree.value, float) else tree.value}
        found: dict[str, Any] = {"kind": tree.kind, "parts": [self._tree(part) for part in tree.parts]}
        if tree.kind == "dict":
            wrong = [key for key in tree.value if not isinstance(key, str | int)]
            if wrong:
                raise ExportError(text(f"a dict has the key {wrong[0]!r}, which no file holds", op="save",
                                       needed="texts or whole numbers"))  # fmt: skip
            found["keys"] = list(tree.value)
        return found


def _file(line: Line) -> str:
    """Return the name of a source file without the folders of this machine."""
    return line.file.replace("\\", "/").rpartition("/")[2]


def _number(x: float) -> Any:
    return float(x) if math.isfinite(x) else {"float": str(float(x))}


def dtype_named(name: Any) -> Dtype | None:
    """Return the dtype of that name, where there is one."""
    return next((d for d in dtypes.all_dtypes if d.name == name), None)
