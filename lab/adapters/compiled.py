"""Compiled functions of PyTorch's: while one runs nothing of ours is there, since its compiler would compile it too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from ..recorder.patch import Patch
from .ops import Ops
from .tensors import KEY


class Compiled(Ops):
    """What a `Watch` puts in PyTorch and takes away again, also round each compiled function."""

    _mode: Any
    _hooks: list[tuple[Any, Any]]  # of modules: how each is registered, and the hook
    _step_hooks: list[tuple[Any, Any]]  # of optimizers
    _registered: list[Any]
    _registered_steps: list[Any]
    _patches: list[Patch]
    _compiled: tuple[Any, int] | None  # the frame that runs a compiled function, and since when

    def _on(self) -> None:
        self._registered_steps = [register(hook) for register, hook in self._step_hooks]
        self._listen(self._mode.__enter__)

    def _listen(self, enter: Callable[[], Any]) -> None:
        for patch in self._patches:
            patch.on()
        self._registered = [register(hook) for register, hook in self._hooks]
        enter()
        self._hear_compiled()

    def _off(self) -> None:
        with ExitStack() as undo:
            for handle in self._registered_steps:
                undo.callback(handle.remove)
            self._registered_steps = []
            undo.callback(self._quiet)

    def _quiet(self) -> None:
        with ExitStack() as undo:
            for patch in self._patches:
                undo.callback(patch.off)
            for handle in self._registered:
                undo.callback(handle.remove)
            self._registered = []
            undo.callback(self._leave_mode)

    def _enter_mode(self) -> None:
        """Put our mode on the stack, below those of `with` blocks of the user's that have begun: each of them takes the
        topmost for its own when it ends. PyTorch's own for a default device stays the lowest, where it looks for it."""
        c, above = self.torch._C, []
        while c._len_torch_function_stack():
            mode = c._pop_torch_function_stack()
            if not c._len_torch_function_stack() and type(mode).__name__ == "DeviceContext":
                c._push_on_torch_function_stack(mode)
                break
            above.append(mode)
        for mode in (self._mode, *reversed(above)):
            c._push_on_torch_function_stack(mode)

    def _leave_mode(self) -> None:
        """Take our mode from the stack, on which modes of the user's may lie over it."""
        c, above = self.torch._C, []
        while c._len_torch_function_stack():
            mode = c._pop_torch_function_stack()
            if mode is self._mode:
                break
            above.append(mode)
        for mode in reversed(above):
            c._push_on_torch_function_stack(mode)

    def _hear_compiled(self) -> None:
        """Stand in for the function by which PyTorch's compiler turns itself on and off around a compiled function."""
        frames: Any = sys.modules.get("torch._dynamo.eval_frame")
        if not hasattr(frames, "_maybe_set_eval_frame") or not hasattr(frames, "OptimizedModule"):
            return
        if self._patches[-1].owner is frames:
            return
        switch = frames._maybe_set_eval_frame

        @wraps(switch)
        def switched(callback: Any) -> Any:
            if self.alive and get_ident() == self._thread:
                self.safely(self._compiling, callback, sys._getframe(1))
            return switch(callback)

        module = frames.OptimizedModule
        call = module.__dict__["__call__"]

        @wraps(call)
        def called(optimized: Any, *args: Any, **kwargs: Any) -> Any:  # it warns of hooks that hear all modules
            if self._compiled is not None or not self.safely(self._listens):
                return call(optimized, *args, **kwargs)
            frame = sys._getframe()
            self.safely(self._compiling, call, frame)
            try:
                result = call(optimized, *args, **kwargs)  # read from this frame
            finally:
                self._told_end(frame)
            return result

        for patch in (Patch(module, "__call__", called), Patch(frames, "_maybe_set_eval_frame", switched)):
            patch.on()
            self._patches.append(patch)

    def _told_end(self, frame: Any) -> None:
        self.safely(self._compiling, None, frame)

    def _compiling(self, callback: Any, frame: Any) -> None:
        if self._compiled is None:
            if callable(callback) and not self._busy:
                self._compiled = frame, perf_counter_ns()
                self._off_for_compiled()
        elif self._compiled[0] is frame:
            start, self._compiled = self._compiled[1], None
            self._on()
            values = frame.f_locals
            if "result" in values and not self._busy:
                self._told_compiled(values, start)

    def _off_for_compiled(self) -> None:
        """Be gone, but for what hears of the end."""
        self._off()
        self._patches[-1].on()

    def _told_compiled(self, values: Any, start: int) -> None:
        """A compiled function is one op: of what it was given and of the leaves that its graph leads to."""
        stop, out = perf_counter_ns(), values["result"]
        given = self._tensors((values.get("args", ()), values.get("kwargs", {})))
        known = {id(t) for t in given}
        stack = [made for t in self._tensors(out) if (made := self.made_by(t)) is not None]
        seen: set[Any] = set()
        while stack:
            node = stack.pop()
            if node in seen or KEY in node.metadata:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if leaf is not None and id(leaf) not in known:
                known.add(id(leaf))
                given.append(leaf)
            stack.extend(n for n, _ in node.next_functions if n is not None)
        shadows = [self.shadow(t) for t in given]
        for shadow in shadows:
            self._hook_leaf(shadow)
        self._tell("compiled", shadows, out, start, stop, "torch.compile")
