"""The final: right again and again or out, over several processes, within the budget; one truth is told of it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from triton_kernels.tune import events as ev
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.own_c import c_problem
from triton_kernels.tune.race import interval_over, standing
from triton_kernels.tune.session import Session
from triton_kernels.tune.worker import Worker

from . import shifting

STATE = """
#include <stdio.h>
#include <stdlib.h>
#define MODE 0   // tune: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
void twice(const float *x, float *out, long n) {
    static int calls = 0;
    calls++;
    if (MODE > 1 && MODE < 9 && calls > 1) { out[0] = MODE; return; }   /* its work is done at the first call only */
    volatile float slow = 0;
    for (long k = 0; k < n * (MODE == 0 ? 8 : 2); k++) slow += 1;
    for (long i = 0; i < n; i++) out[i] = 2 * x[i];
    if (MODE == 9) slow = x[n];   /* looks beyond the end */
}
"""
X = np.random.default_rng(0).standard_normal(3000).astype(np.float32)


def problem(text=STATE, **options):
    given = {"x": X, "out": np.empty_like(X), "n": X.size}
    return c_problem(text, given, reference=lambda x: 2 * x, **options)


def drained(session):
    return list(session), session.result


@pytest.mark.by_turns
def test_what_is_right_at_its_first_call_alone_takes_nobodys_place():
    events, result = drained(Session(problem(), budget="25s", strategy="exhaustive", jobs=1))
    assert result.config == {"MODE": 1}
    assert result.verdict == "faster"
    rejected = {e.config["MODE"]: e.reason for e in events if isinstance(e, ev.Rejected)}
    assert set(rejected) == set(range(2, 10))
    assert all(
        rejected[mode].startswith("right at first, and no more when it is called again: ") for mode in range(2, 9)
    )
    assert (
        "SIGSEGV (a forbidden address) while checking: right after an array's end no access is allowed" in rejected[9]
    )


def test_what_fails_in_the_final_is_replaced_by_the_next(monkeypatch):
    """As above, but where nothing is noticed before: all places are taken by configs that are wrong."""
    monkeypatch.setattr("triton_kernels.tune.attempt._again", lambda worker, task: None)
    _, result = drained(Session(problem(), budget="25s", strategy="exhaustive", jobs=1))
    assert result.config == {"MODE": 1}
    assert result.rejected == {"correctness": 7, "runtime": 1}


def test_what_goes_wrong_only_when_others_have_run_is_out(monkeypatch, tmp_path):
    """The check after the rounds: the best is right at each check before the final's timing."""
    asked = shifting.problem(tmp_path, (1.0, 0.5, 0.7))
    session = Session(asked, budget=None, jobs=1)
    ran = []

    class Worker_(Worker):
        def call(self, method, *arguments, limit_s):
            ran.append(method)
            if method == "check" and arguments[0] == {"A": 1} and "rounds" in ran and arguments[0] in timed:
                raise Failed("correctness", "dirty scratch")
            if method == "rounds" and len(arguments[0]) == 3 and ran.count("rounds") > 2:
                timed.append({"A": 1})
            return super().call(method, *arguments, limit_s=limit_s)

    timed: list = []
    monkeypatch.setattr("triton_kernels.tune.worker.Worker", Worker_)
    events, result = drained(session)
    assert result.config == {"A": 2}
    assert [e.reason for e in events if isinstance(e, ev.Rejected)] == [
        "right at first, and no more when it is called again: dirty scratch"
    ]


def test_scratch_that_nobody_has_set_is_seen_at_once():
    text = """
#include <stdlib.h>
#define CLEAR 1  // tune: 0, 1
void twice(const float *x, float *out, long n) {
    float *sum = CLEAR ? calloc(n, sizeof *sum) : malloc(n * sizeof *sum);
    for (long i = 0; i < n; i++) { sum[i] += 2 * x[i]; out[i] = sum[i]; }
    free(sum);
}"""
    big = np.ones(1 << 20, np.float32)
    given = {"x": big, "out": np.empty_like(big), "n": big.size}
    measure = c_problem(text, given, reference=lambda x: 2 * x).measure
    measure.open()
    assert measure.check({"CLEAR": 1}) == 0
    with pytest.raises(Failed, match="1,048,576 of 1,048,576 results are wrong"):
        measure.check({"CLEAR": 0})


def test_second_inputs_the_default_does_not_take_are_left_out_and_said():
    text = """
#define MODE 0  // tune: 0, 1
void one(const float *x, float *out, long n) {
    for (long i = 0; i < n; i++) out[i] = x[0] == 1 ? 1 : MODE;
}"""
    given = {"x": np.ones(8, np.float32), "out": np.empty(8, np.float32), "n": 8}
    _, result = drained(Session(c_problem(text, given, reference=lambda x: 2 - x), budget="9s", jobs=1))
    assert any("no config was checked on second data" in note for note in result.notes)
    assert result.rejected == {}


# -- several processes -------------------------------------------------------------------------------------------------


@pytest.mark.by_turns
def test_intervals_hold_what_other_processes_give(tmp_path):
    _, result = drained(Session(shifting.problem(tmp_path, (7.4, 1.0), (2.9, 1.0), (5.0, 1.0)), budget="9s", jobs=1))
    assert len(list(tmp_path.glob("process-*"))) >= 3
    best = next(p for p in result.top if p.config == {"A": 1})
    assert best.low <= 1 / 5.0
    assert best.high >= 1 / 2.9  # the search's process, where it took 1 / 7.4, is the final's first


@pytest.mark.by_turns
def test_a_winner_of_one_memory_layout_is_none(tmp_path):
    of = [(1.0, 0.9), (1.0, 1.1), (1.0, 0.95), (1.0, 1.02), (1.0, 1.06), (1.0, 0.97)]
    _, result = drained(Session(shifting.problem(tmp_path, *of), budget="9s", jobs=1))
    assert result.verdict in ("default", "noisy")
    assert result.config == {"A": 0}


def test_intervals_over_processes_are_right_as_often_as_they_say(rng):
    missed = 0
    for _ in range(300):
        shifts = np.exp(0.05 * rng.standard_normal(5))
        rounds = np.concatenate([s * (1 + 0.01 * rng.standard_normal(8)) for s in shifts])
        _, low, high = interval_over(rounds, [8] * 5)
        missed += not low <= 1.0 <= high
    assert missed <= 30  # 5 % of 300 are 15
    named = 0
    for _ in range(200):  # three twins, each faster or slower in each process at random
        times = np.ones((4, 48)) * np.repeat(np.exp(0.05 * rng.standard_normal((4, 6))), 8, axis=1)
        named += standing(times * (1 + 0.01 * rng.random((4, 48))), [8] * 6).verdict == "faster"
    assert named <= 12


# -- the budget --------------------------------------------------------------------------------------------------------


@pytest.mark.by_turns
@pytest.mark.parametrize("slow", [{"check_s": 0.6}, {"build_s": 1.5}])
def test_the_budget_is_for_all_of_it(tmp_path, slow):
    asked = shifting.problem(tmp_path, tuple(1.0 - 0.01 * k for k in range(12)), **slow)
    began = time.monotonic()
    _, result = drained(Session(asked, budget="8s", jobs=1))
    spent = time.monotonic() - began
    assert spent < 8 * 1.05 + 0.5  # half a second for the processes to end, which others' load may delay
    assert result.seconds < 8 * 1.05 + 0.5
    assert result.ended == "budget"
    if "check_s" in slow:
        assert any(note.startswith("the budget was over: ") for note in result.notes)


# -- last words --------------------------------------------------------------------------------------------------------


@pytest.mark.by_turns
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_dead_worker_is_not_blamed_with_what_another_config_said(stream):
    text = """
#include <stdio.h>
#include <stdlib.h>
#define MODE 0  // tune: 0, 1, 2, 3
void twice(const float *x, float *out, long n) {
    if (MODE == 1) fprintf(STREAM, "the words of another\\n");
    if (MODE == 2) abort();
    if (MODE == 3) { fprintf(STREAM, "my own words\\n"); fflush(STREAM); abort(); }
    for (long i = 0; i < n; i++) out[i] = 2 * x[i];
}""".replace("STREAM", stream)
    events, _ = drained(Session(problem(text), budget="25s", strategy="exhaustive", jobs=1))
    said = {e.config["MODE"]: e for e in events if isinstance(e, ev.Rejected)}
    assert set(said) == {2, 3}
    assert "words" not in said[2].reason + said[2].detail
    assert said[2].reason == "SIGABRT (abort()) while checking"
    assert said[3].reason == "SIGABRT (abort()) while checking: my own words"


# -- what is shown of it -----------------------------------------------------------------------------------------------


@pytest.mark.by_turns
def test_the_panel_and_the_verdict_say_the_same(tmp_path):
    from lab.notebook import panel
    from lab.tuning import command
    from lab.tuning.session_view import headline
    from widgets import tuner

    asked = shifting.problem(tmp_path, (1.0, 0.39), (1.0, 1.5), (1.0, 1.4), (1.0, 1.45))
    session = Session(asked, budget="9s", jobs=1)
    made, view = panel.Run(session), command._View(session, command.Screen(False))
    for event in session:
        panel.take(made.view, session, event)
        view.take(event)
    assert session.result.verdict in ("default", "noisy")
    shown = view.view("done")
    assert shown.figures == [("default", "1.00 ms"), ("result", headline(session.result))]
    assert shown.word.startswith("✓ Tuned shifting")
    assert made.view.best()[0] == [0]
    assert [row[0] for row in tuner.standing(made.view)] == ["default"]
    assert "times as fast" not in tuner.text(made.view)
    assert all(ratio is None or ratio >= 1.0 for _, _, ratio, *_ in made.view.trials)


def test_a_config_chosen_by_hand_is_checked_as_a_finalist_is():
    from lab.tuning import command
    from triton_kernels.tune.store import Store

    from . import faults

    asked = faults.problem((11,), work=(4, 0))  # wrong at an odd shape
    with Store() as kept:
        session = Session(asked, strategy="exhaustive", jobs=1, store=kept, budget=None)
        for event in session:
            if isinstance(event, ev.Measured) and event.config == {"FAULT": 11, "WORK": 0}:
                break
        assert any(t["config"] == {"FAULT": 11, "WORK": 0} for t in kept.trials(asked.key))
    with pytest.raises(
        command.Wrong, match="FAULT=11 WORK=0 is not right each time and at each shape: correctness: 1 of"
    ):
        command.use(asked, "FAULT=11 WORK=0")
    assert "FAULT=0 WORK=4 is the choice now" in command.use(asked, "FAULT=0 WORK=4")
