"""Where things are kept when the user's home takes nothing: elsewhere, said in one line, and kernels run."""

from __future__ import annotations

import fcntl
import io
import os
import platform
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.tune import c_kernels, lookup, places, worker
from triton_kernels.tune.own_c import CFunction, c_problem
from triton_kernels.tune.session import Session

TEXT = """
#define STEP 1  // tune: 1, 2
void twice(const float *x, float *out, long n) {
    for (int k = 0; k < STEP; k++) for (long i = k; i < n; i += STEP) out[i] = 2 * x[i];
}"""


@pytest.fixture(params=["a file in its place", "/dev/null", "read-only", "full"])
def no_home(request, tmp_path, monkeypatch):
    """A home whose cache folder is of no use."""
    monkeypatch.setattr(places.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    places._told.clear()
    c_kernels._loaded.cache_clear()
    c_kernels._ready.clear()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    if request.param == "a file in its place":
        (tmp_path / "home" / ".cache").write_text("")
    elif request.param == "/dev/null":
        monkeypatch.setenv("HOME", "/dev/null")
    elif request.param == "read-only":
        real = os.access
        monkeypatch.setattr(places.os, "access", lambda path, how: "home" not in str(path) and real(path, how))
    else:
        real = places.tempfile.mkstemp

        def full(*arguments, dir=None, **named):
            if dir is not None and "home" in str(dir):
                raise OSError(28, "No space left on device")
            return real(*arguments, dir=dir, **named)

        monkeypatch.setattr(places.tempfile, "mkstemp", full)
    yield tmp_path / "tmp"
    places._told.clear()
    c_kernels._loaded.cache_clear()
    c_kernels._ready.clear()
    lookup.forget()


def test_c_is_called_and_one_line_says_where_it_is_kept(no_home):
    x, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        CFunction(TEXT)(x, out, 5)
        assert (c_kernels.run("softmax", np.ones((2, 4), np.float32)) == 0.25).all()
    assert [w.category for w in said] == [places.PlaceWarning]
    assert "compiled C is kept in " in str(said[0].message)
    assert "Remedy: set XDG_CACHE_HOME" in str(said[0].message)
    assert (out == 2 * x).all()
    assert list(no_home.rglob("*.so"))
    assert (next(no_home.rglob("*.so")).parent.stat().st_mode & 0o077) == 0


def tuned(problem):
    session = Session(problem, budget="8s", jobs=1)
    list(session)
    return session


@pytest.mark.by_turns
def test_c_is_tuned(no_home):
    given = {"x": np.arange(50, dtype=np.float32), "out": np.zeros(50, np.float32), "n": 50}
    with pytest.warns(places.PlaceWarning):
        session = tuned(c_problem(TEXT, given, reference=lambda x: 2 * x))
    assert session.result.verdict in ("faster", "default", "noisy")
    assert session.result.rejected == {}


def test_a_user_without_a_home_gets_no_folder_named_like_one(tmp_path, monkeypatch):
    program = """
import os, warnings
os.path.expanduser = lambda path: path   # nobody has this number
warnings.simplefilter("ignore")
from triton_kernels.tune import places, store
places.cache_folder()
with store.Store() as kept:
    print(kept.state, os.listdir("."))
"""
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
    environment |= {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    (tmp_path / "here").mkdir()
    said = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "here", env=environment, text=True,
                          capture_output=True, check=True).stdout  # fmt: skip
    assert said == "memory []\n"


def test_a_folder_of_another_user_is_still_refused(monkeypatch):
    monkeypatch.setattr(places.os, "getuid", lambda: 12345)
    with warnings.catch_warnings(), pytest.raises(PermissionError, match="not a folder of this user's own"):
        places.cache_folder()


def test_a_lock_whose_file_cannot_be_opened_was_not_had(tmp_path):
    with places.locked(tmp_path / "nowhere" / "lock", 0.0) as held:
        assert not held
    with places.locked(tmp_path / "lock", 0.0) as held:
        assert held


# -- facts of the machine, read from made-up texts ---------------------------------------------------------------------

MEMORY = "MemTotal:       9 kB\nMemAvailable:       2 kB\n"
PROCESSORS = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC 9654: 96 cores
a line that says nothing
flags\t\t: fpu vme: avx2
bugs\t\t: none

processor\t: 1
model\t\t: 18
model name\t: another
flags\t\t: another
"""


@pytest.fixture
def told(monkeypatch):
    """Has what `places` opens hold this text; None where there is no such file."""

    def tell(text):
        def opened(*arguments, **named):
            if text is None:
                raise FileNotFoundError(arguments[0])
            return io.StringIO(text)

        monkeypatch.setattr(places, "open", opened, raising=False)

    return tell


@pytest.mark.parametrize(("text", "free"), [
    (MEMORY, 2048), ("nothing\n" + MEMORY, 2048), ("MemTotal: 9 kB\n", None), ("MemAvailable: many\n", None),
    ("MemAvailable: 3 kB : of them\n", 3072), (None, None),
])  # fmt: skip
def test_free_memory_is_told_in_bytes(told, text, free):
    told(text)
    assert places.free_bytes() == free


@pytest.mark.parametrize(("available", "memory"), [
    ("4194304 kB", 3 << 30), ("1048576 kB", 3 << 28), ("2 kB", 1 << 29), ("many", None),
])  # fmt: skip
def test_a_worker_may_take_three_quarters_of_it(monkeypatch, available, memory):
    text = f"MemTotal: 9 kB\nMemAvailable: {available}: that is\n"
    monkeypatch.setattr(worker, "open", lambda *a, **named: io.StringIO(text), raising=False)
    assert worker.memory_for_a_worker() == memory


def test_the_processors_name_is_the_first_ones(told, monkeypatch):
    name = places.cpu_name.__wrapped__
    monkeypatch.setattr(places, "cpu_count", lambda: 3)
    told(PROCESSORS)
    assert name() == "AMD EPYC 9654: 96 cores (25.17) x3"
    told(PROCESSORS.replace("cpu family", "else"))
    assert name() == "AMD EPYC 9654: 96 cores (?.17) x3"
    told("model name: Neoverse\n")
    assert name() == "Neoverse x3"
    monkeypatch.setattr(places.platform, "processor", lambda: "")
    monkeypatch.setattr(places.platform, "machine", lambda: "riscv64")
    for nothing in ("processor: 0\n", None):
        told(nothing)
        assert name() == "riscv64 x3"


def test_the_instruction_sets_are_the_first_processors(told, monkeypatch):
    features = places.cpu_features.__wrapped__
    told(PROCESSORS)
    assert features() == "fpu vme: avx2"
    told(PROCESSORS.replace("flags", "Features"))
    assert features() == "fpu vme: avx2"
    told("processor: 0\n")
    assert features() == ""
    monkeypatch.setattr(places.platform, "machine", lambda: "riscv64")
    told(None)
    assert features() == "riscv64"


def test_the_processors_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(places.os, "sched_getaffinity", lambda pid: {5, 7} if pid == 0 else {1})
    assert places.cpu_count() == 2
    monkeypatch.delattr(places.os, "sched_getaffinity")
    monkeypatch.setattr(places.os, "cpu_count", lambda: 6)
    assert places.cpu_count() == 6
    monkeypatch.setattr(places.os, "cpu_count", lambda: None)
    assert places.cpu_count() == 1


def test_a_process_is_known_by_its_beginning(monkeypatch):
    fields = " ".join(map(str, range(100, 130)))
    stat_of = {"/proc/7/stat": f"7 (a name) ) S {fields}", "/proc/8/stat": f"8 (gone) Z {fields}",
               "/proc/9/stat": "9 (cut) S 1"}  # fmt: skip

    def read(path, *arguments, **named):
        if str(path) not in stat_of:
            raise FileNotFoundError(path)
        return stat_of[str(path)]

    monkeypatch.setattr(places.Path, "read_text", read)
    monkeypatch.setattr(places.platform, "node", lambda: "here or there")
    monkeypatch.setattr(places.os, "getpid", lambda: 7)
    assert places.process_name() == "here or there 7 118"  # the 22nd field, the state being the third
    for name, runs in [("here or there 7 118", True), ("here or there 7 119", False), ("here or there 8 118", False),
                       ("here or there 8 0", False), ("here or there 9 0", False), ("here or there 6 0", False),
                       ("elsewhere 6 5", True)]:  # fmt: skip
        assert places.still_runs(name) is runs, name


# -- locks -------------------------------------------------------------------------------------------------------------


def test_a_lock_is_waited_for_until_the_patience_ends(tmp_path, monkeypatch):
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += 0.5

    monkeypatch.setattr(places, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    path, stopping = tmp_path / "lock", threading.Event()
    with places.locked(path, 1.0) as mine:
        assert mine
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with places.locked(path, 1.0) as theirs:
            assert theirs is False
        assert slept == [0.003] * 3  # at just a second it is asked once more
        stopping.set()
        with places.locked(path, 1.0, stopping=stopping) as theirs:
            assert theirs is False
        with places.locked(path, 1.0, alone=False) as theirs:
            assert theirs is False
        assert len(slept) == 6
    with places.locked(path, 0.0, alone=False) as one, places.locked(path, 0.0, alone=False) as two:
        assert (one, two) == (True, True)
        with places.locked(path, 0.0) as alone:
            assert alone is False
    with open(path) as file:  # and it was given back
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# -- folders -----------------------------------------------------------------------------------------------------------


def test_where_folders_are(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", "/some/data")
    assert places.data_folder() == Path("/some/data/gradlab/tuning")
    monkeypatch.setenv("HOME", "/some/home")
    for relative in ("", "data"):  # the specification has relative ones ignored
        monkeypatch.setenv("XDG_DATA_HOME", relative)
        assert places.data_folder() == Path("/some/home/.local/share/gradlab/tuning")
    monkeypatch.setenv("HOME", "home")
    assert places.data_folder() == Path("/dev/null/.local/share/gradlab/tuning")
    monkeypatch.setattr(places.tempfile, "tempdir", str(tmp_path))
    assert places.temporary_folder() == tmp_path / f"gradlab-{os.getuid()}"


def test_a_private_folder_is_its_owners_alone(tmp_path):
    folder = tmp_path / "one" / "two"
    assert places.private(folder) == folder
    assert places.private(folder) == folder  # as often as one likes
    for mode in (0o777, 0o701, 0o710, 0o740):
        folder.chmod(mode)
        assert stat.S_IMODE(places.private(folder).stat().st_mode) == 0o700
    folder.chmod(0o500)  # its owner's own choice
    assert stat.S_IMODE(places.private(folder).stat().st_mode) == 0o500
    folder.chmod(0o700)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(places.NotOurs, match="is not a folder of this user's own"):
        places.private(tmp_path / "link")


def test_another_folder_is_told_of_once(tmp_path, monkeypatch):
    monkeypatch.setattr(places.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(places, "_told", set())
    with pytest.warns(places.PlaceWarning, match="cannot be used: full") as said:
        folder = places.temporary_cache(OSError("full"))
    assert places.temporary_cache(OSError("full")) == folder == places.temporary_folder() / "tuning"
    assert len(said) == 1
    assert said[0].filename == __file__
    assert platform.node() in places.process_name()
