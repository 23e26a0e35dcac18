"""Steps as a program that runs: the C of fused loops, compiled and loaded, and core's kernels called between."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..base import dtypes
from ..declare import op as declarations
from ..declare.compile_c import built
from ..export.c_elements import GroupWriter
from ..export.c_writer import headers_for
from ..export.groups import Arena, Group
from ..export.plan import C_TYPES, Buffer, Call, View
from ..export.polynomial import Count, c_text
from ..export.running import Run, prepared
from ..ops.creation import empty
from ..tensors.tensor import Tensor, from_array
from .lowered import Lowered

_NATIVE = Path(__file__).parents[1] / "native"
_INCLUDED = (_NATIVE / "kernels", _NATIVE, Path(__file__).parents[1] / "export" / "c")
_FLAGS = ("-std=gnu11", "-O3", "-g0", "-march=native", "-mprefer-vector-width=512", "-fPIC", "-shared", "-w", "-fopenmp-simd",
          "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", *(f"-I{p}" for p in _INCLUDED))  # fmt: skip
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
        self.fixed: dict[View, Tensor] = {}  # views of the arena and of constants
        self.views: dict[Any, tuple[Any, Tensor]] = {}  # of an operand the tensor that it last was, and of what


class CompiledProgram:
    """Runs the steps of a `Lowered` on tensors.

    loops : how many fused loops there are, and `kernels` how many calls of core's own kernels.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.loops = len(lowered.groups())
        self.kernels = sum(isinstance(s, Call) for s in lowered.steps)
        self.places: dict[Buffer, int] = {b: k for k, b in enumerate(lowered.inputs)}
        self.kept: list[Any] = []  # arrays of constants
        self.free: list[Memory] = []
        writers: dict[int, GroupWriter] = {}
        scratch: dict[int, Sequence[Buffer]] = {}
        for step in lowered.steps:
            if isinstance(step, Group):
                writer = writers[id(step)] = GroupWriter(step, lowered.held, self._pointer)
                scratch[id(step)] = list(writer.scratch.values())
        arena = Arena(lowered.steps, scratch, lowered.held, ())
        self.offsets, end = [], 0
        for counts in arena.slots:
            self.offsets.append(end)
            end += (max(int(c) for c in counts) + _LINE - 1) // _LINE * _LINE  # type: ignore[call-overload]
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
        if buffer.place == "arena":
            base = f"({kind} *)(arena + {self.offsets[buffer.slot or 0]})"
        else:
            base = f"({kind} *)at[{self._place(buffer)}]"
        return base if offset == 0 else f"{base} + {c_text(offset, True)}"

    def _source(self, writers: dict[int, GroupWriter]) -> str:
        parts: list[str] = []
        segment: list[str] = []
        self.order: list[Any] = []  # names of C functions, and calls of kernels

        def close() -> None:
            if segment:
                name = f"part_{len(parts)}"
                body = "\n".join(segment)
                parts.append(f"void {name}(char *const arena, void *const *const at) {{\n    (void)arena, (void)at;\n"
                             f"{body}\n}}\n")  # fmt: skip
                self.order.append(name)
                segment.clear()

        for step in self.lowered.steps:
            if isinstance(step, Group):
                segment += ["    {", *(f"        {line}" for line in writers[id(step)].write()), "    }"]
            else:
                close()
                for v in (*step.arguments[1], *step.arguments[2]):
                    if isinstance(v, View) and v.buffer.place != "arena":
                        self._place(v.buffer)
                self.order.append(step)
        close()
        for v in self.lowered.outputs:
            self._place(v.buffer)
        text = "\n".join(parts)
        used = "".join(f'#include "{f}"\n' for f in sorted(headers_for(text)))
        return f"{used}\n{text}"

    def build(self) -> None:
        """Compile and load the loops, and make what a run calls."""
        names = [name for name in self.order if isinstance(name, str)]
        library = ctypes.CDLL(str(built(self.source, _FLAGS, _told()))) if names else None
        last = self.lowered.last_reads()
        wanted = {v.buffer for v in self.lowered.outputs}
        ends = {}
        for b, k in last.items():
            if b.place == "kernel" and b not in wanted:
                ends.setdefault(k, []).append(b)
        whole = self.lowered.whole()
        still: list[View] = []
        at = 0
        steps: list[Step] = []
        for entry in self.order:
            if isinstance(entry, str):
                function = getattr(library, entry)
                function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], None
                steps.append(_segment(function))
                while at < len(self.lowered.steps) and isinstance(self.lowered.steps[at], Group):
                    gone = ends.get(at)
                    at += 1
                    if gone:
                        steps.append(_dropped(gone))
            else:
                steps.append(_kernel(entry, self.places, whole))
                still += [v for v in entry.arguments[1] if isinstance(v, View) and v.buffer.place in ("arena", "weights")]
                gone = ends.get(at)
                at += 1
                if gone:
                    steps.append(_dropped(gone))
        self.steps, self.still = steps, still
        self.library = library
        self.made = [(v.buffer, self.places[v.buffer], v.shape, _dtype(v.dtype)) for v in self.lowered.outputs]

    # -- running -------------------------------------------------------------------------------------------------------

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run on the inputs, without a history; the results are new tensors."""
        try:
            memory = self.free.pop()
        except IndexError:
            memory = Memory(self.room, len(self.places))
            self._fill(memory)
        table = memory.table
        found = memory.found
        for k, (buffer, t) in enumerate(zip(self.lowered.inputs, tensors, strict=True)):
            table[k] = address(t)
            found[buffer] = t
        results: list[Any] = []
        for buffer, k, shape, dtype in self.made:
            if buffer.place == "output":
                t = empty(shape, dtype=dtype)
                table[k] = address(t)
                results.append(t)
            else:
                results.append(buffer)
        for step in self.steps:
            step(memory)
        out = [found[t] if isinstance(t, Buffer) else t for t in results]
        found.clear()
        self.free.append(memory)
        return out


    def said(self) -> list[str]:
        """Return for people what became a loop, and what core's own kernels do."""
        lines = []
        for step in self.lowered.steps:
            if isinstance(step, Group):
                names = list(dict.fromkeys(i.op if i.inner else i.op.name for i in step.items))
                places = dict.fromkeys(str(i.line).rpartition("/")[2] for i in step.items if i.line is not None)
                at = f" ({'; '.join(places)})" if places else ""
                lines.append(f"one loop of {len(step.items)} ops: {', '.join(names)}{at}"[:300])
            else:
                lines.append(f"core's own kernel: {step.title}" + (f" ({step.line})" if step.line else ""))
        return lines

    def _fill(self, memory: Memory) -> None:
        """Make what stays the same in all runs of a memory: pointers to constants, and tensors over the arena."""
        for k, array in self.kept:
            memory.table[k] = array.ctypes.data
        for v in self.still:
            dtype = np.dtype(v.dtype)
            holder = v.buffer.array if v.buffer.place == "weights" else memory.room
            start = holder.ctypes.data if v.buffer.place == "weights" else memory.arena + self.offsets[v.buffer.slot or 0]
            memory.fixed[v] = over(start + int(v.offset) * dtype.itemsize, v, dtype, holder)  # type: ignore[call-overload]


def address(t: Tensor) -> int:
    """Return where a tensor's first element lies."""
    return int(t._a.ctypes.data)


def _segment(function: Any) -> Step:
    def run(memory: Memory) -> None:
        function(memory.arena, memory.at)

    return run


def _dropped(buffers: list[Buffer]) -> Step:
    def run(memory: Memory) -> None:
        for b in buffers:
            memory.found.pop(b, None)

    return run


def _dtype(name: str) -> Any:
    return getattr(dtypes, "bool_" if name == "bool" else name)


class _Operand:
    """What a kernel is given for a view: of an input or a result that tensor, or a tensor over the same memory."""

    def __init__(self, view: View, whole: View | None) -> None:
        self.view, self.buffer = view, view.buffer
        self.is_whole = view == whole
        self.dtype = np.dtype(view.dtype)

    def __call__(self, memory: Memory) -> Tensor:
        t: Tensor = memory.found[self.buffer]
        if self.is_whole:
            return t
        cached = memory.views.get(self)
        if cached is None or cached[0] is not t._a:
            start = address(t) + int(self.view.offset) * self.dtype.itemsize  # type: ignore[call-overload]
            cached = memory.views[self] = (t._a, over(start, self.view, self.dtype, t._a))
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


def _kernel(call: Call, places: dict[Buffer, int], whole: dict[Buffer, View]) -> Step:
    """Return what calls a kernel of core's as the program itself does."""
    node, given, outs = call.arguments
    pairs = [(x, v) for x, v in zip(node.inputs, given, strict=True) if isinstance(v, View)]
    operands = [(x, None if v.buffer.place in ("arena", "weights") else _Operand(v, whole.get(v.buffer)), v)
                for x, v in pairs]  # fmt: skip
    direct = prepared(node) if node.op != "gradient" else None
    declared = declarations.table.get(node.op)
    copies = getattr(declared, "view", False)
    targets = [None if v is None else (v.buffer, places[v.buffer], v.shape) for v in outs]

    def run(memory: Memory) -> None:
        tensors = {x: memory.fixed[v] if operand is None else operand(memory) for x, operand, v in operands}
        results = Run(tensors, {}, None, {})._results(node) if direct is None else direct(tensors)
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
            memory.table[k] = address(t)

    return run
