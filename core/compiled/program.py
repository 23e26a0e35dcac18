"""Steps as a program that runs: the C of fused loops, compiled and loaded, and core's kernels called between."""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import weakref
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import native
from ..base.device import kind as kind_of
from ..base.dtypes import from_numpy
from ..declare import op as declarations
from ..declare.compile_c import built
from ..export.c_elements import GroupWriter
from ..export.c_writer import call_lines, headers_for
from ..export.groups import Arena, Group, written_by
from ..export.ir import Line
from ..export.plan import BYTES, C_TYPES, Buffer, Call, View
from ..export.polynomial import Count, c_text, product
from ..export.running import Run, prepared, prepared_gradient
from ..native.emit import NEAR
from ..tensors.tensor import Tensor, from_array
from .calls import address, kernel_addresses, make, point, run_loops
from .draws import Drawn
from .lowered import COLUMNS, PRODUCT, Lowered, is_kernel
from .recording import short

_NATIVE = Path(__file__).parents[1] / "native"
_INCLUDED = (_NATIVE / "kernels", _NATIVE, Path(__file__).parents[1] / "export" / "c")
_MARCH = {1: "x86-64", 2: "x86-64-v2", 3: "x86-64-v3"}.get(getattr(native.module, "CPU_AT_MOST", 4), "native")
_FLAGS = ("-std=gnu11", "-O3", "-g0", f"-march={_MARCH}", "-mprefer-vector-width=512", "-fPIC", "-shared", "-w",
          "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
          *(f"-I{p}" for p in _INCLUDED))  # fmt: skip
_PRELUDE = r"""#include "kernels/gemm.h"
#include "runtime/parallel.h"
typedef struct {
    char *arena;
    void *const *at;
} memory;
static void by_itself(ptrdiff_t n, double work, parallel_body body, void *context) { body(context, 0, n); }
void (*in_parallel)(ptrdiff_t, double, parallel_body, void *) = by_itself;
int (*product_of_f32)(const product_f32 *, ptrdiff_t);
int (*product_of_f64)(const product_f64 *, ptrdiff_t);
/* Sums of columns, in blocks of rows. */
#define COLUMN_SUMS(S, T)                                                                                      \
    static __attribute__((unused)) void column_sums_##S(const T *x, T *out, int64_t rows, int64_t columns) {   \
        for (int64_t first = 0; first < columns; first += 256) {                                               \
            const int64_t n = columns - first < 256 ? columns - first : 256;                                   \
            T total[256] = {0};                                                                                \
            for (int64_t r0 = 0; r0 < rows; r0 += 64) {                                                        \
                T part[256] = {0};                                                                             \
                for (int64_t r = r0; r < rows && r < r0 + 64; r++)                                             \
                    for (int64_t c = 0; c < n; c++) part[c] += x[r * columns + first + c];                     \
                for (int64_t c = 0; c < n; c++) total[c] += part[c];                                           \
            }                                                                                                  \
            for (int64_t c = 0; c < n; c++) out[first + c] = total[c];                                         \
        }                                                                                                      \
    }
COLUMN_SUMS(f32, float)
COLUMN_SUMS(f64, double)
"""
_ON_STACK = 1 << 18  # bytes of scratch rows, on whatever thread
_LINE = 64  # bytes that memory is aligned to

Step = Callable[["Memory"], None]


@lru_cache(1)
def _told() -> str:
    """Return what compiled loops depend on besides their text: the headers, and what the processor can."""
    told = hashlib.sha256()
    for folder in (_INCLUDED[0], _INCLUDED[2]):
        for file in sorted(folder.glob("*.h")):
            told.update(file.read_bytes())
    try:
        with open("/proc/cpuinfo") as info:
            told.update(next((line for line in info if line.startswith("flags")), "").encode())
    except OSError:
        pass
    return told.hexdigest()


class Memory:
    """What one run at a time has: the arena, the table of pointers that C reads, the tensors of kernels' results."""

    def __init__(self, size: int, count: int) -> None:
        self.room = np.empty(size + _LINE, np.uint8)
        start = self.room.ctypes.data
        self.base = -start % _LINE
        self.arena = start + self.base
        self.table = (ctypes.c_void_p * max(1, count))()
        self.at = ctypes.addressof(self.table)
        self.found: dict[Buffer, Any] = {}
        self.drawn: Drawn = (0, 0)
        self.fixed: dict[View, Tensor] = {}  # views of the arena and of constants
        self.views: dict[Any, tuple[Any, Tensor]] = {}  # of an operand the tensor that it last was, and of what


class CompiledProgram:
    """Runs the steps of a `Lowered` on tensors.

    lasting : the numbers of those inputs that are the same tensors from run to run.
    loops : how many fused loops there are, and `kernels` how many calls of core's own kernels.
    """

    def __init__(self, lowered: Lowered, lasting: frozenset[int] = frozenset()) -> None:
        self.lowered = lowered
        self.lasting = {lowered.inputs[k] for k in lasting}
        self.loops = len(lowered.groups())
        self.kernels = sum(map(is_kernel, lowered.steps))
        own = [v.buffer for v in lowered.outputs if v.buffer.place == "output"]
        self.places: dict[Buffer, int] = {b: k for k, b in enumerate((*lowered.inputs, *own))}
        self.kept: list[Any] = []  # arrays of constants
        self.free: list[Memory] = []
        writers: dict[int, GroupWriter] = {}
        scratch: dict[int, Sequence[Buffer]] = {}
        self.on_stack: set[Buffer] = set()
        for step in lowered.steps:
            if isinstance(step, Group):
                writer = writers[id(step)] = GroupWriter(step, lowered.held, self._pointer, NEAR)
                rows = list(writer.scratch.values())
                if sum(int(b.size) * BYTES[b.dtype] for b in rows) <= _ON_STACK:  # type: ignore[call-overload]
                    self.on_stack.update(rows)
                else:
                    scratch[id(step)] = rows
        arena = Arena(lowered.steps, scratch, lowered.held, ())
        self.offsets, end = placed(arena.spans)
        self.room = end
        self.ran: list[tuple[Any, Any]] = []
        self.source = self._source(writers)

    # -- C -------------------------------------------------------------------------------------------------------------

    def _place(self, buffer: Buffer) -> int:
        """Return the number of a buffer's pointer in the table."""
        if buffer not in self.places:
            self.places[buffer] = len(self.places)
            if buffer.place == "weights":
                self.kept.append((self.places[buffer], buffer.array))
        return self.places[buffer]

    def _pointer(self, buffer: Buffer, offset: Count = 0) -> str:
        kind = C_TYPES[buffer.dtype]
        if buffer in self.on_stack:
            size = (int(buffer.size) * BYTES[buffer.dtype] + _LINE - 1) // _LINE * _LINE  # type: ignore[call-overload]
            base = f"({kind} *)__builtin_alloca_with_align({size}, {8 * _LINE})"
        elif buffer.place == "arena":
            base = f"({kind} *)(arena + {self.offsets[buffer]})"
        else:
            base = f"({kind} *)at[{self._place(buffer)}]"
        return base if offset == 0 else f"{base} + {c_text(offset, True)}"

    def _source(self, writers: dict[int, GroupWriter]) -> str:
        parts: list[str] = []
        segment: list[str] = []
        self.order: list[tuple[Any, int]] = []  # the name of a C function or a kernel's call, and the last step of it

        def close(last: int) -> None:
            if segment:
                name = f"part_{len(parts)}"
                body = "\n".join(segment)
                both = "    memory both = {arena, at};\n    int error = 0;\n    (void)both, (void)error;\n"
                head = f"int {name}(char *const arena, void *const *const at)"
                parts.append(f"{head} {{\n{both}{body}\n    return 0;\n}}\n")
                self.order.append((name, last))
                segment.clear()

        loops: list[str] = []
        for k, step in enumerate(self.lowered.steps):
            if isinstance(step, Group):
                segment.append(self._loop(step, writers[id(step)], loops))
            elif is_kernel(step):
                close(k - 1)
                for v in (*step.arguments[1], *step.arguments[2]):
                    if isinstance(v, View) and v.buffer.place != "arena":
                        self._place(v.buffer)
                self.order.append((step, k))
            else:
                segment.append(f"    {self._call(step)}")
        close(len(self.lowered.steps) - 1)
        for v in self.lowered.outputs:
            self._place(v.buffer)
        text = "\n".join([*loops, *parts])
        used = "".join(f'#include "{f}"\n' for f in sorted(headers_for(text)))
        return f"{used}{_PRELUDE}\n{text}"

    def _loop(self, group: Group, writer: GroupWriter, loops: list[str]) -> str:
        """Add the function of a loop, which makes some of its turns; return its call, on several threads if it pays."""
        count = writer.cut() if not any(b not in self.on_stack for b in writer.scratch.values()) else None
        name = f"loop_{len(loops)}"
        lines = writer.write(None if count is None else ("begin", "end"))
        # elements do not wait for one another; gcc would ask that of each pair of pointers, and gives up on many
        free = '_Pragma("GCC ivdep") for (int64_t j ='
        body = "\n".join(f"    {line.replace('for (int64_t j =', free)}" for line in lines)
        loops.append(f"""static void {name}(void *const context, const ptrdiff_t begin, const ptrdiff_t end) {{
    char *const arena = ((const memory *)context)->arena;
    void *const *const at = ((const memory *)context)->at;
    (void)arena, (void)at, (void)begin, (void)end;
{body}
}}
""")
        if count is None:
            return f"    {name}(&both, 0, 1);"
        return f"    in_parallel({count}, {_work(group)}, {name}, &both);"

    def _call(self, call: Call) -> str:
        """Return the C of a call that stands within a part."""
        if call.function not in (PRODUCT, COLUMNS):
            return " ".join(["{", *call_lines(call, self._pointer), "}"])
        pointers = ["NULL" if v is None else self._pointer(v.buffer, v.offset)
                    for v in call.arguments if v is None or isinstance(v, View)]  # fmt: skip
        kind = "f32" if call.arguments[0].dtype == "float32" else "f64"
        if call.function == COLUMNS:
            return f"column_sums_{kind}({', '.join(pointers)}, {', '.join(map(str, call.arguments[2:]))});"
        x, m, _, _ = call.arguments
        a, b, bias, c = pointers
        sizes = (x.shape[0], m.shape[1], x.shape[1], *x.strides, *m.strides)
        return (f"{{ const product_{kind} p = {{{a}, {b}, {bias}, {c}, {', '.join(map(str, sizes))}}}; "
                f"if (!product_of_{kind}(&p, 1)) return 1; }}")  # fmt: skip

    def build(self) -> None:
        """Compile and load the loops, and make what a run calls."""
        functions: dict[str, int] = {}
        self.library = None
        names = [name for name, _ in self.order if isinstance(name, str)]
        if names:
            self.library = ctypes.CDLL(str(built(self.source, _FLAGS, _told())))
            if hasattr(_ctypes, "dlclose"):  # it goes with the last program that has it
                weakref.finalize(self, _ctypes.dlclose, self.library._handle)
            for name, kernel in kernel_addresses().items():
                ctypes.c_void_p.in_dll(self.library, name).value = kernel
            functions = {n: ctypes.cast(getattr(self.library, n), ctypes.c_void_p).value or 0 for n in names}
        whole = self.lowered.whole()
        wanted = {v.buffer for v in self.lowered.outputs}
        gone = {b: k for b, k in self.lowered.last_reads().items() if b.place == "kernel" and b not in wanted}
        self.still: list[View] = []
        self.steps: list[Step] = []
        for entry, last in self.order:
            if isinstance(entry, str):
                self.steps.append(_part(functions[entry]))
            else:
                self.steps.append(_kernel(entry, self.places, whole, self.lasting))
                self.still += [v for v in entry.arguments[1]
                               if isinstance(v, View) and v.buffer.place in ("arena", "weights")]  # fmt: skip
            ended = [b for b, k in gone.items() if k <= last]
            if ended:
                self.steps.append(_dropped(ended))
                gone = {b: k for b, k in gone.items() if k > last}
        self.only = functions[names[0]] if len(self.order) == 1 and names else 0
        own = [v for v in self.lowered.outputs if v.buffer.place == "output"]
        kinds = [kind_of(from_numpy(np.dtype(v.dtype))) for v in own]
        self.made = tuple([(np.dtype(v.dtype).num, tuple(v.shape), k) for v, k in zip(own, kinds, strict=True)])
        self.own = [v.buffer for v in own]
        numbers = {id(v): k for k, v in enumerate(own)}
        self.results = [numbers.get(id(v), v.buffer) for v in self.lowered.outputs]

    # -- running -------------------------------------------------------------------------------------------------------

    def __call__(self, tensors: Sequence[Tensor], drawn: Drawn = (0, 0)) -> list[Tensor]:
        """Run on the inputs, without a history, with the random numbers that begin at `drawn`; the results are new."""
        try:
            memory = self.free.pop()
        except IndexError:
            memory = Memory(self.room, len(self.places))
            self._fill(memory)
        point(memory.at, 0, tensors)
        made: list[Tensor] = make(memory.at, len(tensors), self.made)
        if self.only:
            run_loops(self.only, memory.arena, memory.at)
            self.free.append(memory)
            return made
        found, memory.drawn = memory.found, drawn
        found.update(zip(self.lowered.inputs, tensors, strict=True))
        found.update(zip(self.own, made, strict=True))
        for step in self.steps:
            step(memory)
        made = [made[k] if isinstance(k, int) else found[k] for k in self.results]
        found.clear()
        self.free.append(memory)
        return made

    def pieces(self) -> list[tuple[str, list[Line]]]:
        """Return for people what became a loop, and what core's own kernels do, each with its lines."""
        found = []
        for step in self.lowered.steps:
            if isinstance(step, Group):
                names = list(dict.fromkeys(i.op if i.inner else i.op.name for i in step.items))
                lines = dict.fromkeys(i.line for i in step.items if i.line is not None)
                count = len(step.items)
                found.append((f"one loop of {count} op{'s' * (count != 1)}: {', '.join(names)}", list(lines)))
                continue
            how = "in C" if step.function == COLUMNS else "in the same C, core's own"
            how = "core's own kernel" if is_kernel(step) else how
            found.append((f"{how}: {step.title}", [step.line] if step.line is not None else []))
        return found

    def said(self) -> list[str]:
        """Return `pieces` as lines."""
        return [what + _said(lines) for what, lines in self.pieces()]

    def bytes_kept(self) -> int:
        """Return how much memory a run takes: the arena, and results while somebody reads them."""
        step_bytes = [0] * (len(self.lowered.steps) + 1)
        wanted = {v.buffer for v in self.lowered.outputs}
        last = self.lowered.last_reads()
        own = sum(_bytes_of(b) for b in wanted)
        for k, step in enumerate(self.lowered.steps):
            for b in written_by(step) if is_kernel(step) else ():
                if b not in wanted:
                    for at in range(k, last.get(b, k) + 1):
                        step_bytes[at] += _bytes_of(b)
        return self.room + own + max(step_bytes)

    def _fill(self, memory: Memory) -> None:
        """Make what stays the same in all runs of a memory: pointers to constants, and tensors over the arena."""
        for k, array in self.kept:
            memory.table[k] = array.ctypes.data
        for v in self.still:
            dtype = np.dtype(v.dtype)
            holder = v.buffer.array if v.buffer.place == "weights" else memory.room
            start = holder.ctypes.data if v.buffer.place == "weights" else memory.arena + self.offsets[v.buffer]
            memory.fixed[v] = over(start + int(v.offset) * dtype.itemsize, v, dtype, holder)  # type: ignore[call-overload]


def _work(group: Group) -> int:
    """Return about how much a loop has to do, in additions of adjacent floats."""
    each = sum(3 if i.inner else 3 + 2 * len(i.op.statements) for i in group.items)
    return each * int(product(group.space))  # type: ignore[call-overload]


def _bytes_of(buffer: Buffer) -> int:
    return int(buffer.size) * BYTES[buffer.dtype]  # type: ignore[call-overload]


def _said(lines: Sequence[Line]) -> str:
    """Return for people which lines of which files something is made of."""
    if len(lines) == 1:
        return f" ({short(lines[0])})"
    files: dict[str, set[int]] = {}
    for line in lines:
        files.setdefault(line.file.replace("\\", "/").rpartition("/")[2], set()).add(line.number)
    said = [f"{file} line {min(n)}" + (f" to {max(n)}" if len(n) > 1 else "") for file, n in files.items()]
    return f" ({', '.join(said)})" if said else ""


def placed(spans: Mapping[Buffer, tuple[int, int]]) -> tuple[dict[Buffer, int], int]:
    """Return where in an arena each buffer begins, and how large that has to be: the largest first, each at the lowest
    place where nothing lies that is there at the same time."""
    found: dict[Buffer, int] = {}
    taken: list[tuple[int, int, int, int]] = []  # begin, end, first step, last step; by their beginnings
    room = 0
    for k, (b, (first, last)) in enumerate(sorted(spans.items(), key=lambda s: (-int(s[0].size), s[0].name))):
        # large ones not at the same place of each page: they would be in the way of one another
        stagger = 13 * k % 61 * _LINE if int(b.size) > 1024 else 0  # type: ignore[call-overload]
        size = (int(b.size) * BYTES[b.dtype] + stagger + _LINE - 1) // _LINE * _LINE  # type: ignore[call-overload]
        at = 0
        for begin, end, f, t in taken:
            if f <= last and first <= t and begin < at + size and at < end:
                at = end
        found[b] = at + stagger
        insort(taken, (at, at + size, first, last))
        room = max(room, at + size)
    return found, room


def _part(function: int) -> Step:
    def run(memory: Memory) -> None:
        run_loops(function, memory.arena, memory.at)

    return run


def _dropped(buffers: list[Buffer]) -> Step:
    def run(memory: Memory) -> None:
        for b in buffers:
            memory.found.pop(b, None)

    return run


class _Operand:
    """What a kernel is given for a view: of an input or a result that tensor, or a tensor over the same memory."""

    def __init__(self, view: View, whole: View | None, lasts: bool) -> None:
        self.view, self.buffer, self.lasts = view, view.buffer, lasts
        self.is_whole = view == whole
        self.dtype = np.dtype(view.dtype)

    def __call__(self, memory: Memory) -> Tensor:
        t: Tensor = memory.found[self.buffer]
        if self.is_whole:
            return t
        cached = memory.views.get(self)
        if cached is None or cached[0] is not t._a:
            start = address(t) + int(self.view.offset) * self.dtype.itemsize  # type: ignore[call-overload]
            cached = (t._a, over(start, self.view, self.dtype, t._a))
            if self.lasts:
                memory.views[self] = cached
        return cached[1]


class _Lying:
    """Says to NumPy where elements lie, and keeps what they lie in."""

    def __init__(self, interface: dict[str, Any], holder: Any) -> None:
        self.__array_interface__, self.holder = interface, holder


def over(start: int, view: View, dtype: Any, holder: Any) -> Tensor:
    """Return a tensor over memory, which `holder` keeps."""
    strides = tuple([int(s) * dtype.itemsize for s in view.strides])  # type: ignore[call-overload]
    said = {"data": (start, False), "shape": view.shape, "strides": strides, "typestr": dtype.str, "version": 3}
    return from_array(np.asarray(_Lying(said, holder)))


def _kernel(call: Call, places: dict[Buffer, int], whole: dict[Buffer, View], lasting: set[Buffer]) -> Step:
    """Return what calls a kernel of core's as the program itself does."""
    node, given, outs = call.arguments
    pairs = [(x, v) for x, v in zip(node.inputs, given, strict=True) if isinstance(v, View)]
    operands: list[tuple[Any, _Operand | None, View]] = []
    for x, v in pairs:
        lies = v.buffer.place in ("arena", "weights")
        operands.append((x, None if lies else _Operand(v, whole.get(v.buffer), v.buffer in lasting), v))
    direct = prepared(node) if node.op != "gradient" else prepared_gradient(node)
    dropped = declarations.structured["dropout"] if node.op == "dropout" else None
    declared = declarations.table.get(node.op)
    copies = getattr(declared, "view", False)
    targets = [None if v is None else (v.buffer, places[v.buffer], v.shape) for v in outs]

    def run(memory: Memory) -> None:
        tensors = {x: memory.fixed[v] if operand is None else operand(memory) for x, operand, v in operands}
        if dropped is not None:
            seed, first = memory.drawn
            results = dropped(*tensors.values(), p=node.params["p"], seed=seed, offset=first + node.params["offset"])
        else:
            results = Run(tensors, {}, None, {}).results(node) if direct is None else direct(tensors)
        results = results if isinstance(results, tuple) else (results,)
        for target, t in zip(targets, results, strict=False):
            if target is None:
                continue
            buffer, k, shape = target
            if t._a.shape != shape:
                raise RuntimeError(f"{node.op} gave {t._a.shape} where {shape} was recorded")
            if not t._a.flags.c_contiguous:
                t = t.contiguous()
            elif copies or any(t is x or t._a is x._a for x in tensors.values()):
                t = t.clone()
            memory.found[buffer] = t
            point(memory.at, k, (t,))

    return run
