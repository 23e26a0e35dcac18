"""Making the node of an op that ran: what it points to, what it saves, on which line it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..base.source import ours, user_frame
from ..declare.op import Op, Slot
from ..graph.node import Node, Storage
from ..graph.versions import refresh, storage_of
from ..tensors.tensor import Tensor
from . import saved_tensor_hooks


def record_node(
    op: Op,
    outs: Sequence[Tensor],
    tensors: Sequence[Any],
    arrays: Sequence[Any],
    out_arrays: Sequence[Any],
    params: Any,
) -> Node | None:
    """Make the node of an op that ran, if any input requires a gradient, and tie its outputs to it."""
    if not op.recorded:
        return None
    mask, edges, nrs = 0, [], None
    for i, t in enumerate(tensors):
        e = None
        if isinstance(t, Tensor):
            if t._base is not None:
                refresh(t)
            if t._requires_grad:
                e = t._node or t
                mask |= 1 << i
                if t._nr:
                    nrs = nrs or [0] * len(tensors)
                    nrs[i] = t._nr
        edges.append(e)
    if not mask:
        return None
    frame: Any = sys._getframe(2)
    if ours.get(frame.f_code.co_filename, True):
        frame = user_frame(frame)
    if frame is None:
        node = Node(op, tuple(edges), outs[0]._kind, None, 0)
    else:
        node = Node(op, tuple(edges), outs[0]._kind, frame.f_code, frame.f_lasti)
    if nrs:
        node.nrs = tuple(nrs)
    node.params = params
    slots = op.plan(mask)
    if slots:
        _save(node, op, slots, tensors, arrays, out_arrays)
    if len(outs) == 1:
        out = outs[0]
        out._node, out._requires_grad = node, True
    else:
        node.out_meta = tuple((out._a.shape, out._kind) for out in outs)
        for j, out in enumerate(outs):
            if out._kind.dtype.category >= 2:
                out._node, out._requires_grad, out._nr = node, True, j
    return node


def _save(node: Node, op: Op, slots: Sequence[Slot | None], tensors: Sequence[Any], arrays: Sequence[Any],
          out_arrays: Sequence[Any]) -> None:  # fmt: skip
    """Keep what the gradient needs, and of inputs the version. An output's storage comes when somebody asks for it:
    `storage_of` then tells the node."""
    saved: list[Any] = []
    storages: list[Storage | None] = []
    written = False
    for slot in slots:
        value = storage = None
        if slot is not None:
            _, where, i = slot
            if where == "output":
                value = out_arrays[i]
            elif op.variadic:
                value = _saved_of_all(where, tensors, arrays)
            elif where == "input":
                value, t = arrays[i], tensors[i]
                if isinstance(t, Tensor):
                    storage = t._storage
                    if storage is None:
                        storage = storage_of(t)
                    elif storage.version:
                        written = True
            elif arrays[i] is not None:
                value = getattr(arrays[i], "shape", ()) if where == "shape" else tensors[i]._kind.dtype
        saved.append(value)
        storages.append(storage)
    node.saved, node.storages = tuple(saved), tuple(storages)
    if written:
        node.versions = tuple([0 if st is None else st.version for st in storages])
    if saved_tensor_hooks.active:
        saved_tensor_hooks.pack(node)


def _saved_of_all(where: str, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> tuple[Any, ...]:
    if where == "input":
        return tuple(arrays)
    return tuple(a.shape for a in arrays) if where == "shape" else tuple(t.dtype for t in tensors)
