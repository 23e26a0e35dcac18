"""What C does for a program: buffers, strided views of them, and steps: loops over elements, calls and control flow.

Sizes are polynomials of the sizes of the run, so that one plan serves them all. A view costs nothing; a step is either
an `Item` (an elementwise op or a reduction, which `groups` fuses with its neighbours), or a `Call` of a C function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .ir import ExportError, Line
from .polynomial import Count, divided, product

C_TYPES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t",
           "int8": "int8_t", "uint8": "uint8_t", "bool": "uint8_t"}  # fmt: skip
BYTES = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


class Buffer:
    """Memory of one dtype: in the arena, among the weights, an input or an output."""

    __slots__ = ("array", "dtype", "kept", "name", "number", "place", "size", "slot")

    def __init__(self, name: str, dtype: str, size: Count, place: str = "arena", number: int = 0,
                 array: Any = None) -> None:  # fmt: skip
        self.name, self.dtype, self.size, self.place, self.number, self.array = name, dtype, size, place, number, array
        self.slot: int | None = None  # of the arena, for what needs memory there
        self.kept = False  # held for longer than its readers say: what a loop carries

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{self.size}] in {self.place}"


class View(NamedTuple):
    """Elements of a buffer."""

    buffer: Buffer
    shape: tuple[Count, ...]
    strides: tuple[Count, ...]
    offset: Count = 0

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    @property
    def size(self) -> Count:
        return product(self.shape)

    def is_contiguous(self) -> bool:
        """Return whether its elements lie one after the other at every size of the run."""
        step: Count = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != step:
                return False
            step = step * n
        return True

    def is_whole(self) -> bool:
        """Return whether it is all of its buffer, in order."""
        return self.is_contiguous() and self.offset == 0 and self.size == self.buffer.size


def row_major(shape: Sequence[Count]) -> tuple[Count, ...]:
    """Return the strides of what lies one after the other."""
    strides: list[Count] = []
    step: Count = 1
    for n in reversed(shape):
        strides.append(step)
        step = step * n
    return tuple(reversed(strides))


class Access(NamedTuple):
    """How an operand is read along the axes of an item's space."""

    buffer: Buffer
    offset: Count
    strides: tuple[Count, ...]

    def padded(self, count: int) -> Access:
        """Return it for a space with `count` more axes at the end, along which it stays where it is."""
        return Access(self.buffer, self.offset, self.strides + (0,) * count)


class Index(NamedTuple):
    """The place along an axis of the space, as an operand."""

    axis: int


class Item(NamedTuple):
    """An elementwise op or a reduction over a space of indices.

    op : what computes the element: a traced elementwise op with its values of the parameters, or the name of a
        reduction (sum, max, min, prod), of one operand over the last `inner` axes.
    """

    op: Any
    params: tuple[Any, ...]
    space: tuple[Count, ...]
    operands: tuple[Any, ...]  # Access, Index, numbers, Sized
    out: Access
    inner: int
    kind: str  # the dtype that is computed in
    line: Line | None
    alone: bool = False  # writes a part of a buffer that others write too

    def reads(self) -> list[Access]:
        """Return the operands that are memory."""
        return [x for x in self.operands if isinstance(x, Access)]

    def split(self, space: tuple[Count, ...]) -> Item | None:
        """Return the item over the same elements with its axes split into those of `space`; None where an index of
        an axis that is split is asked for."""
        parts = _parts(self.space, space)
        if parts is None:
            return None
        operands = []
        for x in self.operands:
            if isinstance(x, Access):
                x = Access(x.buffer, x.offset, _split_strides(x.strides, parts))
            elif isinstance(x, Index):
                if len(parts[x.axis]) != 1:
                    return None
                x = Index(sum(len(p) for p in parts[: x.axis]))
            operands.append(x)
        kept = len(self.space) - self.inner
        out = Access(self.out.buffer, self.out.offset, _split_strides(self.out.strides, parts))
        inner = sum(len(p) for p in parts[kept:])
        return self._replace(space=space, operands=tuple(operands), out=out, inner=inner)


def _parts(old: tuple[Count, ...], new: tuple[Count, ...]) -> list[tuple[Count, ...]] | None:
    """Return for each old axis the new axes that it is split into."""
    rest = list(new)
    found: list[tuple[Count, ...]] = []
    for n in old:
        part: list[Count] = []
        left: Count | None = n
        while left != 1:
            if not rest:
                return None
            left = divided(left, rest[0])
            if left is None:
                return None
            part.append(rest.pop(0))
        found.append(tuple(part))
    return found if not rest else None


def _split_strides(strides: tuple[Count, ...], parts: list[tuple[Count, ...]]) -> tuple[Count, ...]:
    found: list[Count] = []
    for stride, part in zip(strides, parts, strict=True):
        found += [stride * n for n in row_major(part)]
    return tuple(found)


def common_space(a: tuple[Count, ...], b: tuple[Count, ...]) -> tuple[Count, ...] | None:
    """Return the axes that both can be split into, of as many elements; None where there are none.

    >>> common_space((12, 5), (3, 20))
    (3, 4, 5)
    """
    left, right = list(a), list(b)
    found: list[Count] = []
    while left and right:
        m, n = left.pop(), right.pop()
        if m == n:
            found.append(m)
            continue
        larger, smaller = (m, n) if divided(m, n) is not None else (n, m)
        share = divided(larger, smaller)
        if share is None or share == 1:
            return None
        found.append(smaller)
        (left if larger is m else right).append(share)
    if left or right:
        return None
    return tuple(reversed(found))


class Call(NamedTuple):
    """A call of a C function. Arguments are views and buffers (pointers), sizes, and texts that stand as they are."""

    function: str
    arguments: tuple[Any, ...]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    line: Line | None
    title: str
    fails: bool = False  # returns an error code
    loops: tuple[tuple[Count, tuple[Count, ...]], ...] = ()  # (size, step of each pointer): called for each index


class Branch(NamedTuple):
    """if: the condition and what runs in either case."""

    condition: View
    then: list[Any]
    other: list[Any]
    line: Line | None


class Loop(NamedTuple):
    """while: what computes the condition, the condition, and what runs."""

    test: list[Any]
    condition: View
    body: list[Any]
    line: Line | None
    carried: tuple[Buffer, ...]


class Check(NamedTuple):
    """A comparison of sizes that has to hold for the program to run."""

    left: Any
    comparison: str
    right: Any
    truth: bool
    why: str


def refused(node: Any, why: str, remedy: str) -> ExportError:
    """Return the error for what C is not written for."""
    where = f"{node.line}: " if node.line is not None else ""
    return ExportError(f"cannot write C for this program: {where}{node.op}: {why}\n  remedy: {remedy}")
