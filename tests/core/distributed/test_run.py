"""The launcher: what it says of ranks that fail or hang, how it parts what they print, whom it starts."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from core.distributed import run, worker
from core.distributed.elastic import ChildFailedError
from core.distributed.job import Job, Output, _Parts
from core.distributed.launcher import LaunchConfig, elastic_launch
from core.distributed.verdict import Rank, Stopped, verdict

from . import failures, jobs

PLACE = {"file": "train.py", "line": 12, "name": "main", "text": "loss.backward()"}


def a_rank(number: int, op: str = "", line: int = 12, size_bytes: int = 8, **known: object) -> Rank:
    """A rank on a line, in a collective if one is named."""
    place = {**PLACE, "line": line, **({"op": op, "bytes": size_bytes, "ranks": [0, 1]} if op else {})}
    known = {"looks": 10, **known}
    return Rank(number, "a", 100 + number, 200 + number, step=7, place=place, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ranks", "said"), [
    ([a_rank(0, "all_reduce"), a_rank(1, code=-9, memory_mb=300)],
     "Rank 1 of 2 on a was ended by SIGKILL (signal 9), last seen at step 7, train.py:12, in `loss.backward()`. "
     "Somebody sent it that signal, or the system did for want of memory: it used 300 MB when last seen. Waiting for "
     "it: rank 0 in all_reduce of 8 bytes at step 7, train.py:12."),
    ([a_rank(0), a_rank(1, code=1, error="ValueError: no labels.", attempt=1)],
     "Rank 1 of 2 on a failed at step 7 of this start, train.py:12, in `loss.backward()`: ValueError: no labels. Its "
     "traceback is above. Meanwhile: rank 0 at step 7, train.py:12."),
    ([a_rank(0, code=1, error="RuntimeError: connection lost", failed_s=2), a_rank(1, code=1, error="ValueError: no",
                                                                                   failed_s=1)],
     "ValueError: no. Its traceback is above. Rank 0 failed at step 7, train.py:12: RuntimeError: connection lost."),
    ([a_rank(0), a_rank(1, code=3, error="sys.exit(3)")],
     "Rank 1 of 2 on a ended with sys.exit(3) at step 7, train.py:12, in `loss.backward()`."),
    ([a_rank(0, "all_reduce", still_s=30), a_rank(1, still_s=31)],
     "Rank 1 of 2 on a made no progress for 31 s at step 7, train.py:12, in `loss.backward()`. Waiting for it: rank 0"),
    ([a_rank(0, "all_reduce", still_s=30), a_rank(1, "all_reduce", still_s=31, stopped=True)],
     "It is stopped (SIGSTOP): kill -CONT lets it go on."),
    ([a_rank(0, "all_reduce", still_s=30), a_rank(1, "all_reduce", still_s=31)],
     "All ranks wait for each other, for 30 s: ranks 0 and 1 in all_reduce of 8 bytes at step 7, train.py:12."),
    ([a_rank(0, "all_reduce", still_s=6), a_rank(1, "broadcast", 40, still_s=6)],
     "The ranks wait in collectives that do not match, for 6 s: rank 0 in all_reduce of 8 bytes at step 7, "
     "train.py:12; rank 1 in broadcast of 8 bytes at step 7, train.py:40."),
    ([a_rank(0, "all_reduce", size_bytes=4, still_s=6), a_rank(1, "all_reduce", still_s=6)],
     "The ranks wait in collectives that do not match, for 6 s: rank 0 in all_reduce of 4 bytes"),
    ([a_rank(0, "all_reduce", still_s=4), a_rank(1, code=0)],
     "Rank 1 of 2 on a has ended its program after step 7, and other ranks wait for it."),
    ([a_rank(0, code=1, error="DistBackendError: Timed out waiting 5000ms"), a_rank(1, still_s=2)],
     "Rank 1 of 2 on a made no progress"),
])  # fmt: skip
def test_a_failure_is_said(ranks, said):
    found = verdict(ranks, 20.0)
    assert found is not None
    assert said in str(found)


@pytest.mark.parametrize("ranks", [
    [a_rank(0, "all_reduce", still_s=15), a_rank(1, still_s=15)],  # one computes, one waits for it
    [a_rank(0, "all_reduce", still_s=2), a_rank(1, code=0)],
    [a_rank(0, "all_reduce", still_s=5, looks=3), a_rank(1, code=0)],  # the machine is slow
    [a_rank(0, "all_reduce", still_s=6), a_rank(1, "broadcast", still_s=6, looks=3)],
    [a_rank(0, "all_reduce", still_s=15), a_rank(1, code=0), a_rank(2, still_s=1)],
    [a_rank(0, "all_reduce", still_s=15), a_rank(1, "all_reduce", still_s=15), a_rank(2, code=0)],  # not of their group
    [a_rank(0, "recv", still_s=15), a_rank(1, "send", still_s=15)],
    [a_rank(0), a_rank(1, code=-15, ordered=True)],
    [Rank(0), Rank(1)],
])  # fmt: skip
def test_who_may_yet_go_on_is_left_alone(ranks):
    assert verdict(ranks, 20.0) is None


def test_without_a_timeout_a_rank_hangs_when_another_one_waits_for_it():
    ranks = [a_rank(0, "all_reduce", still_s=100), a_rank(1, still_s=7200)]
    assert verdict(ranks, None) is verdict(ranks, 0.0) is None
    ranks[0].still_s = 1801
    assert "Rank 1 of 2 on a made no progress for 7200 s" in str(verdict(ranks, None))
    assert verdict(ranks, 0.0) is None


def test_mpiexecs_own_words_tell_of_a_rank_that_could_not():
    said = "=   PID 201 RUNNING AT a\n=   EXIT CODE: 9\n"
    found = verdict([a_rank(0), a_rank(1)], 0.0, mpiexec=(9, said))
    assert "Rank 1 of 2 on a was ended by SIGKILL" in str(found)
    assert found.code == 137
    said = "ssh: no host b\n[mpiexec@a] ui_cmd_cb (pmci.c:51): Launch proxy failed.\n"
    found = verdict([Rank(0)], 0.0, mpiexec=(255, said))
    assert str(found) == "mpiexec could not start the ranks; it said: ssh: no host b."


def test_ctrl_c_says_where_all_were():
    found = Stopped([a_rank(0), a_rank(1), a_rank(2, line=40)], signal.SIGINT)
    assert str(found) == ("Stopped by Ctrl-C: ranks 0 and 1 at step 7, train.py:12, in `loss.backward()`; rank 2 at "
                          "step 7, train.py:40, in `loss.backward()`.")  # fmt: skip
    assert found.code == 130


def test_what_ranks_print_is_parted_wherever_it_is_cut():
    stream = b"mpiexec\n<m:0>one\n<m:1>o<m:0>two <html>\n says\n\n<m:1>ne\n<m:1>no end"
    for size in range(1, 12):
        parts, found = _Parts(b"m"), {-1: b"", 0: b"", 1: b""}
        pieces = [stream[k : k + size] for k in range(0, len(stream), size)]
        for piece in pieces:
            for rank, data in parts.take(piece):
                found[rank] += data
        for rank, data in parts.take(b"", last=True):
            found[rank] += data
        assert found == {-1: b"mpiexec\n says\n\n", 0: b"one\ntwo <html>\n", 1: b"one\nno end"}


def test_reports_are_taken_out_of_what_a_rank_prints(capsys):
    told = json.dumps({"rank": 0, "step": 3, "place": PLACE})
    text = f"before \nhalf a line m m5 {told}\n and its end\n".replace("m5", "m" * 24).encode()
    for size in (1, 2, 7, 1000):
        job = Job([], {}, "m" * 24, [Rank(0)], 0.0, Output(False))
        for k in range(0, len(text), size):
            job._heard(0, text[k : k + size])
        job.output.close()
        assert (job.ranks[0].step, job.ranks[0].place) == (3, PLACE)
        assert capsys.readouterr().err == "before \nhalf a line m  and its end\n"


def test_a_host_that_says_nothing_is_named():
    ranks = [a_rank(0, "all_reduce", still_s=5, heard_s=99.0), a_rank(1, heard_s=90.0)]
    job = Job([], {}, "m", ranks, 0.0, Output(False))
    assert job._silent(95.0, 0.0) is None
    said = "Nothing has been heard from a for 10 s, with rank 1; rank 1 was last seen at step 7, train.py:12"
    assert said in str(job._silent(100.0, 0.0))
    ranks[0].place.pop("op")  # it computes: nobody waits yet
    assert job._silent(100.0, 0.0) is None
    assert job._silent(151.0, 0.0) is not None
    job.ranks = [Rank(0), a_rank(1, heard_s=121.0)]
    assert job._silent(110.0, 0.0) is None
    assert "Rank 0 has not begun within 121 s." in str(job._silent(121.0, 0.0))


def test_lines_are_tagged_and_kept(tmp_path, capsys):
    out = Output(True, str(tmp_path))
    for data in (b"one\ntw", b"o\r\nbar 1%\rbar 2%\r", b"x" * 3_000_000, b"\nlast"):
        out.take(1, "stdout", data)
    out.close()
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["[1] one", "[1] two", "[1] bar 1%"]
    assert shown[-1] == "[1] last"
    assert sum(line.count("x") for line in shown) == 3_000_000
    assert (tmp_path / "1" / "stdout.log").read_bytes().endswith(b"bar 2%\r" + b"x" * 3_000_000 + b"\nlast")


def test_a_crash_tells_its_line():
    trace = (f'Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n  File "{__file__}", line 1 '
             f'in other\n\nCurrent thread 0x2 (most recent call first):\n  File "{worker.__file__}", line 5 in f\n'
             f'  File "{__file__}", line 2 in inner\n  File "{__file__}", line 3 in outer\n')  # fmt: skip
    assert worker._from_fault(trace)["line"] == 2
    assert worker._from_fault(f'Stack (most recent call first):\n  File "{__file__}", line 4 in f\n')["line"] == 4
    assert worker._from_fault("") == {}


def test_ranks_are_numbered_on_each_host(monkeypatch):
    monkeypatch.setenv("CORE_RUN_HOSTS", "2,1")
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE")
    assert [[worker.environment(k)[n] for n in names] for k in range(3)] == [
        ["0", "0", "0", "2", "3"], ["1", "1", "0", "2", "3"], ["2", "0", "1", "1", "3"]]  # fmt: skip


def test_a_file_of_hosts_is_read(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("a:2  # the first\n\nb slots=3\nc\n")
    assert run.read_hosts(str(path)) == [run.Host("a", 2), run.Host("b", 3), run.Host("c", 1)]
    path.write_text("a:2\nb:many\n")
    with pytest.raises(run.Refused, match="hosts:2: 'b:many' is no host"):
        run.read_hosts(str(path))


def test_torchruns_options_are_understood():
    line = "--nproc_per_node=2 --nnodes 1 --standalone --rdzv-backend c10d --max-restarts 3 -t 3"
    o = run.parse_args([*line.split(), "-m", "package.train", "--lr", "1", "-n", "5"])
    assert (o.nproc_per_node, o.restarts, o.module, o.training_script) == ("2", 3, True, "package.train")
    assert o.training_script_args == ["--lr", "1", "-n", "5"]


@pytest.mark.parametrize(("options", "said"), [
    (["-n", "none", "x.py"], "-n none: needed is a number of ranks, auto or cpu"),
    (["--nnodes", "2", "x.py"], "needed is --hosts, a file of the hosts"),
    (["--mpiexec", sys.executable, "x.py"], "is not MPICH's mpiexec"),
    (["x.py"], "there is no file x.py"),
])  # fmt: skip
@jobs.needs_mpi
def test_what_cannot_be_started_is_refused(options, said, capsys):
    with pytest.raises(SystemExit) as ended:
        run.main(options)
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_ranks_that_failed_are_left_out(tmp_path):
    launch = object.__new__(run.Launch)
    for failed, left in (([1], [1, 2]), ([1, 2], [1, 1]), ([0, 1], [2]), ([0, 1, 2, 3], [2, 2])):
        launch.hosts = [run.Host("a", 2), run.Host("b", 2)]
        ranks = [Rank(k, pid=1, code=-9 if k in failed else None) for k in range(4)]
        launch.shrink(verdict(ranks, 0.0))
        assert [h.slots for h in launch.hosts] == left


# -- jobs --------------------------------------------------------------------------------------------------------------

PRINTS = """
import os, sys, core
from core import distributed as dist
dist.init_process_group()
x = core.ones(1) * dist.get_rank()
dist.all_reduce(x)
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK TORCHELASTIC_RESTART_COUNT OMP_NUM_THREADS".split()
print(*(os.environ[k] for k in names), x.item(), sys.argv[1:], __name__, os.path.basename(__file__))
print("to stderr", file=sys.stderr)
"""


@jobs.needs_mpi
def test_a_program_runs_on_ranks(tmp_path):
    (tmp_path / "program.py").write_text(PRINTS)
    code, out, errors = jobs.run([sys.executable, "-m", "core.distributed.run", "-n", "2", "--logs", str(tmp_path),
                                  str(tmp_path / "program.py"), "a", "-n"])  # fmt: skip
    assert code == 0, errors
    assert sorted(out.splitlines()) == [f"[{k}] {k} {k} 2 2 0 0 1 1.0 ['a', '-n'] __main__ program.py" for k in (0, 1)]
    assert sorted(errors.splitlines()) == ["[0] to stderr", "[1] to stderr"]
    assert (tmp_path / "attempt_0" / "1" / "stderr.log").read_text() == "to stderr\n"


@pytest.fixture(scope="module")
def loss():
    return failures.undisturbed()


@jobs.needs_mpi
@pytest.mark.parametrize("case", [
    failures.Case("kill", 3, 1, 9, "shrink"), failures.Case("child", 2, 0, 2), failures.Case("held", 2, 1, 3),
    failures.Case("left", 2, 1, 5, "restarts"), failures.Case("ctrl-c", 2, 0, 3),
], ids=lambda case: case.fault)  # fmt: skip
def test_a_fault_is_told_and_nothing_is_left(case, loss):
    assert failures.play(case, loss).wrong == [], case.said


def doubled(x: int) -> tuple[int, int]:
    """What a rank returns."""
    if x < 0:
        raise ValueError(f"{x} is negative")
    return 2 * x, int(os.environ["RANK"])


@jobs.needs_mpi
def test_a_function_runs_on_ranks(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    config = LaunchConfig(1, 1, 2, max_restarts=0)
    assert elastic_launch(config, doubled)(4) == {0: (8, 0), 1: (8, 1)}
    with pytest.raises(ChildFailedError, match="ValueError: -1 is negative") as told:
        elastic_launch(config, doubled)(-1)
    assert told.value.get_first_failure()[1].exitcode == 1
    with pytest.raises(RuntimeError, match="one launcher starts all ranks"):
        elastic_launch(LaunchConfig(2, 2, 2), doubled)(4)
