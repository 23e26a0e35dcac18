"""Observing: the events, and a tuple of observers that is empty when nobody looks.

Dispatch tests the truth of `observers` once an op; with nobody looking that is all it costs. An observer names in
`wants` what it needs beyond the bare events, and only that is gathered.

What is observed never meets an observer's error: all events go through `notify`, which stops telling an observer that
raised. A child of `fork` begins without observers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, TracebackType
from typing import Any, NamedTuple

from ..base.modes import state as mode

Place = tuple[CodeType, int] | None


class OpEvent(NamedTuple):
    """An op ran. `inputs` and `outputs` are tensors, held only for the length of the call."""

    op: str  # as people know it: the op's label
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    params: Any
    kernel: str
    backend: str
    start_ns: int
    stop_ns: int
    place: Place  # the user's line
    inner: Place  # the line that called the op, which may be in this package's own layers
    node: Any  # the graph node it made, or None
    phase: str  # "forward", "backward" (inside a gradient) or "update" (an optimizer)
    declared: Any = None  # its declaration, an Op


class BackwardEvent(NamedTuple):
    """A graph node ran backward. The time is the engine's lap: kernel, accumulation and bookkeeping.

    `results` are the gradients it sent to its edges (arrays, with create_graph tensors; of sparse ones the values that
    are there); what it saved is still there.
    """

    node: Any
    kernel: str
    start_ns: int
    stop_ns: int
    results: tuple[Any, ...] = ()


class GradientEvent(NamedTuple):
    """A leaf tensor received a gradient (an array of its device; of a sparse one its values), in `.grad` or as answer
    of `autograd.grad`."""

    leaf: Any
    gradient: Any
    accumulated: bool = True
    """Whether it goes into `.grad`."""


class CutEvent(NamedTuple):
    """A value left the graph: `kind` is detach, numpy, item, data, tolist, cast or tensor.

    The times say how long it took to fetch it from a GPU, which waits for all that it has yet to do; else both are 0.
    """

    kind: str
    tensor: Any
    result: Any
    place: Place
    start_ns: int = 0
    stop_ns: int = 0


class ReadEvent(NamedTuple):
    """A tensor's values became something of Python's, by which the program may go on: `kind` is bool, item, tolist,
    numpy, index, print, len, equal or nonzero; sent where other processes get them."""

    kind: str
    tensor: Any
    place: Place


class WriteEvent(NamedTuple):
    """A tensor is about to be written in place: `target` still has its old values, `result` (a tensor of its shape)
    the new ones; None where the values come from elsewhere."""

    name: str
    target: Any
    result: Any
    place: Place


class MadeEvent(NamedTuple):
    """A tensor was made from no other: `how` is full, arange or random, `given` what it was made with."""

    how: str
    tensor: Any
    given: tuple[Any, ...]
    place: Place


class GradientOpsEvent(NamedTuple):
    """The gradient of a structured op is about to run op by op, or has run: then `results` are tensors, or None where
    none was wanted. `given` is what a kernel of it takes, by name: tensors, tuples of them, and what is no tensor."""

    op: Any  # its declaration
    given: dict[str, Any]
    results: tuple[Any, ...] | None
    place: Place


class ReturnEvent(NamedTuple):
    """Values that left the graph as arrays came back as a tensor: `sources` are the tensors whose `.numpy()` they
    were, `steps` the way between as (place, what was done)."""

    tensor: Any
    sources: tuple[Any, ...]
    steps: tuple[tuple[Any, str], ...]
    place: Place


class SpanEvent(NamedTuple):
    """A stretch of time with a name: "backward" is one whole call of it, "grad" one that asked for chosen gradients."""

    name: str
    start_ns: int
    stop_ns: int
    place: Place


class Observer:
    """What an observer may hear; every method may be left as it is.

    `wants` may hold ``"lineage"``: arrays that leave the graph under this observer carry their origin; and
    ``"as ops"``: what could run in one piece (backward passes, optimizers' steps, writes by index) runs op by op, so
    that `op` hears of each. `gradient_ops` then says, before and after, which of them are one op's gradient.
    """

    wants: frozenset[str] = frozenset()

    def starting(self, op: Any, inputs: tuple[Any, ...], params: Any) -> None: ...
    def op(self, event: OpEvent) -> None: ...
    def compiled(self, function: Any) -> None:
        """A function of `core.compile` runs eagerly, for the observers' sake."""

    def op_failed(self, op: str, inputs: tuple[Any, ...], place: Place, error: BaseException) -> None: ...
    def backward(self, event: BackwardEvent) -> None: ...
    def gradient(self, event: GradientEvent) -> None: ...
    def cut(self, event: CutEvent) -> None: ...
    def read(self, event: ReadEvent) -> None: ...
    def write(self, event: WriteEvent) -> None: ...
    def made(self, event: MadeEvent) -> None: ...
    def gradient_ops(self, event: GradientOpsEvent) -> None: ...
    def returned(self, event: ReturnEvent) -> None: ...
    def span(self, event: SpanEvent) -> None: ...
    def update(self, optimizer: Any, parameters: list[Any], before: bool) -> None: ...
    def enter_module(self, module: Any) -> None: ...
    def exit_module(self, module: Any) -> None: ...

    def failed(self, error: Exception) -> None:
        """One of the methods above raised `error`: no event comes any more. Says so where Python tells of errors that
        nobody can catch (`sys.unraisablehook`)."""
        told: Any = _Unraisable(type(error), error, error.__traceback__, "Exception ignored in observer", self)
        sys.unraisablehook(told)


class Follower:
    """What happens once a step and not once an op. It may stay on where an observer would cost: while nobody observes,
    ops run as if it were not there, and nothing is gathered for it. Every method may be left as it is."""

    rests_until = 0
    """Set by `rest`: until `tally.steps` is so high it is told of no pass and no step."""

    def passed(self, roots: tuple[Any, ...]) -> None:
        """A backward() from these tensors is about to run."""

    def stepping(self, optimizer: Any) -> None:
        """An optimizer is about to change its parameters."""

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has made its step."""

    def left(self, value: Any) -> None:
        """A tensor's one element became a number of Python's."""

    def collective(self, work: Any, what: str) -> None:
        """An operation between processes has "begun", the program "waits" for it, it is "done" or has "failed"."""

    def failed(self, error: Exception) -> None:
        """One of the methods above raised `error`, and none is called any more."""


class _Unraisable(NamedTuple):
    """What `sys.unraisablehook` is given."""

    exc_type: type[BaseException]
    exc_value: BaseException | None
    exc_traceback: TracebackType | None
    err_msg: str | None
    object: Any


observers: tuple[Observer, ...] = ()
followers: tuple[Follower, ...] = ()
resting = 0
"""What `tally.steps` has to come to before a follower wants to hear of passes, and of the steps after it."""
when_followed: list[Callable[[bool], None]] = []
"""Called with whether anybody follows when that changes: what runs in C tells nobody else."""
hooked = False  # whether a leaf was ever given a hook that runs after accumulation
_changing = threading.RLock()


class Tally:
    """What is counted though nobody observes: once a backward pass, once a step of an optimizer."""

    passes = 0
    steps = 0


tally = Tally()


def add(observer: Observer) -> None:
    """Let `observer` hear every event from now on."""
    global observers
    with _changing:
        if observer not in observers:
            observers = (*observers, observer)


def remove(observer: Observer) -> None:
    """Stop telling `observer`; no error when it was not there."""
    global observers
    with _changing:
        observers = tuple(o for o in observers if o is not observer)


def follow(follower: Follower) -> None:
    """Let `follower` hear every step from now on."""
    global followers
    with _changing:
        if follower not in followers:
            followers = (*followers, follower)
            _told_so()


def unfollow(follower: Follower) -> None:
    """Stop telling `follower`; no error when it was not there."""
    global followers
    with _changing:
        followers = tuple(f for f in followers if f is not follower)
        _told_so()


def rest(follower: Follower, until: int) -> None:
    """Tell `follower` of no pass and no step until `tally.steps` is `until`. Where steps are short, a call of Python a
    step is a share of them that can be felt; who wants to know what it missed asks `tally`."""
    with _changing:
        follower.rests_until = until
        _told_so()


def _told_so() -> None:
    global resting
    resting = min((f.rests_until for f in followers), default=0)
    for change in when_followed:
        change(bool(followers))


@contextmanager
def observing(observer: Observer) -> Iterator[Observer]:
    """Observe for the length of a block."""
    try:
        add(observer)
        yield observer
    finally:
        try:
            remove(observer)
        finally:  # Ctrl-C that came as it began has left it undone; a second call does nothing more
            remove(observer)


def listening() -> tuple[Observer, ...]:
    """Return the observers to which this thread tells its events: none inside `muted`."""
    return () if mode.muted else observers


def notify(listeners: tuple[Observer, ...], what: str, *given: Any) -> None:
    """Call a method of each listener that has not been removed since, with an event.

    One that raises an exception is told no more, and its `failed` is called: what is observed goes on. Only what is no
    `Exception` (KeyboardInterrupt, SystemExit) passes, since it was meant for the program and not for the observer.
    """
    for o in listeners:
        if o not in observers:
            continue
        try:
            getattr(o, what)(*given)
        except Exception as error:
            # where even that fails (no memory, no room on the stack) the next event tries again
            with suppress(Exception):
                remove(o)
                o.failed(error)


def tell(what: str, *given: Any) -> None:
    """Call a method of each follower; as with observers, an error in one is never the program's.

    Of what runs inside an op of the user's (an `autograd.Function`) they hear of operations between processes alone.
    """
    for f in () if mode.muted and what != "collective" else followers:
        try:
            getattr(f, what)(*given)
        except Exception as error:
            with suppress(Exception):
                unfollow(f)
                f.failed(error)


@contextmanager
def muted() -> Iterator[None]:
    """In the block this thread tells nobody of what it does."""
    was, mode.muted = mode.muted, True
    try:
        yield
    finally:
        mode.muted = was


def wanted(what: str) -> bool:
    """Return whether any observer wants `what` of this thread."""
    return any(what in o.wants for o in listening())


def _forked() -> None:
    """A child has a program of its own to run: who observes its parent would tell of it what the parent never did."""
    global observers, followers, _changing
    observers, followers, _changing = (), (), threading.RLock()
    _told_so()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def __getattr__(name: str) -> Any:
    if name == "phase":  # of this thread: what ops that run now belong to
        return mode.phase
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
