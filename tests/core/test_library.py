"""Custom ops: from Python, C text and a Triton kernel; their gradients, rules and kernels; the checker."""

from __future__ import annotations

import importlib.util
import os
import stat
from pathlib import Path

import numpy as np
import pytest

import core
from core import library
from core.autograd.opcheck import OpCheckError
from core.declare.compile_c import cache_folder

AXPY = """
void axpy(const real *x, const real *y, real *out, const int64_t *sizes, double a) {
    for (int64_t i = 0; i < sizes[0]; i++) out[i] = (real)a * x[i] + y[i];
}
"""
ROWS = """
void rowsum(const real *x, real *y, const int64_t *sizes) {
    for (int64_t b = 0; b < sizes[0]; b++) {
        real total = 0;
        for (int64_t i = 0; i < sizes[1]; i++) total += x[b * sizes[1] + i];
        y[b] = total;
    }
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield
    for name in [n for n in core.declare.op.table if n.startswith("test::")]:
        del core.declare.op.table[name]


def _kernel():
    spec = importlib.util.spec_from_file_location("triton_kernel", Path(__file__).with_name("triton_kernel.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice_kernel


def cube():
    @library.custom_op("test::cube", vjp=lambda g, x, k: 3 * k * g * x * x)
    def cube(x: core.Tensor, k: float = 1.0) -> core.Tensor:
        """k x³."""
        return k * x * x * x

    return cube


def test_python_with_a_vjp():
    op = cube()
    x = core.tensor([1.0, 2.0], dtype=core.float64, requires_grad=True)
    y = op(x, k=2.0)
    assert y.grad_fn.name() == "CubeBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 24.0]
    assert op.__doc__ == "k x³."
    assert set(library.opcheck(op, (x,), {"k": 0.5}).values()) == {"SUCCESS"}


def test_pytorchs_form_of_a_gradient():
    @library.custom_op("test::mul", mutates_args=())
    def mul(a: core.Tensor, b: core.Tensor) -> core.Tensor:
        return a * b

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a

    mul.register_autograd(backward, setup_context=setup_context)

    @mul.register_fake
    def _(a, b):
        return core.empty_like(a)

    a = core.rand(3, dtype=core.float64).requires_grad_()
    b = core.rand(3, dtype=core.float64).requires_grad_()
    assert set(library.opcheck(mul, (a, b)).values()) == {"SUCCESS"}


def test_several_results_and_a_shape_rule():
    @library.custom_op("test::minmax", shape="(n)->(),()")
    def minmax(x: core.Tensor) -> tuple[core.Tensor, core.Tensor]:
        return x.amin(-1), x.amax(-1)

    low, high = minmax(core.tensor([[3.0, 1.0], [5.0, 9.0]]))
    assert (low.tolist(), high.tolist()) == ([1.0, 5.0], [3.0, 9.0])
    with pytest.raises(RuntimeError, match="needs at least 1 dimension"):
        minmax(core.tensor(1.0))


def test_from_c():
    op = library.c_op("test::axpy", AXPY, inputs="x y", params={"a": 2.0}, vjp=(lambda g, a: a * g, lambda g: g),
                      samples=lambda rng: [((rng.random((3, 4)), rng.random((3, 4))), {"a": 3.0})])  # fmt: skip
    x = core.tensor([[1.0, 2.0]], requires_grad=True)
    y = op(x, core.ones(1, 2), a=3.0)
    assert y.tolist() == [[4.0, 7.0]]
    y.sum().backward()
    assert x.grad.tolist() == [[3.0, 3.0]]
    assert set(library.opcheck(op).values()) == {"SUCCESS"}
    assert "axpy_c" in str(core.backends.rows("test::axpy", "cpu"))
    with pytest.raises(TypeError, match="takes float32 and float64"):
        op(core.ones(2, dtype=core.int64), core.ones(2, dtype=core.int64))


def test_from_c_with_a_rule():
    @library.custom_op("test::rowsum", shape="(n)->()", vjp=lambda g, x_shape: g.unsqueeze(-1).expand(x_shape))
    def rowsum(x: core.Tensor) -> core.Tensor:
        return x.sum(-1)

    rowsum.register_c(ROWS)
    x = core.rand(2, 3, 4).requires_grad_()
    np.testing.assert_allclose(rowsum(x).detach().numpy(), x.detach().numpy().sum(-1), rtol=1e-6)
    assert set(library.opcheck(rowsum, (x,)).values()) == {"SUCCESS"}


def test_the_cache_is_private_and_used_again(tmp_path):
    op = library.c_op("test::axpy", AXPY, inputs="x y", params={"a": 1.0})
    op(core.ones(2), core.ones(2))
    folder = cache_folder()
    assert folder == tmp_path / "gradlab" / "kernels"
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    (file,) = folder.iterdir()
    written = file.stat().st_mtime_ns
    library.c_op("test::axpy", AXPY, inputs="x y", params={"a": 1.0})(core.ones(2), core.ones(2))
    assert [f.stat().st_mtime_ns for f in folder.iterdir()] == [written]
    folder.chmod(0o777)
    assert stat.S_IMODE(os.stat(cache_folder()).st_mode) == 0o700


def test_c_that_does_not_compile_or_has_no_such_function():
    op = library.c_op("test::broken", "void broken(const real *x) { y; }")
    with pytest.raises(RuntimeError, match=r"does not compile:\n(.|\n)*kernel.c:1"):
        op(core.ones(2))
    op = library.c_op("test::absent", "int unused;")
    with pytest.raises(RuntimeError, match="has no function 'absent'"):
        op(core.ones(2))
    assert not [f for f in cache_folder().iterdir() if f.stat().st_size == 0]


def test_from_a_triton_kernel():
    twice_kernel = _kernel()

    @library.custom_op("test::twice", vjp=lambda g: 2 * g)
    def twice(x: core.Tensor) -> core.Tensor:
        return x * 2

    @twice.register_triton
    def launch(x, y):
        n = x.array.size
        twice_kernel[((n + 127) // 128,)](x, y, n, BLOCK=128)

    x = core.arange(300.0, device="cuda").requires_grad_()
    y = twice(x)
    assert y.device.type == "cuda"
    np.testing.assert_array_equal(y.detach().cpu().numpy(), 2 * np.arange(300.0))
    y.sum().backward()
    assert (x.grad.cpu() == 2).all()
    assert library.opcheck(twice, (core.rand(5),))["test_kernels"] == "SUCCESS"


@pytest.mark.parametrize(("check", "broken"), [
    ("test_schema", lambda x: x.add_(1) * 1),
    ("test_schema", lambda x: core.from_numpy(np.random.default_rng().random(3).astype(x.numpy().dtype))),
    ("test_faketensor", lambda x: x[:2] * 1),
    ("test_layouts", lambda x: core.from_numpy(np.array(x.numpy().base if x.numpy().base is not None
                                                        and x.numpy().base.ndim else x.numpy()).reshape(-1)[:3])),
])  # fmt: skip
def test_the_checker_finds(check, broken):
    @library.custom_op("test::broken", shape="(n)->(n)")
    def op(x: core.Tensor) -> core.Tensor:
        return broken(x)

    x = core.tensor([1.0, 2.0, 3.0])
    assert library.opcheck(op, (x,), test_utils=check, raise_exception=False)[check] != "SUCCESS"
    with pytest.raises(Exception) as e:  # noqa: PT011 - it is whatever the check raises
        library.opcheck(op, (x,), test_utils=check)
    assert check in e.value.__notes__[0]


def test_the_checker_finds_a_gradient_that_is_slightly_wrong():
    @library.custom_op("test::wrong", vjp=lambda g, x: 2.001 * g * x)
    def wrong(x: core.Tensor) -> core.Tensor:
        return x * x

    with pytest.raises(core.autograd.gradcheck.__globals__["GradcheckError"]):
        library.opcheck(wrong, (core.rand(3).requires_grad_(),))

    @library.custom_op("test::none")
    def none(x: core.Tensor) -> core.Tensor:
        return x * x

    with pytest.raises(OpCheckError, match="requires a gradient, and the op has none"):
        library.opcheck(none, (core.rand(3).requires_grad_(),), test_utils="test_autograd_registration")


def test_the_checker_finds_a_kernel_that_differs():
    op = cube()
    op.register_kernel("cpu", lambda x, k: k * x * x * x * 1.01)
    with pytest.raises(OpCheckError, match="cpu Python"):
        library.opcheck(op, (core.ones(3),), test_utils="test_kernels")


def test_names_and_results_are_checked():
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op("plain", lambda x: x)
    with pytest.raises(NotImplementedError, match="change their arguments"):
        library.custom_op("test::a", lambda x: x, mutates_args=("x",))

    @library.custom_op("test::alias")
    def alias(x: core.Tensor) -> core.Tensor:
        return x.view(-1)

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        alias(core.ones(2))

    @library.custom_op("test::number")
    def number(x: core.Tensor) -> core.Tensor:
        return 1.0

    with pytest.raises(TypeError, match="must return Tensors"):
        number(core.ones(2))


def test_declaring_anew_takes_the_old_ones_place():
    op = cube()
    op.register_kernel("cpu", lambda x, k: x * 0)
    assert cube()(core.tensor([2.0])).tolist() == [8.0]


def test_a_gradient_of_complex_numbers_is_as_pytorch_wants_it() -> None:
    @core.library.custom_op("mine::complex_square", mutates_args=(), vjp=lambda g, x: g * (2 * x.conj()))
    def complex_square(x: core.Tensor) -> core.Tensor:
        return x * x

    z = core.tensor([1 + 2j, -1j], dtype=core.complex128, requires_grad=True)
    assert core.autograd.gradcheck(complex_square, z)
