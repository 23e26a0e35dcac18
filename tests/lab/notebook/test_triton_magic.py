"""`%%triton` in a shell without a kernel, in Triton's interpreter: an op with its gradient, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from IPython.core.error import UsageError

import core
import lab
from lab.notebook import need_triton, triton_magic
from triton_kernels import Availability

SETUP = """import core
import triton
import triton.language as tl
core.manual_seed(0)
"""
SQUARE = """%%triton square(x) -> out{options}
@triton.jit
def square(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, {forward}, mask=i < {n})
@triton.jit
def square_backward(g_ptr, x_ptr, grad_x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, g = tl.load(x_ptr + i, mask=i < n), tl.load(g_ptr + i, mask=i < n)
    tl.store(grad_x_ptr + i, {backward}, mask=i < n)
BLOCK = 16
def reference(x):
    return x * x
"""
SCALED = """%%triton scaled(x[n], w[n], a=2.0) -> out[n] --check
@triton.jit
def scaled_kernel(x, w, out, n, a, BLOCK: tl.constexpr = 8):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, a * tl.load(x + i, mask=i < n) * tl.load(w + i, mask=i < n), mask=i < n)
grid = lambda c: (triton.cdiv(c["n"], c["BLOCK"]),)
def backward(g, x, w, a):
    return a * g * w, a * g * x
def reference(x, w, a):
    return a * x * w
"""


def square(options="", forward="x * x", n="n", backward="2 * g * x"):
    return SQUARE.format(options=options, forward=forward, n=n, backward=backward)


@pytest.fixture(autouse=True)
def as_before():
    yield
    for name in [n for n in core.declare.op.table if n.startswith("notebook::")]:
        del core.declare.op.table[name]


@pytest.fixture
def made(run, shell):
    def made(text):
        """The op of a cell, and what the cell printed."""
        result, _, said = run(text)
        result.raise_error()
        return shell.user_ns[text.split("(")[0].split()[-1]], said

    return made


def test_an_op_with_its_gradient_in_a_second_kernel(made, run):
    op, said = made(square(" --check"))
    assert said.startswith("square(x) -> out: an op of Triton, its reference on the CPU, gradient by square_backward; ")
    assert "checked on float32 against its reference, the gradient against the reference's" in said
    x = core.arange(40.0, device="cuda").requires_grad_()
    y = op(x)
    assert (y.device.type, y.grad_fn.name()) == ("cuda", "SquareBackward0")
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), 2 * np.arange(40.0))
    assert op(core.tensor([3.0])).tolist() == [9.0]
    run("%%autograd --no-card\nx = core.rand(8, device='cuda', requires_grad=True)\nsquare(x).sum().backward()")
    rows = {row.kernel: row.backend for row in lab.last().kernels}
    assert rows["square"] == rows["square_backward"] == "Triton"


def test_sizes_numbers_a_grid_and_a_backward_in_python(made):
    op, said = made(SCALED)
    assert "gradient by its function backward" in said
    x, w = core.rand(3, 11, device="cuda").requires_grad_(), core.rand(11, device="cuda").requires_grad_()
    y = op(x, w, a=3.0)
    core.testing.assert_close(y.detach().cpu(), (3 * x * w).detach().cpu())
    y.sum().backward()
    core.testing.assert_close(w.grad.cpu(), 3 * x.detach().cpu().sum(0))
    assert op(core.ones(0, 11, device="cuda"), w).shape == (0, 11)


def test_an_empty_cell_help_and_the_example(run, made):
    assert triton_magic.EXAMPLE in run("%%triton")[2]
    assert "--reference NAME" in run("%%triton --help\nx = 1")[2]
    op, said = made(triton_magic.EXAMPLE)
    assert "the gradient against the reference's" in said
    assert op(core.tensor([-1.0, 3.0], device="cuda")).tolist() == [0.0, 9.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (square(" --check", forward="x * x * 1.001"), "square.x_ptr, .*in Triton's interpreter: .*results are wrong"),
        (square(" --check", n="n + 1"), "out-of-bounds store of 4 bytes: 1 of 16 unmasked lanes"),
        (square(" --check", backward="2.01 * g * x"), "square_backward.g_ptr.*results are wrong"),
        (square().replace("def square(", "def cube("), "no @triton.jit kernel square or square_kernel; there is cube"),
        (square().replace("BLOCK = 16\n", ""), "the cell says no BLOCK. Remedy: BLOCK = 256 in it"),
        (square().replace("square(x) ->", "square(z) ->"), "has no parameter z, which the header names"),
        (square().replace("grad_x_ptr", "dx_ptr"), "a gradient reads g and fills grad_x"),
        (square(" --check").replace("def reference", "def other"), "nothing says what square should compute"),
        (SCALED.replace("grid =", "size ="), "the cell says no grid. Remedy: grid = lambda c"),
        (SCALED.replace("backward(g, x, w, a)", "backward(g, x, w, b)"), "backward asks for b; it may ask for g, x, w"),
        (SCALED.replace("a * g * w,", "g * w,"), "the gradient of x on float32 is .* by the reference"),
        (SCALED.replace("scaled(x[n]", "scaled(x"), "either all arrays have sizes"),
    ],
)
def test_what_is_wrong_is_said(run, text, said):
    result, _, _ = run(text)
    assert isinstance(result.error_in_exec, UsageError)
    with pytest.raises(UsageError, match=f"%%triton: (.|\n)*{said}"):
        raise result.error_in_exec


def test_an_error_of_the_cell_is_the_cells(run):
    result, _, _ = run("%%triton f(x) -> y\nnobody")
    assert isinstance(result.error_in_exec, NameError)


def test_a_kernel_without_a_reference_refuses_the_cpu_and_a_dtype(made):
    op, said = made(square().replace("def reference", "def other"))
    assert "none on the CPU" in said
    with pytest.raises(
        RuntimeError, match=r"square is a Triton kernel\n(.|\n)*x.to\(\"cuda\"\), or a function named ref"
    ):
        op(core.ones(2))
    with pytest.raises(RuntimeError, match="square is a Triton kernel"):
        op(core.ones(2, device="cuda", dtype=core.complex64))


def test_a_grid_that_asks_for_what_there_is_not(made):
    op, _ = made(SCALED.replace(" --check", "").replace('c["n"]', 'c["N"]'))
    with pytest.raises(RuntimeError, match=r"the grid of scaled_kernel asks for 'N'\n(.|\n)*one of a, n, batch, BLOCK"):
        op(core.ones(3, device="cuda"), core.ones(3, device="cuda"))


def test_without_triton_the_reason_is_said(run, monkeypatch):
    gone = Availability(False, False, None, "the package triton is not installed")
    monkeypatch.setattr(need_triton, "availability", lambda: gone)
    result, _, _ = run(square())
    with pytest.raises(UsageError, match="%%triton: the package triton is not installed"):
        raise result.error_in_exec
