"""Prints the elementwise C kernels from the op declarations, when the extension is built.

Every traced expression (`core.declare.expr.Program`) becomes one loop for float32 and one for float64 (the commonest
one for int64 too, and a few for bools), and a row of the table that `map.h` declares. `python -m core.native.emit`
writes them to `core/native/generated/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..declare import op
from ..declare.expr import PRIMITIVES, Program, Statement, c_lines, c_operand, divisors

GENERATED = Path(__file__).parent / "generated"
MAX_INPUTS = 7  # MAP_MAX_IN in map.h

# What one item costs, counted in additions of adjacent floats; what is not named costs one. Measured, see simd_math.h.
_COSTS = {
    "f": {
        2: "div sqrt rsqrt",
        4: "exp exp2 expm1 log erf",
        7: "sigmoid tanh sin cos log1p log2 log10 hypot",
        10: "asin acos atan atan2 sinh cosh asinh acosh atanh tan fmod remainder floor_divide",
        20: "erfc pow",
    },
    "d": {4: "div sqrt rsqrt", 10: "exp exp2 expm1 log log1p log2 sigmoid", 20: "tanh", 160: "erf erfc"},
    "?": {},
    "l": {20: "floor_divide remainder"},
}
_LIBM_COST = 160
# What float32 has a quicker function of, sm_<name>_near_f32, for operands that are not far; by which test they are.
NEAR = {"sin": "sm_far_f32", "cos": "sm_far_f32", "tan": "sm_tan_far_f32",
        **dict.fromkeys(("fmod", "remainder", "floor_divide"), "sm_fmod_far_f32")}  # fmt: skip
BLOCK = 256  # items that are looked at together
_LIBM = "sin cos log10 pow tan asin acos atan sinh cosh asinh acosh atanh atan2 fmod remainder floor_divide hypot"

RESERVED = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "NAN INFINITY NULL item_ count_ ptr_ params_ out_ first_ end_ far_"
)
# What is printed for int64 too, and for bools; their primitives in C, where those of floats do not serve. Sums and
# products wrap around, as NumPy's do.
_WHOLE = "add sub mul neg abs square eq ne lt le gt ge maximum minimum where remainder floor_divide"
WHOLE = tuple(_WHOLE.split())
TRUTHS = ("eq", "ne", "where")
_IN_WHOLE = {
    n: f"(int64_t)((uint64_t){{0}} {c} (uint64_t){{1}})" for n, c in (("add", "+"), ("sub", "-"), ("mul", "*"))
}
_IN_WHOLE |= {
    "neg": "(int64_t)(0 - (uint64_t){0})",
    "abs": "({0} < 0 ? (int64_t)(0 - (uint64_t){0}) : {0})",
    "maximum": "({0} > {1} ? {0} : {1})",
    "minimum": "({0} < {1} ? {0} : {1})",
}

# What float32 has as one function, in place of the op's text: a polynomial for three steps of Halley's method.
_AS_ONE = {"erfinv": "sm_erfinv_f32"}

# Eliminating partial redundancies makes branches of two selects that follow one another (a clamp), and then gcc does
# not vectorise the loop: 1 M elements of Rprop take 23 ms in place of 1.
NOTE = """/* Printed by core/native/emit.py from the op declarations; do not edit. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-pre")
#endif
"""


def cost_of(statements: Sequence[Statement], type_char: str) -> int:
    """Return what one item costs, as parallel_for counts work."""
    libm = () if type_char == "l" else ((_LIBM_COST, _LIBM),)
    costs = {n: cost for cost, names in (*libm, *_COSTS[type_char].items()) for n in names.split()}
    return max(1, sum(costs.get(st.op, 1) for st in statements))


def whole_lines(program: Program) -> tuple[list[str], str]:
    """`c_lines` of numbers that are int64, or bools."""
    lines = []
    for st in program.statements:
        text = (_IN_WHOLE.get(st.op) or PRIMITIVES[st.op][2]).format(*st.operands, F="_i64")
        lines.append(f"const {'int' if st.is_bool else 'int64_t'} {st.target} = {text};")
    return lines, str(program.result)


def _loop(first: str, end: str, body: Sequence[str]) -> list[str]:
    """Return a loop over items in C."""
    turns = f"for (ptrdiff_t item_ = {first}; item_ < {end}; item_++) {{"
    return ["INDEPENDENT", turns, *(f"    {line}" for line in body), "}"]


def _blocks(statements: Sequence[Statement], body: Sequence[str], far: Sequence[Statement]) -> list[str]:
    """Return the loop in blocks: those whose operands are all near take the quick functions, others those for any.

    A loop of its own decides, with what the operands need, before anything is written: the output may be an input.
    """
    near = [re.sub(rf"\bsm_({'|'.join(NEAR)})_f32\(", r"sm_\1_near_f32(", line) for line in body]
    needed = {o for st in far for o in st.operands}
    for st in reversed(statements):
        needed.update(st.operands if st.target in needed else ())
    looked_at = [line for line in near[:-1] if line.split()[2] in needed]  # const float NAME = ...
    tests = [f"far_ |= {NEAR[st.op]}({', '.join(c_operand(o, 'f32') for o in st.operands)});" for st in far]
    looked_at += dict.fromkeys(tests)
    return [
        f"for (ptrdiff_t first_ = 0; first_ < count_; first_ += {BLOCK}) {{",
        f"    const ptrdiff_t end_ = count_ - first_ < {BLOCK} ? count_ : first_ + {BLOCK};",
        "    int far_ = 0;",
        *(f"    {line}" for line in _loop("first_", "end_", looked_at)),
        "    if (far_) {",
        *(f"        {line}" for line in _loop("first_", "end_", body)),
        "        continue;",
        "    }",
        *(f"    {line}" for line in _loop("first_", "end_", near)),
        "}",
    ]


class Kernel:
    """One loop: a program in one type (`f` or `d`, some in `l`; `?` when it has only conditions, and a few more)."""

    def __init__(self, program: Program, type_char: str) -> None:
        names = {*program.inputs, *program.params}
        if bad := sorted(names & set(RESERVED.split())):
            raise ValueError(f"{program.name}: an argument named {bad[0]!r} means something else in C; rename it")
        if len(program.inputs) > MAX_INPUTS:
            raise ValueError(
                f"{program.name} has {len(program.inputs)} inputs; an elementwise kernel takes {MAX_INPUTS}"
            )
        self.program, self.type = program, type_char
        self.suffix = {"f": "f32", "d": "f64", "l": "i64", "?": "bool"}[type_char]
        self.name = f"{program.name}_{self.suffix}"
        self.in_types = "".join("?" if kind == "bool" else type_char for kind in program.kinds)
        self.out_type = "?" if program.is_bool else type_char
        self.real = {"f": "float", "d": "double", "l": "int64_t", "?": "uint8_t"}[type_char]

    @property
    def cost(self) -> int:
        """What one item costs, as parallel_for counts work."""
        return cost_of(self.program.statements, self.type)

    @property
    def masks(self) -> bool:
        """Whether it only chooses an input or not, so that gcc loads it under a mask."""
        chosen: set[Any] = set()
        used: set[Any] = set()
        for st in self.program.statements:
            chosen.update(st.operands[1:] if st.op == "where" else ())
            used.update(st.operands[:1] if st.op == "where" else st.operands)
        return bool((chosen - used) & {*self.program.inputs})

    @property
    def divisor(self) -> int:
        """The input that integers are divided by, counted from 1; 0 where there is none."""
        found = divisors(self.program) if self.type == "l" else ()
        return found[0] + 1 if found else 0

    def declaration(self) -> str:
        """Return the C prototype."""
        return f"void map_{self.name}(char *const *ptr_, ptrdiff_t count_, const double *params_)"

    def source(self) -> str:
        """Return the C function."""
        real = self.real
        whole = self.type == "l" or (self.type == "?" and "number" in self.program.kinds)
        lines, result = (
            whole_lines(self.program) if whole else c_lines(self.program, "f32" if self.type == "f" else "f64")
        )
        inputs, params = self.program.inputs, self.program.params
        if self.type == "f" and (one := _AS_ONE.get(self.program.name)):
            lines, result = [], f"{one}({', '.join(inputs)})"
        types = [("uint8_t" if t == "?" else real) for t in self.in_types]
        out = "uint8_t" if self.out_type == "?" else real
        head = [f"const {t} *in{k}_ = (const {t} *)ptr_[{k}];" for k, t in enumerate(types)]
        head += [f"{out} *out_ = ({out} *)ptr_[{len(inputs)}];"]
        head += [f"const {real} {p} = ({real})params_[{k}];" for k, p in enumerate(params)]
        body = [
            f"const int {n} = in{k}_[item_] != 0;" if t == "uint8_t" else f"const {t} {n} = in{k}_[item_];"
            for k, (n, t) in enumerate(zip(inputs, types, strict=True))
        ]
        body += [*lines, f"out_[item_] = ({out})({result});"]
        unused = [] if params else ["(void)params_;"]
        far = [st for st in self.program.statements if st.op in NEAR] if self.type == "f" else []
        loops = _blocks(self.program.statements, body, far) if far else _loop("0", "count_", body)
        lines = [f"VECTOR {self.declaration()} {{", *(f"    {line}" for line in unused + head + loops)]
        return "\n".join([f"/* {self.program.text} */", *lines, "}", ""])

    def row(self) -> str:
        """Return the row of the table."""
        names = f'"{self.name}", "{self.program.name}", "{self.program.digest}"'
        counts = f"'{self.type}', {len(self.in_types)}, {len(self.program.params)}"
        types = f"\"{self.in_types}\", '{self.out_type}'"
        flags = f"{int(self.masks)}, {self.divisor}"
        return f"    {{{names}, {counts}, {types}, {self.cost}, {flags}, map_{self.name}}},"


def kernels(programs: Iterable[Program]) -> list[Kernel]:
    """Both floating types of every program, of some int64 and bool; one kernel for a program of conditions alone."""
    found: dict[str, Kernel] = {}
    for program in programs:
        conditions_only = program.is_bool and all(kind == "bool" for kind in program.kinds)
        more = "l" * (program.name in WHOLE) + "?" * (program.name in TRUTHS)
        for type_char in "?" if conditions_only else "fd" + more:
            kernel = Kernel(program, type_char)
            if kernel.name in found:
                raise ValueError(f"two elementwise programs are named {program.name!r}; name each one differently")
            found[kernel.name] = kernel
    return list(found.values())


class Printed(Protocol):
    """A kernel that is printed: a function of its own and a row of a table."""

    type: str

    def declaration(self) -> str: ...
    def source(self) -> str: ...
    def row(self) -> str: ...


def files_of(rows: Sequence[Printed], what: str) -> dict[str, str]:
    """File name to C text: the kernels of `what` ("map") in two files by their type, and the table of them all."""
    files = {}
    for suffix, types in (("f32", "f"), ("f64", "dl?")):
        mine = [k for k in rows if k.type in types]
        files[f"{what}s_{suffix}.c"] = "\n".join(
            [NOTE + '#include "kernels/kernel.h"\n#include "kernels/simd_math.h"\n']
            + [k.declaration() + ";" for k in mine]
            + [""]
            + [k.source() for k in mine]
        )
    files[f"{what}s_table.c"] = "\n".join(
        [NOTE + f'#include "kernels/{what}.h"\n']
        + [f"{k.declaration()};" for k in rows]
        + ["", f"const {what}_kernel {what}_table[] = {{"]
        + [k.row() for k in rows]
        + ["    {0},", "};", ""]
    )
    return files


def sources(programs: Iterable[Program]) -> dict[str, str]:
    """File name to C text, for the programs of all ops."""
    return files_of(kernels(programs), "map")


def write(files: dict[str, str], directory: Path = GENERATED) -> list[Path]:
    """Write the files, leaving alone those that would not change (so that nothing is compiled in vain)."""
    directory.mkdir(exist_ok=True)
    paths = []
    for name, text in files.items():
        path = directory / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def declared_programs() -> list[Program]:
    """Return the programs of every elementwise op that core declares."""
    return [p for o in op.table.values() if isinstance(o, op.Elementwise) for p in o.programs]


def write_all() -> list[Path]:
    """Print what `core` declares (ops, optimizers' steps, the entries of kernels, the parsers of public
    functions), and the table of the binding's setup functions."""
    from ..declare import emit_adapters, emit_calls
    from . import emit_setups, emit_updates

    kernels = sources(declared_programs()) | emit_updates.sources(emit_updates.declared())
    return write(kernels | emit_calls.sources() | emit_adapters.sources() | emit_setups.sources())


if __name__ == "__main__":
    import core  # noqa: F401  (declares the ops)

    for path in write_all():
        print(path)
