"""Ranks that go different ways: the job ends soon, and the error says who and where."""

from __future__ import annotations

import re
import time

import pytest

from . import jobs

pytestmark = jobs.needs_mpi


def ended(name, **more):
    """What the ranks said; once more where the end of one has cut off what another wrote."""
    for _ in range(3):
        begin = time.monotonic()
        code, out, errors = jobs.ranks(3, "-m", "tests.core.distributed.faults", name, limit_s=40, **more)
        assert code != 0, out
        assert time.monotonic() - begin < 20
        if re.search(r"^\S*Error: ", errors, re.MULTILINE):
            break
    return errors


@pytest.mark.parametrize("level", ["OFF", "DETAIL"])
@pytest.mark.parametrize(
    "name",
    ["other_collective", "other_shape", "other_dtype", "other_op", "other_root", "other_group", "other_last_shape"],
)
def test_a_mismatch_is_found_with_both_lines(name, level):
    errors = ended(name, TORCH_DISTRIBUTED_DEBUG=level)
    assert "DistBackendError: Detected mismatch between collectives on ranks. Rank" in errors
    found = re.search(r"Rank (\d) is running collective: (.+?), but Rank (\d) is running collective: (.+)", errors)
    assert found is not None, errors
    assert found[1] != found[3]
    assert found[2] != found[4]
    for side in (found[2], found[4]):
        assert re.search(r"faults\.py line \d+", side), side


def test_a_rank_that_does_not_come_is_named_where_collectives_are_compared():
    errors = ended("late", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert re.search(r"Timed out waiting 2000ms for all_reduce \(at faults\.py line \d+ .*nothing has come from rank 1",
                     errors)  # fmt: skip


def test_a_collective_ends_at_its_timeout():
    errors = ended("late")
    assert "Timed out waiting 2000ms for all_reduce to complete" in errors
    assert "12 bytes at rank" in errors


def test_a_monitored_barrier_names_who_is_missing():
    assert re.search(r"Timed out waiting 1000ms for monitored_barrier .* from rank 1", ended("late_at_the_barrier"))


def test_a_job_that_is_killed_leaves_no_shared_memory():
    script = ("import core.distributed as d, os; d.init_process_group('gloo'); d.barrier()\n"
              "if d.get_rank() == 0: print([line for line in open('/proc/self/maps') if 'mpich_shm' in line])\n"
              "d.barrier(); os.kill(os.getpid(), 9)")  # fmt: skip
    code, out, errors = jobs.ranks(2, "-c", script, limit_s=30)
    assert code != 0
    assert "mpich_shm" in out, errors
    assert "(deleted)" in out


@pytest.mark.parametrize(("name", "said"), [
    ("nobody_sends", "for irecv to complete; nothing has come from rank 1"),
    ("short_message", "rank 0 of the group sent 12 bytes where 20 are expected"),
    ("long_message", "truncated"),
    ("raises", "ArithmeticError: planted"),
])  # fmt: skip
def test_faults_of_messages_and_programs(name, said):
    assert said in ended(name)
