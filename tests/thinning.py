"""A pytest plugin: plain `pytest` runs a daily choice of the long sweeps; `pytest --all` runs every case.

Two rules, and every other test always runs:

- Of a test with three parameters or more, those cases stay in which every two values that meet in some case meet in at
  least one (all pairs): each op with each type, each layout, each device, each of its samples. Which third value meets
  them is for the seed to say.
- Of the tests marked ``by_turns``, which take seconds each, a fifth runs; in five days all of them. The mark is not for
  a test that alone runs an op, a kernel, a finding or a notebook: test_thinning.py notices what nobody runs.

The seed is the number of the day, printed at the head of the run; ``--seed N`` repeats another day's. Who names what to
run (a file, a folder, ``-k``, ``-m``, ``--lf``) gets all of it.
"""

from __future__ import annotations

import datetime
import itertools
import random
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pytest

TURNS = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradlab", "how much of the long sweeps runs")
    group.addoption("--all", action="store_true", dest="every_case", help="run every case of every test")
    group.addoption("--seed", type=int, default=None, help="which cases of the sweeps run; by default the day's number")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "by_turns: takes seconds; without --all it runs on one day in five")
    option = config.option
    if hasattr(config, "workerinput"):  # a process of pytest-xdist, which must choose as the others do
        option.seed, option.every_case = config.workerinput["sweeps"]
        return
    if option.seed is None:
        option.seed = datetime.datetime.now(datetime.UTC).date().toordinal()
    option.every_case = not thins(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of pytest-xdist what was chosen here: it cannot see that nothing was asked for, nor our day."""
    node.workerinput["sweeps"] = (node.config.option.seed, node.config.option.every_case)


def pytest_report_header(config: pytest.Config) -> str:
    if config.option.every_case:
        return "sweeps: every case of what was asked for"
    seed = config.option.seed
    return f"sweeps: the choice of seed {seed} (--seed {seed} repeats it, --all runs every case)"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.every_case:
        return
    kept = set(chosen(items, config.option.seed))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def thins(config: pytest.Config) -> bool:
    """Whether this run is plain `pytest`: nobody asked for all, nor for something in particular."""
    option = config.option
    asked = option.every_case or option.keyword or option.markexpr or getattr(option, "lf", False)
    return not asked and config.args_source is pytest.Config.ArgsSource.TESTPATHS


def chosen(items: Iterable[pytest.Item], seed: int) -> list[pytest.Item]:
    """The tests that run with this seed, in their order."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    turns = []
    kept: set[pytest.Item] = set()
    for item in items:
        if item.get_closest_marker("by_turns"):
            turns.append(item)
        else:
            functions[item.nodeid.partition("[")[0]].append(item)
    for name, cases in functions.items():
        values = [parameters(item) for item in cases]
        kept.update(cases[k] for k in all_pairs(values, random.Random(f"{seed} {name}")))
    kept.update(item for k, item in enumerate(turns) if (k + seed) % TURNS == 0)
    return [item for item in items if item in kept]


def parameters(item: pytest.Item) -> tuple[Hashable, ...]:
    """The values of a test's parameters; those that cannot be hashed by their identity."""
    callspec = getattr(item, "callspec", None)
    return tuple(map(hashable, callspec.params.values())) if callspec is not None else ()


def hashable(value: Any) -> Hashable:
    """Something to tell a parameter's value by; 1, 1.0 and True are three values."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def all_pairs(cases: Sequence[tuple[Hashable, ...]], rng: random.Random) -> list[int]:
    """The numbers of few cases in which every two values that meet in one of `cases` meet; with two values each, all.

    Greedy, in a random order: whoever shows most pairs that were not seen comes first.

    >>> some = all_pairs(list(itertools.product("abcdef", "123", "+-")), random.Random(0))
    >>> len(some) < 36, len(some) >= 18
    (True, True)
    """
    if not cases or len(cases[0]) < 3:
        return list(range(len(cases)))
    pairs = [set(itertools.combinations(enumerate(case), 2)) for case in cases]
    order = rng.sample(range(len(cases)), len(cases))
    seen: set[Any] = set()
    kept = []
    for new in range(max(map(len, pairs)), 0, -1):
        left = []
        for k in order:
            if len(pairs[k] - seen) >= new:
                kept.append(k)
                seen |= pairs[k]
            else:
                left.append(k)
        order = left
    return sorted(kept)
