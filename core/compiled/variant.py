"""One variant of a compiled function: what was recorded at one call, when it may be replayed, and the replay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import thread_time as clock
from typing import Any

import numpy as np

from .. import native
from ..autograd.gradients import grad
from ..base.modes import no_grad
from ..base.modes import state as mode
from ..base.source import warn
from ..export.ir import ExportError
from ..nn.parameter import Parameter
from ..ops.creation import ones_like
from ..tensors.tensor import Tensor
from .bytecode import MAKERS
from .calls import address
from .checks import fit, spec_of
from .draws import Drawn, stand_at, standing, take
from .history import History
from .lowered import Lowered
from .parts import Part, Parts, parts_of
from .program import CompiledProgram
from .reads import Reads
from .recording import Recording, Refusal
from .structure import Described, Rebuilt, taken_apart

TRIALS = 3
_MUCH = 1 << 24  # bytes
_GLANCED = (Tensor, Parameter, int, float, bool, str, type(None))
_MOST_TRIALS = 12  # where it cannot be told
_REPEATS, _SHORT = 3, 0.002  # of a trial that takes less than so many seconds
_GAIN = 0.98  # of eager's time that a replay has to stay below


class Variant:
    """What was recorded at one call.

    state : "refused", "building", "trying", "compiled" or "eager"; `why` says why where it is not compiled.
    whole : whether it is a loss with its gradients, as one program.
    """

    def __init__(self, reads: Reads, described: Described, whole: bool = False) -> None:
        self.whole = whole
        self.gradients: list[tuple[int, int]] = []  # of a whole one: place of the tensor, number of its gradient
        self.reads, self.key = reads, described.key
        self.objects = described.objects  # kept, so that nothing else gets their ids
        self.state, self.why = "building", ""
        self.forward: CompiledProgram | None = None
        self.backward: CompiledProgram | None = None
        self.held: list[Tensor] = []  # the tensors that it reads besides arguments
        self.specs: tuple[Any, ...] = ()  # what these have to be
        self.pattern: tuple[Any, ...] | None = None  # what plain arguments have to be
        self.modes: tuple[Any, ...] = ()
        self.count = 0  # results, then updates, then what is kept for the backward part
        self.updates: list[tuple[int, int]] = []  # number of what is written, of what it becomes
        self.history: History | None = None
        self.draws = 0  # random numbers
        self.build: Rebuilt = lambda made: made
        self.known: list[Tensor | None] = []  # of each argument the tensor of `reads` that it is
        self.left, self.tried = TRIALS, 0
        self.times = [float("inf"), float("inf")]  # eager, compiled: of the shortest
        self.memory = (0, 0)  # bytes: of all results of the ops of a call, and what the programs keep
        self.ready = threading.Event()

    # -- whether it may run --------------------------------------------------------------------------------------------

    def holds(self, described: Described) -> bool:
        """Return whether a call may run this variant."""
        tensors = self.reads.tensors
        for t, known in zip(described.tensors, self.known, strict=True):
            if tensors.get(id(t)) is not known:
                return False
        return self._stands()

    def _stands(self) -> bool:
        """Return whether all besides the arguments is as it was."""
        return self.reads.hold() and fit(self.held, self.specs) and not (self.draws and standing() is None)

    def fits(self, args: tuple[Any, ...], modes: tuple[Any, ...]) -> bool:
        """Return whether a call without names may run this variant, as far as that is seen at a glance."""
        if self.pattern is None or modes != self.modes or not fit(args, self.pattern):
            return False
        if args:
            tensors = [x for x in args if isinstance(x, Tensor)]
            if len(tensors) > 1 and len(set(map(id, tensors))) < len(tensors):
                return False
            known = self.reads.tensors
            if known and any(known.get(id(t)) is not was for t, was in zip(tensors, self.known, strict=True)):
                return False
        return self._stands()

    def note_pattern(self, args: tuple[Any, ...], modes: tuple[Any, ...]) -> None:
        """Note what `fits` looks for."""
        tensors = [x for x in args if isinstance(x, Tensor)]
        if len(set(map(id, tensors))) == len(tensors) and all(type(x) in _GLANCED for x in args):
            self.pattern = tuple([spec_of(x) if isinstance(x, Tensor) else x for x in args])
            self.modes = modes

    # -- recording -----------------------------------------------------------------------------------------------------

    def record(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               described: Described) -> tuple[Any, Callable[[], None]]:  # fmt: skip
        """Run the call; its result, and what builds the programs. Where the call cannot be replayed `why` says so."""
        tape = Recording()
        inputs = described.tensors
        self.known = [self.reads.tensors.get(id(t)) for t in inputs]
        distinct = list({id(t): t for t in inputs}.values())
        result = tape.record(function, args, kwargs, distinct)
        try:
            found: list[Tensor] = []
            build = taken_apart(result, found)
            if any(t._requires_grad for t in found):
                if any(getattr(t, "_hooks", None) for t in (*inputs, *self.reads.tensors.values())):
                    raise Refusal("a tensor has hooks")
                if tape.why is None and tape.error is None:
                    tape.gradients(found, distinct)
            tape.ends(found)
            self._check_state(args, kwargs, described)
            parts = parts_of(tape, distinct, len(found), self.whole)
            self._adopt(parts, tape, found, described)
            self.draws, self.memory = tape.draws, (tape.bytes, 0)
        except Refusal as why:
            self.refuse(str(why))
            return result, lambda: None
        except (ExportError, RuntimeError, NotImplementedError) as why:
            self.refuse(f"{type(why).__name__}: {str(why).splitlines()[0]}")
            return result, lambda: None
        self.build = build
        return result, lambda: self._build(parts)

    def refuse(self, why: str, state: str = "refused") -> None:
        """Stay with eager, for a reason."""
        self.state, self.why = state, why
        self.forward = self.backward = self.history = None
        self.held, self.specs = [], ()
        self.ready.set()

    def _check_state(self, args: tuple[Any, ...], kwargs: dict[str, Any], described: Described) -> None:
        """Raise Refusal where the call changed what it reads."""
        if not self.reads.hold():
            raise Refusal("the function changes what it reads (an attribute, a list, a variable)")
        if Described(args, kwargs).key != described.key:
            raise Refusal("the function changes an argument's shape, or whether it has a gradient")

    def _adopt(self, parts: Parts, tape: Recording, found: Sequence[Tensor], described: Described) -> None:
        """Note which tensors a replay reads, and where. Raise Refusal for memory that is shared."""
        inputs = list({id(t): t for t in described.tensors}.values())
        given = {id(t) for t in inputs}
        self.constants: dict[Any, Any] = {}
        places: dict[int, int] = {}
        for v, t in parts.tensors.items():
            if id(t) in given:
                places[id(v)] = next(k for k, x in enumerate(described.tensors) if x is t)
            elif id(t) in self.reads.tensors:
                places[id(v)] = len(described.tensors) + len(self.held)
                self.held.append(t)
            elif t._requires_grad or (t._a.ndim and self.reads.names.isdisjoint(MAKERS)) or t._a.nbytes > 1 << 20:
                raise Refusal("the function uses a tensor that no op made, and that is found nowhere")
            else:
                self.constants[v] = np.array(t._a, order="C")
        self._check_shared([*inputs, *self.reads.tensors.values()], [t for v, t in parts.tensors.items()
                                                                    if v in self.constants])  # fmt: skip
        self.places, self.specs = places, tuple([spec_of(t) for t in self.held])
        at = {v: k for k, v in enumerate(parts.forward.outputs)}
        self.results = [at[v] for v in parts.results]
        self.updates = [(places[id(old)], at[new]) for old, new in parts.updates]
        if self.updates:
            self._check_written(described.tensors)
        self.count = len(at)
        order = {id(t): k for k, t in enumerate([*described.tensors, *self.held])}
        if self.whole:
            self.constants |= {v: np.ones(v.shape, v.dtype) for v in parts.cotangents}
            found_at = iter(parts.gradients)
            self.gradients = [(order[id(t)], at[next(found_at)]) for t, k in tape.sources if k is not None]
        if parts.backward is not None:
            self.history = History(self, parts, tape, order, places, at)

    def _check_shared(self, tensors: Sequence[Tensor], constants: Sequence[Tensor]) -> None:
        seen: dict[int, Tensor] = {}
        for t in tensors:
            if not t._a.size:
                continue
            at = address(t)
            if seen.setdefault(at, t) is not t:
                raise Refusal("arguments or weights share memory")
        if any(np.may_share_memory(c._a, t._a) for c in constants for t in tensors):
            raise Refusal("the function reads a weight's memory by another tensor")

    def _check_written(self, tensors: Sequence[Tensor]) -> None:
        """Raise Refusal where what is written shares memory with anything else, or has a history."""
        every = list({id(t): t for t in (*tensors, *self.held, *self.reads.tensors.values())}.values())
        for place, _ in self.updates:
            own = [*tensors, *self.held][place]
            if own._requires_grad or own._node is not None:
                raise Refusal("the function writes a tensor with a gradient in place")
            if any(np.may_share_memory(own._a, t._a) for t in every if t is not own):
                raise Refusal("the function writes a tensor whose memory others share")

    # -- building ------------------------------------------------------------------------------------------------------

    def _build(self, parts: Parts) -> None:
        """Lower, compile and load: then it is tried."""
        try:
            self.forward = self._program(parts.forward, parts)
            if parts.backward is not None and self.history is not None:
                self.backward = self.history.program(parts, self.constants)
            self.memory = (self.memory[0], sum(p.bytes_kept() for p in (self.forward, self.backward) if p is not None))
            self.state = "trying"
        except Exception as error:  # whatever it is, eager runs on
            self.refuse(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        finally:
            if self.memory[0] > _MUCH and native.module is not None:  # all of it was alive while it was recorded
                native.module.release_memory()
            self.ready.set()

    def _program(self, part: Part, parts: Parts) -> CompiledProgram:
        inputs = [v for v in part.inputs if v not in self.constants]
        self.takes = [self.places[id(v)] for v in inputs]
        strides = [tuple(s // parts.tensors[v]._a.itemsize for s in parts.tensors[v]._a.strides) for v in inputs]
        lowered = Lowered(part.nodes, inputs, strides, self.constants, part.outputs)
        first = len(self.known)  # the arguments come before
        program = CompiledProgram(lowered, frozenset(k for k, place in enumerate(self.takes) if place >= first))
        program.build()
        return program

    # -- running -------------------------------------------------------------------------------------------------------

    def replay(self, given: Sequence[Tensor], made: Sequence[Tensor], call: Any, drawn: Drawn) -> Any:
        """Return the function's result from what the forward part gave; what is written in place is written."""
        self.write(made, given)
        results = [made[k] for k in self.results]
        if self.history is not None:
            self.history.connect(results, made, given, call, drawn)
        return self.build(results)

    def write(self, made: Sequence[Tensor], given: Sequence[Tensor]) -> None:
        """Write in place what the function writes."""
        if self.updates:
            was, mode.enabled = mode.enabled, False
            try:
                for place, k in self.updates:
                    given[place].copy_(made[k])
            finally:
                mode.enabled = was

    def made(self, given: Sequence[Tensor], drawn: Drawn = (0, 0)) -> list[Tensor]:
        """Run the forward part; its outputs, without a history."""
        was, mode.enabled = mode.enabled, False
        try:
            assert self.forward is not None
            return self.forward([given[k] for k in self.takes], drawn)
        finally:
            mode.enabled = was

    def drawn_and_made(self, given: Sequence[Tensor]) -> tuple[Drawn, list[Tensor]]:
        """Draw what the function would, and run the forward part."""
        if not self.draws:
            return (0, 0), self.made(given)
        drawn = take(self.draws)
        try:
            return drawn, self.made(given, drawn)
        except BaseException:
            stand_at(drawn)
            raise

    # -- trying --------------------------------------------------------------------------------------------------------

    def trial(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
              described: Described) -> Any:  # fmt: skip
        """Run a call by both ways, compare and time them; the result is eager's."""
        given = [*described.tensors, *self.held]
        try:
            start = clock()
            self.holds(Described(args, kwargs))
            guards = clock() - start
            drawn = standing() or (0, 0)  # what eager is about to draw
            self.made(given, drawn)
            made, compiled = _timed(lambda: self.made(given, drawn))
        except Exception as error:
            self.refuse(f"{type(error).__name__}: {error}", "eager")
            return function(*args, **kwargs)
        if self.updates or self.draws:
            start = clock()
            result = function(*args, **kwargs)
            eager = clock() - start
        else:
            result, eager = _timed(lambda: function(*args, **kwargs))
        found: list[Tensor] = []
        taken_apart(result, found)
        pairs = [(made[k], t) for k, t in zip(self.results, found, strict=True)]
        pairs += [(made[k], given[place]) for place, k in self.updates]
        if self.history is not None and all(found[k]._requires_grad for k in self.history.rooted):
            with no_grad():
                cotangents = [ones_like(found[k]) + 0.25 * found[k].detach().sign() for k in self.history.rooted]
            sources = [given[k] for k in self.history.sources]
            roots = [found[k] for k in self.history.rooted]
            wanted, more = _timed(lambda: grad(roots, sources, cotangents, retain_graph=True, allow_unused=True))
            eager += more
            try:
                gradients, more = _timed(lambda: self.history.run(made, given, cotangents, drawn))  # type: ignore[union-attr]
            except Exception as error:
                self.refuse(f"{type(error).__name__}: {error}", "eager")
                return result
            compiled += more
            pairs += [(a, b) for a, b in zip(gradients, wanted, strict=True) if a is not None or b is not None]
        self.judge(pairs, eager, compiled + guards)
        return result

    def judge(self, pairs: Sequence[tuple[Any, Any]], eager: float, compiled: float) -> None:
        """Compare results in pairs, and after the last trial the times."""
        if not all(a is not None and b is not None and alike(a._a, b._a) for a, b in pairs):
            warn(
                "core.compile: a replay gave something else than the function; it runs eagerly from now on",
                RuntimeWarning,
            )
            self.refuse("a replay gave something else than the function", "eager")
            return
        self.times = [min(self.times[0], eager), min(self.times[1], compiled)]
        self.left -= 1
        self.tried += 1
        if self.left > 0:
            return
        share = self.times[1] / self.times[0]
        if _GAIN * 0.9 < share < _GAIN * 1.2 and self.tried < _MOST_TRIALS:  # too near to tell by so few
            self.left = 1
            return
        if self.times[1] > _GAIN * self.times[0]:
            told = f"{1e6 * self.times[1]:.0f} µs compiled, {1e6 * self.times[0]:.0f} µs eager"
            self.refuse(f"compiling does not help here ({told})", "eager")
        else:
            self.state = "compiled"


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result, and the shortest time of a few runs where they are short."""
    best = float("inf")
    for _ in range(_REPEATS):
        start = clock()
        result = run()
        best = min(best, clock() - start)
        if best > _SHORT:
            break
    return result, best


def alike(a: Any, b: Any) -> bool:
    """Return whether two arrays are the same up to the rounding of sums that are made in another order."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    if not a.size:
        return True
    with np.errstate(all="ignore"):
        finite = np.isfinite(b)
        if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return False
        size = np.abs(b[finite]).max(initial=0)
        small = 1e-5 if a.dtype.itemsize <= 4 else 1e-12
        off = np.abs(a[finite].astype(np.float64) - b[finite])
        return bool((off <= 10 * small * np.abs(b[finite]) + small * size + 1e-30).all())
