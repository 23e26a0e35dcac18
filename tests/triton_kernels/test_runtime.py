"""Launching in the interpreter: bounds, errors that name the kernel, bfloat16, the memo, users' own kernels."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

import triton_kernels
from triton_kernels import availability, check_ours, mode, runtime
from triton_kernels.interpreter import OutOfBounds
from triton_kernels.runtime import KernelError, Launch, Memo, Pointer, launch


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def scale_kernel(x_ptr, wide: tl.float64, narrow, n):
    i = tl.arange(0, 4)
    tl.store(x_ptr + i, tl.where(i == 0, wide, narrow.to(tl.float64)), mask=i < n)


@triton.jit
def dot_kernel(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def test_mode():
    assert mode() == runtime.mode() == "interpret"
    assert availability().importable
    assert availability().interpreted
    assert "TRITON_INTERPRET=1" in availability().reason
    with pytest.raises(RuntimeError, match="NumPy arrays are its device memory"):
        runtime.connect(object())
    with pytest.raises(RuntimeError, match="no CUDA host is connected"):
        runtime.host()


def test_the_package_alone_imports_no_triton():
    modules = "triton_kernels, triton_kernels.primitives, triton_kernels.tune.space"
    code = f"import sys, {modules}; triton_kernels.availability(); print('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_triton_words_say_so(monkeypatch):
    monkeypatch.setattr(triton_kernels.importlib.util, "find_spec", lambda name: None)
    assert not availability().importable
    assert "not installed" in availability().reason
    assert mode() is None


def test_an_old_triton_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(triton_kernels.importlib.metadata, "version", lambda name: "3.4.0")
    assert availability() == (False, False, "3.4.0", availability().reason)
    assert "older than 3.6" in availability().reason


def test_foreign_files_are_named(tmp_path):
    check_ours([str(tmp_path)])
    (tmp_path / "matmul_ogs.py").touch()
    with pytest.raises(ImportError, match=r"found matmul_ogs.py"):
        check_ours([str(tmp_path)])
    assert triton_kernels.DISTRIBUTION == "gradlab"


def test_an_access_past_the_end_is_caught():
    x, out = np.arange(10, dtype="f"), np.zeros(16, "f")
    with pytest.raises(OutOfBounds) as caught:
        launch(copy_kernel, (2,), (x, out), (12,), {"BLOCK": 8})
    text = str(caught.value)
    parts = [
        "kernel copy_kernel[grid=(2, 1, 1), BLOCK=8",
        "x_ptr=float32 (10,)",
        "out-of-bounds load of 4 bytes: 2 of 4 unmasked lanes in program (1, 0, 0)",
        "0 bytes past its end",
    ]
    for part in parts:
        assert part in text, text
    with pytest.raises(OutOfBounds, match="out-of-bounds store"):
        launch(copy_kernel, (1,), (out, x), (12,), {"BLOCK": 16})
    assert np.array_equal(x, np.arange(10))  # nothing was written


@triton.jit
def add_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + i, 1.0, mask=i < n)


@triton.jit
def swap_kernel(x_ptr, at):
    tl.atomic_cas(x_ptr + at, 0, 7)


def test_atomic_accesses_past_the_end_are_caught():
    x, whole = np.zeros(4, "f"), np.zeros(4, np.int32)
    launch(add_kernel, (1,), (x,), (4,), {"BLOCK": 8})
    assert (x == 1).all()
    with pytest.raises(OutOfBounds, match="out-of-bounds atomic of 4 bytes: 1 of 5 unmasked lanes"):
        launch(add_kernel, (1,), (x,), (5,), {"BLOCK": 8})
    assert (x == 1).all()
    launch(swap_kernel, (1,), (whole,), (3,), {})
    assert whole.tolist() == [0, 0, 0, 7]
    for at, where in ((4, "0 bytes past its end"), (-1, "4 bytes before its start")):
        with pytest.raises(OutOfBounds, match="out-of-bounds atomic of 4 bytes: 1 of 1 unmasked lanes") as caught:
            launch(swap_kernel, (1,), (whole,), (at,), {})
        assert where in str(caught.value)


def test_masked_lanes_may_point_anywhere():
    x, out = np.arange(10, dtype="f"), np.zeros(10, "f")
    launch(copy_kernel, (1,), (x, out), (10,), {"BLOCK": 1024})
    assert np.array_equal(x, out)


def test_a_reversed_view_is_in_bounds():
    x = np.arange(10, dtype="f")
    out = np.zeros(1, "f")
    launch(copy_kernel, (1,), (x[::-1], out), (1,), {"BLOCK": 1})
    assert out[0] == 9


def test_floats_are_as_wide_as_they_are_annotated():
    x = np.zeros(4)
    launch(scale_kernel, (1,), (x,), (0.1, 0.1, 2))
    assert x[0] == 0.1
    assert x[1] == np.float32(0.1)


def test_users_own_kernels_take_pointers_and_are_checked():
    x, out = np.arange(8, dtype="f"), np.zeros(8, "f")
    copy_kernel[(1,)](Pointer(x), Pointer(out), 8, BLOCK=8)
    assert np.array_equal(x, out)
    with pytest.raises(triton.runtime.errors.InterpreterError, match="out-of-bounds load"):
        copy_kernel[(1,)](Pointer(x), Pointer(np.zeros(64, "f")), 64, BLOCK=64)


def test_bfloat16_is_computed_and_rounded(rng):
    a, b = rng.standard_normal((2, 16, 16)).astype(ml_dtypes.bfloat16)
    out = np.empty((16, 16), "f")
    launch(dot_kernel, (1,), (a, b, out), (), {"N": 16})
    assert np.allclose(out, a.astype("f") @ b.astype("f"), rtol=1e-5, atol=1e-5)
    x = np.array([1.00390625], "f")  # halfway between two bfloat16 numbers: to even, where truncation gives the same
    up = np.array([1.01171875], "f")  # halfway again: to even is up, truncation is down
    out = np.empty(1, ml_dtypes.bfloat16)
    for value in (x, up):
        launch(copy_kernel, (1,), (value, out), (1,), {"BLOCK": 1})
        assert out[0] == value.astype(ml_dtypes.bfloat16)[0]


def test_errors_name_the_kernel_and_its_parameters():
    x = np.zeros(4, "f")
    with pytest.raises(KernelError, match="no constexpr named BLOK"):
        launch(copy_kernel, (1,), (x, x), (4,), {"BLOK": 4})
    with pytest.raises(KernelError, match="the kernel takes x_ptr, out_ptr, n, BLOCK; got 2 arrays"):
        launch(copy_kernel, (1,), (x, x), (4,))
    with pytest.raises(KernelError, match="floats come before integers"):
        launch(copy_kernel, (1,), (x, x), (4, 1.0), {"BLOCK": 4})
    with pytest.raises(KernelError, match="exceeds CUDA's"):
        launch(copy_kernel, (1, 70_000), (x, x), (4,), {"BLOCK": 4})
    with pytest.raises(TypeError, match="take NumPy arrays, got list"):
        Launch(copy_kernel, (1,), (4,), {"BLOCK": 4})(([1.0], x))
    with pytest.raises(KernelError, match=r"kernel copy_kernel.*ValueError"):
        launch(copy_kernel, (1,), (x, x), (4,), {"BLOCK": 3})  # no power of two


def test_an_empty_grid_launches_nothing():
    x, out = np.ones(4, "f"), np.zeros(4, "f")
    launch(copy_kernel, (0,), (x, out), (4,), {"BLOCK": 4})
    assert out.tolist() == [0, 0, 0, 0]


def test_launches_are_remembered_and_forgotten():
    runtime._generic.clear()
    x, out = np.arange(4, dtype="f"), np.zeros(4, "f")
    for _ in range(3):
        launch(copy_kernel, (1,), (x, out), (4,), {"BLOCK": 4})
    assert len(runtime._generic) == 1
    launch(copy_kernel, (1,), (x, out), (3,), {"BLOCK": 4})
    assert len(runtime._generic) == 2
    memo = Memo()
    for i in range(runtime._MAX_PLANS + 1):
        memo[i] = i
    assert len(memo) == 1
