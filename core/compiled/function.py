"""`Compiled`: a function that records itself at its first calls, and is replayed as fused loops from then on."""

from __future__ import annotations

import atexit
import copy
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..autograd import anomaly
from ..base.dtypes import get_default_dtype
from ..base.errors import text
from ..base.modes import state as mode
from ..dispatch import autocast, saved_tensor_hooks
from ..events import observe
from ..tensors import overriding
from ..tensors.tensor import Tensor
from . import stance
from .reads import Reads
from .recording import Refusal
from .structure import Described, taken_apart
from .variant import TRIALS, Variant

OBSERVED = "a recording, a profiler or a debugger observes"
"""Why what is compiled runs eagerly where an observer is to hear of its ops."""
_LONGEST_REST = 64  # calls that run eagerly, one after the other, without a look at whether they must
MOST = 8
"""Variants of one function: what asks for more runs eagerly."""

_capturing = threading.Lock()
_builders: list[ThreadPoolExecutor] = []
everything: weakref.WeakSet[Compiled] = weakref.WeakSet()


def _build_later(build: Callable[[], None]) -> None:
    if not _builders:
        _builders.append(ThreadPoolExecutor(1, "core.compile"))
        atexit.register(_builders[0].shutdown, wait=True, cancel_futures=True)
    _builders[0].submit(build)


class Compiled:
    """A function that is replayed.

    function : a function, a module or whatever is called.
    check : so many of the first replays are compared with the function (never fewer than three), and what is compiled
        is built at once; 0 builds it in the background.
    fullgraph : whether a call that is not compiled raises, with the reason.
    """

    def __init__(self, function: Any, check: int = 0, fullgraph: bool = False) -> None:
        self.function, self.check, self.fullgraph = function, check, fullgraph
        self.variants: dict[Any, list[Variant]] = {}
        self.count = 0
        self._last: Variant | None = None  # the one that was replayed last
        self._rest = self._rested = 0  # calls that are yet to run eagerly without a look, and how many they were
        self.unasked = 0  # calls that ran so
        self.refused = ""  # why nothing of it is compiled
        self.turned_away: dict[str, int] = {}  # why calls ran eagerly, and how many
        everything.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or replay what was recorded of it."""
        if observe.observers:
            observe.notify(observe.listening(), "compiled", self)
        if self._rest:
            self._rest -= 1
            self.unasked += 1
            return self._run(*args, **kwargs)
        if self.refused:
            return self._stays(self.refused, args, kwargs)
        why = self._unable()
        if why:
            return self._eagerly(why, args, kwargs)
        modes = (mode.enabled, mode.inference, get_default_dtype())
        last = self._last
        if last is not None and not kwargs and last.fits(args, modes):
            return self._replayed(last, args, kwargs, Described.plainly(args))
        try:
            described = Described(args, kwargs)
            key = (described.key, *modes)
            several = self.variants.get(key, ())
        except (Refusal, TypeError) as error:
            return self._stays(str(error), args, kwargs)
        for v in several:
            if v.holds(described):
                break
        else:
            return self._record(key, described, args, kwargs)
        if v.state == "compiled":
            if not kwargs:
                v.note_pattern(args, modes)
                self._last = v
            return self._replayed(v, args, kwargs, described)
        if v.state == "trying":
            with stance.inside():
                return self._tried(v, args, kwargs, described)
        if v.state == "building":
            return self._run(*args, **kwargs)
        return self._stays(v.why, args, kwargs, v.state == "refused")

    def _stays(self, why: str, args: tuple[Any, ...], kwargs: dict[str, Any], refused: bool = True) -> Any:
        """Run the function itself, and where nothing of it is compiled the next calls too, without a look at them."""
        found = self._eagerly(why, args, kwargs, refused)
        alive = any(v.state not in ("refused", "eager") for several in self.variants.values() for v in several)
        if not alive and not self.fullgraph:
            self._rested = self._rest = min(2 * self._rested + 1, _LONGEST_REST)
        return found

    # -- what a step does otherwise ------------------------------------------------------------------------------------

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def _unable(self) -> str:
        return unable()

    def _variant(self, reads: Reads, described: Described) -> Variant:
        return Variant(reads, described)

    def _recorded(self, v: Variant, args: tuple[Any, ...], kwargs: dict[str, Any],
                  described: Described) -> tuple[Any, Callable[[], None]]:  # fmt: skip
        return v.record(self.function, args, kwargs, described)

    def _replayed(self, v: Variant, args: tuple[Any, ...], kwargs: dict[str, Any], described: Described) -> Any:
        given = [*described.tensors, *v.held]
        try:
            drawn, made = v.drawn_and_made(given)
        except Exception as error:
            return self._failed(v, error, args, kwargs)
        call = (lambda: self._again(args, kwargs), given) if v.history is not None else None
        return v.replay(given, made, call, drawn)

    def _failed(self, v: Variant, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function where a replay could not: its error is its own."""
        result = self._run(*args, **kwargs)
        v.refuse(f"a replay raised {type(error).__name__}: {error}", "eager")
        return result

    def _tried(self, v: Variant, args: tuple[Any, ...], kwargs: dict[str, Any], described: Described) -> Any:
        return v.trial(self.function, args, kwargs, described)

    # -- eager and recording -------------------------------------------------------------------------------------------

    def _again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        found: list[Tensor] = []
        taken_apart(self.function(*args, **kwargs), found)
        return found

    def _eagerly(self, why: str, args: tuple[Any, ...], kwargs: dict[str, Any], refused: bool = True) -> Any:
        """Run the function itself."""
        if why not in self.turned_away and len(self.turned_away) < 100:
            self.turned_away[why] = 0
        if why in self.turned_away:
            self.turned_away[why] += 1
        if self.fullgraph and refused and why not in (stance.FORCED, stance.INSIDE):
            raise RuntimeError(text(f"fullgraph=True, and this is not compiled: {why}", op="compile",
                                    remedy="fullgraph=False, which runs it eagerly"))  # fmt: skip
        return self._run(*args, **kwargs)

    def _record(self, key: Any, described: Described, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call as a new variant."""
        if self.count >= MOST:
            return self._stays(
                f"more than {MOST} variants: shapes, numbers or what it reads keep changing", args, kwargs
            )
        if stance.said() == "eager_on_recompile" and self.count:
            return self._eagerly("the stance is eager_on_recompile", args, kwargs)
        if stance.said() == "fail_on_recompile" and self.count:
            raise RuntimeError(text("Detected recompile when torch.compile stance is 'fail_on_recompile'", op="compile",
                                    remedy="core.compiler.set_stance('default')"))  # fmt: skip
        if not _capturing.acquire(blocking=False):
            return self._run(*args, **kwargs)
        try:
            try:
                reads = Reads(self.function, described.objects)
            except Refusal as why:
                if not self.count or len(self.turned_away) > MOST:  # else it may pass: a hook, a value
                    self.refused = str(why)
                return self._stays(str(why), args, kwargs)
            v = self._variant(reads, described)
            v.left = max(TRIALS, self.check)
            with stance.inside():
                result, build = self._recorded(v, args, kwargs, described)
        finally:
            _capturing.release()
        self.variants.setdefault(key, []).append(v)
        self.count += 1
        if v.state == "building":
            if self.check:
                build()
            else:
                _build_later(build)
        elif self.fullgraph:
            raise RuntimeError(text(f"fullgraph=True, and this is not compiled: {v.why}", op="compile",
                                    remedy="fullgraph=False, which runs it eagerly"))  # fmt: skip
        return result

    def wait(self) -> None:
        """Wait until all that is being built is built."""
        for several in list(self.variants.values()):
            for v in several:
                v.ready.wait()

    def reset(self) -> None:
        """Forget all variants."""
        self.variants, self.count, self.refused, self.turned_away = {}, 0, "", {}
        self._last, self._rest, self._rested, self.unasked = None, 0, 0, 0

    def explain(self) -> Explained:
        """Return what was compiled, what became one loop, and why what was not compiled was not."""
        return Explained(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return Compiled(copy.deepcopy(self.function, memo), self.check, self.fullgraph)

    def __reduce__(self) -> Any:
        return Compiled, (self.function, self.check, self.fullgraph)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundCompiled(self, instance)

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def __wrapped__(self) -> Any:
        return self.function

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return getattr(self.function, "__doc__", None)

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}>"


class BoundCompiled:
    """A compiled method of an object."""

    def __init__(self, compiled: Compiled, instance: Any) -> None:
        self.compiled, self.instance = compiled, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it on the object."""
        return self.compiled(self.instance, *args, **kwargs)

    def explain(self) -> Explained:
        """Return what `Compiled.explain` does."""
        return self.compiled.explain()


class Explained:
    """What was compiled; its text is for people."""

    def __init__(self, compiled: Compiled) -> None:
        self.name = compiled.__name__
        self.refused = compiled.refused
        self.variants = [v for several in compiled.variants.values() for v in several]
        self.eager_calls, self.unasked = dict(compiled.turned_away), compiled.unasked

    @property
    def graph_count(self) -> int:
        """How many variants are compiled."""
        return sum(v.state in ("trying", "compiled") for v in self.variants)

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.variants)} variant{'s' * (len(self.variants) != 1)}"]
        if self.refused:
            lines.append(f"  not compiled: {self.refused}")
        for k, v in enumerate(self.variants, 1):
            lines.append(f"  {k}. {v.state}" + (f": {v.why}" if v.why else ""))
            for name, program in (("forward", v.forward), ("backward", v.backward)):
                if program is not None:
                    lines += [f"     {name}: {line}" for line in program.said()]
            if v.state == "compiled":
                lines.append(f"     {1e6 * v.times[1]:.0f} µs, eagerly {1e6 * v.times[0]:.0f} µs")
                lines.append(f"     {v.memory[1] / 2**20:.1f} MiB while it runs; the results of all ops are "
                             f"{v.memory[0] / 2**20:.1f} MiB")  # fmt: skip
        for why, count in self.eager_calls.items():
            lines.append(f"  {count} call{'s' * (count != 1)} ran eagerly: {why}")
        if self.unasked:
            lines.append(f"  {self.unasked} more calls ran so, without a look at whether they must")
        return "\n".join(lines)

    __repr__ = __str__


def unable() -> str:
    """Return why calls run eagerly just now, whatever they are; nothing where they need not."""
    if stance.forced:
        return stance.why()
    if observe.observers:
        return OBSERVED
    if mode.batch is not None:
        return "inside vmap"
    if autocast.busy():
        return "inside autocast"
    if anomaly.enabled:
        return "anomaly mode"
    if saved_tensor_hooks.active:
        return "inside saved_tensors_hooks"
    if overriding.active and overriding.state.modes:
        return "inside a __torch_function__ mode"
    return ""
