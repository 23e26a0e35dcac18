"""What the Gaussian strategies make of values, by the formulas in so many words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from triton_kernels.tune import strategy_trees, surrogate
from triton_kernels.tune.gaussian import Process, matern
from triton_kernels.tune.gaussian_fit import ascend
from triton_kernels.tune.space import Space, Tunable
from triton_kernels.tune.strategy import History, make
from triton_kernels.tune.strategy_line import along
from triton_kernels.tune.surrogate import expected, log_improvement
from triton_kernels.tune.table import Table


def table():
    """60 configs: rows by A, then B."""
    return Table(Space([Tunable("A", tuple(range(1, 11)), 1), Tunable("B", tuple(range(6)), 0)]))


def told(name="gaussian", prior=False, values=None, seed=0):
    chosen = make(name, table(), seed)
    if prior:
        chosen.recall([History(np.arange(60), np.exp(np.linspace(0, 2, 60)))])
    for row, value in (values or {0: 8.0, 7: 4.0, 20: None, 33: 2.0, 41: 16.0, 59: 3.0}).items():
        chosen.tell(row, value)
    return chosen


def test_what_a_process_learns_without_an_expectation():
    chosen = told()
    y = np.log([8.0, 4.0, np.nan, 2.0, 16.0, 3.0])
    high = np.quantile(y[[0, 1, 3, 4, 5]], 0.9)
    y = np.array([min(v, high) if np.isfinite(v) else high for v in y])
    assert chosen.surrogate.targets(chosen.values) == pytest.approx((y - y.mean()) / y.std())
    mean, deviation, lowest = chosen.surrogate.predicted(chosen.values)
    right = chosen.surrogate.process.predict(chosen.surrogate.targets(chosen.values))
    assert (mean == right[0]).all()
    assert (deviation == right[1]).all()
    assert lowest == chosen.surrogate.targets(chosen.values).min()
    alike = told(values={0: 2.0, 1: 2.0})
    assert (alike.surrogate.targets(alike.values) == 0).all()


def test_what_a_process_learns_beside_an_expectation():
    chosen = told(prior=True)
    prior = chosen.surrogate.prior
    lower = prior[prior <= np.median(prior)]
    assert chosen.surrogate._spread == pytest.approx(lower.std())
    rows = chosen.surrogate.process.rows
    y = np.log([8.0, 4.0, np.nan, 2.0, 16.0, 3.0])
    high = max(np.quantile(y[[0, 1, 3, 4, 5]], 0.9), math.log(2.0) + math.log(1.5))
    y = np.array([min(v, high) if np.isfinite(v) else high for v in y])
    less = y - prior[rows]
    shift = np.median(less)
    less -= shift
    scale = math.sqrt((3 * (0.5 * chosen.surrogate._spread) ** 2 + (less**2).sum()) / (3 + 6))
    assert chosen.surrogate.targets(chosen.values) == pytest.approx(less / scale)
    mean, _, lowest = chosen.surrogate.predicted(chosen.values)
    right = (
        chosen.surrogate.process.predict(chosen.surrogate.targets(chosen.values))[0]
        + prior[chosen.surrogate.process.kept] / scale
    )
    assert mean == pytest.approx(right, rel=1e-5, abs=1e-5)
    assert lowest == pytest.approx((math.log(2.0) - shift) / scale)
    near = told(prior=True, values={0: 1.0, 1: 1.01, 2: 1.02})  # all within half as much again are told apart
    assert near.surrogate.targets(near.values) == pytest.approx((lambda d: (d - np.median(d)) / near.surrogate._scale)(
        np.log([1.0, 1.01, 1.02]) - near.surrogate.prior[:3]))  # fmt: skip
    flat = make("gaussian", table())
    flat.recall([History(np.arange(60), np.ones(60))])
    assert flat.surrogate._spread == 0.02


def test_the_next_is_the_one_of_which_most_is_expected():
    for prior in (False, True):
        chosen = told(prior=prior)
        mean, deviation, lowest = chosen.surrogate.predicted(chosen.values)
        score = log_improvement((lowest - mean) / deviation) + np.log(deviation)
        score[chosen.asked] = -np.inf
        found = chosen.surrogate.improvement(chosen.values)
        assert found[~chosen.asked] == pytest.approx(score[~chosen.asked])
        assert chosen.choose() == int(np.argmax(score))


def test_it_begins_spread_out_and_with_what_was_best_elsewhere():
    chosen = make("gaussian", table(), seed=3)
    rng = np.random.default_rng(3)
    for k in range(5):
        open_ = np.flatnonzero(~chosen.asked)
        rows = rng.choice(open_, min(64, len(open_)), replace=False)
        taken = np.flatnonzero(chosen.asked)
        points = chosen.table.points
        apart = [min((((points[r] - points[t]) ** 2).sum() for t in taken), default=0.0) for r in rows]
        row = chosen.ask()
        assert row == rows[int(np.argmax(apart))], k
        chosen.tell(row, 1.0 + k)
    state = chosen.rng.bit_generator.state
    chosen.ask()
    assert chosen.rng.bit_generator.state == state  # from the sixth on nothing is drawn
    chosen = make("gaussian", table())
    chosen.recall([History(np.arange(60), np.arange(60, 0, -1.0))])
    assert [chosen.ask() for _ in range(3)] == [59, 58, 57]
    failing = make("gaussian", table())
    for row in range(10):
        failing.tell(row, None)
    assert failing.ask() >= 10


def test_what_a_history_tells_of_every_row(rng):
    every = table()
    values = np.exp(rng.standard_normal(60))
    values[5] = math.inf
    found = expected(every, History(np.arange(60), values))
    y = np.log(values)
    high = np.quantile(np.delete(y, 5), 0.9)
    assert found == pytest.approx(np.minimum(y, high) - y.min())
    few = rng.permutation(60)[:54]  # nine tenths: the others are as the slowest
    found = expected(every, History(few, values[few]))
    rest = np.setdiff1d(np.arange(60), few)
    assert (found[rest] == found[few].max()).all()
    assert found[few].min() == 0.0
    some = rng.permutation(60)[:20]
    found = expected(every, History(some, 1.0 + some // 6))  # by A alone
    assert found[some] == pytest.approx(np.minimum(np.log(1.0 + some // 6), np.quantile(np.log(1.0 + some // 6), 0.9))
                                        - np.log(1.0 + some // 6).min())  # fmt: skip
    others = np.setdiff1d(np.arange(60), some)
    assert np.corrcoef(found[others], np.log(1 + others // 6))[0, 1] > 0.9
    assert found[others].max() < 4
    assert found[others].std() > 0.1
    assert expected(every, History(np.arange(3), np.array([math.inf, 2.0, math.inf]))) is None
    assert expected(every, History(np.arange(2), np.array([4.0, 2.0]))) is not None


def test_a_long_history_is_learned_in_part(monkeypatch):
    monkeypatch.setattr(surrogate, "_RECALLED", 10)
    seen = []

    def of(codes, coordinates, rows, y):
        seen.append((rows, y))
        return np.zeros(len(codes))

    monkeypatch.setattr(Process, "of", of)
    found = expected(table(), History(np.arange(40) + 10, np.exp(np.arange(40.0))))
    rows, y = seen[0]
    assert len(rows) == 10
    assert rows[:5].tolist() == [10, 11, 12, 13, 14]  # its best, and others at random
    assert len(set(rows.tolist())) == 10
    values = np.minimum(np.arange(40.0), np.quantile(np.arange(40.0), 0.9))[rows - 10]
    assert y == pytest.approx((values - values.mean()) / values.std())
    assert found[0] == pytest.approx(values.mean())


def test_fits_are_due_with_a_quarter_more(monkeypatch):
    chosen = make("gaussian", table())
    fits = []

    def fit(values, best):
        fits.append(len(chosen.surrogate.process.rows))
        yield 1.0

    monkeypatch.setattr(chosen.surrogate, "_fitted", fit)
    for row in range(60):
        chosen.tell(row, 1.0 + row)
    assert fits == [5, 9, 13, 17, 21, 26, 32, 40, 50]


def test_pieces_of_a_fit_fill_the_time_there_is_for_a_value(monkeypatch):
    chosen = make("gaussian", table())
    done = []

    def fit(values, best):
        for cost in (9000.0, 3000.0, 3000.0, 1.0, 5000.0, 7000.0, 10.0):
            yield cost
            done.append(cost)

    monkeypatch.setattr(chosen.surrogate, "_fitted", fit)
    steps = []
    for row in range(10):
        chosen.tell(row, 1.0 + row)
        steps.append(list(done))
        done.clear()
    assert steps[:4] == [[], [], [], []]
    assert steps[4:9] == [[9000.0], [3000.0, 3000.0], [1.0, 5000.0], [7000.0], [10.0]]


def test_every_fifth_step_changes_one_tunable_of_the_best():
    chosen = told("portfolio")
    best = chosen.table.codes[chosen.best]
    for turn in range(1, 11):
        mean, deviation, _ = chosen.surrogate.predicted(chosen.values)
        row = chosen.choose()
        if turn % 5 == 0:
            near = [
                (chosen.table.codes[r] != best).sum() == 1 and not chosen.asked[r]
                for r in chosen.surrogate.process.kept
            ]
            score = np.where(near, deviation - mean, -np.inf)
            assert row == chosen.surrogate.process.kept[int(np.argmax(score))]
        else:
            assert row == int(np.argmax(np.where(chosen.asked, -np.inf, chosen.surrogate.improvement(chosen.values))))
    early = make("portfolio", table())
    for row in range(4):
        early.tell(row, 1.0 + row)
    early._turn = 4
    state = early.rng.bit_generator.state
    early.choose()
    assert early.rng.bit_generator.state != state  # with less than five known it is still beginning


def test_trees_are_asked_every_fourth_time(monkeypatch):
    pytest.importorskip("sklearn")
    chosen = make("trees", table())
    made = []
    forest = chosen._ensemble.ExtraTreesRegressor

    def counted(count, random_state):
        made.append(len(chosen.surrogate.process.rows))
        return forest(count, random_state=random_state)

    monkeypatch.setattr(chosen, "_ensemble", type("Ensemble", (), {"ExtraTreesRegressor": staticmethod(counted)}))
    rng = np.random.default_rng(0)
    for _ in range(60):
        row = chosen.ask()
        chosen.tell(row, None if row % 11 == 0 else float(1 + row // 6 + rng.random()))
    assert chosen.ask() is None
    assert made == [20, 24, 28, 32, 36, 40, 44, 48, 52, 56]
    make_module = strategy_trees.importlib.import_module

    def none(name, *package):
        if name == "sklearn.ensemble":
            raise ImportError(name)
        return make_module(name, *package)

    monkeypatch.setattr(strategy_trees.importlib, "import_module", none)
    with pytest.raises(ImportError, match="Remedy: pip install scikit-learn, or take the strategy portfolio"):
        make("trees", table())


def test_the_best_of_histories_come_first_in_turn():
    first, second = (History(np.array(rows), np.array(values)) for rows, values in (
        ([4, 5, 6, 7, 8, 9, 3], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, math.inf]), ([9, 1], [2.0, 1.0])))  # fmt: skip
    assert first.best(2) == [9, 8]
    assert first.best(9) == [9, 8, 7, 6, 5, 4]
    chosen = make("random", table(), first=[30, 8, 30])
    chosen.recall([first, second])
    assert [chosen.ask() for _ in range(7)] == [30, 8, 9, 1, 7, 6, 5]
    chosen = make("random", table(), first=[1, 2])
    chosen.tell(1, 5.0)
    assert chosen.ask() == 2
    chosen.tell(1, 4.0)
    assert (chosen.told, chosen.best) == ([1], 1)
    chosen.tell(2, 4.0)
    assert (chosen.told, chosen.best, chosen.values[2]) == ([1, 2], 1, 4.0)
    chosen.tell(3, None)
    assert (chosen.best, chosen.values[3]) == (1, math.inf)


def test_a_line_goes_to_its_nearest_first():
    every = table()
    assert along(every, 2 * 6 + 3, 1).tolist() == [14, 16, 13, 17, 12]
    assert [row // 6 for row in along(every, 3, 0)] == list(range(1, 10))


def test_matern_and_improvement_at_known_points():
    apart = np.array([0.0, 0.5, 2.0])
    right = [(1 + r + r * r / 3) * math.exp(-r) for r in math.sqrt(5) * apart]
    assert matern(apart**2) == pytest.approx(right)
    z = np.array([-30.0, -8.0, -3.5, -3.0, -1.0, 0.0, 2.0])
    right = []
    for v in z:
        tail = 0.5 * math.erfc(-v / math.sqrt(2))
        value = v * tail + math.exp(-v * v / 2) / math.sqrt(2 * math.pi)
        if v < -3.2:  # the two terms cancel: by the series
            value = math.exp(-v * v / 2) / math.sqrt(2 * math.pi) / v**2 * (1 - 3 / v**2 + 15 / v**4 - 105 / v**6)
        right.append(math.log(value))
    assert log_improvement(z) == pytest.approx(right, abs=0.08)


def test_uphill_by_signs():
    def posterior(at):
        return -float(((at - np.array([1.0, -2.0])) ** 2).sum()), -2 * (at - np.array([1.0, -2.0]))

    class Posterior:
        cost_us = 7.0

        def __call__(self, at):
            return posterior(at)

    steps, costs = ascend(Posterior(), np.zeros(2), 40), []
    try:
        while True:
            costs.append(next(steps))
    except StopIteration as ended:
        best, value = ended.value
    assert costs == [7.0] * 40
    assert best == pytest.approx([1.0, -2.0], abs=0.01)
    assert value == posterior(best)[0]
    seen = []

    class Steep(Posterior):
        def __call__(self, at):
            seen.append(float(at[0]))
            return seen[-1], np.array([1.0])

    list(ascend(Steep(), np.zeros(1), 12))
    grown = [0.2 * 1.3**k for k in range(1, 20)]
    assert seen[:4] == pytest.approx([0.0, 0.2, 0.2 + grown[0], 0.2 + grown[0] + grown[1]])
    assert max(np.diff(seen)) == pytest.approx(0.8)
    assert seen[-1] == 5.0
