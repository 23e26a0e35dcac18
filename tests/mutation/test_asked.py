"""Who is asked about a fault, on a small tree: who runs its line, and everybody where that does not tell."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutation import __main__ as command
from tests.mutation import asked, copies
from tests.mutation.copies import Copy
from tests.mutation.faults import Fault

pytestmark = pytest.mark.by_turns
SOURCE = '''"""Lines that run in different ways."""
import functools

LIMIT = 3


def larger(x):
    return x > 2


def unasserted(x):
    return x + 1


@functools.cache
def table():
    return 5 + 1


def elsewhere():
    return 1 + 1


def default(x=7):
    return x


ready = []


def setup():
    ready.append(4)
'''
TESTS = """
import subprocess, sys
import pytest
from toy import lines

@pytest.fixture(scope="module")
def prepared():
    lines.setup()

def test_first(): lines.table()
def test_larger(): assert lines.larger(3) and not lines.larger(2)
def test_limit(): assert lines.LIMIT == 3
def test_table(): assert lines.table() == 6
def test_unasserted(): lines.unasserted(1)
def test_elsewhere():
    subprocess.run([sys.executable, "-c", "from toy.lines import elsewhere as e; assert e() == 2"], check=True)
def test_default(): assert lines.default() == 7
def test_prepared(prepared): pass
def test_ready(prepared): assert lines.ready == [4]
def test_not_without_fault(): assert lines.unasserted(1) == 5
def test_last(): lines.table()
"""
OTHERS = """
from toy import lines

def test_other(): assert lines.larger
"""
FILES = {"tests/test_other.py": OTHERS, "tests/test_toy.py": TESTS}
FILE = "toy/lines.py"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of one source and two files of tests, with the tool in it."""
    root = tmp_path_factory.mktemp("tree")
    (root / "toy").mkdir()
    (root / FILE).write_text(SOURCE)
    (root / "tests").mkdir()
    (root / "tests/__init__.py").touch()
    for file, text in FILES.items():
        (root / file).write_text(text)
    (root / "pytest.ini").write_text("[pytest]\n")
    shutil.copytree(Path(command.__file__).parent, root / "tests/mutation", ignore=shutil.ignore_patterns("test_*"))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def fault(old: str, new: str) -> Fault:
    """The fault that changes the one place where `old` stands."""
    assert SOURCE.count(old) == 1
    at = SOURCE.index(old)
    return Fault(FILE, SOURCE.count("\n", 0, at) + 1, at, at + len(old), new, "by hand")


FAULTS = {
    "larger": fault("x > 2", "x >= 2"),
    "unasserted": fault("x + 1", "x - 1"),
    "limit": fault("LIMIT = 3", "LIMIT = 4"),
    "table": fault("5 + 1", "5 - 1"),
    "elsewhere": fault("1 + 1", "1 - 1"),
    "default": fault("=7", "=8"),
    "setup": fault("append(4)", "append(5)"),
}


@pytest.fixture(scope="module")
def tried(tree: Path) -> Callable[[str], tuple[bool, set[str], tuple[str, str]]]:
    """What becomes of a fault: whether its line says who can notice, who runs it, the outcome and who noticed."""
    patch = pytest.MonkeyPatch()
    for module in (command, copies, asked):
        patch.setattr(module, "ROOT", tree)
    for module in (command, asked):
        patch.setattr(module, "nearest", lambda file: [asked.Stage(list(FILES))])
    both = [Copy(tree.parent / f"{tree.name}-copy{k}") for k in range(2)]
    faults = list(FAULTS.values())
    recording = command.recorded(both, faults, tree.parent / "kept.passes")
    assert (both[0].folder / FILE).read_text() == SOURCE
    assert command.recorded([], faults, tree.parent / "kept.passes") == recording

    def outcome(name: str) -> tuple[bool, set[str], tuple[str, str]]:
        number = list(FAULTS).index(name)
        passing = {test.partition("::")[2] for test in recording.passing(number, FILE)}
        found = command.outcome(both[0], FAULTS[name], number, recording)
        return recording.complete(number), passing - {"test_not_without_fault"}, found

    yield outcome
    patch.undo()


def test_a_fault_that_one_test_runs_is_noticed_by_it(tried) -> None:
    assert tried("larger") == (True, {"test_larger"}, ("killed", "tests/test_toy.py::test_larger"))


def test_nobody_else_is_asked_about_a_survivor(tried) -> None:
    complete, passing, (outcome, said) = tried("unasserted")
    assert (complete, passing, outcome) == (True, {"test_unasserted"}, "passed")
    assert said == "2 tests that run the line"  # with the one that fails without a fault


def test_a_line_that_runs_at_the_import_falls_back_on_all_tests(tried) -> None:
    complete, _, found = tried("limit")
    assert (complete, found) == (False, ("killed", "tests/test_toy.py::test_limit"))


def test_a_line_without_a_probe_falls_back_on_all_tests(tried) -> None:
    complete, passing, found = tried("default")
    assert (complete, passing, found) == (False, set(), ("killed", "tests/test_toy.py::test_default"))


def test_a_line_that_runs_once_for_all_falls_back_on_all_tests(tried) -> None:
    complete, passing, found = tried("table")
    assert (complete, passing, found) == (
        False,
        {"test_first", "test_last"},
        ("killed", "tests/test_toy.py::test_table"),
    )


def test_a_line_that_runs_in_another_process(tried) -> None:
    assert tried("elsewhere") == (True, {"test_elsewhere"}, ("killed", "tests/test_toy.py::test_elsewhere"))


def test_what_a_shared_fixture_runs_is_run_for_all_who_ask_for_it(tried) -> None:
    complete, passing, found = tried("setup")
    assert (complete, passing) == (True, {"test_prepared", "test_ready"})
    assert found == ("killed", "tests/test_toy.py::test_ready")
