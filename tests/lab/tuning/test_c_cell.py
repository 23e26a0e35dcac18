"""`%%tune` on a cell of C: found to be C, run on the notebook's arrays, called afterwards; errors name a remedy."""

from __future__ import annotations

import numpy as np
import pytest
from IPython.core.error import UsageError

from lab.tuning import c_cell, command
from triton_kernels.tune import lookup

CELL = """#define STEP 1  // tune: 1, 4
void scale(const float *x, float *out, long n) {
    for (long k = 0; k < n; k += STEP)
        for (long i = k; i < k + STEP && i < n; i++) out[i] = 2 * x[i];
}
"""


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lookup.forget()
    yield
    lookup.forget()


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    import lab

    shell = InteractiveShell()
    lab.load_ipython_extension(shell)
    x = np.arange(50, dtype=np.float32)
    shell.push({"x": x, "out": np.empty_like(x), "reference": lambda x: 2 * x, "other": lambda x: 3 * x})
    yield shell
    lab.unload_ipython_extension(shell)


@pytest.mark.by_turns
def test_a_cell_of_c_is_tuned_and_its_function_stays(shell, capsys):
    shell.run_cell("%%tune --args 'n=x.size' --budget 20s\n" + CELL).raise_error()
    said = capsys.readouterr().out
    assert "scale 50 float32, on " in said
    assert "2 of 2 configs tried" in said
    shell.run_cell("out[:] = 0; scale(x, out, n=x.size)").raise_error()
    assert (shell.user_ns["out"] == 2 * shell.user_ns["x"]).all()
    assert shell.run_cell("%%tune --args 'n=x.size' --reference other --budget 20s\n" + CELL).success
    assert "The default itself fails" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "changed", "said"),
    [
        ("", ("", ""), "scale.x, out, n.: the notebook has no n. Remedy: n = ... in a cell before it, or --args"),
        ("--args n=50", ("2 * x[i]", "2 * y[i]"), "does not compile\nline 5: 'y' undeclared"),
        ("--args n=x.length", ("", ""), "--args x.length: AttributeError"),
        ("--args 50", ("", ""), "--args '50' cannot be read; needed: name=value"),
        ("--args n=50,m=3", ("", ""), "has no parameter m"),
        ("--args n=50 --reference nobody", ("", ""), "nothing says what scale.x, out, n. should compute"),
        ("--args n=50 --reference 1/0", ("", ""), "--reference 1/0: ZeroDivisionError"),
        ("--args n=50 --reference x", ("", ""), "--reference x is a ndarray; needed is a function of x, out"),
        ("--args n=50 --configs dict(STEPS=[1])", ("", ""), "STEPS stands nowhere in the C text"),
        ("--args n=50 --target sm_90", ("", ""), "C is measured on this processor"),
        ("--args n=50", ("// tune: 1, 4", ""), "nothing says what may vary(.|\n)*#define STEP 1  // tune: 1, 2, 4"),
        ("--args n=50", ("*out", "*const*out"), "cannot be given from Python"),
    ],
)
def test_what_is_wrong_is_said_with_its_remedy(shell, line, changed, said):
    error = shell.run_cell(f"%%tune {line}\n" + CELL.replace(*changed)).error_in_exec
    assert isinstance(error, UsageError)
    with pytest.raises(UsageError, match=said):
        raise error


def test_what_is_c():
    assert c_cell.is_c(CELL, None)
    assert c_cell.is_c("x = 1", "c")
    assert not c_cell.is_c(CELL, "python")
    assert not c_cell.is_c("x = 1", None)
    assert not c_cell.is_c("this is nothing;", None)


def test_the_example_is_right():
    before, _, cell = c_cell.EXAMPLE.partition("%%tune --budget 30s\n")
    names = {"np": np}
    exec(before, names)
    names["x"] = names["x"][:30, :20].copy()
    names |= {"n": 30, "m": 20, "out": np.empty((20, 30), np.float32)}
    problem = c_cell.problem_of(cell, names, command.options_of([]))
    problem.measure.open()
    assert problem.measure.check(problem.space.default) < 1
