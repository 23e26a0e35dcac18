"""`%%ranks` in a shell: what it starts and keeps, what it shows, and what it says to a line that cannot be."""

from __future__ import annotations

import _thread
import threading

import pytest

from core.distributed.worker import marked

from ...core.distributed.jobs import needs_mpi

SETUP = "here = 1"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%ranks\n1", "%%ranks: there are no ranks yet; needed: how many, as in %%ranks 4"),
        ("%%ranks four\n1", "%%ranks: 'four' is no number of ranks; needed: 1 to 64"),
        ("%%ranks 2 --timeout never\n1", "%%ranks: argument --timeout"),
        ("%%ranks 2 --txet\n1", "did you mean --text?"),
        ("%%ranks 2 'x\n1", "No closing quotation"),
        ("%ranks 4", "write %%ranks, as the first line of a cell"),
        ("%ranks stpo", "did you mean stop?"),
    ],
)
def test_a_line_that_cannot_be_is_told_in_one(run, cell, said):
    result, _, printed = run(cell)
    assert said in f"{result.error_in_exec}{printed}"


def test_without_ranks(run):
    assert "there are no ranks" in run("%ranks")[2]
    assert "there are no ranks" in run("%ranks stop")[2]
    assert "--timeout SECONDS" in run("%%ranks --help\n1")[2]


@needs_mpi
def test_ranks_stay_from_cell_to_cell(run, shell):
    _, shown, printed = run("%%ranks 2\nimport core.distributed as dist\nrank = dist.get_rank()\nrank * 10")
    assert "2 ranks started in" in printed
    assert "[0] 0" in printed
    assert "[1] 10" in printed
    assert shown == []  # nothing was sent
    result, shown, printed = run("%%ranks\nimport core\nt = core.ones(2) * rank\ndist.all_reduce(t)\nt")
    assert result.error_in_exec is None
    assert printed.count("tensor([1., 1.])") == 2
    assert "gradlab-ranked" in shown[0]["text/html"]
    assert "line 4 · all_reduce · 1 time · 8 bytes" in shown[0]["text/plain"]
    assert "2 ranks are there: pid" in run("%ranks")[2]

    result, _, printed = run("%%ranks\nhere + 1")
    assert str(result.error_in_exec) == "ranks 0 and 1, line 2: NameError: name 'here' is not defined"
    assert printed.count("Traceback") == 1
    assert "`here` is a variable of the notebook" in printed
    assert "magics and shell commands are the notebook's" in run("%%ranks\n!ls")[2]

    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    result, _, printed = run("%%ranks\nimport time\nwhile True:\n    time.sleep(0.01)")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "ranks 0 and 1 were stopped on line" in printed

    result, shown, printed = run("%%ranks --text\nimport os\nif rank == 1:\n    os._exit(3)\ndist.barrier()")
    assert "died on" in str(result.error_in_exec)
    assert "text/html" not in shown[0]
    pool = shell.magics_manager.registry["RankMagics"].pool
    assert marked(pool._mark) == []

    _, _, printed = run("%%ranks\nprint('anew')")
    assert "The 2 ranks have ended (a rank has died), with their variables." in printed
    assert printed.count("anew") == 2
    _, _, printed = run("%%ranks 1 --no-card\nprint(core)")
    assert "1 ranks in place of 2" not in printed
    assert "1 rank in place of 2: it starts anew" in printed
    assert "NameError" in printed
    pool = shell.magics_manager.registry["RankMagics"].pool
    assert "the ranks have ended" in run("%ranks stop")[2]
    assert marked(pool._mark) == []
