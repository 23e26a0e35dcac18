"""PyTorch's activity as the recorder's events: ops by a function mode, gradients by hooks, modules and optimizers too.

Nothing of the user's code changes, and PyTorch is used only where it has been imported already. What PyTorch's own
Python calls inside one public function is one op: the lines and names are the user's. Memory is not followed, since
PyTorch's saved tensors outlive their Python objects.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from core import dtypes, modes, observe, source
from core.device import kind

from .. import kinds
from . import torch_check
from .names import ASKING, CUTS, SILENT, VIEWS, label

_VIEW, _OP = SimpleNamespace(view=True), SimpleNamespace(view=False)
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
KEY = "gradlab"  # of what is noted in a graph node's metadata


class Device(NamedTuple):
    """A device by its name alone."""

    type: str


class Elsewhere(NamedTuple):
    """The dtype and device of a tensor that is not on the CPU; the recorder tells kinds apart by hash."""

    dtype: Any
    device: Device


class Shadow(kinds.Foreign):
    """A PyTorch tensor as the recorder reads it."""

    def __init__(self, t: Any, watch: Watch) -> None:
        self._of, self._watch = weakref.ref(t), watch

    @property
    def original(self) -> Any:  # type: ignore[override]
        return self._of()

    @property
    def _a(self) -> Any:
        return self._watch.array(self._of())

    @property
    def _kind(self) -> Any:
        return self._watch.kind(self._of())

    @property
    def _node(self) -> Any:
        t = self._of()
        made_by = None if t is None else t.grad_fn
        return None if made_by is None else Node(made_by)

    @property
    def _requires_grad(self) -> bool:  # type: ignore[override]
        t = self._of()
        return t is not None and bool(t.requires_grad)

    @property
    def _grad(self) -> Any:
        t = self._of()
        g = t.grad if t is not None and (t.is_leaf or t.retains_grad) else None
        return None if g is None else self._watch.shadow(g)

    @property
    def _version(self) -> int:  # type: ignore[override]
        t = self._of()
        return -1 if t is None else int(t._version)

    @property
    def is_parameter(self) -> bool:
        """Whether it was made to be trained."""
        return isinstance(self._of(), self._watch.torch.nn.Parameter)


class Node:
    """A node of PyTorch's graph, which keeps the recorder's note in its own metadata."""

    def __init__(self, made_by: Any) -> None:
        self.made_by = made_by
        self.op = SimpleNamespace(name=made_by.name(), slots=())

    @property
    def tag(self) -> Any:
        return self.made_by.metadata.get(KEY)

    @tag.setter
    def tag(self, row: Any) -> None:
        self.made_by.metadata[KEY] = row

    @property
    def kind(self) -> Any:
        """Of what it made, as far as the recorder asks: the device."""
        return kind(dtypes.float32)

    @property
    def saved(self) -> tuple[Any, ...]:
        """The tensors that it holds for backward; none once they are freed."""
        found = []
        for name in dir(self.made_by):
            if name.startswith("_saved_"):
                try:
                    found.append(getattr(self.made_by, name))
                except RuntimeError:  # freed, or changed in place
                    return ()
        return tuple(t for value in found for t in (value if isinstance(value, tuple | list) else (value,)))

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None if n is None else Node(n), k) for n, k in self.made_by.next_functions)

    @property
    def place(self) -> Any:
        row = self.tag
        return row.chain[0] if row is not None and row.chain else None


class Watch:
    """Tells one recorder what PyTorch does between `start` and `stop`."""

    def __init__(self, recorder: Any, torch: Any) -> None:
        self.recorder, self.torch = recorder, torch
        self._shadows: dict[int, tuple[Any, Shadow]] = {}
        self._handles: list[Any] = []
        self._hooked: dict[int, Any] = {}
        self._began: dict[int, int] = {}
        self._busy = self._updating = False
        self._stepping: Any = None
        self._new: tuple[Any, Any] = (None, None)  # its class of parameters, and its own way of making one
        self._apply: tuple[Any, Any] = (None, None)  # PyTorch's class of custom functions, and its own apply
        self._arrays = {torch.bfloat16: torch.float32}
        known = {"float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "complex64",
                 "complex128"}  # fmt: skip
        self._dtypes = {getattr(torch, n): getattr(dtypes, n) for n in known} | {torch.bool: dtypes.bool_}
        self._grad = torch.autograd.grad
        self.checker: Any = None  # under --check
        self._mode = _mode(self)
        source.add_package(os.path.dirname(torch.__file__))

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen."""
        module, optimizer = sys.modules["torch.nn.modules.module"], sys.modules["torch.optim.optimizer"]
        enter, leave = self.recorder.enter_module, self.recorder.exit_module
        self._handles += [
            module.register_module_forward_pre_hook(lambda m, _: self._quietly(enter, m)),
            module.register_module_forward_hook(lambda m, *_: self._quietly(leave, m), always_call=True),
            optimizer.register_optimizer_step_pre_hook(lambda o, *given: self._update(o, True, given)),
            optimizer.register_optimizer_step_post_hook(lambda o, *_: self._update(o, False)),
        ]
        functions = sys.modules["torch.autograd.function"].Function
        self._apply = functions, functions.__dict__["apply"]
        functions.apply = classmethod(lambda cls, *given, **named: self._custom(cls, given, named))
        parameters = sys.modules["torch.nn.parameter"].Parameter
        self._new = parameters, parameters.__dict__["__new__"]
        parameters.__new__ = staticmethod(self._parameter)
        kinds.adapters.append(self.adapt)
        self._mode.__enter__()

    def stop(self) -> None:
        """Stop listening and take every hook back."""
        self._mode.__exit__(None, None, None)
        self._apply[0].apply = self._apply[1]
        self._new[0].__new__ = self._new[1]
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def close(self) -> None:
        """After the record is made: forget the tensors."""
        if self.adapt in kinds.adapters:
            kinds.adapters.remove(self.adapt)
        self._shadows.clear()

    # -- tensors -------------------------------------------------------------------------------------------------------

    def adapt(self, value: Any) -> Shadow | None:
        """A PyTorch tensor as the recorder reads it; None for anything else."""
        return self.shadow(value) if isinstance(value, self.torch.Tensor) else None

    def shadow(self, t: Any) -> Shadow:
        """The one shadow of a tensor."""
        found = self._shadows.get(id(t))
        if found is not None and found[0]() is t:
            return found[1]
        key, shadows = id(t), self._shadows
        made = Shadow(t, self)
        shadows[key] = (
            weakref.ref(t, lambda gone: shadows.pop(key, None) if shadows.get(key, (0,))[0] is gone else None),
            made,
        )
        return made

    def array(self, t: Any) -> Any:
        """A tensor's values as NumPy sees them; those of another device are copied."""
        if t is None:
            return np.empty(0, np.float32)
        busy, self._busy = self._busy, True
        try:
            with self.torch.no_grad():
                a = t.detach()
                if a.dtype in self._arrays:
                    a = a.to(self._arrays[a.dtype])
                return a.cpu().resolve_conj().resolve_neg().numpy()
        except Exception:  # sparse, quantised, fake: no values to look at
            return np.empty(0, np.float32)
        finally:
            self._busy = busy

    def kind(self, t: Any) -> Any:
        """dtype and device."""
        found = kind(self._dtypes.get(getattr(t, "dtype", None), dtypes.float32))
        where = t.device.type if t is not None else "cpu"
        return found if where == "cpu" else Elsewhere(found.dtype, Device(where))

    # -- ops -----------------------------------------------------------------------------------------------------------

    def run(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run one of PyTorch's functions and tell what it did."""
        name = label(function)
        if self._busy or modes.state.phase == "backward":
            return function(*args, **keywords)
        if name in SILENT:
            return self._waited(name, function, args, keywords) if name in ASKING else function(*args, **keywords)
        if name == "backward" or function is self._grad:
            return self._backward(function, args, keywords)
        if self._updating and (self._stepping is None or self._user() is self._stepping):
            return function(*args, **keywords)
        begin, own = perf_counter_ns(), self.recorder.own_ns
        given = [self.shadow(t) for t in self._tensors((args, keywords))]
        for t in given:
            self._hook_leaf(t)
        if name == "detach_" and given:  # what is cut is known before, and what it was made by is forgotten after
            self._quietly(self.recorder.cut, observe.CutEvent("detach", given[0], given[0], self._place()))
            return function(*args, **keywords)
        again = None
        if self.checker is not None:
            again = self._quietly(torch_check.of_library, self, function, args, keywords)
        start = perf_counter_ns()
        try:
            out = function(*args, **keywords)
        except Exception as error:
            self._quietly(self.recorder.op_failed, name, tuple(given), self._place(), error)
            if name in ("view", "reshape"):
                self._asked(args[1:])
            raise
        if keywords.get("inplace") and not name.endswith("_"):
            name += "_"
        stop = perf_counter_ns()
        self._tell(name, given, out, start, stop)
        if self.checker is not None:
            self._compare(name, given, out, again)
        listening = perf_counter_ns() - begin - (stop - start)
        self.recorder.around_ns += max(listening - (self.recorder.own_ns - own), 0)
        return out

    def _asked(self, sizes: tuple[Any, ...]) -> None:
        """Note the shape that a view which failed was to have."""
        row = next((r for r in reversed(self.recorder.trace.rows) if r.error), None)
        if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
            sizes = tuple(sizes[0])
        if row is not None and all(isinstance(n, int) for n in sizes):
            row.shape = tuple(sizes)

    def _waited(self, name: str, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run a function that needs a tensor's values in Python; those of another device are waited for."""
        given = self._tensors(args)
        if not given or given[0].device.type in ("cpu", "meta"):
            return function(*args, **keywords)
        start = perf_counter_ns()
        busy, self._busy = self._busy, True
        try:
            out = function(*args, **keywords)
        finally:
            self._busy = busy
        event = observe.CutEvent(ASKING[name], self.shadow(given[0]), None, self._place(), start, perf_counter_ns())
        self._quietly(self.recorder.cut, event)
        return out

    def _parameter(self, cls: Any, *args: Any, **keywords: Any) -> Any:
        """Make a parameter; of the result of an op it is a leaf of its own."""
        made = self._new[1](cls, *args, **keywords)
        of = keywords.get("data", args[0] if args else None)
        if not self._busy and isinstance(of, self.torch.Tensor) and of.grad_fn is not None:
            event = observe.CutEvent("parameter", self.shadow(of), self.shadow(made), self._place())
            self._quietly(self.recorder.cut, event)
        return made

    def _custom(self, cls: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run a function with a gradient of the user's own, which is one op; PyTorch's own are made of ops."""
        apply = self._apply[1].__func__
        if self._busy or modes.state.phase == "backward" or cls.__module__.partition(".")[0] == "torch":
            return apply(cls, *args, **keywords)
        given = [self.shadow(t) for t in self._tensors((args, keywords))]
        for t in given:
            self._hook_leaf(t)
        again = None
        if self.checker is not None:
            call = functools.partial(apply, cls)
            again = self._quietly(torch_check.custom, self, cls.__name__, call, args, keywords)
        self._busy, start = True, perf_counter_ns()
        try:
            out = apply(cls, *args, **keywords)
        except Exception as error:
            self._quietly(self.recorder.op_failed, cls.__name__, tuple(given), self._place(), error)
            raise
        finally:
            self._busy = False
        self._tell(cls.__name__, given, out, start, perf_counter_ns(), f"{cls.__name__}.forward")
        if again is not None:
            self._compare(cls.__name__, given, out, again)
        return out

    def _compare(self, name: str, given: list[Shadow], out: Any, again: torch_check.Custom | None) -> None:
        """Under --check: compare what the user wrote with finite differences, and count what is PyTorch's own."""
        made_by = next((t.grad_fn for t in self._tensors(out) if t.grad_fn is not None), None)
        row = None if made_by is None else made_by.metadata.get(KEY)
        if row is None:
            return
        if again is None:
            self._quietly(torch_check.left_alone, self, name, given)
        else:
            self._quietly(again.compare, row)

    def _tell(self, name: str, given: list[Shadow], out: Any, start: int, stop: int, kernel: str = "") -> None:
        """Tell the recorder of one op, or of values that left the graph."""
        # PyTorch's own assignment to a part of a tensor returns nothing
        made = (
            self._tensors(out)
            if name != "setitem_"
            else [t for shadow in given[:1] if (t := shadow.original) is not None]
        )
        if name in CUTS and given:
            result = self.shadow(made[0]) if made else out
            if not made or made[0] is not given[0].original:
                place = self._place()
                for t in given if name in ("tensor", "as_tensor") else given[:1]:
                    elsewhere = t._kind.device.type != "cpu" and CUTS[name] in ("item", "tolist", "numpy")
                    times = (start, stop) if elsewhere else (0, 0)
                    self._quietly(self.recorder.cut, observe.CutEvent(CUTS[name], t, result, place, *times))
            return
        if not made or not given:
            return  # a question, or a tensor made from numbers: a leaf wherever it is read
        if given and made[0] is given[0].original and (name in ("to", "type") or "dropout" in name):
            return  # it changed nothing
        outputs = tuple(self.shadow(t) for t in made)
        node = outputs[0]._node
        place = self._place()
        event = observe.OpEvent(name, tuple(given), outputs, (), kernel or f"torch.{name}", "PyTorch", start, stop,
                                place, place, node, "forward", _VIEW if name in VIEWS else _OP)  # fmt: skip
        self._quietly(self.recorder.op, event)
        if node is not None and node.tag is not None:
            self._mark([t.grad_fn for t in made if t.grad_fn is not None], node.tag)

    def _mark(self, nodes: list[Any], row: Any) -> None:
        """Note the op in all graph nodes that it made, and time them."""
        seen: set[Any] = set()
        while nodes:
            node = nodes.pop()
            note = node.metadata.get(KEY)
            if node in seen or (note is not None and note is not row) or node.name().endswith("AccumulateGrad"):
                continue
            seen.add(node)
            if note is None or not node.metadata.get("timed"):
                node.metadata[KEY], node.metadata["timed"] = row, True
                node.register_prehook(lambda _, n=node: self._begin(n))
                node.register_hook(lambda out, given, n=node: self._end(n, out, given))
            nodes.extend(n for n, _ in node.next_functions if n is not None)

    # -- backward ------------------------------------------------------------------------------------------------------

    def _backward(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        place, roots = self._place(), self._tensors((args, keywords))
        for root in roots:
            self._hook_leaf(self.shadow(root))
        before, modes.state.phase = modes.state.phase, "backward"
        start = perf_counter_ns()
        try:
            out = function(*args, **keywords)
        except Exception as error:
            modes.state.phase = before
            if "does not require grad" in str(error) and roots:
                self._quietly(self.recorder.op_failed, "backward", (self.shadow(roots[0]),), place, error)
            raise
        finally:
            modes.state.phase = before
        stop = perf_counter_ns()
        if function is self._grad and any(t.grad_fn is not None for t in self._tensors(out)):
            # what the gradients were computed from, which a second backward goes through; the time is the span's
            given = [self.shadow(t) for t in roots]
            self._tell("grad", given, [t for t in self._tensors(out) if t.grad_fn is not None], start, start)
        self._span(observe.SpanEvent("grad" if function is self._grad else "backward", start, stop, place))
        return out

    def _span(self, event: observe.SpanEvent) -> None:
        self._quietly(self.recorder.span, event)

    def _begin(self, node: Any) -> None:
        self._began[id(node)] = perf_counter_ns()

    def _end(self, node: Any, results: tuple[Any, ...], given: tuple[Any, ...]) -> None:
        if all(g is None for g in given):
            return  # the engine goes on behind a gradient that is None
        stop = perf_counter_ns()
        start = self._began.pop(id(node), stop)
        arrays = tuple(self.array(g) for g in results if g is not None)
        self._quietly(self.recorder.backward, observe.BackwardEvent(Node(node), "", start, stop, arrays))

    def _hook_leaf(self, t: Shadow) -> None:
        leaf = t.original
        if leaf is None or not leaf.requires_grad or not leaf.is_leaf or id(leaf) in self._hooked:
            return
        self._hooked[id(leaf)] = t

        def came(g: Any) -> None:
            if g is not None:
                self._quietly(self.recorder.gradient, observe.GradientEvent(t, self.array(g)))

        self._handles.append(leaf.register_hook(came))

    # -- optimizers ----------------------------------------------------------------------------------------------------

    def _update(self, optimizer: Any, before: bool, given: tuple[Any, ...] = ()) -> None:
        parameters = [self.shadow(p) for group in optimizer.param_groups for p in group["params"]]
        if not before:
            self._updating, self._stepping = False, None
        self._quietly(self.recorder.update, optimizer, parameters, before)
        if before:
            self._updating = True
            # step(closure) runs the user's own forward pass: its ops are told by the frame that asks for them
            args, keywords = given or ((), {})
            closure = any(callable(a) for a in (*args[1:], *keywords.values()))  # the first is the optimizer
            self._stepping = self._user() if closure else None

    # -- tools ---------------------------------------------------------------------------------------------------------

    def _quietly(self, ear: Any, *args: Any) -> Any:
        """Call the recorder with this library's gradient mode, and not be told of what that does."""
        busy, self._busy = self._busy, True
        enabled, modes.state.enabled = modes.state.enabled, bool(self.torch.is_grad_enabled())
        try:
            return ear(*args)
        finally:
            self._busy, modes.state.enabled = busy, enabled

    def _tensors(self, value: Any) -> list[Any]:
        """The tensors in arguments or results, in order."""
        if isinstance(value, self.torch.Tensor):
            return [value]
        if isinstance(value, tuple | list):
            return [t for part in value for t in self._tensors(part)]
        if isinstance(value, dict):
            return [t for part in value.values() for t in self._tensors(part)]
        return []

    def _place(self) -> Any:
        """The user's line."""
        frame = self._user()
        return None if frame is None else (frame.f_code, frame.f_lasti)

    def _user(self) -> Any:
        """The user's frame that called."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if not name.startswith(_HERE) and not source.is_ours(name):
                return frame
            frame = frame.f_back
        return None


def _mode(watch: Watch) -> Any:
    """A function mode of PyTorch's that hands every call to `watch`."""

    class Listening(watch.torch.overrides.TorchFunctionMode):  # type: ignore[misc,name-defined]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return watch.run(function, args, kwargs or {})

    return Listening()
