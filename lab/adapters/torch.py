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
from contextlib import ExitStack, suppress
from functools import partial, wraps
from threading import get_ident
from time import perf_counter_ns
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from core import dtypes, modes, observe, source
from core.device import kind

from .. import kinds
from . import torch_check
from .names import ASKING, CUTS, SILENT, VIEWS, label
from .warned import Warned

_VIEW, _OP = SimpleNamespace(view=True), SimpleNamespace(view=False)
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
KEY, TIMED = "gradlab", "gradlab timed"  # of what is noted in a graph node's metadata
_live: weakref.WeakSet[Watch] = weakref.WeakSet()


class Patch:
    """A name of PyTorch's that stands for something of ours while it is on."""

    def __init__(self, owner: Any, name: str, ours: Any) -> None:
        self.owner, self.name, self.ours = owner, name, ours
        self.theirs = vars(owner)[name]

    def on(self) -> None:
        """Put ours there."""
        if vars(self.owner)[self.name] is self.theirs:
            setattr(self.owner, self.name, self.ours)

    def off(self) -> None:
        """Put theirs back, unless somebody has put something over ours, which then does nothing of its own."""
        if vars(self.owner)[self.name] is self.ours:
            setattr(self.owner, self.name, self.theirs)


class Call:
    """A call of one of PyTorch's functions, as it is heard."""

    __slots__ = ("args", "begin", "function", "given", "keywords", "name", "own", "start", "stop", "waits")

    def __init__(self, name: str, function: Any, args: Any, keywords: Any, given: list[Shadow], begin: int, own: int,
                 waits: bool) -> None:  # fmt: skip
        self.name, self.function, self.args, self.keywords, self.given = name, function, args, keywords, given
        self.begin, self.own, self.waits = begin, own, waits
        self.start = self.stop = 0


class _Came:
    """The hook of one leaf, which pickles of it leave out without a word."""

    __torch_unserializable__ = True

    def __init__(self, watch: Watch, t: Shadow) -> None:
        self.watch, self.t = watch, t

    def __call__(self, g: Any) -> None:
        if g is not None:
            self.watch.safely(self.watch.came, self.t, g)


class Device(NamedTuple):
    """A device by its name alone."""

    type: str


class Elsewhere(NamedTuple):
    """The dtype and device of a tensor that is not on the CPU; the recorder tells kinds apart by hash."""

    dtype: Any
    device: Device


class Shadow(kinds.Foreign):
    """A PyTorch tensor as the recorder reads it; none of its questions changes the tensor or can fail."""

    known = -1  # the tensor's version when its graph node was last up to date

    def __init__(self, t: Any, watch: Watch) -> None:
        self._of: Any = weakref.ref(t)
        self._watch = watch

    def leave(self) -> None:
        """Hold not even a weak reference to the tensor."""
        self._of = _nothing

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
        made_by = self._watch.made_by(self._of())
        return None if made_by is None else Node(made_by)

    @property
    def _requires_grad(self) -> bool:  # type: ignore[override]
        t = self._of()
        with self._watch.still():
            # a view that was made under no_grad says that it wants a gradient where its base does; it gets none
            return t is not None and bool(t.requires_grad) and (not t._is_view() or self._node is not None)

    @property
    def _grad(self) -> Any:
        g = self._watch.gradient(self._of())
        return None if g is None else self._watch.shadow(g)

    @property
    def _version(self) -> int:  # type: ignore[override]
        return self._watch.version(self._of())

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
        """The tensors that it holds for backward; none once they are freed, or where a hook of the user's would have
        to give them back."""
        found: list[Any] = []
        for name in dir(self.made_by):
            if not name.startswith("_raw_saved_"):
                continue
            try:
                raw = getattr(self.made_by, name)
                if any(one.unpack_hook is not None for one in (raw if isinstance(raw, tuple | list) else (raw,))):
                    return ()
                value = getattr(self.made_by, name.removeprefix("_raw"))
            except (RuntimeError, AttributeError):  # freed, or changed in place
                return ()
            found += value if isinstance(value, tuple | list) else (value,)
        return tuple(found)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None if n is None else Node(n), k) for n, k in self.made_by.next_functions)

    @property
    def place(self) -> Any:
        row = self.tag
        return row.chain[0] if row is not None and row.chain else None


class Ear:
    """What hooks on graph nodes call: they may outlive the recording, and then it has no `watch` any more."""

    __torch_unserializable__ = True  # of hooks that are left out of pickles without a word

    def __init__(self, watch: Watch) -> None:
        self.watch: Watch | None = watch

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


class Watch:
    """Tells one recorder what PyTorch does between `start` and `stop` in the thread that made it.

    While a compiled function runs nothing of this is there: what compiles it would compile the recorder too.
    """

    def __init__(self, recorder: Any, torch: Any) -> None:
        self.recorder, self.torch = recorder, torch
        self.alive = False
        self.still = torch._C.DisableTorchFunction  # no question asked in it reaches the user's modes and subclasses
        self.current = torch._C._current_autograd_node
        self._began: dict[int, int] = {}
        self._thread = get_ident()
        self._ear = Ear(self)
        self._shadows: dict[int, tuple[Any, Shadow]] = {}
        self._handles: list[Any] = []
        self._hooked: dict[int, Shadow] = {}
        self._busy = self._updating = False
        self._backwards = 0
        self._stepping: Any = None
        self._arrays = {torch.bfloat16: torch.float32}
        known = {"float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "complex64",
                 "complex128"}  # fmt: skip
        self._dtypes = {getattr(torch, n): getattr(dtypes, n) for n in known} | {torch.bool: dtypes.bool_}
        self._grad = torch.autograd.grad
        self.checker: Any = None  # under --check
        self._mode = _mode(self)
        self._hooks = self._global_hooks()
        self._patches = self._all_patches()
        self._warned = Warned()
        self._compiled: tuple[Any, int] | None = None  # the frame that runs a compiled function, and since when
        self._dispatching = sys.modules["torch.utils._python_dispatch"]._disable_current_modes
        source.add_package(os.path.dirname(torch.__file__))
        _live.add(self)

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def _global_hooks(self) -> list[tuple[Any, Any]]:
        """What to call of every module and every optimizer: (how it is registered, the hook)."""
        module, optimizer = sys.modules["torch.nn.modules.module"], sys.modules["torch.optim.optimizer"]
        enter, leave = self.recorder.enter_module, self.recorder.exit_module
        after = partial(module.register_module_forward_hook, always_call=True)
        return [
            (module.register_module_forward_pre_hook, lambda m, _: self.safely(self._quietly, enter, m)),
            (after, lambda m, *_: self.safely(self._quietly, leave, m)),
            (optimizer.register_optimizer_step_pre_hook, lambda o, *given: self.safely(self._update, o, True, given)),
            (optimizer.register_optimizer_step_post_hook, lambda o, *_: self.safely(self._update, o, False)),
        ]

    def _all_patches(self) -> list[Patch]:
        """What stands in for functions of PyTorch's that no mode and no hook hears of."""
        function = sys.modules["torch.autograd.function"].Function
        parameter = sys.modules["torch.nn.parameter"].Parameter
        apply, new = function.__dict__["apply"], parameter.__dict__["__new__"]
        bare = getattr(new, "__func__", new)

        @wraps(apply.__func__)
        def custom(cls: Any, *given: Any, **named: Any) -> Any:
            return self._custom(apply.__func__, cls, given, named)

        @wraps(bare)
        def parameter_new(cls: Any, *given: Any, **named: Any) -> Any:
            made = bare(cls, *given, **named)
            self.safely(self._parameter, made, named.get("data", given[0] if given else None))
            return made

        patches = [
            Patch(function, "apply", classmethod(custom)),
            Patch(parameter, "__new__", staticmethod(parameter_new)),
        ]
        compiler = self.torch.compile

        @wraps(compiler)
        def compiling(*args: Any, **kwargs: Any) -> Any:
            made = compiler(*args, **kwargs)
            self.safely(self._hear_compiled)  # the compiler is imported when it is first asked for
            return made

        patches.append(Patch(self.torch, "compile", compiling))
        utils = sys.modules.get("torch.utils")
        if hasattr(utils, "swap_tensors"):
            swap = utils.swap_tensors  # type: ignore[union-attr]

            @wraps(swap)
            def swap_tensors(t1: Any, t2: Any) -> Any:
                self.safely(self._forget, t1, t2)  # it refuses tensors that somebody holds weak references to
                return swap(t1, t2)

            patches.append(Patch(utils, "swap_tensors", swap_tensors))
        return patches

    def start(self) -> None:
        """Begin to listen."""
        self.alive = True
        kinds.adapters.append(self.adapt)
        self._warned.on()
        self._on()

    def stop(self) -> None:
        """Stop listening and take every hook back, each also where another cannot be."""
        self.alive = False
        self._ear.watch = None
        with ExitStack() as undo:
            for handle in self._handles:
                undo.callback(handle.remove)
            self._handles = []
            undo.callback(self._warned.off)
            undo.callback(self._off)

    def close(self) -> None:
        """After the record is made: forget the tensors."""
        if self.adapt in kinds.adapters:
            kinds.adapters.remove(self.adapt)
        self._shadows.clear()
        self._hooked.clear()

    def _on(self) -> None:
        for patch in self._patches:
            patch.on()
        self._registered = [register(hook) for register, hook in self._hooks]
        self._mode.__enter__()
        self._hear_compiled()

    def _off(self) -> None:
        with ExitStack() as undo:
            for patch in self._patches:
                undo.callback(patch.off)
            for handle in self._registered:
                undo.callback(handle.remove)
            self._registered = []
            undo.callback(self._leave_mode)

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

    # -- compiled functions --------------------------------------------------------------------------------------------

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

    def _forget(self, *tensors: Any) -> None:
        """Hold nothing of these tensors."""
        for t in tensors:
            found = self._shadows.pop(id(t), None)
            if found is not None:
                found[1].leave()
            self._hooked.pop(id(t), None)
            self.recorder.fold.names.forget(t)

    def made_by(self, t: Any) -> Any:
        """The graph node that made a tensor, asked where that changes nothing: a view whose base was written since
        gets its node anew when it is asked for, or refuses."""
        if t is None:
            return None
        with self.still():
            if not t.requires_grad:
                return None
            if not t._is_view():
                return t.grad_fn
            shadow, version = self.shadow(t), t._version
            if shadow.known != version and not self.torch.is_grad_enabled():
                return None
            try:
                node = t.grad_fn
            except RuntimeError:
                return None
            shadow.known = version
            return node

    def gradient(self, t: Any) -> Any:
        """The gradient that a tensor keeps, asked where that warns nobody."""
        if t is None:
            return None
        with self.still():
            if t._is_view():
                return t.grad if self.made_by(t) is not None and t.retains_grad else None
            return t.grad if t.is_leaf or t.retains_grad else None

    def version(self, t: Any) -> int:
        """How often a tensor's memory was written; -1 where nobody counts."""
        if t is None:
            return -1
        with self.still():
            return -1 if t.is_inference() else int(t._version)

    def array(self, t: Any) -> Any:
        """A tensor's values as NumPy sees them; those of another device are copied."""
        plain = self.torch._C._disabled_torch_dispatch_impl
        if t is None or type(t).__torch_dispatch__ is not plain:  # what stands for values and has none
            return np.empty(0, np.float32)
        busy, self._busy = self._busy, True
        try:
            with self.still(), self.torch.no_grad():
                if self.torch._C._len_torch_dispatch_stack():
                    with self._dispatching():
                        return self._values(t)
                return self._values(t)
        except Exception:  # sparse, quantised, of a vmap: no values to look at
            return np.empty(0, np.float32)
        finally:
            self._busy = busy

    def _values(self, t: Any) -> Any:
        a = t.detach()
        if a.dtype in self._arrays:
            a = a.to(self._arrays[a.dtype])
        return a.cpu().resolve_conj().resolve_neg().numpy()

    def kind(self, t: Any) -> Any:
        """dtype and device."""
        with self.still():
            found = kind(self._dtypes.get(getattr(t, "dtype", None), dtypes.float32))
            where = t.device.type if t is not None else "cpu"
        return found if where == "cpu" else Elsewhere(found.dtype, Device(where))

    # -- ops -----------------------------------------------------------------------------------------------------------

    def run(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run one of PyTorch's functions and tell what it did."""
        if function.__class__ is FunctionType and not (function.__module__ or "").startswith("torch"):
            function = self._under(function)
        call = self.safely(self._heard, function, args, keywords)
        if call is None:
            return function(*args, **keywords)
        again = None
        if self.checker is not None and not call.waits:
            again = self.safely(self._quietly, torch_check.of_library, self, function, args, keywords)
        backward = call.name == "backward"
        busy, before = self._busy, modes.state.phase
        if backward:
            modes.state.phase = "backward"
            self._backwards += 1
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
            elif call.waits:
                self._busy = busy
        call.stop = perf_counter_ns()
        self.safely(self._ran, call, out)
        if self.checker is not None and not call.waits and not backward:
            self.safely(self._compare, call.name, call.given, out, again)
        return out

    def _under(self, function: Any) -> Any:
        """The tensor's own method under one that the user has put there, which has called it: PyTorch names it to modes
        by what stands there now, and the user's would run twice."""
        name = next((name for name, value in vars(self.torch.Tensor).items() if value is function), "")
        return getattr(self.torch._C.TensorBase, name, function) if name else function

    def _listens(self) -> bool:
        """Whether what this thread does now is to be told."""
        if not self.alive or self._busy or get_ident() != self._thread or modes.state.phase == "backward":
            return False
        # what is traced is written down, and we with it
        return not self.torch.compiler.is_compiling() and self.torch._C._get_tracing_state() is None

    def _heard(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Call | None:
        """What is to be noted of a call before it runs; None where it is no op."""
        if not self._listens():
            return None
        begin, own = perf_counter_ns(), self.recorder.own_ns
        name = label(function)
        asks = name in SILENT
        if asks and name not in ASKING:
            return None
        back = name == "backward" or function is self._grad
        inner = self._updating and (self._stepping is None or self._user() is self._stepping)
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
        self._tell(name, given, out, start, stop)
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
            self._mark([n for t in made if (n := self.made_by(t)) is not None], node.tag)

    def _mark(self, nodes: list[Any], row: Any) -> None:
        """Note the op in all graph nodes that it made, and time them. No hook holds its node: the graph goes when the
        user lets go of it."""
        seen: set[Any] = set()
        while nodes:
            node = nodes.pop()
            note = node.metadata.get(KEY)
            if node in seen or (note is not None and note is not row) or node.name().endswith("AccumulateGrad"):
                continue
            seen.add(node)
            if note is None or node.metadata.get(TIMED) is not self._ear:
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
        """Whether gradients belong to this thread's backward(): those of a GPU come in a thread of PyTorch's."""
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
            self._quietly(self.recorder.gradient, observe.GradientEvent(t, self.array(g)))

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
            self._stepping = self._user() if closure else None

    # -- tools ---------------------------------------------------------------------------------------------------------

    def safely(self, work: Any, *args: Any) -> Any:
        """Do work of the recorder's own; an error in it ends the recording and is never the user's."""
        if not self.alive:
            return None
        try:
            with self.still():
                return work(*args)
        except Exception as error:
            self.alive = False
            with suppress(Exception):
                self.recorder.failed(error)
            return None

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


def _nothing() -> None:
    return None


def _forked() -> None:
    """A child of `fork`, as a data loader's worker, is silent, though all that its parent had put in place is there."""
    for watch in list(_live):
        watch.alive = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _mode(watch: Watch) -> Any:
    """A function mode of PyTorch's that hands every call to `watch`."""

    class Listening(watch.torch.overrides.TorchFunctionMode):  # type: ignore[misc,name-defined]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return watch.run(function, args, kwargs or {})

    return Listening()
