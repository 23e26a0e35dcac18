"""`%export` in a shell without a kernel: what it understands, what it refuses, and what the card says of each form."""

from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from core.export.program import Program
from lab.notebook import export_targets
from lab.notebook.export_targets import NotRun
from widgets.exported import Target

SETUP = """import core
from core import nn
core.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
x = core.randn(4, 8)
tokens = core.tensor([[1, 2], [3, 4]])
table = core.randn(10, 3)
def double(x):
    return x * 2
def branch(x):
    if x.sum() > 0:
        return x
    return x * 2
def pick(options):
    return table[options["i"]] * options["scale"]
number = 3
"""
METHODS = ("numpy", "to_c", "to_onnx", "save")
Run = Callable[[str], tuple[Any, list[dict[str, str]], str]]


@pytest.fixture
def no_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that writes no form yet."""
    for name in METHODS:
        monkeypatch.delattr(Program, name, raising=False)


def numpy_file(self: Program, folder: Path, factor: float = 1.0) -> None:
    """As `Program.numpy` writes it, for a program that doubles."""
    text = f"def run(x):\n    return x * x.dtype.type({2 * factor})\n"
    (Path(folder) / f"{self.name}.py").write_text(text)


def card(bundles: list[dict[str, str]]) -> tuple[str, str]:
    (bundle,) = bundles
    assert sorted(bundle) == ["text/html", "text/plain"]
    return bundle["text/plain"], bundle["text/html"]


@pytest.mark.usefixtures("no_writers")
def test_forms_that_are_not_there_are_refusals_and_hide_nothing(run, monkeypatch):
    monkeypatch.setattr(Program, "numpy", numpy_file, raising=False)
    result, bundles, _ = run("%export double(x) --dynamic x:0=batch")
    assert result.success
    said, html = card(bundles)
    lines = said.splitlines()
    assert lines[0] == "▲ Exported in part · double(x) · 1 op, no state, sizes batch"
    assert [line.split()[0] for line in lines[1:7]] == ["target", "eager", "numpy", "c", "onnx", "gl"]
    assert re.search(r"numpy +\d+ bytes +[\d.]+ .s +[\d.]+× +none +double.py", lines[3])
    assert "✕ this version of core does not write C (Program.to_c)" in lines[4]
    assert "Program.to_onnx" in lines[5]
    assert "Program.save" in lines[6]
    assert lines[7] == "latency at batch 1, error at batch 5 on other data"
    assert "<code>    mul = mul(x, 2)</code>" in html
    assert re.search(r'<td class="where">In \[1\]:9</td><td><code>x \* 2</code>', html)


def test_files_stay_where_they_are_asked_for(run, monkeypatch, tmp_path):
    monkeypatch.setattr(Program, "numpy", numpy_file, raising=False)
    result, bundles, _ = run(f"%export double (x,) --to numpy --out {tmp_path}/a/b --name twice")
    assert result.success
    said, _ = card(bundles)
    assert f"files in {tmp_path}/a/b" in said
    assert [p.name for p in (tmp_path / "a" / "b").iterdir() if p.suffix == ".py"] == ["twice.py"]
    _, bundles, _ = run("%export double(x) --to numpy")
    assert "no files were kept" in card(bundles)[0]


def test_what_gives_other_results_is_marked(run, monkeypatch):
    monkeypatch.setattr(Program, "numpy", lambda self, folder: numpy_file(self, folder, 1.01), raising=False)
    said, html = card(run("%export double(x) --to numpy")[1])
    assert said.startswith("▲ Exported in part")
    assert "✕ gives other results than the function" in said
    assert '<tr class="bad">' in html


def test_a_form_that_breaks_is_only_its_own_failure(run, monkeypatch):
    def broken(self: Program, folder: Path) -> None:
        (Path(folder) / f"{self.name}.py").write_text("def run(x):\n    raise RuntimeError('<no>')\n")

    def refused(self: Program, folder: Path) -> None:
        raise core.export.ExportError("sort is not written in C: In [1] line 9\n  op: sort; remedy: --to numpy")

    monkeypatch.setattr(Program, "numpy", broken, raising=False)
    monkeypatch.setattr(Program, "to_c", refused, raising=False)
    said, html = card(run("%export double(x) --to c,numpy")[1])
    assert "✕ it was written and does not run: RuntimeError: <no>" in said
    assert "RuntimeError: &lt;no&gt;" in html
    assert "✕ sort is not written in C: In [1] line 9" in said
    assert "Remedy: --to numpy" in said


def test_what_cannot_be_exported_has_its_line_and_remedy(run):
    result, bundles, _ = run("%export branch(x)")
    assert result.success
    said, html = card(bundles)
    assert said.startswith("✕ Not exported · branch(x)\n")
    assert "In [1] line 11 (x.sum() > 0) decides by a tensor's value" in said
    assert "Remedy: core.where(condition, a, b), or core.script" in said
    assert 'class="gradlab-box gradlab-export failed"' in html
    assert "x.sum() &gt; 0" in html


def test_arguments_are_expressions_with_braces_and_texts(run):
    result, bundles, printed = run('%export pick({"i": tokens, "scale": x[:2, :1, None]}) --to gl --name "picked"')
    assert result.success, printed
    assert "pick({'i': tokens, 'scale': x[:2, :1, None]})" in card(bundles)[0]


def test_the_cell_of_a_cell_magic_runs_first(run, shell):
    result, bundles, _ = run("%%export third(x, 1.5) --to gl\ndef third(x, k):\n    return x.exp() * k")
    assert result.success
    assert "third" in shell.user_ns
    assert "third(x, 1.5)" in card(bundles)[0]
    result, bundles, _ = run("%%export third(x, 2.0)\nraise KeyError('mine')")
    assert isinstance(result.error_in_exec, KeyError)
    assert bundles == []


def test_a_module_that_writes_its_buffers_is_not_run_for_figures(run, shell):
    shell.run_cell("norm = nn.BatchNorm1d(8)").raise_error()
    said, _ = card(run("%export norm(x) --to gl")[1])
    assert re.search("not run: it writes (running|num_batches)", said)
    assert "the function itself" not in said
    assert (shell.user_ns["norm"].running_mean == 0).all()


@pytest.mark.parametrize(("line", "said"), [
    ("modle(x)", "%export: nothing is called 'modle'; did you mean model?"),
    ("model(y_)", "%export: nothing is called 'y_'"),
    ("number(x)", "%export: 'number' is no function and no module but int"),
    ("model(x[9, 9])", "%export: 'model(x[9, 9])': IndexError"),
    ("model", "%export: 'model' is no call; needed: the function on example arguments"),
    ("model(x", "%export: '(' was never closed"),
    ("--to c", "%export: nothing to call; needed: a call and options"),
    ("model(input=x)", "%export: arguments are given by position; came: input="),
    ("model(x) --dynmaic 0=b", "unrecognized arguments: --dynmaic 0=b; did you mean --dynamic?"),
    ("model(x) more", "'model(x) more'"),
    ("model(x) --to onxx", "--to 'onxx' is not known; did you mean onnx?"),
    ("model(x) --to ,", "--to needs at least one of numpy, c, onnx, gl"),
    ("model(x) --dynamic x:batch", "'batch' is not AXIS=SIZE, as 0=batch"),
    ("model(x) --dynamic y:0=batch", "%export: dynamic names 'y', which is no argument"),
    ("model(x) --dynamic input:7=batch", "%export: dynamic names axis 7"),
    ("core.add(x, x) --dynamic 0=batch", "which argument?"),
    ("model(x) --out", "expected one argument"),
    ("model(x) --name 'a", "No closing quotation"),
    ("model(x) --out /dev/null/a", "%export: --out /dev/null/a: "),
])  # fmt: skip
def test_lines_that_are_not_understood(run, line, said):
    _, bundles, printed = run(f"%export {line}")
    assert bundles == []
    assert said in re.sub(r"\x1b\[[\d;]*m", "", printed)
    assert "UsageError" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("line", ["%export", "%export --help", "%export model(x) -h", "%%export --help\nraise OSError"])
def test_help_runs_nothing(run, line):
    result, bundles, printed = run(line)
    assert result.success
    assert bundles == []
    assert "usage: %export CALL [options]" in printed
    assert "--dynamic" in printed
    assert "example:\n  %export model(x)" in printed


def test_errors_of_the_function_itself_are_its_own(run):
    result, _, printed = run("%export model(core.ones(4, 9)) --to gl")
    assert isinstance(result.error_in_exec, RuntimeError)
    assert "cannot be multiplied" in printed


# -- the targets by themselves -----------------------------------------------------------------------------------------

HEADER = "\n".join(export_targets.C_SAYS)
SOURCE = r"""
#include <stdint.h>
#include <stddef.h>
size_t model_arena(const int64_t *sizes) { return 8; }
int model_run(void *arena, const void *weights, const int64_t *sizes, const void *const *inputs, void *const *outputs) {
    const float *w = weights, *x = inputs[0];
    float *y = outputs[0];
    ((char *)arena)[7] = 1;
    if (sizes[0] > 100) return 1;
    for (int64_t k = 0; k < sizes[0] * 3; k++) y[k] = w[0] * x[k];
    return 0;
}
"""


def doubled() -> Any:
    return core.export(lambda x: x * 2, (core.ones(4, 3),), dynamic={"x": {0: "n"}}, name="f")


def c_files(folder: Path, header: str = HEADER, source: str = SOURCE) -> None:
    (folder / "model.h").write_text(header)
    (folder / "model.c").write_text(source)
    np.float32([2.0]).tofile(folder / "weights.bin")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_c_is_compiled_and_run(tmp_path):
    c_files(tmp_path)
    run = export_targets.run_c(doubled(), tmp_path)
    for n in (4, 1, 4):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        np.testing.assert_array_equal(run([x])[0], 2 * x)
    with pytest.raises(ValueError, match="model_run returned 1"):
        run([np.ones((101, 3), np.float32)])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.c", "model.h", "weights.bin"]


def test_c_of_another_interface_is_not_called(tmp_path, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", None)
    c_files(tmp_path, header=HEADER.replace("void *arena", "float *arena"))
    with pytest.raises(NotRun, match="declares other functions"):
        export_targets.run_c(doubled(), tmp_path)
    c_files(tmp_path, source="int model_run(")
    with pytest.raises(ValueError, match="does not compile"):
        export_targets.run_c(doubled(), tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotRun, match="no C compiler"):
        export_targets.run_c(doubled(), tmp_path)


def test_differences():
    a = np.float32([1, 2, np.nan, np.inf])
    assert export_targets.difference([a], [a]) == (0.0, 2.0)
    assert export_targets.difference([a + 1], [a]) == (1.0, 2.0)
    assert export_targets.difference([np.float32([0, 2, np.nan, np.inf])], [np.float32([np.nan, 2, 1, 1])])[0] == np.inf
    assert export_targets.difference([a[:2]], [a]) == (np.inf, 0.0)
    assert Target("c", error=float("nan"), scale=1.0).is_wrong
    assert not Target("c", error=9e-4, scale=1.0).is_wrong


def test_other_data_have_the_examples_values_and_the_programs_sizes():
    program = core.export(lambda t, w: w[t].log(), (core.tensor([[1, 5]]), core.rand(6) + 0.5),
                          dynamic={"t": {0: "n"}}, name="f")  # fmt: skip
    given = [np.int64([[1, 5]]), np.float32([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])]
    sizes = export_targets.sizes_like(program, given, [{"n": 4}])
    tokens, weights = export_targets.data_like(program, given, sizes, 0)
    assert tokens.shape == (4, 2)
    assert set(tokens.ravel()) <= {1, 5}
    assert weights.dtype == np.float32
    assert weights.min() >= 0.45
    assert weights.max() <= 1.1


def test_sizes_that_the_program_does_not_take_are_left():
    def f(x: Any) -> Any:
        return x if x.shape[0] > 2 else x * 2

    program = core.export(f, (core.ones(4, 2),), dynamic={"x": {0: "n"}})
    given = [np.ones((4, 2), np.float32)]
    assert export_targets.sizes_like(program, given, [{"n": 1}]) == {"n": 4}
    assert export_targets.sizes_like(program, given, [{"n": 1}, {"n": 3}]) == {"n": 3}
