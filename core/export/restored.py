"""Programs from files, of which nothing is taken on trust: every name, number and place is checked before it is used.

A file cannot run code: it names ops of core's table, and numbers for them. What it can do is to ask for much work; who
runs programs of strangers sets limits of time and memory, as for any data of theirs.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from ..base.errors import LoadError, text
from ..declare import op as declarations
from ..serialization import safetensors
from ..serialization.source import Source, broken, short
from ..serialization.zipped import Archive
from .described import FORMAT, PROGRAM, STATE, TEXT, VERSION, dtype_named
from .ir import FORMS, Block, Guard, Line, Node, Sized, Tree, Value
from .node_checks import check_form, checked_params, is_whole_number, whole
from .program import Program
from .sizes import COMPARISONS

_MAX_TEXT = 64_000_000  # bytes of program.json: a hundred thousand ops
_MAX_DEPTH = 40  # of formulas, tuples, trees and blocks
_MAX_NAME = 1_000
_MAX_SIZE = 2**48
_MAX_DEGREE = 32  # of a formula: a power of a power would not end
_OPERATORS = ("+", "-", "*", "//", "%", "/", "**")


def load(path: Any) -> Program:
    """Return the program in a file that `Program.save` wrote.

    path : a path, or a binary file that can seek.

    No code of the file is run, and no pickle is read. What the file says is checked before it is used; when the program
    is first run at some sizes, its ops are held to the shapes that the file says they give.

    Raises
    ------
    LoadError
        For a file that is broken or of another kind, with what is wrong in it.

    >>> import core, os, tempfile
    >>> program = core.export(core.nn.Linear(3, 2), (core.ones(4, 3),), dynamic={"input": {0: "batch"}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     program.save(os.path.join(folder, "linear.gl"))
    ...     again = core.export.load(os.path.join(folder, "linear.gl"))
    >>> x = core.rand(5, 3)
    >>> core.equal(program(x), again(x))
    True
    """
    with Source(path) as source:
        try:
            return _loaded(source)
        except LoadError as error:
            if source.own and source.name not in str(error):
                raise LoadError(f"{error}\n  file: {source.name}") from None
            raise


def _loaded(source: Source) -> Program:
    start = source.read(0, min(4, source.size))
    if start != b"PK\x03\x04":
        raise LoadError(text("this is no file of a program", op="load", came=f"it begins with {start!r}",
                             needed="what Program.save writes",
                             remedy="core.load reads tensors and state dicts"))  # fmt: skip
    archive = Archive(source)
    if set(archive.records) != {PROGRAM, TEXT, STATE}:
        raise broken(f"it has the records {short(tuple(archive.records))}, and not {PROGRAM}, {TEXT} and {STATE}")
    if archive.records[PROGRAM].size_bytes > _MAX_TEXT:
        raise broken(f"its {PROGRAM} has {archive.records[PROGRAM].size_bytes:,} bytes, and {_MAX_TEXT:,} are allowed")
    try:
        said = json.loads(archive.read(PROGRAM).decode(), object_pairs_hook=_unique, parse_constant=_refused_constant)
    except (ValueError, RecursionError) as error:
        raise broken(f"its {PROGRAM} cannot be read ({type(error).__name__}: {str(error)[:200]})") from None
    return _Reader(said, _arrays(archive)).program()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _Bytes(Source):
    """A record of the archive, read as a file of its own."""

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        self.memory, self.size = memory, memory.size

    def read(self, offset: int, n: int) -> bytes:
        self._check(offset, n)
        return self.memory[offset : offset + n].tobytes()


def _arrays(archive: Archive) -> dict[str, Any]:
    """Return the arrays of the state, which lie in the one piece of memory that was read."""
    memory = archive.memory(STATE)
    parts, _ = safetensors.read_header(_Bytes(memory))
    found = {}
    for name, part in parts.items():
        piece = memory[part.offset : part.offset + part.size_bytes]
        if part.offset % max(part.dtype.itemsize, 8):
            piece = piece.copy()
        array = piece.view(part.dtype).reshape(part.shape)
        if part.dtype == bool and piece.size and piece.max() > 1:
            raise broken(f"{short(name)} is to hold truth values, and holds other bytes")
        found[name] = array
    return found


class _Reader:
    """Reads one description."""

    def __init__(self, said: Any, arrays: dict[str, Any]) -> None:
        self.said, self.arrays = said, arrays
        self.values: dict[str, Value] = {}  # those that are defined where the reader is
        self.names: set[str] = set()  # of all values, also in blocks that are closed
        self.sizes: dict[str, tuple[int, int]] = {}
        self.lines: list[Line] = []

    def program(self) -> Program:
        """Return the program."""
        said = _fields(self.said, "the program", "format", "version", "name", "parameters", "inputs", "state", "nodes",
                       "outputs", "updates", "sizes", "guards", "arguments", "result", "lines")  # fmt: skip
        if said["format"] != FORMAT:
            raise broken(f"its format is {short(said['format'])}, and not {FORMAT!r}")
        if type(said["version"]) is not int or said["version"] != VERSION:
            raise LoadError(text(f"the program is of version {short(said['version'])}, and this core reads version "
                                 f"{VERSION}", op="load", remedy="pip install --upgrade gradlab"))  # fmt: skip
        name = _name(said["name"], "the program")
        if not name.isidentifier():
            raise broken(f"the name of the program, {name!r}, is no name in Python")
        parameters = [_name(x, "an argument") for x in _list(said["parameters"], "the parameters")]
        self.lines = [self._source_line(x) for x in _list(said["lines"], "the lines")]
        self._read_sizes(said["sizes"], len(_list(said["inputs"], "the inputs")))
        inputs = [self._value(x, "an input", named_sizes_only=True) for x in said["inputs"]]
        for size, (k, axis) in self.sizes.items():
            if axis >= len(inputs[k].shape):
                raise broken(f"the size {size!r} is said to be axis {axis} of {inputs[k]!r}")
        state = self._state(_list(said["state"], "the state"))
        nodes = self._nodes(said["nodes"], 0)
        outputs = [self._named(x, "an output") for x in _list(said["outputs"], "the outputs")]
        updates = self._updates(_list(said["updates"], "the updates"), {*inputs, *(v for v, _ in state.values())})
        guards = [self._guard(x) for x in _list(said["guards"], "the guards")]
        arguments, result = (_tree(said[which], which, 0) for which in ("arguments", "result"))
        if arguments.kind != "tuple" or len(arguments.parts) != len(parameters):
            raise broken(f"its arguments are not a tuple of {len(parameters)}")
        for which, tree, values in (("arguments", arguments, inputs), ("result", result, outputs)):
            if _tensors_in(tree) != len(values):
                raise broken(f"the {which} have {_tensors_in(tree)} tensors, and the program {len(values)}")
        found = Program(name, inputs, state, nodes, outputs, updates, self.sizes, guards, arguments, result, parameters)
        found.trust_nothing()
        return found

    # -- values --------------------------------------------------------------------------------------------------------

    def _read_sizes(self, said: Any, count: int) -> None:
        if not isinstance(said, dict):
            raise broken(f"its sizes are {short(said)}")
        for name, place in said.items():
            if not _name(name, "a size").isidentifier():
                raise broken(f"a size is called {name!r}, which is no name in Python")
            if not isinstance(place, list) or len(place) != 2 or not all(whole(n, 64) for n in place):
                raise broken(f"the size {name!r} is said to be at {short(place)}")
            if place[0] >= count:
                raise broken(f"the size {name!r} is of input {place[0]}, and there are {count}")
            self.sizes[name] = (place[0], place[1])

    def _value(self, said: Any, where: str, named_sizes_only: bool = False) -> Value:
        """Return a value that is defined here."""
        fields = _fields(said, where, "name", "dtype", "shape")
        name = _name(fields["name"], where)
        if name in self.names:
            raise broken(f"the value {name!r} is defined twice")
        if dtype_named(fields["dtype"]) is None:
            raise broken(f"the value {name!r} has the dtype {short(fields['dtype'])}")
        shape = _list(fields["shape"], f"the shape of {name!r}")
        if len(shape) > 64:
            raise broken(f"the value {name!r} has {len(shape)} dimensions")
        value = Value(name, fields["dtype"], ())
        self.names.add(name)
        if not named_sizes_only:
            self.values[name] = value
        value.shape = tuple(("size", value, k) if d == ["size", name, k] else self._formula(d, f"the shape of {name!r}")
                            for k, d in enumerate(shape))  # fmt: skip
        if any(isinstance(d, float) or (isinstance(d, int) and d < 0) for d in value.shape):
            raise broken(f"the value {name!r} has the shape {short(tuple(value.shape))}")
        self.values[name] = value
        return value

    def _named(self, name: Any, where: str) -> Value:
        if not isinstance(name, str) or name not in self.values:
            raise broken(f"{where} is {short(name)}, which no op before it gives")
        return self.values[name]

    def _state(self, said: list[Any]) -> dict[str, tuple[Value, Any]]:
        found = {}
        for x in said:
            value = self._value(x, "a piece of the state")
            array = self.arrays.get(value.name)
            if array is None:
                raise broken(f"its {STATE} lacks {value.name!r}")
            if value.dtype == "complex128" and array.dtype == np.float64 and array.shape[-1:] == (2,):
                array = array.copy().view(np.complex128)[..., 0]
            if array.shape != value.shape or array.dtype != dtype_named(value.dtype).numpy:  # type: ignore[union-attr]
                raise broken(f"{value!r} is {array.dtype} of shape {array.shape} in its {STATE}")
            found[value.name] = (value, array)
        if len(found) != len(self.arrays):
            more = next(name for name in self.arrays if name not in found)
            raise broken(f"its {STATE} has {short(more)}, which the program does not use")
        return found

    def _updates(self, said: list[Any], allowed: set[Value]) -> list[tuple[Value, Value]]:
        found = []
        for pair in said:
            if not isinstance(pair, list) or len(pair) != 2:
                raise broken(f"an update is {short(pair)}, and not two names")
            old, new = (self._named(name, "an update") for name in pair)
            if old not in allowed or (old.dtype, len(old.shape)) != (new.dtype, len(new.shape)):
                raise broken(f"{old!r} cannot become {new!r}")
            found.append((old, new))
        return found

    def _formula(self, said: Any, where: str, depth: int = 0) -> Any:
        """Return a formula; its powers are small, so that computing it ends."""
        if isinstance(said, str):
            if said not in self.sizes:
                raise broken(f"{where} has the size {short(said)}, which no input has")
            return said
        if not isinstance(said, list):
            number = _number(said, where)
            if abs(number) > _MAX_SIZE:
                raise broken(f"{where} has the number {short(number)}")
            return number
        if depth > _MAX_DEPTH or len(said) != 3 or not isinstance(said[0], str):
            raise broken(f"{where} has the formula {short(said)}")
        if said[0] == "size":
            value = self._named(said[1], where)
            if not whole(said[2], 64) or (value.shape and said[2] >= len(value.shape)):
                raise broken(f"{where} asks for axis {short(said[2])} of {value.name!r}")
            return ("size", value, said[2])
        if said[0] not in _OPERATORS:
            raise broken(f"{where} has the operator {short(said[0])}")
        found = (said[0], *(self._formula(part, where, depth + 1) for part in said[1:]))
        if said[0] == "**" and isinstance(found[2], tuple | str):
            raise broken(f"{where} has a power whose exponent is no number")
        if not depth and _degree(found) > _MAX_DEGREE:
            raise broken(f"{where} has a formula of too high a power")
        return found

    # -- ops -----------------------------------------------------------------------------------------------------------

    def _nodes(self, said: Any, depth: int) -> list[Node]:
        if depth > _MAX_DEPTH:
            raise broken("its blocks stand in one another too deep")
        return [self._node(x, depth) for x in _list(said, "the ops")]

    def _node(self, said: Any, depth: int) -> Node:
        if not isinstance(said, dict):
            raise broken(f"an op is {short(said)}")
        said = {"blocks": [], **said}
        fields = _fields(said, "an op", "op", "inputs", "params", "blocks", "outputs", "line")
        name = fields["op"]
        if not isinstance(name, str) or (name not in FORMS and name not in declarations.table):
            raise LoadError(text(f"there is no op {short(name)}", op="load",
                                 remedy="a core at least as new as the one that saved the program"))  # fmt: skip
        where = f"the op {name}"
        inputs = tuple([self._said(x, where, 0) for x in _list(fields["inputs"], f"the inputs of {where}")])
        if not isinstance(fields["params"], dict):
            raise broken(f"the parameters of {where} are {short(fields['params'])}")
        params = {key: self._said(x, where, 0) for key, x in fields["params"].items()}
        blocks = _list(fields["blocks"], f"the blocks of {where}")
        if len(blocks) != (2 if name in ("if", "while") else 0):
            raise broken(f"{where} has {len(blocks)} blocks")
        inner = tuple([self._block(block, depth + 1) for block in blocks])
        found = _list(fields["outputs"], f"the outputs of {where}")
        line = self._line_at(fields["line"], where)
        outputs = tuple([None if x is None else self._value(x, f"an output of {where}") for x in found])
        node = Node(name, inputs, params, outputs, line, inner)
        if name in FORMS:
            check_form(node, where)
        else:
            params = checked_params(declarations.table[name], node, where)
            node = node._replace(params=params)
        return node

    def _block(self, said: Any, depth: int) -> Block:
        fields = _fields(said, "a block", "inputs", "nodes", "outputs")
        outside = dict(self.values)
        inputs = tuple(
            [self._value(x, "an input of a block") for x in _list(fields["inputs"], "the inputs of a block")]
        )
        nodes = tuple(self._nodes(fields["nodes"], depth))
        outputs = tuple([self._named(x, "an output of a block") for x in _list(fields["outputs"], "its outputs")])
        self.values = outside
        return Block(inputs, nodes, outputs)

    def _said(self, x: Any, where: str, depth: int) -> Any:
        """Return an operand or a parameter."""
        if depth > _MAX_DEPTH:
            raise broken(f"{where} has a parameter that stands too deep in others")
        if x is None or isinstance(x, bool):
            return x
        if isinstance(x, int | float):
            return _number(x, where)
        if isinstance(x, str):
            return _name(x, where) if x else x
        if not isinstance(x, dict) or len(x) != 1:
            raise broken(f"{where} has {short(x)} among its inputs or parameters")
        ((kind, inner),) = x.items()
        if kind == "value":
            return self._named(inner, f"an input of {where}")
        if kind == "sized":
            return Sized(self._formula(inner, where))
        if kind == "float":
            return _number(x, where)
        if kind == "complex" and isinstance(inner, list) and len(inner) == 2:
            return complex(*(_number(part, where) for part in inner))
        if kind == "ellipsis" and inner is True:
            return Ellipsis
        if kind == "dtype" and (dtype := dtype_named(inner)) is not None:
            return dtype
        if kind in ("tuple", "slice") and isinstance(inner, list):
            parts = [self._said(part, where, depth + 1) for part in inner]
            if kind == "tuple":
                return tuple(parts)
            if len(parts) == 3 and all(v is None or is_whole_number(v) for v in parts):
                return slice(*parts)
        raise broken(f"{where} has a parameter of the kind {short(kind)}: {short(inner)}")

    # -- lines, guards -------------------------------------------------------------------------------------------------

    def _source_line(self, said: Any) -> Line:
        if not isinstance(said, list) or len(said) != 3 or not whole(said[1], 2**31):
            raise broken(f"a line of the source is {short(said)}")
        file, text_ = ("".join(c if c.isprintable() else " " for c in str(x)[:_MAX_NAME]) for x in (said[0], said[2]))
        return Line(file, said[1], text_)

    def _line_at(self, said: Any, where: str) -> Line | None:
        if said is None:
            return None
        if not whole(said, len(self.lines)):
            raise broken(f"{where} is said to come from line {short(said)} of {len(self.lines)}")
        return self.lines[said]

    def _guard(self, said: Any) -> Guard:
        fields = _fields(said, "a guard", "comparison", "left", "right", "truth", "line")
        if fields["comparison"] not in COMPARISONS or type(fields["truth"]) is not bool:
            raise broken(f"a guard compares by {short(fields['comparison'])}")
        left, right = (self._formula(fields[side], "a guard") for side in ("left", "right"))
        return Guard(fields["comparison"], left, right, fields["truth"], self._line_at(fields["line"], "a guard"))


# -- what is asked of every piece --------------------------------------------------------------------------------------


def _fields(said: Any, where: str, *names: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise broken(f"{where} is {short(said)}")
    if set(said) != set(names):
        odd = sorted(set(said) ^ set(names))[0]
        raise broken(f"{where} {'has' if odd in said else 'lacks'} {short(odd)}")
    return said


def _list(said: Any, where: str) -> list[Any]:
    if not isinstance(said, list):
        raise broken(f"{where} are {short(said)}, and no list")
    return said


def _name(said: Any, where: str) -> str:
    if not isinstance(said, str) or not 0 < len(said) <= _MAX_NAME or not said.isprintable():
        raise broken(f"{where} has the name or text {short(said)}")
    return said


def _number(said: Any, where: str) -> Any:
    if isinstance(said, dict) and list(said) == ["float"] and said["float"] in ("nan", "inf", "-inf"):
        return float(said["float"])
    if type(said) is int and abs(said) < 2**64:
        return said
    if isinstance(said, float) and math.isfinite(said):
        return said
    raise broken(f"{where} has {short(said)} for a number")


def _degree(formula: Any) -> float:
    """Return how fast a formula grows with the sizes."""
    if not isinstance(formula, tuple) or formula[0] == "size":
        return 1
    parts = [_degree(part) for part in formula[1:]]
    if formula[0] == "**":
        return parts[0] * max(1.0, abs(formula[2]))
    return sum(parts) if formula[0] == "*" else max(parts)


def _tensors_in(tree: Tree) -> int:
    return int(tree.kind == "tensor") + sum(_tensors_in(part) for part in tree.parts)


def _tree(said: Any, where: str, depth: int) -> Tree:
    kind = said.get("kind") if isinstance(said, dict) else None
    if kind == "tensor":
        _fields(said, where, "kind")
        return Tree("tensor")
    if kind == "value":
        value = _fields(said, where, "kind", "value")["value"]
        if not (value is None or isinstance(value, bool | str)):
            value = _number(value, where)
        return Tree("value", value)
    if kind not in ("list", "tuple", "dict") or depth > _MAX_DEPTH:
        raise broken(f"the {where} have a part of the kind {short(kind)}")
    fields = _fields(said, where, "kind", "parts", *(["keys"] if kind == "dict" else []))
    parts = tuple([_tree(part, where, depth + 1) for part in _list(fields["parts"], where)])
    if kind != "dict":
        return Tree(kind, None, parts)
    keys = _list(fields["keys"], where)
    if len(keys) != len(parts) or len(set(map(str, keys))) != len(keys):
        raise broken(f"the {where} have a dict with other keys than parts")
    if not all(isinstance(key, str) or type(key) is int for key in keys):
        raise broken(f"the {where} have a dict with keys that are neither texts nor whole numbers")
    return Tree("dict", tuple(keys), parts)
