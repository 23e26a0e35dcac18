"""What plain `pytest` leaves out: never an op, a kernel, a finding or a notebook; something else each day."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests import thinning

ROOT = Path(__file__).parents[1]
FOLDERS = ("tests/conformance", "tests/core/native", "tests/lab", "tests/notebooks", "tests/triton_kernels")
SEEDS = range(7, 7 + thinning.TURNS)


# -- in a process of its own, which collects the folders whole ---------------------------------------------------------


class Collected:
    """Every test of `FOLDERS` but the documentation's examples, which always run."""

    items: list[Any]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self.items = [item for item in items if isinstance(item, pytest.Function)]


def touched(items: list[Any]) -> dict[str, list[str]]:
    """What these tests touch: ops by device, kernels, kinds of findings, notebooks; from their parameters and texts."""
    from core.declare.op import Elementwise, Operation
    from tests.lab.diagnose.test_sentences import page
    from triton_kernels.tune.declared import kernels

    found: dict[str, set[str]] = defaultdict(set)
    sections, declared = page(), kernels()
    for item in items:
        values = getattr(item, "callspec", None)
        values = list(values.params.values()) if values is not None else []
        for op in values:
            if isinstance(op, Elementwise | Operation):
                found["ops"] |= {f"{op.name} on {where}" for where in values if where in ("cpu", "cuda")} | {op.name}
        if item.path.name == "test_declared.py":
            found["kernels"] |= {value for value in values if value in declared}
        if item.path.name == "test_measures.py":
            found["C kernels"] |= {value for value in values if isinstance(value, str)}
        if item.function.__name__ == "test_the_card_says_what_the_page_says":
            lines = [line.split(" · ") for line in sections[values[0]].splitlines()]
            found["findings"] |= {parts[1] for parts in lines if len(parts) >= 3}
        if item.path.parent.name == "notebooks" and "committed" not in item.name:
            found["notebooks"] |= {path.stem for path in (ROOT / "notebooks").glob("*.ipynb") if runs(item, path.stem)}
    return {kind: sorted(names) for kind, names in found.items()}


def runs(item: Any, notebook: str) -> bool:
    """Whether a notebook's name is in the text of a test, of its fixtures, or of the module's names in them."""
    definitions = itertools.chain.from_iterable(item._fixtureinfo.name2fixturedefs.values())
    text = "".join(inspect.getsource(f) for f in (item.function, *(d.func for d in definitions)))
    named = [str(v) for n, v in vars(item.module).items() if n in text and isinstance(v, str | Path)]
    return notebook in text or any(notebook in value for value in named)


def declared() -> dict[str, list[str]]:
    """What there is to be touched, from the declarations."""
    from core.declare import op
    from core.declare.op import Elementwise
    from tests.lab.diagnose.test_sentences import ELSEWHERE
    from triton_kernels.tune import c_kernels
    from triton_kernels.tune.declared import kernels

    kinds = set()
    for path in (ROOT / "lab/diagnose").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.name not in ELSEWHERE else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Found":
                kinds |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
    ops = [o.name for o in op.table.values() if isinstance(o, Elementwise) or o.samples]
    notebooks = [path.stem for path in (ROOT / "notebooks").glob("*.ipynb")]
    return {"ops": ops, "kernels": list(kernels()), "C kernels": list(c_kernels.FAMILIES), "findings": sorted(kinds),
            "notebooks": notebooks}  # fmt: skip


def values_and_pairs(items: list[Any]) -> set[Any]:
    """Of every test that always runs, the values of its parameters, and which two of them meet."""
    found: set[Any] = set()
    for item in items:
        name, values = item.nodeid.partition("[")[0], list(enumerate(thinning.parameters(item)))
        found.add(name)
        found |= {(name, *which) for n in (1, 2) for which in itertools.combinations(values, n)}
    return found


def main() -> None:
    """Collect, choose by several seeds, and print what was found as JSON."""
    collected = Collected()
    options = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*options, *FOLDERS], plugins=[collected])
    items = collected.items
    always = [item for item in items if not item.get_closest_marker("by_turns")]
    everything = values_and_pairs(always)
    days = [thinning.chosen(items, seed) for seed in SEEDS]
    told = {
        "status": int(status),
        "declared": declared(),
        "all": touched(items),
        "days": [touched(day) for day in days],
        "lost": [sorted(map(str, everything - values_and_pairs(day)))[:5] for day in days],
        "never": [i.nodeid for i in items if i.get_closest_marker("by_turns") and not any(i in day for day in days)],
        "sizes": [len(items), *map(len, days)],
        "differ": [len(set(days[0]) ^ set(day)) for day in days[1:]],
        "same": days[0] == thinning.chosen(items, SEEDS[0]),
    }
    print("\n" + json.dumps(told))


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    command = [sys.executable, "-c", "from tests.test_thinning import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["status"] == 0
    return found


@pytest.mark.parametrize("kind", ["ops", "kernels", "C kernels", "findings", "notebooks"])
def test_nothing_goes_untouched_on_any_day(told: dict[str, Any], kind: str) -> None:
    assert len(told["declared"][kind]) >= 2
    for day in told["days"]:
        assert sorted(set(told["declared"][kind]) - set(day[kind])) == []
        assert day[kind] == told["all"][kind]


def test_every_value_and_every_two_that_meet_stay(told: dict[str, Any]) -> None:
    assert told["lost"] == [[]] * len(SEEDS)


def test_days_choose_differently_and_a_seed_chooses_once(told: dict[str, Any]) -> None:
    assert all(size < 0.6 * told["sizes"][0] for size in told["sizes"][1:])
    assert min(told["differ"]) > 1000
    assert told["same"]
    assert told["never"] == []


# -- the choice itself -------------------------------------------------------------------------------------------------


def test_few_cases_hold_all_pairs() -> None:
    cases = list(itertools.product(range(40), "abcd", (True, False), (1.0, 2.0)))
    kept = thinning.all_pairs(cases, random.Random(3))
    assert 160 <= len(kept) <= 200
    assert kept == sorted(set(kept))
    met = [set(itertools.combinations(enumerate(case), 2)) for case in cases]
    assert set().union(*(met[k] for k in kept)) == set().union(*met)
    assert kept != thinning.all_pairs(cases, random.Random(4))
    assert kept == thinning.all_pairs(cases, random.Random(3))


@pytest.mark.parametrize("cases", [[], [()], [(1,), (2,), (1,)], [(1, 2), (1, 3), (1, 2)]])
def test_with_fewer_parameters_all_cases_stay(cases: list[Any]) -> None:
    assert thinning.all_pairs(cases, random.Random(0)) == list(range(len(cases)))


def test_values_are_told_apart_by_their_type_too() -> None:
    assert len({thinning.hashable(v) for v in (1, 1.0, True, "1")}) == 4
    several: list[Any] = [[1], [1], {}]
    assert len({thinning.hashable(v) for v in several}) == 3


# -- the command -------------------------------------------------------------------------------------------------------

SWEEP = """
import pytest

@pytest.mark.parametrize("c", range(4))
@pytest.mark.parametrize("b", range(4))
@pytest.mark.parametrize("a", range(4))
def test_sweep(a, b, c): pass

@pytest.mark.by_turns
@pytest.mark.parametrize("a", range(10))
def test_long(a): pass

@pytest.mark.parametrize("a", range(50))
def test_always(a): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_sweep.py").write_text(SWEEP)
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['thinning']")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\naddopts = --strict-markers\n")
    (tmp_path / "thinning.py").write_text(Path(thinning.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def listed(project: Path, *arguments: str) -> tuple[str, list[str]]:
    """The line of the header, and the tests that would run."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "--collect-only", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return next(line for line in lines if line.startswith("sweeps:")), [line for line in lines if "<Function" in line]


def test_plain_pytest_prints_its_seed_which_repeats_it(project: Path) -> None:
    head, tests = listed(project)
    seed = head.split("seed ")[1].split()[0]
    assert head == f"sweeps: the choice of seed {seed} (--seed {seed} repeats it, --all runs every case)"
    assert sum("test_always" in test for test in tests) == 50
    assert sum("test_long" in test for test in tests) == 2
    assert 16 <= sum("test_sweep[" in test for test in tests) < 40
    assert listed(project, "--seed", seed) == (head, tests)
    assert listed(project, "--seed", str(int(seed) + 1))[1] != tests


@pytest.mark.parametrize("asked", ["--all", "tests", "tests/test_sweep.py", "-k test_", "-m by_turns"])
def test_who_asks_for_something_gets_all_of_it(project: Path, asked: str) -> None:
    head, tests = listed(project, *asked.split())
    assert head == "sweeps: every case of what was asked for"
    assert len(tests) == (10 if "-m" in asked else 124)
