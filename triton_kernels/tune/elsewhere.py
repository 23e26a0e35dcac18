"""Configs tried through a `concurrent.futures.Executor`: threads, processes, or Dask's workers on other machines.

One executor, or a list of them, one a device::

    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        result = tune.run(problem, executor=pool, jobs=2)

    # Dask: on each machine CUDA_VISIBLE_DEVICES=0 dask worker SCHEDULER --nthreads 1, and one for each further GPU
    with Client("scheduler:8786") as client:
        result = tune.run(problem, executor=client.get_executor(), jobs=len(client.nthreads()))

`jobs` is how many configs are under way at once, one a device: of a list its length, else 1 where nothing is said. A
task is one config: compiled, checked and raced against the best so far, which is timed in turn with it on the same
device, so that ratios of several devices of one kind can be compared; another kind of device refuses the task. Where a
task runs, the kernel runs in a process of its own (`worker`), so that what crashes or hangs costs neither the
executor's worker nor its neighbours, and timings are alone on their device (`turns`).

A lost worker of the executor's costs its config alone: it is tried once more, with nothing beside it, and then marked.
An executor that breaks, as a process pool does, loses nothing: with a list the others go on, a function that makes an
executor is called again, and failing that the session goes on in its own process if that has the same device.

gradlab must be installed where tasks run. Data of a kernel travel there once for each process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from .attempt import BUILD_LIMIT_S, Attempt, Task, attempt
from .measure import Failed, Measure
from .worker import START_LIMIT_S, Clock, Here, Late, Stopped, Worker, worker_for

Given = Executor | Sequence[Executor] | Callable[[], Executor]
RENEW = "renew"
LOST = "the executor's worker was lost"
IDLE_S = 30.0  # so long a worker waits for its session's next task, in a process that cannot be told of the end
ANSWER_LIMIT_S = START_LIMIT_S + BUILD_LIMIT_S + 390.0  # no task takes longer: its worker is gone, and nobody said so
_MOST_MADE = 3  # executors made one after the other, none of which gave a result


# -- where a task runs -------------------------------------------------------------------------------------------------


class _Home:
    """A session's workers in this process."""

    def __init__(self, measure: Measure, stopping: threading.Event, kept: bool) -> None:
        self.measure, self.stopping, self.kept, self.process = measure, stopping, kept, os.getpid()
        self.idle: list[Worker | Here] = []
        self.busy, self.closed, self.used = 0, False, time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether it can be used here: a forked process has inherited its parent's."""
        return not self.closed and self.process == os.getpid()

    def take(self) -> Worker | Here:
        with _lock:
            self.busy += 1
            if self.idle:
                return self.idle.pop()
        return worker_for(self.measure, self.stopping)

    def give(self, worker: Worker | Here | None) -> None:
        with _lock:
            self.busy -= 1
            self.used = time.monotonic()
            if worker is not None and not self.closed:
                self.idle.append(worker)
                return
        if worker is not None:
            worker.close()

    def close(self) -> None:
        with _lock:
            self.closed, idle, self.idle = True, self.idle, []
        for worker in idle:
            worker.close()


_homes: dict[str, _Home] = {}
_lock = threading.RLock()
_reaping = 0  # the process that it is done in


def there(session: str, token: str, work: Task | tuple[str, tuple[Any, ...], float], measure: Any = None) -> Any:
    """Do a piece of a session's work in this process: what came of it, and the worker's facts.

    token : different for each call, as Dask takes two equal calls for one. measure : sent where it is not yet known.
    """
    with _lock:
        home = _homes.get(session)
        if home is None or not home.alive:
            if measure is None:
                return "unknown", None, {}
            home = _homes[session] = _Home(measure, threading.Event(), kept=False)
            _reap()
    worker: Worker | Here | None = None
    try:
        worker = home.take()
        worker.begin()
        if isinstance(work, Task):
            if work.device and worker.facts.get("device") != work.device:
                return "another device", worker.facts.get("device"), {}
            return "done", attempt(worker, work), worker.facts
        method, arguments, limit_s = work
        if method == RENEW:
            worker.renew()
            return "done", None, {}
        return "done", worker.call(method, *arguments, limit_s=limit_s), worker.facts
    except Failed as failure:
        return "failed", failure, worker.facts if worker else {}
    except Stopped:
        return "stopped", None, {}
    finally:
        home.give(worker)


def end_there(session: str, token: str) -> None:
    """End a session's workers in this process."""
    with _lock:
        home = _homes.pop(session, None)
    if home is not None:
        home.close()


def _reap() -> None:
    """End workers whose session has not been heard of for a while."""
    global _reaping
    if _reaping != os.getpid():
        _reaping = os.getpid()
        threading.Thread(target=_reaper, name="gradlab tuner: idle workers", daemon=True).start()


def _reaper() -> None:
    global _reaping
    while True:
        time.sleep(IDLE_S / 6)
        with _lock:
            others = {n: h for n, h in _homes.items() if not h.kept}
            old = [n for n, h in others.items() if not h.busy and time.monotonic() - h.used > IDLE_S]
            if not others:
                _reaping = 0
                return
        for name in old:
            end_there(name, "")


# -- the session's side ------------------------------------------------------------------------------------------------


def sound(given: Any) -> None:
    """*Raises*: TypeError for what is no executor."""
    many = list(given) if isinstance(given, Sequence) else [given]
    if not many or not all(isinstance(e, Executor) or (callable(e) and e is given) for e in many):
        names = ", ".join(type(e).__name__ for e in many) or "nothing"
        raise TypeError(
            f"Session: executor came as {names}; needed: a concurrent.futures.Executor, a list of them, or a function "
            "that makes one. Remedy: for Dask, client.get_executor()"
        )


class Gone(Exception):
    """No executor is left, and this process has another device."""


@dataclass(frozen=True)
class _Sent:
    """A piece of work that is under way: by which executor, since when, and how often it was lost."""

    work: Task | tuple[str, tuple[Any, ...], float]
    executor: int
    since: float
    lost: int = 0
    measure: bool = False
    why: str = ""


class Slots:
    """A session's executors, called as one `Worker`; and configs tried on all of them at once.

    `room` is how many configs more may be submitted now.
    """

    def __init__(
        self, given: Given, measure: Measure, jobs: int | None, stopping: threading.Event, clock: Clock | None = None
    ) -> None:
        self.measure, self.stopping, self.clock = measure, stopping, clock or Clock()
        self.make = given if callable(given) else None
        many = list(given) if isinstance(given, Sequence) else [self.make() if self.make else given]
        self.executors: dict[int, Executor] = dict(enumerate(many))  # type: ignore[arg-type]
        self.jobs = jobs or len(many)
        self.facts: dict[str, str] = {}
        self.notes: list[str] = []
        self._owned: list[Executor] = list(self.executors.values()) if self.make else []
        self._names = itertools.count(len(many))
        self._own: int | None = None  # the name of this process's own
        self._made = 0
        self._name = uuid.uuid4().hex
        self._flying: dict[Future[Any], _Sent] = {}
        self._suspects: deque[_Sent] = deque()  # what was lost: each is tried again with nothing beside it
        # threads of this process share the session's own event, so that they stop at once
        _homes[self._name] = _Home(measure, stopping, kept=True)

    # -- as a worker ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """It begins with the first call."""

    def call(self, method: str, *arguments: Any, limit_s: float) -> Any:
        """Return what ``measure.method(*arguments)`` gives on one of the executors. *Raises*: Failed, Stopped, Gone."""
        return self._one((method, arguments, limit_s))

    def renew(self) -> None:
        """Have the next call go to another process. *Raises*: Stopped, Gone."""
        self._one((RENEW, (), 60.0))

    def attempt(self, task: Task) -> Attempt:
        """Return what becomes of one config. *Raises*: Stopped, Gone."""
        try:
            return self._one(task)
        except Failed as failure:
            return Attempt(task.config, failure=failure)

    def _one(self, work: Any) -> Any:
        """Return what comes of a piece of work, nothing else being under way."""
        self._send(_Sent(work, -1, 0.0))
        while True:
            for _, content in self._landed(0.05):
                if isinstance(content, Failed):
                    raise content
                return content
            if self.stopping.is_set() or self.clock.left_s < 0:
                self.abandon()
                raise Stopped if self.stopping.is_set() else Late

    # -- side by side --------------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many configs more may be submitted."""
        return 0 if self._suspects else max(self.jobs - len(self._flying), 0)

    @property
    def under_way(self) -> int:
        """How many are being tried."""
        return len(self._flying) + len(self._suspects)

    def submit(self, task: Task) -> None:
        """Begin to try a config. *Raises*: Gone."""
        self._send(_Sent(task, -1, 0.0))

    def finished(self, wait_s: float) -> list[Attempt]:
        """Return the configs of which something has become within so many seconds. *Raises*: Gone."""
        found = []
        for work, content in self._landed(wait_s):
            assert isinstance(work, Task)
            found.append(Attempt(work.config, failure=content) if isinstance(content, Failed) else content)
        return found

    def abandon(self) -> None:
        """Give up what is under way; what this process does ends at once, what others do by its time limit."""
        for future in self._flying:
            future.cancel()
        wait(self._flying, timeout=0.5)
        self._flying.clear()
        self._suspects.clear()

    def close(self) -> None:
        """End the session's workers. Executors that were given are left as they are."""
        self.abandon()
        end_there(self._name, "")
        ends = []
        for executor in self.executors.values():
            with contextlib.suppress(Exception):
                ends += [executor.submit(end_there, self._name, uuid.uuid4().hex) for _ in range(self.jobs)]
        wait(ends, timeout=1.0)
        for executor in self._owned:
            ending = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True}, daemon=True)
            ending.start()
            ending.join(2.0)  # what hangs there ends by its time limit

    # -- sending and losing --------------------------------------------------------------------------------------------

    def _send(self, sent: _Sent) -> None:
        while True:
            if not self.executors:
                self._replace(sent.why)
            flying = [s.executor for s in self._flying.values()]
            # the least busy; a config that was lost goes elsewhere if there is an elsewhere
            name = min(self.executors, key=lambda n: (sent.lost > 0 and n == sent.executor, flying.count(n), n))
            arguments = (self._name, uuid.uuid4().hex, sent.work, self.measure if sent.measure else None)
            try:
                future = self.executors[name].submit(there, *arguments)
            except Exception as error:  # broken, or shut down
                self._drop(name, error)
                sent = replace(sent, why=_words(error))
                continue
            self._flying[future] = replace(sent, executor=name, since=time.monotonic())
            return

    def _landed(self, wait_s: float) -> list[tuple[Any, Any]]:
        """Work that is done, with what came of it or a Failed; what was lost is sent again."""
        if not self._flying and self._suspects:
            self._send(self._suspects.popleft())
        landed = []
        done, _ = wait(self._flying, timeout=wait_s, return_when="FIRST_COMPLETED")
        for future in list(self._flying):
            sent = self._flying.get(future)
            if sent is None:
                continue
            late = time.monotonic() - sent.since > ANSWER_LIMIT_S
            if future not in done and not late:
                continue
            del self._flying[future]
            try:
                if future not in done:
                    future.cancel()
                    raise TimeoutError(f"no answer within {ANSWER_LIMIT_S:.0f} s")
                kind, content, facts = future.result()
            except Exception as error:
                landed += self._lose(sent, error)
                continue
            if kind == "unknown":
                self._send(replace(sent, measure=True))
            elif kind == "another device":
                landed += self._misplaced(sent, content)
            elif kind == "stopped":
                landed += self._lose(sent, CancelledError("its session was stopped"))
            else:
                self._made = 0
                self.facts = facts or self.facts
                landed.append((sent.work, content))
        return landed

    def _lose(self, sent: _Sent, error: BaseException) -> list[tuple[Any, Any]]:
        """Note a loss: the work is sent once more, alone, or has failed."""
        if isinstance(error, BrokenExecutor) and sent.executor in self.executors:
            self._drop(sent.executor, error)
        if self.stopping.is_set():
            return []
        if sent.lost:
            said = f"{LOST} twice over this config: {_words(error)}"
            return [(sent.work, Failed("runtime", said))]
        self._suspects.append(replace(sent, lost=1, why=_words(error)))
        return []

    def _misplaced(self, sent: _Sent, device: Any) -> list[tuple[Any, Any]]:
        """Work came to another device than the session's. *Raises*: Gone where there is no other."""
        error = ValueError(f"it has another device, {device}")
        if sent.executor == self._own:
            raise Gone(f"no executor is left, and this process has another device, {device}")
        if len(self.executors) > 1:  # each is a device, and this one is of no use
            if sent.executor in self.executors:
                self._drop(sent.executor, error)
            self._send(sent)
            return []
        return self._lose(sent, error)

    def _drop(self, name: int, error: BaseException) -> None:
        """An executor is of no more use."""
        executor = self.executors.pop(name)
        self.notes.append(f"an executor ({type(executor).__name__}) broke: {_words(error)}")
        if executor in self._owned:
            executor.shutdown(wait=False)

    def _replace(self, why: str) -> None:
        """Where none is left: another, or this process. *Raises*: Gone."""
        name, self._made = next(self._names), self._made + 1
        if self.make is not None and self._made <= _MOST_MADE:
            made = self.make()
            self.notes.append("another executor was made")
        elif self._own is None:
            made, self._own, self.jobs = ThreadPoolExecutor(1), name, 1
            self.notes.append("no executor was left: the session went on in its own process")
        else:
            raise Gone(f"no executor is left: {why}")
        self._owned.append(made)
        self.executors[name] = made


def _words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or ['it says no more'])[0]}"[:300]
