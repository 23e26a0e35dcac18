"""Tuning one kernel: an iterator of events that can be stopped; and `run`, which iterates to the end.

The default is measured first. Then configs are compiled side by side, checked, and raced against the best so far, each
on disk before the next; the best of them, the default and the winner of an earlier session meet in a final, in turn, in
several processes, after they have given the right answer on other data and on an odd shape, and again when all of them
have run. The result is never slower than the default. The budget is for everything: what there is no time for is left
out, and named.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from . import elsewhere, places, recall
from . import events as ev
from . import strategy as strategies
from .beside import Beside
from .energy import LEAST_S
from .estimates import trust
from .events import Event, Finished, Result, reasons_of
from .final import FINALISTS, LEAST_PROCESSES, Final
from .fronts import Weighed, front, refuse
from .measure import Failed
from .places import cpu_count
from .problem import Problem, find
from .space import Config
from .store import Store
from .table import Table
from .trials import ENERGY_OF, Trials
from .worker import Late, Stopped, worker_for


class Session:
    """The tuning of a problem. ``for event in session`` runs it; `stop`, from any thread, ends it with its result.

    budget : seconds, or a text such as ``"60s"``; None for no limit. evaluations : how many configs at most. strategy :
    a name of `strategy.names()`. store : where trials are kept; None keeps nothing. resume : take over what earlier
    sessions of the same problem have measured. objective : what time is weighed against (`fronts.OBJECTIVES`): the
    result's `front` has the configs that none beats in both.

    >>> from triton_kernels.tune.replay import replayed
    >>> session = Session(replayed({1: 3.0, 2: 1.0, 4: 2.0}), budget=None)
    >>> [type(event).__name__ for event in session][-1], session.result.best.config
    ('Finished', {'BLOCK': 2})
    """

    def __init__(
        self,
        problem: Problem,
        *,
        budget: float | str | None = "60s",
        evaluations: int | None = None,
        strategy: str = "portfolio",
        store: Store | None = None,
        resume: bool = True,
        seed: int = 0,
        jobs: int | None = None,
        executor: elsewhere.Given | None = None,
        objective: str = "time",
    ) -> None:
        refuse(objective, problem.measure.kind)
        self.objective = objective
        self.problem, self.store, self.resume, self.seed = problem, store, resume, seed
        self.budget_s = None if budget is None else seconds_of(budget)
        self.evaluations, self.strategy_name = evaluations, strategy
        if executor is not None:
            elsewhere.sound(executor)
        self.executor, self._asked_jobs = executor, jobs
        self.jobs = jobs or (min(cpu_count(), 4) if problem.measure.apart else 1)
        self.result: Result | None = None
        self.table = Table(problem.space)
        self._begun = False
        self._resumed = 0
        self._start_s = 0.0  # until the first worker had compiled the default
        self._going = threading.Event()
        self._going.set()
        self._paused_s = 0.0
        self._notes: list[str] = list(problem.notes)
        if not self.table.complete:
            self._notes.append(f"the space is too large to enumerate: {len(self.table):,} of its configs were drawn, "
                               "and those around the best join")  # fmt: skip
        chosen = strategies.make(strategy, self.table, seed, recall.first_rows(problem, self.table, store))
        if resume:
            chosen.recall(recall.histories(problem, self.table, store))
        self.trials = Trials(problem, self.table, chosen, store)
        self.beside = Beside(self.trials, store if resume and not problem.measure.estimate else None)

    def stop(self) -> None:
        """End the search: what is being compiled or measured is given up, and the final follows. Called again, it ends
        that too."""
        self.trials.stopping.set()

    def pause(self) -> None:
        """Begin no further config until `go_on`; the budget's clock stands still meanwhile."""
        self._going.clear()

    def go_on(self) -> None:
        """End a pause."""
        self._going.set()

    @property
    def spent_s(self) -> float:
        """Seconds since it began, pauses left out; 0 before it has begun."""
        return time.monotonic() - self._began - self._paused_s if self._begun else 0.0

    def _allow(self, share: float) -> None:
        """Let whoever measures go on until all of the budget is spent but `share` seconds."""
        if self.budget_s is not None:
            self.trials.clock.until = time.monotonic() + self.budget_s - self.spent_s - share

    def _wait(self) -> None:
        """Stand still as long as it is paused and not stopped."""
        if self._going.is_set():
            return
        began = time.monotonic()
        while not self._going.wait(0.05) and not self.trials.stopping.is_set():
            pass
        paused = time.monotonic() - began
        self._paused_s += paused
        self.trials.clock.until += paused

    def __iter__(self) -> Iterator[Event]:
        # The events are not kept here: a loop that is left ends them, and their workers.
        if self._begun:
            raise RuntimeError("a session runs once. Remedy: make another; it takes over what this one has measured")
        self._begun = True
        self._began = time.monotonic()
        return self._run()

    # -- the run -------------------------------------------------------------------------------------------------------

    def _run(self) -> Iterator[Event]:
        trials, ended, final = self.trials, "complete", None
        with contextlib.ExitStack() as stack:
            workers = self._workers(stack)
            if (store := self.store) is not None:
                stack.callback(lambda: store.end(trials.session))
            try:
                try:
                    self._allow(0.0)
                    yield from self._begin(workers[0])
                    self._allow(self._reserve())
                    if isinstance(workers[0], elsewhere.Slots):
                        searching = self._search_elsewhere(workers[0])
                    else:
                        searching = self._search(workers, stack.enter_context(ThreadPoolExecutor(self.jobs)))
                    for event in searching:
                        if isinstance(event, ev.Stopped):
                            ended = event.reason
                        yield event
                except Late:
                    ended = "budget"
                    yield ev.Stopped(ended)
                except Stopped:
                    ended = "stopped"
                    yield ev.Stopped(ended)
                except elsewhere.Gone as error:
                    ended = "executor"
                    self._notes.append(str(error))
                    yield ev.Stopped(ended)
                if trials.anchor is not None:
                    trials.stopping.clear()  # the final is short, and what was found deserves it
                    self._allow(0.0)
                    final = Final(trials, 2.0 if ended == "stopped" else self._final_s(), self.seed)
                    try:
                        yield from final.run(workers[0])
                        if self.objective == "energy" and (why := trials.read_energy(workers[0])):
                            self._notes.append(why)
                    except Late:
                        ended = "budget"
                    except Stopped:
                        ended = "stopped"
                    except elsewhere.Gone:
                        ended = "executor"
            except BaseException:  # the loop was left, or interrupted: nobody waits for what is being compiled
                trials.stopping.set()
                raise
        self.result = self._concluded(final, ended)
        yield Finished(self.result)

    def _workers(self, stack: contextlib.ExitStack) -> list[Any]:
        """Workers of this process's own, or one that stands for the executors."""
        measure, stopping = self.problem.measure, self.trials.stopping
        if measure.kind == "cpu" and hasattr(measure, "text"):
            with contextlib.suppress(OSError):  # its workers will say why
                places.cache_folder()  # which warns where it is another than usual
        made: list[Any]
        if self.executor is not None:
            made = [elsewhere.Slots(self.executor, measure, self._asked_jobs, stopping, self.trials.clock)]
            stack.callback(lambda: self._notes.extend(made[0].notes))
        else:
            made = [worker_for(measure, stopping, self.trials.clock) for _ in range(self.jobs)]
        for worker in made:
            stack.callback(worker.close)
        return made

    def _begin(self, worker: Any) -> Iterator[Event]:
        """Yield the default first; without its right answer nothing else means anything. Then what is known of
        before."""
        config = self.problem.space.default
        began = time.monotonic()
        built = self.trials.build_or_why(config, worker)
        self._start_s = time.monotonic() - began
        if isinstance(built, Stopped):
            raise built
        if self.executor is not None and self.problem.measure.kind in ("cpu", "cuda"):
            self._settle(worker.facts.get("device", self.problem.device))
        if self.store is not None:
            self.trials.session = self.store.begin(self.problem.key, worker.facts, self.strategy_name)
        known = self._known() if self.resume and self.store is not None else []
        yield ev.Started(len(self.table), len(known), worker.facts.get("device", self.problem.device))
        self.trials.strategy.asked[self.table.default] = True
        yield from self.trials.measured(config, built, worker)
        if self.trials.anchor is not None and not self.problem.measure.steady:
            try:
                self.trials.check(config, worker, 0, True)
            except Failed as failure:
                self.trials.anchor = None
                yield from self.trials.reject(self.table.default, {"config": config}, failure)
        if self.trials.anchor is not None:
            self._take_over(known, worker)

    def _settle(self, device: str) -> None:
        """Results are those of the device where the executor's first worker measures, and of no other."""
        self.trials.device = device
        if device != self.problem.device:
            self._notes.append(f"measured on {device}")
            self.problem = self.trials.problem = replace(self.problem, device=device)

    def _take_over(self, known: list[dict[str, Any]], worker: Any) -> None:
        """Tell the strategy of earlier trials; what was best then is measured anew, and all are scaled as it has
        changed: a machine that others used too gave other ratios."""
        trials, problem, rows, of_row = self.trials, self.problem, {}, {}
        for trial in known:
            row = self.table.find(trial["config"])
            if row is not None and row != self.table.default:
                rows[row] = trial.get("ratio") if trial["status"] == "correct" else None
                of_row[row] = trial
        self._resumed = len(rows)
        scale = 1.0
        right = {row: ratio for row, ratio in rows.items() if ratio}
        if right and not problem.measure.steady:
            best = min(right, key=lambda row: right[row])
            config = self.table.config(best)
            done = trials.attempt(worker, trials.task(config, problem.space.default))
            if done.built is not None:
                trials.built[self.table.code(config)] = done.built
            if done.value is None:
                rows[best] = None
            else:
                scale = done.value / trials.default_ms / right[best]
                if done.value < trials.value:
                    trials.become(config, done.value)
        for row, ratio in rows.items():
            value = ratio * scale * trials.default_ms if ratio else None
            trials.know(of_row[row], value)
            trials.strategy.tell(row, value)

    def _known(self) -> list[dict[str, Any]]:
        """Trials of earlier sessions that need not be taken again; what ran out of time or was lost with an executor's
        worker may have been the machine's fault, and is."""
        assert self.store is not None
        found = self.store.trials(self.problem.key)
        again = [t for t in found if t["status"] == "timeout" or elsewhere.LOST in t.get("reason", "")]
        return [t for t in found if t not in again and (t["status"] != "correct" or t.get("ratio"))]

    def _search(self, workers: list[Any], pool: ThreadPoolExecutor) -> Iterator[Event]:
        while self.trials.anchor is not None:
            self._wait()
            if self.trials.stopping.is_set():
                raise Stopped
            if why := self._spent():
                yield ev.Stopped(why)
                return
            configs = self._next(len(workers))
            if not configs and not self.beside.waiting:
                return
            built = pool.map(self.trials.build_or_why, configs, workers)
            for config, found in zip(configs, list(built), strict=True):
                yield from self.trials.measured(config, found, workers[0])

    def _search_elsewhere(self, slots: elsewhere.Slots) -> Iterator[Event]:
        """As `_search`, with no config waiting for another that is tried beside it."""
        why, ended_at = "", 0.0
        while self.trials.anchor is not None:
            self._wait()
            if self.trials.stopping.is_set():
                slots.abandon()
                raise Stopped
            if not why and (why := self._spent()):
                ended_at = time.monotonic()
            if not why:
                for config in self._next(slots.room, slots.under_way):
                    slots.submit(self.trials.task(config))
            if why == "budget" and time.monotonic() - ended_at > 2.0:
                slots.abandon()
            if not slots.under_way and (why or not self.beside.waiting):
                if why:
                    yield ev.Stopped(why)
                return
            for done in slots.finished(0.05):
                if done.built is not None:
                    yield self.trials.compiled(done.config, done.built)
                yield from self.trials.concluded(done)

    def _spent(self) -> str:
        """Return what has run out: the evaluations, the budget, or nothing."""
        if self.evaluations is not None and self.trials.count >= self.evaluations:
            return "evaluations"
        return "budget" if self.budget_s is not None and self.spent_s > self.budget_s - self._reserve() else ""

    def _next(self, room: int, under_way: int = 0) -> list[Config]:
        """Configs to try next, as many as there is room for."""
        if self.evaluations is not None:
            room = min(room, self.evaluations - self.trials.count - under_way)
        found = self.beside.choose(room)
        if not found and self.beside.waiting and not under_way:
            time.sleep(0.05)
        return found

    def _reserve(self) -> float:
        """Of the budget, what is left to the final: what its checks and its processes took so far, or may take."""
        if self.budget_s is None or self.problem.measure.kind == "replay":
            return 0.0
        needs = LEAST_PROCESSES * (self._start_s + 1.0) + 8.0 * FINALISTS * self.trials.check_s
        if self.problem.check is not None:
            needs += 10.0  # the interpreter is slow
        needs += self._energy_s
        return min(max(needs, 0.2 * self.budget_s), 0.35 * self.budget_s, 60.0)

    def _final_s(self) -> float:
        """How long the final may go on timing."""
        return 10.0 if self.budget_s is None else min(self.budget_s - self.spent_s - self._energy_s, 20.0)

    @property
    def _energy_s(self) -> float:
        return 1.5 * ENERGY_OF * LEAST_S if self.objective == "energy" else 0.0

    def _concluded(self, final: Final | None, ended: str) -> Result:
        problem, trials, stored = self.problem, self.trials, ""
        if self.beside.heard:
            self._notes.append(f"{self.beside.heard} trials are of another session, which tunes the same meanwhile")
        if final is None:
            ranked, default = [], None
            ties: tuple[Config, ...] = ()
            verdict = "stopped" if ended in ("stopped", "executor") and not trials.rejected else "failed"
        else:
            ranked, ties, default, verdict = final.places, tuple(final.ties), final.default, final.verdict
            self._notes += final.notes
            if problem.measure.estimate and ranked:
                facts = ranked[0].facts
                self._notes.append(trust(facts.get("multiplied", 0.0), facts.get("asked", 0.0)))
        if self.store is not None and not problem.measure.estimate:
            if final is not None and final.ran and verdict != "noisy":  # a winner of before is not lost to noise
                best = ranked[0]
                winner = {"config": best.config, "ratio": best.ratio, "low": best.low, "high": best.high,
                          "ties": list(ties), "grid": final.grid_of(best.config)}  # fmt: skip
                self.store.win(problem.key, trials.session, winner)
            stored = self.store.where
        result = Result(
            problem.kernel, problem.shape, problem.dtype, problem.measure.kind, problem.device, self.strategy_name,
            verdict, default, ranked[0] if ranked else None, tuple(ranked[:FINALISTS]), ties,
            dict(Counter(r.status for r in trials.rejected)), reasons_of(trials.rejected), trials.count,
            self._resumed, trials.merged, len(self.table), self.spent_s, ended, stored,
            tuple(self._notes), final.vendor if final else None, self.objective, self._front(),
        )  # fmt: skip
        if self.store is not None and trials.session and not problem.measure.estimate:
            self.store.conclude(problem.key, trials.session, outcome_of(result))
        return result

    def _front(self) -> tuple[Weighed, ...]:
        return () if self.objective == "time" else front(self.trials.weighed(self.objective))


def outcome_of(result: Result) -> dict[str, Any]:
    """Return what a kernel's history keeps of a result."""
    best, default = result.best, result.default
    found = {"verdict": result.verdict, "ended": result.ended, "seconds": result.seconds,
             "evaluations": result.evaluations, "notes": list(result.notes)}  # fmt: skip
    if best is not None and default is not None:
        found |= {"config": best.config, "default": default.config, "ratio": best.ratio, "low": best.low,
                  "high": best.high, "default_ms": default.time_ms}  # fmt: skip
    return found


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds_of(budget: float | str) -> float:
    """Return seconds from ``"90"``, ``"60s"``, ``"5m"``, ``"1h"`` or a number. *Raises*: ValueError.

    >>> seconds_of("1.5m"), seconds_of(3)
    (90.0, 3.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|)", str(budget).strip())
    seconds = float(found.group(1)) * _UNITS[found.group(2)] if found else 0.0
    if not seconds > 0:
        raise ValueError(f"a budget is a positive time such as 60s, 5m or 1h; came: {budget!r}")
    return seconds


def run(
    kernel: Any,
    shape: Any = "",
    dtype: str = "float32",
    *,
    target: str | None = None,
    store: Store | None = None,
    grid: Any = None,
    reference: Any = None,
    configs: Any = None,
    function: str | None = None,
    tolerance: float | None = None,
    **options: Any,
) -> Result:
    """Tune a kernel and wait for the `Result`; options are `Session`'s. Without `store` the user's own is taken.

    kernel : a name that `find` knows, at a shape and dtype; a `Problem`; anyone's Triton kernel, or the text of a C
    function. The last two take their arguments by name in the place of the shape, with `reference`, `configs` and
    `tolerance`, the first `grid` besides (`own_problem`; without a reference `adopt`), the second `function`
    (`own_c.c_problem`).

    >>> from triton_kernels.tune.replay import replayed
    >>> run(replayed({1: 3.0, 2: 1.0}), budget=None).verdict
    'faster'
    """
    if isinstance(kernel, str) and "{" in kernel:
        from .own_c import c_problem

        problem = c_problem(kernel, shape, reference=reference, configs=configs, function=function, allowed=tolerance)
    elif isinstance(kernel, str):
        problem = find(kernel, shape, dtype, target)
    elif isinstance(kernel, Problem):
        problem = kernel
    else:
        from .own import own_problem

        problem = own_problem(kernel, shape, grid=grid, reference=reference, configs=configs, target=target,
                              tolerance=tolerance)  # fmt: skip
    with store or (Store() if problem.measure.apart else contextlib.nullcontext()) as kept:  # type: ignore[union-attr]
        session = Session(problem, store=kept, **options)
        for _ in session:
            pass
    assert session.result is not None
    return session.result
