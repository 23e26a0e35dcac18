"""Warnings keep their line: one that would be told of the adapter's own code is told of the caller's.

Python tells a warning of a frame that is a number of frames up the stack, and remembers in that frame's module that it
was told. Our frames stand in between: PyTorch's warnings would all be of one line of the adapter, and be told once.
"""

from __future__ import annotations

import os
import sys
import warnings
from threading import get_ident
from types import FrameType
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_AGAIN = "handle_torch_function"  # by which a function of PyTorch's in Python calls us, and we the same function again

_MODULE = os.path.join("torch", "nn", "modules", "module.py")
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def _hooked(module: Any) -> bool:
    return any(getattr(module, name, None) for name in _HOOKS)


def without_ours(stack: list[FrameType]) -> list[FrameType]:
    """Return a stack, innermost frame first, as it would be if nobody listened."""
    kept: list[FrameType] = []
    inside = False  # our frames have just been left out
    for frame in stack:
        code = frame.f_code
        if code.co_filename.startswith(_FOLDER):
            inside = True
        elif inside and code.co_name == _AGAIN:
            continue  # what called it, the function itself, is the next frame, and left out too
        elif inside and kept and kept[-1].f_code is code:
            inside = False
        elif code.co_name == "inner" and code.co_filename.endswith(_MODULE) and not _hooked(frame.f_locals.get("self")):
            continue  # how a module is called where there are hooks, as ours are
        else:
            inside = False
            kept.append(frame)
    return kept


class Warned:
    """While it is on, warnings are told of the lines that they would be told of without the recorder."""

    def __init__(self) -> None:
        self._shown: Any = None  # Python's own function that shows a warning which no filter stopped
        self._ours = self.show
        self._telling: set[int] = set()  # threads that tell one anew: what they show then is right

    def on(self) -> None:
        """Begin."""
        self._shown = getattr(warnings, "_showwarnmsg", None)
        if self._shown is not None:
            warnings._showwarnmsg = self._ours  # type: ignore[attr-defined]

    def off(self) -> None:
        """End, unless somebody has put something over ours, which goes on calling it."""
        if getattr(warnings, "_showwarnmsg", None) is self._ours:
            warnings._showwarnmsg = self._shown  # type: ignore[attr-defined]

    def show(self, told: Any) -> None:
        """Show a warning, or give it to the filters anew with the line that it is of."""
        thread = get_ident()
        frame = None if thread in self._telling else _caller(told, sys._getframe(1))
        if frame is None:
            self._shown(told)
            return
        self._telling.add(thread)
        try:
            self._tell(told, frame)
        finally:
            self._telling.discard(thread)

    def _tell(self, told: Any, frame: FrameType) -> None:
        space = frame.f_globals
        # that it was told is noted where it does not belong, and was it by "once", everywhere
        for name, ours in list(sys.modules.items()):
            if name == "torch.overrides" or name.startswith(f"{__package__}."):
                vars(ours).get("__warningregistry__", {}).clear()
        getattr(warnings, "onceregistry", {}).pop((str(told.message), told.category), None)
        warnings.warn_explicit(
            told.message,
            told.category,
            frame.f_code.co_filename,
            frame.f_lineno,
            space.get("__name__", "<unknown>"),
            space.setdefault("__warningregistry__", {}),
            source=told.source,
        )


def _caller(told: Any, frame: FrameType | None) -> FrameType | None:
    """Return the frame that a warning is of without ours; None if that is where it was told."""
    stack: list[FrameType] = []
    ours = False
    while frame is not None:
        stack.append(frame)
        ours = ours or frame.f_code.co_filename.startswith(_FOLDER)
        frame = frame.f_back
    if not ours:
        return None
    places = ((f.f_code.co_filename, f.f_lineno) for f in stack)
    depth = next((n for n, place in enumerate(places) if place == (told.filename, told.lineno)), None)
    if depth is None:
        return None
    alone = without_ours(stack)
    if depth >= len(alone) or alone[depth] is stack[depth]:
        return None
    return alone[depth]
