"""`%%ckernel` in a shell without a kernel: an op with its gradient from C, what `--check` finds, what is refused."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest
from IPython.core.error import UsageError

import core
import lab
from core.library import opcheck
from lab.notebook import ckernel_magic, op_check
from lab.notebook.op_header import Wrong, header_of
from triton_kernels.tune import measure_cpu
from triton_kernels.tune.places import cache_folder

SETUP = """import core
core.manual_seed(0)
def right(x):
    return x * x
number = 3
"""
SQUARE = """%%ckernel square(x) -> out{options}
void square(const real *x, real *out, long n) {{
    for (long i = 0; i < n; i++) out[i] = {forward};
}}
void square_backward(const real *g, const real *x, real *grad_x, long n) {{
    for (long i = 0; i < n; i++) grad_x[i] = {backward};
}}
"""
MIX = """%%ckernel mix(x[n], w[n,m]) -> out[m]
// backward: (w @ g.unsqueeze(-1)).squeeze(-1), x.unsqueeze(-1) * g.unsqueeze(-2)
void mix(const float *x, const float *w, float *out, int n, int m) {
    for (int j = 0; j < m; j++) {
        out[j] = 0;
        for (int i = 0; i < n; i++) out[j] += x[i] * w[i * m + j];
    }
}
"""


def square(options="", forward="x[i] * x[i]", backward="2 * g[i] * x[i]"):
    return SQUARE.format(options=options, forward=forward, backward=backward)


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield
    for name in [n for n in core.declare.op.table if n.startswith("notebook::")]:
        del core.declare.op.table[name]


@pytest.fixture
def made(run, shell):
    """The op of a cell."""

    def made(text):
        result, _, said = run(text)
        result.raise_error()
        return shell.user_ns[text.split("(")[0].split()[-1]], said

    return made


# -- ops ---------------------------------------------------------------------------------------------------------------


def test_an_op_with_its_gradient_in_c(made):
    op, said = made(square(" --check --reference right"))
    assert said.startswith("square(x) -> out: an op of C, float32 and float64, gradient by square_backward; checked on")
    for dtype in (core.float32, core.float64):
        x = core.tensor([[1.0, -3.0], [0.5, 2.0]], dtype=dtype).t().requires_grad_()
        y = op(x)
        assert (y.dtype, y.grad_fn.name()) == (dtype, "SquareBackward0")
        y.sum().backward()
        np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy() ** 2)
        np.testing.assert_array_equal(x.grad.numpy(), 2 * x.detach().numpy())
    assert "notebook::square" in repr(op)
    checks = ["test_schema", "test_faketensor", "test_layouts", "test_precision", "test_kernels"]
    assert set(opcheck(op, (core.rand(3),), test_utils=checks).values()) == {"SUCCESS"}


def test_the_card_names_its_kernels(made, run):
    made(square())
    run("%%autograd --no-card\nx = core.randn(8, requires_grad=True)\nsquare(x).sum().backward()")
    rows = {row.kernel: row.backend for row in lab.last().kernels}
    assert rows["square"] == rows["square_backward"] == "C"


def test_numbers_and_inputs_that_broadcast(made):
    op, _ = made("""%%ckernel axpy(x, y, a=2.0) -> out
// backward: a * g, g
void axpy(const float *x, const float *y, float *out, long n, float a) {
    for (long i = 0; i < n; i++) out[i] = a * x[i] + y[i];
}""")
    x, y = core.ones(2, 3).requires_grad_(), core.arange(3.0).requires_grad_()
    assert op(x, y).tolist() == [[2.0, 3.0, 4.0]] * 2
    op(x, y, a=5.0).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([[5.0] * 3] * 2, [2.0] * 3)
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        op(x)


def test_sizes_by_name_and_stacked_problems(made):
    op, _ = made(MIX)
    x, w = core.randn(4, 5).requires_grad_(), core.randn(5, 3).requires_grad_()
    y = op(x, w)
    core.testing.assert_close(y, x @ w)
    (want_x, want_w) = core.autograd.grad((x @ w).sum(), (x, w))
    y.sum().backward()
    core.testing.assert_close(x.grad, want_x)
    core.testing.assert_close(w.grad, want_w)
    with pytest.raises(RuntimeError, match="the inputs disagree on size n: 5 and 4"):
        op(x, core.ones(4, 3))


def test_a_function_that_takes_the_whole_batch(made):
    op, _ = made("""%%ckernel total(x[n]) -> out[]
void total(const float *x, float *out, long batch, long n) {
    for (long b = 0; b < batch; b++) {
        out[b] = 0;
        for (long i = 0; i < n; i++) out[b] += x[b * n + i];
    }
}""")
    assert op(core.ones(2, 3, 4)).tolist() == [[4.0] * 3] * 2
    assert op(core.ones(4)).item() == 4.0


def test_a_gradient_that_reads_the_output(made):
    op, said = made("""%%ckernel twopower(x) -> out --check
#include <math.h>
// reference: 2.0 ** x
void twopower(const double *x, double *out, long n) { for (long i = 0; i < n; i++) out[i] = exp2(x[i]); }
void twopower_backward(const double *g, const double *out, double *grad_x, long n) {
    for (long i = 0; i < n; i++) grad_x[i] = g[i] * out[i] * log(2.0);
}""")
    assert "float64, gradient by twopower_backward" in said
    x = core.randn(3, dtype=core.float64).requires_grad_()
    assert core.autograd.gradcheck(op, x)


def test_what_was_compiled_is_kept_for_its_owner_alone(made):
    made(square())
    folder = cache_folder()
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    files = {f: f.stat().st_mtime_ns for f in folder.glob("*.so")}
    assert len(files) == 2
    made(square())
    assert {f: f.stat().st_mtime_ns for f in folder.glob("*.so")} == files


def test_an_empty_cell_and_help(run):
    result, _, said = run("%%ckernel")
    assert result.success
    assert ckernel_magic.EXAMPLE in said
    result, _, said = run("%%ckernel --help\nvoid f() {}")
    assert result.success
    assert "--reference NAME" in said


def test_the_example_is_right(made):
    op, said = made(ckernel_magic.EXAMPLE)
    assert "checked on float32 and float64 against its reference, the gradient against the reference's" in said
    x = core.randn(5)
    core.testing.assert_close(op(x, beta=2.0), core.nn.functional.softplus(x, beta=2.0))


# -- what is wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (square(forward="x[i] * z[i]"), r"line 3: 'z' undeclared.* in `for .long i = 0.*`"),
        (square(forward="x[i] *"), r"line 3: expected expression"),
        (square().replace("void square(", "void cube("), "defines no function square; there is cube, square_backward"),
        (square().replace("square(x) ->", "square(y) ->"), "square.x, out, n.: x is an array that the header does not"),
        (square().replace("square(x) ->", "square(x, k=1) ->"), "has no parameter k, which the header names"),
        (square().replace("long n)", "long n, long k)"), "the header says nothing of n, k; needed: k=0.0 in it"),
        (square().replace("real", "int"), "arrays of int32; needed: all of them float"),
        (square().replace("const real *x, real *out", "real *x, real *out"), "x is an input, and const is missing"),
        (square().replace("real *out", "const real *out"), "out is an output, and cannot be const"),
        (square().replace("grad_x", "gx"), "a gradient reads g and fills grad_x"),
        (MIX.replace("int n, int m", "int n, int m, int k"), "says nothing of k; needed: k among its sizes, or k=0.0"),
        (MIX.replace("// backward: (w", "// backward: ((w"), "// backward: .*'[(]' was never closed"),
        (square(" --check --reference nobody"), "--reference nobody: needed is a function, and the notebook has none"),
        (square(" --reference number"), "--reference number: needed is a function, and it is a int"),
        (square(" --chek"), "unrecognized arguments: --chek; did you mean --check"),
        ("%%ckernel square\nvoid square() {}", "'square' is no header; needed: name.x.n., w.n,m., a=2.0. -> out.m."),
    ],
)
def test_what_is_wrong_is_said_in_the_cells_own_lines(run, text, said):
    result, _, _ = run(text)
    assert isinstance(result.error_in_exec, UsageError)
    with pytest.raises(UsageError, match=f"%%ckernel: (.|\n)*{said}"):
        raise result.error_in_exec


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"forward": "x[i] * x[i] * 1.001"}, "results are wrong; the worst at"),
        ({"forward": "x[i + 1] * x[i]"}, "SIGSEGV|results are wrong"),
        ({"forward": "(out[n] = x[i] * x[i])"}, "SIGSEGV|writes outside of out|results are wrong"),
        ({"forward": "((real *)x)[i] *= x[i]"}, "writes into x, which is const|SIGSEGV|results are wrong"),
        ({"backward": "2.001 * g[i] * x[i]"}, "square_backward.*on float32: .*results are wrong"),
        ({"backward": "2 * g[i] * x[i + 1000000]"}, "SIGSEGV|results are wrong"),
    ],
)
def test_what_the_check_finds_does_not_reach_the_notebook(run, change, said):
    result, _, _ = run(square(" --check --reference right", **change))
    with pytest.raises(UsageError, match=said):
        raise result.error_in_exec


def test_the_check_of_a_gradient_that_is_an_expression(run):
    wrong = MIX.replace("-> out[m]", "-> out[m] --check").replace(
        "// backward: (w", "// reference: x @ w\n// backward: 2 * (w"
    )
    result, _, _ = run(wrong)
    with pytest.raises(UsageError, match=r"the gradient of x on float32 is .* by the reference"):
        raise result.error_in_exec


def test_a_check_without_a_reference_uses_differences(made, run):
    _, said = made(square(" --check"))
    assert "against nothing: a reference would say what is right, the gradient against differences" in said
    result, _, _ = run(square(" --check", backward="2.01 * g[i] * x[i]"))
    with pytest.raises(UsageError, match="Jacobian mismatch"):
        raise result.error_in_exec


def test_other_dtypes_devices_and_codes_are_refused_when_it_is_called(made):
    op, _ = made(square().replace("real", "float"))
    with pytest.raises(TypeError, match=r"square takes float32, got float64\n.*remedy: x.float\(\), or real in"):
        op(core.ones(2, dtype=core.float64))
    with pytest.raises(TypeError, match="square takes float32, got int64"):
        op(core.ones(2, dtype=core.int64))
    with pytest.raises(RuntimeError, match="square is C and runs on the CPU"):
        op(core.ones(2, device="cuda"))
    op, _ = made("%%ckernel fails(x) -> out\nint fails(const float *x, float *out, long n) { return 7; }")
    with pytest.raises(RuntimeError, match=r"fails returned 7\n.*0, which means that all went well"):
        op(core.ones(2))


def test_without_a_compiler_the_remedy_is_to_install_one(run, monkeypatch):
    monkeypatch.setenv("CC", "nowhere")
    monkeypatch.setattr(measure_cpu.shutil, "which", lambda name: None)
    measure_cpu.compiler.cache_clear()
    try:
        result, _, _ = run(square())
    finally:
        monkeypatch.undo()
        measure_cpu.compiler.cache_clear()
    with pytest.raises(UsageError, match=r"no C compiler was found. Remedy: install one"):
        raise result.error_in_exec


# -- headers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f(x[n], y) -> out", "either all arrays have sizes"),
        ("f(x[n]) -> out[k]", "no input has the size k"),
        ("f(x) -> x", "a name of its own"),
        ("f(a=2) -> out", "needed are inputs"),
        ("f(x, a=b) -> out", "a=b is no number"),
        ("f(x, 3) -> out", "'3' is neither an array nor a number"),
        ("f(x[n+1]) -> out[n]", "is neither an array nor a number"),
    ],
)
def test_headers_that_cannot_be_read(text, said):
    with pytest.raises(Wrong, match=said):
        header_of(text)


def test_sizes_that_are_numbers():
    header = header_of("f(x[3], y[n]) -> out[3,n]")
    assert (header.rule, header.letters) == ("(3),(n)->(3,n)", ("n",))
    assert op_check.shapes_of(header) == {"x": (3,), "y": (5,)}
