"""Telling observers what dispatch did: the events of ops, with the user's line."""

from __future__ import annotations

import sys
from typing import Any

from .. import native
from ..backends import Kernel
from ..base.modes import state as mode
from ..base.source import ours, user_frame
from ..declare.op import Op
from ..events import observe
from ..graph.node import Node
from ..tensors.tensor import Tensor

_places = getattr(native.module, "places", None)  # the same walk in C
_new = tuple.__new__  # what a NamedTuple's own `__new__` calls
dispatch_files = {__file__}  # the files between a call of an op and its kernel


def places() -> tuple[observe.Place, observe.Place]:
    """Return the user's place, and the line outside dispatch that called the op (which may be in our own layers)."""
    if _places is not None:
        return _places(dispatch_files, ours, user_frame)  # type: ignore[no-any-return]
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in dispatch_files:
        frame = frame.f_back
    if frame is None:
        return None, None
    inner = (frame.f_code, frame.f_lasti)
    frame = user_frame(frame)
    return (None if frame is None else (frame.f_code, frame.f_lasti)), inner


def emit_starting(op: Op, inputs: tuple[Any, ...], params: Any) -> None:
    """Tell every observer that a kernel is about to run."""
    observe.notify(observe.listening(), "starting", op, inputs, params)


def emit_op(op: Op | str, inputs: tuple[Any, ...], outputs: tuple[Tensor, ...], params: Any, kernel: Kernel, start: int,
         stop: int, node: Node | None) -> None:  # fmt: skip
    """Tell every observer that an op ran (an optimizer's step has no declaration and gives its name).

    Values that came back from NumPy pass on how."""
    listeners = observe.listening()
    if not listeners:
        return
    if node is None:
        for t in inputs:
            if isinstance(t, Tensor) and t._came:
                for out in outputs:
                    out._came = t._came
                break
    place, inner = places()
    label, declared = (op, None) if isinstance(op, str) else (op.label, op)
    event = _new(observe.OpEvent, (label, inputs, outputs, params, kernel.name, kernel.backend, start, stop, place,
                                   inner, node, mode.phase, declared))  # fmt: skip
    observe.notify(listeners, "op", event)


def emit_failed(op: Op, inputs: tuple[Any, ...], error: BaseException) -> None:
    """Tell every observer that an op raised."""
    listeners = observe.listening()
    if listeners:
        place, _ = places()
        observe.notify(listeners, "op_failed", op.label, inputs, place, error)
