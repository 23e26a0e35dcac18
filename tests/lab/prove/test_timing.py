"""Comparisons by simulated clocks: the same program is not taken for a faster one, whatever the load does."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.prove.cell import Patch
from lab.prove.criteria import Runs
from lab.prove.proving import Prover
from lab.prove.timing import BLOCKS, CHANCE, Comparison, chance, cheapest

Load = Callable[[random.Random], Iterator[float]]
TRIALS = 300


def calm(draw: random.Random) -> Iterator[float]:
    """Two in a hundred."""
    while True:
        yield 1 + 0.02 * draw.random()


def bursts(draw: random.Random) -> Iterator[float]:
    """Other programs come and go, and double the time while they are there."""
    busy = False
    while True:
        busy = busy if draw.random() < 0.8 else draw.random() < 0.5
        yield (2.0 if busy else 1.0) * (1 + 0.05 * draw.random())


def wild(draw: random.Random) -> Iterator[float]:
    """Times between a third and three times the middle one."""
    while True:
        yield draw.lognormvariate(0, 1)


def by_turns(draw: random.Random) -> Iterator[float]:
    """Every second run takes twice as long: what runs by turns would be taken for one fast and one slow program."""
    for k in itertools.count():
        yield (1.0 + k % 2) * (1 + 0.03 * draw.random())


def rising(draw: random.Random) -> Iterator[float]:
    """The machine grows slower."""
    for k in itertools.count():
        yield (1 + 0.05 * k) * (1 + 0.03 * draw.random())


def compared(load: Load, share: float, draw: random.Random) -> Comparison:
    """A comparison of a cell with a patch that takes this share of its time."""
    clock = load(draw)
    comparison = Comparison(100 * next(clock), share * 100 * next(clock), draw)
    for kept in comparison.turns():
        kept.append(100 * next(clock) * (share if kept is comparison.blocks[-1][1] else 1.0))
    return comparison


def told(load: Load, share: float, trials: int = TRIALS) -> list[bool | None]:
    draw = random.Random(18)
    return [compared(load, share, draw).faster() for _ in range(trials)]


@pytest.mark.parametrize("load", [calm, bursts, wild, by_turns, rising])
def test_what_changes_nothing_is_no_faster(load: Load) -> None:
    assert True not in told(load, 1.0)


@pytest.mark.parametrize("load", [calm, bursts, rising])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_what_is_faster_is_told_so_or_not_at_all(load: Load, share: float) -> None:
    """A calm machine tells it each time; a busy one seldom says that it did not help, and of much less time never."""
    said = told(load, share, 60)
    least = {"calm": 60, "rising": 55, "bursts": 54 if share < 0.5 else 15}
    assert said.count(True) >= least[load.__name__]
    assert said.count(False) <= (0 if load is calm or share < 0.5 else 20)


def test_the_chance_to_be_deceived_is_that_of_the_order() -> None:
    """Of all orders in which one program's runs may be called the cell's or the patch's, so few would be accepted."""
    times = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.0]
    shares = []
    for chosen in itertools.combinations(range(7), 3):
        patched = [times[k] for k in chosen]
        shares.append(chance([([t for k, t in enumerate(times) if k not in chosen], patched)]))
    for level in (1 / 35, 0.1, 0.3):
        assert sum(share <= level for share in shares) <= level * len(shares)


def test_a_block_can_decide() -> None:
    for cell_ms, patched_ms in ((100.0, 100.0), (1000.0, 30.0), (10.0, 1000.0)):
        m, n = cheapest(cell_ms, patched_ms)
        assert chance([([2.0] * m, [1.0] * n)]) <= CHANCE / BLOCKS


def test_a_block_that_was_not_ended_decides_nothing() -> None:
    comparison = Comparison(100.0, 10.0, random.Random(0))
    for kept in itertools.islice(comparison.turns(), sum(comparison.counts) - 1):
        kept.append(10.0 if kept is comparison.blocks[-1][1] else 100.0)
    assert comparison.faster() is None
    assert comparison.unknown() == "the time for trials was over"


def test_a_busy_machine_is_told_of() -> None:
    said = {c.unknown() for c in (compared(wild, 0.7, random.Random(k)) for k in range(9)) if c.faster() is None}
    assert said
    assert all(words.startswith("the machine is busy: one and the same cell took ") for words in said)


def test_what_takes_as_long_is_left_after_few_runs() -> None:
    assert sum(map(len, compared(calm, 1.0, random.Random(3)).times)) <= 10


@pytest.mark.parametrize(("cpu_ms", "wall_ms", "clock"), [(10.0, 12.0, "cpu_ms"), (10.0, 90.0, "wall_ms")])
def test_the_clock_on_the_wall_counts_where_a_cell_waits(cpu_ms: float, wall_ms: float, clock: str) -> None:
    prover = Prover.__new__(Prover)
    prover.text, prover.end = "f()", float("inf")

    def run(what: str, patch: Patch, again: Any = ()) -> dict[str, Any]:
        share = 0.5 if patch.text == "g()" else 1.0
        return {"cpu_ms": cpu_ms, "wall_ms": wall_ms, clock: share * {"cpu_ms": cpu_ms, "wall_ms": wall_ms}[clock]}

    prover.run = run  # type: ignore[method-assign]
    once = Runs(run("", Patch("", "f()"), ()), run("", Patch("", "g()"), ()), {}, {})
    compared = prover._compared(Patch("", "g()"), (), once)
    assert compared.faster()
    assert compared.medians() == ({"cpu_ms": 10.0, "wall_ms": 90.0}[clock], {"cpu_ms": 5.0, "wall_ms": 45.0}[clock])


def test_runs_end_with_the_time_for_trials() -> None:
    prover = Prover.__new__(Prover)
    prover.text, prover.end = "f()", 0.0
    times = {"cpu_ms": 10.0, "wall_ms": 10.0}
    compared = prover._compared(Patch("", "g()"), (), Runs(times, times, {}, {}))
    assert compared.unknown() == "the time for trials was over"
