"""The tape: one run of a function as the ops that it ran, heard as an observer.

Values are numbered in the order in which they came to be, so that two runs of one function number them alike. Memory is
followed and not tensors: what is written in place gets a new value, and its other views are taken from that anew.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from .. import native
from ..base import source
from ..base.shape import Size
from ..base.source import Location, here, is_ours, locate
from ..declare import op as declarations
from ..declare.op import Elementwise
from ..events import observe
from ..rng.generator import states
from ..tensors.tensor import Tensor, from_array
from . import sizes
from .decisions import RANDOM, READS, decides
from .ir import ExportError, Line, SizeLookedUp

_MOST_NUMBERS = 10_000


class Entry(NamedTuple):
    """An op of a run: its inputs and outputs are numbers of values, wrapped in `Number` to tell them from numbers."""

    op: str
    inputs: tuple[Any, ...]
    params: dict[str, Any]
    outputs: tuple[int | None, ...]
    place: Any
    blocks: tuple[Taken, ...] = ()


class Taken(NamedTuple):
    """A branch, or the test or the body of a loop: the numbers of its inputs and outputs, and its ops."""

    inputs: tuple[int, ...]
    entries: list[Entry]
    outputs: tuple[int, ...]


class Ref(NamedTuple):
    """The value with this number."""

    index: int  # type: ignore[assignment] # it hides tuple.index, which nobody needs here


class Outside(NamedTuple):
    """A value that no op of the run made: `tensor` was there before, or was made by what the tape does not hear."""

    index: int  # type: ignore[assignment] # as above
    tensor: Tensor
    array: Any  # its values when it was first met
    place: Any


class Comparison(NamedTuple):
    """A comparison of sizes, by which the function may have decided something."""

    symbol: str
    left: Any
    right: Any
    truth: bool
    place: Any


class _Memory:
    """What tensors share that are views of one another: the value of the whole, and how often it was written."""

    __slots__ = ("before", "current", "first", "outside", "storage_version", "version", "whole")

    def __init__(self, current: int, whole: Tensor, outside: bool) -> None:
        self.first = self.current = current
        self.whole, self.outside = whole, outside
        self.version = 0
        self.storage_version = _version(whole)
        self.before: Any = None  # the values of the whole before the first write, where it was there before


class _Known:
    """A tensor on the tape: its memory, the views that lead to it, and its value as of a version of the memory."""

    __slots__ = ("index", "memory", "path", "tensor", "version")

    def __init__(self, tensor: Tensor, memory: _Memory, path: tuple[Any, ...], index: int) -> None:
        self.tensor, self.memory, self.path, self.index = tensor, memory, path, index
        self.version = memory.version


def _heard(method: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Return an observer's method for this thread's events alone, which keeps the first error and goes on: what the
    run writes has to be put back all the same."""

    def hear(self: Tape, event: Any) -> None:
        if not self._mine():
            return
        try:
            method(self, event)
        except ExportError as error:
            self.error = self.error or error

    return hear


class Tape(observe.Observer):
    """What one run of a function did."""

    wants = frozenset({"as ops"})

    def __init__(self, varies: bool = False) -> None:
        self.varies = varies  # whether any size does
        self.entries: list[Entry] = []
        self.shapes: list[tuple[int, ...]] = []  # of every value
        self.dtypes: list[str] = []
        self.outside: list[Outside] = []
        self.comparisons: list[Comparison] = []
        self.computed: dict[Any, dict[Any, None]] = {}  # numbers computed from sizes, with their formulas
        self.fixed: set[int] = set()  # values that depend on no argument and on no size
        self.read_as_is: list[Any] = []  # memories that Python read, which must not be written
        self.lengths: list[Any] = []  # the places where len() was asked for
        self.outputs: list[int] = []
        self.updates: list[tuple[int, int]] = []  # numbers of what was there before, and of its value afterwards
        self.error: Exception | None = None
        self._around: list[list[Entry]] = []  # the ops before the gradient that is being taken
        self._shadowed: dict[Any, _Known | None] = {}  # whose memory its own tensors have
        self._known: dict[int, _Known] = {}
        self._by_memory: dict[Any, _Known] = {}
        self.memories: list[_Memory] = []
        self._thread = threading.get_ident()

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, function: Callable[..., Any], args: Sequence[Any], inputs: Sequence[Tensor]) -> Any:
        """Run the function and hear it; what it wrote of what was there before is put back.

        Raises
        ------
        ExportError
            For what no program says: values that are read in Python, random numbers, writes that the tape cannot
            follow.
        """
        for t in inputs:
            self.register(t, self.new_value(t), outside=True)
        drawn = [state._a.copy() for _, state in states()]
        with ExitStack() as stack:
            stack.callback(self._put_back)
            stack.enter_context(_watched(self))
            stack.enter_context(observe.observing(self))
            result = function(*args)
        if self.error is not None:
            raise self.error
        if any(not np.array_equal(a, b._a) for a, (_, b) in zip(drawn, states(), strict=True)):
            raise refused("draws random numbers", self._drawn(), "draw them outside, and give them as an argument")
        return result

    def _drawn(self) -> Any:
        """Return where a tensor was filled with random numbers."""
        writes = (m.whole._storage.write for m in self.memories if m.whole._storage is not None)
        return next((write[1] for write in writes if write and write[0] in RANDOM), None)

    def finish(self, results: Sequence[Tensor]) -> None:
        """Note the values of the results, and what was written."""
        self.outputs = [self.value(t, None) for t in results]
        for memory in self.memories:
            if _version(memory.whole) - memory.storage_version != memory.version:
                name, place = memory.whole._storage.write or ("an in-place op", None)
                raise refused(f"writes a tensor in a way that is no op ({name})", place, "the op out of place")
            if memory.outside and memory.version:
                for read, place in self.read_as_is:
                    if read is memory:
                        raise refused("reads a value that the function itself writes", place, "stay with tensors")
                self.updates.append((memory.first, memory.current))

    def _put_back(self) -> None:
        for memory in self.memories:
            if memory.before is not None:
                memory.whole._a[...] = memory.before

    # -- values --------------------------------------------------------------------------------------------------------

    def new_value(self, t: Tensor) -> int:
        self.shapes.append(tuple(t._a.shape))
        self.dtypes.append(t._kind.dtype.name)
        return len(self.shapes) - 1

    def register(self, t: Tensor, index: int, *, outside: bool = False) -> _Known:
        """Note a tensor whose memory is its own."""
        memory = _Memory(index, t, outside)
        self.memories.append(memory)
        return self._note(t, memory, (), index)

    def _note(self, t: Tensor, memory: _Memory, path: tuple[Any, ...], index: int) -> _Known:
        known = self._known[id(t)] = _Known(t, memory, path, index)
        key = _key(t._a)
        if self._around:
            self._shadowed.setdefault(key, self._by_memory.get(key))
        self._by_memory[key] = known
        return known

    def value(self, t: Tensor, place: Any) -> int:
        """Return the number of a tensor's present value."""
        known = self._known.get(id(t))
        if known is None:
            found = self._by_memory.get(_key(t._a)) if t._a.size else None
            if found is not None:  # what the engine saved comes back as another tensor over the same memory
                known = self._known[id(t)] = _Known(t, found.memory, found.path, found.index)
                known.version = found.version
            else:
                index = self.new_value(t)
                self.fixed.add(index)
                self.outside.append(Outside(index, t, self.kept(t), place))
                known = self.register(t, index, outside=True)
        if tuple(t._a.shape) != self.shapes[known.index]:
            raise refused("changes the shape of a tensor in place", place, "reshape it out of place")
        if known.version != known.memory.version:
            known.index, known.version = self._viewed(known, place), known.memory.version
        return known.index

    def kept(self, t: Tensor) -> Any:
        """Return the values of a tensor that no op made, as a program keeps them."""
        return np.array(t._a, order="C")

    def _viewed(self, known: _Known, place: Any) -> int:
        """Return the value that a view has now that its memory was written: its steps, taken once more."""
        index = known.memory.current
        for op, params, which, shapes in known.path:
            outputs: list[int | None] = [None] * len(shapes)
            for k, shape in enumerate(shapes):
                if which is None or k == which:
                    self.shapes.append(shape)
                    self.dtypes.append(self.dtypes[index])
                    outputs[k] = len(self.shapes) - 1
            self.entries.append(Entry(op, (Ref(index),), dict(params), tuple(outputs), place))
            index = next(o for o in outputs if o is not None)
        return index

    # -- events --------------------------------------------------------------------------------------------------------

    @_heard
    def op(self, event: observe.OpEvent) -> None:
        """Note an op."""
        declared: Any = event.declared
        if declared is None:
            raise refused(f"steps by {event.op}, whose step is no op", event.place, "core.optim.SGD, Adam or AdamW")
        if declarations.table.get(declared.name) != declared:  # a custom Function, whose ops were heard one by one
            return
        inputs = tuple(Ref(self.value(t, event.place)) if isinstance(t, Tensor) else t for t in event.inputs)
        if isinstance(declared, Elementwise):
            params = dict(zip(declared.params, event.params, strict=True))
        else:
            params = dict(event.params)
            params = self.drawing(event, params) if "seed" in params and params.get("p", 1) else params
        outputs = tuple(self.new_value(t) for t in event.outputs)
        hidden = self._hidden(event, declared, len(outputs))
        self.entries.append(Entry(declared.name, inputs, params, (*outputs, *hidden), event.place))
        if all(x.index in self.fixed for x in inputs if isinstance(x, Ref)) and not _sized((inputs, params)):
            self.fixed.update(outputs)
        view = getattr(declared, "view", False)
        for k, (t, index) in enumerate(zip(event.outputs, outputs, strict=True)):
            if view:
                source = self._known[id(event.inputs[0])]
                which = k if declared.returns != 1 else None
                shapes = tuple(self.shapes[i] for i in outputs)
                step = (declared.name, tuple(params.items()), which, shapes)
                self._note(t, source.memory, (*source.path, step), index)
            else:
                self.register(t, index)

    def drawing(self, event: observe.OpEvent, params: dict[str, Any]) -> dict[str, Any]:
        raise refused(f"draws random numbers ({event.op})", event.place, "module.eval(), or p=0")

    def _hidden(self, event: observe.OpEvent, declared: Any, shown: int) -> list[int | None]:
        """Return the numbers of the outputs that an op keeps for its gradient alone, such as a norm's statistics."""
        node = event.node
        if node is None or len(declared.outputs) <= shown or not declared.returns:
            return []
        found: list[int | None] = [None] * (len(declared.outputs) - shown)
        for slot, array in zip(declared.slots, node.saved or (), strict=False):
            if slot.where == "output" and slot.index >= shown and array is not None:
                t = from_array(array)
                found[slot.index - shown] = index = self.new_value(t)
                self.register(t, index)
        return found

    @_heard
    def cut(self, event: observe.CutEvent) -> None:
        """Follow a tensor that shares another's memory without an op."""
        if event.kind in ("detach", "data"):
            self.value(event.tensor, event.place)
            source = self._known[id(event.tensor)]
            known = self._known[id(event.result)] = _Known(event.result, source.memory, source.path, source.index)
            known.version = source.version
        elif event.kind == "tensor":
            raise refused("makes a tensor of tensors' values (core.tensor)", event.place,
                          "core.stack of several, x.clone() of one")  # fmt: skip

    @_heard
    def read(self, event: observe.ReadEvent) -> None:
        """Refuse a value that Python reads: what it decides there is not on the tape."""
        if event.kind == "print":  # a program prints nothing
            return
        if event.kind == "len":
            if decides(event.place):
                self.lengths.append((self.value(event.tensor, event.place), event.place))
            return
        if event.tensor is not None and self._is_fixed(event.tensor, event.place):
            return
        said, remedy = READS[event.kind]
        raise refused(said, event.place, remedy)

    def _is_fixed(self, t: Tensor, place: Any) -> bool:
        """Return whether a value is what it is whatever the arguments are: a weight, a buffer, what is made of these.
        A program is a snapshot of them, so they may be read, if it does not write them itself."""
        index = self.value(t, place)
        if index not in self.fixed:
            return False
        self.read_as_is.append((self._known[id(t)].memory, place))
        return True

    @_heard
    def write(self, event: observe.WriteEvent) -> None:
        """Give what is written its new value, and the whole whose part it is."""
        target = event.target
        if event.result is None:
            raise refused(f"writes what comes from elsewhere ({event.name})", event.place, "give it as an argument")
        self.value(target, event.place)
        known = self._known[id(target)]
        memory = known.memory
        if memory.outside and (memory.whole._base is not None or not memory.whole._a.flags.owndata):
            base = memory.whole._a.base
            if base is not None and getattr(base, "size", -1) != memory.whole._a.size:
                raise refused(f"writes ({event.name}) a view of memory from outside", event.place, "write to a clone")
        if memory.outside and memory.before is None:
            memory.before = memory.whole._a.copy()
        index = self.value(event.result, event.place)
        if known.path:
            whole = memory.current
            self.shapes.append(self.shapes[whole])
            self.dtypes.append(self.dtypes[whole])
            memory.current = len(self.shapes) - 1
            path = tuple((op, params, which) for op, params, which, _ in known.path)
            self.entries.append(Entry("put", (Ref(whole), Ref(index)), {"path": path}, (memory.current,), event.place))
        else:
            memory.current = index
        memory.version += 1
        known.index, known.version = index, memory.version
        self._by_memory[_key(target._a)] = known

    @_heard
    def made(self, event: observe.MadeEvent) -> None:
        """Note a tensor that was made from numbers."""
        if event.how == "random":
            raise refused("draws random numbers", event.place, "draw them outside, and give them as an argument")
        t = event.tensor
        names = ("shape", "value") if event.how == "full" else ("start", "end", "step")
        params = {**dict(zip(names, event.given, strict=True)), "dtype": t._kind.dtype.name}
        index = self.new_value(t)
        self.entries.append(Entry(event.how, (), params, (index,), event.place))
        self.register(t, index)

    @_heard
    def gradient_ops(self, event: observe.GradientOpsEvent) -> None:
        """Put the ops of one op's gradient into a block; one of an op within it stays apart."""
        if event.results is None:
            self._around.append(self.entries)
            self.entries = []
            return
        inner, self.entries = self.entries, self._around.pop()
        entry = None if self._around else self._gradient(event, inner)
        self.entries += [entry] if entry is not None else inner
        if entry is not None:
            made = {k for e in inner for k in e.outputs}.difference(entry.outputs)
            for key, before in self._shadowed.items():
                if self._by_memory[key].index in made:  # nobody else has these tensors
                    self._by_memory.pop(key)
                    if before is not None:
                        self._by_memory[key] = before
        if not self._around:
            self._shadowed.clear()

    def _gradient(self, event: observe.GradientOpsEvent, inner: list[Entry]) -> Entry | None:
        """Return the op that stands for the ops of a gradient; None where it would be no less."""
        made = {k for entry in inner for k in entry.outputs}
        if len(inner) < 2 or any(entry.op == "put" for entry in inner):
            return None
        inputs: list[Any] = []
        given: list[tuple[str, int | None]] = []
        plain: list[tuple[str, Any]] = []
        for name, x in event.given.items():
            if isinstance(x, Tensor):
                given.append((name, None))
                inputs.append(x)
            elif isinstance(x, tuple) and any(isinstance(v, Tensor) for v in x):
                given.append((name, len(x)))
                inputs += x
            else:
                plain.append((name, x))
        refs = tuple([None if x is None else Ref(self.value(x, event.place)) for x in inputs])
        wanted = [(i, self.value(t, event.place)) for i, t in enumerate(event.results or ()) if t is not None]
        wanted = [(i, k) for i, k in wanted if k in made]  # another one is passed on as it came
        if any(isinstance(x, Ref) and x.index in made for x in refs) or not wanted:
            return None
        params = {"of": event.op.name, "given": tuple(given), "plain": tuple(plain),
                  "wanted": tuple([i for i, _ in wanted])}  # fmt: skip
        outputs = tuple([k for _, k in wanted])
        return Entry("gradient", refs, params, outputs, event.place, (Taken((), inner, outputs),))

    def failed(self, error: Exception) -> None:
        """Keep the error: the run goes on to its end, and then raises it."""
        self.error = self.error or error

    def _mine(self) -> bool:
        return threading.get_ident() == self._thread

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def shape_of(self, t: Tensor) -> Size:
        """Return a tensor's shape, in integers that remember whose they are."""
        if (known := self._known.get(id(t))) is None or not self._mine():
            return Size(t._a.shape)
        return Size([sizes.Dim(n, ("size", known.index, axis)) for axis, n in enumerate(t._a.shape)])

    def size_of(self, index: int, axis: int) -> int:
        """Return a size of a value."""
        return self.shapes[index][axis]

    def note_computed(self, number: Any, formula: Any) -> None:
        """Note a number that was computed from sizes."""
        if self._mine() and len(self.computed) < _MOST_NUMBERS:
            self.computed.setdefault(number, {})[formula] = None

    def look_up(self) -> None:
        """Raise SizeLookedUp where the user's code looks a size up in a table."""
        if self.varies and self._mine():
            what = "looks a size that may vary up in a table (a dict, a set, a cache), which answers for this one alone"
            remedy = "what is kept in the table computed anew, or int(size), which fixes it"
            raise SizeLookedUp(str(refused(what, here(3), remedy)))

    def compared(self, symbol: str, left: Any, right: Any, truth: bool) -> None:
        """Note a comparison of sizes that the user's code makes. core's own are checks, or choose among equal ways, but
        for those by which squeeze() decides how many dimensions are left."""
        code = sys._getframe(2).f_code
        if self._mine() and (code.co_qualname.startswith("squeeze") or not is_ours(code.co_filename)):
            self.comparisons.append(Comparison(symbol, left, right, truth, here(3)))


class _watched:
    """Lets a tape hear of shapes and of comparisons of sizes, for the length of a block."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def __enter__(self) -> None:
        self.heard = sizes.compared, sizes.computed, sizes.looked_up
        sizes.compared, sizes.computed = self.tape.compared, self.tape.note_computed
        sizes.looked_up = self.tape.look_up
        self.shapes = native.module.watch_sizes(self.tape.shape_of) if native.module is not None else None

    def __exit__(self, *exc: object) -> None:
        sizes.compared, sizes.computed, sizes.looked_up = self.heard
        if native.module is not None:
            native.module.watch_sizes(self.shapes)


def _sized(x: Any) -> bool:
    if isinstance(x, dict):
        return any(map(_sized, x.values()))
    return any(map(_sized, x)) if isinstance(x, list | tuple) else isinstance(x, sizes.Dim | sizes.Real)


def _version(t: Tensor) -> int:
    return 0 if t._storage is None else int(t._storage.version)


def _key(a: Any) -> Any:
    return (a.__array_interface__["data"][0], a.shape, a.strides, a.dtype.char)


def line_of(place: Any) -> Line | None:
    """Return the line of a place."""
    if place is None:
        return None
    found: Location = locate(*place)
    return Line(source.name_of_file(found.file) or found.file, found.line, found.code)  # a cell is "In [3]"


def refused(what: str, place: Any, remedy: str) -> ExportError:
    line = line_of(place)
    where = f"{line} {what}" if line is not None else f"the function {what}"
    return ExportError(f"cannot export this: {where}\n  remedy: {remedy}")
