"""A session's executors by themselves: what is sent where, what is sent again, and which workers a process keeps."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import pytest

from triton_kernels.tune import elsewhere
from triton_kernels.tune.attempt import Attempt, Task
from triton_kernels.tune.elsewhere import Gone, Slots, there
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.replay import ReplayMeasure
from triton_kernels.tune.worker import Clock, Late, Stopped

MEASURE = ReplayMeasure({(1,): 4.0, (2,): 3.0, (3,): "runtime"})
DEFAULT = {"BLOCK": 1}


def task(block, device=""):
    return Task({"BLOCK": block}, DEFAULT, steady=True, device=device)


class Made(Executor):
    """Notes what it is given, and answers when it is told to."""

    def __init__(self):
        self.sent, self.futures, self.shut = [], [], []

    def submit(self, fn, *arguments):
        assert fn in (elsewhere.there, elsewhere.end_there)
        self.sent.append(arguments)
        self.futures.append(Future())
        if fn is elsewhere.end_there:
            self.futures[-1].set_result(None)
        return self.futures[-1]

    def answer(self, *content):
        self.futures[-1].set_result(content)

    def fail(self, error):
        self.futures[-1].set_exception(error)

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.shut.append((wait, cancel_futures))


@pytest.fixture
def slots():
    """Makes `Slots` whose workers have no process of their own, and closes them."""
    made = []

    def make(given, jobs=None, **more):
        made.append(Slots(given, MEASURE, jobs, threading.Event(), **more))
        return made[-1]

    yield make
    for each in made:
        each.close()
    assert not elsewhere._homes


def test_as_many_are_under_way_as_there_are_executors_or_jobs(slots):
    two = slots([Made(), Made()])
    assert (two.jobs, two.room, two.under_way) == (2, 2, 0)
    two.submit(task(1))
    assert (two.room, two.under_way) == (1, 1)
    two.submit(task(2))
    two.submit(task(3))
    assert (two.room, two.under_way) == (0, 3)
    assert [len(e.sent) for e in two.executors.values()] == [2, 1]  # the least busy, the first of equals
    assert slots(Made()).jobs == 1
    assert slots(Made(), 5).room == 5
    assert slots([Made(), Made()], 3).jobs == 3


def test_what_is_done_is_given_back_with_what_the_worker_said(slots):
    executor = Made()
    one = slots(executor, 2)
    one.submit(task(2))
    name, token, work, measure = executor.sent[0]
    assert (name, work, measure) == (one._name, task(2), None)
    assert len(token) == 32
    assert one.finished(0.0) == []
    executor.answer("unknown", None, {})
    assert one.finished(0.0) == []
    assert executor.sent[1][2:] == (task(2), MEASURE)  # sent with the measure, by another token
    assert executor.sent[1][1] != token
    found = Attempt({"BLOCK": 2}, value=3.0)
    executor.answer("done", found, {"device": "d"})
    assert one.finished(0.0) == [found]
    assert (one.facts, one.under_way, one.room) == ({"device": "d"}, 0, 2)
    one.submit(task(3))
    executor.answer("failed", Failed("runtime", "why"), {})
    (failed,) = one.finished(0.0)
    assert (failed.config, str(failed.failure)) == ({"BLOCK": 3}, "runtime: why")
    assert one.facts == {"device": "d"}  # those of before, where none came


def test_what_was_lost_is_tried_once_more_alone_and_elsewhere(slots):
    first, second = Made(), Made()
    two = slots([first, second])
    two.submit(task(1))
    two.submit(task(2))
    first.fail(RuntimeError("the worker died\nand more"))
    assert two.finished(0.0) == []
    assert (two.room, two.under_way) == (0, 2)  # nothing else, until the suspect has been tried with nothing beside it
    assert len(first.sent) == 1
    assert len(second.sent) == 1
    second.answer("done", Attempt({"BLOCK": 2}), {})
    assert [a.config for a in two.finished(0.0)] == [{"BLOCK": 2}]
    assert two.finished(0.0) == []
    assert second.sent[1][2] == task(1)
    second.fail(RuntimeError(""))
    (lost,) = two.finished(0.0)
    assert lost.failure.status == "runtime"
    assert lost.failure.reason == (
        "the executor's worker was lost twice over this config: RuntimeError: it says no more"
    )
    assert (two.room, two.under_way) == (2, 0)
    assert two.notes == []


def test_one_whose_session_was_stopped_there_is_a_loss_and_here_is_nothing(slots):
    executor = Made()
    one = slots(executor)
    one.submit(task(1))
    executor.answer("stopped", None, {})
    assert one.finished(0.0) == []
    assert one.under_way == 1
    assert one.finished(0.0) == []
    one.stopping.set()
    executor.answer("stopped", None, {})
    assert one.finished(0.0) == []
    assert one.under_way == 0


def test_no_answer_in_time_is_a_loss(slots, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(elsewhere, "time", SimpleNamespace(monotonic=lambda: now[0]))
    executor = Made()
    one = slots(executor)
    one.submit(task(1))
    assert elsewhere.ANSWER_LIMIT_S == 600.0  # ten minutes: as long as a claim of the store's holds
    now[0] += 600.0
    one.finished(0.0)
    assert len(executor.sent) == 1
    now[0] += 0.1
    one.finished(0.0)
    one.finished(0.0)
    assert len(executor.sent) == 2
    assert executor.futures[0].cancelled()
    now[0] += 601.0
    (lost,) = one.finished(0.0)
    assert lost.failure.reason.endswith("twice over this config: TimeoutError: no answer within 600 s")


def test_executors_that_break_are_made_anew_thrice_and_then_it_goes_on_here(slots):
    made = []

    def make():
        made.append(Made())
        return made[-1]

    one = slots(make, 2)
    for count in range(1, 6):
        one.submit(task(2))
        made[-1].fail(BrokenProcessPool("gone"))
        one.finished(0.0)
        assert len(made) == count
        assert made[-1].shut == [(False, False)]
        one._suspects.clear()
        if count == 1:
            one.submit(task(2))
            made[-1].answer("done", Attempt({"BLOCK": 2}), {})
            one.finished(0.0)  # one that gave a result: the count begins anew
    one.clock.until = time.monotonic() + 20.0
    assert one.attempt(task(2)).value == 3.0  # in this process
    assert one.notes == [
        "an executor (Made) broke: BrokenProcessPool: gone", "another executor was made"] * 4 + [
        "an executor (Made) broke: BrokenProcessPool: gone",
        "no executor was left: the session went on in its own process"]  # fmt: skip
    assert (one.jobs, one.attempt(task(3)).failure.status) == (1, "runtime")


def test_where_this_process_can_do_no_more_either_it_is_over(slots):
    one = slots(Made(), 3)
    one._drop(0, ValueError("shut"))
    assert one.attempt(task(2)).value == 3.0
    assert one.jobs == 1
    one.executors[one._own].shutdown()
    with pytest.raises(Gone, match="no executor is left: RuntimeError: cannot schedule new futures after shutdown"):
        one.submit(task(2))


def test_a_worker_with_another_device(slots):
    first, second = Made(), Made()
    two = slots([first, second])
    two.submit(task(1, "mine"))
    first.answer("another device", "theirs", {})
    assert two.finished(0.0) == []
    assert two.notes == ["an executor (Made) broke: ValueError: it has another device, theirs"]
    assert second.sent[0][2] == task(1, "mine")
    second.answer("another device", "theirs", {})  # the only one that is left: perhaps another of its workers has it
    assert two.finished(0.0) == []
    assert two.finished(0.0) == []
    assert len(second.sent) == 2
    second.answer("another device", "theirs", {})
    (lost,) = two.finished(0.0)
    assert lost.failure.reason.endswith("ValueError: it has another device, theirs")
    two._drop(1, ValueError("shut"))
    two.submit(task(1, "mine"))
    with pytest.raises(Gone, match="no executor is left, and this process has another device, recorded"):
        two.finished(5.0)


def test_as_a_worker_it_gives_what_came_of_one_call(slots):
    threads = ThreadPoolExecutor(1)
    one = slots(threads)
    assert one.call("pairs", {"BLOCK": 2}, None, 2, limit_s=1.0) == ([3.0, 3.0], [])
    assert one.facts == {"device": "recorded"}
    one.renew()
    with pytest.raises(Failed, match="was recorded as failing"):
        one.call("check", {"BLOCK": 3}, limit_s=1.0)
    assert one.attempt(task(2)).value == 3.0
    threads.shutdown()


def test_waiting_ends_when_it_is_stopped_or_the_time_is_over(slots):
    clock = Clock()
    one = slots(Made(), clock=clock)
    clock.until = 0.0
    with pytest.raises(Late):
        one.call("check", {"BLOCK": 1}, limit_s=1.0)
    one.stopping.set()
    with pytest.raises(Stopped) as why:
        one.call("check", {"BLOCK": 1}, limit_s=1.0)
    assert why.type is Stopped
    assert one.under_way == 0


def test_at_the_end_workers_end_everywhere_and_only_what_was_made_is_shut(slots):
    given, made = Made(), Made()
    one, other = slots(given, 3), slots(lambda: made)
    one.submit(task(1))
    one.close()
    assert given.futures[0].cancelled()
    assert [arguments[0] for arguments in given.sent[1:]] == [one._name] * 3  # as many as it may have
    assert len({arguments[1] for arguments in given.sent[1:]}) == 3
    assert given.shut == []
    other.close()
    assert made.shut == [(True, True)]


# -- in the process where a task runs ----------------------------------------------------------------------------------


@pytest.fixture
def home(monkeypatch):
    """A session's name, whose workers are ended afterwards; nobody looks for idle ones."""
    monkeypatch.setattr(elsewhere, "_reap", lambda: None)
    yield "a session"
    elsewhere.end_there("a session", "")
    assert "a session" not in elsewhere._homes


def test_a_process_keeps_a_sessions_worker(home):
    assert there(home, "1", task(2)) == ("unknown", None, {})
    kind, done, facts = there(home, "2", task(2), MEASURE)
    assert (kind, done.value, facts) == ("done", 3.0, {"device": "recorded"})
    (worker,) = elsewhere._homes[home].idle
    assert there(home, "3", ("check", ({"BLOCK": 1},), 1.0)) == ("done", 0.0, {"device": "recorded"})
    assert elsewhere._homes[home].idle == [worker]
    assert elsewhere._homes[home].busy == 0
    assert there(home, "4", task(2, "another")) == ("another device", "recorded", {})
    assert there(home, "5", task(2, "recorded"))[0] == "done"
    kind, failure, facts = there(home, "6", ("check", ({"BLOCK": 3},), 1.0))
    assert (kind, failure.status, facts) == ("failed", "runtime", {"device": "recorded"})
    assert there(home, "7", (elsewhere.RENEW, (), 60.0)) == ("done", None, {})


def test_a_call_that_was_stopped_and_a_worker_that_cannot_be_made(home, monkeypatch):
    there(home, "1", task(1), MEASURE)

    def stopped(*arguments, **named):
        raise Stopped

    monkeypatch.setattr(elsewhere, "attempt", stopped)
    assert there(home, "2", task(1)) == ("stopped", None, {})
    elsewhere._homes[home].idle.clear()

    def failing(*arguments):
        raise Failed("runtime", "no worker")

    monkeypatch.setattr(elsewhere, "worker_for", failing)
    kind, failure, facts = there(home, "3", task(1))
    assert (kind, failure.reason, facts) == ("failed", "no worker", {})
    assert elsewhere._homes[home].busy == 0
    assert elsewhere._homes[home].idle == []


def test_a_forked_process_uses_nothing_of_its_parents(home):
    there(home, "1", task(1), MEASURE)
    elsewhere._homes[home].process += 1
    assert there(home, "2", task(1)) == ("unknown", None, {})


class Lent:
    """A worker that tells whether it was closed."""

    closed = False

    def close(self):
        self.closed = True


def test_workers_of_a_session_that_has_ended_are_closed(home):
    there(home, "1", task(1), MEASURE)
    kept = elsewhere._homes[home]
    idle, late = Lent(), Lent()
    kept.idle, kept.busy = [idle], 1
    elsewhere.end_there(home, "")
    assert (idle.closed, kept.closed, kept.idle, kept.alive) == (True, True, [], False)
    kept.give(late)
    assert (late.closed, kept.idle, kept.busy) == (True, [], 0)
    elsewhere.end_there(home, "")  # as often as one likes


class Enough(Exception):
    pass


def test_workers_whose_session_is_silent_are_ended(monkeypatch):
    now, slept, ended = [1000.0], [], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds
        if len(slept) > 9:
            raise Enough

    monkeypatch.setattr(elsewhere, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(elsewhere, "_homes", {})
    monkeypatch.setattr(elsewhere, "_reaping", 77)
    homes = {
        name: elsewhere._Home(MEASURE, threading.Event(), kept=name == "kept") for name in ("kept", "busy", "idle")
    }
    homes["busy"].busy = 1
    elsewhere._homes.update(homes)
    end = elsewhere.end_there
    monkeypatch.setattr(elsewhere, "end_there", lambda name, token: (ended.append((name, now[0])), end(name, token)))
    with pytest.raises(Enough):
        elsewhere._reaper()
    assert ended == [("idle", 1035.0)]  # later than half a minute, by looks of five seconds
    assert slept == [5.0] * 10
    assert elsewhere._reaping == 77
    del elsewhere._homes["busy"]
    slept.clear()
    elsewhere._reaper()  # none but the session's own is left: it ends
    assert (slept, elsewhere._reaping) == ([5.0], 0)
    assert list(elsewhere._homes) == ["kept"]


def test_one_thread_of_a_process_looks_for_idle_workers(monkeypatch):
    started = []

    class Thread:
        def __init__(self, target, name, daemon):
            assert (target, daemon) == (elsewhere._reaper, True)

        def start(self):
            started.append(self)

    monkeypatch.setattr(elsewhere.threading, "Thread", Thread)
    monkeypatch.setattr(elsewhere, "_reaping", 0)
    elsewhere._reap()
    elsewhere._reap()
    assert len(started) == 1
    monkeypatch.setattr(elsewhere.os, "getpid", lambda: 1)  # a forked process has no thread of its parent's
    elsewhere._reap()
    assert len(started) == 2
