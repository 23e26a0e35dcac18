"""Nothing that a trial does is left behind: names, files, random numbers, threads, processes are as they were."""

from __future__ import annotations

import os
import random
import select
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from lab.prove.snapshot import Order, Scene, Snapshot

from .processes import children
from .traps import SETUP, TRAPS

pytestmark = pytest.mark.usefixtures("trials")
SECONDS, MEGABYTES = 1.5, 512
ENDLESS = ("longer than", "?")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    space: dict[str, Any] = {"FOLDER": str(tmp_path_factory.mktemp("traps")), "GRANDPARENT": os.getpid()}
    exec(SETUP, space)
    was, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("workers"))
    yield space
    tempfile.tempdir = was
    space["stop"].set()
    space["holder"].join()
    for name in ("written", "reading", "server"):
        space[name].close()
    for end in space["pair"]:
        end.close()
    for end in space["pipe"]:
        os.close(end)


@pytest.fixture(scope="module")
def snapshot(world: dict[str, Any]) -> Iterator[Snapshot]:
    snapshot = Snapshot(Scene(world))
    yield snapshot
    snapshot.close()


def state(space: dict[str, Any]) -> dict[str, Any]:
    """All that a cell could have changed."""
    folder = Path(space["FOLDER"])
    legacy = np.random.get_state(legacy=True)  # noqa: NPY002 - it is the state that cells use
    return {
        "files": {p.name: (p.read_bytes(), p.stat().st_mode, p.stat().st_mtime_ns) for p in sorted(folder.iterdir())},
        "home": sorted(p.name for p in Path.home().iterdir()),
        "shared": sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else [],
        "left": os.listdir(tempfile.gettempdir()),
        "place": os.lseek(space["reading"].fileno(), 0, os.SEEK_CUR),
        "random": (random.getstate(), legacy[1].tolist(), legacy[2:], core.get_rng_state().tolist()),
        "names": sorted(space),
        "values": (list(space["values"]), space["w"].sum().item(), space["model"].weight.tolist()),
        "mapped": (space["mapped"].tolist(), space["block"][0]),
        "process": (os.getcwd(), dict(os.environ), os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)),
        "children": children(),
    }


@pytest.mark.parametrize("what", ["measure", "record"])
@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_leaves_nothing(
    name: str, what: str, world: dict[str, Any], snapshot: Snapshot, capfd: pytest.CaptureFixture[str]
) -> None:
    cell, ends = TRAPS[name]
    if what == "record" and ends in ENDLESS:
        pytest.skip("it is killed as in the other run")
    before = state(world)
    begin = time.monotonic()
    answer = snapshot.run(Order(cell, what, 0, SECONDS, MEGABYTES))
    took = time.monotonic() - begin
    assert state(world) == before
    assert took < SECONDS + 8
    assert not any(pipe_is_full(fd) for fd in (world["pipe"][0],))
    assert capfd.readouterr() == ("", "")
    error = answer["error"] or ""
    assert ends == "?" or (ends in error and bool(ends) == bool(error)), answer
    assert snapshot.run(Order("y = 1 + 1", "measure", 0, 5.0, MEGABYTES))["values"]["y"][4] == [2.0]


def pipe_is_full(fd: int) -> bool:
    """Whether something waits to be read."""
    return bool(select.select([fd], [], [], 0)[0])


def test_the_parent_goes_on(world: dict[str, Any], snapshot: Snapshot) -> None:
    snapshot.run(Order("for b in loader: pass"))
    world["pair"][0].send(b"x")
    assert world["pair"][1].recv(1) == b"x"
    with world["lock"]:
        pass
    assert sum(float(batch.sum()) for batch in world["loader"]) == 480


def test_closing_ends_the_process(world: dict[str, Any]) -> None:
    before = children()
    snapshot = Snapshot(Scene(world))
    (new,) = children() - before
    snapshot.close()
    snapshot.close()
    assert children() == before
    assert not Path(f"/proc/{new}").exists()
    assert snapshot.run(Order("1"))["error"]
