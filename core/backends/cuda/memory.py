"""Device memory: how much is in use, how much was at most, and who holds it when there is no more.

On a GPU arrays come from CuPy's pool through `Counted.malloc`, which keeps the figures. Under Triton's interpreter the
memory is NumPy's: each array that an op, a copy or a creation makes on the device is followed until it dies.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...graph.node import Node
from ...tensors.tensor import Tensor
from .devices import _On, current
from .shared import array_library, when_connected

Holder = tuple[str, int, int]  # what it is, its bytes, how many of the kind

reporters: list[Callable[[], Iterable[Holder]]] = []
"""Who can say which lines hold memory now: a recording that runs."""


class Figures:
    """The counts of one device, in bytes where they are not of arrays."""

    __slots__ = ("allocated", "allocations", "ooms", "peak", "reserved_peak")

    def __init__(self) -> None:
        self.allocated = self.allocations = 0  # since the start
        self.peak = self.reserved_peak = self.ooms = 0


_figures: dict[int, Figures] = {}


def figures(index: int) -> Figures:
    """Return the counts of a device."""
    found = _figures.get(index)
    if found is None:
        found = _figures[index] = Figures()
    return found


# -- a GPU -------------------------------------------------------------------------------------------------------------


class Counted:
    """CuPy's allocator with a count; memory of captured graphs comes from pools of their own."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.under = cupy.cuda.get_allocator()
        owner: Any = getattr(self.under, "__self__", None)
        self.pool: Any = owner if hasattr(owner, "used_bytes") else cupy.get_default_memory_pool()
        self.graphs: weakref.WeakSet[Any] = weakref.WeakSet()

    def malloc(self, size: int) -> Any:
        return self.take(self.under, self.pool, size)

    def take(self, under: Callable[[int], Any], pool: Any, size: int) -> Any:
        """Memory from `under`, counted; what is lacking is told with who holds the rest."""
        try:
            found = under(size)
        except MemoryError:
            found = None
        if found is None:
            raise self.lacking(size) from None
        now = _figures.get(found.device_id) or figures(found.device_id)
        now.allocations += 1
        now.allocated += size
        used = self.pool.used_bytes() if not self.graphs else self.used()
        if used > now.peak:
            now.peak = used
            self.note_reserved()
        return found

    def note_reserved(self) -> None:
        """Look at what is kept: before some of it is given back, and where more is in use than ever."""
        now = figures(int(self.cupy.cuda.runtime.getDevice()))
        now.reserved_peak = max(now.reserved_peak, self.reserved())

    def used(self) -> int:
        """Bytes in use on the current device."""
        extra = sum(p.used_bytes() for p in self.graphs) if self.graphs else 0
        return int(self.pool.used_bytes()) + extra

    def reserved(self) -> int:
        """Bytes that the pools have taken from the current device."""
        extra = sum(p.total_bytes() for p in self.graphs) if self.graphs else 0
        return int(self.pool.total_bytes()) + extra

    def lacking(self, size: int) -> Exception:
        index = int(self.cupy.cuda.runtime.getDevice())
        figures(index).ooms += 1
        free, total = self.cupy.cuda.runtime.memGetInfo()
        used, reserved = self.used(), self.reserved()
        return out_of_memory(size, index, total, free, used, reserved - used)


counted: Counted | None = None  # on a GPU, once it is there


def install(cupy: Any) -> None:
    """Count what CuPy allocates from now on."""
    global counted
    counted = Counted(cupy)
    cupy.cuda.set_allocator(counted.malloc)


when_connected.append(install)


# -- the interpreter ---------------------------------------------------------------------------------------------------

_alive: dict[int, weakref.ref[Any]] = {}
_bytes = 0


def made(array: Any) -> Any:
    """Count an array that was made on the interpreted device, until it dies; the array."""
    global _bytes
    if type(array) is not np.ndarray:
        return array
    root = array
    while type(root.base) is np.ndarray:
        root = root.base
    key, size = id(root), root.nbytes
    if key in _alive or not size:
        return array
    now = figures(0)

    def gone(_: Any) -> None:
        global _bytes
        _bytes -= size
        _alive.pop(key, None)

    _alive[key] = weakref.ref(root, gone)
    _bytes += size
    now.allocations += 1
    now.allocated += size
    now.peak = max(now.peak, _bytes)
    return array


def following(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel whose results are counted under the interpreter; on a GPU the kernel itself."""
    if array_library() is not np:
        return run

    def counting(*args: Any, **params: Any) -> Any:
        out = run(*args, **params)
        for a in out if isinstance(out, tuple | list) else (out,):
            made(a)
        return out

    return counting


# -- figures -----------------------------------------------------------------------------------------------------------


def used(index: int) -> int:
    """Return bytes of the arrays that live on a device."""
    return _on(index, counted.used) if counted is not None else _bytes


def reserved(index: int) -> int:
    """Bytes that are kept for arrays, in use or not."""
    return _on(index, counted.reserved) if counted is not None else _bytes


def reset_peak(index: int) -> None:
    """Begin the peaks anew at what is in use now."""
    now = figures(index)
    now.peak, now.reserved_peak = used(index), reserved(index)


def _on(index: int, ask: Callable[[], int]) -> int:
    if current() == index:
        return ask()
    with _On(index):
        return ask()


# -- out of memory -----------------------------------------------------------------------------------------------------


def size_text(n: float) -> str:
    """Bytes as people say them.

    >>> size_text(512), size_text(3 << 19), size_text(5 << 30)
    ('512 bytes', '1.50 MiB', '5.00 GiB')
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.2f} {unit}"
    return f"{int(n)} bytes"


def out_of_memory(size: int, index: int, total: int, free: int, in_use: int, kept: int) -> Exception:
    """Return the error for an array of `size` bytes: what there is, who holds it, what helps."""
    from triton_kernels.faults import OutOfMemoryError

    held = holders()
    lines = "".join(f"\n    {size_text(n)}: {what}" + (f" (x{times})" if times > 1 else "") for what, n, times in held)
    graph = " Tensors that require a gradient keep what made them: under core.no_grad() nothing is kept." if any(
        "graph" in what for what, _, _ in held) else ""  # fmt: skip
    return OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {size_text(size)}. GPU {index} has a total capacity of "
        f"{size_text(total)} of which {size_text(free)} is free. {size_text(in_use)} is held by arrays, and "
        f"{size_text(kept)} is kept for new ones but in pieces that do not fit.\n  held by:{lines or ' nothing here'}"
        f"\n  remedy: a smaller batch; del what is no longer needed; core.cuda.empty_cache().{graph}"
    )


def holders(most: int = 8) -> list[Holder]:
    """Return the largest that is alive: by the line that made it where a recording runs, else by shape and dtype."""
    for reporter in reporters:
        found = list(reporter())
        if found:
            return sorted(found, key=lambda h: -h[1])[:most]
    return sorted(_by_kind(), key=lambda h: -h[1])[:most]


def _instances(cls: type) -> list[Any]:
    """Return the live instances of a class. The collector is asked for those alone: a look at an object of somebody
    else's (a proxy, a lazy module) may run its code, or raise."""
    classes = [cls]
    for one in classes:
        classes += one.__subclasses__()
    ours = set(classes)
    return [o for o in gc.get_referrers(*classes) if type(o) in ours]


def _by_kind() -> list[Holder]:
    seen: set[int] = set()
    kinds: dict[str, list[int]] = {}

    def add(a: Any, what: str) -> None:
        root = a if getattr(a, "base", None) is None else a.base
        if id(root) in seen or not root.nbytes:
            return
        seen.add(id(root))
        entry = kinds.setdefault(f"{what} {tuple(root.shape)} {root.dtype}", [0, 0])
        entry[0] += int(root.nbytes)
        entry[1] += 1

    graph: list[Node] = []
    for t in _instances(Tensor):
        if t._kind is None:
            continue
        if t._node is not None:
            graph.append(t._node)
        if t._kind.device.type == "cuda":
            add(t._a, "a parameter" if t._requires_grad and t._node is None else "a tensor")
    met = set()
    while graph:  # after the tensors, so that what both hold counts as a tensor
        node = graph.pop()
        if node in met:
            continue
        met.add(node)
        graph.extend(n for n, _ in node.next_functions if isinstance(n, Node))
        if node.kind is not None and node.kind.device.type == "cuda":
            for value in node.saved or ():
                if hasattr(value, "nbytes") and hasattr(value, "strides"):
                    add(value, f"saved for the graph by {node.op.name},")
    return [(what, size, times) for what, (size, times) in kinds.items()]
