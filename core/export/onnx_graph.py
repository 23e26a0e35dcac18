"""The graph of an ONNX model while it is written: its nodes, constants, names, and the numbers that depend on sizes.

ONNX writes every number as a tensor. A size of the run is read from the inputs by Shape, and its formula is written out
in nodes, once in each scope; what does not depend on sizes is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from ..base import dtypes
from ..base.errors import text
from .ir import ExportError, Line, Names, Node, Sized, Value
from .sizes import Formula

OPSET = 18  # LayerNormalization, Trilu, Col2Im, and axes as inputs throughout
IR_VERSION = 9
ELEMENTS = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
            "float64": 11, "bfloat16": 16}  # fmt: skip
"""dtype -> TensorProto.DataType. ONNX has complex numbers, and no op that takes them."""
LAST = 2**63 - 1  # a slice's end that is no end

Operand: TypeAlias = "Value | str | None"  # what a node takes: a value of the program, or the name of a tensor


def onnx_package() -> Any:
    """Return the package onnx. Raise ImportError with the remedy where it is not there."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(text("ONNX models are written and read with the package onnx, which is not installed",
                               op="onnx", remedy="pip install 'gradlab[onnx]'")) from error  # fmt: skip
    return onnx


def refused(what: str, node: Node | None, remedy: str) -> ExportError:
    """Return the error for what ONNX cannot say, with the op and its line."""
    line = node.line if node is not None else None
    where = f"{line} runs {node.op}: " if line is not None and node is not None else ""
    return ExportError(text(f"cannot write this as ONNX: {where}{what}",
                            op=node.op if node is not None else "to_onnx", remedy=remedy))  # fmt: skip


def is_real(formula: Formula) -> bool:
    """Return whether a formula gives a float."""
    if isinstance(formula, tuple) and formula[0] != "size":
        below_one = formula[0] == "**" and isinstance(formula[2], int) and formula[2] < 0
        return below_one or formula[0] == "/" or any(is_real(part) for part in formula[1:])
    return isinstance(formula, float)


def shown(line: Line | None) -> str:
    """Return a line as text, with the file's name and without its folders."""
    if line is None:
        return ""
    return str(Line(line.file.replace("\\", "/").rpartition("/")[2], line.number, line.text))


class _Scope:
    """The nodes of a graph, what its values are called there, and what was computed already."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.names: dict[Value, str] = {}
        self.known: dict[Any, str] = {}


class Graph:
    """A graph being written; called with an op and its inputs it adds a node and returns the name of its result.

    inputs : the program's inputs.
    sizes : name of a size -> (number of an input, axis).
    taken : names that the program gives to its values.
    used : the values that somebody needs.
    """

    def __init__(self, inputs: Sequence[Value], sizes: dict[str, tuple[int, int]], taken: Iterable[str],
                 used: set[Value]) -> None:  # fmt: skip
        self.helper = onnx_package().helper
        self.inputs, self.sizes, self.used = tuple(inputs), sizes, used
        self.names = Names(taken)
        self.constants: dict[Any, Any] = {}  # by dtype, shape and bytes: a TensorProto
        self.node: Node | None = None  # the op of the program that is being written
        self.scopes = [_Scope()]

    # -- names ---------------------------------------------------------------------------------------------------------

    def bind(self, value: Value, name: str) -> None:
        """Note what a value is called here."""
        self.scopes[-1].names[value] = name

    def name(self, x: Operand) -> str:
        """Return what a value is called here."""
        if not isinstance(x, Value):
            return x or ""
        for scope in reversed(self.scopes):
            if x in scope.names:
                return scope.names[x]
        raise AssertionError(f"{x!r} is used before it is computed")

    @contextmanager
    def scope(self) -> Iterator[list[Any]]:
        """Write into a graph of its own, a branch or a body, for the length of the block; its nodes are yielded."""
        self.scopes.append(_Scope())
        try:
            yield self.scopes[-1].nodes
        finally:
            self.scopes.pop()

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def __call__(self, op: str, *inputs: Operand, **attributes: Any) -> str:
        """Add a node with one result and return its name."""
        return self.several(op, *inputs, outputs=1, **attributes)[0]

    def several(self, op: str, *inputs: Operand, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several results and return their names. Raise ExportError for an attribute that depends on
        the sizes: ONNX takes constants there."""
        for name, value in attributes.items():
            if isinstance(value, Sized):
                self.fixed([value], f"`{name}` of ONNX's {op}")
        given = [self.name(x) for x in inputs]
        while given and not given[-1]:
            given.pop()
        made = self.node.outputs if self.node is not None else ()
        stem = next((v.name for v in made if v is not None), "size")
        names = [self.names.fresh(f"{stem}.{op}") for _ in range(outputs)]
        doc = shown(self.node.line if self.node is not None else None)
        self.scopes[-1].nodes.append(
            self.helper.make_node(op, given, names, name=names[0], doc_string=doc or None, **attributes)
        )
        return names

    def refuse(self, what: str, remedy: str) -> ExportError:
        """Return the error for what ONNX cannot say of the present op."""
        return refused(what, self.node, remedy)

    # -- constants -----------------------------------------------------------------------------------------------------

    def constant(self, x: Any, dtype: str) -> str:
        """Return the name of a constant."""
        a = np.asarray(x).astype(getattr(dtypes, "bool_" if dtype == "bool" else dtype).numpy)
        key = (dtype, a.shape, a.tobytes())
        if key not in self.constants:
            self.constants[key] = tensor_of(a, dtype, self.names.fresh("constant"))
        return str(self.constants[key].name)

    def like(self, x: float, value: Value) -> str:
        """Return the name of a number of a value's dtype."""
        return self.constant(x, value.dtype)

    def cast(self, x: Operand, dtype: str, came: str = "") -> str:
        """Return `x` of this dtype; `came` is that of a name."""
        if (x.dtype if isinstance(x, Value) else came) == dtype:
            return self.name(x)
        return self("Cast", x, to=element(dtype))

    # -- numbers that may depend on sizes ------------------------------------------------------------------------------

    def ints(self, *numbers: Any) -> str:
        """Return the name of a vector of int64 of numbers, some of which may be `Sized` or formulas."""
        found = [formula_in(n) for n in numbers]
        if all(isinstance(n, int) for n in found):
            return self.constant(np.array(found, np.int64).reshape(-1), "int64")
        parts: list[str] = []
        while found:  # neighbours that are constants are one
            count = next((k for k, n in enumerate(found) if not isinstance(n, int)), len(found))
            parts.append(self.constant(found[:count], "int64") if count else self.sized(found[0]))
            found = found[max(count, 1) :]
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=0)

    def scalar(self, number: Any, dtype: str) -> str:
        """Return the name of a number without dimensions, of this dtype."""
        formula = formula_in(number)
        if not isinstance(formula, tuple | str):
            return self.constant(formula, dtype)
        came = "float64" if is_real(formula) else "int64"
        return self.once(
            ("scalar", formula, dtype),
            lambda: self.cast(self("Squeeze", self.sized(formula), self.ints(0)), dtype, came),
        )

    def sized(self, formula: Formula) -> str:
        """Return the name of the vector of one element that a formula is: float64 where `is_real`, else int64."""
        if not isinstance(formula, tuple | str):
            return self.constant([formula], "float64" if isinstance(formula, float) else "int64")
        return self.once(("sized", formula), lambda: self._computed(formula))

    def _computed(self, formula: Formula) -> str:
        if isinstance(formula, str):
            number, axis = self.sizes[formula]
            return self.size_of(self.inputs[number], axis)
        symbol = formula[0]
        if symbol == "size":
            return self.size_of(formula[1], formula[2])
        real = is_real(formula)
        a, b = (self._as_real(part) if real else self.sized(part) for part in formula[1:])
        if symbol in _ARITHMETIC:
            return self(_ARITHMETIC[symbol], a, b)
        if symbol == "//" and real:
            return self("Floor", self("Div", a, b))
        if symbol == "//":  # Div of integers cuts towards zero, Mod has the divisor's sign
            return self("Div", self("Sub", a, self("Mod", a, b)), b)
        if symbol == "%" and not real:
            return self("Mod", a, b)
        raise self.refuse(f"a size is computed by {symbol} of floats", "compute it in whole numbers")

    def _as_real(self, formula: Formula) -> str:
        return self.cast(self.sized(formula), "float64", "float64" if is_real(formula) else "int64")

    def size_of(self, x: Operand, axis: int) -> str:
        """Return the name of a tensor's size along `axis`, a vector of one element."""
        return self.once(("size", self.name(x), axis), lambda: self("Shape", x, start=axis, end=axis + 1))

    def shape_of(self, x: Operand) -> str:
        """Return the name of the vector of a tensor's sizes."""
        return self.once(("shape", self.name(x)), lambda: self("Shape", x))

    def once(self, key: Any, made: Callable[[], str]) -> str:
        """Return what `made` gave for this key before, or gives now."""
        for scope in reversed(self.scopes):
            if key in scope.known:
                return scope.known[key]
        found = self.scopes[-1].known[key] = made()
        return found

    # -- what many rows need -------------------------------------------------------------------------------------------

    def reshape(self, x: Operand, shape: Sequence[Any]) -> str:
        """Return `x` in another shape, of numbers, `Sized` and formulas."""
        found = [formula_in(n) for n in shape]
        unknown = [k for k, n in enumerate(found) if not isinstance(n, int)]
        if len(unknown) == 1 and 0 not in found:
            found[unknown[0]] = -1
            unknown = []
        return self("Reshape", x, self.ints(*found), allowzero=int(bool(unknown) or 0 in found))

    def transpose(self, x: Operand, order: Sequence[int]) -> str:
        """Return `x` with its dimensions in another order."""
        return self.name(x) if list(order) == list(range(len(order))) else self("Transpose", x, perm=list(order))

    def range(self, count: Any) -> str:
        """Return the int64 numbers from 0 on, `count` of them."""
        return self("Range", self.constant(0, "int64"), self.scalar(count, "int64"), self.constant(1, "int64"))

    def fixed(self, numbers: Any, what: str) -> list[int]:
        """Return numbers that ONNX takes only as constants. Raise ExportError where one depends on sizes."""
        found = [formula_in(n) for n in numbers]
        if not all(isinstance(n, int) for n in found):
            raise self.refuse(f"{what} depends on the sizes, and ONNX takes only constants there",
                              "leave that axis out of `dynamic`")  # fmt: skip
        return found


_ARITHMETIC = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow"}


def formula_in(number: Any) -> Formula:
    """Return the formula of a number, `Sized` or not."""
    return number.formula if isinstance(number, Sized) else number


def element(dtype: str) -> int:
    """Return ONNX's number of a dtype. Raise ExportError for one that no op of ONNX takes."""
    if dtype not in ELEMENTS:
        raise ExportError(text(f"cannot write this as ONNX: no op of ONNX takes {dtype}", op="to_onnx", came=dtype,
                               needed=", ".join(ELEMENTS), remedy="x.real and x.imag, or view_as_real"))  # fmt: skip
    return ELEMENTS[dtype]


def tensor_of(a: Any, dtype: str, name: str) -> Any:
    """Return an array as a TensorProto."""
    found = onnx_package().TensorProto()
    found.name, found.data_type = name, element(dtype)
    found.dims.extend(a.shape)
    found.raw_data = np.ascontiguousarray(a).tobytes()
    return found
