"""The store: private, every trial at once, each failure survived; and the lookups beside it."""

# ruff: noqa: PT031  a store warns at some time between its opening and its closing
from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from triton_kernels.tune import c_kernels, database, lookup, problem, store
from triton_kernels.tune.journal import records
from triton_kernels.tune.store import Store, StoreWarning

KEY = {"kernel": "k_f32", "source": "s", "device": "d", "shape": [64, 32], "dtype": "float32", "mode": "cpu"}
ROOT = Path(__file__).parents[3]


def trial(block, ratio=1.0, **more):
    return {"config": {"BLOCK": block}, "status": "correct", "median_ms": ratio, "ratio": ratio, "n": 4, **more}


def fill(kept, count=3):
    session = kept.begin(KEY, {"numpy": "2"}, "random")
    for k in range(count):
        kept.add(KEY, session, trial(k))
    return session


def blocks(kept):
    return sorted(t["config"]["BLOCK"] for t in kept.trials(KEY))


def test_written_at_once_private_and_read_by_others(tmp_path):
    folder = tmp_path / "tuning"
    with Store(folder) as first:
        session = fill(first)
        with Store(folder) as second:  # while the first is open
            assert blocks(second) == [0, 1, 2]
        first.add(KEY, session, {"config": {"BLOCK": 9}, "status": "runtime", "reason": "SIGSEGV", "detail": "where"})
        found = first.trials(KEY)[-1]
        assert (found["status"], found["reason"], found["ratio"]) == ("runtime", "SIGSEGV", None)
        assert first.trials({**KEY, "shape": [1, 1]}) == []
        assert first.trials({**KEY, "source": "another text"}) == []
        for path in folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert first.state == "database"
    assert first.where == str(folder / "tuning.db")


def test_a_folder_that_others_may_enter_is_closed_to_them(tmp_path):
    folder = tmp_path / "tuning"
    folder.mkdir(mode=0o755)
    Store(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_garbage_is_set_aside(tmp_path):
    (tmp_path / "tuning.db").write_bytes(b"no database at all" * 500)
    with pytest.warns(StoreWarning, match="it is kept as tuning.db.broken-"), Store(tmp_path) as kept:
        fill(kept)
        assert kept.state == "database"
    assert next(tmp_path.glob("tuning.db.broken-*")).read_bytes().startswith(b"no database")
    with Store(tmp_path) as again:
        assert blocks(again) == [0, 1, 2]


def test_a_file_that_breaks_under_way_loses_nothing_of_this_session(tmp_path):
    with Store(tmp_path) as before:
        fill(before, 200)
    raw = bytearray((tmp_path / "tuning.db").read_bytes())
    raw[4096:] = os.urandom(len(raw) - 4096)
    (tmp_path / "tuning.db").write_bytes(raw)
    with pytest.warns(StoreWarning, match="is kept as"), Store(tmp_path) as kept:
        fill(kept, 5)
        assert blocks(kept) == [0, 1, 2, 3, 4]
        assert kept.state == "database"


def test_locked_goes_to_a_journal_that_the_next_takes_over(tmp_path):
    with Store(tmp_path) as before:
        before.add(KEY, before.begin(KEY, {}, "random"), trial(77))
    holder = sqlite3.connect(tmp_path / "tuning.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    kept = Store(tmp_path, timeout_s=0.1)
    with pytest.warns(StoreWarning, match="go to the journal .*: database is locked"):
        fill(kept)
    assert kept.state == "journal"
    assert blocks(kept) == [0, 1, 2, 77]  # what it cannot write to it reads
    holder.execute("ROLLBACK")
    holder.close()
    with Store(tmp_path) as beside:  # its owner lives: it is read, and left alone
        assert blocks(beside) == [0, 1, 2, 77]
    assert len(list(tmp_path.glob("journal-*"))) == 1
    path = kept._other.path
    kept.close()
    with open(path, "a") as file:
        file.write('{"kind": "trial", "torn')  # as a crash leaves it
    with Store(tmp_path) as after:
        assert blocks(after) == [0, 1, 2, 77]
    assert not list(tmp_path.glob("journal-*"))


def test_a_newer_database_is_left_alone(tmp_path):
    base = sqlite3.connect(tmp_path / "tuning.db")
    base.execute("CREATE TABLE of_the_future(x)")
    base.execute("PRAGMA user_version=99")
    base.close()
    before = (tmp_path / "tuning.db").read_bytes()
    with pytest.warns(StoreWarning, match="has version 99, this gradlab knows 1"), Store(tmp_path) as kept:
        fill(kept)
        assert blocks(kept) == [0, 1, 2]
    assert (tmp_path / "tuning.db").read_bytes() == before
    assert len(list(tmp_path.glob("journal-*"))) == 1


def test_a_network_disk_has_journals_only(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "file_system", lambda folder: "nfs4")
    with pytest.warns(StoreWarning, match="network disk"), Store(tmp_path) as kept:
        fill(kept)
    assert not (tmp_path / "tuning.db").exists()
    with pytest.warns(StoreWarning, match="network disk"), Store(tmp_path) as other:
        assert blocks(other) == [0, 1, 2]


def test_the_file_system_of_a_folder():
    assert store.file_system(Path("/proc/self")) == "proc"
    assert store.file_system(Path(tempfile.gettempdir())) != ""


@pytest.mark.parametrize("why", ["full", "readonly"])
def test_full_or_read_only_goes_to_memory_and_a_snapshot(tmp_path, monkeypatch, why):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / "tuning"
    kept = Store(folder)
    session = fill(kept, 1)
    if why == "full":
        pages = kept._base.execute("PRAGMA page_count").fetchone()[0]
        kept._base.execute(f"PRAGMA max_page_count={pages}")
    else:
        kept._base.close()
        kept._base = sqlite3.connect(f"file:{folder / 'tuning.db'}?mode=ro", uri=True, isolation_level=None)
    with pytest.warns(StoreWarning, match="in memory and in a snapshot .*(full|readonly)"):
        for k in range(1, 40):
            kept.add(KEY, session, trial(k, detail="x" * 4000))
    assert kept.state == "memory"
    assert blocks(kept) == list(range(40))
    with pytest.warns(StoreWarning, match="this session's trials are in"):
        kept.close()
    (snapshot,) = tmp_path.glob("gradlab-tuning-*.jsonl")
    os.rename(snapshot, folder / "journal-moved.jsonl")  # as the warning says
    with Store(folder) as after:
        assert blocks(after) == list(range(40))


def test_a_folder_that_cannot_be(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.warns(StoreWarning, match="cannot be used"):
        kept = Store(Path("/proc/nothing/tuning"))
    session = fill(kept)
    with pytest.warns(StoreWarning, match="not stored for other processes"):
        kept.win(KEY, session, {"config": {"BLOCK": 1}, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []})
    with pytest.warns(StoreWarning, match="this session's trials are in"):
        kept.close()


WRITER = """
    import sys
    sys.path.insert(0, {root!r})
    from pathlib import Path
    from triton_kernels.tune.store import Store
    from tests.triton_kernels.tune.test_store import KEY, trial
    me = int(sys.argv[1])
    with Store(Path({folder!r}), timeout_s=30) as kept:
        session = kept.begin(KEY, {{}}, "random")
        for k in range(60):
            kept.add(KEY, session, trial(me * 1000 + k))
        won = {{"config": {{"BLOCK": me}}, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []}}
        kept.win({{**KEY, "shape": [me, 1]}}, session, won)
        assert kept.state == "database", kept.why
"""


@pytest.mark.by_turns
def test_four_writers(tmp_path):
    script = textwrap.dedent(WRITER.format(root=str(ROOT), folder=str(tmp_path)))
    writers = [subprocess.Popen([sys.executable, "-c", script, str(k)], cwd=ROOT) for k in range(1, 5)]
    assert [w.wait(60) for w in writers] == [0] * 4
    with Store(tmp_path) as kept:
        assert blocks(kept) == [1000 * me + k for me in range(1, 5) for k in range(60)]
    shapes = sorted(e["shape"] for e in lookup.entries(tmp_path / lookup.FILE))
    assert shapes == [[1, 1], [2, 1], [3, 1], [4, 1]]  # none was lost to another's


AGAIN_AND_AGAIN = """
    import sys
    sys.path.insert(0, {root!r})
    from pathlib import Path
    from triton_kernels.tune.store import Store
    from tests.triton_kernels.tune.test_store import KEY, trial
    with Store(Path({folder!r})) as kept:
        session = kept.begin(KEY, {{}}, "random")
        for k in range(1_000_000):
            kept.add(KEY, session, trial(int(sys.argv[1]) * 1_000_000 + k, detail="x" * 3000))
            print(k, flush=True)
"""


def test_killed_in_the_middle_of_writing(tmp_path):
    script = textwrap.dedent(AGAIN_AND_AGAIN.format(root=str(ROOT), folder=str(tmp_path)))
    told = []
    for me, lines in enumerate((1, 37, 200)):
        writer = subprocess.Popen([sys.executable, "-c", script, str(me)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(lines):
            writer.stdout.readline()
        writer.kill()  # while it writes the next
        last = [line for line in writer.stdout.read().split("\n") if line]
        writer.wait()
        writer.stdout.close()
        told += [me * 1_000_000 + k for k in range(int(last[-1]) + 1 if last else lines)]
    with Store(tmp_path) as kept:
        assert kept.state == "database"
        assert set(told) <= set(blocks(kept))
        assert len(blocks(kept)) <= len(told) + 3  # at most the one that it was writing
        assert kept._base.execute("PRAGMA integrity_check").fetchone() == ("ok",)


FULL = """
    import resource, sys, tempfile, warnings
    sys.path.insert(0, {root!r})
    from pathlib import Path
    from triton_kernels.tune.store import Store
    from tests.triton_kernels.tune.test_store import KEY, blocks, trial
    tempfile.tempdir = {temporary!r}
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with Store(Path({folder!r})) as kept:
            session = kept.begin(KEY, {{}}, "random")
            states = []
            for k in range(200):
                kept.add(KEY, session, trial(k, detail="x" * 3000))
                states.append(kept.state if kept._other or kept.state == "database" else "alone")
            assert blocks(kept) == list(range(200))
    print(*dict.fromkeys(states), sep=",")
    print(*(str(w.message) for w in said), sep="\\n")
"""


def test_a_disk_that_is_really_full_and_then_the_next_one(tmp_path):
    folder, temporary = tmp_path / "tuning", tmp_path / "tmp"
    temporary.mkdir()
    script = textwrap.dedent(FULL.format(root=str(ROOT), folder=str(folder), temporary=str(temporary)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    states, *said = done.stdout.strip().split("\n")
    assert states == "database,memory,alone"  # the snapshot's disk was as small
    assert "are kept in memory and in a snapshot" in said[0]
    assert "are kept in memory alone" in said[1]
    (snapshot,) = temporary.glob("gradlab-tuning-*.jsonl")
    assert stat.S_IMODE(snapshot.stat().st_mode) == 0o600
    assert len(records(snapshot)) > 50  # it was written at once, and needs no end of the session


MEETING = """
    import sys, time
    sys.path.insert(0, {root!r})
    from pathlib import Path
    from triton_kernels.tune.store import Store
    from tests.triton_kernels.tune.test_store import KEY, trial
    me, folder = int(sys.argv[1]), Path({folder!r})
    (folder / f"ready-{{me}}").touch()
    while len(list(folder.glob("ready-*"))) < 4:
        pass
    with Store(folder, timeout_s=30) as kept:
        session = kept.begin(KEY, {{}}, "random")
        for k in range(20):
            kept.add(KEY, session, trial(me * 1000 + k))
        print(kept.state)
"""


@pytest.mark.by_turns
def test_four_that_meet_garbage_at_the_same_moment_set_it_aside_once(tmp_path):
    (tmp_path / "tuning.db").write_bytes(b"no database at all" * 500)
    script = textwrap.dedent(MEETING.format(root=str(ROOT), folder=str(tmp_path)))
    four = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", script, str(k)], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE) for k in range(4)]  # fmt: skip
    assert [one.communicate(timeout=60)[0].strip() for one in four] == ["database"] * 4
    assert len(list(tmp_path.glob("tuning.db.broken-*"))) == 1
    with Store(tmp_path) as kept:
        assert blocks(kept) == [1000 * me + k for me in range(4) for k in range(20)]


@pytest.mark.parametrize("broken", ["garbage", "no folder", "a choice that is none", "a choice of another kernel"])
def test_kernels_run_whatever_has_become_of_the_store(broken):
    folder = store.places.data_folder()
    if broken == "no folder":
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("a file in its place")
    else:
        folder.mkdir(parents=True)
        for name in ("tuning.db", "best.json", "tuning.lock"):
            (folder / name).write_bytes(b"\xff" * 999)
    if broken.startswith("a choice"):
        space = c_kernels.space_of("softmax", "float32")
        config = {"CHUNK": "many", 3: None} if broken == "a choice that is none" else {**space.default, "MORE": 1}
        source = problem.hash_of(problem.c_text(c_kernels.FAMILIES["softmax"].text))
        entry = {"kernel": "softmax_f32", "source": source, "device": store.places.cpu_name(), "shape": [3, 5],
                 "dtype": "float32", "mode": "cpu, hot caches", "config": config, "ratio": 0.5, "at": 0.0}  # fmt: skip
        (folder / "best.json").write_text(json.dumps({"version": 1, "entries": [entry]}))
    lookup.forget()
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_allclose(c_kernels.run("softmax", x).sum(1), 1.0, rtol=1e-6)


# -- lookups -----------------------------------------------------------------------------------------------------------


def won(kept, shape, block, **more):
    session = kept.begin(KEY, {}, "random")
    kept.win({**KEY, "shape": shape, **more}, session,
             {"config": {"BLOCK": block}, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []})  # fmt: skip


def test_exact_then_bucket_then_nearest_then_none():
    with Store() as kept:
        won(kept, [64, 32], 1)
        won(kept, [60, 32], 2)
        won(kept, [512, 32], 3)

        def best(*shape, **more):
            return lookup.best("k_f32", shape, more.get("dtype", "float32"), more.get("device", "d"), "s")

        assert best(64, 32) == {"BLOCK": 1}
        assert best(60, 32) == {"BLOCK": 2}
        assert best(62, 30) in ({"BLOCK": 1}, {"BLOCK": 2})  # the same bucket
        assert best(300, 32) == {"BLOCK": 3}
        assert best(1 << 20, 32) is None
        assert best(64) is None
        assert best(64, 32, dtype="float64") is None
        assert best(64, 32, device="another") is None
        assert lookup.best("k_f32", (64, 31), "float32", "d", "another text") is None
        won(kept, [64, 32], 7)  # a new result is seen in the same process
        assert best(64, 32) == {"BLOCK": 7}


def test_lookups_never_raise(tmp_path):
    folder = store.places.data_folder()
    folder.mkdir(parents=True)
    texts = ["", "{", "[]",
             '{"version": 99, "entries": []}', '{"version": 1}', '{"version": 1, "entries": [1, {}, null]}',
             "[" * 100000, json.dumps({"version": 1, "entries": [{**KEY, "shape": "64x32", "config": {}}]}),
             json.dumps({"version": 1, "entries": [{**KEY, "shape": [0, 32], "config": {}}]})]  # fmt: skip
    for text in texts:
        (folder / lookup.FILE).write_text(text)
        lookup.forget()
        assert lookup.best("k_f32", (64, 32), "float32", "d") is None
    (folder / lookup.FILE).unlink()
    (folder / lookup.FILE).mkdir()
    lookup.forget()
    assert lookup.best("k_f32", (64, 32), "float32", "d") is None
    assert lookup.best("k_f32", [64, 32], "float32", "d") is None


def test_a_broken_best_json_is_made_anew_from_the_database(tmp_path):
    with Store(tmp_path) as kept:
        won(kept, [1, 1], 1)
        won(kept, [2, 2], 2)
        (tmp_path / lookup.FILE).write_text("{")
        won(kept, [3, 3], 3)
    assert sorted(e["config"]["BLOCK"] for e in lookup.entries(tmp_path / lookup.FILE)) == [1, 2, 3]
    base = database.open_database(tmp_path / "tuning.db", 1.0)
    assert len(list(database.winners(base))) == 3
    base.close()


def test_a_reader_sees_a_whole_best_json(tmp_path):
    broken, done = [], threading.Event()

    def read():
        while not done.is_set():
            try:
                json.loads((tmp_path / lookup.FILE).read_text())
            except FileNotFoundError:
                continue
            except ValueError as error:
                broken.append(error)

    with Store(tmp_path) as kept:
        reader = threading.Thread(target=read)
        reader.start()
        for k in range(1, 40):
            won(kept, [k, 1], k)
        done.set()
        reader.join()
    assert not broken
    assert len(lookup.entries(tmp_path / lookup.FILE)) == 39
    assert not list(tmp_path.glob("best.json?*"))
