"""Where launches go while they are recorded: Triton's `run` methods tell the recorder that is hooked in.

They are replaced when the first recorder is hooked in and put back when the last one is out, whatever the order, so
that threads may record and ask at the same time. Launches of every thread go to a capture, since PyTorch's backward
pass has threads of its own; one that asks what a launch would be (`launches.again`) hears of its own thread's alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import threading
from collections.abc import Iterator
from typing import Any

from .launches import Recorder
from .pretend import pretended

_lock = threading.RLock()
_open: list[tuple[Recorder, int | None]] = []  # the last one first asked; which thread it hears, None for all
_undo = contextlib.ExitStack()


@contextlib.contextmanager
def hooked(seen: Recorder, *, alone: bool = False) -> Iterator[None]:
    """Have launches go to a recorder, and a GPU be pretended where none is. alone : this thread's launches only.

    *Raises*: RuntimeError where another one hears all threads.
    """
    mine = (seen, threading.get_ident() if alone else None)
    with _lock:
        if not alone and any(thread is None for _, thread in _open):
            raise RuntimeError("tune.capture: another capture is open in this process. Remedy: one at a time")
        if not _open:
            with contextlib.ExitStack() as undo:
                _install(undo)
                _undo.push(undo.pop_all())
        _open.append(mine)
    try:
        yield
    finally:
        with _lock:
            _open.remove(mine)
            if not _open:
                _undo.close()


def _listening() -> Recorder | None:
    """Return who is to be told of this thread's launches."""
    me = threading.get_ident()
    return next((seen for seen, thread in reversed(_open) if thread in (None, me)), None)


def _install(undo: contextlib.ExitStack) -> None:
    """Replace what launches; `undo` puts it back."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import KernelInterface

    from .. import interpreting

    if interpreting():
        from triton.runtime.interpreter import InterpretedFunction as kind

        from .. import runtime  # noqa: F401  it mends the interpreter

        _pass_for_jitted(undo, kind)
    else:
        from triton.runtime.jit import JITFunction as kind

    launched, computed = kind.run, Heuristics.run

    def run(self: Any, *args: Any, **named: Any) -> Any:
        seen = _listening()
        if seen is None:
            return launched(self, *args, **named)
        args, named = seen.changed(self, args, named)
        return seen.launched(self, args, named, launched)

    def compute(self: Any, *args: Any, **named: Any) -> Any:
        seen = _listening()
        if seen is None:
            return computed(self, *args, **named)
        args, named = seen.changed(self, args, named)
        with seen.outermost(self, args, named):
            return computed(self, *args, **named)

    def tuning(original: Any) -> Any:
        def tuned(self: Any, *args: Any, **named: Any) -> Any:
            seen = _listening()
            return original(self, *args, **named) if seen is None else seen.tuned(self, args, named)

        return tuned

    def leaving_one(original: Any) -> Any:
        def left_one(self: Any, *args: Any, **named: Any) -> Any:
            seen = _listening()
            if seen is None or not hasattr(self, "arg_names") or len(getattr(self, "configs", None) or ()) < 2:
                return original(self, *args, **named)
            return seen.left_one(self, args, named, original)

        return left_one

    def defined(cls: type, **_: Any) -> None:  # a library's own tuner that is imported meanwhile
        if "run" in vars(cls):
            _put(undo_later, cls, tuning(vars(cls)["run"]))

    def launching(cls: type, **named: Any) -> None:  # or one that only launches as Triton's does
        super(KernelInterface, cls).__init_subclass__(**named)
        if "run" in vars(cls):
            _put(undo_later, cls, leaving_one(vars(cls)["run"]))

    undo_later = undo.enter_context(contextlib.ExitStack())
    undo.enter_context(pretended())
    for cls, hook in ((kind, run), (Heuristics, compute)):
        _put(undo, cls, hook)
    for cls in _below(Autotuner):
        if "run" in vars(cls):
            _put(undo, cls, tuning(vars(cls)["run"]))
    for cls in _below(KernelInterface):
        if "run" in vars(cls) and not cls.__module__.startswith("triton.") and not issubclass(cls, Autotuner):
            _put(undo, cls, leaving_one(vars(cls)["run"]))
    for base, told in ((Autotuner, defined), (KernelInterface, launching)):
        base.__init_subclass__ = classmethod(told)  # type: ignore[arg-type]
        undo.callback(delattr, base, "__init_subclass__")


def _pass_for_jitted(undo: contextlib.ExitStack, kind: Any) -> None:
    """Have interpreted kernels pass for `JITFunction`s, with their parameters and hash: PyTorch's `wrap_triton`, and
    libraries that launch kernels themselves, ask for those, and end without."""
    from triton.runtime.jit import JITFunction, KernelInterface

    class Jitted(KernelInterface):  # type: ignore[misc, type-arg]
        """What those have."""

        @property  # type: ignore[misc]
        def __class__(self) -> type:
            return JITFunction

        @property
        def cache_key(self: Any) -> str:  # Triton's own hashes what the interpreter has in the place of its functions
            return hashlib.sha256(inspect.getsource(self.fn).encode()).hexdigest()

        def __getattr__(self: Any, name: str) -> Any:
            if name.startswith("_") and name not in ("__globals__", "__qualname__"):
                raise AttributeError(f"an interpreted kernel has no attribute {name}")
            known = vars(self)
            if "_jitted" not in known:
                known["_jitted"] = JITFunction(self.fn, **self.kwargs)
            return getattr(known["_jitted"], name)

    undo.callback(setattr, kind, "__bases__", kind.__bases__)
    kind.__bases__ = (Jitted,)


def _put(undo: contextlib.ExitStack, cls: Any, hook: Any) -> None:
    undo.callback(setattr, cls, "run", vars(cls)["run"])
    cls.run = hook


def _below(kind: Any) -> Iterator[Any]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)
