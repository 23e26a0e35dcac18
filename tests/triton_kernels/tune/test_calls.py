"""A choice serves the calls that it was checked at: not other shapes, numbers, arrays that overlap, or imports."""

from __future__ import annotations

import numpy as np
import pytest

from triton_kernels import tune
from triton_kernels.tune import exchange, lookup
from triton_kernels.tune.own_c import CFunction, c_problem
from triton_kernels.tune.store import Store, StoreWarning

from . import guarded
from .c_as_written import WRITTEN

TILED = """
#define TILE 1  // tune: 1, 8
void scale(const float *x, float *out, long n) {
    for (long k = 0; k < n; k += TILE) for (long i = k; i < k + TILE; i++) out[i] = 2 * x[i];
}"""


def asked(n, size=None):
    given = {"x": np.ones(size or n, np.float32), "out": np.zeros(size or n, np.float32), "n": n}
    return c_problem(TILED, given, reference=lambda x, out: np.where(np.arange(x.size) < n, 2 * x, out))


def choose(problem, config):
    with Store() as kept:
        guarded.choose(kept, problem.key, config)


def test_another_shape_takes_the_default_and_nothing_is_written_outside():
    choose(asked(1024), {"TILE": 8})
    scale = CFunction(TILED)
    given, memory = guarded.fenced(
        {"x": np.ones(1024, np.float32), "out": np.zeros(1024, np.float32), "n": 1024}, "end"
    )
    assert scale.config_for(**given) == {"TILE": 8}
    scale(**given)
    assert (given["out"] == 2).all()
    for n in (1023, 1025, 1, 2048):
        given, memory = guarded.fenced({"x": np.ones(n, np.float32), "out": np.zeros(n, np.float32), "n": n}, "middle")
        assert scale.config_for(**given) == {"TILE": 1}
        scale(**given)
        assert (given["out"] == 2).all()
        assert not any(m.spoiled() for m in memory)


def test_the_shape_of_the_first_array_is_not_all_of_a_call():
    choose(asked(64, size=100), {"TILE": 8})
    scale = CFunction(TILED)
    x, out = np.ones(100, np.float32), np.zeros(108, np.float32)
    assert scale.config_for(x, out[:100], 64) == {"TILE": 8}
    assert scale.config_for(x, out[:100], 63) == {"TILE": 1}  # another number
    assert scale.config_for(x, out[:108], 64) == {"TILE": 1}  # another array beside it
    assert scale.config_for(out[:100], out[8:108], 64) == {"TILE": 1}  # that overlap
    assert scale.config_for(out[:100], out[:100], 64) == {"TILE": 1}
    scale(x, out[:100], 63)
    assert out[63] == 0


@pytest.mark.by_turns
def test_trials_of_another_call_are_not_taken_for_this_one():
    with Store() as kept:
        tune.run(asked(64, size=100), store=kept, budget=None, jobs=1)
        assert len(kept.trials(asked(64, size=100).key)) == 2
        assert kept.trials(asked(63, size=100).key) == []


def test_a_kernel_may_say_that_it_takes_any_shape():
    choose(asked(1024), {"TILE": 8})
    given = np.ones(1000, np.float32), np.zeros(1000, np.float32), 1000
    assert CFunction(TILED).config_for(*given) == {"TILE": 1}
    assert CFunction(TILED, any_shape=True).config_for(*given) == {"TILE": 8}
    assert CFunction(TILED + "\n// tune: any shape\n").config_for(*given) == {"TILE": 8}
    assert tune.auto(TILED, any_shape=True).config_for(*given) == {"TILE": 8}


def test_results_of_before_calls_were_filed_serve_none():
    problem = asked(1024)
    with Store() as kept:
        guarded.choose(kept, {**problem.key, "mode": "cpu, hot caches"}, {"TILE": 8})
    given = np.ones(1024, np.float32), np.zeros(1024, np.float32), 1024
    assert CFunction(TILED).config_for(*given) == {"TILE": 1}


def test_an_imported_choice_that_its_file_does_not_say_is_right_is_left_out(tmp_path):
    problem = asked(1024)
    with Store(tmp_path / "theirs") as theirs:
        session = theirs.begin(problem.key, {}, "random")
        theirs.add(problem.key, session, {"config": {"TILE": 8}, "status": "correctness", "reason": "wrong"})
        theirs.win(problem.key, session, {"config": {"TILE": 8}, "ratio": 0.5, "low": 0.5, "high": 0.5, "ties": []})
        file = tmp_path / "theirs.json"
        file.write_text(exchange.export(theirs, "json"))
    with Store() as kept:
        exchange.take_in(kept, exchange.read(file), choices=True)
        assert kept.trials(problem.key)
    given = np.ones(1024, np.float32), np.zeros(1024, np.float32), 1024
    assert CFunction(TILED).config_for(*given) == {"TILE": 1}


def test_what_could_not_be_written_is_found_in_this_process(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/dev/null")
    lookup.forget()
    with pytest.warns(StoreWarning) as said:
        choose(asked(1024), {"TILE": 8})
    assert any("the choice is not stored for other processes" in str(warning.message) for warning in said)
    given = np.ones(1024, np.float32), np.zeros(1024, np.float32), 1024
    assert CFunction(TILED).config_for(*given) == {"TILE": 8}


@pytest.mark.by_turns
def test_tuned_kernels_write_nothing_outside_and_are_right_at_any_shape(monkeypatch):
    """A part of ``python -m tests.triton_kernels.tune.guarded 200``; the whole takes minutes."""
    few = {"transpose_tiles_only", "product_unrolled", "threads_split_evenly"}
    monkeypatch.setattr(guarded, "WRITTEN", [w for w in WRITTEN if w.name in few])
    told = guarded.run(6)
    assert [text for text in told if text.startswith("! ")] == []
    assert told["tuned"] >= 6
    assert told["calls"] > told["calls with the choice"] > 0


def test_the_guard_would_see_it():
    """A choice that served another shape, as those of a kernel that wrongly declares so, is counted."""
    wrong = next(w for w in WRITTEN if w.name == "transpose_tiles_only")
    problem = c_problem(wrong.text, wrong.make((64, 64), np.random.default_rng(0)), reference=wrong.reference)
    choose(problem, {"TILE": 8})
    text = wrong.text + "\n// tune: any shape\n"
    told = guarded.apart(
        lambda: guarded._call_c(guarded.Written(**{**vars(wrong), "text": text}), problem, {"TILE": 8}, (64, 64))
    )
    assert told["outside"] > 0
