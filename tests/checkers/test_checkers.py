"""What type checkers and an editor's completion know of a user's program."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import core

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
STUBS = ROOT / "core" / "native" / "generated" / "methods.pyi"
PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*.py"))
# where the test reads what a checker says of an expression
EXPRESSIONS = {"core.softmax(x, 0)": "Tensor", "x + 1": "Tensor", "1 - x": "Tensor", "x.sum()": "Tensor",
               "core.tensor([1.0])": "Tensor", "x.max(0).indices": "Tensor", "x.shape": "Size", "x == 1": "Tensor",
               "core.ones(2).size(0)": "int", "core.relu_(x)": "Tensor", "core.linalg.inv(x)": "Tensor",
               "core.nn.functional.max_pool1d(x, 2)": "Tensor", "core.max(x)": "Tensor"}  # fmt: skip

pytestmark = pytest.mark.skipif(not STUBS.exists(), reason="the stubs are printed when the extension is built")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a user's files: with ten mistakes, without one, expressions, and programs."""
    folder = tmp_path_factory.mktemp("user")
    for name in ("mistakes", "right"):
        (folder / f"{name}.py").write_text((HERE / f"{name}.txt").read_text())
    lines = ["import core", "x = core.ones(3)", *(f"reveal_type({e})" for e in EXPRESSIONS)]
    (folder / "expressions.py").write_text("\n".join(lines) + "\n")
    (folder / "programs").mkdir()
    for path in PROGRAMS:
        (folder / "programs" / path.name).write_text(path.read_text())
    return folder


def run(*command: str, cwd: Path) -> str:
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, env=environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


Findings = dict[str, list[tuple[int, str]]]


@pytest.fixture(scope="module")
def mypy(files: Path) -> Findings:
    """What mypy finds in each file: lines and texts."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is of the extra `dev`")
    command = ["mypy", "--config-file=", "--follow-imports=silent", "--cache-dir=.cache", "--ignore-missing-imports"]
    said = run(*command, *(p.relative_to(files).as_posix() for p in sorted(files.rglob("*.py"))), cwd=files)
    found: Findings = {}
    for file, line, text in re.findall(r"^(.+?):(\d+): (?:error:|note: Revealed type is) (.*)$", said, re.M):
        found.setdefault(Path(file).stem, []).append((int(line), text))
    return found


@pytest.fixture(scope="module")
def pyright(files: Path) -> Findings:
    """What pyright finds in each file."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is of the extra `dev`")
    said = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable, ".", cwd=files))
    found: Findings = {}
    for d in said["generalDiagnostics"]:
        place = int(d["range"]["start"]["line"]) + 1
        found.setdefault(Path(d["file"]).stem, []).append((place, d["message"] + " " + d.get("rule", "")))
    return found


@pytest.fixture(params=["mypy", "pyright"])
def checker(request: pytest.FixtureRequest) -> Findings:
    found: Findings = request.getfixturevalue(request.param)
    return found


def test_a_checker_finds_the_ten_mistakes_and_nothing_else(checker: Findings) -> None:
    lines = (HERE / "mistakes.txt").read_text().splitlines()
    wrong = {k for k, line in enumerate(lines, 1) if "# MISTAKE" in line}
    assert len(wrong) == 10
    assert {line for line, _ in checker["mistakes"]} == wrong


def test_a_checker_finds_nothing_in_a_right_file(checker: Findings) -> None:
    assert not checker.get("right")


def test_a_checker_knows_the_types(checker: Findings) -> None:
    said = dict(checker["expressions"])
    for line, (expression, wanted) in enumerate(EXPRESSIONS.items(), 3):
        last = re.findall(r'"(.*?)"', said[line])[-1]
        assert last.rpartition(".")[2] == wanted, expression


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_a_checker_finds_nothing_in_programs(path: Path, checker: Findings) -> None:
    assert not checker.get(path.stem)


# -- completion --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jedi() -> Any:
    """The library by which IPython and many editors complete."""
    return pytest.importorskip("jedi")


def _names(completions: Any) -> set[str]:
    return {c.name for c in completions}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("core.", {"softmax", "sum", "tensor", "zeros", "nn", "float32", "randn"}),
        ("core.nn.functional.", {"relu", "cross_entropy", "max_pool2d", "softmax", "relu_"}),
        ("core.linalg.", {"inv", "svd", "matmul"}),
        ("x = core.ones(3)\nx.", {"sum", "softmax", "add_", "T", "shape", "backward", "max"}),
        ("x = core.ones(3) + 1\nx.sum().", {"sum", "mean"}),
    ],
)
def test_jedi_completes_source_text(text: str, wanted: set[str], jedi: Any) -> None:
    project = jedi.Project(ROOT)
    found = _names(jedi.Script("import core\n" + text, project=project, path=ROOT / "user.py").complete())
    assert wanted <= found


@pytest.mark.parametrize("call", ["core.sum(", "core.topk(", "x = core.ones(3)\nx.sum(", "core.nn.functional.relu("])
def test_jedi_shows_the_signature(call: str, jedi: Any) -> None:
    script = jedi.Script("import core\n" + call, project=jedi.Project(ROOT), path=ROOT / "user.py")
    shown = [s.to_string() for s in script.get_signatures()]
    assert any("Tensor" in s and ("dim" in s or "input" in s) for s in shown), shown


@pytest.mark.parametrize("text", ["core.", "core.nn.functional.", "x."])
def test_jedi_completes_in_an_interpreter_as_ipython_asks_it(text: str, jedi: Any) -> None:
    """IPython asks with the objects that are there, which needs no stubs."""
    found = _names(jedi.Interpreter(text, [{"core": core, "x": core.ones(3)}]).complete())
    assert {"softmax", "relu"} <= found


def test_jedi_shows_signatures_in_an_interpreter(jedi: Any) -> None:
    shown = jedi.Interpreter("core.sum(", [{"core": core}]).get_signatures()
    assert [p.name for p in shown[0].params][:3] == ["input", "dim", "keepdim"]
