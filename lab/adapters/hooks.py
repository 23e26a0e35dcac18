"""The hooks by which PyTorch's backward passes and optimizers are heard: on graph nodes, on leaves, and round steps."""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from core.base import modes
from core.events import observe

from ..recorder.user_files import users_frame
from .tensors import KEY, Node, Shadow, Tensors

TIMED = "gradlab timed"  # of the ear that is noted in a graph node's metadata


class _Came:
    """The hook of one leaf, which pickles of it leave out without a word."""

    __torch_unserializable__ = True

    def __init__(self, watch: Hooks, t: Shadow) -> None:
        self.watch, self.t = watch, t

    def __call__(self, g: Any) -> None:
        if g is not None:
            self.watch.safely(self.watch.came, self.t, g)


class Ear:
    """What hooks on graph nodes call: they may outlive the recording, and then it has no `watch` any more."""

    __torch_unserializable__ = True  # of hooks that are left out of pickles without a word

    def __init__(self, watch: Hooks) -> None:
        self.watch: Hooks | None = watch

    def begin(self, given: Any) -> None:
        """A node is about to run."""
        watch = self.watch
        if watch is not None and watch.alive:
            watch.safely(watch.node_begins)

    def end(self, results: tuple[Any, ...], given: tuple[Any, ...]) -> None:
        """A node has run."""
        watch = self.watch
        if watch is not None and watch.alive:
            watch.safely(watch.node_ran, results, given, perf_counter_ns())


class Hooks(Tensors):
    """What a `Watch` is told by hooks, and the guard that every call of ours runs in."""

    alive: bool
    precision: Any
    current: Any
    _thread: int
    _ear: Ear
    _handles: list[Any]
    _began: dict[int, int]
    _backwards: int
    _asked_for: bool
    _updating: bool
    _stepping: Any

    def _mark(self, nodes: list[Any], row: Any) -> None:
        """Note the op in all graph nodes that it made, and time them. No hook holds its node: the graph goes when the
        user lets go of it."""
        seen: set[Any] = set()
        while nodes:
            node = nodes.pop()
            note, timed = node.metadata.get(KEY), node.metadata.get(TIMED) is self._ear
            # what is timed was come to by an op before, if of the same row: a loop's graph is not gone through again
            others = note is not None and (timed or note is not row)
            if node in seen or others or node.name().endswith("AccumulateGrad"):
                continue
            seen.add(node)
            node.metadata[KEY], node.metadata[TIMED] = row, self._ear
            node.register_prehook(self._ear.begin)
            node.register_hook(self._ear.end)
            nodes.extend(n for n, _ in node.next_functions if n is not None)

    # -- backward ------------------------------------------------------------------------------------------------------

    def node_begins(self) -> None:
        """A graph node is about to run backward."""
        self._began[id(self.current())] = perf_counter_ns()

    def node_ran(self, results: tuple[Any, ...], given: tuple[Any, ...], stop: int) -> None:
        """A graph node has run backward."""
        node = self.current()
        start = self._began.pop(id(node), stop)
        if all(g is None for g in given) or not self._speaks(given):
            return  # the engine goes on behind a gradient that is None
        arrays = tuple(self.array(g) for g in results if g is not None)
        self._quietly(self.recorder.backward, observe.BackwardEvent(Node(node), "", start, stop, arrays))

    def _speaks(self, gradients: tuple[Any, ...]) -> bool:
        """Return whether gradients belong to this thread's backward(): those of a GPU come in a thread of PyTorch's."""
        if get_ident() == self._thread:
            return True
        return bool(self._backwards) and any(g is not None and g.device.type != "cpu" for g in gradients)

    def _hook_leaf(self, t: Shadow) -> None:
        leaf = t.original
        if leaf is None or not leaf.requires_grad or leaf._is_view() or not leaf.is_leaf:
            return
        known = self._hooked.get(id(leaf))
        if known is not None and known.original is leaf:
            return
        self._hooked[id(leaf)] = t
        self._handles.append(leaf.register_hook(_Came(self, t)))

    def came(self, t: Shadow, g: Any) -> None:
        """A gradient came for a leaf."""
        if t.original is not None and self._speaks((g,)):
            event = observe.GradientEvent(t, self.array(g), not self._asked_for)
            self._quietly(self.recorder.gradient, event)
            if self.precision is not None:
                self._quietly(self.precision.gradient, event)

    # -- optimizers ----------------------------------------------------------------------------------------------------

    def _update(self, optimizer: Any, before: bool, given: tuple[Any, ...] = ()) -> None:
        if get_ident() != self._thread:
            return
        parameters = [self.shadow(p) for group in optimizer.param_groups for p in group["params"]]
        if not before:
            self._updating, self._stepping = False, None
        self._quietly(self.recorder.update, optimizer, parameters, before)
        if before:
            self._updating = True
            # step(closure) runs the user's own forward pass: its ops are told by the frame that asks for them
            args, keywords = given or ((), {})
            closure = any(callable(a) for a in (*args[1:], *keywords.values()))  # the first is the optimizer
            self._stepping = users_frame(sys._getframe(1)) if closure else None

    # -- tools ---------------------------------------------------------------------------------------------------------

    def safely(self, work: Any, *args: Any) -> Any:
        """Do work of the recorder's own; an error in it ends the recording and is never the user's."""
        if not self.alive:
            return None
        try:
            with self.still():
                return work(*args)
        except Exception as error:
            return self.ended(error)

    def ended(self, error: Exception) -> None:
        """End the recording for an error of the recorder's own."""
        self.alive = False
        with suppress(Exception):
            self.recorder.failed(error)

    def _quietly(self, ear: Any, *args: Any) -> Any:
        """Call the recorder with this library's gradient mode, and not be told of what that does."""
        recorder = self.recorder
        busy, thread = self._busy, recorder.thread
        enabled = modes.state.enabled
        try:
            self._busy, recorder.thread = True, get_ident() if self._backwards else thread
            modes.state.enabled = bool(self.torch.is_grad_enabled())
            return ear(*args)
        finally:
            self._busy, modes.state.enabled, recorder.thread = busy, enabled, thread

    def _place(self) -> Any:
        """Return the user's line."""
        frame = users_frame(sys._getframe(1))
        return None if frame is None else (frame.f_code, frame.f_lasti)
