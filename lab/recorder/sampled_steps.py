"""Recording that may stay on: whole steps at first and now and then; between them only what has to be seen of each.

A recorder that hears every op makes a small model's step seven times as long. But steps of a loop are alike: the first
ones are recorded, and then again some, as soon as what they took is a small share of what the loop has taken: a
hundredth under `%autograd on`, half under `%%autograd`. Listening begins and ends where a step does, so that what is
recorded is always whole steps. Where recording a step takes no more than that share, all of them are recorded.

Between them the loss of each step is read, and at a share of a hundredth of the time is seen whether gradients were
cleared, in which mode the model is and what the learning rate has come to. Where that changes, the next steps are
recorded.
"""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Sequence
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from core.events import observe

from .loss_course import Course
from .observer import Recorder
from .op_to_row import latest
from .step_ends import StepEnds
from .unrecorded import Loop
from .unseen_losses import look

FIRST, FIRST_NS = 8, 50_000_000  # the least that is recorded at first: steps, and time
BURST, CLOSELY = 3, 8  # steps that are recorded together, now and then and where something changed
SHARE = 0.01  # of the loop's own time, which recording may take
TWICE = 2  # how often a change of one kind has steps recorded
MODES = 4  # modules whose mode is looked at
RATE = 10.0  # a learning rate that has changed by this factor is another one
# a close look at a step takes so long, its code being in no cache then; of short steps few get one
LOOK_NS, LOOK_SHARE, SELDOM = 12_000, 0.005, 16
AGAIN = 8  # steps after which is looked again whether recording can go on
CHEAP = 32  # steps after which is looked again whether recording takes no more than its share
CLOSE: dict[str, Any] = {"first": 64, "first_ns": 2_000_000_000, "share": 0.5}
"""What `%%autograd` samples by: two seconds whole, and then so much that a cell takes half as long again."""

_live: weakref.WeakSet[SampledSteps] = weakref.WeakSet()


class SampledSteps:
    """Switches what listens off and on as a loop goes.

    recorder : what gathers the trace.
    watches : what tells it of other libraries, with `pause` and `resume`.
    collect : thresholds of the garbage collector, while recording and without.
    """

    def __init__(
        self,
        recorder: Recorder,
        watches: Sequence[Any] = (),
        collect: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
        first: int = FIRST,
        first_ns: int = FIRST_NS,
        share: float = SHARE,
    ) -> None:
        self.recorder, self.watches, self.collect = recorder, watches, collect
        self.first, self.first_ns, self.share = first, first_ns, share
        self.ends = StepEnds()
        self.loops: list[Loop] = []
        self.on = True
        """Whether what listens is there."""
        self.alive = True
        self.noticed: list[tuple[str, int]] = []
        """What changed in an unrecorded step, and in which."""
        self._who = get_ident()
        self._left = self._left_before = 0  # steps until what listens is switched; the same before an evaluation
        self._enough = False  # enough steps are recorded, and listening could not end with the last of them
        self._whole = True  # the first steps of a loop, which are recorded
        self._due = 0  # steps to be recorded next, since something changed
        self._loop = Loop()
        self._fresh = False  # the steps that follow are another loop's, though the same optimizer ends them
        self._since = self._from = perf_counter_ns()  # the first step of the loop ended; the last switch
        self._at = 0  # steps when that was
        self._off = 0  # since when nothing is recorded; 0 while it is
        self._cost = [[0, 0], [0, 0]]  # [steps, ns] without and with recording
        self.passes = 0
        """Backward passes that have begun since an optimizer stepped."""
        self._seldom = 1  # of so many unrecorded steps one is looked at closely
        self._skip = self._skipped = 0  # how many come before the next of those: still, and at first
        self._leader = 0  # the optimizer that ends a step
        self._evaluated = self._calls = 0  # evaluations that were recorded, and calls of models in the last of them
        self._values: list[float] = []  # losses that are not noted yet
        self._first_pass = True  # no backward pass has begun in this step
        self._spent = (0, 0)  # the gradient that the last step used
        self._parameter: Any = None  # whose
        self._stale = self._bad = False
        self._rate: Any = None
        self._rate_was = 0.0
        self._modes: list[tuple[Any, bool]] = []
        self._course: Course | None = None
        self._course_known = False
        for watch in watches:
            watch.after_backward = self.settled
        _live.add(self)

    # -- what is told of each step: short, since what runs once a step is never in a cache -------------------------

    def stepped(self, marks: Any, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if self._skip and id(optimizer) == self._leader:
            self._skip -= 1
            self.passes = 0
            return
        if not self.alive or get_ident() != self._who:
            return
        steps = 1 + self._caught_up()
        group = next((g for g in optimizer.param_groups if g["params"]), None)
        if group is None:
            return  # all its groups are empty
        p = group["params"][0]
        loops = self.ends.loops
        self.passes = 0
        if not self.on:
            self.recorder.steps.unheard(optimizer, steps)
        if self.ends.stepped(id(p)):
            self._leader = id(optimizer)
            self._spent = marks.gradient(p)
            if self._parameter is None or self._parameter() is not p:
                self._parameter = weakref.ref(p)
            rate = group.get("lr")
            if rate is not self._rate:
                self._rated(rate)
            self._ended(loops)

    def passing(self, marks: Any, loss: Any) -> None:
        """A backward pass is about to begin."""
        if get_ident() != self._who:
            return
        self.passes += 1
        if not self.on:
            value = marks.value(loss)
            if value - value == 0.0:
                self._values.append(value)
            elif self.alive:
                self._not_finite(value)
        if self._first_pass and self.alive:
            self._first_pass = False
            if self._parameter is not None and (p := self._parameter()) is not None:
                now = marks.gradient(p)
                stale = now == self._spent and now[0] != 0
                if stale is not self._stale:
                    self._stale = stale
                    self._notice("gradients")

    def passed(self) -> None:
        """A backward pass has come to its end, one of several without a step of an optimizer between."""
        if not self.alive or get_ident() != self._who:
            return
        self._caught_up()
        loops = self.ends.loops
        if self.ends.passed(self.passes):
            self._ended(loops)

    def _caught_up(self) -> int:
        """Count the steps of which only the loss was looked at, and return how many that were."""
        steps, self._skip = self._skipped - self._skip, 0
        self._skipped = 0
        if steps:
            self.ends.count += steps
            self._loop.unrecorded += steps
            self._left -= steps
        if self._values:
            if self._course is not None:
                for value in self._values:
                    self._course.note(value)
            self._values.clear()
        return steps

    def _not_finite(self, value: float) -> None:
        self._values.append(value)
        if not self._bad:
            self._caught_up()
            self._bad = True
            trace = self.recorder.trace
            if trace.unseen is None:
                trace.unseen = look(self.ends.count + 1, self.recorder.fold)
            self._notice("loss")

    def turned(self, module: Any) -> None:
        """A module was put to training or evaluation mode: an evaluation that is about to begin is recorded too."""
        if self.on or module.training or not self.alive or self._evaluated >= TWICE or get_ident() != self._who:
            return
        self._caught_up()
        if self._switch_on():
            self._left_before = self._left
            self._loop.left_out()  # what it takes is no part of a step
            self._evaluated += 1
            self.recorder.steps.entered, self._calls, self._left = self._evaluating, 0, 1

    def _evaluating(self) -> None:
        """A whole model begins in an evaluation that is recorded."""
        self._calls += 1
        enough = self._calls > self.first and perf_counter_ns() - self._from > self.first_ns
        if enough and self._only_ours():
            self._switch_off()

    def statement(self) -> None:
        """The cell comes to another of its statements: no loop goes on there, and what follows is recorded."""
        if not self.alive or not self.loops or get_ident() != self._who:
            return
        self._caught_up()
        self._fresh = True
        if not self.on:
            self._due = self.first
            self._switch_on()

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def _ended(self, loops: int) -> None:
        self._first_pass = True
        self._left -= 1
        if self.ends.loops != loops or self._fresh:
            self._another()
        if self.on:
            self._recorded()
            return
        self._loop.unrecorded += 1
        self.recorder.trace.steps.beat()
        for module, training in self._modes:
            m = module()
            if m is not None and m.training is not training:
                self._notice("mode")
        if self._left <= 0 or self._due:
            self._switch_on()
        elif self.ends.alone:
            self._skip = self._skipped = min(self._seldom, self._left) - 1

    def _another(self) -> None:
        """The first step of a loop has ended: what went before it is no part of those that follow."""
        self._unheard()
        self._loop, self._fresh = Loop(), False
        self.loops.append(self._loop)
        self._whole, self._left = True, self.first - 1
        self._since = self._from = perf_counter_ns()
        self._at = self.ends.count
        self._cost = [[0, 0], [0, 0]]
        if not self.on:
            self._due = self.first

    def _recorded(self) -> None:
        """A recorded step has ended."""
        self._loop.recorded += 1
        self._loop.end(self.recorder.trace)
        goes_on = self._left > 0 or (self._whole and perf_counter_ns() - self._since < self.first_ns)
        if goes_on or self.recorder.error is not None or not self._quiet():
            self._enough = not goes_on
            self._loop.begin(self.recorder.trace)
        elif not self._cost[False][0] and self._cheap():
            self._left = CHEAP
            self._loop.begin(self.recorder.trace)
        else:
            self._switch_off()

    def _cheap(self) -> bool:
        """Return whether recording takes no more of a step than its share, by what the recorder says it took itself."""
        own = self.recorder.own_ns + self.recorder.around_ns
        passed = perf_counter_ns() - self.recorder.started_ns
        return own <= self.share * (passed - own)

    def settled(self) -> None:
        """What a watch hears has ended: a backward pass, within which it could not pause."""
        if self._enough and self.alive:
            try:
                self._enough = False
                if self.on and self.recorder.error is None and self._quiet():
                    self._switch_off()
            except Exception as error:
                self.failed(error)

    def _rated(self, rate: Any) -> None:
        """The learning rate is another number than in the step before."""
        self._rate = rate
        if isinstance(rate, int | float):
            rate, was = abs(rate), self._rate_was
            if not was or self.on:
                self._rate_was = rate
            elif rate > RATE * was or RATE * rate < was:
                self._rate_was = rate
                self._notice("rate")

    def _notice(self, what: str) -> None:
        """Something is another way than it was: the next steps are to be recorded."""
        if not self.on and sum(kind == what for kind, _ in self.noticed) < TWICE:
            self.noticed.append((what, self.ends.count + 1))
            self._due = CLOSELY

    # -- switching -----------------------------------------------------------------------------------------------------

    def _only_ours(self) -> bool:
        """Return whether no recording within this one has its ops to itself."""
        return not any(isinstance(o, Recorder) and o is not self.recorder for o in observe.observers)

    def _quiet(self) -> bool:
        """Return whether nothing else listens or runs that a switch would disturb."""
        return self._only_ours() and all(watch.can_pause() for watch in self.watches)

    def _clocked(self, recorded: bool) -> None:
        now, steps = perf_counter_ns(), self.ends.count - self._at
        if steps > 0:
            cost = self._cost[recorded]
            cost[0], cost[1] = cost[0] + steps, cost[1] + now - self._from
        self._from, self._at = now, self.ends.count

    def _unheard(self) -> None:
        """Add to the loop how long it was unrecorded until now."""
        if not self.on and self._off:
            now = perf_counter_ns()
            self._loop.unrecorded_ns += now - self._off
            self._off = now

    def _switch_off(self) -> None:
        if self.recorder.steps.entered is None:
            self._clocked(True)
            self._remember_modes()
            self._find_course()
            self._left = self._gap()
        else:  # after an evaluation
            self._from, self._at, self.recorder.steps.entered = perf_counter_ns(), self.ends.count, None
            self._left = max(self._left_before, 1)
        self._whole, self.on = False, False
        observe.remove(self.recorder)
        for watch in self.watches:
            watch.pause()
        if self.collect is not None and gc.get_threshold() == self.collect[0]:
            gc.set_threshold(*self.collect[1])
        self._from = self._off = perf_counter_ns()

    def _gap(self) -> int:
        """Return after how many steps the next ones are recorded: as many as make the time of those a small share."""
        (plain, plain_ns), (steps, ns) = self._cost
        if not ns:
            return BURST
        each = ns / max(steps, 1)
        if plain:
            alone = plain_ns / plain
        else:  # so far, what the recorder says that it took itself
            own = self.recorder.own_ns + self.recorder.around_ns
            alone = max(each - own / max(self._loop.recorded, 1), each / 20)
        self._seldom = min(max(int(LOOK_NS / (LOOK_SHARE * alone)), 1), SELDOM)
        return max(int(BURST * (each - alone) / (self.share * alone)), 1)

    def _switch_on(self) -> bool:
        """Listen, unless something else does or runs that this would disturb."""
        if self.recorder.error is not None:
            self.alive = False
            return False
        if not self._quiet():
            self._left = AGAIN
            return False
        if not self._whole:
            self._clocked(False)
        self._unheard()
        self._left, self._due = self._due or BURST, 0
        self.recorder.goes_on()
        if self.collect is not None and gc.get_threshold() == self.collect[1]:
            gc.set_threshold(*self.collect[0])
        for watch in self.watches:
            watch.resume()
        observe.add(self.recorder)
        self.on = True
        self._loop.begin(self.recorder.trace)
        self._from = perf_counter_ns()
        return True

    def _remember_modes(self) -> None:
        """Find the modules whose mode is looked at: whole models, and parts that compute something else by it."""
        fold, watched = self.recorder.fold, self.recorder.steps.watched
        paths = [k for k, (parent, *_) in enumerate(fold.paths) if k and (parent == 0 or watched.get(k))]
        found = [(fold.paths[k][1], m) for k in paths[-MODES:] if (m := fold.paths[k][1]()) is not None]
        self._modes = [(reference, bool(m.training)) for reference, m in found]

    def _find_course(self) -> None:
        """Find the loss whose values are noted in each step: the one that a step's only backward pass begins at."""
        roots = [latest(row) for rows in self.recorder.trace.roots.values() for row in rows]
        self._course = roots[0].course if len({*roots}) == 1 else None

    # -- the end -------------------------------------------------------------------------------------------------------

    def failed(self, error: Exception) -> None:
        """An error of ours: the recording is over, the user's program is not."""
        self.alive = False
        self.recorder.failed(error)

    def stop(self) -> None:
        """The cell has come to its end: let figures stand for all steps, and be gone."""
        if not self.alive:
            return
        self._caught_up()
        self._unheard()
        self.alive = False
        for loop in self.loops:
            loop.stand_for_all(self.recorder.trace)
        if (facts := self.recorder.trace.steps).count:
            facts.unseen = self.steps - self.recorded

    @property
    def recorded(self) -> int:
        """How many steps were recorded."""
        return self.steps - sum(loop.unrecorded for loop in self.loops)

    @property
    def steps(self) -> int:
        """How many there were."""
        return self.ends.count

    def sentence(self) -> str:
        """Say what was recorded; "" where all was."""
        if self.recorded == self.steps:
            return ""
        return (
            f"{self.recorded:,} of {self.steps:,} steps were recorded: the first ones, and some now and then. Times "
            "and runs of ops are theirs, multiplied to stand for all steps; other counts are of the recorded ones. "
            "%%autograd --whole records all of them."
        )


def _forked() -> None:
    """A child of `fork` is not recorded."""
    for steps in list(_live):
        steps.alive = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
