"""A file is replaced whole or stays as it was: permissions, links, dead writers, full disks, writers side by side."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

import core
from core.serialization import atomic


def left(folder) -> list[str]:
    """The temporary files in a folder."""
    return [n for n in os.listdir(folder) if n.endswith(".saving")]


def test_new_files_have_the_permissions_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        core.save(1, tmp_path / "a.pt")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "a.pt").st_mode) == 0o640


def test_a_file_that_is_replaced_keeps_its_permissions_and_its_links(tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "a.pt", tmp_path / "link.pt"
    core.save(1, real)
    os.chmod(real, 0o600)
    link.symlink_to(real)
    core.save(2, link)
    assert link.is_symlink()
    assert core.load(real) == 2
    assert stat.S_IMODE(os.stat(real).st_mode) == 0o600
    assert os.listdir(tmp_path / "real") == ["a.pt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path):
    core.save(1, tmp_path / "a.pt")
    os.chmod(tmp_path / "a.pt", 0o400)
    with pytest.raises(PermissionError):
        core.save(2, tmp_path / "a.pt")
    assert core.load(tmp_path / "a.pt") == 1


def test_pipes_and_devices_are_written_straight(tmp_path):
    core.save(core.ones(3), "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(tmp_path / "pipe.pt")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe.pt").read_bytes()))
    reader.start()
    core.save(core.ones(3), tmp_path / "pipe.pt")
    reader.join(10)
    (tmp_path / "b").write_bytes(got[0])
    assert core.load(tmp_path / "b").tolist() == [1, 1, 1]


def _failing(path, error: BaseException) -> None:
    with atomic.replacing(path) as f:
        f.write(b"half")
        raise error


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), OSError(errno.EIO, "disk")])
def test_a_write_that_fails_leaves_the_old_file_and_no_trace(tmp_path, error):
    path = tmp_path / "a.pt"
    core.save("old", path)
    with pytest.raises(type(error)):
        _failing(path, error)
    assert core.load(path) == "old"
    assert os.listdir(tmp_path) == ["a.pt"]


def test_a_full_disk_is_said_clearly(tmp_path):
    path = tmp_path / "a.pt"
    with pytest.raises(OSError, match=r"(?s)No space left on device: no file was left.*a.pt.*remedy"):
        _failing(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    core.save("old", path)
    with pytest.raises(
        OSError, match=r"(?s)No space left on device: the old file is as it was.*free now.*remedy"
    ) as error:
        _failing(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert error.value.errno == errno.ENOSPC
    assert core.load(path) == "old"
    assert left(tmp_path) == []


@pytest.mark.by_turns
def test_a_limit_on_the_size_of_files(tmp_path):
    """The kernel's own refusal in the middle of a large write, not a stand-in."""
    script = f"""
import resource, signal, core
path = {str(tmp_path / "a.safetensors")!r}
core.save("old", path)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    core.save(core.ones(1 << 20), path)
except OSError as error:
    assert "the old file is as it was" in str(error), error
else:
    raise AssertionError
assert core.load(path) == "old"
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert os.listdir(tmp_path) == ["a.safetensors"]


KILLED = """
import os, signal, sys, core
from core.serialization import atomic
with atomic.replacing(sys.argv[1]) as f:
    f.write(b"half")
    f.flush()
    print("writing", flush=True)
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def _started(path, how: str) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"writing\n"
    return process


@pytest.mark.by_turns
def test_what_killed_writers_left_is_swept_and_what_living_ones_write_is_not(tmp_path):
    path, other = tmp_path / "a.pt", tmp_path / "a.pt.b"
    alive = _started(path, "live")
    try:
        for p in (path, other):
            dead = _started(p, "die")
            dead.communicate(timeout=60)
            assert dead.returncode == -signal.SIGKILL
        assert len(left(tmp_path)) == 3
        core.save("new", path)
        assert core.load(path) == "new"
        names = left(tmp_path)
        assert len(names) == 2, "the living writer's, and the dead one's of another name"
        assert sum(n.startswith(".a.pt.b.") for n in names) == 1
        alive.communicate(timeout=60)  # it ends, and its file takes the place
        assert path.read_bytes() == b"half"
        core.save("newer", path)
        core.save("newer", other)
        assert left(tmp_path) == []
    finally:
        if alive.poll() is None:
            alive.kill()
            alive.communicate(timeout=60)


def test_writers_side_by_side_leave_one_whole_file(tmp_path):
    path = tmp_path / "a.safetensors"
    failed = []

    def writer(k: int) -> None:
        try:
            for _ in range(15):
                core.save({"k": core.full((1000,), k), "n": k}, path)
                seen = core.load(path)
                assert (seen["k"] == seen["n"]).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=writer, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not failed
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_names_near_the_limit(tmp_path):
    for name in ("x" * 252 + ".pt", "ü" * 126 + ".pt"):
        core.save(1, tmp_path / name)
        assert core.load(tmp_path / name) == 1
    with pytest.raises(OSError, match="name too long"):
        core.save(1, tmp_path / ("x" * 300))
    assert left(tmp_path) == []


def test_the_file_and_its_folder_are_synced_in_the_right_order(tmp_path, monkeypatch):
    seen = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def told(*args, name=name, real=real):
            seen.append((name, os.path.isdir(f"/proc/self/fd/{args[0]}") if name == "fsync" else ""))
            return real(*args)

        monkeypatch.setattr(os, name, told)
    core.save(1, tmp_path / "a.pt")
    assert seen == [("fsync", False), ("replace", ""), ("fsync", True)]
