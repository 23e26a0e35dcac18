"""Tensors from one process to another."""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor
from .buffers import Buffers
from .collectives import a_tensor, rank_in
from .groups import mine
from .work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to rank `dst`; return when its memory may be used again."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
          group_dst: int | None = None) -> Work | None:  # fmt: skip
    """Send a tensor to rank `dst`; return the work."""
    g = mine(group, "isend")
    if g is None:
        return None
    t, buffers = a_tensor(tensor, "isend"), Buffers(g, "isend")
    a, to = buffers.read(t), rank_in(g, dst, group_dst, "isend")
    return Work("isend", g, g.comm.send(a, to, tag), buffers.end, t, buffers.size_bytes, a)


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
          group_src: int | None = None) -> Work | None:  # fmt: skip
    """Receive a tensor from rank `src`, from any without one; return the work."""
    g = mine(group, "irecv")
    if g is None:
        return None
    t, buffers = a_tensor(tensor, "irecv"), Buffers(g, "irecv")
    a = buffers.written(t)
    source = None if src is None and group_src is None else rank_in(g, src, group_src, "irecv")
    requests = g.comm.receive(a, source, tag)
    return Work("irecv", g, requests, buffers.end, t, buffers.size_bytes, a)


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor from rank `src`, from any without one; return the rank that sent it."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """A message that `batch_isend_irecv` sends or receives."""

    def __init__(self, op: Any, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
                 group_peer: int | None = None) -> None:  # fmt: skip
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Send and receive messages; return the work of each."""
    return [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]
