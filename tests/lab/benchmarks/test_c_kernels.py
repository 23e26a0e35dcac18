"""``lab bench c-kernels`` and ``c-dispatch``: the kernels are right, and the figures what they are said to be."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from lab.benchmarks import c_dispatch, c_kernel_tuner, c_kernels, c_times
from lab.benchmarks.c_programs import PROGRAMS, Program
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.replay import read_cache

ODD = {"product": (13, 37, 70), "stencil": (5, 11, 70), "transpose": (67, 41), "histogram": (70_001,)}
SLEEP = """#define WAIT 300  // tune: 1, 100
#define RIGHT 1   // tune: 0
void work(float *out, long n) {
    for (volatile long i = 0; i < WAIT * n; i++) ;
    for (long i = 0; i < n; i++) out[i] = RIGHT;
}
"""


@dataclass(frozen=True)
class Small(Program):
    @property
    def text(self):
        return SLEEP


SMALL = Small("work", ("n",), (200,), lambda shape, rng: {"out": np.zeros(shape[0], np.float32), "n": shape[0]},
              lambda out: np.ones(len(out)), ((100,), (200,)))  # fmt: skip


@pytest.mark.by_turns
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_configs_are_right_where_no_tile_fits(program):
    problem = program.problem(ODD[program.name])
    configs = list(problem.space.configs())
    assert len(configs) == 240
    problem.measure.open()
    for k in np.random.default_rng(0).choice(len(configs), 6, replace=False):
        problem.measure.check(configs[k], odd=True)


def test_all_configs_are_timed_and_the_wrong_ones_left_out():
    right, times = c_times.exhaustive(SMALL.problem(), 3)
    assert sorted(c["WAIT"] for c in right) == [1, 100, 300]
    assert {c["RIGHT"] for c in right} == {1}
    behind = c_times.beside_best(SMALL.problem(), right, 2, 3)
    order = [right[k]["WAIT"] for k in np.argsort(behind)]
    assert order == [1, 100, 300]
    assert behind.min() == 0.0
    assert behind.max() > 1.0
    assert [right[k]["WAIT"] for k in np.argsort(times)] == order


def test_the_table_counts_who_is_near_the_best(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(c_kernels, "PROGRAMS", (SMALL,))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    chosen = iter([{"WAIT": 1, "RIGHT": 1}, {"WAIT": 300, "RIGHT": 1}])
    monkeypatch.setattr(c_kernels, "ours", lambda program, seed, evaluations: next(chosen))
    asked = ["--sessions", "2", "--rounds", "2", "--processes", "1", "--record", str(tmp_path), "--json",
             str(tmp_path / "sessions")]  # fmt: skip
    assert c_kernels.main(asked) == 0
    out = capsys.readouterr().out
    assert "absent: Kernel Tuner. Remedy: pip install 'gradlab[compare]'" in out
    assert "ours    1/2" in out
    assert "3 of 6" in out
    told = json.loads((tmp_path / "sessions").read_text())
    assert told[0]["behind"] == 0.0 < told[1]["behind"]
    recorded = read_cache(tmp_path / "work.json")
    assert len(list(recorded.space.configs())) == 6
    with pytest.raises(Failed):
        recorded.measure.check({"WAIT": 1, "RIGHT": 0})
    with pytest.raises(SystemExit):
        c_kernels.main(["--only", "nothing"])
    assert "no kernel is named nothing; there are work" in capsys.readouterr().err


def test_a_session_of_ours_begins_from_nothing(monkeypatch):
    seen = []
    real = c_kernels.tune.run

    def run(text, arguments, **options):
        seen.append(options["store"].folder)
        return real(text, arguments, **options)

    monkeypatch.setattr(c_kernels.tune, "run", run, raising=False)
    for seed in (0, 1):
        assert c_kernels.ours(SMALL, seed, 6) == {"WAIT": 1, "RIGHT": 1}
    assert seen[0] != seen[1]


def test_kernel_tuner_is_given_the_same_text_and_flags():
    pytest.importorskip("kernel_tuner")
    program = PROGRAMS[3]
    text = c_kernel_tuner.timed_text(program, program.problem().space.names)
    assert "#define COPIES" not in text
    assert "float timed_histogram(const uint8_t *x, int32_t *out, long n)" in text
    found = c_kernel_tuner.by_kernel_tuner(program, 0, 3)
    assert set(found) == set(program.problem().space.names)


def test_a_tree_is_judged_by_the_best_of_all_configs(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(c_dispatch, "PROGRAMS", (SMALL,))
    asked = ["--evaluations", "6", "--rounds", "1", "--processes", "1", "--json", str(tmp_path / "trees")]
    assert c_dispatch.main(asked) == 0
    out = capsys.readouterr().out
    assert "def work(n):" in out
    assert "1 leaves for 2 shapes" in out
    assert json.loads((tmp_path / "trees").read_text())["work"]["mean"] == 0.0
    with pytest.raises(SystemExit):
        c_dispatch.main(["--only", "stencil"])
