"""PyTorch's functions as the recorder's ops: what is noted before one runs, and what is told after."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

from core.base import modes
from core.events import observe

from ..recorder.user_files import users_frame
from ..recorder.value_facts import CALL
from . import torch_check, torch_precision
from .hooks import Hooks
from .names import ASKING, CUTS, SHAPED, SILENT, VIEWS, label
from .tensors import KEY, Shadow

_VIEW, _OP = SimpleNamespace(view=True), SimpleNamespace(view=False)
_LASTING = {BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType}
_NEVER, _NOT_IN_STEPS, _ALWAYS = range(3)  # when a function is heard; of an optimizer's step the step alone is told


class Call:
    """A call of one of PyTorch's functions, as it is heard."""

    __slots__ = ("args", "begin", "function", "given", "keywords", "name", "own", "start", "stop", "waits")

    def __init__(self, name: str, function: Any, args: Any, keywords: Any, given: list[Shadow], begin: int, own: int,
                 waits: bool) -> None:  # fmt: skip
        self.name, self.function, self.args, self.keywords, self.given = name, function, args, keywords, given
        self.begin, self.own, self.waits = begin, own, waits
        self.start = self.stop = 0


class Ops(Hooks):
    """What a `Watch` does round each of PyTorch's functions."""

    checker: Any
    precision: Any
    after_backward: Callable[[], None] | None
    _grad: Any
    _when_heard: dict[Any, int]

    def passes(self, function: Any) -> bool:
        """Return whether nothing is told of a function, which is known at once of most: an optimizer's step asks and
        computes ten times as often as a model of small layers."""
        heard = self._when_heard.get(function) if function.__class__ in _LASTING else _ALWAYS
        if heard is None:
            heard = self._when_heard[function] = self._when(function)
        return heard is _NEVER or (heard is _NOT_IN_STEPS and self._updating and self._stepping is None)

    def _when(self, function: Any) -> int:
        if function.__class__ is FunctionType and not (function.__module__ or "").startswith("torch"):
            return _ALWAYS  # one of the user's
        name = label(function)
        if name in SILENT:
            return _ALWAYS if name in ASKING else _NEVER
        return _ALWAYS if name == "backward" or function is self._grad else _NOT_IN_STEPS

    def run(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run one of PyTorch's functions and tell what it did."""
        if function.__class__ is FunctionType and not (function.__module__ or "").startswith("torch"):
            function = self.safely(self._under, function) or function
        call = self.safely(self._heard, function, args, keywords)
        if call is None:
            return function(*args, **keywords)
        again = None
        if self.checker is not None and not call.waits:
            again = self.safely(self._quietly, torch_check.of_library, self, function, args, keywords)
        exact = None
        if self.precision is not None and not call.waits:
            exact = self.safely(self._quietly, torch_precision.prepare, self, call)
        backward, asked = call.name == "backward", self._asked_for
        busy, before = self._busy, modes.state.phase
        if backward:
            modes.state.phase = "backward"
            self._backwards += 1
            self._asked_for = call.function is self._grad
        elif call.waits:
            self._busy = True
        call.start = perf_counter_ns()
        try:
            out = function(*args, **keywords)
        except Exception as error:
            if backward:
                modes.state.phase = before
            self.safely(self._failed, call, error)
            raise
        finally:
            if backward:
                modes.state.phase = before
                self._backwards -= 1
                self._asked_for = asked
            elif call.waits:
                self._busy = busy
        call.stop = perf_counter_ns()
        self.safely(self._ran, call, out)
        if backward and self.after_backward is not None:
            self.after_backward()
        if self.checker is not None and not call.waits and not backward:
            self.safely(self._compare, call.name, call.given, out, again)
        if exact is not None:
            self.safely(self._quietly, torch_precision.compare, self, call, out, exact)
        return out

    def _under(self, function: Any) -> Any:
        """Return the tensor's own method under one that the user has put there, which has called it: PyTorch names
        it to modes by what stands there now, and the user's would run twice."""
        name = next((name for name, value in vars(self.torch.Tensor).items() if value is function), "")
        return getattr(self.torch._C.TensorBase, name, function) if name else function

    def _listens(self) -> bool:
        """Return whether what this thread does now is to be told."""
        if not self.alive or self._busy or get_ident() != self._thread or modes.state.phase == "backward":
            return False
        # what is traced is written down, and we with it
        return not self.torch.compiler.is_compiling() and self.torch._C._get_tracing_state() is None

    def _heard(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Call | None:
        """Return what is to be noted of a call before it runs; None where it is no op."""
        if not self._listens():
            return None
        begin, own = perf_counter_ns(), self.recorder.own_ns
        name = label(function)
        asks = name in SILENT
        if asks and name not in ASKING:
            return None
        back = name == "backward" or function is self._grad
        inner = self._updating and (self._stepping is None or users_frame(sys._getframe(1)) is self._stepping)
        if inner and not back and not asks:
            return None
        given = [self.shadow(t) for t in self._tensors(args if asks else (args, keywords))]
        if asks and (not given or given[0]._kind.device.type in ("cpu", "meta")):
            return None  # Python has the values already
        for t in given if not asks else ():
            self._hook_leaf(t)
        if name == "detach_" and given:  # what is cut is known before, and what it was made by is forgotten after
            self._quietly(self.recorder.cut, observe.CutEvent("detach", given[0], given[0], self._place()))
            return None
        return Call("backward" if back else name, function, args, keywords, given, begin, own, asks)

    def _failed(self, call: Call, error: Exception) -> None:
        """A function raised."""
        if call.waits:
            return
        if call.name == "backward":
            if "does not require grad" in str(error) and call.given:
                self._quietly(self.recorder.op_failed, "backward", (call.given[0],), self._place(), error)
            return
        self._quietly(self.recorder.op_failed, call.name, tuple(call.given), self._place(), error)
        if call.name in ("view", "reshape"):
            self._asked(call.args[1:])

    def _ran(self, call: Call, out: Any) -> None:
        """A function came to its end."""
        name, given, start, stop = call.name, call.given, call.start, call.stop
        if call.waits:
            event = observe.CutEvent(ASKING[name], given[0], None, self._place(), start, stop)
            self._quietly(self.recorder.cut, event)
            return
        if name == "backward":
            asked = call.function is self._grad
            made = [t for t in self._tensors(out) if self.made_by(t) is not None] if asked else []
            if made:
                # what the gradients were computed from, which a second backward goes through; the time is the span's
                self._tell("grad", given, made, start, start)
            event = observe.SpanEvent("grad" if asked else "backward", start, stop, self._place())  # type: ignore[assignment]
            self._quietly(self.recorder.span, event)
            return
        if call.keywords.get("inplace") and not name.endswith("_"):
            name += "_"
        self._tell(name, given, out, start, stop, call=call)
        listening = perf_counter_ns() - call.begin - (stop - start)
        self.recorder.around_ns += max(listening - (self.recorder.own_ns - call.own), 0)

    def _asked(self, sizes: tuple[Any, ...]) -> None:
        """Note the shape that a view which failed was to have."""
        row = next((r for r in reversed(self.recorder.trace.rows) if r.error), None)
        if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
            sizes = tuple(sizes[0])
        if row is not None and all(isinstance(n, int) for n in sizes):
            row.shape = tuple(sizes)

    def _parameter(self, made: Any, of: Any) -> None:
        """A parameter was made; of the result of an op it is a leaf of its own."""
        if self._listens() and isinstance(of, self.torch.Tensor) and self.made_by(of) is not None:
            event = observe.CutEvent("parameter", self.shadow(of), self.shadow(made), self._place())
            self._quietly(self.recorder.cut, event)

    def _custom(self, apply: Any, cls: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run a function with a gradient of the user's own, which is one op; PyTorch's own are made of ops."""
        if not self.safely(self._listens) or str(cls.__module__).partition(".")[0] == "torch":
            return apply(cls, *args, **keywords)
        given = self.safely(self._given, args, keywords) or []
        again = None
        if self.checker is not None:
            call = functools.partial(apply, cls)
            again = self.safely(self._quietly, torch_check.custom, self, cls.__name__, call, args, keywords)
        busy, self._busy, start = self._busy, True, perf_counter_ns()
        try:
            out = apply(cls, *args, **keywords)
        except Exception as error:
            self.safely(self._custom_failed, cls, given, error)
            raise
        finally:
            self._busy = busy
        self.safely(self._tell, cls.__name__, given, out, start, perf_counter_ns(), f"{cls.__name__}.forward")
        if again is not None:
            self.safely(self._compare, cls.__name__, given, out, again)
        return out

    def _custom_failed(self, cls: Any, given: list[Shadow], error: Exception) -> None:
        self._quietly(self.recorder.op_failed, cls.__name__, tuple(given), self._place(), error)

    def _compare(self, name: str, given: list[Shadow], out: Any, again: torch_check.Custom | None) -> None:
        """Under --check: compare what the user wrote with finite differences, and count what is PyTorch's own."""
        node = next((n for t in self._tensors(out) if (n := self.made_by(t)) is not None), None)
        row = None if node is None else node.metadata.get(KEY)
        if row is None:
            return
        if again is None:
            self._quietly(torch_check.left_alone, self, name, given)
        else:
            self._quietly(again.compare, row)

    def _given(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Shadow]:
        given = [self.shadow(t) for t in self._tensors((args, keywords))]
        for t in given:
            self._hook_leaf(t)
        return given

    def _tell(self, name: str, given: list[Shadow], out: Any, start: int, stop: int, kernel: str = "",
              call: Call | None = None) -> None:  # fmt: skip
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
        if not made or not given or name in SHAPED:
            return  # a question, or a tensor made from numbers: a leaf wherever it is read
        if given and made[0] is given[0].original and (name in ("to", "type") or "dropout" in name):
            return  # it changed nothing
        outputs = tuple(self.shadow(t) for t in made)
        node = outputs[0]._node
        place = self._place()
        event = observe.OpEvent(name, tuple(given), outputs, {CALL: call}, kernel or f"torch.{name}", "PyTorch", start,
                                stop, place, place, node, "forward", _VIEW if name in VIEWS else _OP)  # fmt: skip
        self._quietly(self.recorder.op, event)
        if node is not None and node.tag is not None:
            self._mark([n for t in made if (n := self.made_by(t)) is not None], node.tag)
