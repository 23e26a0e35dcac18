"""Python objects between the processes of a group.

They go as pickles, as PyTorch's do: whoever receives one runs what it says. The processes of a group are one job of one
user and trust each other; never join a group of strangers.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ..base.errors import text
from . import checking
from .collectives import rank_in
from .groups import ProcessGroup, mine
from .work import Work

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list",
           "send_object_list"]  # fmt: skip


def _agreed(group: Any, op: str) -> ProcessGroup | None:
    """Return the group, None for one without this process; compared with the other ranks where that is asked for."""
    g = mine(group, op)
    if g is not None and checking.wanted(g):
        checking.compare(g, op, "")
    return g


def _dumped(obj: Any) -> Any:
    return np.frombuffer(bytearray(pickle.dumps(obj)), np.uint8)


def _wait(g: ProcessGroup, op: str, requests: list[Any], *arrays: Any) -> None:
    Work(op, g, requests, size_bytes=sum(a.nbytes for a in arrays), held=arrays).wait()


def _sizes(g: ProcessGroup, op: str, size: int) -> list[int]:
    """Return the sizes that all ranks give."""
    own, all_sizes = np.array([size], np.int64).view(np.uint8), np.empty(8 * g.size(), np.uint8)
    _wait(g, op, g.comm.all_gather(all_sizes, [8] * g.size(), own), all_sizes, own)
    return all_sizes.view(np.int64).tolist()  # type: ignore[no-any-return]


def _split(whole: Any, sizes: list[int]) -> list[Any]:
    found, at = [], 0
    for size in sizes:
        found.append(pickle.loads(whole[at : at + size].tobytes()))
        at += size
    return found


def _needs_entries(many: Any, g: ProcessGroup, op: str, name: str) -> None:
    if many is None or len(many) != g.size():
        raise ValueError(text("the list needs one entry for each process", op=f"distributed.{op}",
                              came=f"{name} of {0 if many is None else len(many)}",
                              needed=f"{g.size()} entries"))  # fmt: skip


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the objects of all processes into a list, as pickles carry them."""
    g = _agreed(group, "all_gather_object")
    if g is None:
        return
    _needs_entries(object_list, g, "all_gather_object", "object_list")
    own = _dumped(obj)
    sizes = _sizes(g, "all_gather_object", own.size)
    whole = np.empty(sum(sizes), np.uint8)
    _wait(g, "all_gather_object", g.comm.all_gather(whole, sizes, own), whole, own)
    object_list[: g.size()] = _split(whole, sizes)


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
                  group_dst: int | None = None) -> None:  # fmt: skip
    """Put the objects of all processes into a list of rank `dst`."""
    g = _agreed(group, "gather_object")
    if g is None:
        return
    to, own = rank_in(g, dst, group_dst, "gather_object"), _dumped(obj)
    if g.rank() == to:
        _needs_entries(object_gather_list, g, "gather_object", "object_gather_list")
    sizes = _sizes(g, "gather_object", own.size)
    whole = np.empty(sum(sizes) if g.rank() == to else 0, np.uint8)
    _wait(g, "gather_object", g.comm.gather(whole, sizes, own, to), whole, own)
    if object_gather_list is not None and g.rank() == to:
        object_gather_list[: g.size()] = _split(whole, sizes)


def broadcast_object_list(object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
                          group_src: int | None = None, **ignored: Any) -> None:  # fmt: skip
    """Copy the list of rank `src` into those of all others."""
    g = _agreed(group, "broadcast_object_list")
    if g is None:
        return
    of = rank_in(g, src, group_src, "broadcast_object_list")
    own = _dumped(list(object_list)) if g.rank() == of else np.empty(0, np.uint8)
    size = np.array([own.size], np.int64)
    _wait(g, "broadcast_object_list", g.comm.broadcast(size.view(np.uint8), of), size)
    whole = own if g.rank() == of else np.empty(int(size[0]), np.uint8)
    _wait(g, "broadcast_object_list", g.comm.broadcast(whole, of), whole)
    if g.rank() != of:
        object_list[:] = pickle.loads(whole.tobytes())


def scatter_object_list(scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
                        src: int | None = None, group: Any = None, group_src: int | None = None) -> None:  # fmt: skip
    """Put the entries of a list of rank `src` into the first place of the lists of the processes, by their numbers."""
    g = _agreed(group, "scatter_object_list")
    if g is None:
        return
    of = rank_in(g, src, group_src, "scatter_object_list")
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    parts: list[Any] = []
    if g.rank() == of:
        _needs_entries(scatter_object_input_list, g, "scatter_object_list", "scatter_object_input_list")
        parts = [_dumped(x) for x in scatter_object_input_list or []]
    sizes = np.array([p.size for p in parts] or [0] * g.size(), np.int64)
    _wait(g, "scatter_object_list", g.comm.broadcast(sizes.view(np.uint8), of), sizes)
    whole = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    own = np.empty(int(sizes[g.rank()]), np.uint8)
    _wait(g, "scatter_object_list", g.comm.scatter(own, whole, sizes.tolist(), of), own, whole)
    scatter_object_output_list[0] = pickle.loads(own.tobytes())


def send_object_list(object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None,
                     group_dst: int | None = None, **ignored: Any) -> None:  # fmt: skip
    """Send a list of objects to rank `dst`."""
    g = mine(group, "send_object_list")
    if g is None:
        return
    to, own = rank_in(g, dst, group_dst, "send_object_list"), _dumped(list(object_list))
    size = np.array([own.size], np.int64)
    _wait(g, "send_object_list", g.comm.send(size.view(np.uint8), to, 0) + g.comm.send(own, to, 0), size, own)


def recv_object_list(object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
                     group_src: int | None = None, **ignored: Any) -> int:  # fmt: skip
    """Receive a list of objects from rank `src`, from any without one; return the rank that sent it."""
    g = mine(group, "recv_object_list")
    if g is None:
        return -1
    source = None if src is None and group_src is None else rank_in(g, src, group_src, "recv_object_list")
    size = np.empty(1, np.int64)
    requests = g.comm.receive(size.view(np.uint8), source, 0)
    _wait(g, "recv_object_list", list(requests), size)
    source = requests[0].source if source is None else source
    own = np.empty(int(size[0]), np.uint8)
    _wait(g, "recv_object_list", g.comm.receive(own, source, 0), own)
    object_list[:] = pickle.loads(own.tobytes())
    return g.ranks[source]
