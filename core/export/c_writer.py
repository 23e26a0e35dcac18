"""`to_c`: a program as plain C: model.c, model.h, the weights, and the kernels that it calls."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from . import lower_losses as _losses  # noqa: F401
from . import lower_moves as _moves  # noqa: F401 - they enter their rows in LOWERED
from . import lower_nn as _nn  # noqa: F401
from . import lower_quantised as _quantised  # noqa: F401
from . import lower_views as _views  # noqa: F401
from .c_elements import GroupWriter, real_text
from .c_header import header_text
from .groups import Arena, Group, flat, materialised, needed, schedule
from .ir import Line
from .lowering import COPY, Builder, Size
from .plan import C_TYPES, Branch, Buffer, Call, Check, Loop, View, row_major
from .polynomial import Count, Poly, c_text
from .simplify import simplified, used_values

_NATIVE = Path(__file__).parents[1] / "native" / "kernels"
_KERNELS = Path(__file__).parent / "c"
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def to_c(program: Any, folder: Any, *, name: str = "model", embed: bool = False) -> None:
    """Write a program as C into a folder: `<name>.c`, `<name>.h`, the kernels that it calls, and `weights.bin`; with
    `embed` the weights are an array in `<name>_weights.c` instead.

    Raises
    ------
    ExportError
        For an op or a dtype that is not written in C, with its line.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writer = CWriter(program, name)
    source = writer.source()
    (folder / f"{name}.h").write_text(header_text(writer, embed))
    (folder / f"{name}.c").write_text(source)
    for file, text in writer.kernel_files(source).items():
        (folder / file).write_text(text)
    if embed:
        (folder / f"{name}_weights.c").write_text(_embedded(name, writer.blob))
    else:
        (folder / "weights.bin").write_bytes(bytes(writer.blob))


class CWriter:
    """A program, its plan, and the text of it."""

    def __init__(self, program: Any, name: str) -> None:
        program = program.in_ops()
        self.program, self.name = program, name
        self.size_names = [c_name(n) for n in program.sizes]
        self.blob = bytearray()
        self.offsets: dict[int, int] = {}  # of an array -> its place in the weights
        self.state_offsets: dict[str, int] = {}
        b = self.builder = Builder(dict(zip(program.sizes, self.size_names, strict=True)))
        self._enter(b)
        nodes, extra, b.gone = simplified(program)
        for value, array in extra.items():
            b.known[value] = b.constant(array, value.name)
        b.used = used_values(nodes) | set(program.outputs) | {new for _, new in program.updates}
        b.run(nodes)
        b.node = None
        self._outputs(b)
        for guard in program.guards:
            self._guard(b, guard)
        wanted = set(self.written)
        self.steps = schedule(needed(b.steps, set(wanted)))
        self.held = materialised(self.steps) | wanted
        self.writers: dict[int, GroupWriter] = {}
        scratch: dict[int, Sequence[Buffer]] = {}
        for step in flat(self.steps):
            if isinstance(step, Group):
                writer = self.writers[id(step)] = GroupWriter(step, self.held, self.pointer)
                scratch[id(step)] = list(writer.scratch.values())
        self.arena = Arena(self.steps, scratch, self.held, self.size_names)

    # -- inputs, state, outputs ----------------------------------------------------------------------------------------

    def _enter(self, b: Builder) -> None:
        for k, value in enumerate(self.program.inputs):
            shape = tuple(b.counted(d) for d in value.shape)
            size: Count = 1
            for n in shape:
                size = size * n
            buffer = Buffer(c_name(value.name), value.dtype, size, "input", k)
            b.known[value] = View(buffer, shape, row_major(shape))
        moved = {old for old, _ in self.program.updates}
        for name, (value, array) in self.program.state.items():
            view = b.constant(np.asarray(array), name)
            if value in moved:
                self.state_offsets[name] = self._placed(view.buffer.array)
                self.offsets[id(view.buffer.array)] = self.state_offsets[name]
                view.buffer.place = "state"  # its values are not what they were when the program was exported
                view = view._replace(buffer=_without_values(view.buffer, self.offsets))
            b.known[value] = view

    def _outputs(self, b: Builder) -> None:
        """Let the buffers of results be the caller's memory, or copy into it."""
        self.results = [*self.program.outputs, *(new for _, new in self.program.updates)]
        self.written: list[Buffer] = []
        self.late: list[tuple[View, Buffer]] = []
        moved = len(self.program.outputs)
        for k, value in enumerate(self.results):
            view = b.known[value]
            own = view.buffer
            if own.place == "arena" and view.is_whole() and not own.kept and own not in self.written and k < moved:
                own.place, own.number = "output", k
                self.written.append(own)
                continue
            target = View(Buffer(f"output_{k}", view.dtype, view.size, "output", k), view.shape, row_major(view.shape))
            if k < moved:
                b.ew(COPY, view, dtype=view.dtype, out=target)
            else:  # last of all: it may be the place of the state itself
                b.move(view, target)
            self.written.append(target.buffer)

    def _guard(self, b: Builder, guard: Any) -> None:
        """Turn a guard of the program into a check, where it is about sizes that are known before."""
        sides = []
        for formula in (guard.left, guard.right):
            try:
                sides.append(b.counted(formula))
            except KeyError:
                sides.append(b._inlined(formula) if isinstance(formula, tuple) else formula)
        if sides[0] == sides[1] and guard.truth == (guard.comparison in ("==", "<=", ">=")):
            return  # formulas that are spelled in two ways
        b.checks.append(Check(sides[0], guard.comparison, sides[1], guard.truth, f"exported where {guard}"))

    # -- memory --------------------------------------------------------------------------------------------------------

    def _placed(self, array: Any) -> int:
        """Return where an array stands among the weights."""
        key = id(array)
        if key not in self.offsets:
            self.blob += bytes(-len(self.blob) % 64)
            self.offsets[key] = len(self.blob)
            self.blob += np.ascontiguousarray(array).tobytes()
        return self.offsets[key]

    def pointer(self, buffer: Buffer, offset: Count = 0) -> str:
        """Return a pointer into a buffer as C."""
        kind = C_TYPES[buffer.dtype]
        if buffer.place in ("weights", "state"):
            at = self._placed(buffer.array) if buffer.place == "weights" else buffer.number
            base = f"(const {kind} *)(weights + {at})"
        elif buffer.place == "input":
            base = f"(const {kind} *)inputs[{buffer.number}]"
        elif buffer.place == "output":
            base = f"({kind} *)outputs[{buffer.number}]"
        else:
            base = f"({kind} *)(arena + at[{buffer.slot}])"
        return base if offset == 0 else f"{base} + {c_text(offset, True)}"

    # -- text ----------------------------------------------------------------------------------------------------------

    def source(self) -> str:
        """Return model.c."""
        body = self._steps(self.steps, 1)
        kernels = sorted(headers_for("\n".join(body)))
        used = "".join(f'#include "{f}"\n' for f in kernels)
        sizes = "".join(f"    const int64_t {n} = sizes[{k}];\n" for k, n in enumerate(self.size_names))
        unused = "".join(f"    (void){n};\n" for n in self.size_names)
        slots = max(1, len(self.arena.slots))
        text = f"""/* {self.program.name}, written by gradlab: see {self.name}.h. */
#include "{self.name}.h"

{used}
/* What the sizes have to be, and where in the arena each piece of memory begins. Returns an error code. */
static int lay_out(const int64_t *sizes, size_t *at, size_t *bytes) {{
    for (int k = 0; k < {len(self.size_names)}; k++)
        if (sizes[k] < 0 || sizes[k] > INT32_MAX) return {self.name.upper()}_BAD_SIZE;
{self._most()}{sizes}{unused}{self._checks()}    size_t end = 0;
{self._slots()}    (void)at;
    *bytes = end + 64;
    return 0;
}}

size_t {self.name}_arena(const int64_t *sizes) {{
    size_t at[{slots}], bytes;
    return lay_out(sizes, at, &bytes) ? 0 : bytes;
}}

int {self.name}_run(void *arena_, const void *weights_, const int64_t *sizes, const void *const *inputs,
{" " * (len(self.name) + 9)}void *const *outputs) {{
    char *const arena = arena_;
    const char *const weights = weights_;
    size_t at[{slots}], bytes;
    int error = lay_out(sizes, at, &bytes);
    if (error) return error;
{sizes}{unused}    (void)arena;
    (void)weights;
    (void)inputs;

"""
        return re.sub(r"\n    \(void\)sizes;", "", text) + "\n".join(body) + "\n    return 0;\n}\n"

    def _checks(self) -> str:
        lines = []
        seen = set()
        for check in self.builder.checks:
            left, right = (c_text(x) if isinstance(x, Poly | int) else real_text(x) for x in (check.left, check.right))
            if check.truth:
                test = f"{left} {_NEGATED[check.comparison]} {right}"
            else:
                test = f"{left} {check.comparison} {right}"
            if test in seen:
                continue
            seen.add(test)
            why = check.why.replace("*/", "* /")
            lines.append(f"    if ({test}) return {self.name.upper()}_BAD_SIZE; /* {why} */\n")
        return "".join(lines)

    def _most(self) -> str:
        """Return the check that no slot is larger than any memory, in numbers that do not overflow."""
        every = [c for slot in self.arena.slots for c in slot if isinstance(c, Poly)]
        counts = dict.fromkeys(c_text(c) for c in every if all(isinstance(a, str) for m in c.terms for a in m))
        if not counts:
            return ""
        names = "".join(f"        const double {n} = (double)sizes[{k}];\n" for k, n in enumerate(self.size_names))
        unused = "".join(f"        (void){n};\n" for n in self.size_names)
        tests = "".join(f"        if ({c} > 0x1p50) return {self.name.upper()}_BAD_SIZE;\n" for c in counts)
        return f"    {{ /* more than any memory */\n{names}{unused}{tests}    }}\n"

    def _slots(self) -> str:
        lines = []
        for k, counts in enumerate(self.arena.slots):
            size = c_text(counts[0])
            for count in counts[1:]:
                size = f"larger({size}, {c_text(count)})"
            lines.append(f"    at[{k}] = end, end += ((size_t)({size}) + 63) / 64 * 64;\n")
        return "".join(lines)

    def _steps(self, steps: Sequence[Any], depth: int) -> list[str]:
        pad = "    " * depth
        lines: list[str] = []
        for step in steps:
            if isinstance(step, Group):
                names = ", ".join(dict.fromkeys(i.op if i.inner else i.op.name for i in step.items))
                lines.append(f"{pad}{{ /* {names}{_places(i.line for i in step.items)} */")
                lines += [f"{pad}    {line}" for line in self.writers[id(step)].write()]
                lines.append(f"{pad}}}")
            elif isinstance(step, Call):
                lines += self._call(step, pad)
            elif isinstance(step, Branch):
                test = self.pointer(step.condition.buffer, step.condition.offset)
                lines.append(f"{pad}if (*({test})) {{ /* if{_places([step.line])} */")
                lines += self._steps(step.then, depth + 1)
                lines.append(f"{pad}}} else {{")
                lines += self._steps(step.other, depth + 1)
                lines.append(f"{pad}}}")
            elif isinstance(step, Loop):
                lines.append(f"{pad}for (;;) {{ /* while{_places([step.line])} */")
                lines += self._steps(step.test, depth + 1)
                lines.append(f"{pad}    if (!*({self.pointer(step.condition.buffer, step.condition.offset)})) break;")
                lines += self._steps(step.body, depth + 1)
                lines.append(f"{pad}}}")
        return lines

    def _call(self, call: Call, pad: str) -> list[str]:
        """Return a call, in loops where it has any."""
        lines = [f"{pad}{{ /* {call.title or call.function}{_places([call.line])} */"]
        return [*lines, *(f"{pad}    {line}" for line in call_lines(call, self.pointer)), f"{pad}}}"]

    def kernel_files(self, source: str) -> dict[str, str]:
        """Return the headers that model.c includes, and those that these do."""
        found: dict[str, str] = {}
        wanted = re.findall(r'#include "([a-z_]+\.h)"', source)
        wanted.remove(f"{self.name}.h")
        while wanted:
            file = wanted.pop()
            if file in found:
                continue
            own = _KERNELS / file
            text = own.read_text() if own.exists() else (_NATIVE / file).read_text().replace('"kernels/', '"')
            found[file] = f"/* Part of gradlab, MIT License, Copyright (c) 2026 The gradlab authors. */\n{text}"
            wanted += re.findall(r'#include "([a-z_]+\.h)"', text)
        return found


def call_lines(call: Call, pointer: Callable[[Buffer, Count], str]) -> list[str]:
    """Return the C of a call, in loops where it has any."""
    lines: list[str] = []
    inner = ""
    for k, (n, _) in enumerate(call.loops):
        lines.append(f"{inner}for (int64_t i{k} = 0; i{k} < {c_text(n)}; i{k}++)")
        inner += "    "
    arguments = []
    pointers = 0
    for a in call.arguments:
        if isinstance(a, View | Buffer):
            view = a if isinstance(a, View) else View(a, (), ())
            text = pointer(view.buffer, view.offset)
            for k, (_, steps) in enumerate(call.loops):
                if steps[pointers] != 0:
                    text += f" + i{k}" if steps[pointers] == 1 else f" + i{k} * {c_text(steps[pointers], True)}"
            pointers += 1
            arguments.append(text)
        elif isinstance(a, Size):
            text = c_text(a.count)
            arguments.append(f"(size_t)({text})" if call.function == "memmove" else text)
        elif isinstance(a, tuple | list):
            arguments.append(f"(const int64_t[]){{{', '.join(c_text(n) for n in a)}}}" if a
                             else "(const int64_t[]){0}")  # fmt: skip
        elif isinstance(a, float):
            arguments.append(_real(a))
        elif a is None:
            arguments.append("NULL")
        else:
            arguments.append(c_text(a) if isinstance(a, Poly | int) else str(a))
    said = f"{call.function}({', '.join(arguments)})"
    lines.append(f"{inner}if ((error = {said})) return error;" if call.fails else f"{inner}{said};")
    return lines


@lru_cache(1)
def _files() -> dict[str, str]:
    """Return name of a kernel -> the header that has it."""
    found: dict[str, str] = {}
    for file in sorted(_KERNELS.glob("*.h")):
        for function in re.findall(r"^ *(?:KERNEL|INLINE) [\w ]+?\*?(\w+?)(?:##S)?\(", file.read_text(), re.M):
            for suffix in ("f32", "f64", "i64", "u8") if function.endswith("_") else ("",):
                found[function + suffix] = file.name
    return found


def headers_for(text: str) -> set[str]:
    """Return the headers that have the functions which a text calls."""
    files = _files()
    called = set(re.findall(r"\b([a-z]\w*)\(", text))
    found = {files[c] for c in called if c in files} | {"base.h"}
    return found | ({"simd_math.h"} if "sm_" in text else set())


def _real(x: float) -> str:
    return f"{x!r}f" if np.isfinite(x) else "INFINITY" if x > 0 else "-INFINITY"


def _places(lines: Any) -> str:
    """Return where the ops of a step stand in the user's source."""
    said: dict[str, None] = {}
    last: Line | None = None
    for line in lines:
        if line is not None:
            file = line.file.replace("\\", "/").rpartition("/")[2]
            code = f": {line.text.strip()}" if line.text else ""
            said[f"{file} line {line.number}{code}"] = None
            last = line
    if last is None:
        return ""
    text = "; ".join(said).replace("*/", "* /").replace("/*", "/ *")
    return f" ({text})" if len(text) < 300 else f" ({text[:300]} ...)"


def _without_values(buffer: Buffer, offsets: dict[int, int]) -> Buffer:
    """Return the buffer of state that the run changes: no value of it may be written into the code."""
    return Buffer(buffer.name, buffer.dtype, buffer.size, "state", offsets[id(buffer.array)])


def c_name(name: str) -> str:
    """Return a name that C takes."""
    said = re.sub(r"\W", "_", name)
    return f"n_{said}" if said[:1].isdigit() or said in _TAKEN or said in _files() else said


_NAMES = (
    "sizes inputs outputs arena weights at error bytes end int long short char float double do void const static "
    "switch case default register auto signed unsigned struct union enum goto inline restrict volatile extern sizeof "
    "typedef i0 i1 i2 i3 i4 i5 j j0 j1 j2 j3 j4 y0 y1 jn yn memmove pow floor vec"
)
_TAKEN = {*keyword.kwlist, *_NAMES.split()}


def _embedded(name: str, blob: bytearray) -> str:
    words = np.frombuffer(bytes(blob) + bytes(-len(blob) % 8), dtype="<u4")
    rows = [", ".join(f"0x{w:08x}" for w in words[k : k + 12]) for k in range(0, len(words), 12)]
    body = ",\n    ".join(rows) or "0"
    return f"""/* The weights of {name}, as 32-bit words of a little-endian machine. */
#include "{name}.h"

#include <stdint.h>

static const uint32_t words[] __attribute__((aligned(64))) = {{
    {body},
}};
const void *const {name}_weights = words;
"""
