"""The memory of tensors as collectives take it: flat arrays in one piece.

It is the tensor's own memory where that is in one piece and on the CPU, else a copy that is written back when the
operation is done. What is narrower than float32 (float16, bfloat16, float8) is sent as it is, reduced in float32 and
rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import text
from ..base.modes import no_grad
from ..base.source import here
from ..events import observe
from ..graph.versions import storage_of
from ..tensors.tensor import Tensor, from_array, was_read
from .groups import ProcessGroup

__all__ = ["Buffers"]


class Buffers:
    """The arrays of one collective, and what is written back at its end."""

    def __init__(self, group: ProcessGroup, op: str) -> None:
        self.group, self.op = group, op
        self._back: list[tuple[Tensor, Any]] = []
        self._apart: tuple[Any, list[Any]] = (None, [])
        self.size_bytes = 0

    def _of(self, t: Tensor, written: bool, reduced: bool, filled: bool) -> Any:
        self.group.refuses(t, self.op)
        own = a = t._a
        if not isinstance(a, np.ndarray):
            if t.device.type != "cuda":
                raise NotImplementedError(text("a tensor without memory of its own cannot be sent",
                                               op=f"distributed.{self.op}", came=f"{t.layout} on {t.device}",
                                               needed="a dense tensor", remedy="x.to_dense()"))  # fmt: skip
            a = t.detach().cpu()._a
        if observe.observers:
            if filled:
                was_read("sent", t)
            if written:
                event = observe.WriteEvent(f"distributed.{self.op}", t, None, here())
                observe.notify(observe.listening(), "write", event)
        if reduced and a.dtype == np.bool_:
            a = a.view(np.uint8) if a.flags.c_contiguous else np.ascontiguousarray(a).view(np.uint8)
        elif not a.flags.c_contiguous:
            a = np.ascontiguousarray(a) if filled else np.empty(a.shape, a.dtype)
        flat = a.reshape(-1)
        self.size_bytes += flat.nbytes
        if written:
            self._back.append((t, None if np.may_share_memory(a, own) else a))
        return flat if reduced else flat.view(np.uint8)

    def read(self, t: Tensor, reduced: bool = False) -> Any:
        """Return the array of a tensor that is only read."""
        return self._of(t, False, reduced, True)

    def written(self, t: Tensor, reduced: bool = False, filled: bool = False) -> Any:
        """Return the array of a tensor that is written; with `filled` it has the tensor's values before."""
        return self._of(t, True, reduced, filled)

    def joined(self, many: Sequence[Tensor], reduced: bool = False) -> Any:
        """Return the arrays of tensors that are only read as one: a copy, where there are several."""
        parts = [self.read(t, reduced) for t in many]
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, np.uint8)

    def apart(self, many: Sequence[Tensor]) -> Any:
        """Return one array for tensors that are written, one after the other."""
        parts = [self.written(t) for t in many]
        if len(parts) == 1:
            return parts[0]
        whole = np.empty(sum(p.size for p in parts), np.uint8)
        self._apart = (whole, parts)
        return whole

    def end(self) -> None:
        """Write back what was copied."""
        whole, parts = self._apart
        at = 0
        for p in parts:
            p[:] = whole[at : at + p.size]
            at += p.size
        for t, a in self._back:
            storage_of(t).wrote(f"distributed.{self.op}", here())
            if a is None:
                continue
            if isinstance(t._a, np.ndarray):
                t._a[...] = a.view(t._a.dtype) if t._a.dtype == np.bool_ else a
            else:
                with no_grad():
                    t.copy_(from_array(a))  # type: ignore[attr-defined]
        self._back.clear()
