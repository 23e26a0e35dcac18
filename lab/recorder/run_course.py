"""What a training loop goes through, step by step: losses, numbers it computes, learning rate, memory, and now and then
each layer's gradient and step.

It hears passes and optimizers' steps and no ops, so it may stay on where the recorder is off. What costs more than a
microsecond is done at most four times a second, and takes at most a hundredth of the loop's time. All that it keeps is
of bounded size.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from time import perf_counter_ns, thread_time_ns
from types import CodeType
from typing import Any

from core.base.source import Location, locate
from core.events import observe
from core.tensors.tensor import Tensor
from widgets.run_curves import RunCurves

from . import loops
from .layers import Layers
from .named_numbers import Named, Place, curves
from .series import Series
from .step_values import CORE, Library, resident
from .user_files import instruction, users_frame, users_place

EVERY_NS = 250_000_000
"""Between two looks at what costs more."""
SHARE = 0.01  # of the loop's time that looks may take: of its own, whoever else has the processors meanwhile
EACH = 0.004  # of it, by their own clock, what is read of each step: with what calls it and comes of it, twice as much
PLACES = 48  # lines whose numbers are kept
ROOTS = 8  # losses of one backward()
PENDING = 256  # numbers on a GPU that wait to be read
STRIDE = 16  # at most every so many steps a loss is read, where a step is that short
_live: weakref.WeakSet[RunCourse] = weakref.WeakSet()
_active: list[RunCourse] = []


class RunCourse(observe.Follower):
    """Follows the loop of the thread that made it; an error of its own ends it and is told in `error`.

    files : the cell's file names, with what to add to their line numbers.

    >>> import core
    >>> w = core.ones(2, requires_grad=True)
    >>> optimizer = core.optim.SGD([w], 0.25)
    >>> course = RunCourse()
    >>> course.start()
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     loss = (w * w).sum()
    ...     loss.backward()
    ...     optimizer.step()
    >>> course.stop()
    >>> run = course.plain()
    >>> run.steps, run.curves[0].name, run.curves[0].values
    (3, 'loss', [2.0, 0.5, 0.125])
    """

    def __init__(self, files: Mapping[str, int] | None = None,
                 locate: Callable[[CodeType, int], Location] = locate) -> None:  # fmt: skip
        self.files, self._locate = dict(files or {}), locate
        self.thread = get_ident()
        self.error: Exception | None = None
        self.alive = True  # not in a forked child
        self.own_ns = 0
        self.steps = 0
        self.passes = 0
        self.expected: int | None = None
        self.memory_bytes = 0
        self.began, self._began_running = perf_counter_ns(), thread_time_ns()
        self.first_ns: int | None = None  # when something was seen first
        self.last_ns = self.began
        self.named: dict[Any, Named] = {}
        self.layers = Layers()
        self.rates: dict[int, tuple[Series, float]] = {}
        self.memory = Series()
        self.marks: deque[tuple[int, int]] = deque(maxlen=40)
        self._begins: dict[tuple[int, int], tuple[CodeType, int]] = {}  # (code, lasti) -> where that instruction begins
        self._turn = 0  # the step that is going on
        self._lead: Any = None  # without an optimizer, the place that counts the steps
        self._since = 0  # passes since the last step
        self._fresh: list[Named] = []
        self._losses: deque[float] = deque(maxlen=ROOTS)  # of late, of all the models that the loop trains
        self._pending: list[tuple[Series, int, Library, Any]] = []
        self._recent: deque[int] = deque(maxlen=8)
        self._known: dict[int, None] = {}  # optimizers, in the order in which they were seen
        self._next = self.began + 100_000_000
        self._window = self.began, 0
        self.due = False  # whether layers are to be looked at when the next step is made
        self._copies: tuple[int, list[Any], list[Any]] | None = None
        self._heavy_ns = self._layer_ns = 0
        self._stride = 1
        self.libraries: list[Library] = [CORE]
        self._rested: tuple[int, int] | None = None  # core's tally of steps and passes since when nothing is told
        self._loop = self._base = 0  # the code whose loop goes on, and the steps before it
        _live.add(self)

    def start(self) -> None:
        """Begin to listen."""
        observe.follow(self)
        _active.append(self)

    def stop(self) -> None:
        """Listen no more; twice does nothing more."""
        observe.unfollow(self)
        if self in _active:
            _active.remove(self)
        self._wake()
        if self.alive:
            self._safely(self._read)
        self._copies = None
        self._pending.clear()

    # -- what is heard -------------------------------------------------------------------------------------------------

    def passed(self, roots: tuple[Any, ...]) -> None:
        if self.takes_pass():
            self.backward(CORE, roots)

    def left(self, value: Any) -> None:
        if self.takes_number():
            self.number(CORE, value)

    def stepping(self, optimizer: Any) -> None:
        if self.takes_weights():
            self.before(CORE, optimizer)

    def stepped(self, optimizer: Any) -> None:
        self._wake(1)
        if self.takes_step():
            self.after(CORE, optimizer)
        if self._stride > 1 and self._ours():
            self._rest()

    def _rest(self) -> None:
        """Have core tell nothing until the next step that is looked at begins."""
        left = -self._turn % self._stride
        if left and not self.due and len(self._known) == 1:
            self._rested = observe.tally.steps, observe.tally.passes
            observe.rest(self, observe.tally.steps + left)

    def _wake(self, going_on: int = 0) -> None:
        """Count what core did not tell of; so many of its steps are going on and are yet to be told."""
        if self._rested is None:
            return
        (steps, passes), self._rested = self._rested, None
        self.steps += max(observe.tally.steps - going_on - steps, 0)
        self.passes += max(observe.tally.passes - passes, 0)
        self._turn, self._since = self.steps + 1, 0
        observe.rest(self, 0)

    # each of these is asked first: where steps are short most are not looked at, and cost no more than the question

    def takes_pass(self) -> bool:
        """Count a backward pass that is about to run; return whether `backward` is to be told of it."""
        if get_ident() != self.thread or not self.alive or self.error is not None:
            return False
        self._wake()
        self._since += 1
        self.passes += 1
        return not self._between()

    def takes_number(self) -> bool:
        """Return whether `number` is to be told of what leaves the graph: between two steps that are looked at, of
        what is not computed in each step."""
        if not self._ours():
            return False
        self._wake()
        if not self._between() or (place := self._place()) is None:
            return True
        named = self.named.get((id(place[0]), place[1]))
        return named is None or self.steps - named.at >= self._stride

    def takes_weights(self) -> bool:
        """Return whether `before` is to be told of a step that is about to be made; never where `due` is False."""
        return self.due and self._ours()

    def takes_step(self) -> bool:
        """Count a step, where that is all; return whether `after` is to be told of it."""
        if get_ident() != self.thread or not self.alive or self.error is not None:
            return False
        if not self._between() or self._copies is not None or len(self._known) != 1:
            return True
        self.steps += 1
        self._turn, self._since = self.steps + 1, 0
        return False

    def _between(self) -> bool:
        """Return whether the step that goes on is none of those that are looked at."""
        return self._stride > 1 and self.steps > 0 and self._turn % self._stride != 0

    def failed(self, error: Exception) -> None:
        self.error = error

    def _place(self) -> Place:
        """Return the instruction of the user's that runs, the same for all its runs."""
        place = users_place()
        if place is None:
            return None
        code, lasti = place
        found = self._begins.get((id(code), lasti))
        if found is None:
            if len(self._begins) >= 4 * PLACES:
                self._begins.clear()
            found = self._begins[id(code), lasti] = code, instruction(code, lasti)
        return found

    def _ours(self) -> bool:
        return self.alive and self.error is None and get_ident() == self.thread

    def _safely(self, work: Any, *args: Any) -> None:
        if self.error is None:
            try:
                work(*args)
            except Exception as error:
                self.failed(error)

    def backward(self, library: Library, roots: Sequence[Any]) -> None:
        """A backward pass is about to run that `takes_pass` takes."""
        begin = perf_counter_ns()
        place = self._place()
        for k, t in enumerate(roots[:ROOTS]):
            key = place and (id(place[0]), place[1], k)
            named = self.named.get(key) or self._new(key, place, "loss")
            if named is None:
                continue
            if not self.steps:
                self._count(key, named)
            step = self.steps + 1 if self.steps else self._turn
            value = library.number(t)
            if value is None:
                self._wait(named.series, step, library, t)
                continue
            named.series.add(step, value)
            self._losses.append(value)
            if self._fresh:
                for other in self._fresh:
                    other.twins += other.series.last == value
        self._fresh.clear()
        self._seen(begin, not self.steps)

    def number(self, library: Library, value: Any) -> None:
        """A number that `takes_number` takes has left the graph."""
        begin = perf_counter_ns()
        place = self._place()
        if place is None or isinstance(value, bool) or not isinstance(value, int | float):
            return
        key = id(place[0]), place[1]
        named = self.named.get(key) or self._new(key, place, "number")
        if named is not None:
            if not self.steps:
                self._count(key, named)
            named.series.add(self._here(), float(value))
            named.at = self.steps
            named.quiet += library.quiet()
            named.whole += isinstance(value, int)
            if value in self._losses:
                named.twins += 1
            elif len(self._fresh) < ROOTS:
                self._fresh.append(named)
        self._seen(begin)

    def log(self, values: Mapping[str, float]) -> None:
        """The user names numbers."""
        if not self._ours():
            return
        begin = perf_counter_ns()
        for name, value in values.items():
            named = self.named.get(name) or self._new(name, None, "log", name)
            if named is not None:
                if not self.steps and not self.passes:
                    self._count(name, named)
                named.series.add(self._here(), value)
        self._seen(begin)

    def before(self, library: Library, optimizer: Any) -> None:
        """An optimizer is about to make a step that `takes_weights` takes."""
        begin = perf_counter_ns()
        self.due = False
        chosen = self.layers.begin(library, optimizer, library.weights(optimizer), sys._getframe(1))
        self._copies = id(optimizer), chosen, library.samples(chosen)
        self._layer_ns = perf_counter_ns() - begin
        self.own_ns += self._layer_ns
        self._heavy_ns += self._layer_ns

    def after(self, library: Library, optimizer: Any) -> None:
        """An optimizer has made a step that `takes_step` takes."""
        begin = perf_counter_ns()
        held, self._copies = self._copies, None
        if held is not None and held[0] == id(optimizer):
            now = library.samples(held[1])
            self.layers.end(library, self.steps + 1, held[1], held[2], now)
            self._layer_ns += perf_counter_ns() - begin
            self._heavy_ns += perf_counter_ns() - begin
        if self._leads(optimizer):
            self.steps += 1
            if self.steps == 1:
                for named in self.named.values():
                    named.series.at_once()
            self._turn, self._since = self.steps + 1, 0
        self._rate(optimizer)
        self._seen(begin, True)

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _new(self, key: Any, place: Place, source: str, name: str = "") -> Named | None:
        if key is None or len(self.named) >= PLACES:
            return None
        made = self.named[key] = Named(Series(), place, source, name)
        return made

    def _count(self, key: Any, named: Named) -> None:
        """Without an optimizer the line that comes first counts the steps; a loss before any other number."""
        lead = self.named.get(self._lead)
        if lead is None or (lead.source != "loss" and named.source == "loss"):
            self._lead = key
        if key == self._lead:
            self._turn += 1

    def _here(self) -> int:
        """Return the step that a number belongs to: the last one, until the next has begun."""
        return max(self.steps + (self._since > 0), 1) if self.steps else max(self._turn, 1)

    def _leads(self, optimizer: Any) -> bool:
        """Return whether a step of the loop ends with this optimizer's: of several, with the one that steps rarest."""
        key = id(optimizer)
        self._known[key] = None
        self._recent.append(key)
        if len(self._known) == 1:
            return True
        counts = Counter(self._recent)
        least = min(counts.values())
        return key == next(known for known in self._known if 0 < counts[known] <= least + 1)

    def _rate(self, optimizer: Any) -> None:
        groups = optimizer.param_groups
        rate = groups[0].get("lr") if groups else None
        if rate.__class__ is not float and rate.__class__ is not int:
            return
        known = self.rates.get(id(optimizer))
        if known is None:
            if len(self.rates) >= ROOTS:
                return
            known = self.rates[id(optimizer)] = Series(), float("nan")
        if known[1] != rate:
            known[0].add(max(self.steps, 1), float(rate))
            self.rates[id(optimizer)] = known[0], rate

    def _wait(self, series: Series, step: int, library: Library, t: Any) -> None:
        """Keep a number on a GPU until it is time to read it; of too many every second."""
        held = library.held(t)
        if held is None:
            return
        if len(self._pending) >= PENDING:
            self._pending = self._pending[::2]
        self._pending.append((series, step, library, held))

    def _read(self) -> None:
        waiting, self._pending = self._pending, []
        for library in dict.fromkeys(entry[2] for entry in waiting):
            mine = [entry for entry in waiting if entry[2] is library]
            for (series, step, _, _), value in zip(mine, library.numbers([e[3] for e in mine]), strict=True):
                series.add(step, value)
                self._losses.append(value)

    def _seen(self, begin: int, turns: bool = False) -> None:
        now = perf_counter_ns()
        self.last_ns = now
        if self.first_ns is None:
            self.first_ns = begin
        self.own_ns += now - begin
        if now >= self._next and (turns or now >= self._next + 4 * EVERY_NS):  # soonest where the loop is seen
            self._look(now, turns)
            self.own_ns += perf_counter_ns() - now

    def _look(self, now: int, turns: bool) -> None:
        """What is too slow for each step; `turns`: the loop is where it counts its steps."""
        spent = thread_time_ns() - self._began_running
        self._next = now + EVERY_NS
        self._read()
        step = self.steps or self._turn
        if step > 200:  # what each step costs: where steps are short, not each of them is read
            cheap = self.own_ns - self._heavy_ns
            share = (cheap - self._window[1]) / max(now - self._window[0], 1)
            self._stride = min(max(round(self._stride * share / EACH), 1), STRIDE)
            self._window = now, cheap
        self.marks.append((now, step))
        if self._heavy_ns + self._layer_ns > SHARE * spent:
            self._next = now + 4 * EVERY_NS
            return
        self.due = True
        size = resident() + sum(library.memory() for library in self.libraries)
        self.memory_bytes = max(self.memory_bytes, size)
        if size:
            self.memory.add(max(step, 1), float(size))
        frame = users_frame(sys._getframe(1)) if turns and step else None
        if frame is not None:
            if self._loop != id(frame.f_code):  # steps that another loop has made are none of this one's
                self._loop, self._base = id(frame.f_code), step - 1 if self._loop else 0
            more = loops.expected(loops.around(frame), step - self._base)
            self.expected = None if more is None else self._base + more
        self._heavy_ns += perf_counter_ns() - now

    # -- what is told --------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        """Whether there is a loop to tell of."""
        return self.steps > 1 or any(n.series.count > 1 and n.source != "number" for n in list(self.named.values()))

    def plain(self) -> RunCurves:
        """Return what there is so far; another thread may ask."""
        step = self.steps or self._turn
        unit = "step" if self.steps or not self.passes else "backward pass"
        seconds = self._seconds()
        run = RunCurves(step, unit, seconds, self._speed(), self.expected, memory_bytes=self.memory_bytes)
        run.curves = curves(list(self.named.values()), self.files, self._locate)
        for number, (series, _) in enumerate(list(self.rates.values()), 1):
            name = "learning rate" if len(self.rates) == 1 else f"learning rate {number}"
            run.curves.append(series.curve(name, "rate"))
        if len(self.memory.points) > 1:
            run.curves.append(self.memory.curve("memory", "memory"))
        run.layers_at, run.layers = self.layers.plain()
        if self.error is not None:
            said = (str(self.error).splitlines() or [""])[0]
            run.note = f"The course was not followed to its end: {type(self.error).__name__}: {said}"
        return run

    def _seconds(self) -> float:
        return 0.0 if self.first_ns is None else (self.last_ns - self.first_ns) / 1e9

    def _speed(self) -> float:
        marks = list(self.marks)
        if len(marks) > 1 and marks[-1][0] > marks[0][0]:
            return 1e9 * (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])
        took = self._seconds()
        return (self.steps or self._turn) / took if took > 0 else 0.0


def log(**values: Any) -> None:
    """Name numbers of a loop that its card is to show as curves: ``lab.log(loss=loss, accuracy=right / seen)``.

    Under ``%%autograd`` they stand on the card while the cell runs, and stay there; elsewhere nothing happens. Each is
    a number, or a tensor or array of one element, which is read here.

    *Raises*: TypeError for anything else.

    >>> import core, lab
    >>> lab.log(loss=core.tensor(0.5), accuracy=0.9)
    >>> lab.log(loss="low")
    Traceback (most recent call last):
    ...
    TypeError: lab.log: loss is of type str; needed: a number, or a tensor of one element
    """
    numbers = {name: _number(name, value) for name, value in values.items()}
    for course in list(_active):
        course._safely(course.log, numbers)


def _number(name: str, value: Any) -> float:
    if isinstance(value, int | float):
        return float(value)
    size = getattr(value, "numel", None) or getattr(value, "size", None)
    if hasattr(value, "item") and (size() if callable(size) else size) == 1:
        if isinstance(value, Tensor):
            return CORE.numbers([value._a])[0]
        value = value.detach() if hasattr(value, "detach") else value
        return float(value.item())
    came = f"of {size() if callable(size) else size} elements" if hasattr(value, "item") else "of type"
    came = came if came != "of type" else f"of type {type(value).__name__}"
    raise TypeError(f"lab.log: {name} is {came}; needed: a number, or a tensor of one element")


def _forked() -> None:
    """A child of `fork` has a loop of its own."""
    for course in list(_live):
        course.alive = False
    _active.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
