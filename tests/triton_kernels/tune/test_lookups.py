"""Which stored choice a kernel takes, and what is stored of it: distances, versions, devices, calls."""

from __future__ import annotations

import json
import sqlite3
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_kernels.tune import bundled, calls, database, journal, lookup, own, places, store, stored, triton_problems
from triton_kernels.tune import problem as problems
from triton_kernels.tune.problem import Unknown
from triton_kernels.tune.store import Store

KEY = {"kernel": "k", "source": "s", "device": "d", "shape": [64, 32], "dtype": "float32", "mode": "cuda"}


def entry(block, **changes):
    return {**KEY, "config": {"B": block}, "ratio": 0.5, "at": 1.0, **changes}


@pytest.fixture
def lies():
    """Writes these entries as the user's results; and others as what ships."""

    def write(*entries):
        folder = places.data_folder()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / lookup.FILE).write_text(json.dumps({"version": 1, "entries": entries}))
        lookup.forget()

    return write


def found(*shape, **changes):
    given = {"dtype": "float32", "device": "d", "source": "s", "call": None, **changes}
    best = lookup.best("k", shape, given["dtype"], given["device"], given["source"], given["call"])
    return best and best["B"]


def test_the_nearest_within_four_powers_of_two(lies):
    lies(entry(1), entry(2, shape=[512, 32]), entry(3, shape=[64, 16]))
    assert [found(*shape) for shape in ((64, 32), (65, 32), (512, 32), (64, 16), (64, 8), (256, 32))] == [
        1,
        1,
        2,
        3,
        3,
        2,
    ]
    assert found(64 << 7, 32) == 2  # 2^4 beyond 512
    assert found((64 << 7) + 64, 32) is None
    assert found(32, 512) is None  # 1 and 4 are 5 in all
    assert found(32, 256) == 1
    lies(entry(1, shape=[40]), entry(2, shape=[33]))
    assert found(64) == 1  # in one bucket the nearest too
    assert found(32) == 2
    assert lookup.distance((64,), (40,)) == pytest.approx(np.log2(64 / 40) / 1000)
    assert lookup.distance((64, 1), (128, 4)) == 3.0
    assert lookup.distance((0, 1), (1, 1)) == 0.0
    assert [lookup.bucket((n,)) for n in (0, 1, 2, 3, 4, 5, 1024, 1025)] == [
        (1,), (1,), (2,), (4,), (4,), (8,), (1024,), (2048,)]  # fmt: skip


def test_what_must_be_the_same(lies):
    lies(entry(1, source="another"), entry(2, dtype="float16"), entry(3, device="e"), entry(4, shape=[64]),
         entry(5, mode="cuda; x=1"))  # fmt: skip
    assert found(64, 32) == 5
    assert found(64, 32, call="x=2") is None
    assert found(64, 32, call="x=1") == 5
    assert found(64, 32, source="") == 1  # of any text, the first
    assert (found(64, 32, dtype="float16"), found(64, 32, device="e"), found(64)) == (2, 3, 4)
    asked = []
    assert found(64, 32, source=lambda: asked.append(1) or "another") == 1
    assert asked == [1]
    assert found(1 << 20, 32, source=lambda: asked.append(1) or "t") is None
    assert asked == [1, 1]
    assert found(7, 7, dtype="int8", source=lambda: asked.append(1) or "s") is None
    assert asked == [1, 1]  # nothing is to be compared with


def test_what_ships_stands_behind_the_users_own(lies, monkeypatch, tmp_path):
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    ships = [entry(7), entry(8, device="e")]
    (tmp_path / bundled.file_of("d")).write_text(json.dumps({"version": 1, "entries": ships}))
    lies(entry(1, shape=[64, 64]))
    assert found(64, 32) == 7 or found(64, 32) == 1
    assert found(64, 31) == 7  # nearer by more than one power of two
    lies(entry(1, shape=[64, 50]))
    assert found(64, 32) == 1  # nearer by less
    lies(entry(1, shape=[64, 128]))
    assert found(64, 32) == 7
    lies()
    assert found(64, 32, device="e") is None  # a file tells of its own device


def test_a_choice_knows_how_many_programs_it_was_checked_with(lies):
    lies(entry(1, grid=[7, 2]), entry(2, shape=[1 << 20, 1]))
    assert lookup.best("k", (64, 32), "float32", "d", "s").grid == (7, 2)
    assert lookup.best("k", (1 << 20, 1), "float32", "d", "s").grid is None


def test_what_was_asked_for_twice_is_remembered(lies, monkeypatch):
    lies(entry(1))
    first = lookup.best("k", (64, 32), "float32", "d", "s")
    monkeypatch.setattr(lookup, "_find", lambda *a: {"B": 9})
    assert lookup.best("k", (64, 32), "float32", "d", "s") is first
    assert found(64, 33) == 9
    monkeypatch.setattr(lookup, "_MOST", len(lookup._memo))
    assert found(64, 34) == 9
    assert len(lookup._memo) == 1
    told = []
    monkeypatch.setattr(lookup, "on_change", [lambda: told.append(1)])
    lookup.forget()
    assert (len(lookup._memo), told) == (0, [1])


def test_choices_that_could_not_be_written_are_held(monkeypatch, lies):
    monkeypatch.setattr(lookup, "_held", [])
    lies(entry(1))
    here = places.data_folder()
    lookup.hold(here, entry(2))
    lookup.hold(here, entry(3))  # takes the other's place
    lookup.hold(here, entry(4, shape=[1, 1]))
    lookup.hold(Path("/elsewhere"), entry(5))
    assert [e["config"]["B"] for _, e in lookup._held] == [3, 4, 5]
    assert [e["config"]["B"] for e in lookup._held_here()] == [3, 4]
    lookup.forget()
    assert (found(64, 32), found(1, 1)) == (3, 4)


@pytest.mark.parametrize("change", [{"kernel": 1}, {"config": []}, {"shape": [0]}, {"shape": [1.5]}, {"shape": 3},
                                    {"device": None}, {"dtype": 3}, {"source": None}])  # fmt: skip
def test_entries_that_are_not_whole_are_left_out(lies, change):
    lies(entry(1), {**entry(2, shape=[9]), **change}, 7)
    assert [e["config"] for e in lookup.entries()] == [{"B": 1}]
    (places.data_folder() / lookup.FILE).write_text(json.dumps({"version": 2, "entries": [entry(1)]}))
    assert lookup.entries() == []


# -- the store ---------------------------------------------------------------------------------------------------------


def test_what_the_database_holds(tmp_path):
    with Store(tmp_path) as kept:
        one = kept.begin(KEY, {"numpy": "2"}, "random")
        trial = {"config": {"B": 1, "A": 2}, "status": "correct", "median_ms": 2.0, "ratio": 0.5, "n": 4,
                 "compile_ms": 3.0, "samples": [1.0, 3.0], "max_error": 0.25, "binary": "b", "at": 5.0}  # fmt: skip
        kept.add(KEY, one, trial)
        kept.add(KEY, one, {"config": {"B": 2}, "status": "runtime", "reason": "gone", "detail": "all", "at": 4.0})
        for at, block in ((9.0, 1), (8.0, 2)):
            kept.win(KEY, one, {"config": {"B": block}, "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": [{"B": 3}],
                                "at": at, "grid": [3]})  # fmt: skip
        trials = kept.trials(KEY)
        (problem,) = kept.problems()
        assert kept.tuned() == [KEY]
        row = kept._base.execute("SELECT max_error, detail FROM trial ORDER BY at").fetchall()
        assert row == [(None, "all"), (0.25, "")]
        assert kept._base.execute("SELECT facts, strategy FROM session JOIN env ON env.id=env").fetchall() == [
            ('{"numpy": "2"}', "random")]  # fmt: skip
        (winner,) = database.winners(kept._base)
    assert [t["at"] for t in trials] == [4.0, 5.0]
    assert {k: trials[1][k] for k in ("config", "binary", "status", "median_ms", "ratio", "n", "session")} == {
        "config": {"A": 2, "B": 1}, "binary": "b", "status": "correct", "median_ms": 2.0, "ratio": 0.5, "n": 4,
        "session": one}  # fmt: skip
    assert [(t["status"], t["samples"]) for t in problem["trials"]] == [("runtime", []), ("correct", [1.0, 3.0])]
    assert not {"session", "id", "kind", "detail", "kernel"} & set(problem["trials"][0])
    assert (problem["winner"]["config"], problem["kernel"]) == ({"B": 1}, "k")  # of two the later
    assert (winner["config"], winner["ratio"], winner["low"], winner["high"], winner["at"]) == (
        {"B": 1},
        0.5,
        0.4,
        0.6,
        9.0,
    )
    assert stat.S_IMODE((tmp_path / "best.json").stat().st_mode) == 0o600


def test_what_sessions_tell_one_another(tmp_path, monkeypatch):
    now = SimpleNamespace(s=1000.0)
    monkeypatch.setattr(store, "time", SimpleNamespace(time=lambda: now.s, strftime=lambda f: ""))
    runs = []
    monkeypatch.setattr(store.places, "still_runs", lambda who: runs.append(who) or who in alive)
    monkeypatch.setattr(store.places, "process_name", lambda: "me")
    alive = {"me"}
    with Store(tmp_path) as kept:
        one, two = kept.begin(KEY, {}, "x"), kept.begin(KEY, {}, "x")
        assert kept.claim(KEY, one, {"B": 1}) is True
        assert kept.claim(KEY, two, {"B": 1}) is False
        assert kept.claim(KEY, one, {"B": 1}) is True
        assert kept.claim({**KEY, "shape": [1]}, two, {"B": 1}) is True
        now.s += 599.0
        assert kept.claim(KEY, two, {"B": 1}) is False
        now.s += 1.0  # ten minutes: no config takes longer
        assert kept.claim(KEY, two, {"B": 1}) is True
        alive.clear()
        assert kept.claim(KEY, one, {"B": 1}) is True  # whose process is gone
        alive.add("me")
        kept.add(KEY, one, {"config": {"B": 1}, "status": "correct", "ratio": 0.5})
        assert kept.claim(KEY, two, {"B": 1}) is False  # it is known by now
        told = kept.news(KEY, two)
        assert [(t["config"], t["status"], t["ratio"]) for t in told] == [({"B": 1}, "correct", 0.5)]
        assert kept.news(KEY, two) == []
        assert kept.news(KEY, one) == []
        late = kept.begin(KEY, {}, "x")
        assert kept.news(KEY, late) == []
        assert kept.claim(KEY, two, {"B": 2}) is True
        assert kept.claim(KEY, one, {"B": 2}) is False
        kept.end(two)
        assert kept.claim(KEY, one, {"B": 2}) is True
        assert kept.news(KEY, two) == []
        kept._base.close()
        assert kept.claim(KEY, one, {"B": 3}) is True  # no answer is to be had
        assert kept.news(KEY, one) == []


def test_databases_that_can_be_read(tmp_path):
    path = tmp_path / "tuning.db"
    base = database.open_database(path, 1.0)
    assert base.execute("PRAGMA user_version").fetchone() == (1,)
    assert base.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    base.execute("PRAGMA user_version=2")
    base.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for opened in (lambda: database.open_database(path, 1.0), lambda: database.open_reading(path)):
        with pytest.raises(database.NewerVersion, match="has version 2, this gradlab knows 1"):
            opened()
    with pytest.raises(sqlite3.Error):
        database.open_reading(tmp_path / "none.db")
    base = sqlite3.connect(path)
    base.execute("PRAGMA user_version=1")
    base.close()
    reading = database.open_reading(path)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reading.execute("DELETE FROM trial")
    reading.close()


def test_records_are_written_all_or_none(tmp_path):
    base = database.open_database(tmp_path / "tuning.db", 1.0)
    good = {**KEY, "kind": "trial", "session": "s", "id": "1", "config": {"B": 1}, "status": "correct", "at": 1.0}
    with pytest.raises(KeyError):
        database.apply(base, [good, {**KEY, "kind": "trial"}])
    assert list(database.trials(base, KEY)) == []
    database.apply(base, [good, good])
    assert len(list(database.trials(base, KEY))) == 1
    base.close()


def test_the_file_system_is_that_of_the_deepest_mount(monkeypatch, tmp_path):
    table = f"a / ext4 rw\nb {tmp_path} tmpfs rw\nc {tmp_path}/a\\040b nfs4 rw\nd {tmp_path}/a xfs rw\ne / overlay rw\n"
    real = open
    monkeypatch.setattr("builtins.open", lambda path, *a, **named: __import__("io").StringIO(table)
                        if path == "/proc/self/mounts" else real(path, *a, **named))  # fmt: skip
    kinds = {"": "tmpfs", "a": "xfs", "a/c": "xfs", "a b": "nfs4", "a b/c": "nfs4", "ab": "tmpfs"}
    assert {name: store.file_system(tmp_path / name) for name in kinds} == kinds
    assert store.file_system(Path("/usr")) == "overlay"  # of two at one place the later
    table = "one two"
    assert store.file_system(tmp_path) == ""


def test_journals_hold_whole_records(tmp_path):
    made = journal.Journal.beside(tmp_path)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    made.write([{"kind": "trial", "id": "a"}, {"kind": "other"}, {"kind": "winner"}])
    made.write([{"kind": "session"}])
    with places.locked(made.path, 0.0) as held:
        assert held is False  # as long as its process lives
    made.close()
    made.close()
    with places.locked(made.path, 0.0) as held:
        assert held is True
    (tmp_path / "another.jsonl").touch()
    assert list(journal.journals(tmp_path)) == [made.path]
    with made.path.open("a") as file:
        file.write('[1]\n{"kind": "trial", "id')
    assert journal.records(made.path) == [{"kind": "trial", "id": "a"}, {"kind": "winner"}, {"kind": "session"}]
    assert journal.records(tmp_path / "none") == []
    part = []
    real = journal.os.write
    made = journal.Journal.beside(tmp_path)
    with pytest.MonkeyPatch.context() as patch:  # a disk that takes some bytes at a time
        patch.setattr(journal.os, "write", lambda fd, data: part.append(1) or real(fd, data[:5]))
        made.write([{"kind": "trial", "id": "b"}])
    made.close()
    assert len(part) > 3
    assert journal.records(made.path) == [{"kind": "trial", "id": "b"}]


# -- kernels of the user's own -----------------------------------------------------------------------------------------

SCALE, WORDS, HALF, NOTHING = 3, "ieee", tl.constexpr(0.5), object()


@triton.jit
def helper(x):
    return x * HALF


@triton.jit
def reads(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = helper(helper(tl.load(x + i, mask=i < n))) * SCALE
    if WORDS == "ieee":
        v += np.nan
    tl.store(out + i, v, mask=i < n)


@triton.jit
def strays(x, BLOCK: tl.constexpr):
    tl.store(x, NOTHING)


def test_a_kernels_text_has_what_it_reads_and_no_more():
    text = own.text_of(reads)
    heads, bodies = text.split("\n\n", 1)
    assert set(heads.splitlines()) == {
        "import triton as triton", "import triton.language as tl", "import numpy as np", "SCALE = 3", "WORDS = 'ieee'",
        "HALF = tl.constexpr(0.5)"}  # fmt: skip
    assert bodies.count("def helper") == bodies.count("def reads") == 1
    assert bodies.index("def helper") < bodies.index("def reads")
    assert own.made(text, "reads").fn.__name__ == "reads"
    with pytest.raises(Unknown, match="strays reads the global NOTHING, a object, which no other"):
        own.text_of(strays)
    there: dict = {}
    exec("def nowhere(x): pass", there)
    with pytest.raises(Unknown, match="the text of nowhere cannot be read"):
        own.text_of(SimpleNamespace(fn=there["nowhere"]))


def test_calls_in_words():
    x = np.zeros((2, 3), np.float32)
    assert calls.of({"x": x, "t": x.T, "n": np.int64(3), "b": True, "s": "a", "f": np.float32(1.0)}) == (
        "x=float32[2,3] t=float32[3,2]/(4,12) n=3 b=1 s='a'")  # fmt: skip
    assert calls.mode("cuda", {"n": 3}) == "cuda; n=3"
    assert (calls.how("cuda; n=3; m"), calls.served("cuda; n=3; m"), calls.served("cuda")) == ("cuda", "n=3; m", "")


class Launched:
    """What `triton.jit` makes, of which the launches are noted."""

    def __init__(self):
        self.said = []

    def fn(self, out, n, BLOCK):
        """Does nothing."""

    def __getitem__(self, grid):
        return lambda *given, **named: self.said.append((grid, named))


def test_launches_of_a_users_kernel(monkeypatch):
    kernel = Launched()
    kernel.fn = lambda x, n, BLOCK: 0
    auto = stored.Auto(kernel, own.space_of(kernel, {}, {"BLOCK": (64, 128)}), constants={"n": 3})
    choice = lookup.Chosen({"BLOCK": 128})
    asked = []
    monkeypatch.setattr(stored, "device", lambda: "a GPU")
    monkeypatch.setattr(stored, "source_of", lambda kernel: "text")
    monkeypatch.setattr(lookup, "best", lambda *a: asked.append(a[:4] + (a[4](), a[5])) or choice)
    x = np.zeros((2, 5), np.float32)
    for grid, checked, sizes, block in [
        (lambda c: c["BLOCK"], None, (128,), 128), ((7, 1), None, (7, 1), 64), ([7], (7,), (7,), 128),
        ((7,), (8,), (7,), 64),
        (lambda c: (c["BLOCK"], 2), (128, 2), (128, 2), 128), (lambda c: (c["BLOCK"], 2), (64, 2), (64, 2), 64),
    ]:  # fmt: skip
        choice.grid = checked
        auto._memo.clear()
        auto[grid](x)
        assert kernel.said.pop() == (sizes, {"BLOCK": block})
    assert asked[0] == ("<lambda>", (2, 5), "float32", "a GPU", "text", "x=float32[2,5] n=3")
    auto.any_shape = True
    auto._memo.clear()
    auto[(7, 1)](x)
    assert kernel.said.pop() == ((7, 1), {"BLOCK": 128})
    assert asked[-1][5] is None
    count = len(asked)
    auto.config_for(x, 0.5)
    auto.config_for(x, 0.25)
    assert len(asked) == count  # a floating number is no other call
    auto.config_for(x.T)
    for n in (4, np.int64(5), np.int64(6)):  # a number of NumPy's is a number too
        auto.config_for(x, n)
        assert asked[-1][5] is None
    assert len(asked) == count + 4
    kernel.said.clear()
    given = []
    monkeypatch.setattr(Launched, "__getitem__", lambda self, grid: lambda *a, **named: given.append((a, named)))
    auto[(7, 1)](x, np.int64(5))
    auto[(7, 1)](x, n=np.int64(5))
    assert (given[0][0][1], given[1][1]["n"]) == (5, 5)  # and no pointer
    monkeypatch.setattr(stored, "_MOST_KNOWN", len(auto._memo))
    auto.config_for(x, 7)
    assert len(auto._memo) == 1
    assert auto.config_for(x, x) == {"BLOCK": 64}  # in place
    monkeypatch.setattr(lookup, "best", lambda *a: 1 / 0)
    assert auto.config_for(x, 8) == {"BLOCK": 64}
    with pytest.raises(TypeError, match="<lambda>: a launch needs an array among its arguments, got none"):
        auto.config_for(3)


# -- problems by name --------------------------------------------------------------------------------------------------


def test_triton_problems_on_a_gpu_and_without(monkeypatch):
    from triton_kernels import runtime

    there = triton_problems.problem("softmax_kernel", (64, 512), "float32", None)
    assert (there.device, there.mode, there.measure.kind) == ("sm_90 (H100 SXM)", "static sm_90", "static")
    assert there.notes == ("no GPU is connected here: compiled for sm_90 (H100 SXM) and estimated, not timed",)
    assert (there.check.kind, there.check.shape) == (
        "interpret",
        tuple(
            min(n, most) for n, most in zip((64, 512), triton_problems.kernels()["softmax_kernel"].small, strict=True)
        ),
    )
    named = triton_problems.problem("softmax_kernel", (64, 512), "float32", "sm_80")
    assert named.notes == ("compiled for sm_80 (A100 80 GB) and estimated, not timed",)
    monkeypatch.setattr(runtime, "mode", lambda: "cuda")
    monkeypatch.setattr(runtime, "target", lambda: "sm_90")
    monkeypatch.setattr(runtime, "device_name", lambda: "a GPU")
    for target in (None, "cuda"):
        here = triton_problems.problem("softmax_kernel", (64, 512), "float32", target)
        assert (here.device, here.mode, here.measure.kind, here.check) == ("a GPU", "cuda, cold L2", "cuda", None)
    assert triton_problems.problem("softmax_kernel", (64, 512), "float32", "sm_80").measure.kind == "static"
    assert triton_problems.known() == triton_problems.KERNELS
    with pytest.raises(AttributeError, match="has no attribute 'kernels_'"):
        _ = triton_problems.kernels_


def test_which_kernel_a_name_is(monkeypatch):
    find = problems.find
    assert find("softmax", "8x16", "float16").kernel == "softmax_kernel"
    assert find("softmax", "8x16", "float64").kernel == "softmax_f64"
    assert find("softmax", "8x16", "float32", "sm_80").kernel == "softmax_kernel"
    assert find("softmax", "8x16", "float32", "cpu").kernel == "softmax_f32"
    assert find("matmul_f64", (8, 8, 8), "float64").measure.dtype == "float64"
    made = []
    monkeypatch.setitem(problems._FINDERS, "mine", (lambda *a: made.append(a) or "found", "ITEMS, here"))
    assert find("mine", "3x4", "float16", "sm_80") == "found"
    assert made == [((3, 4), "float16", "sm_80")]
    assert problems.known()["mine"] == "ITEMS, here"
    monkeypatch.setattr(problems, "free_bytes", lambda: 1 << 20)
    with pytest.raises(Unknown, match="wants about"):
        find("softmax_f32", "2048x2048", "float32")
    monkeypatch.setattr(problems, "free_bytes", lambda: None)
    assert find("softmax_f32", "2048x2048", "float32").shape == (2048, 2048)
