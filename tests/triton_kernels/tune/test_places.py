"""Where things are kept when the user's home takes nothing: elsewhere, said in one line, and kernels run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from triton_kernels.tune import c_kernels, lookup, places
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


def test_free_memory_is_told_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "MemTotal:       9 kB\nMemAvailable:       2 kB\n"
    monkeypatch.setattr(places, "open", lambda *a, **named: io.StringIO(told), raising=False)
    assert places.free_bytes() == 2048
