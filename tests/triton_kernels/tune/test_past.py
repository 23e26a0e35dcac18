"""What the store knows of sessions, and two of them compared: noise is no change, a slower machine is no config's."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from triton_kernels.tune import lookup, past
from triton_kernels.tune.replay import replayed
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store

KEY = {"kernel": "k", "source": "s", "device": "d", "shape": [8], "dtype": "float32", "mode": ""}


def session(seed, noise=0.05, machine=1.0, count=40, changed=(), factor=1.5, tail=0.0, wrong=(), **more):
    """A made-up session: configs with times between 0.1 and 1 ms that scatter."""
    base, scatter = random.Random(0), random.Random(f"{seed}")
    trials = []
    for k in range(count):
        true = base.uniform(0.1, 1.0) * machine * (factor if k in changed else 1.0)
        shift = scatter.lognormvariate(0, 0.3) if scatter.random() < tail else 1.0  # the machine was busy just then
        samples = [true * shift * scatter.lognormvariate(0, noise) for _ in range(8)]
        trial = {"config": {"B": k}, "status": "correct", "median_ms": float(np.median(samples)), "samples": samples}
        trials.append(trial if k not in wrong else {"config": {"B": k}, "status": "compile", "reason": "no"})
    return {**KEY, "strategy": "line", "environment": {}, "outcome": None, "trials": trials, **more}


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("machine", [1.0, 1.4])
def test_noise_and_a_slower_machine_are_no_change(noise, machine):
    """Of a hundred pairs at most one in ten has a config called changed (one in twenty is what is promised)."""
    wrong = 0
    for seed in range(100):
        found = past.compare(session(seed, noise), session(seed + 1000, noise, machine))
        wrong += bool(found.changed)
        assert found.machine[0] == pytest.approx(machine, rel=0.1 if noise > 0.1 else 0.03)
    assert wrong <= 10


def test_what_did_change_is_found():
    for seed in range(20):
        found = past.compare(session(seed), session(seed + 50, machine=1.4, changed=(7, 9), wrong=(3,)))
        assert {c.config["B"] for c in found.changed} == {7, 9}
        assert all(c.ratio == pytest.approx(1.5, rel=0.15) for c in found.changed)
        assert found.failing == [({"B": 3}, "compile: no")]
        assert found.slower == pytest.approx(1.4, rel=0.05)
    back = past.compare(session(0, wrong=(3,)), session(1))
    assert back.mended == [({"B": 3}, "compile: no")]
    assert back.slower == 1.0


def test_of_few_nothing_is_told():
    found = past.compare(session(0, count=5), session(1, count=5, changed=(1,), factor=9.0))
    assert (found.machine, found.changed, found.both) == (None, [], 5)


def test_choices_by_their_intervals():
    def of(ratio, width, verdict="faster"):
        return session(0, outcome={"verdict": verdict, "config": {"B": 1}, "ratio": ratio, "low": ratio - width,
                                   "high": ratio + width})  # fmt: skip

    assert past.compare(of(0.5, 0.01), of(0.4, 0.01)).better == "lower"
    assert past.compare(of(0.4, 0.01), of(0.5, 0.01)).better == "higher"
    assert past.compare(of(0.5, 0.1), of(0.4, 0.1)).better == ""
    assert past.compare(of(0.50, 0.001), of(0.49, 0.001)).better == ""  # of that size nothing is told
    assert past.compare(of(0.5, 0.01), of(0.4, 0.01, "noisy")).better == ""


def test_a_session_leaves_its_outcome(tmp_path):
    with Store(tmp_path) as store:
        for times in ({1: 3.0, 2: 1.0, 4: 2.0}, {1: 3.0, 2: 1.0, 4: 0.5}):
            for _ in Session(replayed(times), budget=None, store=store, resume=False):
                pass
        (key,) = store.tuned()
    with Store(tmp_path) as store:
        first, second = store.sessions(key["kernel"])
        assert store.sessions(key["kernel"], {**key, "dtype": "other"}) == store.sessions("other") == []
    assert first["outcome"]["config"] == {"BLOCK": 2}
    assert second["outcome"]["ratio"] == pytest.approx(0.5 / 3.0)
    assert [len(s["trials"]) for s in (first, second)] == [3, 3]
    assert past.compare(first, second).better == "lower"


def test_an_outcome_goes_where_the_trials_go(tmp_path):
    """To a journal where the database is of a newer gradlab, and from there into one that can be written."""
    import sqlite3

    with Store(tmp_path):
        pass
    base = sqlite3.connect(tmp_path / "tuning.db")
    base.execute("PRAGMA user_version=99")
    base.close()
    with pytest.warns(UserWarning, match="journal"):
        store = Store(tmp_path)
    with store:
        name = store.begin(KEY, {}, "line")
        store.add(KEY, name, {"config": {"B": 1}, "status": "correct", "median_ms": 1.0})
        store.conclude(KEY, name, {"verdict": "default"})
        assert [s["outcome"] for s in store.sessions("k")] == [{"verdict": "default"}]
    base = sqlite3.connect(tmp_path / "tuning.db")
    base.execute("PRAGMA user_version=1")
    base.close()
    with Store(tmp_path) as store:
        (kept,) = store.sessions("k")
        assert kept["outcome"] == {"verdict": "default"}
        assert len(kept["trials"]) == 1
    assert not list(tmp_path.glob("journal-*"))


def test_a_database_of_before_has_sessions_without_an_outcome(tmp_path):
    import sqlite3

    with Store(tmp_path) as store:
        name = store.begin(KEY, {}, "line")
        store.add(KEY, name, {"config": {"B": 1}, "status": "correct", "median_ms": 1.0})
    base = sqlite3.connect(tmp_path / "tuning.db")
    base.execute("DROP TABLE outcome")
    base.close()
    with Store(tmp_path) as store:
        assert [s["outcome"] for s in store.sessions("k")] == [None]


def test_a_clock_that_was_put_back(tmp_path, monkeypatch):
    """A choice of a clock that was ahead gives way to the next one, in the database as in best.json."""
    now = time.time()
    with Store(tmp_path) as store:
        for at, block in ((now + 86_400 * 400, 1), (now, 2), (now - 3600, 3)):
            monkeypatch.setattr(time, "time", lambda at=at: at)
            name = store.begin(KEY, {}, "line")
            store.add(KEY, name, {"config": {"B": block}, "status": "correct", "median_ms": 1.0, "ratio": 1.0})
            store.win(KEY, name, {"config": {"B": block}, "ratio": 1.0, "low": 1.0, "high": 1.0})
            assert [p["winner"]["config"] for p in store.problems()] == [{"B": block}]
            assert lookup.entries(tmp_path / lookup.FILE)[0]["config"] == {"B": block}
            with Store(tmp_path) as other:
                assert [p["winner"]["config"] for p in other.problems()] == [{"B": block}]
        assert [s["trials"][0]["config"]["B"] for s in store.sessions("k")] == [1, 2, 3]  # as they were written
        assert store.claim(KEY, name, {"B": 9})
        monkeypatch.setattr(time, "time", lambda: now + 86_400)
        assert store.claim(KEY, name, {"B": 9})
