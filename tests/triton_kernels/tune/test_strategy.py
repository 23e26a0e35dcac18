"""Strategies: each config once, told in any order; the search finds what chance does not."""

from __future__ import annotations

import itertools
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest

from triton_kernels import tune
from triton_kernels.tune import blas, gaussian
from triton_kernels.tune import strategy as strategies
from triton_kernels.tune.gaussian import Process, finish
from triton_kernels.tune.gaussian_fit import ALONE, Posterior, inverse_of
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.replay import ReplayMeasure, bench, replayed
from triton_kernels.tune.space import Constraint, Space, Tunable, powers_of_two
from triton_kernels.tune.surrogate import log_improvement
from triton_kernels.tune.table import Table


def space():
    return Space(
        [powers_of_two("BLOCK", 16, 1024, default=64), powers_of_two("warps", 1, 16, default=4),
         Tunable("stages", (1, 2, 3, 4), 2), Tunable("order", ("row", "column"), "row"),
         Tunable("unroll", (1, 2, 3), 1)],
        [Constraint("a warp has work", lambda c: c["BLOCK"] >= 16 * c["warps"])],
    )  # fmt: skip


def cost(config):
    """A valley with a wall: large blocks with few warps fail."""
    if config["BLOCK"] > 256 and config["warps"] == 1:
        return math.inf
    apart = (math.log2(config["BLOCK"]) - 8.3) ** 2 + (math.log2(config["warps"]) - 2.6) ** 2
    return 1 + 0.4 * apart + 0.3 * (config["stages"] != 3) + 0.5 * (config["order"] == "row") + 0.05 * config["unroll"]


def search(name, seed, count, first=()):
    table = Table(space())
    chosen = strategies.make(name, table, seed, first)
    rows = []
    for _ in range(count):
        rows.append(chosen.ask())
        value = cost(table.config(rows[-1]))
        chosen.tell(rows[-1], None if math.isinf(value) else value)
    return table, chosen, rows


@pytest.mark.parametrize("name", strategies.names())
def test_every_config_is_asked_for_once_and_then_none(name):
    table = Table(Space([Tunable("A", (1, 2, 3, 4, 5), 2), Tunable("B", ("x", "y"), "x")]))
    chosen = strategies.make(name, table, seed=1, first=[3, 3, 4])
    rows = []
    while (row := chosen.ask()) is not None:
        rows.append(row)
        chosen.tell(row, None if row % 4 == 0 else float(row))
    assert rows[:2] == [3, 4]
    assert sorted(rows) == list(range(10))
    assert chosen.best == 1
    assert chosen.ask() is None


@pytest.mark.parametrize("name", strategies.names())
def test_several_may_be_asked_for_before_the_first_is_told(name):
    table = Table(space())
    chosen = strategies.make(name, table, seed=0)
    seen = set()
    for _ in range(10):
        rows = [chosen.ask() for _ in range(4)]
        assert not seen & set(rows)
        assert len(set(rows)) == 4
        seen |= set(rows)
        for row in reversed(rows):
            chosen.tell(row, cost(table.config(row)) if math.isfinite(cost(table.config(row))) else None)


@pytest.mark.parametrize("name", strategies.names())
def test_where_everything_fails_the_search_goes_on(name):
    table = Table(space())
    chosen = strategies.make(name, table, seed=0)
    for _ in range(40):
        chosen.tell(chosen.ask(), None)
    assert chosen.best is None
    assert chosen.asked.sum() == 40


def test_the_same_seed_gives_the_same_search():
    for name in strategies.names():
        assert search(name, 5, 30)[2] == search(name, 5, 30)[2]
    assert search("random", 5, 30)[2] != search("random", 6, 30)[2]


def test_the_search_finds_the_best_sooner_than_chance():
    table = Table(space())
    best = min(cost(table.config(row)) for row in range(len(table)))
    assert len(table) > 500

    def found(name):
        return sum(float(np.nanmin(search(name, seed, 30)[1].values)) <= 1.01 * best for seed in range(5))

    assert found("portfolio") == 5
    assert found("gaussian") == 5
    assert found("random") <= 2


def test_line_moves_along_one_tunable_at_a_time():
    table, chosen, rows = search("line", 0, 12)
    for before, row in itertools.pairwise(rows[1:]):
        assert (table.codes[row] != table.codes[before]).sum() <= 2
    assert np.isfinite(chosen.values[chosen.best])


def test_unknown_names_and_new_strategies():
    table = Table(space())
    with pytest.raises(ValueError, match=r"no strategy is named 'magic'; there are exhaustive, random"):
        strategies.make("magic", table)

    @strategies.register
    class Backwards(strategies.Strategy):
        name = "backwards"

        def choose(self):
            return int(np.flatnonzero(~self.asked)[-1])

    try:
        assert strategies.make("backwards", table).ask() == len(table) - 1
        with pytest.raises(ValueError, match="needs a name"):
            strategies.register(type("Nameless", (strategies.Strategy,), {}))
    finally:
        strategies.forget("backwards")


def test_the_page_s_strategy_is_taken_by_its_name():
    page = (Path(__file__).parents[3] / "lab" / "docs" / "tuning.md").read_text()
    block = re.findall(r"```python\n(.*?)```", page[page.index("## How it searches") :], re.DOTALL)[0]
    exec(compile(block, "tuning.md", "exec"), {})
    try:
        assert strategies.names()[-1] == "nearby"
        result = tune.run(replayed({1: 3.0, 2: 1.0, 4: 2.0}), strategy="nearby", budget=None)
        assert (result.strategy, result.best.config, result.evaluations) == ("nearby", {"BLOCK": 2}, 3)
    finally:
        strategies.forget("nearby")


def test_suggestions_at_20_000_points_take_milliseconds():
    table = Table(Space([Tunable(name, tuple(range(12)), 0) for name in "ABCD"]))
    assert len(table) == 12**4
    chosen = strategies.make("portfolio", table, 0)
    rng = np.random.default_rng(0)
    took = []
    for _ in range(30):
        began = time.process_time()
        row = chosen.ask()
        chosen.tell(row, 1.0 + float(rng.random()))
        took.append(time.process_time() - began)
    assert np.median(took) < 0.04  # 2 ms on an idle machine


def test_no_suggestion_waits_for_a_whole_fit(monkeypatch):
    """By the pieces' own figures: the clock of a busy machine says little."""
    table = Table(Space([Tunable(name, tuple(range(12)), 0) for name in "ABCD"]))
    chosen, rng = strategies.make("portfolio", table, 0), np.random.default_rng(0)
    some = np.arange(0, len(table), 9)
    chosen.recall([strategies.History(some, 1.0 + rng.random(len(some)))])
    spent, whole = [], 0.0

    def counted(fitting):
        nonlocal whole
        for cost in fitting:
            spent[-1] += cost
            whole += cost
            yield cost

    fit = chosen.surrogate._fitted
    monkeypatch.setattr(chosen.surrogate, "_fitted", lambda values, best: counted(fit(values, best)))
    processes = set()
    for _ in range(60):
        row = chosen.ask()
        spent.append(0.0)
        chosen.tell(row, 1.0 + float(rng.random()))
        assert chosen.surrogate.process.rows[-1] == row
        processes.add(id(chosen.surrogate.process))
    assert max(spent) < 9000
    assert whole > 40_000
    assert len(processes) > 4


def test_a_strategy_computes_on_one_thread():
    if blas._found is None:
        pytest.skip("NumPy does not carry OpenBLAS here")
    count = blas._found[1]
    before, inside = count(), []
    with blas.one_thread():
        inside.append(count())
        with blas.one_thread():
            inside.append(count())
        inside.append(count())
    assert inside == [1, 1, 1]
    assert count() == before


# -- the process -------------------------------------------------------------------------------------------------------


def covariance(process, points, rows, others):
    """The kernel in so many words."""
    apart = (points[rows][:, None] - points[others][None]) ** 2 / process.lengths**2

    def matern(square):
        r = np.sqrt(5 * square)
        return (1 + r + r * r / 3) * np.exp(-r)

    alone = [matern(apart[:, :, process.owner == k].sum(2)) for k in range(process.owner[-1] + 1)]
    return (1 - ALONE) * matern(apart.sum(2)) + ALONE * np.mean(alone, 0)


def test_observing_one_by_one_gives_what_fitting_at_once_gives(rng):
    coordinates = [rng.random((9, 2)), rng.random((7, 1)), rng.random((5, 1))]
    codes = np.array(list(itertools.product(range(9), range(7), range(5))), np.int16)
    points = np.concatenate([c[codes[:, k]] for k, c in enumerate(coordinates)], 1)
    process = Process(codes, coordinates)
    rows = rng.choice(len(codes), 80, replace=False).tolist()
    y = np.sin(4 * points[rows, 0]) + points[rows, 2]
    y = (y - y.mean()) / y.std()
    for row in rows:
        process.observe(row)

    def right():
        k = covariance(process, points, np.arange(len(codes)), rows)
        inner = k[rows] + process.noise * np.eye(80)
        return k @ np.linalg.solve(inner, y), 1 - np.einsum("ij,ji->i", k, np.linalg.solve(inner, k.T))

    for step in ("observed", "fitted", "fitted, and fewer kept", "kept again"):
        if step == "fitted, and fewer kept":
            process._select(np.arange(50, 200))
            finish(process._again(process._factor()))
        elif step == "fitted":
            process = finish(process.fitted(y))
        elif step == "kept again":
            process.keep(np.arange(150, 300))
        mean, deviation = process.predict(y)
        expected, variance = right()
        assert np.allclose(mean, expected[process.kept], atol=2e-3), step
        assert np.allclose(deviation**2, variance[process.kept], atol=2e-3), step
    assert np.corrcoef(expected[rows], y)[0, 1] > 0.99


def test_of_many_rows_the_promising_are_kept(rng, monkeypatch):
    monkeypatch.setattr(gaussian, "_ELEMENTS", 500 * 40)
    codes = np.array(list(itertools.product(range(20), repeat=3)), np.int16)
    process = Process(codes, [np.linspace(0, 1, 20)[:, None]] * 3)
    rows = rng.choice(len(codes), 40, replace=False).tolist()
    for row in rows:
        process.observe(row)
    apart = ((codes / 19.0 - 0.3) ** 2).sum(1)
    y = apart[rows]
    process = finish(process.fitted((y - y.mean()) / y.std(), also=[7998]))
    assert 500 <= len(process.kept) <= 501
    assert 7998 in process.kept
    assert int(np.argmin(apart)) in process.kept
    assert apart[process.kept].mean() < 0.3 * apart.mean()
    process.keep(np.array([3, 5, 7999]))
    assert {3, 5, 7999} <= set(process.kept.tolist())
    assert len(set(process.kept.tolist())) == len(process.kept)


def test_the_inverse_of_a_triangle(rng):
    lower = np.tril(rng.random((301, 301))) + 3 * np.eye(301)
    assert np.allclose(inverse_of(lower) @ lower, np.eye(301), atol=1e-8)
    assert (np.triu(inverse_of(lower), 1) == 0).all()


def test_the_gradient_of_the_posterior(rng):
    x, y = rng.random((12, 3)), rng.standard_normal(12)
    at, own = np.log(np.array([0.5, 1.0, 0.8, 0.02])), np.array([0, 0, 1])
    posterior = Posterior(x, y, own)
    _, gradient = posterior(at)
    for k in range(4):
        step = np.eye(4)[k] * 1e-5
        difference = (posterior(at + step)[0] - posterior(at - step)[0]) / 2e-5
        assert gradient[k] == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_log_improvement_is_monotonous_and_right():
    z = np.linspace(-40, 6, 2000)
    values = log_improvement(z)
    assert np.isfinite(values).all()
    assert (np.diff(values) > -1e-3).all()
    for point in (-2.0, -0.5, 0.0, 1.5):
        phi = math.exp(-point * point / 2) / math.sqrt(2 * math.pi)
        right = point * 0.5 * math.erfc(-point / math.sqrt(2)) + phi
        assert math.exp(float(log_improvement(np.array([point]))[0])) == pytest.approx(right, rel=1e-3)


# -- tables and replay -------------------------------------------------------------------------------------------------


def test_a_space_too_large_to_enumerate_is_drawn_from():
    big = Space(
        [Tunable(name, tuple(range(40)), 3) for name in "ABCDE"],
        [Constraint("odd", lambda c: sum(c.values()) % 2 == 1)],
    )
    table = Table(big, limit=500)
    assert not table.complete
    assert len(table) == 500
    assert table.config(table.default) == big.default
    assert len({tuple(code) for code in table.codes.tolist()}) == 500
    assert all(big.rejected(table.config(row)) is None for row in range(500))


def test_a_large_space_grows_around_the_best():
    big = Space(
        [Tunable(name, tuple(range(10)), 0) for name in "ABCDEFGHI"],
        [Constraint("not all", lambda c: c["A"] + c["B"] != 5)],
    )

    def value(config):
        return 1.0 + sum((config[name] - 5 - k % 3) ** 2 for k, name in enumerate(big.names)) / 30

    table = Table(big, limit=2000)
    drawn = min(value(table.config(row)) for row in range(len(table)))
    chosen = strategies.make("portfolio", table, 0)
    for _ in range(70):
        row = chosen.ask()
        chosen.tell(row, value(table.config(row)))
    assert len(table) > 3000
    assert len({tuple(code) for code in table.codes.tolist()}) == len(table)
    assert all(big.rejected(table.config(row)) is None for row in range(2000, len(table)))
    assert chosen.values[chosen.best] < 1.0 + 0.5 * (drawn - 1.0)
    assert table.row(table.config(chosen.best)) == chosen.best


def test_rows_of_configs():
    table = Table(space())
    for row in (0, 7, len(table) - 1):
        assert table.row(table.config(row)) == row
    assert table.find({**space().default, "BLOCK": 77}) is None
    assert table.differences(table.default)[table.default] == 0
    assert table.points.min() == 0
    assert table.points.max() == 1


def test_replay_counts_evaluations():
    table = Table(space())
    times = {tuple(table.config(row).values()): cost(table.config(row)) for row in range(len(table))}
    times = {config: "runtime" if math.isinf(value) else value for config, value in times.items()}
    problem = Problem("k", (1,), "float32", space(), ReplayMeasure(times), "", "", "replay")
    mine, chance = bench(problem, "portfolio", seeds=4), bench(problem, "random", seeds=4)
    assert mine.there_1 == 1.0
    assert mine.to_1 < 0.5 * chance.to_1
    assert (mine.size, mine.budget) == (len(table), 200)
    assert bench(problem, "exhaustive", seeds=1).to_1 >= mine.to_1
