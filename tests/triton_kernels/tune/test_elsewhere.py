"""Sessions on executors: threads, processes, Dask's workers; lost workers and broken pools lose nothing."""

from __future__ import annotations

import multiprocessing
import re
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from triton_kernels.tune import elsewhere, places
from triton_kernels.tune import events as ev
from triton_kernels.tune.replay import replayed
from triton_kernels.tune.session import Session, run
from triton_kernels.tune.store import Store

from . import faults


def pool(count=2):
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


def named_rightly(events):
    """How many configs were rejected, each with the reason that is its own."""
    rejected = [e for e in events if isinstance(e, ev.Rejected)]
    for event in rejected:
        status, reason = faults.REASONS[event.config["FAULT"]]
        assert (event.status, reason in event.reason) == (status, True), event
    return len(rejected)


@pytest.mark.by_turns
def test_threads_try_configs_side_by_side_and_each_fault_has_its_reason():
    kinds = (1, 4, 6, 8, 12)
    problem = faults.problem(kinds, work=(4, 0))
    with ThreadPoolExecutor(2) as threads, Store() as store:
        session = Session(problem, executor=threads, jobs=2, strategy="exhaustive", budget=None, store=store)
        events = list(session)
        kept = store.trials(session.problem.key)
    result = session.result
    assert named_rightly(events) == 2 * len(kinds)
    assert len(kept) == result.evaluations == 2 * (len(kinds) + 1)
    assert (result.verdict, result.config) == ("faster", {"FAULT": 0, "WORK": 0})
    assert session.problem.device == result.device == places.cpu_name()  # where it was measured
    assert f"measured on {places.cpu_name()}" in result.notes


def test_a_measure_that_needs_no_process_of_its_own():
    with ThreadPoolExecutor(2) as threads:
        result = run(replayed({1: 4.0, 2: 3.0, 4: "runtime", 8: 1.0}), executor=threads, jobs=2, budget=None)
    assert (result.config, result.rejected, result.evaluations) == ({"BLOCK": 8}, {"runtime": 1}, 4)


@pytest.fixture
def marks(tmp_path, monkeypatch):
    """Makes so many files, each of which costs one worker of an executor its life."""
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setenv("GRADLAB_TEST_MARKS", str(folder))

    def make(count):
        for k in range(count):
            (folder / str(k)).touch()
        return folder

    return make


@pytest.mark.by_turns
def test_a_process_pool_that_breaks_loses_nothing(marks):
    folder = marks(1)
    problem = faults.problem((13, 4, 14), work=(4, 0))
    with pool() as processes:
        session = Session(problem, executor=processes, jobs=2, strategy="exhaustive", budget=None)
        events = list(session)
    assert not list(folder.iterdir())
    assert sorted(e.config["FAULT"] for e in events if isinstance(e, ev.Rejected)) == [4, 4]
    assert session.result.evaluations == 8
    assert session.result.config["WORK"] == 0
    notes = " ".join(session.result.notes)
    assert "an executor (ProcessPoolExecutor) broke: BrokenProcessPool" in notes
    assert "no executor was left: the session went on in its own process" in notes


@pytest.mark.by_turns
def test_a_config_that_costs_two_workers_is_marked_and_its_neighbours_are_not(marks):
    marks(2)
    with Store() as store:
        problem = faults.problem((13, 14), work=(4,))
        session = Session(problem, executor=pool, jobs=2, strategy="exhaustive", budget=None, store=store)
        events = list(session)
        (lost,) = [e for e in events if isinstance(e, ev.Rejected)]
        assert lost.config["FAULT"] == 13
        assert lost.status == "runtime"
        assert "the executor's worker was lost twice over this config: BrokenProcessPool" in lost.reason
        assert session.result.evaluations == 3
        assert session.result.notes.count("another executor was made") == 2
        again = Session(session.problem, store=store, jobs=1)  # that may have been the machine's doing
        assert lost.config in [e.config for e in again if isinstance(e, ev.Compiled)]


class Elsewhere(Executor):
    """Whose worker has another device."""

    def submit(self, fn, *arguments):
        future = Future()
        future.set_result(("another device", "a GPU", {}))
        return future


@pytest.mark.by_turns
def test_of_a_list_each_is_a_device_and_one_that_is_none_is_left_out():
    shut = ThreadPoolExecutor(1)
    shut.shutdown()
    problem = faults.problem((), work=(4, 3, 2, 1))
    with ThreadPoolExecutor(1) as first:
        session = Session(problem, executor=[first, shut, Elsewhere()], strategy="exhaustive", budget=None)
        list(session)
    assert session.result.evaluations == 4
    assert session.result.rejected == {}
    notes = " ".join(session.result.notes)
    assert "an executor (ThreadPoolExecutor) broke: RuntimeError: cannot schedule new futures after shutdown" in notes
    assert "an executor (Elsewhere) broke: ValueError: it has another device, a GPU" in notes


def test_no_executor_and_another_device_end_the_session_with_what_it_has(monkeypatch):
    threads = ThreadPoolExecutor(1)
    session = Session(faults.problem((), work=(8, 7, 6, 5)), executor=threads, strategy="exhaustive", budget=None)
    for event in session:
        if isinstance(event, ev.Measured) and event.config["WORK"] == 8:
            session.trials.device = "a GPU of theirs"
            threads.shutdown()
    assert session.result.ended == "executor"
    assert session.result.evaluations == 1
    assert "no executor is left, and this process has another device" in " ".join(session.result.notes)


@pytest.mark.by_turns
@pytest.mark.parametrize("kind", [ThreadPoolExecutor, pool])
def test_stop_acts_within_a_second_while_a_config_hangs(kind):
    with kind(1) as executor:
        session = Session(faults.problem((3,), work=(4,)), strategy="exhaustive", budget=None, executor=executor)
        stopped_at = []

        def stop():
            time.sleep(0.7)  # by now it hangs
            stopped_at.append(time.monotonic())
            session.stop()

        for event in session:
            if isinstance(event, ev.Measured):
                threading.Thread(target=stop).start()
            if isinstance(event, ev.Stopped):
                assert time.monotonic() - stopped_at[0] < 1.0
    assert session.result.ended == "stopped"
    assert session.result.config == {"FAULT": 0, "WORK": 4}


def test_an_answer_that_never_comes_is_a_loss(monkeypatch):
    class Silent(Executor):
        asked = 0

        def submit(self, fn, *arguments):
            Silent.asked += 1
            if Silent.asked == 4:  # unknown, the default compiled, the default tried; this one is gone
                return Future()
            future = Future()
            future.set_result(fn(*arguments))
            return future

    monkeypatch.setattr(elsewhere, "ANSWER_LIMIT_S", 0.3)
    session = Session(replayed({1: 3.0, 2: 1.0, 4: 2.0}), executor=Silent(), budget=None, strategy="exhaustive")
    list(session)
    assert session.result.evaluations == 3
    assert Silent.asked == 6  # three configs, the compiled default, and the lost one again


def test_what_is_no_executor():
    with pytest.raises(TypeError, match="executor came as Client; needed: a concurrent"):
        Session(replayed({1: 1.0}), executor=type("Client", (), {})())
    with pytest.raises(TypeError, match="executor came as nothing"):
        Session(replayed({1: 1.0}), executor=[])


@pytest.mark.by_turns
def test_the_page_s_blocks_run(capsys):
    page = (places.Path(__file__).parents[3] / "lab" / "docs" / "tuning.md").read_text()
    there: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "tuning.md", "exec"), there)
    assert there["result"].verdict in ("faster", "default", "noisy")
    assert "THREADS" in capsys.readouterr().out


@pytest.mark.by_turns
def test_dask_s_workers_and_one_of_them_dies(marks):
    import distributed

    folder = marks(1)
    kinds = (1, 4, 13)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        session = Session(faults.problem(kinds, work=(4,)), executor=client.get_executor(), jobs=2, budget=None,
                          strategy="exhaustive")  # fmt: skip
        events = list(session)
    assert not list(folder.iterdir())
    assert named_rightly(events) == 2
    assert session.result.evaluations == 4
    assert {e.config["FAULT"] for e in events if isinstance(e, ev.Measured)} == {0, 13}
