"""Ranks that stay: variables, output, errors, Ctrl-C, ranks that die or do not answer, and that nothing is left."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from core.distributed.worker import MARK, marked
from lab.ranks.cell import errors, view
from lab.ranks.pool import Lost

from ...core.distributed.jobs import ROOT, environment, needs_mpi


def run(pool, text, timeout_s=20.0):
    begin = time.monotonic()
    pool.run(f"#\n{text}", "In [3]", timeout_s)
    return time.monotonic() - begin


def test_variables_stay_and_output_has_its_rank(pool, capsys):
    run(pool, "kept = rank * 10\nprint('first\\nsecond')")
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(
        f"[{rank}] {word}" for rank in range(4) for word in ("first", "second"))  # fmt: skip
    run(pool, "total = torch.tensor(kept)\ndist.all_reduce(total)\ntotal")
    assert sorted(capsys.readouterr().out.splitlines()) == [f"[{rank}] tensor(60)" for rank in range(4)]


def test_what_is_printed_in_c_and_on_stderr_comes_too(pool, capfd):
    run(pool, "import os, sys\nif rank == 2:\n    os.write(1, b'from c\\n')\n    print('aside', file=sys.stderr)")
    out, err = capfd.readouterr()
    assert (out, err) == ("[2] from c\n", "[2] aside\n")


def test_equal_errors_are_told_once(pool):
    run(pool, "1 / 0")
    [(ranks, error)] = errors(pool)
    assert (ranks, error["type"], error["line"]) == ([0, 1, 2, 3], "ZeroDivisionError", 2)
    assert error["traceback"].splitlines()[1:3] == ['  File "In [3]", line 2, in <module>', "    1 / 0"]


def test_a_name_of_the_notebook_is_said_to_be_one(pool):
    run(pool, "elsewhere")
    assert "is a variable of the notebook" in errors(pool, {"elsewhere": 1})[0][1]["said"]


def test_an_error_on_one_rank_ends_the_others_and_all_go_on(pool):
    took = run(pool, "t = torch.ones(2)\nif rank == 1:\n    raise KeyError('here')\ndist.all_reduce(t)")
    assert took < 8
    assert [rank.state for rank in pool.ranks] == ["stopped", "failed", "stopped", "stopped"]
    run(pool, "t = torch.ones(2)\ndist.all_reduce(t)\nassert t.tolist() == [4, 4]")
    assert [rank.state for rank in pool.ranks] == ["done"] * 4


def test_groups_and_models_work_after_a_stopped_cell(pool):
    run(pool, "pair = dist.new_group([1, 3])\nmodel = DDP(net())")
    run(
        pool,
        "t = torch.ones(1)\nif rank == 3:\n    raise ValueError\nif rank == 1:\n    dist.all_reduce(t, group=pair)",
    )
    run(pool, "t = torch.ones(1)\nif rank in (1, 3):\n    dist.all_reduce(t, group=pair)\n    assert t.item() == 2\n"
              "model(batch()[0]).sum().backward()")  # fmt: skip
    assert [rank.error for rank in pool.ranks] == [None] * 4


def test_a_script_may_begin_and_end_its_world(pool):
    run(pool, "dist.init_process_group('gloo')\nassert dist.get_world_size() == 4\ndist.destroy_process_group()")
    assert [rank.error for rank in pool.ranks] == [None] * 4
    run(pool, "t = torch.ones(1)\ndist.all_reduce(t)\nassert t.item() == 4")
    assert [rank.error for rank in pool.ranks] == [None] * 4


def test_import_torch_gives_core_where_that_is_asked(pool):
    pool.run("import torch as there\nassert there.distributed.get_world_size() == 4", "In [3]", 20.0, torch=True)
    assert [rank.error for rank in pool.ranks] == [None] * 4
    run(pool, "import sys\nassert 'torch' not in sys.modules or sys.modules['torch'] is not there")
    assert [rank.error for rank in pool.ranks] == [None] * 4


def after(seconds, act):
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


def test_stop_ends_the_cell_and_keeps_the_ranks(pool):
    run(pool, "kept = 5")
    after(0.5, _thread.interrupt_main)
    took = run(pool, "while True:\n    time.sleep(0.01)")
    assert took < 5
    assert (pool.cause, {rank.state for rank in pool.ranks}) == ("you", {"stopped"})
    run(pool, "assert kept == 5")
    assert [rank.error for rank in pool.ranks] == [None] * 4


def test_a_rank_that_does_not_answer_is_ended_with_its_line(pool):
    after(0.5, _thread.interrupt_main)
    took = run(pool, "import itertools\nif rank == 1:\n    sum(itertools.repeat(0))")
    assert took < 10
    assert (pool.ranks[1].state, pool.ranks[1].place["line"]) == ("ended", 4)
    assert not pool.alive
    assert marked(pool._mark) == []
    with pytest.raises(Lost, match="did not answer Ctrl-C"):
        pool.run("1", "In [4]")


@pytest.mark.parametrize(("how", "code"), [("os.kill(os.getpid(), 9)", -9), ("os._exit(3)", 3),
                                           ("ctypes.string_at(0)", -11)])  # fmt: skip
def test_a_rank_that_dies_is_named_with_its_line(pool, how, code):
    took = run(
        pool, f"import ctypes, os\nt = torch.ones(1)\nif rank == 2:\n    time.sleep(0.4)\n    {how}\ndist.all_reduce(t)"
    )
    assert took < 10
    assert (pool.ranks[2].state, pool.ranks[2].code) == ("died", code)
    assert pool.ranks[2].place["line"] in (5, 6)  # told at most a tenth of a second before
    assert [rank.error["line"] for rank in pool.ranks if rank.number != 2] == [7, 7, 7]
    assert marked(pool._mark) == []


@needs_mpi
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_notebook_ends(number):
    text = ("from lab.ranks.pool import Pool\np = Pool(3)\np.start()\nprint(p._mark, flush=True)\n"
            "p.run('import subprocess, time\\nsubprocess.Popen([\"sleep\", \"100\"])\\ntime.sleep(100)', 'In [1]')"
            )  # fmt: skip
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, cwd=ROOT,
                               env={k: v for k, v in environment().items() if k != MARK})  # fmt: skip
    mark = process.stdout.readline().strip()
    time.sleep(1.5)
    assert len(marked(mark)) >= 6
    os.kill(process.pid, number)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 8
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in marked(mark)]
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest.mark.parametrize("text", ["time.sleep(100)", "sum(itertools.repeat(0))"])
def test_a_rank_that_hangs_is_named_within_ten_seconds_of_the_timeout(pool, text):
    cell = f"import itertools\nt = torch.ones(1)\nif rank == 2:\n    {text}\ndist.all_reduce(t)"
    assert run(pool, cell, 2.0) < 12
    card = view(pool, "", "In [3]", f"%%ranks\n{cell}")
    assert card.findings[0].message.startswith(f"Rank 2 hangs on line 5 (`{text}`): ranks 0, 1 and 3 waited for it in "
                                               "`all_reduce` on line 6 until the timeout.")  # fmt: skip
