"""What `%%triton` does: a `@triton.jit` kernel as an op of core, with its gradient, checked in Triton's interpreter."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from IPython.core.error import UsageError

import core
from core.base import syntax
from core.base.errors import text as told
from core.base.signatures import signature
from core.library import CustomOp
from triton_kernels.runtime import TYPE_NAMES, Pointer, mode
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.own import OwnMeasure
from triton_kernels.tune.texts import text_of
from triton_kernels.tune.worker import Worker

from ..console.options import HELP
from . import op_check
from .inner_cell import run_inside
from .op_header import Header, Wrong, evaluated, parser, parted
from .op_part import Part, can_have_a_gradient, header_of_gradient, vjp_of, vjp_of_op

LIMIT_S = 60.0  # of a check
EXAMPLE = """%%triton relu2(x) -> out --check
import triton, triton.language as tl

@triton.jit
def relu2(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0)
    tl.store(out_ptr + i, x * x, mask=i < n)

@triton.jit
def relu2_backward(g_ptr, x_ptr, grad_x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0)
    tl.store(grad_x_ptr + i, 2.0 * tl.load(g_ptr + i, mask=i < n) * x, mask=i < n)

BLOCK = 256
def reference(x):
    return core.relu(x) ** 2"""
WHAT = """Make an op of a Triton kernel: relu2(core.randn(8, device="cuda")) runs it from then on, with a gradient, a
place in the graph and a row among the card's timings. The cell runs as any other.

HEADER is name(x, a=2.0) -> out, and the kernel of this name (or name_kernel) takes arrays as x or x_ptr. Without sizes
the inputs broadcast, and an integer that the header does not name is the number of elements; with sizes, as in
mix(x[n], w[n,m]) -> out[m], integers of these names are the sizes, the kernel is launched for each of the stacked
problems, or once with their number as `batch`. The cell's variables say the constexprs (BLOCK = 256) and `grid`, a
tuple or a function of a dict of them and the sizes; without it there are as many programs as elements need. The
gradient is the kernel name_backward: it reads g (the gradient of the output) and whichever inputs, output and numbers
it names, and fills grad_x; or a function `backward` of these on core's tensors. `reference`, a function of the inputs
and numbers on core's tensors, says what is right, and serves tensors on the CPU."""


def run(shell: Any, line: str, text: str) -> None:
    """Make the op of a cell and put it among the notebook's names. *Raises*: the cell's error; UsageError."""
    if not line.strip() and not text.strip():
        print(f"{WHAT}\n\nA whole cell:\n\n{EXAMPLE}")
        return
    if set(HELP) & set(line.split()):
        print(parser("triton", WHAT, EXAMPLE).format_help())
        return
    try:
        header, words = parted(line)
        options = parser("triton", WHAT, EXAMPLE).parse_args(words)
        run_inside(shell, text)
        made = Cell(header, text, shell.user_ns, options.reference)
        op = made.op()
        said = made.check(op) if options.check else ""
    except (ValueError, Failed) as error:
        raise UsageError(f"%%triton: {error.reason if isinstance(error, Failed) else error}") from None
    shell.user_ns[header.name] = op
    print(f"{made}{said}")


class TritonPart(Part):
    """A Triton kernel with its header, the constexprs and the grid that the cell says."""

    backend = "Triton"

    def __init__(self, kernel: Any, header: Header, values: Mapping[str, Any]) -> None:
        self.kernel = kernel
        parameters = inspect.signature(kernel.fn).parameters.values()
        name = kernel.fn.__name__
        said = f"{name}({', '.join(p.name for p in parameters)})"
        constexprs = [p for p in parameters if "constexpr" in str(p.annotation)]
        self.constexprs = {p.name: values.get(p.name, p.default) for p in constexprs}
        if unsaid := [n for n, v in self.constexprs.items() if v is inspect.Parameter.empty or callable(v)]:
            raise Wrong(f"{said}: the cell says no {', '.join(unsaid)}. Remedy: {unsaid[0]} = 256 in it")
        self.parameters = [p.name for p in parameters if p.name not in self.constexprs]
        there = [plain(n) for n in self.parameters]
        super().__init__(header, said, there, [n for n in there if n not in {**header.inputs, **header.outputs}])
        # a vjp's tensors are the CPU's under the interpreter, whose arrays are NumPy's
        self.devices = ("cuda", "cpu") if mode() == "interpret" and "g" in header.inputs else ("cuda",)
        self.grid = values.get("grid")
        if self.grid is None and (len(self.constexprs) != 1 or header.rule):
            raise Wrong(f"{said}: the cell says no grid. Remedy: grid = lambda c: (triton.cdiv(c['n'], c['BLOCK']),)")

    def grid_for(self, numbers: Mapping[str, Any]) -> tuple[int, ...]:
        """Return how many programs run. *Raises*: RuntimeError where the cell's grid asks for what there is not."""
        if self.grid is None:
            return (-(-numbers[self.count] // next(iter(self.constexprs.values()))),)
        try:
            found = self.grid({**numbers, **self.constexprs}) if callable(self.grid) else self.grid
        except KeyError as error:
            there = ", ".join(n for n in (*numbers, *self.constexprs) if n)
            raise RuntimeError(told(f"the grid of {self.name} asks for {error}", op=self.name,
                                    needed=f"one of {there}")) from None  # fmt: skip
        return tuple(int(n) for n in (found if isinstance(found, tuple | list) else (found,)))

    def arguments(self, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the kernel is called with, apart from constexprs, by its parameters' own names."""
        given = {**numbers, **arrays}
        return {n: given[plain(n)] for n in self.parameters}

    def call(self, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> None:
        grid = self.grid_for(numbers)
        if 0 in grid:
            return
        pointers = {n: Pointer(a) for n, a in arrays.items()}
        self.kernel[grid](*self.arguments(pointers, numbers).values(), **self.constexprs)

    def declines(self, *arrays: Any, **params: Any) -> str | None:
        odd = {a.dtype.name for a in arrays if a.dtype not in TYPE_NAMES}
        return f"Triton has no pointers to {', '.join(sorted(odd))}" if odd else None

    def in_one_piece(self, array: Any) -> Any:
        return core.backends.array_module("cuda").ascontiguousarray(array)

    def made(self, reference: Callable[..., Any] | None, vjp: Callable[..., Any] | None) -> CustomOp:
        """Return its op; tensors on the CPU are the reference's, where there is one."""
        header = self.header

        def refuse(**given: Any) -> Any:
            remedy = 'x.to("cuda"), or a function named reference in the cell, which serves the CPU'
            raise RuntimeError(told(f"{header.name} is a Triton kernel", op=header.name, remedy=remedy,
                                    came="tensors that are not on a GPU, or of a dtype it has not"))  # fmt: skip

        python = refuse if reference is None else lambda **given: reference(**given)
        python.__doc__ = f"{header}, from a Triton kernel."
        return self.op(python, vjp)


def plain(name: str) -> str:
    """Return what the header calls a parameter.

    >>> plain("x_ptr"), plain("n")
    ('x', 'n')
    """
    return name.removesuffix("_ptr")


class Cell:
    """What a cell of Triton says: the op's kernel, its gradient and its reference, where it gives them."""

    def __init__(self, header: Header, text: str, names: dict[str, Any], reference: str | None) -> None:
        self.header = header
        said = {n: names[n] for n in _assigned(text) if n in names}
        kernels = {n: k for n, k in said.items() if hasattr(k, "fn")}
        self.values = {n: v for n, v in said.items() if n not in kernels}
        self.reference = evaluated(reference, names) if reference else self.values.get("reference")
        found = [kernels[n] for n in (header.name, f"{header.name}_kernel") if n in kernels]
        if not found:
            there = ", ".join(kernels) or "none"
            raise Wrong(
                f"the cell defines no @triton.jit kernel {header.name} or {header.name}_kernel; there is {there}"
            )
        self.part = TritonPart(found[0], header, self.values)
        self.gradient: TritonPart | None = None
        self.backward: Callable[..., Any] | None = None
        its = [kernels[n] for n in (f"{header.name}_backward", f"{header.name}_backward_kernel") if n in kernels]
        python = self.values.get("backward")
        if its:
            can_have_a_gradient(header)
            parameters = [plain(n) for n in inspect.signature(its[0].fn).parameters]
            name = its[0].fn.__name__
            gradient = header_of_gradient(header, f"{header.name}_backward", parameters,
                                          f"{name}({', '.join(parameters)})")  # fmt: skip
            self.gradient = TritonPart(its[0], gradient, self.values)
            self.backward = vjp_of_op(header, self.gradient.made(None, None), gradient)
        elif callable(python):
            can_have_a_gradient(header)
            asked = list(signature(python).parameters)
            known = ["g", *header.inputs, *header.outputs, *header.numbers]
            if odd := [n for n in asked if n not in known]:
                raise Wrong(f"backward asks for {', '.join(odd)}; it may ask for {', '.join(known)}")
            self.backward = vjp_of(header, [n for n in asked if n != "g"],
                                   lambda given: python(**{n: given[n] for n in asked}))  # fmt: skip

    def op(self) -> CustomOp:
        """Return the op."""
        return self.part.made(self.reference, self.backward)

    def check(self, op: CustomOp) -> str:
        """Return what was found right. *Raises*: Wrong."""
        if self.reference is None:
            raise Wrong(f"--check: nothing says what {self.header.name} should compute. Remedy: def reference(...) in "
                        "the cell, or --reference NAME")  # fmt: skip
        shapes = op_check.shapes_of(self.header)
        sample = op_check.Sample(self.header, self.reference, shapes, "float32")
        self._interpreted(self.part, sample.arrays, sample.expected)
        if self.gradient is not None:
            given = {**sample.arrays, "g": sample.g, **sample.results}
            self._interpreted(self.gradient, given, {f"grad_{n}": g for n, g in sample.gradients.items()})
        if mode() is None and self.gradient is not None:
            return "; checked in Triton's interpreter against its reference, the gradient too"
        device = "cpu" if mode() is None else "cuda"
        return op_check.in_place(op, self.header, self.reference, shapes, ["float32"], device)

    def _interpreted(self, part: TritonPart, arrays: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> None:
        """Run a kernel in Triton's interpreter, which sees each address that it reads and writes, in a process of its
        own."""
        header = part.header
        given = {n: arrays[n] for n in header.inputs}
        first, sizes = next(iter(given.values())), op_check.sizes_of(header, given)
        given |= op_check.outputs_for(header, given)
        count = 1 if header.rule else first.size
        numbers = part.numbers_of([count, *(sizes[d] for d in header.letters)], header.numbers)
        arguments = part.arguments(given, numbers)
        expected = {n: right[plain(n)] for n in arguments if plain(n) in right and plain(n) in header.outputs}
        grids = {tuple(sorted(part.constexprs.items())): part.grid_for(numbers)}
        measure = OwnMeasure(text_of(part.kernel), part.kernel.fn.__name__, arguments, expected, grids,
                             first.dtype.name, kind="interpret")  # fmt: skip
        with Worker(measure) as worker:
            try:
                worker.call("check", part.constexprs, limit_s=LIMIT_S)
            except Failed as failure:
                raise Wrong(f"{part.said} in Triton's interpreter: {failure.reason}") from None

    def __str__(self) -> str:
        """What was made, in a line."""
        its = self.gradient.name if self.gradient else "its function backward"
        on_cpu = "its reference on the CPU" if self.reference is not None else "none on the CPU"
        return f"{self.header}: an op of Triton, {on_cpu}, {f'gradient by {its}' if self.backward else 'no gradient'}"


def _assigned(text: str) -> list[str]:
    """Return the names that a cell gives a value at its top level."""
    found = []
    for node in syntax.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return found
