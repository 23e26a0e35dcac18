"""These tests keep their results and compiled kernels in folders of their own, and leave no process behind."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from triton_kernels.tune import lookup


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Path:
    """One cache of compiled C for all tests: compiling is what takes their time."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def places(tmp_path, compiled, monkeypatch):
    """The user's folders, for this test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(compiled))
    lookup.forget()
    yield
    lookup.forget()


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return {pid for pid in found if _running(pid)}


def _running(pid: int) -> bool:
    try:
        if b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return False  # one for each process that has ever had a pool, to its end
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def no_child_left():
    """Workers end with their sessions."""
    before = children()
    yield
    assert children() <= before, "a worker was left behind"
    assert os.getpid() > 0
