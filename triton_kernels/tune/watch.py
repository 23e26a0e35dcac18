"""What a kernel does with its memory, byte by byte, seen while Triton's interpreter runs it.

From it follow the roles of arguments: what is only read, what is written without having been read, what is both, what
atomic operations add to, and what stays unwritten. An access outside of every region is refused before it happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import FLOATING, Address, Call, View, address_of, laid, with_pointers
from .texts import made

READ, WRITTEN, ATOMIC = 1, 2, 4  # READ: before anything was written there


@dataclass
class Seen:
    """What a launch did. flags : for each byte of each region. after : the regions' bytes. terms : how many elements
    went into one result at most. rounded : the coarsest dtype that a product of matrices took. mixed : elements that
    one program read after another had written them. strays : what it asked for outside of its arguments, in words.
    beyond : the same, where it is only read and changes no result."""

    flags: list[np.ndarray]
    after: list[np.ndarray]
    terms: int = 1
    rounded: str = "fp64"
    mixed: int = 0
    strays: str = ""
    beyond: str = ""

    def role(self, view: View) -> str:
        """Return what an argument is: "in", "out", "both", "atomic" or "unused"; a "partly" before it where some of
        its elements were not written."""
        flags = view.of(self.flags[view.region])
        read, written, atomic = (bool((flags & bit).any()) for bit in (READ, WRITTEN, ATOMIC))
        role = "atomic" if atomic else {(0, 0): "unused", (1, 0): "in", (0, 1): "out", (1, 1): "both"}[read, written]
        whole = not written or bool((flags & WRITTEN).all())
        return role if whole else f"partly {role}"

    def roles(self, call: Call) -> dict[str, str]:
        """Return the role of each argument that points to memory."""
        return {name: self.role(view) for name, view in call.views()}


class Watch:
    """Asked by the interpreter about each access; see `interpreter.Memory`. regions : (names, first address, bytes).
    lenient : of what kinds accesses outside of them count as masked, and are told by `Seen.strays`. odd : what such a
    load gives."""

    multiplies = True

    def __init__(self, regions: Sequence[tuple[str, int, int]], lenient: Sequence[str] = (), odd: int = 0) -> None:
        self.program, self.lenient, self.strays, self.odd = 0, lenient, "", odd
        self.strayed: set[str] = set()
        self.names = [r[0] for r in regions]
        self.low = np.array([r[1] for r in regions], np.uint64)
        self.size = [r[2] for r in regions]
        self.high = self.low + np.array(self.size, np.uint64)
        self.flags = [np.zeros(size, np.uint8) for size in self.size]
        self._writer = [np.full(size, -1, np.int32) for size in self.size]
        self.terms, self.rounded, self.mixed = 1, "fp64", 0
        self._of, self._loaded = -1, 0
        self._deep: dict[int, int] = {}

    def check(self, kind: str, pointers: np.ndarray, mask: np.ndarray | None, size_bytes: int) -> np.ndarray | None:
        pointers = np.asarray(pointers)
        if mask is None:
            live = pointers.reshape(-1)
        else:
            live = pointers[np.broadcast_to(np.asarray(mask, bool), pointers.shape)]
        if not live.size:
            return None
        if kind == "load":
            self._count(int(live.size))
        first, last = int(live.min()), int(live.max()) + size_bytes
        for k in range(len(self.size)):  # the usual case: one region holds every lane
            if int(self.low[k]) <= first and last <= int(self.high[k]):
                self._note(kind, k, live, size_bytes)
                return None
        lanes = live[:, None]
        inside = np.asarray((lanes >= self.low) & (lanes < self.high) & (lanes + np.uint64(size_bytes) <= self.high))
        for k in np.flatnonzero(inside.any(axis=0)).tolist():
            self._note(kind, k, live[inside[:, k]], size_bytes)
        held = np.asarray(inside.any(axis=1))
        if held.all():
            return None
        self._stray(kind, live, held, size_bytes)
        left = np.zeros(pointers.shape, bool)
        left[np.broadcast_to(True if mask is None else np.asarray(mask, bool), pointers.shape)] = held
        return left

    def dot(self, dtype: str, depth: int, flops: int) -> None:
        """Note a product of matrices: what its operands are, and over how many elements it adds."""
        if dtype in FLOATING and FLOATING.index(dtype) > FLOATING.index(self.rounded):
            self.rounded = dtype
        self._deep[self.program] = self._deep.get(self.program, 0) + depth

    def seen(self, after: list[np.ndarray]) -> Seen:
        """Return what was noted."""
        terms = max(self._deep.values(), default=0) or max(self.terms, self._loaded)
        return Seen(self.flags, after, terms, self.rounded, self.mixed, self.strays)

    def _count(self, lanes: int) -> None:
        if self._of != self.program:
            self.terms, self._of, self._loaded = max(self.terms, self._loaded), self.program, 0
        self._loaded += lanes

    def _note(self, kind: str, k: int, addresses: np.ndarray, size_bytes: int) -> None:
        begins = (addresses - self.low[k]).astype(np.int64)
        places = (begins[:, None] + np.arange(size_bytes)).reshape(-1)
        flags = self.flags[k]
        before = flags[places]
        if kind != "store":
            fresh = (before & WRITTEN) == 0
            flags[places[fresh]] |= READ
            if kind == "load":
                self.mixed += int(((self._writer[k][places] != self.program) & ~fresh).sum()) // size_bytes
        if kind != "load":
            flags[places] |= WRITTEN if kind == "store" else WRITTEN | ATOMIC
            self._writer[k][places] = self.program

    def _stray(self, kind: str, live: np.ndarray, inside: np.ndarray, size_bytes: int) -> None:
        """Tell of an access outside of every region. *Raises*: OutOfBounds."""
        from ..interpreter import OutOfBounds

        stray = int(live[~inside][0])
        what = f"out-of-bounds {kind} of {size_bytes} bytes: {int((~inside).sum())} of {live.size} unmasked lanes in "
        what += f"program {self.program}"
        error = OutOfBounds(what)
        if self.size:
            ends = [(int(low), int(high)) for low, high in zip(self.low, self.high, strict=True)]
            near = min(range(len(ends)), key=lambda k: min(abs(stray - end) for end in ends[k]))
            low, high = ends[near]
            where = f"{low - stray} bytes before its start" if stray < low else f"{stray - high} bytes past its end"
            what += f"; of {self.names[near]} ({high - low:,} bytes) the first is {where}"
            error = OutOfBounds(what)
        error.short = what
        if kind not in self.lenient:
            raise error
        self.strays = self.strays or what
        self.strayed.add(kind)


_ODD = 77  # what a load beyond a launch's memory is given to see whether it matters


def watched(
    kernel: Any, call: Call, memory: Sequence[np.ndarray], addresses: Sequence[int], lenient: bool = False
) -> Seen:
    """Run a launch in the interpreter on regions that lie at `addresses`. lenient : accesses outside of them are told
    by what is returned; what is read there is `beyond` where the launch's results are the same with another content.

    *Raises*: what the kernel raises, and OutOfBounds.
    """
    if not lenient:
        watch = _run(kernel, call, memory, addresses, ("load",) if call.beyond else (), _ODD if call.beyond else 0)
        return watch.seen([np.array(m) for m in memory])
    watch = _run(kernel, call, memory, addresses, ("load", "store"), 0)
    seen = watch.seen([np.array(m) for m in memory])
    if watch.strayed == {"load"} and call.regions and not call.tables:
        other = laid(np, [len(r) for r in call.regions])
        for place, given in zip(other, call.regions, strict=True):
            place[...] = given
        _run(kernel, call, other, [address_of(m) for m in other], ("load", "store"), _ODD)
        if all(np.array_equal(one, two) for one, two in zip(seen.after, other, strict=True)):
            seen.beyond, seen.strays = seen.strays, ""
    return seen


def _run(
    kernel: Any, call: Call, memory: Sequence[np.ndarray], addresses: Sequence[int], lenient: Sequence[str], odd: int
) -> Watch:
    from ..interpreter import run

    watch = Watch([(n, a, len(m)) for n, a, m in zip(call.names, addresses, memory, strict=True)], lenient, odd)
    ready = {
        name: with_pointers(value, lambda v: Address(addresses[v.region] + v.offset, v.dtype))
        for name, value in call.arguments.items()
    }
    run(kernel, ready, call.grid, watch, warps=int(call.options.get("num_warps") or 4))
    return watch


class Interpreted:
    """A measure that runs launches in the interpreter for a process that compiles. See `measure.Measure`."""

    kind, estimate, steady, apart = "interpret", False, False, True
    environment: Mapping[str, str] = {"TRITON_INTERPRET": "1"}

    def open(self) -> dict[str, str]:
        from .. import runtime

        assert runtime.INTERPRET
        self._kernels: dict[str, Any] = {}
        return {"device": "Triton's interpreter"}

    def build(self, *_: Any) -> Any:
        raise NotImplementedError("it runs launches alone")

    check = pairs = rounds = build

    def dry(self, text: str, name: str, call: Call) -> Seen:
        """Run a launch; what it did. *Raises*: Failed."""
        if text not in self._kernels:
            self._kernels[text] = made(text, name)
        memory = laid(np, [len(r) for r in call.regions])
        for place, given in zip(memory, call.regions, strict=True):
            place[...] = given
        return watched(self._kernels[text], call, memory, [address_of(m) for m in memory], lenient=True)
