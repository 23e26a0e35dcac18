"""What `%%ckernel` does: a C function as an op of core, with its gradient, built and checked as `%%tune` builds C."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from IPython.core.error import UsageError

import core
from core.base.errors import text as told
from core.library import CustomOp
from triton_kernels.tune.c_text import Declared, function_of, without_comments
from triton_kernels.tune.measure import Failed, tolerance
from triton_kernels.tune.own_c import OwnCMeasure, compiled, fit, loaded
from triton_kernels.tune.worker import Worker

from ..console.options import HELP
from . import op_check
from .op_header import Header, Wrong, evaluated, parser, parted
from .op_part import Part, can_have_a_gradient, header_of_gradient, vjp_of, vjp_of_op

LIMIT_S = 60.0  # of a check
FIRST_LINE = 2  # the number that a notebook gives to the line after %%ckernel
C_NAMES = {"float32": "float", "float64": "double"}
EXAMPLE = """%%ckernel softplus(x, beta=1.0) -> out --check
#include <math.h>
// reference: core.log1p(core.exp(beta * x)) / beta
void softplus(const real *x, real *out, long n, double beta) {
    for (long i = 0; i < n; i++) out[i] = log1p(exp(beta * x[i])) / beta;
}
void softplus_backward(const real *g, const real *x, real *grad_x, long n, double beta) {
    for (long i = 0; i < n; i++) grad_x[i] = g[i] / (1 + exp(-beta * x[i]));
}"""
WHAT = """Make an op of a C function: softplus(core.randn(8)) runs it from then on, with a gradient, a place in the
graph and a row among the card's timings.

HEADER is name(x, a=2.0) -> out. Without sizes the inputs broadcast, and an integer that the header does not name is the
number of elements; with sizes, as in mix(x[n], w[n,m]) -> out[m], integers of these names are the sizes, the function
is called for each of the stacked problems, or once with their number as `batch`. `real` in the text is float and double
in turn. The gradient is the function name_backward: it is given g (the gradient of the output) and whichever inputs,
output and numbers it names, and fills grad_x. Or it is a line `// backward: EXPRESSION` of these on core's tensors, a
tuple for several inputs; `// reference: EXPRESSION` of inputs and numbers says what is right."""


def run(shell: Any, line: str, text: str) -> None:
    """Make the op of a cell and put it among the notebook's names. *Raises*: UsageError."""
    if not line.strip() and not text.strip():
        print(f"{WHAT}\n\nA whole cell:\n\n{EXAMPLE}")
        return
    if set(HELP) & set(line.split()):
        print(parser("ckernel", WHAT, EXAMPLE).format_help())
        return
    try:
        header, words = parted(line)
        options = parser("ckernel", WHAT, EXAMPLE).parse_args(words)
        reference = evaluated(options.reference, shell.user_ns) if options.reference else None
        made = Cell(header, text, shell.user_ns, reference)
        op = made.op()
        said = made.check(op) if options.check else ""
    except (ValueError, Failed) as error:
        raise UsageError(f"%%ckernel: {error.reason if isinstance(error, Failed) else error}") from None
    shell.user_ns[header.name] = op
    print(f"{made}{said}")


class Function:
    """A C function that fills arrays, once for `float` and once for `double` where its text says `real`."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        reals = ("float32", "float64") if re.search(r"\breal\b", without_comments(text)) else ("",)
        self.declared: dict[str, Declared] = {}
        for real in reals:
            alias = f"#define real {C_NAMES[real]}\n" if real else ""
            found = function_of(alias + text, name)
            dtypes = {p.dtype for p in found.arrays}
            if len(dtypes) > 1 or not dtypes <= C_NAMES.keys():
                raise Wrong(f"{found}: arrays of {', '.join(sorted(dtypes))}; needed: all of them float, all double "
                            "or all real")  # fmt: skip
            self.declared[dtypes.pop()] = found
        self.macros = {d: {"real": C_NAMES[d]} if reals != ("",) else {} for d in self.declared}
        self._loaded: dict[str, Any] = {}

    @property
    def any(self) -> Declared:
        """What is declared, apart from the dtype."""
        return next(iter(self.declared.values()))

    def of(self, dtype: str) -> Any:
        """Return the function for arrays of a dtype. *Raises*: Failed, with the cell's line."""
        if dtype not in self._loaded:
            library = compiled(self.text, self.macros[dtype], FIRST_LINE)
            self._loaded[dtype] = loaded(library, self.declared[dtype])
        return self._loaded[dtype]

    def build(self) -> None:
        """Compile it for all its dtypes. *Raises*: Failed."""
        for dtype in self.declared:
            self.of(dtype)

    def declines(self, *arrays: Any, **params: Any) -> str | None:
        """Why it does not take these arrays, or None."""
        came = {a.dtype.name for a in arrays}
        return None if len(came) == 1 and came <= self.declared.keys() else self.needed(came)

    def needed(self, came: set[str]) -> str:
        """Say what it takes."""
        return f"{self.name} takes {' or '.join(self.declared)}, got {' and '.join(sorted(came))}"

    def call(self, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> None:
        """Run it. *Raises*: RuntimeError where it returns anything but 0."""
        declared = next(iter(self.declared.values()))
        function = self.of(next(iter(arrays.values())).dtype.name)
        code = function(*(arrays[p.name].ctypes.data if p.pointer else numbers[p.name] for p in declared.parameters))
        if code:
            raise RuntimeError(
                told(f"{self.name} returned {code}", op=self.name, needed="0, which means that all went well")
            )


class CPart(Part):
    """A C function with its header. *Raises*: Wrong where the two do not agree."""

    backend = "C"

    def __init__(self, function: Function, header: Header) -> None:
        self.function, declared = function, function.any
        for p in declared.arrays:
            if p.name not in {**header.inputs, **header.outputs}:
                raise Wrong(f"{declared}: {p.name} is an array that the header does not name: {header}")
            if p.const != (p.name in header.inputs):
                must = "is an input, and const is missing" if not p.const else "is an output, and cannot be const"
                raise Wrong(f"{declared}: {p.name} {must}: {header}")
        numbers = [p for p in declared.parameters if not p.pointer and p.name not in header.numbers]
        if real := [p.name for p in numbers if p.dtype.startswith("float")]:
            raise Wrong(f"{declared}: the header says nothing of {', '.join(real)}; needed: {real[0]}=0.0 in {header}")
        super().__init__(header, str(declared), [p.name for p in declared.parameters], [p.name for p in numbers])

    def call(self, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> None:
        self.function.call(arrays, numbers)

    def declines(self, *arrays: Any, **params: Any) -> str | None:
        return self.function.declines(*arrays)

    def in_one_piece(self, array: Any) -> Any:
        return np.ascontiguousarray(array)

    def made(self, vjp: Callable[..., Any] | None) -> CustomOp:
        """Return its op."""
        header, function = self.header, self.function

        def refuse(**given: Any) -> Any:
            came = {t.dtype.name for t in given.values() if isinstance(t, core.Tensor)}
            if len(came) == 1 and came <= function.declared.keys():
                raise RuntimeError(told(f"{header.name} is C and runs on the CPU", op=header.name,
                                        came="tensors on another device", remedy="x.cpu()"))  # fmt: skip
            remedy = {"float32": "x.float()", "float64": "x.double()"}[next(iter(function.declared))]
            raise TypeError(told(function.needed(came), op=header.name, remedy=f"{remedy}, or real in the C text"))

        refuse.__doc__ = f"{header}, from C text."
        return self.op(refuse, vjp)


class Expression:
    """An expression of a cell on core's tensors. `names` are those of what it may read that it does read, without g."""

    def __init__(self, said: str, known: Collection[str], notebook: dict[str, Any]) -> None:
        tree = ast.parse(said, mode="eval")
        read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        self.names = [n for n in known if n in read and n != "g"]
        self._code, self._notebook = compile(tree, f"<{said}>", "eval"), notebook

    def __call__(self, given: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        return eval(self._code, {"core": core, **self._notebook, **(given or {}), **named})


class Cell:
    """What a cell of C says: the op's function, its gradient and its reference, where it gives them."""

    def __init__(self, header: Header, text: str, names: dict[str, Any],
                 reference: Callable[..., Any] | None) -> None:  # fmt: skip
        self.header, self.text, self.names = header, text, names
        self.part = CPart(Function(text, header.name), header)
        self.part.function.build()
        said = _said(text, "reference")
        self.reference = reference or (None if said is None else self._expression("reference", said, header.inputs))
        self.gradient, self.backward = self._gradient()

    def op(self) -> CustomOp:
        """Return the op."""
        return self.part.made(self.backward)

    def check(self, op: CustomOp) -> str:
        """Return what was found right. *Raises*: Wrong, Failed."""
        shapes = op_check.shapes_of(self.header)
        for dtype in self.part.function.declared:
            sample = op_check.Sample(self.header, self.reference, shapes, dtype)
            self._in_guarded_memory(self.part, sample.arrays, sample.expected)
            if self.gradient is not None:
                given = {**sample.arrays, "g": sample.g, **sample.results}
                self._in_guarded_memory(self.gradient, given, {f"grad_{n}": g for n, g in sample.gradients.items()})
        return op_check.in_place(op, self.header, self.reference, shapes, list(self.part.function.declared))

    def _in_guarded_memory(
        self, part: CPart, arrays: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]
    ) -> None:
        """Run a function where its arrays begin and end at memory that nobody may touch, in a process of its own."""
        header, function = part.header, part.function
        given = {n: arrays[n] for n in header.inputs}
        first = next(iter(given.values()))
        declared = function.declared[first.dtype.name]
        sizes = op_check.sizes_of(header, given)
        given |= op_check.outputs_for(header, given)
        numbers = {**header.numbers, **sizes, part.count: first.size, "batch": 1}
        arguments = fit(declared, {p.name: (given if p.pointer else numbers)[p.name] for p in declared.parameters})
        allowed = tolerance(first.dtype.name, max(a.size for a in given.values()))
        expected = {n: a for n, a in right.items() if n in header.outputs}
        measure = OwnCMeasure(function.text, declared, arguments, expected, (), allowed, FIRST_LINE)
        with Worker(measure) as worker:
            try:
                worker.call("check", function.macros[first.dtype.name], 0, True, limit_s=LIMIT_S)
            except Failed as failure:
                raise Wrong(f"{declared} on {first.dtype}: {failure.reason}") from None

    def _gradient(self) -> tuple[CPart | None, Callable[..., Any] | None]:
        header, name = self.header, f"{self.header.name}_backward"
        said = _said(self.text, "backward")
        written = re.search(rf"\b{name}\s*\(", without_comments(self.text)) is not None
        if said is None and not written:
            return None, None
        can_have_a_gradient(header)
        if said is not None:
            backward = self._expression("backward", said, ["g", *header.inputs, *header.outputs, *header.numbers])
            return None, vjp_of(header, backward.names, backward)
        function = Function(self.text, name)
        there = [p.name for p in function.any.parameters]
        part = CPart(function, header_of_gradient(header, name, there, str(function.any)))
        function.build()
        return part, vjp_of_op(header, part.made(None), part.header)

    def _expression(self, kind: str, said: str, known: Collection[str]) -> Expression:
        try:
            return Expression(said, known, self.names)
        except SyntaxError as error:
            raise Wrong(f"// {kind}: {said}: {error.msg}") from None

    def __str__(self) -> str:
        """What was made, in a line."""
        gradient = ("gradient by " + (self.gradient.function.name if self.gradient else "its expression")
                    if self.backward else "no gradient")  # fmt: skip
        return f"{self.header}: an op of C, {' and '.join(self.part.function.declared)}, {gradient}"


def _said(text: str, what: str) -> str | None:
    found = re.search(rf"^[ \t]*//[ \t]*{what}:[ \t]*(\S[^\n]*)$", text, re.MULTILINE)
    return None if found is None else found[1].strip()
