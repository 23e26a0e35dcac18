"""The tuner's panel without a browser: a run in its threads, what is drawn of it, the texts that stay."""

from __future__ import annotations

import json
import re

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from lab.notebook import panel, tune_magic
from lab.tuning import session_view
from lab.tuning.command import options_of
from triton_kernels.tune import events as ev
from triton_kernels.tune.replay import replayed
from triton_kernels.tune.session import Session
from triton_kernels.tune.space import Constraint, Space, powers_of_two
from widgets import tuner
from widgets.tuner import Tuning

TIMES = {1: 4.0, 2: "runtime", 4: 1.0, 8: 3.0, 16: 2.0}


def run(**options):
    made = panel.Run(Session(replayed(TIMES), **{"budget": None, "jobs": 1, "strategy": "exhaustive", **options}))
    seen = []
    made.start(lambda view: seen.append((view.state, len(view.trials))))
    return made, seen


def test_a_run_to_its_end():
    made, seen = run()
    result = made.wait(30)
    assert result.best.config == {"BLOCK": 4}
    assert seen[-1] == ("done", 5)
    view = made.view
    assert [t[1] for t in view.trials].count("runtime") == 1
    assert view.best()[2] == 0.25
    assert view.words(view.best()) == "BLOCK=4"
    assert view.verdict[0].startswith("Best: BLOCK=4 · 4.00 times as fast as the default")
    assert view.places[0][0] == "BLOCK=4"
    assert [p[5] for p in view.places].count("default") == 1
    assert view.code.endswith("# changed: BLOCK 1 -> 4\n{'BLOCK': 4}")
    assert view.reasons == [("runtime: was recorded as failing (runtime)", 1)]
    assert "5 of 5 configs tried · 1 rejected" in tuner.text(view)


def test_pause_and_stop():
    session = Session(replayed(TIMES), budget=None, jobs=1)
    session.pause()
    made = panel.Run(session)
    made.pause()
    assert made.view.state == "paused"
    made.start()
    assert made.wait(0.3) is None
    assert len(made.view.trials) <= 1  # the default alone
    made.go_on()
    assert made.view.state == "running"
    assert made.wait(30).verdict == "faster"
    stopped = panel.Run(Session(replayed(TIMES), budget=None, jobs=1))
    stopped.stop()
    stopped.start()
    assert stopped.wait(30).ended == "stopped"
    assert stopped.view.state == "stopped"


def test_a_session_that_raises_is_told(monkeypatch):
    def fails(self):
        raise RuntimeError("no room <b>")
        yield

    monkeypatch.setattr(Session, "__iter__", fails)
    made, _ = run()
    with pytest.raises(RuntimeError, match="no room"):
        made.wait(30)
    assert made.view.state == "failed"
    assert "RuntimeError: no room <b>" in tuner.text(made.view)
    assert "<b>" not in tuner.html(made.view)


def test_pairs_that_no_config_has_are_named_with_their_limit():
    problem = replayed(TIMES)
    space = Space([powers_of_two("A", 1, 4, default=1), powers_of_two("B", 1, 2, default=1)],
                  [Constraint("A times B at most 4", lambda c: c["A"] * c["B"] <= 4)])  # fmt: skip
    session = Session(problem)
    session.table = type(session.table)(space)
    assert session_view.never(space, session) == {"0,1": [(2, 1, "A times B at most 4")]}


def test_what_a_saved_panel_holds_is_inert():
    bad = "</script><img src=x onerror=alert(1)>"
    view = Tuning(bad, device=bad, state="done", size=1, tunables=[(bad, [bad], 0)], notes=[bad], verdict=[bad],
                  code=bad, trials=[([0], "right", 1.0, 1.0, bad, {bad: bad})], reasons=[(bad, 1)],
                  places=[(bad, 1.0, 1.0, 1.0, 1.0, bad, bad)])  # fmt: skip
    text = tuner.html(view)
    assert "<img" not in text
    assert text.count("</script>") == 2
    data = re.search(r'application/json">(.*?)</script>', text)[1]
    assert json.loads(data)["title"] == bad


def test_a_cell_that_is_not_whole_gets_an_example():
    shell = InteractiveShell.instance()
    with pytest.raises(UsageError, match=r"defines no kernel with @triton\.jit"):
        tune_magic.tune_cell(shell, "", "x = 1")
    kernel = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, n: tl.constexpr):\n    pass\n"
    with pytest.raises(UsageError, match="the cell says no grid"):
        tune_magic.tune_cell(shell, "", kernel + "arguments = dict(n=3)")
    with pytest.raises(UsageError, match="no strategy is named 'x'"):
        tune_magic.tune_cell(shell, "--strategy x", "")
    assert options_of(["--target", "sm_80", "--wait"]).target == "sm_80"


def test_the_facts_of_a_place_are_for_people():
    made = Tuning("k")
    session = Session(replayed(TIMES), budget=None)
    place = ev.Place({"BLOCK": 4}, 1.0, 0.25, 0.2, 0.3, {"registers": 32, "bytes": 8, "limited_by": "warps"})
    default = ev.Place({"BLOCK": 1}, 4, 1, 1, 1)
    result = ev.Result("k", (1,), "float32", "replay", "d", "random", "faster", default, place, (place,))
    session_view.conclude(made, session, result)
    assert made.places[0][6] == "registers 32, limited by warps"


def test_a_peak_that_a_config_passes_is_raised_to_it(monkeypatch):
    """It was measured at a busier time: no time of the table is below what can be reached."""
    monkeypatch.setattr(session_view, "machine", lambda problem: (1e9, 1e9, "this machine's measured"))
    monkeypatch.setattr(session_view, "work_of", lambda problem: lambda config: (4e6, 1e3))
    session = Session(replayed(TIMES), budget=None)
    view = session_view.begin(session)
    assert view.bound == (4.0, "4 M operations at this machine's measured 1 G a second", "peak")
    for config, time_ms, peak in [({"BLOCK": 1}, 5.0, 1e9), ({"BLOCK": 2}, 2.0, 2e9), ({"BLOCK": 4}, 3.0, 2e9)]:
        session_view.raise_limits(view, session.problem, time_ms)
        assert (view.bound[0], view.roof[0]) == (4e9 / peak, peak), config
    place = ev.Place({"BLOCK": 4}, 0.5, 0.25, 0.2, 0.3)
    default = ev.Place({"BLOCK": 1}, 1.0, 0.5, 0.5, 0.5)
    result = ev.Result("k", (1,), "float32", "replay", "d", "random", "faster", default, place, (place,))
    session_view.conclude(view, session, result)
    assert view.bound[:2] == (0.5, "4 M operations at this machine's measured 8 G a second")
