"""Sessions: right answers first, faults survived and named, stopping, resuming, never slower than the default."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from triton_kernels.tune import events as ev
from triton_kernels.tune import lookup, places, turns
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.replay import replayed
from triton_kernels.tune.session import Session, run, seconds_of
from triton_kernels.tune.store import Store

from . import faults


def drained(session):
    """All events, and the result."""
    return list(session), session.result


@pytest.mark.by_turns
def test_every_fault_costs_its_config_alone_and_has_its_reason(monkeypatch):
    monkeypatch.setattr("triton_kernels.tune.attempt.LIMIT_S", 1.0)
    problem = faults.problem(tuple(faults.REASONS))
    with Store() as store:
        events, result = drained(Session(problem, budget="60s", strategy="exhaustive", store=store, jobs=1))
        trials = store.trials(problem.key)
    rejected = [e for e in events if isinstance(e, ev.Rejected)]
    assert len(rejected) == 2 * len(faults.REASONS)
    for event in rejected:
        status, reason = faults.REASONS[event.config["FAULT"]]
        assert event.status == status, event
        assert reason in event.reason, event
    assert result.ended == "complete"
    assert result.evaluations == len(trials) == 2 * (len(faults.REASONS) + 1)
    assert result.config == {"FAULT": 0, "WORK": 0}
    assert result.verdict == "faster"
    assert result.best.high < 1
    assert result.rejected == {"runtime": 10, "timeout": 2, "correctness": 8, "compile": 2}
    assert all(t["median_ms"] is None and t["ratio"] is None for t in trials if t["status"] != "correct")


@pytest.mark.by_turns
def test_what_is_wrong_at_an_odd_shape_falls_in_the_final():
    events, result = drained(Session(faults.problem((11,), work=(4, 0)), strategy="exhaustive", jobs=1))
    measured = [e.config["FAULT"] for e in events if isinstance(e, ev.Measured)]
    assert measured.count(11) == 2  # its answer is right at the shape that is tuned
    late = [e for e in events if isinstance(e, ev.Rejected)]
    assert late
    assert {e.config["FAULT"] for e in late} == {11}
    assert all(place.config["FAULT"] == 0 for place in result.top)
    assert result.config == {"FAULT": 0, "WORK": 0}


def test_a_default_that_is_wrong_ends_the_session():
    problem = faults.problem((4,))
    problem.space.tunables[0].__dict__["default"] = 4
    events, result = drained(Session(problem, jobs=1))
    assert [type(e).__name__ for e in events] == ["Started", "Compiled", "Rejected", "Finished"]
    assert (result.verdict, result.best, result.config) == ("failed", None, None)


def test_events_and_improvements():
    events, result = drained(Session(replayed({1: 4.0, 2: 3.0, 4: "runtime", 8: 1.0}), strategy="exhaustive"))
    kinds = [type(e).__name__ for e in events]
    assert kinds == ["Started", "Compiled", "Measured", "Compiled", "Measured", "Improved", "Compiled", "Rejected",
                     "Compiled", "Measured", "Improved", "Finished"]  # fmt: skip
    assert [e.ratio for e in events if isinstance(e, ev.Improved)] == [0.75, 0.25]
    assert (result.best.config, result.verdict, result.rejected) == ({"BLOCK": 8}, "faster", {"runtime": 1})
    assert result.to_json()["best"]["ratio"] == 0.25


@pytest.mark.by_turns
def test_the_default_stays_where_nothing_is_faster():
    result = run(replayed({1: 1.0, 2: 2.0, 4: 1.5}))
    assert (result.verdict, result.config, result.best.ratio) == ("default", {"BLOCK": 1}, 1.0)
    same = run(faults.problem((), work=(1, 2)), jobs=1)
    assert same.config == {"FAULT": 0, "WORK": 1}
    assert same.best.ratio == 1.0


def test_identical_binaries_are_measured_once():
    problem = faults.problem((20, 21), work=(4,))  # faults that do nothing: the preprocessor leaves the same code
    events, result = drained(Session(problem, strategy="exhaustive", jobs=1))
    twins = [e for e in events if isinstance(e, ev.Measured) and e.same_as is not None]
    assert [e.config["FAULT"] for e in twins] == [20, 21]
    assert all(e.same_as == problem.space.default and e.repeats == 0 for e in twins)
    assert result.merged == 2
    assert len(result.top) == 1


@pytest.mark.by_turns
def test_machine_code_that_an_earlier_session_has_timed_is_not_timed_again():
    with Store() as store:
        run(faults.problem((20,), work=(4, 0)), store=store, jobs=1, strategy="exhaustive", budget=None)
        wider = faults.problem((20, 21), work=(4, 0))  # 21 leaves the same code as 0 and 20 do
        events, result = drained(Session(wider, store=store, jobs=1, strategy="exhaustive", budget=None))
    new = [e for e in events if isinstance(e, ev.Measured) and e.config["FAULT"] == 21]
    assert [e.repeats for e in new] == [0, 0]
    assert result.merged == 2


def test_whoever_times_has_the_device_alone_and_whoever_compiles_shares_it(tmp_path, monkeypatch):
    monkeypatch.setattr(places.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(turns, "PATIENCE_S", 0.05)
    with turns.turn("cpu", "pairs") as mine, turns.turn("cpu", "pairs") as theirs:
        assert (mine, theirs) == (True, False)  # it goes on without, and does not wait for ever
    with turns.turn("cpu", "build") as one, turns.turn("cpu", "check") as two, turns.turn("cpu", "rounds") as three:
        assert (one, two, three) == (True, True, False)
    with turns.turn("cpu", "pairs"), turns.turn("cuda", "pairs") as other_device:
        assert other_device
    assert turns.lock_file("cpu").parent.stat().st_mode & 0o077 == 0


@pytest.mark.by_turns
def test_limits():
    problem = replayed({n: float(n) for n in range(1, 51)})
    events, result = drained(Session(problem, evaluations=7, strategy="random"))
    assert (result.evaluations, result.ended) == (7, "evaluations")
    assert isinstance(events[-2], ev.Stopped)
    _, result = drained(Session(faults.problem((3,), work=tuple(range(8))), budget="1.5s", jobs=1))
    assert result.ended == "budget"
    assert result.seconds < 8
    assert [seconds_of(b) for b in ("90", "60s", "1.5m", "1h", 5)] == [90, 60, 90, 3600, 5]
    for wrong in ("", "0", "-1s", "5 years", "nan", 0):
        with pytest.raises(ValueError, match="a budget is a positive time"):
            seconds_of(wrong)


@pytest.mark.by_turns
def test_stop_acts_within_a_second_while_a_config_hangs():
    session = Session(faults.problem((3,), work=(4,)), strategy="exhaustive", budget=None, jobs=1)
    stopped_at = []

    def stop():
        time.sleep(0.5)
        stopped_at.append(time.monotonic())
        session.stop()

    for event in session:
        if isinstance(event, ev.Compiled) and event.config["FAULT"] == 3:  # and now it is checked, for ever
            threading.Thread(target=stop).start()
        if isinstance(event, ev.Stopped):
            assert time.monotonic() - stopped_at[0] < 1.0
    assert session.result.ended == "stopped"
    assert session.result.config == {"FAULT": 0, "WORK": 4}


def test_stopped_before_it_begins():
    session = Session(faults.problem(()), jobs=1)
    session.stop()
    events, result = drained(session)
    assert (result.verdict, result.best) == ("stopped", None)
    assert isinstance(events[0], ev.Stopped)


def test_a_loop_that_is_left_leaves_nothing_behind():
    for event in Session(faults.problem((1, 2)), jobs=2):
        if isinstance(event, ev.Measured):
            break  # the fixture looks for workers


SCRIPT = """
    import sys
    sys.path.insert(0, {root!r})
    from tests.triton_kernels.tune import faults
    from triton_kernels.tune import events as ev
    from triton_kernels.tune.session import Session
    from triton_kernels.tune.store import Store
    with Store() as store:
        session = Session(faults.problem((), work=tuple(range(40, 0, -1))), store=store, strategy="exhaustive", jobs=1)
        for event in session:
            if isinstance(event, (ev.Started, ev.Measured)):
                print(type(event).__name__, getattr(event, "resumed", ""), flush=True)
"""


@pytest.mark.by_turns
def test_killed_and_resumed_with_no_trial_lost(tmp_path):
    root = str(places.Path(__file__).parents[3])
    script = tmp_path / "tuning_script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(root=root)))
    child = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=root)
    said = [child.stdout.readline().split()[0] for _ in range(5)]
    os.kill(child.pid, signal.SIGKILL)
    said += [line.split()[0] for line in child.stdout]
    child.wait()
    child.stdout.close()
    problem = faults.problem((), work=tuple(range(40, 0, -1)))
    told = said.count("Measured")
    assert told >= 4
    with Store() as store:
        known = store.trials(problem.key)
        assert len(known) >= told  # what was told was on disk
        session = Session(problem, store=store, evaluations=3, strategy="exhaustive", jobs=1)
        events, result = drained(session)
    assert events[0].resumed == len(known)
    assert result.resumed == len(known) - 1  # the default is measured anew
    tried = [e.config["WORK"] for e in events if isinstance(e, ev.Compiled)]
    assert tried == [40, *(40 - len(known) - k for k in range(2))]
    deadline = time.monotonic() + 3  # the killed session's worker ends by itself
    while (left := _workers()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def _workers():
    """Orphaned workers of this user, by their command line."""
    found = []
    for folder in places.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"triton_kernels.tune.worker" in command and parent == 1 and b"tuning_script" in command:
            found.append(folder.name)
    return found


@pytest.mark.by_turns
def test_the_choice_is_found_by_lookups_and_by_the_next_session():
    problem = faults.problem((), work=(8, 0))
    assert lookup.best("faulty_f32", (8, 64), "float32", "this processor") is None
    with Store() as store:
        run(problem, store=store, jobs=1)
    assert lookup.best("faulty_f32", (8, 64), "float32", "this processor") == {"FAULT": 0, "WORK": 0}
    with Store() as store:
        again = Session(problem, store=store, jobs=1)
        events, result = drained(again)
    assert events[0].resumed == 2
    assert result.evaluations == 1  # the default; the other is known
    assert result.config == {"FAULT": 0, "WORK": 0}


def test_a_worker_that_cannot_start(monkeypatch):
    monkeypatch.setattr("triton_kernels.tune.worker._BEGIN", "raise SystemExit('no luck') #{path}{fd}")
    _, result = drained(Session(faults.problem(()), jobs=1))
    assert result.verdict == "failed"
    assert "the process ended with 1 while starting: no luck" in result.reasons[0][0]
    assert isinstance(Failed("compile", "why"), Exception)


BESIDE = """
    import sys, time
    from pathlib import Path
    sys.path.insert(0, {root!r})
    from tests.triton_kernels.tune import faults
    from triton_kernels.tune import events as ev
    from triton_kernels.tune.session import Session
    from triton_kernels.tune.store import Store
    Path(sys.argv[1]).touch()
    while not all((Path(sys.argv[1]).parent / name).exists() for name in ("a", "b")):
        time.sleep(0.01)
    with Store() as store:
        session = Session(faults.problem((2, 4), work=tuple(range(7, 0, -1))), store=store, strategy="exhaustive",
                          jobs=1, budget=None)
        tried = [str(e.config) for e in session if isinstance(e, (ev.Measured, ev.Rejected))]
    print(len(tried), session.beside.heard, session.result.verdict, session.result.config["WORK"], *tried, sep="|")
"""


@pytest.mark.by_turns
def test_two_at_the_same_moment_share_the_work_and_lose_nothing(tmp_path):
    root = str(places.Path(__file__).parents[3])
    script = tmp_path / "beside_script.py"
    script.write_text(textwrap.dedent(BESIDE.format(root=root)))
    commands = [[sys.executable, str(script), str(tmp_path / name)] for name in "ab"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    said = [one.communicate(timeout=120)[0].strip().split("|") for one in both]
    tried = [set(words[4:]) for words in said]
    assert [len(set(words[4:])) for words in said] == [int(words[0]) for words in said]
    problem = faults.problem((2, 4), work=tuple(range(7, 0, -1)))
    assert tried[0] & tried[1] == {str(problem.space.default)}  # without it neither knows what a time means
    assert len(tried[0] | tried[1]) == 21
    heard = [int(words[1]) for words in said]
    assert heard[0] + heard[1] > 0
    assert [words[2] for words in said] == ["faster", "faster"]  # each knows of all
    with Store() as store:
        kept = store.trials(problem.key)
        assert len({str(t["config"]) for t in kept}) == 21
        assert store._base.execute("SELECT count(*) FROM claim").fetchone() == (0,)


@pytest.mark.by_turns
def test_what_a_session_that_was_killed_had_claimed_is_tried():
    problem = faults.problem((), work=(3, 2, 1))
    with Store() as store:
        session = store.begin(problem.key, {}, "random")
        gone = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        name = f"{places.platform.node()} {gone.pid} {places._began(gone.pid)}"
        assert places.still_runs(name)
        assert store.claim(problem.key, session, {"FAULT": 0, "WORK": 1})
        store._base.execute("UPDATE claim SET owner=?", (name,))
        mine = store.begin(problem.key, {}, "random")
        assert not store.claim(problem.key, mine, {"FAULT": 0, "WORK": 1})
        gone.kill()
        gone.wait()
        result = run(problem, store=store, jobs=1, strategy="exhaustive", budget=None)
    assert result.evaluations == 3
