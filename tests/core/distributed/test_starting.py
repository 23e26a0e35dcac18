"""Processes that no mpiexec has started: they meet at an address, in a file, at a store."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest

from core.distributed.store_server import placed

from . import jobs

pytestmark = jobs.needs_mpi
PROGRAM = [sys.executable, "-m", "tests.core.distributed.starting"]


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def servers() -> set[str]:
    said = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return {line for line in said.splitlines() if "store_server.py" in line}


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_spawned_processes_sum_and_leave_nothing_behind(method):
    before = servers()
    code, out, errors = jobs.run([*PROGRAM, "spawn", method, "", "env://"], MASTER_ADDR="localhost",
                                 MASTER_PORT=free_port())  # fmt: skip
    assert code == 0, errors
    # three processes write to one pipe, and a line's end may come after another's line
    assert sorted(re.findall(r"rank \d has [\d.]+", out)) == [f"rank {r} has 9.0" for r in range(3)], (out, errors)
    end = time.monotonic() + 5
    while servers() - before and time.monotonic() < end:
        time.sleep(0.05)
    assert not servers() - before


@pytest.mark.parametrize(("fault", "said"), [
    ("raise", "ProcessRaisedException"), ("kill", "ProcessExitedException process 1 terminated with exit code -9"),
    ("exit", "ProcessExitedException process 1 terminated with exit code 3"),
])  # fmt: skip
def test_a_spawned_process_that_fails_ends_all(fault, said, tmp_path):
    _, out, errors = jobs.run([*PROGRAM, "spawn", "spawn", fault, f"file://{tmp_path}/store"], limit_s=30)
    assert said in out, errors
    assert ("ArithmeticError: planted" in out) == (fault == "raise")


def _by_hand(place, fault="", n=3, where=None, **more):
    before = where or [[]] * n
    started = [subprocess.Popen([*before[r], *PROGRAM, "rank", place, fault], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, cwd=jobs.ROOT, start_new_session=True,
                                env=jobs.environment(RANK=str(r), WORLD_SIZE=str(n), **more))
               for r in range(n)]  # fmt: skip
    try:
        return [(p.returncode, *said) for p in started for said in [p.communicate(timeout=40)]]
    finally:
        for p in started:
            if p.poll() is None:
                os.killpg(p.pid, 9)


def test_processes_started_by_hand_meet_at_an_address():
    found = _by_hand(f"tcp://127.0.0.1:{free_port()}")
    assert [(code, out) for code, out, _ in found] == [(0, f"rank {r} has 9.0\n") for r in range(3)], found


@pytest.fixture
def two_hosts():
    """Two networks of one machine each, with a wire between: the commands that run a program there."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare"))):
        pytest.skip("networks are made by root, with ip and unshare")
    a, b = (f"gl{os.getpid()}{x}" for x in "ab")
    made = [f"netns add {a}", f"netns add {b}", f"link add {a} netns {a} type veth peer name {b} netns {b}",
            *(f"-n {n} addr add 10.77.0.{k}/24 dev {n}" for k, n in ((1, a), (2, b))),
            *(f"-n {n} link set {d} up" for n in (a, b) for d in (n, "lo"))]  # fmt: skip
    try:
        for command in made:
            if subprocess.run(["ip", *command.split()], capture_output=True, check=False).returncode:
                pytest.skip(f"no network is made here: ip {command}")
        yield [["ip", "netns", "exec", n, "unshare", "-u", "sh", "-c", f'hostname {n}; exec "$@"', "sh"]
               for n in (a, b)]  # fmt: skip
    finally:
        for n in (a, b):
            subprocess.run(["ip", "netns", "del", n], capture_output=True, check=False)


def test_processes_of_two_machines_meet(two_hosts):
    where = [two_hosts[r // 2] for r in range(4)]
    found = _by_hand("env://", n=4, where=where, MASTER_ADDR="10.77.0.1", MASTER_PORT="29500")
    assert [(code, out) for code, out, _ in found] == [(0, f"rank {r} has 24.0\n") for r in range(4)], found


def test_who_was_killed_is_named_to_those_that_wait():
    found = _by_hand("env://", "kill", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    assert [code for code, _, _ in found] == [1, -9, 1]
    for rank in (0, 2):
        assert "DistBackendError: Connection closed by peer: rank 1 has ended" in found[rank][2]


def test_a_world_of_which_some_never_start_ends_at_its_timeout():
    script = ("import core.distributed as d, datetime\n"
              "d.init_process_group('gloo', timeout=datetime.timedelta(seconds=1), world_size=2, rank=0)")  # fmt: skip
    code, _, errors = jobs.run([sys.executable, "-c", script], MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    assert code == 1
    assert "DistStoreError: not all processes have joined the group" in errors


def test_a_port_that_is_taken_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        script = "import core.distributed as d; d.init_process_group('gloo', world_size=2, rank=0)"
        code, _, errors = jobs.run([sys.executable, "-c", script], MASTER_ADDR="127.0.0.1",
                                   MASTER_PORT=str(taken.getsockname()[1]))  # fmt: skip
    assert code == 1
    assert "DistNetworkError: The server socket has failed to listen on any local network address" in errors


def test_another_size_than_mpiexec_started_is_refused():
    script = "import core.distributed as d; d.init_process_group('gloo', world_size=3, rank=0)"
    code, _, errors = jobs.ranks(2, "-c", script, limit_s=30)
    assert code != 0
    assert "mpiexec has started 2 processes" in errors


def test_machines_are_told_by_runs_of_ranks():
    assert placed(["a", "a", "b", "a"]) == "(vector,(0,1,2),(1,1,1),(0,1,1))"
