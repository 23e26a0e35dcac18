"""A program as plain NumPy that a person can read, with its state in a file beside it; neither needs core."""

from __future__ import annotations

import builtins
import keyword
import os
import textwrap
import zipfile
from typing import Any

import numpy as np

from ..base.errors import text
from ..declare import op as declarations
from ..serialization.atomic import replacing
from .copied import Copies
from .ir import Block, ExportError, Names, Node, Sized, Tree, Value
from .numpy_ops import Calls
from .sizes import leaves, written

_WIDTH = 120
_OWN_NAMES = {"np", "pathlib", "state", "reset", "run", "_checked", "_fits"}


def write_numpy(program: Any, folder: Any) -> str:
    """Write `<name>.py` and `<name>.npz` of a program to a folder; gives the path of the Python file.

    *Raises*: ExportError for what NumPy alone cannot do, with the op and its line.
    """
    source = numpy_text(program)
    folder = os.fspath(folder)
    os.makedirs(folder, exist_ok=True)
    with replacing(os.path.join(folder, f"{program.name}.npz")) as file, zipfile.ZipFile(file, "w") as archive:
        for name, (_, array) in program.state.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
    path = os.path.join(folder, f"{program.name}.py")
    with replacing(path) as file:
        file.write(source.encode())
    return path


def numpy_text(program: Any) -> str:
    """Return the Python file of a program.

    >>> import core
    >>> program = core.export(core.nn.ReLU(), (core.ones(3, 2),), dynamic={"input": {0: "n"}})
    >>> print(numpy_text(program).partition("@")[2].strip())  # doctest: +ELLIPSIS
    np.errstate(all="ignore")
    def run(input):
        _checked('input', input, np.float32, 2)
        n = input.shape[0]
        _fits('input', input, (n, 2))
    ...
        relu = np.maximum(input, 0.0)
        return relu
    """
    program = program.in_ops()
    draft = _Printer(program, set())
    draft.text()
    return _Printer(program, draft.copies.names.taken - draft.reserved).text()


_HELD = "\xa0"  # a space at which no line ends
# builtins that no written line calls
_FREE = {"input", "id", "type", "vars", "hash", "format", "object", "dir", "filter", "print", "open", "license"}


class _Printer:
    """Writes one program."""

    def __init__(self, program: Any, functions: set[str]) -> None:
        """`functions` are the names of the functions that the file will have, which values then do not take."""
        self.program = program
        self.names: dict[Value, str] = {}
        self.reserved = ({*dir(builtins)} - _FREE) | {*keyword.kwlist, *_OWN_NAMES}
        self.taken = Names(self.reserved | functions)
        self.sizes = {name: self._fresh(name) for name in program.sizes}
        self.parameters = [self._fresh(name) for name in program.parameters]
        for name, part, value in _own_inputs(program):
            if part.kind == "tensor":
                self.names[value] = self.parameters[program.parameters.index(name)]
        for value in program.inputs:
            self._name(value)
        for name, (value, _) in program.state.items():
            self.names[value] = f"state[{name!r}]"
        self._name_outputs(program.nodes)
        halves = any("float16" in v.dtype for v in self.names)
        self.copies = Copies(Names(self.reserved), halves)
        self.calls = Calls(self.copies, self._said)
        self.lines: list[str] = []
        self.place: Any = None

    # -- names ---------------------------------------------------------------------------------------------------------

    def _fresh(self, wanted: str) -> str:
        stem = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted) or "value"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        return self.taken.fresh(stem)

    def _name(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = self._fresh(value.name)
        return self.names[value]

    def _name_outputs(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            for block in node.blocks:
                for value in block.inputs:
                    self._name(value)
                self._name_outputs(block.nodes)
            for out in node.outputs:
                if out is not None:
                    self._name(out)

    def _formula(self, formula: Any) -> str:
        if isinstance(formula, str):
            return self.sizes[formula]
        renamed = _with_names(formula, self.sizes)
        return written(renamed, lambda v: self.names[v] if isinstance(v, Value) else str(v))

    def _said(self, x: Any) -> str:
        """Return an operand or a parameter as Python writes it."""
        if isinstance(x, Value):
            return self.names[x]
        if isinstance(x, Sized):
            return self._formula(x.formula)
        if isinstance(x, tuple):
            inside = ", ".join(map(self._said, x))
            return f"({inside},)" if len(x) == 1 else f"({inside})"
        if isinstance(x, slice):
            return f"slice({', '.join(self._said(v) for v in (x.start, x.stop, x.step))})"
        if x is Ellipsis:
            return "..."
        return self.copies.literal(x)

    # -- the file ------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the file."""
        for value, _ in self.program.state.values():
            _dtype(value)
        self._arguments()
        self._nodes(self.program.nodes, 1)
        self._ending()
        modules = sorted({*self.copies.modules, *(["pathlib"] if self.program.state else [])})
        imports = "\n".join(f"import {m}" for m in modules)
        head = [f'"""{self._docstring()}"""', *([imports] if imports else []), "import numpy as np"]
        state = [_STATE.format(name=self.program.name).strip("\n")] if self.program.state else []
        run = "\n".join(['@np.errstate(all="ignore")', f"def run({', '.join(self.parameters)}):", *self.lines])
        parts = [*state, _CHECKED.strip("\n"), *self.copies.texts, run]
        return "\n\n".join(head) + "\n" + "".join(f"\n\n{part}\n" for part in parts)

    def _docstring(self) -> str:
        program = self.program
        lines = [f"{program.name}, written by core.export: run({', '.join(self.parameters)}) needs NumPy alone.", ""]
        for value in program.inputs:
            lines.append(f"{self.names[value]}: {value.dtype}, shape {_shape(value, self)}")
        for value in program.outputs:
            lines.append(f"gives {value.dtype}, shape {_shape(value, self)}")
        if program.sizes:
            lines.append(f"Sizes that may vary: {', '.join(self.sizes.values())}.")
        lines += [f"Only where {guard}." for guard in program.guards]
        if program.state:
            lines.append(f"`state` has what the program holds, from {program.name}.npz beside this file.")
        if any(old.name in program.state for old, _ in program.updates):
            lines.append("Each run moves the state on; reset() takes it from the file again.")
        printable = ["".join(c if c.isprintable() else " " for c in line) for line in lines]
        return "\n".join(printable).replace("\\", "/").replace('"', "'") + "\n"

    def _add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def _arguments(self) -> None:
        program = self.program
        inputs = iter(program.inputs)
        for name, part in zip(self.parameters, program.arguments.parts, strict=True):
            self._unpacked(part, name, inputs)
        for value in program.inputs:
            self._add(1, f"_checked({value.name!r}, {self.names[value]}, {_dtype(value)}, {len(value.shape)})")
        for name, (k, axis) in program.sizes.items():
            self._add(1, f"{self.sizes[name]} = {self.names[program.inputs[k]]}.shape[{axis}]")
        for value in program.inputs:
            self._add(1, f"_fits({value.name!r}, {self.names[value]}, {_shape(value, self)})")
        for guard in program.guards:
            if any(isinstance(leaf, tuple) for leaf in leaves(guard.left) | leaves(guard.right)):
                continue  # of a size that an op decides
            said = f"{self._formula(guard.left)} {guard.comparison} {self._formula(guard.right)}"
            self._add(1, f"if {f'not {said}' if guard.truth else said}:")
            self._add(2, f"raise ValueError({f'this was written for sizes where {guard}'!r})")

    def _unpacked(self, part: Tree, said: str, inputs: Any) -> None:
        """Take an argument's tensors out of it."""
        if part.kind == "tensor":
            name = self.names[next(inputs)]
            if name != said:
                self._add(1, f"{name} = {said}")
        elif part.kind == "value":
            self._add(1, f"if {said} != {self.copies.literal(part.value)}:")
            self._add(2, f"raise ValueError({f'{said} was {part.value!r} when this was written'!r})")
        else:
            keys = list(part.value) if part.kind == "dict" else range(len(part.parts))
            for key, inner in zip(keys, part.parts, strict=True):
                self._unpacked(inner, f"{said}[{key!r}]", inputs)

    def _ending(self) -> None:
        """Write what the program moves on, and what it returns: memory of its own, whatever it is a view of."""
        program = self.program
        shared = self._views()
        again = {v: f"np.array({self.names[v]})" for v in shared}
        results = iter([again.get(v, self._array(v)) for v in program.outputs])
        if program.updates:
            self._add(1, f"result = {_built(program.result, results, self.copies)}")
            new = ", ".join(f"np.array({self.names[new]})" for _, new in program.updates)
            old = ", ".join(
                self.names[old] if old.name in program.state else f"{self.names[old]}[...]"
                for old, _ in program.updates
            )
            self._add(1, f"{old} = {new}")
            self._add(1, "return result")
        else:
            self._add(1, f"return {_built(program.result, results, self.copies)}")

    def _array(self, value: Value) -> str:
        """Return a result as an array: NumPy's functions give numbers for 0-d arrays."""
        return self.names[value] if value.shape else f"np.asarray({self.names[value]})"

    def _views(self) -> set[Value]:
        """Return the values that may be memory of an input or of the state."""
        found = {*self.program.inputs, *(v for v, _ in self.program.state.values())}

        def follow(nodes: tuple[Node, ...]) -> None:
            for node in nodes:
                for block in node.blocks:
                    found.update(block.inputs)
                    follow(block.nodes)
                inside = any(v in found for block in node.blocks for v in block.outputs)
                op = declarations.table.get(node.op)
                view = getattr(op, "view", False) and node.inputs[0] in found
                if view or inside or node.op in ("while", "cast", "move"):
                    found.update(v for v in node.outputs if v is not None)

        follow(self.program.nodes)
        return found

    # -- ops -----------------------------------------------------------------------------------------------------------

    def _nodes(self, nodes: tuple[Node, ...], depth: int) -> None:
        for node in nodes:
            self._comment(node, depth)
            if node.op == "if":
                self._if(node, depth)
            elif node.op == "while":
                self._while(node, depth)
            else:
                try:
                    for line in self.calls.lines(node):
                        self._call(depth, line)
                except ExportError as error:
                    where = f"\n  line: {node.line}" if node.line else ""
                    raise ExportError(f"{error}{where}") from None

    def _call(self, depth: int, line: str) -> None:
        """Write an assignment; a call that is too long goes on below."""
        room = _WIDTH - 4 * depth
        target, _, right = line.partition(" = ")
        if len(line) <= room or "'" in line or '"' in line or "(" not in right:  # a text might be broken
            self._add(depth, line)
            return
        if not right.endswith(")") or not right.split("(")[0].replace(".", "").replace("_", "").isalnum():
            right = f"({right})"
        # a line may end within brackets alone: what has none around it is held together
        target = f"({target})" if len(target) > room // 2 else target.replace(" ", _HELD)
        text = f"{target}{_HELD}={_HELD}{right}"
        parts = textwrap.wrap(text, room - 4, break_long_words=False, break_on_hyphens=False)
        for k, part in enumerate(parts):
            self._add(depth + (k > 0), part.replace(_HELD, " "))

    def _comment(self, node: Node, depth: int) -> None:
        """Write the line of the source that an op came from, once for the ops of one line."""
        if node.line is None or node.line == self.place:
            return
        self.place = node.line
        file = node.line.file.replace("\\", "/").rpartition("/")[2]
        said = f"# {file}:{node.line.number}  {node.line.text}".rstrip()
        said = "".join(c if c.isprintable() else " " for c in said)
        self._add(depth, said[: _WIDTH - 4 * depth])

    def _bind(self, targets: Any, sources: Any, depth: int) -> None:
        pairs = [(self.names[t], self._said(s)) for t, s in zip(targets, sources, strict=True) if t is not None]
        pairs = [(t, s) for t, s in pairs if t != s]
        if pairs:
            self._add(depth, f"{', '.join(t for t, _ in pairs)} = {', '.join(s for _, s in pairs)}")

    def _if(self, node: Node, depth: int) -> None:
        for block, head in zip(node.blocks, (f"if {self._said(node.inputs[0])}:", "else:"), strict=True):
            self._add(depth, head)
            before = len(self.lines)
            self._block(block, depth + 1)
            self._bind(node.outputs, block.outputs, depth + 1)
            if len(self.lines) == before:
                self._add(depth + 1, "pass")

    def _while(self, node: Node, depth: int) -> None:
        test, body = node.blocks
        self._bind(body.inputs, node.inputs, depth)
        self._add(depth, "while True:")
        self._bind(test.inputs, body.inputs, depth + 1)
        self._block(test, depth + 1)
        self._add(depth + 1, f"if not {self._said(test.outputs[0])}:")
        self._add(depth + 2, "break")
        self._block(body, depth + 1)
        self._bind(body.inputs, body.outputs, depth + 1)
        self._bind(node.outputs, body.inputs, depth)

    def _block(self, block: Block, depth: int) -> None:
        self.place = None
        self._nodes(block.nodes, depth)
        self.place = None


_STATE = """
state = {{}}


def reset():
    \"\"\"Take the state from the file beside this one.\"\"\"
    with np.load(pathlib.Path(__file__).with_name("{name}.npz")) as arrays:
        state.update(arrays)


reset()
"""

_CHECKED = """
def _checked(name, x, dtype, ndim):
    \"\"\"ValueError for an argument that is no array of this dtype and with so many dimensions.\"\"\"
    if not isinstance(x, np.ndarray) or x.dtype != dtype or x.ndim != ndim:
        came = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ValueError(f"{name} has to be an array of {np.dtype(dtype)} with {ndim} dimensions, got {came}")


def _fits(name, x, shape):
    \"\"\"ValueError for an argument of another shape.\"\"\"
    if x.shape != shape:
        raise ValueError(f"{name} has the shape {x.shape}, and needs {shape}")
"""


def _own_inputs(program: Any) -> list[tuple[str, Tree, Value]]:
    """Return of each argument its name, how it is built, and its first tensor."""
    found, at = [], 0
    for name, part in zip(program.parameters, program.arguments.parts, strict=True):
        if part.kind == "tensor":
            found.append((name, part, program.inputs[at]))
        at += _tensors_in(part)
    return found


def _tensors_in(tree: Tree) -> int:
    return int(tree.kind == "tensor") + sum(_tensors_in(part) for part in tree.parts)


def _with_names(formula: Any, names: dict[str, str]) -> Any:
    if isinstance(formula, str):
        return names[formula]
    if not isinstance(formula, tuple) or formula[0] == "size":
        return formula
    return (formula[0], *(_with_names(part, names) for part in formula[1:]))


def _shape(value: Value, printer: _Printer) -> str:
    said = ", ".join(
        f"{printer.names.get(value, value.name)}.shape[{k}]" if d == ("size", value, k) else printer._formula(d)
        if not isinstance(d, tuple) or all(not isinstance(v, tuple) or v[1] in printer.names for v in leaves(d))
        else "?"
        for k, d in enumerate(value.shape)
    )  # fmt: skip
    return f"({said},)" if len(value.shape) == 1 else f"({said})"


def _dtype(value: Value) -> str:
    if value.dtype == "bfloat16":
        raise ExportError(text(f"NumPy alone has no bfloat16, which {value.name} has", op="export",
                               remedy="model.float(), or program.save"))  # fmt: skip
    return "bool" if value.dtype == "bool" else f"np.{value.dtype}"


def _built(tree: Tree, results: Any, copies: Copies) -> str:
    """Return a result as Python writes it."""
    if tree.kind == "tensor":
        return str(next(results))
    if tree.kind == "value":
        return copies.literal(tree.value)
    parts = [_built(part, results, copies) for part in tree.parts]
    if tree.kind == "dict":
        return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(tree.value, parts, strict=True)) + "}"
    inside = ", ".join(parts)
    if tree.kind == "list":
        return f"[{inside}]"
    return f"({inside},)" if len(parts) == 1 else f"({inside})"
